//! What the file of a store lies on, and whether another path leads to it. SQLite looks when its file is
//! opened, for `store check`, and before each change. Nothing here opens the file.
//!
//! SQLite names its log after the path of the database, and so do we the lock and the floors. A
//! file with two paths has two of each, and whoever comes by one of them does not see what others
//! were granted by the other.

mod mounts;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use mounts::{is_mount_point, type_at};

use super::{Finding, StoreError};

/// What all filesystems in user space have in common, of this machine or not; virtiofs too.
const FUSE: u32 = 0x6573_5546;

/// How another path can lead to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OtherPath {
    /// It has so many links.
    Links(u64),
    /// It is mounted by itself, and so lies elsewhere too.
    Mount,
}

impl OtherPath {
    /// Looks for one. The path is absolute and without symbolic links.
    pub(super) fn find(path: &Path) -> io::Result<Option<OtherPath>> {
        let links = fs::metadata(path)?.nlink();
        Ok(match links {
            2.. => Some(OtherPath::Links(links)),
            _ => is_mount_point(path).then_some(OtherPath::Mount),
        })
    }

    /// What is wrong with it, why, and what to do.
    pub(super) fn describe(self, path: &Path) -> String {
        let path = path.display();
        let (what, remedy) = match self {
            OtherPath::Links(links) => (
                format!("has {links} hard links"),
                format!("Remove the other link; `find / -xdev -samefile {path}` shows where it is"),
            ),
            OtherPath::Mount => (
                "is mounted as a single file".to_owned(),
                "Mount the folder that contains it instead of the file".to_owned(),
            ),
        };
        format!(
            "{path} {what}, so there is a second path to the same database. SQLite's log belongs to \
             one path: processes that use the other one would not see it, and hand out the same \
             keys. {remedy}"
        )
    }
}

/// What to say of a file that cannot be used.
pub(super) fn broken(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Broken(format!("{}: {error}", path.display()))
}

/// Whether other paths lead to the file, as a line of `store check`.
pub(super) fn paths(path: &Path) -> Result<Finding, StoreError> {
    let other = OtherPath::find(path).map_err(|error| broken(path, &error))?;
    let found = match other {
        None => "one".to_owned(),
        Some(OtherPath::Links(links)) => format!("{links} hard links"),
        Some(OtherPath::Mount) => "mounted as a single file".to_owned(),
    };
    let wanted = "one: no other link, and its folder mounted rather than the file";
    Ok(Finding::new("path", &found, wanted, other.is_none()))
}

/// The filesystem under a file, as a line of `store check`.
pub(super) fn filesystem(path: &Path) -> Result<Finding, StoreError> {
    let magic = rustix::fs::statfs(path).map_err(|error| broken(path, &error.into()))?.f_type;
    // They have 32 bits; some systems extend their sign.
    let magic = u32::try_from(magic & 0xffff_ffff).unwrap_or_default();
    Ok(judge(magic, type_at(path)))
}

/// Whether a filesystem is of this machine, which locks and syncs can be relied on, and whether it
/// stays. The numbers are those of the kernel's `magic.h` and of coreutils' `stat`.
fn judge(magic: u32, fs_type: Option<String>) -> Finding {
    let remote = match magic {
        0x6969 => "nfs",
        0x517b => "smb",
        0xff53_4d42 => "cifs",
        0xfe53_4d42 => "smb2",
        0x0102_1997 => "9p",
        0x00c3_6400 => "ceph",
        0x5346_414f | 0x6b41_4653 => "afs",
        0x7375_7245 => "coda",
        0x564c => "ncp",
        0x0bd0_0bd0 => "lustre",
        0x0116_1970 => "gfs2",
        0x7461_636f => "ocfs2",
        0x1983_0326 => "beegfs",
        0x4750_4653 => "gpfs",
        0x2003_0528 => "orangefs",
        0xaad7_aaea => "panfs",
        0x6163_6673 => "acfs",
        0xbeef_dead => "snfs",
        0x0131_11a8 => "ibrix",
        // Folders of the host of a virtual machine: VMware, Parallels, VirtualBox.
        0xbacb_acbc => "vmhgfs",
        0x7c7c_6673 => "prl_fs",
        0x786f_4256 => "vboxsf",
        // Of these only the ones on a disk, and a container's layer, are known to be local.
        FUSE if !matches!(fs_type.as_deref(), Some("fuseblk" | "fuse.fuse-overlayfs")) => {
            let found = fs_type.as_deref().unwrap_or("fuse");
            return Finding::new("filesystem", found, "a local one", false);
        }
        _ => return judge_local(magic, fs_type),
    };
    Finding::new("filesystem", remote, "a local one", false)
}

fn judge_local(magic: u32, fs_type: Option<String>) -> Finding {
    let (found, wanted) = match magic {
        0x794c_7630 => {
            ("a container's own layer (overlay)", "a volume; this is deleted with the container")
        }
        FUSE if fs_type.as_deref() == Some("fuse.fuse-overlayfs") => (
            "a container's own layer (fuse-overlayfs)",
            "a volume; this is deleted with the container",
        ),
        0x0102_1994 => ("memory (tmpfs)", "a disk; this is empty after a reboot"),
        0x8584_58f6 => ("memory (ramfs)", "a disk; this is empty after a reboot"),
        _ => {
            let name = fs_type.unwrap_or_else(|| format!("{magic:#x}"));
            let found = format!("local ({name})");
            return Finding::new("filesystem", &found, "a local one", true);
        }
    };
    Finding::new("filesystem", found, wanted, false).warning()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Verdict;

    #[test]
    fn filesystems_of_other_machines_are_unsafe_and_those_that_vanish_a_warning() {
        let check = |magic: u32, fs_type: Option<&str>, verdict: Verdict| {
            let found = judge(magic, fs_type.map(str::to_owned));
            assert_eq!(found.verdict, verdict, "{magic:#x} {fs_type:?}: {found:?}");
        };
        for remote in [0x6969, 0x0102_1997, 0x00c3_6400, 0x0bd0_0bd0, 0x0116_1970, 0x7461_636f] {
            check(remote, None, Verdict::Unsafe);
        }
        for fuse in [None, Some("virtiofs"), Some("fuse.sshfs"), Some("fuse.glusterfs")] {
            check(FUSE, fuse, Verdict::Unsafe);
        }
        check(FUSE, Some("fuseblk"), Verdict::Safe);
        check(FUSE, Some("fuse.fuse-overlayfs"), Verdict::Warning);
        check(0x794c_7630, Some("overlay"), Verdict::Warning);
        check(0x0102_1994, Some("tmpfs"), Verdict::Warning);
        check(0xef53, Some("ext4"), Verdict::Safe);
    }
}
