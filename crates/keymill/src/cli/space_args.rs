//! The settings of a keyspace, as the command line takes them.
//!
//! `space create` reads them, and `From` makes of them what the engine understands. Values are checked there.

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use keymill_engine::space::digest::Normalize;
use keymill_engine::space::{Audit, Kind, SpaceSpec};

/// A keyspace as somebody typed it; whatever is left out has its default.
#[derive(Debug, Clone, Args)]
pub(super) struct SpaceArgs {
    /// Where the keys come from [default: shuffled]
    #[arg(long)]
    kind: Option<KindArg>,
    /// base62, base58, base36, base32, base64url, hex, decimal, safe, or the characters
    /// themselves [default: base62; decimal for plain integers, length 0]
    #[arg(long)]
    alphabet: Option<String>,
    /// How many characters the number takes; 0 writes plain integers [default: 7]
    #[arg(long)]
    length: Option<u8>,
    /// What every key begins with
    #[arg(long)]
    prefix: Option<String>,
    /// A hyphen after every so many characters; 0 for none [default: 0]
    #[arg(long)]
    group: Option<u8>,
    /// Whether a check character ends every key [default: false]
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    check: Option<bool>,
    /// The distance between two numbers: more than 1 shares one keyspace among stores
    /// [default: 1]
    #[arg(long)]
    step: Option<u64>,
    /// The first number, below `step` [default: 0]
    #[arg(long)]
    offset: Option<u64>,
    /// With kind digest: which inputs count as one [default: none]
    #[arg(long)]
    normalize: Option<NormalizeArg>,
    /// With kind snowflake: the bits of time, worker and sequence, such as 41/10/12 or
    /// 39/s8/w16@10ms, or twitter, sonyflake, instagram, javascript [default: 41/10/12]
    #[arg(long)]
    layout: Option<String>,
    /// With kind snowflake: where time begins [default: 2025-01-01T00:00:00Z]
    #[arg(long, value_name = "TIME", value_parser = super::args::parse_epoch)]
    epoch: Option<Timestamp>,
    /// With kind uuid: 7, in the order of time, or 4, random [default: 7]
    #[arg(long, value_name = "VERSION")]
    uuid_version: Option<u8>,
    /// The first ordinal to grant, for a keyspace that moves here from another store; only when it
    /// is created [default: 0]
    #[arg(long, value_name = "ORDINAL")]
    start: Option<u64>,
    /// The fewest keys an instance leases at once; changeable [default: 1000]
    #[arg(long)]
    lease_size_min: Option<u64>,
    /// The most keys an instance leases at once; changeable [default: 100000000]
    #[arg(long)]
    lease_size_max: Option<u64>,
    /// For how many seconds of demand an instance holds keys; changeable [default: 900]
    #[arg(long)]
    horizon_seconds: Option<u64>,
    /// Whether keys that the blocklist matches are skipped; changeable [default: true]
    #[arg(long)]
    blocklist: Option<bool>,
    /// Record leases and claims (batch), or every key before it is handed out (key); changeable
    /// [default: batch]
    #[arg(long)]
    audit: Option<AuditArg>,
    /// Fill a pool that has fewer keys than this, once an instance has taken from it; with 0 only
    /// `pool fill` does; changeable [default: 0]
    #[arg(long, value_name = "KEYS")]
    low_water: Option<u64>,
    /// How long a pool's key is valid once it is handed out; 0 for ever; changeable [default: 0]
    #[arg(long, value_name = "SECONDS")]
    ttl_seconds: Option<u64>,
    /// With audit key, when a pool's keys that were reserved and not handed out are free again;
    /// changeable [default: 300]
    #[arg(long, value_name = "SECONDS")]
    reserve_seconds: Option<u64>,
    /// With kind snowflake, how far ahead an instance holds its worker: how long it can continue
    /// without the store, and how long the worker stays unused after a crash; changeable [default: 60]
    #[arg(long, value_name = "SECONDS")]
    window_seconds: Option<u64>,
}

/// Where a space's keys come from.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum KindArg {
    /// Leased ordinals through FF1: unguessable, nothing stored per unused key.
    Shuffled,
    /// Leased ordinals written as they are.
    Sequential,
    /// Shuffled keys that are written out in advance, and keys that the user imports: rows that
    /// move from one table to another.
    Pooled,
    /// Keys made from inputs: the same input always gives the same key.
    Digest,
    /// Numbers made of the time, the instance and a sequence, ordered by time.
    Snowflake,
    /// UUIDs, which are not recorded.
    Uuid,
}

/// Which inputs count as the same one.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum NormalizeArg {
    /// Those that are equal byte by byte.
    None,
    /// URLs with one normal form by RFC 3986.
    Url,
    /// URLs with one normal form once everything printable in them is decoded.
    UrlDecoded,
}

/// What is recorded of keys that are handed out.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum AuditArg {
    /// The leases and claims that they come from.
    Batch,
    /// Every key with its time and its caller, before it is handed out.
    Key,
}

impl From<SpaceArgs> for SpaceSpec {
    fn from(args: SpaceArgs) -> SpaceSpec {
        SpaceSpec {
            kind: args.kind.map(Into::into),
            alphabet: args.alphabet,
            length: args.length,
            prefix: args.prefix,
            group: args.group,
            check: args.check,
            step: args.step,
            offset: args.offset,
            normalize: args.normalize.map(Into::into),
            layout: args.layout,
            epoch: args.epoch,
            uuid_version: args.uuid_version,
            start: args.start,
            lease_size_min: args.lease_size_min,
            lease_size_max: args.lease_size_max,
            horizon_seconds: args.horizon_seconds,
            blocklist: args.blocklist,
            audit: args.audit.map(Into::into),
            low_water: args.low_water,
            ttl_seconds: args.ttl_seconds,
            reserve_seconds: args.reserve_seconds,
            window_seconds: args.window_seconds,
        }
    }
}

impl From<KindArg> for Kind {
    fn from(arg: KindArg) -> Kind {
        match arg {
            KindArg::Shuffled => Kind::Shuffled,
            KindArg::Sequential => Kind::Sequential,
            KindArg::Pooled => Kind::Pooled,
            KindArg::Digest => Kind::Digest,
            KindArg::Snowflake => Kind::Snowflake,
            KindArg::Uuid => Kind::Uuid,
        }
    }
}

impl From<NormalizeArg> for Normalize {
    fn from(arg: NormalizeArg) -> Normalize {
        match arg {
            NormalizeArg::None => Normalize::None,
            NormalizeArg::Url => Normalize::Url,
            NormalizeArg::UrlDecoded => Normalize::UrlDecoded,
        }
    }
}

impl From<AuditArg> for Audit {
    fn from(arg: AuditArg) -> Audit {
        match arg {
            AuditArg::Batch => Audit::Batch,
            AuditArg::Key => Audit::Key,
        }
    }
}
