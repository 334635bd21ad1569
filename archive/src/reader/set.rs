//! Several archives of one host as one timeline.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hashbrown::HashSet;

use super::merge::{MergedMetadata, merge};
use crate::files::{LISTINGS, MemberFiles, parallel};
use crate::format::Adaptations;
use crate::{Archive, Error, Metadata, Result, files};

/// Archives of one host that follow each other, opened for reading.
///
/// They are read through a [`Source`](super::Source), as one archive is. Their
/// metadata is one: instance domains and labels go on from one archive to the next, and a
/// metric has one descriptor. Numbers of archives that have another type or other units of the
/// same dimension are converted; other archives' values of the metric are
/// [left out](Self::left_out).
///
/// ```no_run
/// use pcp_archive::{ArchiveSet, Source};
/// # fn main() -> pcp_archive::Result<()> {
/// let week = ArchiveSet::open(["/var/log/pcp/pmlogger/acme"])?;
/// let mut records = Source::from(&week).records()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ArchiveSet {
    /// In the order of time; at least one.
    archives: Vec<Archive>,
    /// The metadata of all archives, if there is more than one.
    merged: Option<Metadata>,
    /// The reasons why archives of directories are unfinished.
    unfinished: Vec<Error>,
    /// The reasons why archives of directories cannot be opened.
    unreadable: Vec<Error>,
    left_out: Vec<Error>,
    /// Of each archive; none of a single one.
    adaptations: Vec<Adaptations>,
}

impl ArchiveSet {
    /// Opens archives by their names, in any order: each as for
    /// [`Archive::open`], or a directory, which stands for all archives in it.
    /// An archive that is named twice counts once, and one that has no records
    /// is left out unless there is no other. So is one of a directory whose writer ended
    /// while it made the files: [`unfinished`](Self::unfinished) has it.
    ///
    /// # Errors
    ///
    /// Those of [`Archive::open`]; [`Error::HostDiffers`] and
    /// [`Error::Overlap`] for archives that are not a timeline.
    pub fn open<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self> {
        let paths: Vec<P> = paths.into_iter().collect();
        Self::open_with(&paths, false, |files| Archive::open_listed(files, false))
    }

