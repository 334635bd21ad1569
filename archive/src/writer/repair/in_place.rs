//! A repair that replaces the old files, and may be interrupted at any time.
//!
//! | step | files | readers find |
//! |---|---|---|
//! | write | `.BASE.repairing/` gets the new files, which are synced | the old archive |
//! | commit | the directory is renamed to `.BASE.repaired/` | the old archive |
//! | finish 1 | the old files are removed, metadata first | none |
//! | finish 2 | the new files are moved out, metadata last | none, and then the new one |
//! | finish 3 | the directory is removed | the new archive |
//!
//! The directory also has the further archives, `BASE-2` and so on, which are moved out before
//! `BASE`.
//!
//! The files show how far it came: `.BASE.repaired/` is complete, and as long as the index of
//! `BASE` is in it, none of the files of `BASE` has been moved. So another run continues where
//! the last one stopped.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::decisions::MAX_PARTS;
use super::live_writer::check_unwritten;
use super::part_base;
use crate::files::{
    MemberFiles, existing_file, list, move_archive, remove_archive, sync_directory,
};
use crate::{Error, Result, io_error};

const REPAIRING: &str = ".repairing";
const REPAIRED: &str = ".repaired";

/// The names of an archive whose files are being replaced.
pub(super) struct Swap {
    base: PathBuf,
    /// The directory of new files that are being written.
    repairing: PathBuf,
    /// Base name of the files when they are complete.
    repaired: PathBuf,
}

impl Swap {
    /// Finds the archive that a name means, even if there is nothing of it left but what
    /// another run made.
    pub(super) fn find(path: &Path) -> Result<Self> {
        let named = Self::new(path);
        match MemberFiles::find(path) {
            Ok(files) => Ok(Self::new(&files.base)),
            Err(Error::NotFound { .. }) if named.is_committed() => Ok(named),
            Err(error) => Err(error),
        }
    }

    fn new(base: &Path) -> Self {
        let name = base.file_name().unwrap_or_default();
        let directory = |suffix: &str| {
            let mut hidden = OsString::from(".");
            hidden.push(name);
            hidden.push(suffix);
            base.with_file_name(hidden)
        };
        Self {
            base: base.to_owned(),
            repairing: directory(REPAIRING),
            repaired: directory(REPAIRED),
        }
    }

    pub(super) fn base(&self) -> &Path {
        &self.base
    }

    /// Creates the directory for the new files; returns the base name to write them under.
    pub(super) fn begin(&self) -> Result<PathBuf> {
        fs::create_dir(&self.repairing).map_err(io_error("create", &self.repairing))?;
        Ok(self.inside(&self.repairing))
    }

    /// Removes what a run that did not reach its commit has written.
    pub(super) fn discard(&self) -> Result<()> {
        match fs::remove_dir_all(&self.repairing) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(io_error("remove", &self.repairing)),
        }
    }

    /// Brings an interrupted run to an end, as [`resume_repair`].
    pub(super) fn resume(&self) -> Result<bool> {
        if self.repairing.is_dir() {
            check_unwritten(&MemberFiles::list(&self.inside(&self.repairing))?)?;
            self.discard()?;
        }
        let is_committed = self.is_committed();
        if is_committed {
            self.finish()?;
        }
        Ok(is_committed)
    }

    /// Fails if the name of a further archive is taken.
    pub(super) fn check_names(&self, further: usize) -> Result<()> {
        for part in 1..=further {
            if let Some(file) = existing_file(&part_base(&self.base, part))? {
                return Err(Error::Exists { file });
            }
        }
        Ok(())
    }

    /// Declares the new files, which are written and synced, complete.
    pub(super) fn commit(&self) -> Result<()> {
        sync_directory(&self.inside(&self.repairing))?;
        fs::rename(&self.repairing, &self.repaired).map_err(io_error("rename", &self.repairing))?;
        sync_directory(&self.base)
    }

    /// Puts the complete new files in the place of the old ones.
    pub(super) fn finish(&self) -> Result<()> {
        let new = self.inside(&self.repaired);
        if MemberFiles::list(&new)?.index.is_some() {
            remove_archive(&self.base)?;
        }
        for part in 1..MAX_PARTS {
            move_archive(&part_base(&new, part), &part_base(&self.base, part))?;
        }
        move_archive(&new, &self.base)?;
        sync_directory(&self.base)?;
        fs::remove_dir(&self.repaired).map_err(io_error("remove", &self.repaired))
    }

    fn is_committed(&self) -> bool {
        self.repaired.is_dir()
    }

    /// Returns the base name within one of the directories.
    fn inside(&self, directory: &Path) -> PathBuf {
        directory.join(self.base.file_name().unwrap_or_default())
    }
}

