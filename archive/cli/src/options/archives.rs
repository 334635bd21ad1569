//! The archives of a command: one, a list, or all of a directory.

use std::path::{Path, PathBuf};

use mmv_arguments::archives;
use pcp_archive::internal::{ArchiveOutline, half_made, has_metadata, member_files};
use pcp_archive::raw::{IndexDefect, LabelDefect, TemporalIndex};
use pcp_archive::scan::Selector;
use pcp_archive::{Archive, ArchiveSet, Error, Result};
use pcp_types::names::selects;
use serde::Serialize;

use crate::left_out::check_whole;
use crate::text::{Output, shown_path, warn};
use crate::{Failure, cancellation};

/// Limit on the findings of a kind that are reported one by one, such as bad entries of an index.
const MAX_WARNINGS: usize = 10;

/// The archives of a command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ArchiveArgument {
    /// Archive: its base name, any of its files, a directory for all archives in it (or in its only
    /// subdirectory with archives, such as the agent's HOST), or a pattern such as "web-*" or
    /// "2026112[0-6]*" for all archives with matching names; separate several by commas; @ for the
    /// archives of this machine's agent, @recorder for those of its flight recorder
    archive: PathBuf,
}

/// The line before each of several archives in JSON.
#[derive(Serialize)]
struct ArchiveHeading<'a> {
    archive: &'a Path,
}

impl ArchiveArgument {
    /// Creates the argument from a text of the command line.
    pub(crate) fn new(archive: impl Into<PathBuf>) -> Self {
        Self { archive: archive.into() }
    }

    /// Returns the text of the command line.
    pub(crate) fn text(&self) -> &Path {
        &self.archive
    }

    /// Opens all archives as one timeline. Metadata records that cannot be used are passed by, with
    /// a warning; [`check_whole`] makes them a failure when all else is done.
    ///
    /// There is a warning for each metric about which the archives contradict each other, if
    /// `asked` selects it by a name, branch, pattern or selector; an empty list selects all.
    ///
    /// # Errors
    ///
    /// Those of [`ArchiveSet::open_held`].
    pub(crate) fn open(&self, asked: &[String]) -> Result<ArchiveSet, Failure> {
        let mut set = ArchiveSet::open_held(&self.paths()?)?;
        set.cancel_reading_by(&cancellation::flag());
        warn_of_unused(&set);
        warn_of_contradictions(&set, asked);
        Ok(set)
    }

    /// Opens archives as [`open`](Self::open), for a copy of all metrics.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open) and of [`ArchiveSet::without_contradictions`].
    pub(crate) fn open_without_contradictions(&self) -> Result<ArchiveSet, Failure> {
        let set = ArchiveSet::open_held(&self.paths()?)?.without_contradictions()?;
        warn_of_unused(&set);
        Ok(set)
    }

    /// Opens the archives for a copy of these metrics, or of all if the list is empty.
    ///
    /// # Errors
    ///
    /// Those of [`open_without_contradictions`](Self::open_without_contradictions).
    pub(crate) fn open_for_copy(&self, metrics: &[String]) -> Result<ArchiveSet, Failure> {
        if metrics.is_empty() { self.open_without_contradictions() } else { self.open(metrics) }
    }

    /// Opens archives as [`open`](Self::open), without warnings.
    ///
    /// # Errors
    ///
    /// Those of [`ArchiveSet::open_tolerant`].
    pub(crate) fn open_quietly(&self) -> Result<ArchiveSet, Failure> {
        Ok(ArchiveSet::open_tolerant(&self.paths()?)?)
    }

    /// Calls `print` for each archive, in the order of their names. Several have
    /// a heading each, and a failure does not end the loop. Metadata records that cannot
    /// be used are passed by, with a warning.
    ///
    /// # Errors
    ///
    /// The last failure; the others are printed. [`Failure::NoData`] only if all
    /// archives have no data; an error for each archive without a record.
    pub(crate) fn each(
        &self,
        json: bool,
        print: impl Fn(&Archive, &mut Output) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.each_also_empty(json, |archive, out| {
            require_records(archive)?;
            print(archive, out)
        })
    }

    /// Calls `print` as [`each`](Self::each), also for archives that have metadata and no record.
    pub(crate) fn each_also_empty(
        &self,
        json: bool,
        print: impl Fn(&Archive, &mut Output) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        each_of(&self.complete_bases()?, json, |base, out| {
            let archive = open_held(base)?;
            warn_of_defects(&archive);
            print(&archive, out)?;
            check_whole(std::slice::from_ref(&archive))
        })
    }

    /// Calls `print` as [`each`](Self::each), without decompressing volumes from their start.
    pub(crate) fn each_outline(
        &self,
        json: bool,
        print: impl Fn(&ArchiveOutline, &mut Output) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        each_of(&self.complete_bases()?, json, |base, out| {
            let outline = ArchiveOutline::open(base)?;
            warn_of_bad_metadata(base, outline.bad_metadata());
            warn_of_index(base, outline.index());
            print(&outline, out)?;
            if outline.bad_metadata().is_empty() { Ok(()) } else { Err(Failure::Lost) }
        })
    }

