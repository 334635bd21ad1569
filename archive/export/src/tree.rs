//! Hosts: the archives that a command was given, by the host that they are of.
//!
//! The agent and PCP's loggers write into one directory for each host, with the host's name:
//!
//! ```text
//! /var/log/mmv-agent/web1/20261120.12.00.{0,meta,index}   one host
//! /var/log/mmv-agent/web2/...                             another one
//! ```
//!
//! A path is such a tree, the directory of one host, or one archive. A host whose archives
//! cannot be read does not affect others: the error is reported where they are read.

use std::path::{Path, PathBuf};

use glob::Pattern;
use hashbrown::HashMap;
use pcp_archive::follow::start_of;
use pcp_archive::internal::{half_made, host_directories};
use pcp_archive::raw::TemporalIndex;
use pcp_archive::{ArchiveSet, Error, Result, Timestamp};
use pcp_types::printable;

/// The archives of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The name of its directory, in one printable line.
    pub name: String,
    /// The archives in it.
    pub archives: Archives,
}

/// The archives of a host that are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Archives {
    /// All archives of a directory, also those that are added later.
    Directory(PathBuf),
    /// Individual archives, by their base names.
    Listed(Vec<PathBuf>),
}

impl Archives {
    /// Returns the base names of the existing archives, in the order of their starts; those without
    /// a readable label come first. Archives of a directory that a writer did not finish creating
    /// are left out.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] or [`Error::NotFound`] if the directory cannot be listed.
    pub fn bases(&self) -> Result<Vec<PathBuf>> {
        let mut starts = Vec::new();
        match self {
            Self::Directory(directory) => {
                for base in listed(directory)? {
                    if half_made(&base)?.is_none() {
                        starts.push((start_of(&base).ok(), base));
                    }
                }
            }
            Self::Listed(bases) => {
                for base in bases {
                    starts.push((start_of(base).ok(), base.clone()));
                }
            }
        }
        starts.sort();
        Ok(starts.into_iter().map(|(_, base)| base).collect())
    }
}

/// An archive that begins before another one of its host ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// The archive that begins first.
    pub earlier: PathBuf,
    /// The archive that begins before the end of that one.
    pub later: PathBuf,
}

impl Archives {
    /// Returns the archives that begin before an earlier one ends, according to its index. A walk
    /// reads the archives one after the other, so it does not merge their values.
    ///
    /// # Errors
    ///
    /// Those of [`bases`](Self::bases).
    pub fn overlaps(&self) -> Result<Vec<Overlap>> {
        let mut overlaps = Vec::new();
        let mut latest: Option<(Timestamp, PathBuf)> = None;
        for later in self.bases()? {
            let Ok(start) = start_of(&later) else { continue };
            if let Some((end, earlier)) = &latest
                && start < *end
            {
                overlaps.push(Overlap { earlier: earlier.clone(), later: later.clone() });
            }
            let end = end_of(&later).unwrap_or(start);
            if latest.as_ref().is_none_or(|(latest, _)| end > *latest) {
                latest = Some((end, later));
            }
        }
        Ok(overlaps)
    }
}

/// Returns the time of the last index entry of an archive; `None` without a readable index.
fn end_of(base: &Path) -> Option<Timestamp> {
    let mut index = base.as_os_str().to_owned();
    index.push(".index");
    let (_, index) = TemporalIndex::open(Path::new(&index)).ok()?;
    index.entries().last().map(|entry| entry.timestamp)
}

/// Returns the base names in a directory, which may have none. A missing directory is an error.
fn listed(directory: &Path) -> Result<Vec<PathBuf>> {
    match ArchiveSet::bases([directory]) {
        Err(Error::NotFound { .. }) if directory.is_dir() => Ok(Vec::new()),
        bases => bases,
    }
}

/// Returns the hosts of paths whose names match a pattern, each once, in the order of the paths and
/// of names below a path.
///
/// # Errors
///
/// [`Error::NotFound`] for a path without archives, and those of [`ArchiveSet::bases`].
pub fn hosts(paths: &[PathBuf], pattern: Option<&Pattern>) -> Result<Vec<Host>> {
    let mut hosts: Vec<Host> = Vec::new();
    let mut places: HashMap<PathBuf, usize> = HashMap::new();
    for path in paths {
        for (directory, archives) in found(path)? {
            match (places.get(&directory).and_then(|place| hosts.get_mut(*place)), archives) {
                (Some(Host { archives: Archives::Listed(all), .. }), Archives::Listed(more)) => {
                    all.extend(more);
                }
                (Some(host), whole @ Archives::Directory(_)) => host.archives = whole,
                (Some(_), Archives::Listed(_)) => {}
                (None, archives) => {
                    places.insert(directory.clone(), hosts.len());
                    hosts.push(Host { name: name_of(&directory), archives });
                }
            }
        }
    }
    hosts.retain(|host| pattern.is_none_or(|pattern| pattern.matches(&host.name)));
    Ok(hosts)
}

