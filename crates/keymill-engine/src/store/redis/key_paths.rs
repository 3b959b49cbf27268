//! The names of keys in Redis.

/// Where a store begins.
#[derive(Debug)]
pub(super) struct KeyPaths {
    prefix: String,
}

impl KeyPaths {
    pub(super) fn under(prefix: &str) -> KeyPaths {
        KeyPaths { prefix: prefix.to_owned() }
    }

    /// A space's own key; all its others have the same hash tag.
    pub(super) fn space(&self, name: &str) -> String {
        format!("{}:{{{name}}}", self.prefix)
    }

    pub(super) fn of_space(&self, name: &str, what: &str) -> String {
        format!("{}:{what}", self.space(name))
    }

    pub(super) fn spaces(&self) -> String {
        format!("{}:spaces", self.prefix)
    }

    pub(super) fn instance(&self, id: &str) -> String {
        format!("{}:instance:{id}", self.prefix)
    }

    pub(super) fn instances(&self) -> String {
        format!("{}:instances", self.prefix)
    }

    pub(super) fn secret(&self) -> String {
        format!("{}:secret", self.prefix)
    }
}

/// The field of an input among the digests of a space.
pub(super) fn digest_field(hash: &[u8; 32]) -> String {
    hex::encode(hash)
}