    /// Opens archives as [`open`](Self::open), but each as by [`Archive::open_tolerant`]. An
    /// archive of a directory that cannot be opened because it is damaged is left out if others
    /// can: [`unreadable`](Self::unreadable) has the reason.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_tolerant<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self> {
        let paths: Vec<P> = paths.into_iter().collect();
        Self::open_with(&paths, true, |files| Archive::open_listed(files, true))
    }

    /// Opens archives as [`open_tolerant`](Self::open_tolerant), and keeps the files of data
    /// volumes open by [`Archive::hold_volumes`]: for a command that reads them to its end.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_held<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self> {
        let paths: Vec<P> = paths.into_iter().collect();
        Self::open_with(&paths, true, |files| {
            let mut archive = Archive::open_listed(files, true)?;
            archive.hold_volumes()?;
            Ok(archive)
        })
    }

    /// Stops reading once a flag is set, as [`Archive::cancel_reading_by`] does.
    pub fn cancel_reading_by(&mut self, flag: &Arc<AtomicBool>) {
        self.archives.iter_mut().for_each(|archive| archive.cancel_reading_by(flag));
    }

    /// Archives that were removed after they had been listed are left out, unless reduced ones have
    /// taken their place. If none is left, they are listed again.
    fn open_with<P: AsRef<Path>>(
        paths: &[P],
        is_tolerant: bool,
        open: impl Fn(&MemberFiles) -> Result<Archive> + Sync,
    ) -> Result<Self> {
        for _ in 1..LISTINGS {
            match Self::open_listed(paths, is_tolerant, &open) {
                Err(error) if error.is_missing_file() => {}
                opened => return opened,
            }
        }
        Self::open_listed(paths, is_tolerant, &open)
    }

    fn open_listed<P: AsRef<Path>>(
        paths: &[P],
        is_tolerant: bool,
        open: impl Fn(&MemberFiles) -> Result<Archive> + Sync,
    ) -> Result<Self> {
        let listed = Self::listed(paths)?;
        let mut archives = Vec::with_capacity(listed.len());
        let mut unfinished = Vec::new();
        let mut unreadable = Vec::new();
        let mut empty = None;
        let mut gone = None;
        for (files, opened) in listed.iter().zip(open_all(&listed, &open)) {
            let base = files.base.as_path();
            let opened = match opened {
                Err(error) if error.is_missing_file() && is_listed(base, paths) => {
                    open_successor(base, &listed, &open)?.unwrap_or(Err(error))
                }
                opened => opened,
            };
            match opened {
                // One of which no record is whole has lost some, which readers report.
                Ok(archive) if archive.has_records() || archive.is_damaged => {
                    archives.push(archive);
                }
                Ok(archive) => empty = Some(Error::NoData { path: archive.base }),
                Err(error @ Error::NoData { .. }) => empty = Some(error),
                Err(error) if error.is_missing_file() && !files::has_metadata(base)? => {
                    gone = Some(error);
                }
                Err(error) if is_listed(base, paths) => match files::half_made(base)? {
                    Some(reason) => unfinished.push(reason),
                    None if is_tolerant && error.is_damage() => unreadable.push(error),
                    None => return Err(error),
                },
                Err(error) => return Err(error),
            }
        }
        archives.sort_by_key(|archive| archive.label().start);
        while let Some(error) = take_wrong_start(&mut archives)? {
            if !is_tolerant || !is_listed(&error.base, paths) {
                return Err(error.reason);
            }
            unreadable.push(error.reason);
        }
        if archives.is_empty()
            && let Some(error) = unreadable.pop().or(empty).or_else(|| unfinished.pop()).or(gone)
        {
            return Err(error);
        }
        Ok(Self { unfinished, unreadable, ..Self::from_archives(archives)? })
    }

    /// Returns the base names of the archives that names stand for, as [`open`](Self::open)
    /// understands them, each once. Nothing is opened.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] for a name that stands for none, [`Error::Io`].
    pub fn bases<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Vec<PathBuf>> {
        Ok(Self::listed(paths)?.into_iter().map(|files| files.base).collect())
    }

    /// Returns the archives that names stand for, each once.
    fn listed<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Vec<MemberFiles>> {
        let mut all: Vec<MemberFiles> = Vec::new();
        let mut seen = HashSet::new();
        for path in paths {
            for files in files::archives(path.as_ref())? {
                if seen.insert(files.base.clone()) {
                    all.push(files);
                }
            }
        }
        Ok(all)
    }

    /// Returns a set of archives that are open, in any order.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); [`Error::NotFound`] without an archive.
    pub fn from_archives(mut archives: Vec<Archive>) -> Result<Self> {
        archives.sort_by_key(|archive| archive.label().start);
        for pair in archives.windows(2) {
            if let [before, after] = pair {
                check_pair(before, after)?;
            }
        }
        let (merged, left_out, adaptations) = match archives.as_slice() {
            [] => return Err(Error::NotFound { path: PathBuf::new() }),
            [_] => (None, Vec::new(), Vec::new()),
            several => {
                let MergedMetadata { metadata, left_out, adaptations, .. } = merge(several);
                (Some(metadata), left_out, adaptations)
            }
        };
        Ok(Self {
            archives,
            merged,
            unfinished: Vec::new(),
            unreadable: Vec::new(),
            left_out,
            adaptations,
        })
    }

    /// Returns the archives in the order of time, at least one.
    pub fn archives(&self) -> &[Archive] {
        &self.archives
    }

    /// Returns the archives of directories that are skipped because their writer did not finish
    /// creating them: an error with what is missing for each.
    pub fn unfinished(&self) -> &[Error] {
        &self.unfinished
    }

    /// Returns the reasons why archives of directories cannot be opened, such as a damaged label;
    /// none unless the set was opened [tolerantly](Self::open_tolerant).
    pub fn unreadable(&self) -> &[Error] {
        &self.unreadable
    }

    /// Returns for each archive the changes that make its values those of the timeline.
    pub(super) fn adaptations(&self) -> &[Adaptations] {
        &self.adaptations
    }

    /// Metrics and names on which the archives disagree:
    /// [`Error::DescDiffers`] for a metric that has another descriptor in an archive, to which
    /// values cannot be converted, so that those of this archive are left out;
    /// [`Error::PmidDiffers`] for a name that earlier archives have for another metric than
    /// the last one that has it, which keeps it. Each archive alone has them.
    pub fn left_out(&self) -> &[Error] {
        &self.left_out
    }

    /// Returns the set, if nothing is left out of it. For copies, which would otherwise lose
    /// values.
    ///
    /// # Errors
    ///
    /// The first of [`left_out`](Self::left_out).
    pub fn without_contradictions(mut self) -> Result<Self> {
        if self.left_out.is_empty() { Ok(self) } else { Err(self.left_out.swap_remove(0)) }
    }

    /// Metrics, instance domains, labels and help text of all archives.
    pub fn metadata(&self) -> &Metadata {
        self.merged.as_ref().unwrap_or_else(|| self.first().metadata())
    }

    #[expect(clippy::indexing_slicing, reason = "`of` rejects an empty list")]
    pub(super) fn first(&self) -> &Archive {
        &self.archives[0]
    }
}

