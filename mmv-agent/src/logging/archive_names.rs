//! How archives are called: `<directory>/<host>/YYYYMMDD.HH.MM`, in UTC.
//!
//! A name is the start time of its archive and is never taken twice: `-01`, `-02`
//! and so on follow when one is taken. Archives of one directory must not overlap
//! in time, since PCP cannot open such a directory: after the clock was set back
//! they go to a sibling directory `step-1`, `step-2` and so on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pcp_archive::Archive;
use pcp_types::Timestamp;

use crate::config::Destination;

/// The members by which a base name is known to be taken. Closed volumes may
/// be compressed; while an archive is repaired in its place there may be none but
/// the last of these.
const MEMBERS: [&str; 7] = ["meta", "index", "0", "0.xz", "0.zst", "0.gz", "in-place-whole.meta"];

/// Gives each new archive its name.
#[derive(Debug)]
pub(crate) struct ArchiveNames {
    destination: Destination,
    host: String,
    step: u32,
}

impl ArchiveNames {
    /// Names for archives of `host`.
    pub(crate) fn new(destination: Destination, host: &str) -> Self {
        // A host name with a slash would lead elsewhere.
        Self { destination, host: host.replace('/', "_"), step: 0 }
    }

    /// The directory that the next archive goes to. For a base name without a
    /// directory this is the current directory.
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

    /// A base name that is not taken, for an archive that starts at `start`.
    /// Its directory exists afterwards.
    ///
    /// # Errors
    ///
    /// From the system, when the directory cannot be made.
    pub(crate) fn next(&self, start: Timestamp) -> io::Result<PathBuf> {
        let directory = self.directory();
        fs::create_dir_all(&directory)?;
        let wanted = match &self.destination {
            Destination::Directory(_) => directory.join(stem(start)),
            Destination::Base(base) => base.clone(),
        };
        let mut base = wanted.clone();
        let mut number = 0u32;
        while is_taken(&base) {
            number += 1;
            base = with_suffix(&wanted, &format!("-{number:02}"));
        }
        Ok(base)
    }

    /// When the newest archive of the directory ends; `None` if there is none, or
    /// none that can be read, and where the user has named the archive.
    pub(crate) fn newest_end(&self) -> Option<Timestamp> {
        let Destination::Directory(_) = &self.destination else { return None };
        let directory = self.directory();
        let names = fs::read_dir(&directory).ok()?.filter_map(Result::ok);
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        // Names sort by time, also those with a number: nothing sorts before
        // "-01".
        let newest =
            names.filter_map(|name| name.strip_suffix(".meta").map(str::to_owned)).max()?;
        Archive::open(directory.join(newest)).ok().map(|archive| archive.end())
    }

    /// The clock was set back: the next archive goes to a directory of its own.
    /// A base name given by the user stays; its archives are numbered.
    pub(crate) fn step(&mut self) {
        if matches!(self.destination, Destination::Directory(_)) {
            self.step += 1;
            while self.directory().exists() {
                self.step += 1;
            }
        }
    }
}

/// `YYYYMMDD.HH.MM`; a moment that no calendar has becomes its seconds.
fn stem(start: Timestamp) -> String {
    jiff::Timestamp::from_second(start.seconds()).map_or_else(
        |_| start.seconds().to_string(),
        |time| time.strftime("%Y%m%d.%H.%M").to_string(),
    )
}

fn is_taken(base: &Path) -> bool {
    MEMBERS.iter().any(|member| with_suffix(base, &format!(".{member}")).symlink_metadata().is_ok())
}

/// `Path::with_extension` would replace the minutes.
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
            ("-03.in-place-whole.meta", "-04"),
        ] {
            let separator = if member.starts_with('-') { "" } else { "." };
            fs::write(with_suffix(&base, &format!("{separator}{member}")), "").unwrap();
            assert_eq!(names.next(start()).unwrap(), with_suffix(&base, next));
        }
    }

    #[test]
    fn a_base_name_of_the_user_is_used_unchanged_and_numbered_when_taken() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("run.1");
        let names = ArchiveNames::new(Destination::Base(base.clone()), "web");
        assert_eq!(names.next(start()).unwrap(), base);
        fs::write(with_suffix(&base, ".0"), "").unwrap();
        assert_eq!(names.next(start()).unwrap(), dir.path().join("run.1-01"));
    }

    #[test]
    fn after_a_step_of_the_clock_archives_go_to_a_new_sibling_directory() {
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
        assert_eq!(names.directory(), Path::new("/a/.._b"));
    }
}
