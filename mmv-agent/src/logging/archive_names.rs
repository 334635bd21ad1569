//! Archive names: `<directory>/<host>/YYYYMMDD.HH.MM`, in UTC.
//!
//! A name is the start time of its archive and is never reused, even after the archive was
//! deleted; further archives with the same start get `-01`, `-02` and so on. Archives of one
//! directory must not overlap in time, since PCP cannot open such a directory. After the clock was
//! set back they go to a sibling directory `step-1`, `step-2` and so on.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pcp_archive::Archive;
use pcp_archive::internal::existing_file;
use pcp_types::Timestamp;

use crate::config::Destination;
use crate::host::file_name;

/// Assigns the names of new archives.
#[derive(Debug)]
pub(crate) struct ArchiveNames {
    destination: Destination,
    host: String,
    step: u32,
    /// The last assigned name without its number, and the number.
    last: Option<(PathBuf, u32)>,
    /// Highest numbers of existing archives at the start, by name without number.
    found: BTreeMap<PathBuf, u32>,
}

impl ArchiveNames {
    /// Creates the names for archives of `host`.
    pub(crate) fn new(destination: Destination, host: &str) -> Self {
        Self { destination, host: file_name(host), step: 0, last: None, found: BTreeMap::new() }
    }

    /// Continues after the numbers of existing archives, even if these are removed later.
    pub(crate) fn after_found<'p>(mut self, bases: impl Iterator<Item = &'p Path>) -> Self {
        for (stem, number) in bases.filter_map(Path::to_str).map(split_number) {
            let highest = self.found.entry(stem).or_default();
            *highest = number.max(*highest);
        }
        self
    }

    /// Continues after `newest`, the value of [`newest`](Self::newest) in an earlier run.
    pub(crate) fn after(mut self, newest: Option<&str>) -> Self {
        let Destination::Directory(directory) = &self.destination else { return self };
        let host = directory.join(&self.host);
        self.last = newest.and_then(|newest| host.join(newest).to_str().map(split_number));
        self
    }

    /// Returns the directory of the next archive, which for a base name without a directory is the
    /// current directory.
    pub(crate) fn directory(&self) -> PathBuf {
        match &self.destination {
            Destination::Directory(directory) if self.step == 0 => directory.join(&self.host),
            Destination::Directory(directory) => {
                directory.join(&self.host).join(format!("step-{}", self.step))
            }
            Destination::Base(base) => match base.parent() {
                Some(parent) if parent != Path::new("") => parent.to_owned(),
                _ => PathBuf::from("."),
            },
        }
    }

    /// Returns an unused base name for an archive that starts at `start`, and creates its
    /// directory.
    ///
    /// # Errors
    ///
    /// From the system, when the directory cannot be created.
    pub(crate) fn next(&self, start: Timestamp) -> io::Result<PathBuf> {
        let directory = self.directory();
        fs::create_dir_all(&directory)?;
        let wanted = match &self.destination {
            Destination::Directory(_) => directory.join(stem(start)),
            Destination::Base(base) => base.clone(),
        };
        let given = self.last.as_ref().filter(|(last, _)| *last == wanted);
        let given = given.map(|(_, number)| *number);
        let highest = given.max(self.found.get(&wanted).copied());
        let mut number = highest.map_or(0, |highest| highest.saturating_add(1));
        while is_taken(&numbered(&wanted, number)) {
            number += 1;
        }
        Ok(numbered(&wanted, number))
    }

    pub(crate) fn note(&mut self, base: &Path) {
        self.last = base.to_str().map(split_number);
    }

    /// Returns the last assigned name relative to the host's directory; `None` if the user has
    /// named the archive.
    pub(crate) fn newest(&self) -> Option<String> {
        let Destination::Directory(directory) = &self.destination else { return None };
        let (stem, number) = self.last.as_ref()?;
        let base = numbered(stem, *number);
        Some(base.strip_prefix(directory.join(&self.host)).ok()?.to_str()?.to_owned())
    }

    /// Returns true if an archive that starts at `start` would precede an existing name in its
    /// directory, since the clock was set back.
    pub(crate) fn is_before_newest(&self, start: Timestamp) -> bool {
        let wanted = self.directory().join(stem(start));
        let Destination::Directory(_) = &self.destination else { return false };
        self.last.as_ref().is_some_and(|(last, _)| {
            last.parent() == wanted.parent() && last.file_name() > wanted.file_name()
        })
    }

    /// Returns the end of the newest readable archive in the directory; `None` if there is none,
    /// or if the user has named the archive.
    pub(crate) fn newest_end(&self) -> Option<Timestamp> {
        let Destination::Directory(_) = &self.destination else { return None };
        let directory = self.directory();
        let names = fs::read_dir(&directory).ok()?.filter_map(Result::ok);
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let stems = names.filter_map(|name| name.strip_suffix(".meta").map(str::to_owned));
        let mut stems: Vec<_> = stems.collect();
        // Names sort by time, including numbered ones: a name without number sorts before "-01".
        stems.sort_unstable_by(|one, other| other.cmp(one));
        // The newest archive may be incomplete, if an agent was killed.
        stems.iter().find_map(|stem| Archive::open(directory.join(stem)).ok()).map(|one| one.end())
    }

    /// Uses a new directory for the next archive, since the clock was set back. A base name given
    /// by the user stays; its archives are numbered.
    pub(crate) fn step(&mut self) {
        if matches!(self.destination, Destination::Directory(_)) {
            self.step += 1;
            while self.directory().exists() {
                self.step += 1;
            }
        }
    }
}

