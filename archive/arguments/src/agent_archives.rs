//! `@` and `@recorder`: the archives of this machine's agent.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mmv_format::directory::{SYSTEM_ARCHIVES, UserDirectories};

/// Stands for the archives of an agent.
const AGENT: &str = "@";
const RECORDER: &str = "@recorder";
/// The flight recorder of the system's agent.
const SYSTEM_RECORDER: &str = "/run/mmv-agent/recorder";
/// The flight recorder of a user's agent, below the user's runtime directory.
const USER_RECORDER: &str = "mmv-agent/recorder";

/// Returns the archive that an argument names: for `@` and `@recorder` the directory of this
/// user's agent or of the system's, where a file was written last.
pub fn resolve(archive: &Path) -> PathBuf {
    let directories = UserDirectories::of_this_process();
    let (user, system) = if archive.as_os_str() == OsStr::new(AGENT) {
        (directories.archives(), SYSTEM_ARCHIVES)
    } else if archive.as_os_str() == OsStr::new(RECORDER) {
        (directories.runtime.map(|runtime| runtime.join(USER_RECORDER)), SYSTEM_RECORDER)
    } else {
        return archive.to_owned();
    };
    newest(user.into_iter().chain([PathBuf::from(system)])).unwrap_or_default()
}

/// Returns the directory with the newest file, the first one of several without any.
fn newest(directories: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    // The last of equals is returned.
    directories.collect::<Vec<_>>().into_iter().rev().max_by_key(|directory| last_write(directory))
}

/// Returns the time of the last write to a file in a directory, or in one of its directories.
fn last_write(directory: &Path) -> Option<SystemTime> {
    let hosts = entries(directory);
    let files = hosts.iter().flat_map(|host| entries(host));
    let paths = files.chain(hosts.iter().cloned());
    paths.filter_map(|path| fs::metadata(path).ok()?.modified().ok()).max()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_directory_with_the_newest_archive_is_found() {
        let place = tempfile::tempdir().unwrap();
        let [user, system] = ["user", "system"].map(|name| place.path().join(name));
        let found = || newest([user.clone(), system.clone()].into_iter()).unwrap();
        assert_eq!(found(), user, "without any archive");
        let write = |directory: &Path, age| {
            fs::create_dir_all(directory.join("host")).unwrap();
            let file = File::create(directory.join("host/20261123.0")).unwrap();
            file.set_modified(SystemTime::now() + Duration::from_secs(age)).unwrap();
        };
        write(&system, 10);
        assert_eq!(found(), system);
        write(&user, 20);
        assert_eq!(found(), user);
        write(&system, 30);
        assert_eq!(found(), system);
    }

    #[test]
    fn other_names_stay_as_they_are() {
        assert_eq!(resolve(Path::new("a@b")), Path::new("a@b"));
        assert_eq!(resolve(Path::new("./@")), Path::new("./@"));
    }
}
