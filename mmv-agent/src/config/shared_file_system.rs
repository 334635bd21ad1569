//! Detects that users can fill the file system of the directory of MMV files.
//!
//! Input: the directory and the table of mounts. Output: a warning, unless only its owner may
//! create files in it, or the file system has quotas of users. The agent's limits do not help
//! programs that have no space for a file.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::sys::stat::{major, minor};

/// Mount options of file systems with quotas of users. On a tmpfs a limit is required as well.
const QUOTAS: [&str; 4] = ["usrquota", "uquota", "quota", "usrjquota"];
const TMPFS_LIMIT: &str = "usrquota_block_hardlimit";

/// Write permission of others than the owner.
const OTHERS: u32 = 0o022;

/// Returns a warning if other users than the owner of a directory can fill its file system.
pub(super) fn warning(directory: &Path) -> Option<String> {
    let found = fs::metadata(directory).ok()?;
    if found.mode() & OTHERS == 0 {
        return None;
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let device = format!("{}:{}", major(found.dev()), minor(found.dev()));
    let (kind, has_quota) = file_system(&mounts, &device)?;
    if has_quota {
        return None;
    }
    let remedy = match kind {
        "tmpfs" => {
            "mount it with usrquota_block_hardlimit and usrquota_inode_hardlimit (Linux 6.6)"
        }
        _ => "give it a file system with a quota for each user",
    };
    let directory = directory.display();
    Some(format!(
        "mmv-dir: {directory}: each user who may write there can fill its file system ({kind}), \
         and then no program can publish metrics; {remedy}"
    ))
}

/// Returns the type of the file system of a device, and whether it has quotas of users, from
/// `proc_pid_mountinfo(5)`.
fn file_system<'m>(mounts: &'m str, device: &str) -> Option<(&'m str, bool)> {
    mounts.lines().find_map(|line| {
        let (mount, of_file_system) = line.split_once(" - ")?;
        if mount.split(' ').nth(2)? != device {
            return None;
        }
        let mut fields = of_file_system.split(' ');
        let kind = fields.next()?;
        let options = fields.nth(1)?;
        let mut names = options.split(',').filter_map(|option| option.split('=').next());
        let has_quota = match kind {
            "tmpfs" => names.any(|name| name == TMPFS_LIMIT),
            _ => names.any(|name| QUOTAS.contains(&name)),
        };
        Some((kind, has_quota))
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn quotas_are_found_by_the_options_of_the_file_system() {
        let mounts = "\
            22 27 0:21 / /proc rw,relatime - proc proc rw\n\
            30 27 0:30 / /run/one rw shared:3 - tmpfs tmpfs rw,size=65536k,usrquota\n\
            31 27 0:31 / /run/two rw - tmpfs tmpfs rw,usrquota,usrquota_block_hardlimit=8M\n\
            32 27 8:1 / / rw - xfs /dev/sda1 rw,uquota\n\
            33 27 8:2 / /home rw,usrquota - ext4 /dev/sda2 rw\n\
            34 27 8:3 / /srv rw - xfs /dev/sda3 rw,uqnoenforce\n";
        for (device, expected) in [
            ("0:30", Some(("tmpfs", false))),
            ("0:31", Some(("tmpfs", true))),
            ("8:1", Some(("xfs", true))),
            ("8:2", Some(("ext4", false))),
            ("8:3", Some(("xfs", false))),
            ("9:9", None),
        ] {
            assert_eq!(file_system(mounts, device), expected, "{device}");
        }
    }

    #[test]
    fn a_directory_that_only_its_owner_writes_to_needs_no_quota() {
        let directory = tempfile::tempdir().unwrap();
        let mode = |mode| {
            fs::set_permissions(directory.path(), Permissions::from_mode(mode)).unwrap();
            warning(directory.path())
        };
        assert_eq!(mode(0o755), None);
        // A test may run on a file system with quotas.
        if let Some(warning) = mode(0o1777) {
            assert!(warning.contains("can fill its file system"), "{warning}");
        }
        assert_eq!(warning(Path::new("/no/such/directory")), None);
    }
}