/// Opens archives side by side: of a compressed one the end may have to be decoded. The results are
/// in the order of the names.
fn open_all(
    listed: &[MemberFiles],
    open: impl Fn(&MemberFiles) -> Result<Archive> + Sync,
) -> Vec<Result<Archive>> {
    if let [files] = listed {
        return vec![open(files)];
    }
    let threads = parallel::threads().min(listed.len());
    let open_next = |(): &mut (), files: &MemberFiles| open(files);
    parallel::in_order((0..threads).map(|_| ()), open_next, |jobs| {
        for files in listed {
            jobs.push(files);
        }
        std::iter::from_fn(|| jobs.pop()).collect()
    })
}

/// Opens the archive that has taken the place of one that has vanished, unless it was listed as
/// well. `None` if there is none.
fn open_successor(
    base: &Path,
    listed: &[MemberFiles],
    open: impl Fn(&MemberFiles) -> Result<Archive>,
) -> Result<Option<Result<Archive>>> {
    for _ in 0..LISTINGS {
        let is_new = |base: &PathBuf| listed.iter().all(|files| files.base != *base);
        let Some(successor) = files::successor(base)?.filter(is_new) else { return Ok(None) };
        match open(&MemberFiles::list(&successor)?) {
            Err(error) if error.is_missing_file() => {}
            opened => return Ok(Some(opened)),
        }
    }
    Ok(None)
}

/// Returns whether an archive is one of a directory and not named itself.
fn is_listed<P: AsRef<Path>>(base: &Path, paths: &[P]) -> bool {
    paths.iter().any(|path| path.as_ref().is_dir() && base.starts_with(path))
}

/// An archive whose label in the metadata has a damaged start time.
struct WrongStart {
    base: PathBuf,
    reason: Error,
}

/// Removes an archive whose label in the metadata has a damaged start time. Only those are
/// examined that overlap with a neighbour in the order of time, or begin after their last record.
fn take_wrong_start(archives: &mut Vec<Archive>) -> Result<Option<WrongStart>> {
    let mut suspects = Vec::new();
    for (number, archive) in archives.iter().enumerate() {
        if archive.label().start > archive.end() {
            suspects.push(number);
        }
    }
    for (number, pair) in archives.windows(2).enumerate() {
        if let [before, after] = pair
            && matches!(check_pair(before, after), Err(Error::Overlap { .. }))
        {
            suspects.extend([number, number + 1]);
        }
    }
    for number in suspects {
        let Some(archive) = archives.get(number) else { continue };
        if let Some(reason) = archive.start_difference()? {
            let base = archive.base().to_owned();
            archives.remove(number);
            return Ok(Some(WrongStart { base, reason }));
        }
    }
    Ok(None)
}

/// Checks that two archives are of one host, and that the second begins after the first ends.
fn check_pair(before: &Archive, after: &Archive) -> Result<()> {
    let file = after.base().to_owned();
    let other = before.base().to_owned();
    let label = after.label();
    let first = before.label();
    if label.hostname != first.hostname {
        let found = label.hostname.to_string();
        let expected = first.hostname.to_string();
        return Err(Error::HostDiffers { file, found, other, expected });
    }
    if label.start < before.end() || label.start == first.start {
        return Err(Error::Overlap { file, start: label.start, other, end: before.end() });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
