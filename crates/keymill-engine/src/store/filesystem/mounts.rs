//! What is mounted where, as the kernel tells this process. `filesystem` asks; on a system that does
//! not say, nothing is found.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Something that is mounted.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    point: PathBuf,
    /// The type of filesystem: `ext4`, `fuse.sshfs`, …
    fs_type: String,
}

/// Whether something is mounted on this very path, which must be absolute and without links.
pub(super) fn is_mount_point(path: &Path) -> bool {
    // Kernels before 5.8 do not say; their list of mounts does.
    from_attributes(path).unwrap_or_else(|| mounts().iter().any(|mount| mount.point == path))
}

/// The type of filesystem that a path, absolute and without links, lies on.
pub(super) fn type_at(path: &Path) -> Option<String> {
    let above = mounts().into_iter().filter(|mount| path.starts_with(&mount.point));
    // Of two on one point, the later one covers the other.
    above.max_by_key(|mount| mount.point.as_os_str().len()).map(|mount| mount.fs_type)
}

#[cfg(target_os = "linux")]
fn from_attributes(path: &Path) -> Option<bool> {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::empty()).ok()?;
    let known = found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT);
    known.then(|| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
fn from_attributes(_path: &Path) -> Option<bool> {
    None
}

fn mounts() -> Vec<Mount> {
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(parse).collect()
}

/// Reads a line such as `36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/sda1 rw`.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let point = fields.nth(4)?;
    let fs_type = fields.skip_while(|field| *field != b"-").nth(1)?;
    let point = PathBuf::from(OsString::from_vec(unescape(point)));
    Some(Mount { point, fs_type: String::from_utf8_lossy(fs_type).into_owned() })
}

/// Blanks and backslashes in a path are written in octal, as `\040`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(field.len()), field);
    while let [first, after @ ..] = rest {
        let code = after.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_with_its_optional_fields_or_without() {
        let check = |line: &str, point: &str, fs_type: &str| {
            let wanted = Mount { point: point.into(), fs_type: fs_type.to_owned() };
            assert_eq!(parse(line.as_bytes()), Some(wanted), "{line}");
        };
        check("36 35 98:0 / /data rw,noatime - ext4 /dev/sda1 rw", "/data", "ext4");
        check(
            r"42 27 0:51 /a /my\040keys\134/k.db rw shared:1 master:2 - fuse.sshfs h:/ rw",
            r"/my keys\/k.db",
            "fuse.sshfs",
        );
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"36 35 98:0 / /data rw"), None);
    }

    #[test]
    fn proc_is_a_mount_point_and_a_new_file_is_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().canonicalize().unwrap();
        assert!(!is_mount_point(&path));
        if cfg!(target_os = "linux") {
            assert!(is_mount_point(Path::new("/proc")));
            assert!(type_at(&path).is_some());
        }
    }
}
