//! The archives of a page, side by side, and its metrics.
//!
//! One archive as for the other commands, or several as `NAME=ARCHIVE`: they are not one
//! timeline, so they may overlap in time and be of different hosts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::ArchiveArgument;
use crate::Failure;
use crate::text::shown_path;

const MAX_SIDES: usize = 8;
/// The longest name of an archive, in bytes.
const MAX_NAME: usize = 32;

/// Archives and metrics of a page.
#[derive(Debug, Args)]
pub(crate) struct SidesArgument {
    /// Archive, as for the other commands: a base name, a directory, a pattern, a list with commas,
    /// or @ for the archives of this machine's agent. To compare several, name each of them:
    /// A=ARCHIVE B=ARCHIVE ...; they may overlap in time and come from different hosts
    archive: PathBuf,

    /// More archives, as B=ARCHIVE; and metrics of the page: names, branches of the name space, or
    /// patterns such as "disk.*.read", also with labels: "mmv.shop.requests{code=~'5..'}"
    /// [default: all]
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,

    /// Only these instances, by name, number or a pattern such as "sd*"; may be repeated
    /// [default: all]
    #[arg(short = 'i', long = "instance", value_name = "NAME")]
    pub(crate) instances: Vec<String>,

    /// Shift later archives in time so that all begin with the first one, to compare yesterday
    /// with today
    #[arg(long, value_name = "AT")]
    align: Option<Align>,
}

/// The alignment of archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Align {
    /// The starts of the archives
    Start,
}

/// The archives, each with its name, and the texts that select metrics.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) first: (String, ArchiveArgument),
    pub(crate) others: Vec<(String, ArchiveArgument)>,
    pub(crate) metrics: Vec<String>,
}

impl SidesArgument {
    /// Returns whether the starts of all archives are shown at the same time.
    pub(crate) fn is_aligned(&self) -> bool {
        self.align == Some(Align::Start)
    }

    /// Tells archives from metrics.
    ///
    /// # Errors
    ///
    /// [`Failure::Usage`] for several archives that are not all named, each differently.
    pub(crate) fn parts(&self) -> Result<Parts, Failure> {
        Parts::new(&self.archive, &self.metrics)
    }
}

impl Parts {
    /// Tells archives from metrics; `first` is an archive.
    ///
    /// # Errors
    ///
    /// As [`SidesArgument::parts`].
    pub(crate) fn new(first: &Path, others_and_metrics: &[String]) -> Result<Self, Failure> {
        let mut others = Vec::new();
        let mut metrics = Vec::new();
        for text in others_and_metrics {
            match named(Path::new(text)) {
                Some((name, path)) => others.push((name, ArchiveArgument::new(path))),
                None => metrics.push(text.clone()),
            }
        }
        let first = match named(first) {
            Some((name, path)) => (name, ArchiveArgument::new(path)),
            None if others.is_empty() => (String::new(), ArchiveArgument::new(first)),
            None => {
                let first = shown_path(first);
                return Err(Failure::Usage(format!("name each of several archives: A={first}")));
            }
        };
        if others.len() >= MAX_SIDES {
            let count = others.len() + 1;
            return Err(Failure::Usage(format!(
                "{count} archives, but at most {MAX_SIDES} are shown side by side"
            )));
        }
        let mut known = vec![first.0.clone()];
        for (name, _) in &others {
            if known.contains(name) {
                return Err(Failure::Usage(format!("two archives are named {name}")));
            }
            known.push(name.clone());
        }
        Ok(Self { first, others, metrics })
    }
}

/// Parses the name and the archive of `NAME=ARCHIVE`; `None` for other text, and for a file of that
/// name.
pub(crate) fn named(text: &Path) -> Option<(String, PathBuf)> {
    let bytes = text.as_os_str().as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    let name = bytes.get(..at)?;
    let path = bytes.get(at + 1..)?;
    let is_named = (1..=MAX_NAME).contains(&name.len())
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte));
    if !is_named || path.is_empty() || text.exists() {
        return None;
    }
    let name = String::from_utf8_lossy(name).into_owned();
    Some((name, PathBuf::from(OsStr::from_bytes(path))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(archive: &str, more: &[&str]) -> Result<(Vec<String>, Vec<String>), Failure> {
        let metrics = more.iter().map(ToString::to_string).collect();
        let argument =
            SidesArgument { archive: archive.into(), metrics, instances: Vec::new(), align: None };
        let Parts { first, others, metrics } = argument.parts()?;
        let names = std::iter::once(first).chain(others).map(|(name, _)| name);
        Ok((names.collect(), metrics))
    }

    #[test]
    fn archives_with_names_are_told_from_metrics() {
        let metric = "mmv.shop.requests{code='5'}";
        let found = parts("A=/tmp/a", &["B=/tmp/b", metric]).unwrap();
        assert_eq!(found, (vec!["A".to_owned(), "B".to_owned()], vec![metric.to_owned()]));
        assert_eq!(parts("dir", &["load"]).unwrap().0, [""]);
        let usage = |result: Result<_, Failure>| matches!(result, Err(Failure::Usage(_)));
        assert!(usage(parts("dir", &["B=/tmp/b"])), "the first one has no name");
        assert!(usage(parts("A=x", &["A=y"])));
        let many: Vec<String> = (0..9).map(|n| format!("s{n}=x")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(usage(parts(many[0], &many[1..])));
    }

    #[test]
    fn other_texts_are_no_names() {
        for text in ["a", "=a", "a=", "a b=c", "x{y=z", &format!("{}=c", "n".repeat(33))] {
            assert_eq!(named(Path::new(text)), None, "{text}");
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("A=b");
        std::fs::write(&file, "").unwrap();
        assert_eq!(named(&file), None);
        assert_eq!(named(Path::new("A=b=c")), Some(("A".to_owned(), "b=c".into())));
    }
}
