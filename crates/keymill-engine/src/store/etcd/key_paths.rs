//! The names of keys in etcd. Numbers have twenty digits, so that keys sort as they do.

use crate::store::LeaseId;

/// Where a store begins.
#[derive(Debug)]
pub(super) struct KeyPaths {
    root: String,
}

impl KeyPaths {
    pub(super) fn under(root: &str) -> KeyPaths {
        KeyPaths { root: format!("/{root}") }
    }

    pub(super) fn store(&self) -> String {
        format!("{}/store", self.root)
    }

    pub(super) fn secret(&self) -> String {
        format!("{}/secret", self.root)
    }

    pub(super) fn spaces(&self) -> String {
        format!("{}/spaces/", self.root)
    }

    pub(super) fn space(&self, name: &str) -> String {
        format!("{}/spaces/{name}", self.root)
    }

    /// How far each space has come, without the rest of it.
    pub(super) fn marks(&self) -> String {
        format!("{}/marks/", self.root)
    }

    pub(super) fn mark(&self, name: &str) -> String {
        format!("{}/marks/{name}", self.root)
    }

    pub(super) fn leases(&self, space: &str) -> String {
        format!("{}/leases/{space}/", self.root)
    }

    pub(super) fn lease(&self, space: &str, lease: LeaseId) -> String {
        format!("{}/leases/{space}/{lease:020}", self.root)
    }

    /// Leases that are not closed.
    pub(super) fn open_all(&self, space: &str) -> String {
        format!("{}/open/{space}/", self.root)
    }

    pub(super) fn open(&self, space: &str, lease: LeaseId) -> String {
        format!("{}/open/{space}/{lease:020}", self.root)
    }

    /// Leases by where they start.
    pub(super) fn starts(&self, space: &str) -> String {
        format!("{}/starts/{space}/", self.root)
    }

    pub(super) fn start(&self, space: &str, start: u64, lease: LeaseId) -> String {
        format!("{}/starts/{space}/{start:020}/{lease:020}", self.root)
    }

    pub(super) fn workers(&self, space: &str) -> String {
        format!("{}/workers/{space}/", self.root)
    }

    /// The row of a worker.
    pub(super) fn worker(&self, space: &str, worker: u64) -> String {
        format!("{}/workers/{space}/{worker:020}", self.root)
    }

    /// Names of all spaces.
    pub(super) fn names(&self) -> String {
        format!("{}/names/", self.root)
    }

    pub(super) fn name(&self, space: &str, key: &str) -> String {
        format!("{}/names/{space}/{key}", self.root)
    }

    /// An ordinal that a name occupies.
    pub(super) fn skip(&self, space: &str, ordinal: u64) -> String {
        format!("{}/skips/{space}/{ordinal:020}", self.root)
    }

    /// Ordinals of all spaces whose keys are in use elsewhere, where nothing but the ordinal is known:
    /// they come with a keyspace that is moved from a store which keeps no more.
    pub(super) fn in_use_everywhere(&self) -> String {
        format!("{}/in-use/", self.root)
    }

    pub(super) fn in_use_all(&self, space: &str) -> String {
        format!("{}/in-use/{space}/", self.root)
    }

    pub(super) fn in_use(&self, space: &str, ordinal: u64) -> String {
        format!("{}/in-use/{space}/{ordinal:020}", self.root)
    }

    /// A name that has no ordinal.
    pub(super) fn without_ordinal(&self, space: &str, key: &str) -> String {
        format!("{}/unplaced/{space}/{key}", self.root)
    }

    /// How far instances have seen a space, while the store lies below that.
    pub(super) fn sightings(&self, space: &str) -> String {
        format!("{}/sightings/{space}/", self.root)
    }

    pub(super) fn sighting(&self, space: &str, instance: &str) -> String {
        format!("{}/sightings/{space}/{instance}", self.root)
    }

    /// The token list.
    pub(super) fn tokens(&self) -> String {
        format!("{}/tokens", self.root)
    }

    /// Acts of administrators.
    pub(super) fn acts(&self) -> String {
        format!("{}/acts/", self.root)
    }

    pub(super) fn act(&self, id: u64) -> String {
        format!("{}/acts/{id:020}", self.root)
    }

    /// How many acts were ever recorded.
    pub(super) fn acts_made(&self) -> String {
        format!("{}/acts-made", self.root)
    }

    /// Instances by age.
    pub(super) fn instances(&self) -> String {
        format!("{}/instances/", self.root)
    }

    pub(super) fn instance(&self, started: u64, id: &str) -> String {
        format!("{}/instances/{started:020}/{id}", self.root)
    }

    /// Signs of life, by age too. Each is attached to a lease of etcd, which removes it.
    pub(super) fn signs(&self) -> String {
        format!("{}/alive/", self.root)
    }

    pub(super) fn sign(&self, started: u64, id: &str) -> String {
        format!("{}/alive/{started:020}/{id}", self.root)
    }

    /// When an instance started, to find it among them.
    pub(super) fn age(&self, id: &str) -> String {
        format!("{}/ages/{id}", self.root)
    }
}

/// The end of all keys that begin so: `0` follows the `/` that `begin` ends with.
pub(super) fn end_of(begin: &str) -> String {
    format!("{}0", begin.strip_suffix('/').unwrap_or(begin))
}

/// The first key beyond a given one.
pub(super) fn beyond(key: &str) -> String {
    format!("{key}\0")
}
