//! The archives in a host's directory, found by the names of their files.
//!
//! Only names that the agent gives are considered; other files belong to other programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, SystemTime};

use pcp_archive::internal::{original_base, reduced_interval, unfinished_archives};

/// Suffixes of compressed files.
const COMPRESSED: [&str; 4] = ["xz", "zst", "gz", "bz2"];
/// Suffix of an incomplete compressed file.
const UNFINISHED: &str = ".unfinished";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ArchiveFileKind {
    Metadata,
    Index,
    Volume(u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArchiveFile {
    pub path: PathBuf,
    pub kind: ArchiveFileKind,
    pub compressed: bool,
    pub bytes: u64,
    pub modified: SystemTime,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArchiveFiles {
    pub base: PathBuf,
    pub members: Vec<ArchiveFile>,
}

impl ArchiveFiles {
    pub(super) fn bytes(&self) -> u64 {
        self.members.iter().map(|member| member.bytes).sum()
    }

    /// Returns true if it has metadata, without which no reader takes the files for an archive.
    pub(super) fn has_metadata(&self) -> bool {
        self.members.iter().any(|member| member.kind == ArchiveFileKind::Metadata)
    }

    /// Returns true if its last volume is compressed, as only in a closed archive.
    pub(super) fn ends_compressed(&self) -> bool {
        self.members.last().is_some_and(|member| member.compressed)
    }

    /// Returns the interval that the archive was reduced to; zero if it has all samples.
    pub(super) fn interval(&self) -> Duration {
        reduced_interval(&self.base).unwrap_or_default()
    }

    /// Returns the time of the last write to one of its files.
    pub(super) fn modified(&self) -> SystemTime {
        let times = self.members.iter().map(|member| member.modified);
        times.max().unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// Returns the host's directory and its subdirectories for steps of the clock.
pub(super) fn directories(directory: &Path) -> Vec<PathBuf> {
    let mut directories = vec![directory.to_owned()];
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let steps = entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix("step-"));
        number.is_some_and(is_number) && path.is_dir()
    });
    directories.extend(steps);
    directories
}

/// Returns the archives of a host's directory in order of their names.
pub(super) fn archives(directory: &Path) -> io::Result<Vec<ArchiveFiles>> {
    let mut found: BTreeMap<PathBuf, Vec<ArchiveFile>> = BTreeMap::new();
    for directory in directories(directory) {
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let Some((stem, kind, compressed)) = name.to_str().and_then(member) else { continue };
            // The file may have been removed since.
            let Ok(metadata) = entry.metadata() else { continue };
            if !metadata.is_file() {
                continue;
            }
            let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let bytes = metadata.len();
            let member = ArchiveFile { path: entry.path(), kind, compressed, bytes, modified };
            found.entry(directory.join(stem)).or_default().push(member);
        }
    }
    let found = found.into_iter().map(|(base, mut members)| {
        members.sort_by_key(|member| (member.kind, member.compressed));
        ArchiveFiles { base, members }
    });
    Ok(found.collect())
}

/// Parses a file name that the agent may have given: archive, kind, and whether it is compressed.
fn member(name: &str) -> Option<(&str, ArchiveFileKind, bool)> {
    let suffix = name.rsplit_once('.').filter(|(_, suffix)| COMPRESSED.contains(suffix));
    let plain = suffix.map_or(name, |(plain, _)| plain);
    let (stem, role) = plain.rsplit_once('.')?;
    let kind = match role {
        "meta" => ArchiveFileKind::Metadata,
        "index" => ArchiveFileKind::Index,
        number if is_number(number) => ArchiveFileKind::Volume(number.parse().ok()?),
        _ => return None,
    };
    is_ours(stem).then_some((stem, kind, suffix.is_some()))
}

/// Returns true for an archive name `YYYYMMDD.HH.MM`, with or without `-01` and so on, and with
/// the interval that it was reduced to.
fn is_ours(stem: &str) -> bool {
    let original = original_base(Path::new(stem));
    let Some(stem) = original.to_str() else { return false };
    let (start, number) = match stem.split_once('-') {
        Some((start, number)) => (start, Some(number)),
        None => (stem, None),
    };
    let parts: Vec<&str> = start.split('.').collect();
    let lens: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lens == [8, 2, 2] && parts.into_iter().all(is_number) && number.is_none_or(is_number)
}

fn has_our_name(base: &Path) -> bool {
    base.file_name().and_then(|name| name.to_str()).is_some_and(is_ours)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the hidden directories `.NAME.PID` in which processes that are gone were repairing an
/// archive.
pub(super) fn abandoned(directory: &Path) -> Vec<PathBuf> {
    let mut abandoned = Vec::new();
    for directory in directories(directory) {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let hidden = name.to_str().and_then(|name| name.strip_prefix('.'));
            let Some((stem, pid)) = hidden.and_then(|name| name.rsplit_once('.')) else { continue };
            // Of this process it is as well: where process numbers start again, as in a container.
            let is_gone =
                pid.parse() == Ok(process::id()) || !Path::new("/proc").join(pid).exists();
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_ours(stem) && is_number(pid) && is_gone && is_directory {
                abandoned.push(entry.path());
            }
        }
    }
    abandoned
}

/// Returns the archives that a killed agent was creating or deleting.
pub(super) fn unfinished(directory: &Path) -> Vec<PathBuf> {
    let mut unfinished = Vec::new();
    for directory in directories(directory) {
        let bases = unfinished_archives(&directory).unwrap_or_default();
        unfinished.extend(bases.into_iter().filter(|base| has_our_name(base)));
    }
    unfinished
}

/// Returns files that a killed agent left in archives: incomplete compressed files, and plain
/// files that are there compressed as well.
pub(super) fn leftovers(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut left = Vec::new();
    for directory in directories(directory) {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let unfinished = name.to_str().and_then(|name| name.strip_suffix(UNFINISHED));
            // Compressed metadata, too: that of an unfinished archive is plain.
            if let Some((_, _, true)) = unfinished.and_then(member) {
                left.push(entry.path());
            }
        }
    }
    for found in archives(directory)? {
        let twice = found.members.iter().filter(|plain| {
            !plain.compressed
                && found.members.iter().any(|other| other.compressed && other.kind == plain.kind)
        });
        left.extend(twice.map(|plain| plain.path.clone()));
    }
    Ok(left)
}

