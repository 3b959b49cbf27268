//! The names of keys in etcd. Numbers have twenty digits, so that keys sort as they do.

use crate::store::LeaseId;

/// Where a store begins.
#[derive(Debug)]
pub(super) struct Keys {
    root: String,
}

impl Keys {
    pub(super) fn under(root: &str) -> Keys {
        Keys { root: format!("/{root}") }
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

    /// The row of a worker.
    pub(super) fn worker(&self, space: &str, worker: u64) -> String {
        format!("{}/workers/{space}/{worker:020}", self.root)
    }

    pub(super) fn name(&self, space: &str, key: &str) -> String {
        format!("{}/names/{space}/{key}", self.root)
    }

    /// An ordinal that a name occupies.
    pub(super) fn skip(&self, space: &str, ordinal: u64) -> String {
        format!("{}/skips/{space}/{ordinal:020}", self.root)
    }

    /// A name that has no ordinal.
    pub(super) fn unplaced(&self, space: &str, key: &str) -> String {
        format!("{}/unplaced/{space}/{key}", self.root)
    }

    /// Beyond all of those: `0` follows `/`.
    pub(super) fn unplaced_end(&self, space: &str) -> String {
        format!("{}/unplaced/{space}0", self.root)
    }

    /// Instances by age.
    pub(super) fn instances(&self) -> String {
        format!("{}/instances/", self.root)
    }

    pub(super) fn instance(&self, started: u64, id: &str) -> String {
        format!("{}/instances/{started:020}/{id}", self.root)
    }

    /// When an instance started, to find it among them.
    pub(super) fn age(&self, id: &str) -> String {
        format!("{}/ages/{id}", self.root)
    }
}
