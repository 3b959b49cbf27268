//! Messages of the contract from what the engine says, and the other way round.
//!
//! One place for both directions: a setting that is added to the engine is missing here until the compiler is content.

use std::borrow::Cow;

use jiff::Timestamp;
use keymill_engine::instance::Instance;
use keymill_engine::operations::{
    Explanation, LeaseRecord, NameRecord, Purpose, SpaceReport, State, UsedKey,
};
use keymill_engine::space::digest::Normalize;
use keymill_engine::space::{Audit, Definition, Kind, SpaceSpec, Tuning};
use keymill_proto::v1;

use crate::front::http::Problem;
use crate::front::http::page::{LIMIT_DEFAULT, LIMIT_MAX, after as checked};

/// Where a page begins, and how long it is.
pub(super) fn page(after: String, limit: Option<u32>) -> Result<(Option<String>, u32), Problem> {
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        let detail = format!("`limit` must be a whole number from 1 to {LIMIT_MAX}");
        return Err(Problem::bad_parameter(detail));
    }
    let after = Some(after).filter(|after| !after.is_empty()).map(Cow::Owned);
    Ok((checked(after)?, limit))
}

/// The settings of a request.
pub(super) fn spec(settings: v1::SpaceSettings) -> Result<SpaceSpec, Problem> {
    let v1::SpaceSettings {
        kind,
        alphabet,
        length,
        prefix,
        group,
        check,
        step,
        offset,
        normalize,
        layout,
        epoch,
        uuid_version,
        start,
        lease_size_min,
        lease_size_max,
        horizon_seconds,
        blocklist,
        audit,
        low_water,
        ttl_seconds,
        reserve_seconds,
        window_seconds,
    } = settings;
    Ok(SpaceSpec {
        kind: kind.map(kind_from).transpose()?,
        alphabet,
        length: length.map(|it| small("length", it)).transpose()?,
        prefix,
        group: group.map(|it| small("group", it)).transpose()?,
        check,
        step,
        offset,
        normalize: normalize.map(normalize_from).transpose()?,
        layout,
        epoch: epoch.map(time_from).transpose()?,
        uuid_version: uuid_version.map(|it| small("uuid_version", it)).transpose()?,
        start,
        lease_size_min,
        lease_size_max,
        horizon_seconds,
        blocklist,
        audit: audit.map(audit_from).transpose()?,
        low_water,
        ttl_seconds,
        reserve_seconds,
        window_seconds,
    })
}

fn kind_from(kind: i32) -> Result<Kind, Problem> {
    Ok(match v1::Kind::try_from(kind) {
        Ok(v1::Kind::Shuffled) => Kind::Shuffled,
        Ok(v1::Kind::Sequential) => Kind::Sequential,
        Ok(v1::Kind::Pooled) => Kind::Pooled,
        Ok(v1::Kind::Digest) => Kind::Digest,
        Ok(v1::Kind::Snowflake) => Kind::Snowflake,
        Ok(v1::Kind::Uuid) => Kind::Uuid,
        Ok(v1::Kind::Unspecified) | Err(_) => return Err(bad_value("kind", kind)),
    })
}

fn normalize_from(normalize: i32) -> Result<Normalize, Problem> {
    Ok(match v1::Normalize::try_from(normalize) {
        Ok(v1::Normalize::None) => Normalize::None,
        Ok(v1::Normalize::Url) => Normalize::Url,
        Ok(v1::Normalize::UrlDecoded) => Normalize::UrlDecoded,
        Ok(v1::Normalize::Unspecified) | Err(_) => return Err(bad_value("normalize", normalize)),
    })
}

fn audit_from(audit: i32) -> Result<Audit, Problem> {
    Ok(match v1::Audit::try_from(audit) {
        Ok(v1::Audit::Batch) => Audit::Batch,
        Ok(v1::Audit::Key) => Audit::Key,
        Ok(v1::Audit::Unspecified) | Err(_) => return Err(bad_value("audit", audit)),
    })
}

fn bad_value(setting: &str, value: i32) -> Problem {
    let detail = format!("`{setting}` cannot be {value}; leave it out for the default");
    Problem::bad_request("bad_definition", detail)
}

fn small(setting: &str, value: u32) -> Result<u8, Problem> {
    u8::try_from(value).map_err(|_| {
        let detail = format!("`{setting}` must be at most 255, not {value}");
        Problem::bad_request("bad_definition", detail)
    })
}

fn time_from(time: keymill_proto::Timestamp) -> Result<Timestamp, Problem> {
    Timestamp::new(time.seconds, time.nanos).map_err(|_| {
        let detail = "`epoch` must be a time from year 1 to 9999".to_owned();
        Problem::bad_request("bad_definition", detail)
    })
}

