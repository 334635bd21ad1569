//! Suggestions for what to type after an error.
//!
//! In: the error of a name that means no archive, or more than one, or of a damaged archive. Out: the
//! end of the message, with names or commands.

use std::path::{Path, PathBuf};

use pcp_archive::internal::host_directories;
use pcp_archive::{ArchiveSet, Error};

use crate::text::{first_of, shown_path};

/// The most names that are listed.
const MAX_NAMES: usize = 5;

/// Returns the end of a message; empty for errors that need none.
pub(crate) fn hint(error: &Error) -> String {
    match error {
        Error::NotFound { path } => instead_of(path),
        Error::Ambiguous { path, .. } => match ArchiveSet::bases([path]) {
            Ok(bases) => format!(": {}", listed(&bases, None)),
            Err(_) => String::new(),
        },
        Error::SeveralHosts { path, .. } => match host_directories(path) {
            Ok(hosts) => format!(": {}", listed(&hosts, None)),
            Err(_) => String::new(),
        },
        Error::Overlap { .. } | Error::HostDiffers { .. } => {
            "; they do not form a timeline: mmv-archive view A=ARCHIVE B=ARCHIVE shows them side by side"
                .to_owned()
        }
        // The commands that pass by damage do not fail with it.
        error if error.is_damage() => {
            "; \"check\" lists the damage, \"repair\" writes all that can be read to a new archive"
                .to_owned()
        }
        _ => String::new(),
    }
}

fn instead_of(path: &Path) -> String {
    if path.is_file() {
        return "; the files of an archive end with .meta, .index or the number of a volume"
            .to_owned();
    }
    let directory = if path.is_dir() { Some(path) } else { path.parent() };
    let directory = directory.filter(|path| !path.as_os_str().is_empty());
    let shown = directory.map_or_else(
        || "the current directory".to_owned(),
        |directory| shown_path(directory).to_string(),
    );
    let directory = directory.unwrap_or(Path::new("."));
    if !directory.is_dir() {
        return format!("; there is no directory {shown}");
    }
    match ArchiveSet::bases([directory]) {
        Ok(bases) => {
            let wanted = path.file_name().and_then(|name| name.to_str());
            format!("; {shown} has {}", listed(&bases, wanted.filter(|_| !path.is_dir())))
        }
        Err(Error::SeveralHosts { .. }) => {
            let hosts = host_directories(directory).unwrap_or_default();
            format!("; {shown} has directories with archives: {}", listed(&hosts, None))
        }
        Err(_) => format!("; {shown} has no archives"),
    }
}

/// Returns the first paths, or those whose names are most like a wanted one, and the number of the
/// others.
fn listed(paths: &[PathBuf], wanted: Option<&str>) -> String {
    let mut all: Vec<String> = paths.iter().map(|path| shown(path)).collect();
    if let Some(wanted) = wanted {
        let likeness = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or(path);
            strsim::jaro_winkler(wanted, name)
        };
        all.sort_by(|one, other| likeness(other).total_cmp(&likeness(one)));
    }
    first_of(&all, MAX_NAMES)
}

/// Formats a path as it can be typed.
fn shown(path: &Path) -> String {
    shown_path(path.strip_prefix(".").unwrap_or(path)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_exist_are_listed_the_most_alike_first() {
        let directory = tempfile::tempdir().unwrap();
        let not_found = |name: &str| {
            let path = directory.path().join(name);
            hint(&Error::NotFound { path }).replace(directory.path().to_str().unwrap(), "DIR")
        };
        assert_eq!(not_found("web"), "; DIR has no archives");
        assert_eq!(not_found("none/web"), "; there is no directory DIR/none");
        for name in ["a", "b", "c", "d", "e", "web-1", "web-2"] {
            std::fs::write(directory.path().join(format!("{name}.meta")), "").unwrap();
        }
        let expected = "; DIR has DIR/web-1, DIR/web-2, ";
        assert!(not_found("web").starts_with(expected), "{}", not_found("web"));
        assert!(not_found("web").ends_with(" and 2 more"), "{}", not_found("web"));
        let ends = not_found("web-1.meta");
        assert!(ends.starts_with("; the files of an archive end with"), "{ends}");
    }

    #[test]
    fn directories_of_hosts_are_listed() {
        let directory = tempfile::tempdir().unwrap();
        for host in ["web", "db"] {
            std::fs::create_dir(directory.path().join(host)).unwrap();
            std::fs::write(directory.path().join(host).join("a.meta"), "").unwrap();
        }
        let error = ArchiveSet::bases([directory.path()]).unwrap_err();
        let hint = hint(&error).replace(directory.path().to_str().unwrap(), "DIR");
        assert_eq!(hint, ": DIR/db, DIR/web");
    }
}
