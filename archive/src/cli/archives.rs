//! Which archives a command works on: one, a list, all of a directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::failure::Failure;
use super::output::Output;
use super::warn;
use crate::reader::{MemberFiles, Members};
use crate::{Archive, ArchiveSet, Result};

/// Which archives a command works on.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ArchiveArgument {
    /// The archive: its base name, any of its files, or a directory, which stands for all
    /// archives in it. Several of them are separated by commas.
    archive: PathBuf,
}

/// What stands between archives in JSON.
#[derive(Serialize)]
struct Heading<'a> {
    archive: &'a Path,
}

impl ArchiveArgument {
    /// All archives as one timeline.
    ///
    /// # Errors
    ///
    /// Those of [`ArchiveSet::open`].
    pub(super) fn open(&self) -> Result<ArchiveSet, Failure> {
        let set = ArchiveSet::open(&self.paths()?)?;
        set.archives().iter().for_each(warn_of_defects);
        Ok(set)
    }

    /// Does the same for each archive, in the order of the names: of several
    /// each has a heading, and one that fails does not end the others.
    ///
    /// # Errors
    ///
    /// Of the failures the last one, the others were told; no data only if
    /// that is so for all archives.
    pub(super) fn each(
        &self,
        json: bool,
        print: impl Fn(&Archive, &mut Output) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.each_base(json, |base, out| {
            let archive = Archive::open(base)?;
            warn_of_defects(&archive);
            print(&archive, out)
        })
    }

    /// As [`each`](Self::each), for a command that opens the files itself.
    pub(super) fn each_base(
        &self,
        json: bool,
        print: impl Fn(&Path, &mut Output) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut out = Output::new();
        let bases = ArchiveSet::bases(&self.paths()?)?;
        let mut failed: Option<Failure> = None;
        let mut without_data = 0;
        for (at, base) in bases.iter().enumerate() {
            match (bases.len(), json) {
                (..=1, _) => {}
                (_, true) => out.json_line(&Heading { archive: base })?,
                (_, false) => {
                    let gap = if at == 0 { "" } else { "\n" };
                    let heading = format!("{gap}==> {} <==\n", base.display());
                    out.text.extend_from_slice(heading.as_bytes());
                }
            }
            let failure = match print(base, &mut out) {
                Ok(()) => continue,
                Err(failure @ (Failure::Closed | Failure::Output(_))) => return Err(failure),
                Err(failure) => failure,
            };
            without_data += usize::from(matches!(failure, Failure::NoData(_)));
            match failed.replace(failure) {
                None | Some(Failure::Findings | Failure::NoData(_)) => {}
                Some(other) => warn(&other),
            }
        }
        out.finish()?;
        match failed {
            Some(Failure::NoData(_)) if without_data < bases.len() => Ok(()),
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// Does the same for each file: one that is named, else those of the
    /// archives. One that fails does not end the others.
    pub(super) fn each_file(
        &self,
        print: impl Fn(&Path, &mut Output) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut out = Output::new();
        let mut failed: Option<Failure> = None;
        for file in self.files()? {
            match print(&file, &mut out) {
                Ok(()) => {}
                Err(failure @ (Failure::Closed | Failure::Output(_))) => return Err(failure),
                Err(failure) => failed.replace(failure).iter().for_each(|other| warn(other)),
            }
        }
        out.finish()?;
        failed.map_or(Ok(()), Err)
    }

    /// The files that are named, and those of the archives that are.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let mut all = Vec::new();
        for path in self.paths()? {
            if path.is_file() {
                all.push(path);
                continue;
            }
            for base in ArchiveSet::bases(&[path])? {
                all.extend(MemberFiles::of(&base)?.all().map(|(file, _)| file.to_owned()));
            }
        }
        Ok(all)
    }

    /// The parts of the list; a name with commas that exists is none.
    fn paths(&self) -> Result<Vec<PathBuf>> {
        let name = self.archive.as_os_str().as_bytes();
        if !name.contains(&b',') || self.archive.exists() || Members::any(&self.archive)?.is_some()
        {
            return Ok(vec![self.archive.clone()]);
        }
        let parts = name.split(|byte| *byte == b',').filter(|part| !part.is_empty());
        Ok(parts.map(|part| PathBuf::from(OsStr::from_bytes(part))).collect())
    }
}

/// Says what of an archive is not used.
fn warn_of_defects(archive: &Archive) {
    if let Some(tail) = archive.torn_tail() {
        let file = tail.file.display();
        warn(&format_args!("{file}: offset {}: unfinished record, ignored", tail.offset));
    }
    let index = archive.index();
    if let Some((offset, error)) = index.defect() {
        let base = archive.base().display();
        let used = if index.entries().is_empty() { "not used" } else { "used up to there" };
        warn(&format_args!("{base}.index: offset {offset}: {error}; the index is {used}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_split_at_its_commas_unless_it_is_a_name() {
        let directory = tempfile::tempdir().unwrap();
        let paths = |name: &str| {
            let archive = directory.path().join(name);
            let paths = ArchiveArgument { archive }.paths().unwrap();
            paths.into_iter().map(|path| path.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let inside = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        assert_eq!(paths("a"), [inside("a")]);
        assert_eq!(paths("a,b,,c,"), [inside("a"), "b".to_owned(), "c".to_owned()]);
        std::fs::write(directory.path().join("a,b.meta"), "").unwrap();
        assert_eq!(paths("a,b"), [inside("a,b")]);
    }
}
