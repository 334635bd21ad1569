//! The archives that a text on the command line stands for.
//!
//! | text | archives |
//! |---|---|
//! | `20261123`, `20261123.meta` | one, by its base name or any of its files |
//! | `/var/log/mmv-agent/web1` | all of a directory |
//! | `web-*`, `2026112[0-6]*` | all whose names match |
//! | `a,b,c` | several |
//! | `@`, `@recorder` | those of this machine's agent, or of its flight recorder |

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use glob::Pattern;
use pcp_archive::internal::{directory_of, member_files};
use pcp_archive::{ArchiveSet, Error, Result};

pub use crate::agent_archives::resolve;

/// Returns the paths of a list, with the archives that patterns match. A name with commas that
/// exists is not a list.
///
/// # Errors
///
/// [`Error::NotFound`] for a pattern that matches nothing; [`Error::Io`] if a directory cannot be
/// read.
pub fn paths(archive: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in parts(archive) {
        all.extend(expand(path)?);
    }
    Ok(all)
}

/// Returns the elements of the list, with patterns as they are.
fn parts(archive: &Path) -> Vec<PathBuf> {
    let archive = resolve(archive);
    let name = archive.as_os_str().as_bytes();
    // A list may be longer than any path can be, which is an error of the system.
    let is_one = || member_files(&archive).is_ok_and(|files| !files.is_empty());
    if !name.contains(&b',') || archive.exists() || is_one() {
        return vec![archive];
    }
    let parts = name.split(|byte| *byte == b',').filter(|part| !part.is_empty());
    parts.map(|part| PathBuf::from(OsStr::from_bytes(part))).collect()
}

/// Returns the archives whose base names, or names of files, a pattern matches: the shell leaves a
/// pattern alone that is in quotes, or that matches no file. Any other path is itself, also one
/// with a bracket that is not closed.
fn expand(path: PathBuf) -> Result<Vec<PathBuf>> {
    let name = path.file_name().and_then(OsStr::to_str);
    let pattern = name.filter(|name| name.contains(['*', '?', '[']));
    let Some(pattern) = pattern.and_then(|pattern| Pattern::new(pattern).ok()) else {
        return Ok(vec![path]);
    };
    if path.exists() || !member_files(&path)?.is_empty() {
        return Ok(vec![path]);
    }
    let mut found = ArchiveSet::bases([directory_of(&path)]).unwrap_or_default();
    let matches = |file: &Path| {
        let name = file.file_name().map(OsStr::to_string_lossy);
        name.is_some_and(|name| pattern.matches(&name))
    };
    found.retain(|base| {
        let files = member_files(base).unwrap_or_default();
        matches(base) || files.iter().any(|file| matches(file))
    });
    if found.is_empty() { Err(Error::NotFound { path }) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_split_at_its_commas_unless_it_is_a_name() {
        let directory = tempfile::tempdir().unwrap();
        let paths = |name: &str| {
            let archive = directory.path().join(name);
            let paths = super::paths(&archive).unwrap();
            paths.into_iter().map(|path| path.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let inside = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        assert_eq!(paths("a"), [inside("a")]);
        assert_eq!(paths("a,b,,c,"), [inside("a"), "b".to_owned(), "c".to_owned()]);
        std::fs::write(directory.path().join("a,b.meta"), "").unwrap();
        assert_eq!(paths("a,b"), [inside("a,b")]);
        let many = super::paths(Path::new(&"directory/archive,".repeat(500))).unwrap();
        assert_eq!(many.len(), 500);
    }

    #[test]
    fn a_pattern_stands_for_the_archives_that_it_matches() {
        let directory = tempfile::tempdir().unwrap();
        for file in ["web-1.meta", "web-1.0", "web-2.meta", "db.meta", "web-x", ".web-3.meta"] {
            std::fs::write(directory.path().join(file), "").unwrap();
        }
        let paths = |name: &str| {
            let archive = directory.path().join(name);
            let paths = super::paths(&archive)?.into_iter();
            Ok(paths
                .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
                .collect::<Vec<_>>())
        };
        assert_eq!(paths("web-*").unwrap(), ["web-1", "web-2"]);
        assert_eq!(paths("web-?,db").unwrap()[..2], ["web-1", "web-2"]);
        assert_eq!(paths("*.0").unwrap(), ["web-1"]);
        assert_eq!(paths("db*").unwrap(), ["db"]);
        assert_eq!(paths("web-[2-9]").unwrap(), ["web-2"]);
        assert_eq!(paths("[!w]*").unwrap(), ["db"]);
        assert_eq!(paths("web-[1").unwrap(), ["web-[1"], "no pattern");
        assert!(matches!(paths("none*"), Err(Error::NotFound { .. })));
        // A name is not a pattern if there is such an archive.
        std::fs::write(directory.path().join("w*.meta"), "").unwrap();
        assert_eq!(paths("w*").unwrap(), ["w*"]);
    }
}
