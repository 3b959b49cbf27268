//! What is looked at to tell whether an etcd cluster is safe to lease from, and will stay so.
//!
//! A cluster whose database has grown to its quota takes no more writes, and raises an alarm. Mostly
//! it is history that fills it: etcd keeps every version of every key until somebody compacts it,
//! and does not do so by itself unless it is told.

use etcd_client::{AlarmAction, AlarmType, Client, Error, GetOptions, TxnOp};

use super::EtcdStore;
use super::http;
use crate::store::{Finding, StoreError};

/// The quota of a member that was not given another.
const QUOTA_DEFAULT: f64 = 2_147_483_648.0;
/// The gauge that a member tells its quota with. etcd 3.6 tells it in its status too.
const QUOTA_GAUGE: &str = "etcd_server_quota_backend_bytes ";
/// How much of the quota may be taken before it is time to do something.
const SHARE_MAX: f64 = 0.8;
/// How many revisions of history there may be. A lease leaves one to two kilobytes in each.
const HISTORY_MAX: i64 = 100_000;

/// How large the database of a member may become, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Quota {
    /// So large, as the member says.
    Told(f64),
    /// As large as the disk has room for.
    None,
    /// The member does not say.
    Unknown,
}

impl EtcdStore {
    pub(super) async fn findings(&self) -> Result<Vec<Finding>, StoreError> {
        let quorum = self.members.read(vec![TxnOp::get(self.paths.store(), None)]).await;
        let answer = match &quorum {
            Ok(_) => "a majority answers".to_owned(),
            Err(error) => error.to_string(),
        };
        let status = |mut client: Client| async move { client.status().await };
        let status = self.members.look(status).await?;
        let list = |mut client: Client| async move { client.member_list().await };
        let list = self.members.look(list).await?;
        let voting = list.members().iter().filter(|member| !member.is_learner()).count();
        let alarms = |mut client: Client| async move {
            client.alarm(AlarmAction::Get, AlarmType::None, None).await
        };
        let alarms = self.members.look(alarms).await?;
        let alarms = alarms.alarms().iter().map(|alarm| (alarm.alarm(), alarm.member_id()));
        let alarms: Vec<(AlarmType, u64)> = alarms.collect();
        let quota = self.quota(status.db_size_quota()).await;
        let cluster = quorum.as_ref().map_or(0, |found| found.at.history.server);
        let mut findings = vec![
            Finding::new("server", status.version(), "3.4 or later", true),
            Finding::new("cluster ID", &format!("{cluster:x}"), "any", true),
            Finding::new("quorum", &answer, "a majority answers", quorum.is_ok()),
            of_alarms(&alarms),
            of_size(status.db_size() as f64, status.raft_used_db_size() as f64, quota),
        ];
        if let Ok(found) = quorum {
            findings.push(self.of_history(found.at.revision).await?);
        }
        let members = format!("{voting} voting");
        findings.push(Finding::new("members", &members, "3 or more", voting >= 3).warning());
        Ok(findings)
    }

    /// The quota of the member that is asked, whose status tells this of it.
    async fn quota(&self, told: i64) -> Quota {
        if told > 0 {
            return Quota::Told(told as f64);
        }
        let Some(member) = self.members.plain_address() else { return Quota::Unknown };
        let metrics = http::get(&member, "/metrics").await;
        metrics.map_or(Quota::Unknown, |metrics| Quota::in_metrics(&metrics))
    }

    /// Whether history is compacted, of a cluster that has come to this revision. No member says up to
    /// where; but what is compacted cannot be read any more.
    async fn of_history(&self, revision: i64) -> Result<Finding, StoreError> {
        let old = revision - HISTORY_MAX;
        let is_long = old > 0 && self.can_be_read_at(old).await?;
        let (found, wanted) = if is_long {
            let wanted = "compacted: start etcd with --auto-compaction-retention=1h, then run \
                          `etcdctl defrag`; otherwise its database grows until it accepts no \
                          more writes";
            (format!("more than {HISTORY_MAX} revisions"), wanted)
        } else {
            (format!("at most {} revisions", revision.min(HISTORY_MAX)), "compacted")
        };
        Ok(Finding::new("history", &found, wanted, !is_long).warning())
    }

    async fn can_be_read_at(&self, revision: i64) -> Result<bool, StoreError> {
        let key = self.paths.store();
        let read = |mut client: Client| async move {
            match client.get(key, Some(GetOptions::new().with_revision(revision))).await {
                Ok(_) => Ok(true),
                Err(Error::GRpcStatus(status)) if status.message().contains("compacted") => {
                    Ok(false)
                }
                Err(error) => Err(error),
            }
        };
        self.members.look(read).await
    }
}