/// Returns the directories of hosts that a path stands for, and their archives.
fn found(path: &Path) -> Result<Vec<(PathBuf, Archives)>> {
    if !path.is_dir() {
        let bases = ArchiveSet::bases([path])?;
        let directory = bases.first().and_then(|base| base.parent()).unwrap_or(path);
        // The parent of a name without a directory is empty, which no system call takes.
        let is_here = directory.as_os_str().is_empty();
        let directory = if is_here { Path::new(".") } else { directory };
        return Ok(vec![(directory.to_owned(), Archives::Listed(bases))]);
    }
    let mut directories = host_directories(path)?;
    let has_own =
        listed(path).is_ok_and(|bases| bases.iter().any(|base| base.parent() == Some(path)));
    if has_own || directories.is_empty() {
        directories.insert(0, path.to_owned());
    }
    let mut found = Vec::new();
    for directory in directories {
        found.push((directory.clone(), Archives::Directory(directory)));
    }
    Ok(found)
}

/// Returns the name of a directory, also for paths such as `.` and links.
fn name_of(directory: &Path) -> String {
    let whole = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let name = whole.file_name().unwrap_or(whole.as_os_str());
    printable::path(Path::new(name)).into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::test_support;

    #[test]
    fn a_tree_has_a_host_for_each_directory_with_archives() {
        let tree = tempfile::tempdir().unwrap();
        for host in ["web2", "web1", "db1"] {
            fs::create_dir(tree.path().join(host)).unwrap();
            test_support::small(&tree.path().join(host).join("20261120"), 1);
        }
        fs::create_dir(tree.path().join("empty")).unwrap();
        let names = |pattern: Option<&str>| -> Vec<String> {
            let pattern = pattern.map(|pattern| Pattern::new(pattern).unwrap());
            let hosts = hosts(&[tree.path().to_owned()], pattern.as_ref()).unwrap();
            hosts.into_iter().map(|host| host.name).collect()
        };
        assert_eq!(names(None), ["db1", "web1", "web2"]);
        assert_eq!(names(Some("web*")), ["web1", "web2"]);
        let one = hosts(&[tree.path().join("web1")], None).unwrap();
        let directory = Archives::Directory(tree.path().join("web1"));
        assert_eq!(one, [Host { name: "web1".to_owned(), archives: directory }]);
    }

    #[test]
    fn archives_of_a_directory_are_one_host_by_start() {
        let tree = tempfile::tempdir().unwrap();
        let directory = tree.path().join("web1");
        fs::create_dir(&directory).unwrap();
        let [late, early] = ["a", "b"].map(|name| directory.join(name));
        test_support::small(&late, 100);
        test_support::small(&early, 1);
        let found = hosts(&[late.with_extension("0"), early.clone()], None).unwrap();
        let [host] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(host.archives.bases().unwrap(), [early, late.clone()]);
        let found = hosts(&[late, directory.clone()], None).unwrap();
        assert_eq!(found[0].archives, Archives::Directory(directory));
    }

    #[test]
    fn archives_that_begin_before_another_ends_are_found() {
        let tree = tempfile::tempdir().unwrap();
        let base = |name: &str| tree.path().join(name);
        for (name, seconds) in [("a", [0, 10]), ("b", [10, 30]), ("c", [20, 25]), ("d", [28, 40])] {
            test_support::begin(&base(name))
                .metric("mmv.shop.orders", "u64 counter count")
                .rows(seconds.map(|second| (second, [("mmv.shop.orders", 1)])))
                .finish();
        }
        let archives = Archives::Directory(tree.path().to_owned());
        let overlap =
            |earlier: &str, later: &str| Overlap { earlier: base(earlier), later: base(later) };
        assert_eq!(archives.overlaps().unwrap(), [overlap("b", "c"), overlap("b", "d")]);
        fs::remove_file(base("b.index")).unwrap();
        assert_eq!(archives.overlaps().unwrap(), [], "nothing is known of its end");
    }

    #[test]
    fn what_a_writer_did_not_finish_is_passed_by_in_a_directory() {
        let tree = tempfile::tempdir().unwrap();
        let whole = tree.path().join("a");
        test_support::small(&whole, 1);
        fs::write(tree.path().join("b.meta"), b"").unwrap();
        fs::write(tree.path().join("b.0"), b"").unwrap();
        let archives = Archives::Directory(tree.path().to_owned());
        assert_eq!(archives.bases().unwrap(), [whole]);
    }

    #[test]
    fn a_path_without_archives_is_an_error_unless_it_is_a_directory() {
        let tree = tempfile::tempdir().unwrap();
        let missing = tree.path().join("none");
        assert!(matches!(hosts(&[missing], None), Err(Error::NotFound { .. })));
        let empty = hosts(&[tree.path().to_owned()], None).unwrap();
        assert!(empty[0].archives.bases().unwrap().is_empty());
    }
}