/// Formats `YYYYMMDD.HH.MM`; seconds for a time outside of the calendar.
fn stem(start: Timestamp) -> String {
    jiff::Timestamp::from_second(start.seconds()).map_or_else(
        |_| start.seconds().to_string(),
        |time| time.strftime("%Y%m%d.%H.%M").to_string(),
    )
}

fn is_taken(base: &Path) -> bool {
    existing_file(base).is_ok_and(|found| found.is_some())
}

/// Appends a number to a name, if it is not 0.
fn numbered(wanted: &Path, number: u32) -> PathBuf {
    match number {
        0 => wanted.to_owned(),
        number => with_suffix(wanted, &format!("-{number:02}")),
    }
}

/// Splits a number off a name; other hyphens belong to the name.
fn split_number(name: &str) -> (PathBuf, u32) {
    if let Some((stem, digits)) = name.rsplit_once('-')
        && digits.len() > 1
        && let Ok(number) = digits.parse()
    {
        return (stem.into(), number);
    }
    (name.into(), 0)
}

// `Path::with_extension` would replace the minutes.
fn with_suffix(base: &Path, suffix: &str) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Timestamp {
        Timestamp::new(1_700_000_000, 5).unwrap()
    }

    #[test]
    fn a_name_is_the_start_in_utc_in_the_directory_of_the_host() {
        let dir = tempfile::tempdir().unwrap();
        let names = ArchiveNames::new(Destination::Directory(dir.path().to_owned()), "web");
        assert_eq!(names.next(start()).unwrap(), dir.path().join("web/20231114.22.13"));
        assert!(dir.path().join("web").is_dir());
    }

    #[test]
    fn a_name_that_any_member_has_taken_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let names = ArchiveNames::new(Destination::Directory(dir.path().to_owned()), "web");
        let base = names.next(start()).unwrap();
        for (member, next) in [
            ("meta", "-01"),
            ("-01.0.xz", "-02"),
            ("-02.index", "-03"),
            ("-03.meta.unfinished", "-04"),
        ] {
            let separator = if member.starts_with('-') { "" } else { "." };
            fs::write(with_suffix(&base, &format!("{separator}{member}")), "").unwrap();
            assert_eq!(names.next(start()).unwrap(), with_suffix(&base, next));
        }
    }

    #[test]
    fn a_name_follows_those_that_were_found_also_if_there_is_a_gap() {
        let dir = tempfile::tempdir().unwrap();
        let names = ArchiveNames::new(Destination::Directory(dir.path().to_owned()), "web");
        let base = names.next(start()).unwrap();
        let found = [with_suffix(&base, "-04"), base.clone(), "/elsewhere-07".into()];
        let mut names = names.after_found(found.iter().map(PathBuf::as_path));
        assert_eq!(names.next(start()).unwrap(), with_suffix(&base, "-05"));
        names.note(&with_suffix(&base, "-02"));
        assert_eq!(names.next(start()).unwrap(), with_suffix(&base, "-05"));
        names.note(&with_suffix(&base, "-05"));
        assert_eq!(names.next(start()).unwrap(), with_suffix(&base, "-06"));
    }

    #[test]
    fn names_are_not_reused_after_deletion_or_restart() {
        let dir = tempfile::tempdir().unwrap();
        let destination = Destination::Directory(dir.path().to_owned());
        let mut names = ArchiveNames::new(destination.clone(), "web");
        let give = |names: &mut ArchiveNames, start| {
            let base = names.next(start).unwrap();
            names.note(&base);
            base
        };
        let given = [0; 3].map(|_| give(&mut names, start()));
        let host = dir.path().join("web");
        let expected = ["", "-01", "-02"].map(|end| host.join(format!("20231114.22.13{end}")));
        assert_eq!(given, expected);
        assert_eq!(names.newest().as_deref(), Some("20231114.22.13-02"));
        let newest = names.newest();
        let mut names = ArchiveNames::new(destination.clone(), "web").after(newest.as_deref());
        assert_eq!(give(&mut names, start()), host.join("20231114.22.13-03"));
        let earlier = start().saturating_sub(std::time::Duration::from_secs(60));
        assert!(names.is_before_newest(earlier) && !names.is_before_newest(start()));
        names.step();
        assert!(!names.is_before_newest(earlier));
        give(&mut names, earlier);
        assert_eq!(names.newest().as_deref(), Some("step-1/20231114.22.12"));
        let newest = names.newest();
        let names = ArchiveNames::new(destination, "web").after(newest.as_deref());
        assert_eq!(names.newest(), newest);
    }

    #[test]
    fn base_name_of_the_user_is_numbered_only_when_taken() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("run.1");
        let names = ArchiveNames::new(Destination::Base(base.clone()), "web");
        assert_eq!(names.next(start()).unwrap(), base);
        fs::write(with_suffix(&base, ".0"), "").unwrap();
        assert_eq!(names.next(start()).unwrap(), dir.path().join("run.1-01"));
    }

    #[test]
    fn clock_step_moves_archives_to_a_sibling_directory() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("web/step-1")).unwrap();
        let mut names = ArchiveNames::new(Destination::Directory(dir.path().to_owned()), "web");
        names.step();
        assert_eq!(names.directory(), dir.path().join("web/step-2"));
        names.next(start()).unwrap();
        names.step();
        assert_eq!(names.directory(), dir.path().join("web/step-3"));
    }

    #[test]
    fn a_host_cannot_lead_out_of_the_directory() {
        let names = ArchiveNames::new(Destination::Directory("/a".into()), "../b");
        assert_eq!(names.directory(), Path::new("/a/_._b"));
    }
}
