//! A program that forks while its client has keys in memory: parent, child and grandchild go on with the same client, and
//! each writes the keys that it took into a file of its own.
//!
//! `tests/it/client/forks.rs` runs it and looks for a key that two of them took.
//!
//!     forked SERVER KEYSPACE FOLDER

use std::path::{Path, PathBuf};

use keymill_client::blocking::{CachedKeyspace, Client, Keyspace};
use rustix::process::{Pid, WaitOptions, waitpid};

/// How many keys each process takes from its cache.
const KEYS: usize = 300;

fn main() {
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().expect("usage: forked SERVER KEYSPACE FOLDER");
    let (server, name, folder) = (next(), next(), PathBuf::from(next()));
    let keyspace = Client::connect(&server).expect("the server has an address").keyspace(name);
    let cache = keyspace.cached();
    let first = cache.take().expect("the server gives keys");
    assert!(!cache.is_empty(), "there is nothing that a child could repeat");
    let Some(child) = fork() else {
        assert!(cache.is_empty(), "the child has keys of its parent");
        take(&folder.join("child"), &keyspace, &cache, Vec::new());
        assert!(!cache.is_empty(), "there is nothing that a grandchild could repeat");
        let Some(grandchild) = fork() else {
            return take(&folder.join("grandchild"), &keyspace, &cache, Vec::new());
        };
        take(&folder.join("child-later"), &keyspace, &cache, Vec::new());
        return wait(grandchild);
    };
    take(&folder.join("parent"), &keyspace, &cache, vec![first.into()]);
    wait(child);
}

/// Takes keys in every way that there is, and writes them down.
fn take(file: &Path, keyspace: &Keyspace, cache: &CachedKeyspace, mut keys: Vec<String>) {
    keys.extend(cache.try_take().map(String::from));
    while keys.len() < KEYS {
        keys.push(cache.take().expect("the server gives keys").into());
    }
    for _ in 0..10 {
        keys.push(keyspace.take().expect("the server gives keys").into());
    }
    std::fs::write(file, keys.join("\n")).expect("the folder can be written to");
}

/// Forks; `None` in the child.
fn fork() -> Option<Pid> {
    // SAFETY: a child of a process with threads must not use what those may have locked. There is one other thread, the
    // client's, which waits for I/O or for the memory allocator; glibc keeps the allocator usable in a child. That
    // the child uses nothing else of that thread is what this program is for: if it did, it would hang, and its test fail.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "cannot fork");
    Pid::from_raw(pid)
}

fn wait(child: Pid) {
    let ended = waitpid(Some(child), WaitOptions::empty()).expect("a child can be waited for");
    let (_, status) = ended.expect("it was waited for");
    assert_eq!(status.exit_status(), Some(0), "a child failed");
}