/// A time of the engine's.
pub(super) fn time(time: Timestamp) -> keymill_proto::Timestamp {
    let (seconds, nanos) = (time.as_second(), time.subsec_nanosecond());
    // Before 1970, jiff counts both from the end; the contract counts nanoseconds forward.
    match nanos {
        0.. => keymill_proto::Timestamp { seconds, nanos },
        _ => keymill_proto::Timestamp { seconds: seconds - 1, nanos: nanos + 1_000_000_000 },
    }
}

/// Where a key came from.
pub(super) fn explanation(space: String, asked: String, found: Explanation) -> v1::Explanation {
    v1::Explanation {
        space,
        key: found.key.unwrap_or(asked),
        state: state(found.state).into(),
        reason: found.reason,
        ordinal: found.ordinal,
        number: found.number.map(|number| number.to_string()),
        time: found.time.map(time),
        worker: found.id.map(|id| id.worker),
        sequence: found.id.map(|id| id.sequence),
        lease: found.lease.map(lease),
        used: found.used.map(used_key),
    }
}

fn state(state: State) -> v1::KeyState {
    match state {
        State::Invalid => v1::KeyState::Invalid,
        State::Unissued => v1::KeyState::Unissued,
        State::Leased => v1::KeyState::Leased,
        State::Issued => v1::KeyState::Issued,
        State::Skipped => v1::KeyState::Skipped,
        State::Alias => v1::KeyState::Alias,
        State::Imported => v1::KeyState::Imported,
        State::Available => v1::KeyState::Available,
        State::Reserved => v1::KeyState::Reserved,
        State::Retired => v1::KeyState::Retired,
        State::Unknown => v1::KeyState::Unknown,
    }
}

/// A lease.
fn lease(record: LeaseRecord) -> v1::Lease {
    let purpose = match record.purpose {
        Purpose::Lease => v1::LeasePurpose::Lease,
        Purpose::Advance => v1::LeasePurpose::Advance,
        Purpose::Fill => v1::LeasePurpose::Fill,
        Purpose::Window => v1::LeasePurpose::Window,
    };
    v1::Lease {
        space: record.space,
        lease: record.lease,
        start: record.ordinals.start,
        end: record.ordinals.end,
        purpose: purpose.into(),
        closed_at_ordinal: record.closed_at_ordinal,
        holder: Some(instance(record.holder)),
        granted_at: Some(time(record.granted_at)),
        closed_at: record.closed_at.map(time),
    }
}

fn instance(instance: Instance) -> v1::Instance {
    let Instance { id, host, pid, version, started_at } = instance;
    v1::Instance { id, host, pid, version, started_at: Some(time(started_at)) }
}

/// A used key.
pub(super) fn used_key(used: UsedKey) -> v1::UsedKey {
    let UsedKey { key, used_at, caller, instance, expires_at, retired_at, .. } = used;
    v1::UsedKey {
        key,
        used_at: Some(time(used_at)),
        caller,
        instance,
        expires_at: expires_at.map(time),
        retired_at: retired_at.map(time),
    }
}

/// An alias.
pub(super) fn alias(name: NameRecord) -> v1::Alias {
    let NameRecord { space, key, owner, created_at, .. } = name;
    v1::Alias { space, alias: key, owner, created_at: Some(time(created_at)) }
}

/// A keyspace.
pub(super) fn space(report: SpaceReport) -> v1::Space {
    let SpaceReport { record, .. } = report;
    v1::Space {
        name: record.name,
        grown: record.definition.grown.iter().copied().map(u32::from).collect(),
        settings: Some(settings(record.definition, &record.tuning)),
        importing: record.tuning.importing,
        exported_for: record.tuning.exported_for,
        fingerprint: record.fingerprint,
        sealed: record.sealed,
        created_at: Some(time(record.created_at)),
        capacity: record.capacity,
        next: record.mark.next,
        leased: report.leased,
        named: report.named,
        remaining: report.remaining,
        available: report.available,
        at_hand: report.at_hand,
        density: report.density,
        rate: report.rate,
        leased_rate: report.leased_rate,
        exhausted_at: report.exhausted_at.map(time),
        runs_out_at: report.runs_out_at.map(time),
    }
}