impl Quota {
    fn in_metrics(metrics: &str) -> Quota {
        let told = metrics.lines().find_map(|line| line.strip_prefix(QUOTA_GAUGE));
        match told.and_then(|told| told.trim().parse::<f64>().ok()) {
            Some(bytes) if bytes > 0.0 => Quota::Told(bytes),
            Some(bytes) if bytes < 0.0 => Quota::None,
            _ => Quota::Unknown,
        }
    }
}

/// Alarms, each with the member that has raised it.
fn of_alarms(alarms: &[(AlarmType, u64)]) -> Finding {
    if alarms.is_empty() {
        return Finding::new("alarms", "none", "none", true);
    }
    let raised = alarms.iter().map(|(alarm, member)| {
        let name = alarm.as_str_name();
        format!("{name} on member {member:x}")
    });
    let raised = raised.collect::<Vec<_>>().join(", ");
    let is_corrupt = alarms.iter().any(|(alarm, _)| *alarm == AlarmType::Corrupt);
    let wanted = if is_corrupt {
        "none: the data of its members differ; remove the member that is wrong and add it again, \
         or restore a backup and run `keymill space advance`"
    } else {
        "none: its database is full and accepts no writes; run `etcdctl compact`, `etcdctl defrag` \
         and `etcdctl alarm disarm`, and start etcd with --auto-compaction-retention=1h"
    };
    Finding::new("alarms", &raised, wanted, false)
}

/// The size of a member's database and what of it is in use, in bytes.
fn of_size(size: f64, in_use: f64, quota: Quota) -> Finding {
    let limit = match quota {
        Quota::Told(bytes) => format!("the quota is {}", megabytes(bytes)),
        Quota::None => "there is no quota".to_owned(),
        Quota::Unknown => format!("the quota is {} unless it was set", megabytes(QUOTA_DEFAULT)),
    };
    let found = format!("{}, {} in use; {limit}", megabytes(size), megabytes(in_use));
    let share = match quota {
        Quota::Told(bytes) => size / bytes,
        Quota::None => 0.0,
        Quota::Unknown => size / QUOTA_DEFAULT,
    };
    let wanted = if share < SHARE_MAX {
        "below 80 % of the quota"
    } else if in_use < size / 2.0 {
        // What was compacted is free, but stays part of the file.
        "below 80 % of the quota: run `etcdctl defrag` on each member"
    } else {
        "below 80 % of the quota: start etcd with --auto-compaction-retention=1h, then run `etcdctl \
         defrag` on each member, or raise --quota-backend-bytes"
    };
    Finding::new("database", &found, wanted, share < SHARE_MAX).warning()
}

fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Verdict;

    #[test]
    fn every_alarm_is_unsafe_and_says_what_to_do() {
        assert_eq!(of_alarms(&[]).verdict, Verdict::Safe);
        for (alarm, remedy) in [
            (AlarmType::Nospace, "etcdctl alarm disarm"),
            (AlarmType::Corrupt, "keymill space advance"),
        ] {
            let finding = of_alarms(&[(alarm, 0xab)]);
            assert_eq!(finding.verdict, Verdict::Unsafe);
            let named = format!("{} on member ab", alarm.as_str_name());
            assert!(finding.found == named && finding.wanted.contains(remedy), "{finding:?}");
        }
    }

    #[test]
    fn a_database_near_its_quota_is_a_warning_that_says_what_helps() {
        let quota = Quota::Told(100e6);
        for (size, in_use, quota, verdict, remedy) in [
            (79e6, 79e6, quota, Verdict::Safe, "80 %"),
            (81e6, 79e6, quota, Verdict::Warning, "--auto-compaction-retention"),
            (81e6, 20e6, quota, Verdict::Warning, "quota: run `etcdctl defrag`"),
            (1e12, 1e12, Quota::None, Verdict::Safe, "80 %"),
            (1.7e9, 1.7e9, Quota::Unknown, Verdict::Safe, "80 %"),
            (1.8e9, 1.8e9, Quota::Unknown, Verdict::Warning, "--quota-backend-bytes"),
        ] {
            let finding = of_size(size, in_use, quota);
            assert_eq!(finding.verdict, verdict, "{finding:?}");
            assert!(finding.wanted.contains(remedy), "{finding:?}");
        }
    }

    #[test]
    fn the_quota_is_found_among_the_metrics_of_a_member() {
        let metrics = |line: &str| format!("HTTP/1.0 200 OK\r\n\r\n# HELP x\netcd_x 1\n{line}\n");
        for (line, expected) in [
            ("etcd_server_quota_backend_bytes 1.6777216e+07", Quota::Told(16_777_216.0)),
            ("etcd_server_quota_backend_bytes -1", Quota::None),
            ("etcd_server_quota_backend_bytes 0", Quota::Unknown),
            ("# TYPE etcd_server_quota_backend_bytes gauge", Quota::Unknown),
            ("", Quota::Unknown),
        ] {
            assert_eq!(Quota::in_metrics(&metrics(line)), expected, "{line}");
        }
    }
}