    /// Calls `read` for archives as [`each`](Self::each), without headings.
    pub(crate) fn each_quietly(
        &self,
        read: impl Fn(&Archive) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut failed = Ok(());
        let bases = self.complete_bases()?;
        for base in &bases {
            let done = open_held(base).map_err(Failure::from).and_then(|archive| {
                warn_of_defects(&archive);
                read(&archive)?;
                check_whole(std::slice::from_ref(&archive))
            });
            if let Err(failure) = done
                && !was_removed(&failure, base, &bases)
                && let Err(earlier) = std::mem::replace(&mut failed, Err(failure))
            {
                warn(&earlier);
            }
        }
        failed
    }

    /// Returns the base names. In a directory with other archives, those whose writer ended while it
    /// created their files are left out, with a warning.
    fn complete_bases(&self) -> Result<Vec<PathBuf>, Failure> {
        let paths = self.paths()?;
        let mut bases = ArchiveSet::bases(&paths)?;
        if bases.len() < 2 || !paths.iter().any(|path| path.is_dir()) {
            return Ok(bases);
        }
        bases.retain(|base| has_metadata(base).unwrap_or(true));
        let mut complete = Vec::new();
        let mut reasons = Vec::new();
        for base in &bases {
            match half_made(base).ok().flatten() {
                Some(reason) => reasons.push(reason),
                None => complete.push(base.clone()),
            }
        }
        if complete.is_empty() {
            return Ok(bases);
        }
        reasons.iter().for_each(warn_of_half_made);
        Ok(complete)
    }

    /// Calls `print` as [`each`](Self::each), with the base names, also of archives whose writer
    /// ended while it made their files.
    pub(crate) fn each_base(
        &self,
        json: bool,
        print: impl Fn(&Path, &mut Output) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        each_of(&ArchiveSet::bases(&self.paths()?)?, json, print)
    }

    /// Calls `print` for each file that is named, and for each file of each archive
    /// that is named. A failure does not end the loop.
    pub(crate) fn each_file(
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

    /// Lists the named files, and all files of the named archives.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>> {
        let mut all = Vec::new();
        for path in self.paths()? {
            if path.is_file() {
                all.push(path);
                continue;
            }
            for base in ArchiveSet::bases([path])? {
                all.extend(member_files(&base)?);
            }
        }
        Ok(all)
    }

    /// Returns the paths that the argument stands for.
    pub(crate) fn paths(&self) -> Result<Vec<PathBuf>> {
        archives::paths(&self.archive)
    }
}