/// Returns the base names of archives of a directory whose repair in place runs, or was
/// interrupted; sorted. [`resume_repair`] brings it to an end: until then an archive may have no
/// files under its own name.
///
/// # Errors
///
/// [`Error::Io`] if the directory cannot be listed.
pub fn interrupted_repairs(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut bases = Vec::new();
    for path in list(directory, |name| name.as_encoded_bytes().starts_with(b"."))? {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let name = name.strip_prefix('.').unwrap_or_default();
        let base = name.strip_suffix(REPAIRED).or_else(|| name.strip_suffix(REPAIRING));
        if let Some(base) = base.filter(|_| path.is_dir()) {
            bases.push(directory.join(base));
        }
    }
    bases.dedup();
    Ok(bases)
}

/// Brings an interrupted repair in place to an end. Complete new files take the place of the old
/// ones; others are removed, and the archive is as before the repair. Returns whether the
/// archive was replaced.
///
/// # Errors
///
/// [`Error::Written`] while another process repairs the archive; [`Error::Io`].
pub fn resume_repair(base: &Path) -> Result<bool> {
    Swap::new(base).resume()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Archive;
    use crate::files::AddExtension as _;
    use crate::writer::repair::repair_in_place;
    use crate::writer::repair::repair_to;
    use crate::writer::repair::tests::archive;
    use crate::writer::repair::tests::words;

    /// A change in a directory.
    enum Change {
        Rename(&'static str, &'static str),
        Remove(&'static str),
        RemoveDirectory(&'static str),
    }
    use Change::{Remove, RemoveDirectory, Rename};

    /// All changes from the complete new files to the end.
    const CHANGES: [Change; 11] = [
        Rename(".a.repairing", ".a.repaired"),
        Rename("a.meta", "a.meta.deleting"),
        Remove("a.0"),
        Remove("a.1"),
        Remove("a.index"),
        Remove("a.meta.deleting"),
        Rename(".a.repaired/a.index", "a.index"),
        Rename(".a.repaired/a.0", "a.0"),
        Rename(".a.repaired/a.1", "a.1"),
        Rename(".a.repaired/a.meta", "a.meta"),
        RemoveDirectory(".a.repaired"),
    ];

    /// A damaged archive whose repair ended after a number of changes.
    fn cut_off(base: &Path, changes: usize) {
        let volume = base.with_extension("1");
        let bytes = fs::read(&volume).unwrap();
        fs::write(&volume, &bytes[..bytes.len() - 1]).unwrap();
        let swap = Swap::find(base).unwrap();
        let new = swap.begin().unwrap();
        repair_to(base, &new, &mut |base| Ok(base.to_owned()), &mut |_, _| {}).unwrap();
        let path = |name: &str| base.with_file_name(name);
        for change in &CHANGES[..changes] {
            match change {
                Rename(from, to) => fs::rename(path(from), path(to)).unwrap(),
                Remove(file) => fs::remove_file(path(file)).unwrap(),
                RemoveDirectory(directory) => fs::remove_dir(path(directory)).unwrap(),
            }
        }
    }

    #[test]
    fn a_repair_that_was_cut_off_anywhere_is_completed_by_the_next() {
        for changes in 0..=CHANGES.len() {
            let (directory, base) = archive();
            cut_off(&base, changes);
            let interrupted = interrupted_repairs(directory.path()).unwrap();
            let is_interrupted = changes < CHANGES.len();
            assert_eq!(interrupted, vec![base.clone(); usize::from(is_interrupted)], "{changes}");
            let repaired = repair_in_place(&base).unwrap();
            assert_eq!((repaired.base, repaired.records), (base.clone(), 9), "{changes}");
            assert_eq!(words(&base).len(), 9);
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4, "{changes}");
        }
    }

    #[test]
    fn a_repair_that_was_cut_off_is_resumed_or_undone() {
        for changes in 0..=CHANGES.len() {
            let (directory, base) = archive();
            cut_off(&base, changes);
            let is_replaced = (1..CHANGES.len()).contains(&changes);
            assert_eq!(resume_repair(&base).unwrap(), is_replaced, "{changes}");
            assert_eq!(interrupted_repairs(directory.path()).unwrap(), [""; 0].map(PathBuf::from));
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4, "{changes}");
            let is_torn = Archive::open(&base).unwrap().torn_tail().is_some();
            assert_eq!(is_torn, changes == 0, "{changes}");
        }
    }

    #[test]
    fn what_a_repair_left_in_the_middle_of_writing_is_written_again() {
        let (directory, base) = archive();
        let new = Swap::find(&base).unwrap().begin().unwrap();
        fs::write(new.with_extension_added("0"), "half").unwrap();
        assert_eq!(repair_in_place(&base).unwrap().records, 10);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4);
    }
}
