//! Instances in etcd: which there are, and which of them are running.
//!
//! Every write leaves history in etcd until that is compacted, so a heartbeat writes nothing. An
//! instance is put on record when it appears, when its address changes, when it stops, and once an
//! hour. That it is running shows in a key of its own, its sign of life, which is attached to a lease of etcd:
//! to keep such a lease alive changes no key. When the lease ends, etcd removes the sign.
//!
//! Nothing but the list of instances looks at signs. A lease of ordinals or a window never ends
//! because a sign has: an instance that was paused for longer goes on with what it holds, and
//! makes itself a new sign.

use std::collections::HashMap;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use etcd_client::{GetOptions, PutOptions, TxnOp};
use jiff::Timestamp;

use super::EtcdStore;
use super::docs::InstanceDoc;
use super::key_paths::{beyond, end_of};
use crate::instance::Instance;
use crate::store::values::{from_json, json, now, time};
use crate::store::{Beat, InstancePage, InstanceRecord, Instances, Pulse, StoreError};

/// How long a sign of life stays after a heartbeat: three of those, as they are by default.
const SIGN_MIN: Duration = Duration::from_secs(15);
/// The longest that a sign may stay, where heartbeats are rare.
const SIGN_MAX: Duration = Duration::from_secs(3_600);
/// How often an instance that is running is put on record again. When one is killed, this is how
/// far its last time on record may lie behind.
const RECORD_EVERY: Duration = Duration::from_secs(3_600);

/// What this process has told etcd of an instance.
#[derive(Debug, Clone)]
pub(super) struct Sign {
    /// The lease of etcd that its sign of life is attached to.
    lease: i64,
    address: Option<String>,
    /// When it was put on record with that address; never, under this lease, where it was not.
    recorded_at: Option<Instant>,
    beat_at: Instant,
}

impl Sign {
    fn is_on_record(&self, address: Option<&str>) -> bool {
        let is_recent = self.recorded_at.is_some_and(|at| at.elapsed() < RECORD_EVERY);
        is_recent && self.address.as_deref() == address
    }
}

#[async_trait]
impl Instances for EtcdStore {
    async fn heartbeat(&self, pulse: &Pulse) -> Result<Beat, StoreError> {
        // Reading asks another member where one does not answer, and so does what follows then.
        let beat = self.beat(pulse).await?;
        self.report_life(pulse).await?;
        Ok(beat)
    }

    /// Of one whose sign of life is there, the lease of the sign tells when it was last seen, to the second; of any
    /// other, the last time on record.
    async fn instances(&self, page: &InstancePage) -> Result<Vec<InstanceRecord>, StoreError> {
        let mut from = String::new();
        if let Some(id) = &page.after {
            let age = self.members.read(vec![TxnOp::get(self.paths.age(id), None)]).await?;
            let Some(started) = age.value(0).and_then(|age| age.parse::<u64>().ok()) else {
                return Ok(Vec::new());
            };
            from = beyond(&format!("{started:020}/{id}"));
        }
        let (records, signs) = (self.paths.instances(), self.paths.signs());
        // Every sign is that of an instance on record, so as many of them reach at least as far.
        let get = |all: &str| {
            let limit = i64::from(page.limit);
            let options = GetOptions::new().with_range(end_of(all)).with_limit(limit);
            TxnOp::get(format!("{all}{from}"), Some(options))
        };
        let found = self.members.read(vec![get(&records), get(&signs)]).await?;
        let leases = found.rows(1).iter().filter_map(|row| {
            let of = row.key_str().ok()?.strip_prefix(signs.as_str())?;
            Some((of, row.lease()))
        });
        let leases: HashMap<&str, i64> = leases.collect();
        let mut instances = Vec::with_capacity(found.count(0));
        for (key, value) in found.pairs(0) {
            let doc: InstanceDoc = from_json(value)?;
            let InstanceDoc { instance, address, mut seen_at, stopped_at } = doc;
            let lease = key.strip_prefix(records.as_str()).and_then(|of| leases.get(of));
            if let Some(lease) = lease
                && let Some(kept_at) = self.kept_alive_at(*lease).await?
            {
                seen_at = seen_at.max(kept_at);
            }
            instances.push(InstanceRecord { instance, address, seen_at, stopped_at });
        }
        Ok(instances)
    }
}