/// Calls `print` for each base name, with headings if there are several.
fn each_of(
    bases: &[PathBuf],
    json: bool,
    print: impl Fn(&Path, &mut Output) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut out = Output::new();
    let mut failed: Option<Failure> = None;
    let mut without_data = 0;
    let mut is_first = true;
    for base in bases {
        let before = out.text.len();
        match (bases.len(), json) {
            (..=1, _) => {}
            (_, true) => out.json_line(&ArchiveHeading { archive: base })?,
            (_, false) => {
                let gap = if is_first { "" } else { "\n" };
                let heading = format!("{gap}==> {} <==\n", shown_path(base));
                out.text.extend_from_slice(heading.as_bytes());
            }
        }
        let headed = out.text.len();
        let failure = match print(base, &mut out) {
            Err(failure) if was_removed(&failure, base, bases) => {
                // Unless it was written already.
                if out.text.len() >= headed {
                    out.text.truncate(before);
                }
                continue;
            }
            Ok(()) => {
                is_first = false;
                continue;
            }
            Err(failure @ (Failure::Closed | Failure::Output(_))) => return Err(failure),
            Err(failure) => failure,
        };
        is_first = false;
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

/// Opens an archive of a list, and keeps its volumes open.
fn open_held(base: &Path) -> Result<Archive> {
    let mut archive = Archive::open_tolerant(base)?;
    archive.hold_volumes()?;
    Ok(archive)
}

/// Returns whether a command has failed because one of several archives was removed after they had
/// been listed. The answer is then that of the others.
fn was_removed(failure: &Failure, base: &Path, bases: &[PathBuf]) -> bool {
    let is_about_it = match failure {
        Failure::Archive(error) => error.is_missing_file(),
        Failure::Findings => true,
        _ => false,
    };
    is_about_it && bases.len() > 1 && has_metadata(base).is_ok_and(|has_metadata| !has_metadata)
}

/// # Errors
///
/// For an archive without a record.
pub(crate) fn require_records(archive: &Archive) -> Result<(), Failure> {
    if archive.has_records() {
        return Ok(());
    }
    Err(pcp_archive::Error::NoData { path: archive.base().to_owned() }.into())
}

/// Warns of archives that are skipped, and of the parts of others that are not used.
fn warn_of_unused(set: &ArchiveSet) {
    set.unfinished().iter().for_each(warn_of_half_made);
    set.unreadable().iter().for_each(warn_of_unreadable);
    set.archives().iter().for_each(warn_of_defects);
}

fn warn_of_half_made(reason: &Error) {
    warn(&format_args!("{reason}; its writer stopped before it had created the archive; skipped"));
}

/// Warns of an archive of a directory that is skipped because it is damaged.
pub(crate) fn warn_of_unreadable(error: &Error) {
    warn(&format_args!(
        "{error}; this archive is skipped; \"check\" lists its damage, \"repair\" writes what is \
         left of it to a new one"
    ));
}

/// Warns of the metrics about which archives contradict each other, if `asked` selects them.
fn is_selected_by(text: &str, name: &str) -> bool {
    match text.parse::<Selector>() {
        Ok(selector) => selects(selector.name(), name),
        Err(_) => text == name,
    }
}

fn warn_of_contradictions(set: &ArchiveSet, asked: &[String]) {
    let relevant = set.left_out().iter().filter(|error| match error {
        Error::DescDiffers { name, .. } | Error::PmidDiffers { name, .. } => {
            asked.is_empty() || asked.iter().any(|text| is_selected_by(text, name))
        }
        _ => true,
    });
    let relevant: Vec<&Error> = relevant.collect();
    let line = |error: &&Error| match error {
        Error::PmidDiffers { pmid, .. } => format!("{error}; only {pmid} has the name here"),
        _ => format!("{error}; its values there are left out"),
    };
    let more = |more| format!("{more} more metrics are not the same in all archives");
    warn_of_first(&relevant, line, more);
}

/// Warns of the first of some findings, and of the number of the others.
fn warn_of_first<T>(all: &[T], line: impl Fn(&T) -> String, more: impl Fn(usize) -> String) {
    all.iter().take(MAX_WARNINGS).for_each(|one| warn(&line(one)));
    if all.len() > MAX_WARNINGS {
        warn(&more(all.len() - MAX_WARNINGS));
    }
}

fn warn_of_defects(archive: &Archive) {
    if let Some(tail) = archive.torn_tail() {
        let file = shown_path(&tail.file);
        warn(&format_args!("{file}: offset {}: incomplete last record, ignored", tail.offset));
    }
    let base = shown_path(archive.base());
    warn_of_bad_metadata(archive.base(), archive.bad_metadata());
    for missing in archive.missing_volumes() {
        let which = match (missing.start(), missing.end()) {
            (first, last) if first == last => format!("volume {first} does not exist"),
            (first, last) => format!("volumes {first} to {last} do not exist"),
        };
        warn(&format_args!("{base}: {which}; nothing is known of its time"));
    }
    warn_of_index(archive.base(), archive.index());
    let line =
        |defect: &LabelDefect| format!("{base}.meta: offset {}: {defect}; not used", defect.offset);
    let more = |more| format!("{base}.meta: {more} more label sets are not used");
    warn_of_first(archive.metadata().label_defects(), line, more);
}

fn warn_of_bad_metadata(base: &Path, errors: &[Error]) {
    let base = shown_path(base);
    let more = |more| {
        format!("{base}.meta: {more} more records are skipped; mmv-archive check lists them")
    };
    warn_of_first(errors, |error| format!("{error}; skipped"), more);
}

fn warn_of_index(base: &Path, index: &TemporalIndex) {
    let base = shown_path(base);
    let line = |defect: &IndexDefect| {
        let IndexDefect { offset, number, error, .. } = defect;
        match number {
            0 => format!("{base}.index: offset {offset}: {error}; the index is ignored"),
            _ => format!("{base}.index: offset {offset}: index entry {number}: {error}; ignored"),
        }
    };
    let more = |more| format!("{base}.index: {more} more entries are ignored; see check");
    warn_of_first(index.defects(), line, more);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_removed_before_it_is_read_is_no_failure() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            let archive = test_archives::Builder::in_directory(directory.path(), name);
            archive.metric("m", "u32 instant").row(0, [("m", 1)]).finish();
        }
        let archives = ArchiveArgument::new(directory.path());
        let read = std::cell::RefCell::new(Vec::new());
        let printed = archives.each_base(false, |base, _| {
            pcp_archive::internal::remove_archive(&directory.path().join("a")).unwrap();
            read.borrow_mut().push(open_held(base)?.base().to_owned());
            Ok(())
        });
        printed.unwrap();
        assert_eq!(*read.borrow(), [directory.path().join("b")]);
        let one = ArchiveArgument::new(directory.path().join("b"));
        let printed = one.each_base(false, |base, _| {
            pcp_archive::internal::remove_archive(base).unwrap();
            open_held(base)?;
            Ok(())
        });
        assert!(printed.is_err(), "nothing is left");
    }
}
