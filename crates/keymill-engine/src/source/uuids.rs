//! UUIDs: keys of 128 bits, which no store has to know.
//!
//! `operations` takes from it; what a UUID tells is in `operations/uuids.rs`.

use uuid::Uuid;

use crate::space::Definition;

/// How long a UUID is as text.
pub(crate) const UUID_LEN: usize = uuid::fmt::Hyphenated::LENGTH;

/// Which UUIDs a space hands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uuids {
    /// Version 4: random.
    Random,
    /// Version 7: in the order of time, also within a millisecond of one instance.
    ByTime,
}

impl Uuids {
    /// Those of a definition whose kind they are.
    pub(crate) fn of(definition: &Definition) -> Uuids {
        match definition.uuid_version {
            Some(4) => Uuids::Random,
            _ => Uuids::ByTime,
        }
    }

    /// Gives so many new ones to `each`.
    pub(crate) fn make(self, count: u32, mut each: impl FnMut(&[u8])) {
        let mut text = [0; UUID_LEN];
        for _ in 0..count {
            let uuid = match self {
                Uuids::Random => Uuid::new_v4(),
                Uuids::ByTime => Uuid::now_v7(),
            };
            each(uuid.hyphenated().encode_lower(&mut text).as_bytes());
        }
    }

    /// Whether its UUIDs are in the order of time.
    pub(crate) fn are_by_time(self) -> bool {
        self == Uuids::ByTime
    }
}