/// The settings of a keyspace that exists. A setting that its kind does not have is left out.
fn settings(definition: Definition, tuning: &Tuning) -> v1::SpaceSettings {
    let Definition {
        kind,
        alphabet,
        length,
        prefix,
        group,
        check,
        step,
        offset,
        normalize,
        layout,
        epoch,
        uuid_version,
        grown: _,
    } = definition;
    let Tuning {
        lease_size_min,
        lease_size_max,
        horizon_seconds,
        blocklist,
        audit,
        low_water,
        ttl_seconds,
        reserve_seconds,
        window_seconds,
        importing: _,
        exported_for: _,
    } = *tuning;
    let kind = match kind {
        Kind::Shuffled => v1::Kind::Shuffled,
        Kind::Sequential => v1::Kind::Sequential,
        Kind::Pooled => v1::Kind::Pooled,
        Kind::Digest => v1::Kind::Digest,
        Kind::Snowflake => v1::Kind::Snowflake,
        Kind::Uuid => v1::Kind::Uuid,
    };
    let normalize = match normalize {
        Normalize::None => v1::Normalize::None,
        Normalize::Url => v1::Normalize::Url,
        Normalize::UrlDecoded => v1::Normalize::UrlDecoded,
    };
    let audit = match audit {
        Audit::Batch => v1::Audit::Batch,
        Audit::Key => v1::Audit::Key,
    };
    v1::SpaceSettings {
        kind: Some(kind.into()),
        alphabet: Some(alphabet),
        length: Some(length.into()),
        prefix: Some(prefix),
        group: Some(group.into()),
        check: Some(check),
        step: Some(step),
        offset: Some(offset),
        normalize: (kind == v1::Kind::Digest).then_some(normalize.into()),
        layout,
        epoch: epoch.map(time),
        uuid_version: uuid_version.map(u32::from),
        start: None,
        lease_size_min: Some(lease_size_min),
        lease_size_max: Some(lease_size_max),
        horizon_seconds: Some(horizon_seconds),
        blocklist: Some(blocklist),
        audit: Some(audit.into()),
        low_water: Some(low_water),
        ttl_seconds: Some(ttl_seconds),
        reserve_seconds: Some(reserve_seconds),
        window_seconds: Some(window_seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_an_answer_can_be_sent_back() {
        for kind in [
            Kind::Shuffled,
            Kind::Sequential,
            Kind::Pooled,
            Kind::Digest,
            Kind::Snowflake,
            Kind::Uuid,
        ] {
            let definition = Definition { prefix: "a_".to_owned(), ..Definition::of_kind(kind) };
            let tuning = Tuning { low_water: 7, audit: Audit::Key, ..Tuning::default() };
            let back = spec(settings(definition.clone(), &tuning)).unwrap();
            assert_eq!(back.definition(), definition, "{kind:?}");
            assert_eq!(back.tuning_over(&Tuning::default()), tuning, "{kind:?}");
        }
        assert_eq!(spec(v1::SpaceSettings::default()).unwrap(), SpaceSpec::default());
    }

    #[test]
    fn settings_that_the_engine_does_not_have_are_refused() {
        let default = v1::SpaceSettings::default;
        for (settings, says) in [
            (v1::SpaceSettings { kind: Some(0), ..default() }, "kind"),
            (v1::SpaceSettings { kind: Some(99), ..default() }, "kind"),
            (v1::SpaceSettings { audit: Some(-1), ..default() }, "audit"),
            (v1::SpaceSettings { normalize: Some(7), ..default() }, "normalize"),
            (v1::SpaceSettings { length: Some(256), ..default() }, "length"),
            (
                v1::SpaceSettings {
                    epoch: Some(keymill_proto::Timestamp { seconds: i64::MAX, nanos: 0 }),
                    ..default()
                },
                "epoch",
            ),
        ] {
            let problem = spec(settings).unwrap_err();
            assert_eq!(problem.code(), "bad_definition");
            assert!(problem.detail().contains(says), "{}", problem.detail());
        }
    }

    #[test]
    fn times_count_nanoseconds_forward() {
        for text in ["2026-11-16T00:00:00.5Z", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59.25Z"] {
            let at: Timestamp = text.parse().unwrap();
            let told = time(at);
            assert!((0..1_000_000_000).contains(&told.nanos), "{text}");
            assert_eq!(time_from(told).unwrap(), at);
        }
    }

    #[test]
    fn pages_have_the_bounds_that_they_have_over_http() {
        assert_eq!(page(String::new(), None).unwrap(), (None, LIMIT_DEFAULT));
        assert_eq!(page("a".to_owned(), Some(7)).unwrap(), (Some("a".to_owned()), 7));
        for (after, limit) in [("", 0), ("", LIMIT_MAX + 1), ("a\nb", 1), (&"x".repeat(256), 1)] {
            assert_eq!(page(after.to_owned(), Some(limit)).unwrap_err().code(), "bad_parameter");
        }
    }
}