impl EtcdStore {
    /// Reports that an instance is running, or that it has stopped.
    async fn report_life(&self, pulse: &Pulse) -> Result<(), StoreError> {
        let id = &pulse.instance.id;
        let known = self.signs().get(id).cloned();
        let known_address = match &known {
            Some(sign) => sign.address.clone(),
            None => self.address_on_record(&pulse.instance).await?,
        };
        let address = pulse.address.clone().or(known_address);
        if pulse.stopping {
            self.record_stop(&pulse.instance, address).await?;
            self.signs().remove(id);
            if let Some(sign) = known {
                // Nothing is attached to it any more, and if it is not revoked it ends by itself.
                let _ = self.members.revoke(sign.lease).await;
            }
            return Ok(());
        }
        let is_alive = match &known {
            Some(sign) => self.members.keep_alive(sign.lease).await?,
            None => false,
        };
        let mut sign = match known {
            Some(sign) if is_alive => sign,
            // New, or paused for longer than its sign stayed.
            ended => self.new_sign(ended.map(|sign| sign.beat_at.elapsed())).await?,
        };
        sign.beat_at = Instant::now();
        if !sign.is_on_record(address.as_deref()) {
            self.record_life(&pulse.instance, address.clone(), sign.lease).await?;
            (sign.address, sign.recorded_at) = (address, Some(Instant::now()));
        }
        self.signs().insert(id.clone(), sign);
        Ok(())
    }

    /// A lease of etcd for a sign of life. It is longer where the heartbeat before was so long ago:
    /// with rare heartbeats every one of them would find its sign gone otherwise, and write.
    async fn new_sign(&self, since_last: Option<Duration>) -> Result<Sign, StoreError> {
        let stays = since_last.unwrap_or_default().saturating_mul(3).clamp(SIGN_MIN, SIGN_MAX);
        let lease = self.members.grant(i64::try_from(stays.as_secs()).unwrap_or(i64::MAX)).await?;
        Ok(Sign { lease, address: None, recorded_at: None, beat_at: Instant::now() })
    }

    async fn address_on_record(&self, instance: &Instance) -> Result<Option<String>, StoreError> {
        let key = self.paths.instance(started(instance), &instance.id);
        let found = self.members.read(vec![TxnOp::get(key, None)]).await?;
        let doc: Option<InstanceDoc> = found.value(0).map(from_json).transpose()?;
        Ok(doc.and_then(|doc| doc.address))
    }

    /// Puts an instance that is running on record, with its sign of life.
    async fn record_life(
        &self,
        instance: &Instance,
        address: Option<String>,
        lease: i64,
    ) -> Result<(), StoreError> {
        let sign = self.paths.sign(started(instance), &instance.id);
        let mut writes = self.record_of(instance, address, None);
        writes.push(TxnOp::put(sign, "", Some(PutOptions::new().with_lease(lease))));
        self.members.write(writes).await
    }

    /// Puts on record that an instance has stopped, and removes its sign of life.
    async fn record_stop(
        &self,
        instance: &Instance,
        address: Option<String>,
    ) -> Result<(), StoreError> {
        let sign = self.paths.sign(started(instance), &instance.id);
        let mut writes = self.record_of(instance, address, Some(time(now())));
        writes.push(TxnOp::delete(sign, None));
        self.members.write(writes).await
    }

    fn record_of(
        &self,
        instance: &Instance,
        address: Option<String>,
        stopped_at: Option<Timestamp>,
    ) -> Vec<TxnOp> {
        let (started, id) = (started(instance), &instance.id);
        let seen_at = stopped_at.unwrap_or_else(|| time(now()));
        let doc = InstanceDoc { instance: instance.clone(), address, seen_at, stopped_at };
        vec![
            TxnOp::put(self.paths.instance(started, id), json(&doc), None),
            TxnOp::put(self.paths.age(id), started.to_string(), None),
        ]
    }

    /// When a lease of etcd was last kept alive: as long ago as its time has run down since.
    async fn kept_alive_at(&self, lease: i64) -> Result<Option<Timestamp>, StoreError> {
        let times = self.members.time_to_live(lease).await?;
        let passed_ms = |(whole, left): (i64, i64)| (whole - left).max(0).saturating_mul(1_000);
        Ok(times.map(|times| time(now().saturating_sub(passed_ms(times)))))
    }

    fn signs(&self) -> MutexGuard<'_, HashMap<String, Sign>> {
        self.signs.lock().expect("nothing panics while it is held")
    }
}

/// When an instance started, as its key has it.
fn started(instance: &Instance) -> u64 {
    instance.started_at.as_millisecond().unsigned_abs()
}