/// Returns archives without metadata of which there is a complete one with another interval: an
/// agent was killed while it replaced one by the other, or a reader may still read the old one.
pub(super) fn superseded(archives: &[ArchiveFiles]) -> Vec<PathBuf> {
    let complete = archives.iter().filter(|found| found.has_metadata());
    let complete: BTreeSet<PathBuf> = complete.map(|found| original_base(&found.base)).collect();
    let rest = archives
        .iter()
        .filter(|found| !found.has_metadata() && complete.contains(&original_base(&found.base)));
    rest.map(|found| found.base.clone()).collect()
}

/// Returns the possible compressed copies of a plain file.
pub(super) fn compressed_twins(plain: &Path) -> impl Iterator<Item = PathBuf> {
    let twins = COMPRESSED.map(|suffix| {
        let mut name = plain.as_os_str().to_owned();
        name.push(".");
        name.push(suffix);
        PathBuf::from(name)
    });
    twins.into_iter().filter(|twin| twin.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(directory: &Path, names: &[&str]) {
        fs::create_dir_all(directory).unwrap();
        for name in names {
            fs::write(directory.join(name), "four").unwrap();
        }
    }

    #[test]
    fn archives_are_known_by_their_names_alone() {
        let dir = tempfile::tempdir().unwrap();
        touch(
            dir.path(),
            &[
                "20231114.22.13.meta",
                "20231114.22.13.index",
                "20231114.22.13.0.xz",
                "20231114.22.13.1",
                "20231114.22.13-01.meta",
                "20231114.22.13-x.meta",
                "20231114.22.meta",
                "20231114.22.13.config",
                "mine.meta",
                "mine.0",
                ".20231114.22.13.meta",
                "state.json",
            ],
        );
        touch(&dir.path().join("step-1"), &["20231114.22.13.0"]);
        touch(&dir.path().join("other"), &["20231114.22.13.0"]);
        let found = archives(dir.path()).unwrap();
        let bases: Vec<_> =
            found.iter().map(|found| found.base.strip_prefix(dir.path()).unwrap()).collect();
        let expected = ["20231114.22.13", "20231114.22.13-01", "step-1/20231114.22.13"];
        assert_eq!(bases, expected.map(Path::new));
        let kinds: Vec<_> =
            found[0].members.iter().map(|member| (member.kind, member.compressed)).collect();
        let expected = [
            (ArchiveFileKind::Metadata, false),
            (ArchiveFileKind::Index, false),
            (ArchiveFileKind::Volume(0), true),
            (ArchiveFileKind::Volume(1), false),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(found[0].bytes(), 16);
        assert!(!found[0].ends_compressed());
        assert!(found[1].has_metadata() && !found[2].has_metadata());
    }

    #[test]
    fn archive_without_metadata_gives_way_to_any_interval() {
        let dir = tempfile::tempdir().unwrap();
        touch(
            dir.path(),
            &[
                "20231114.22.13.0",
                "20231114.22.13.1m.0",
                "20231114.22.13.1m.meta",
                "20231115.22.13.0",
                "20231115.22.13.meta",
                "20231115.22.13.1m.0.zst",
                "20231115.22.13.1m.index",
                "20231116.22.13.0",
                "20231117.22.13.1h.0",
                "20231117.22.13.60m.meta",
            ],
        );
        let found = archives(dir.path()).unwrap();
        let expected = ["20231114.22.13", "20231115.22.13.1m"];
        assert_eq!(superseded(&found), expected.map(|name| dir.path().join(name)));
        let intervals: Vec<_> = found.iter().map(|found| found.interval().as_secs()).collect();
        assert_eq!(intervals, [0, 60, 0, 60, 0, 3600]);
    }

    #[test]
    fn leftovers_are_unfinished_archives_and_files_of_no_use() {
        let dir = tempfile::tempdir().unwrap();
        touch(
            dir.path(),
            &[
                "20231114.22.13.meta",
                "20231114.22.13.0",
                "20231114.22.13.0.xz",
                "20231114.22.13.1",
                "20231114.22.13.1.xz.unfinished",
                "20231114.22.13.meta.xz.unfinished",
                "20231115.22.13.0",
                "20231115.22.13.index",
                "20231115.22.13.meta.deleting",
                "20231117.22.13.0",
                "20231117.22.13.index",
                "mine.meta.deleting",
                "mine.0.xz.unfinished",
                "mine.0",
            ],
        );
        touch(&dir.path().join("step-1"), &["20231118.22.13.meta.unfinished"]);
        let mut left = leftovers(dir.path()).unwrap();
        left.sort();
        let expected = [
            "20231114.22.13.0",
            "20231114.22.13.1.xz.unfinished",
            "20231114.22.13.meta.xz.unfinished",
        ];
        assert_eq!(left, expected.map(|name| dir.path().join(name)));
        let expected = ["20231115.22.13", "step-1/20231118.22.13"];
        assert_eq!(unfinished(dir.path()), expected.map(|name| dir.path().join(name)));
    }

    #[test]
    fn directories_of_repairs_are_abandoned_without_a_process() {
        let dir = tempfile::tempdir().unwrap();
        let step = dir.path().join("step-1");
        fs::create_dir(&step).unwrap();
        let own = process::id();
        // No process has a number beyond 4194304.
        let mine = ".mine.4194305".to_owned();
        let running = ".20231119.22.13.1".to_owned();
        let gone = ".20231119.22.13.4194305".to_owned();
        let before = format!(".20231119.22.13-01.{own}");
        for name in [&mine, &running, &gone, &before] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("20231119.22.13.meta"), "half").unwrap();
        }
        fs::create_dir(step.join(&gone)).unwrap();
        fs::write(dir.path().join(".20231120.22.13.4194305"), "a file").unwrap();
        let mut found = abandoned(dir.path());
        found.sort();
        let mut expected = [dir.path().join(&before), dir.path().join(&gone), step.join(&gone)];
        expected.sort();
        assert_eq!(found, expected);
    }
}
