//! A repair that replaces the old files, and may be interrupted at any time.
//!
//! | step | files | whole is |
//! |---|---|---|
//! | write | `BASE.in-place-new.*` are written and synced | the old, as far as it was |
//! | commit | they become `BASE.in-place-whole.*`, metadata last | the old |
//! | finish 1 | `BASE.*` are removed | `BASE.in-place-whole` |
//! | finish 2 | `BASE.in-place-whole.*` become `BASE.*`, index first, metadata last | nothing for a moment, and then `BASE` |
//!
//! Further archives, `BASE-2` and so on, have the same steps, each before those of `BASE`:
//! `BASE.in-place-new-2`, `BASE.in-place-whole-2`.
//!
//! The files show how far it came: with `in-place-whole` metadata the new
//! archive is complete, and if its index is there too, none of its files has
//! been renamed yet. So another run continues where the last one stopped.

use std::fs;
use std::path::{Path, PathBuf};

use super::decisions::MAX_PARTS;
use super::part_base;
use crate::files::{AddExtension as _, MemberFiles, Members, UNFINISHED, WHOLE, sync_directory};
use crate::{Error, Result, io_error};

/// The names of an archive whose files are being replaced.
pub(super) struct Swap {
    base: PathBuf,
    unfinished: PathBuf,
    whole: PathBuf,
}

/// One change in the directory.
enum Step {
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

impl Swap {
    /// The archive that a name means, even if there is nothing of it left but
    /// what another run made.
    pub(super) fn find(path: &Path) -> Result<Self> {
        let named = Self::of(path);
        match MemberFiles::find(path) {
            Ok(files) => Ok(Self::of(&files.base)),
            Err(Error::NotFound { .. }) if named.is_committed()? => Ok(named),
            Err(error) => Err(error),
        }
    }

    fn of(base: &Path) -> Self {
        Self {
            base: base.to_owned(),
            unfinished: base.with_extension_added(UNFINISHED),
            whole: base.with_extension_added(WHOLE),
        }
    }

    pub(super) fn base(&self) -> &Path {
        &self.base
    }

    /// The base name of the files that are being written.
    pub(super) fn unfinished(&self) -> &Path {
        &self.unfinished
    }

    /// Removes the files of a run that did not reach its commit.
    pub(super) fn discard(&self) -> Result<()> {
        for base in [&self.unfinished, &self.whole] {
            for part in 0..MAX_PARTS {
                let files = MemberFiles::of(&part_base(base, part))?;
                apply(files.all().map(|(path, _)| Step::Remove(path.to_owned())))?;
            }
        }
        Ok(())
    }

    /// The names of some further archives are free.
    pub(super) fn check_names(&self, further: usize) -> Result<()> {
        for part in 1..=further {
            if let Some(file) = Members::any(&part_base(&self.base, part))? {
                return Err(Error::Exists { file });
            }
        }
        Ok(())
    }

    /// The new files are written and synced.
    pub(super) fn commit(&self) -> Result<()> {
        sync_directory(&self.base)?;
        apply(further_renames(&self.unfinished, &self.whole)?.into_iter())?;
        apply(renames(&MemberFiles::of(&self.unfinished)?, &self.whole).into_iter())?;
        sync_directory(&self.base)
    }

    /// Puts complete new files in the place of the old ones; does nothing
    /// without.
    pub(super) fn finish(&self) -> Result<()> {
        if self.is_committed()? {
            apply(self.steps()?.into_iter())?;
            sync_directory(&self.base)?;
        }
        Ok(())
    }

    fn is_committed(&self) -> Result<bool> {
        Ok(MemberFiles::of(&self.whole)?.metadata.is_some())
    }

    fn steps(&self) -> Result<Vec<Step>> {
        let (old, new) = (MemberFiles::of(&self.base)?, MemberFiles::of(&self.whole)?);
        let mut steps = further_renames(&self.whole, &self.base)?;
        if new.index.is_some() {
            steps.extend(old.all().map(|(path, _)| Step::Remove(path.to_owned())));
        }
        steps.extend(renames(&new, &self.base));
        Ok(steps)
    }
}

/// Those of all further archives.
fn further_renames(from: &Path, to: &Path) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for part in 1..MAX_PARTS {
        steps.extend(renames(&MemberFiles::of(&part_base(from, part))?, &part_base(to, part)));
    }
    Ok(steps)
}

/// Index first, metadata last.
fn renames(files: &MemberFiles, to: &Path) -> Vec<Step> {
    let mut steps: Vec<_> = files
        .all()
        .map(|(path, role)| {
            Step::Rename(path.to_owned(), to.with_extension_added(&role.extension()))
        })
        .collect();
    steps.reverse();
    steps
}

fn apply(steps: impl Iterator<Item = Step>) -> Result<()> {
    for step in steps {
        match step {
            Step::Remove(file) => {
                fs::remove_file(&file).map_err(io_error("remove", &file))?;
            }
            Step::Rename(from, to) => {
                fs::rename(&from, to).map_err(io_error("rename", &from))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repair::tests::{archive, words};
    use crate::repair::{repair, repair_in_place};

    /// A damaged archive, and its repair cut off after a number of changes of the
    /// directory; whether there were as many.
    fn cut_off(base: &Path, mut changes: usize) -> bool {
        let volume = base.with_extension("1");
        let bytes = fs::read(&volume).unwrap();
        fs::write(&volume, &bytes[..bytes.len() - 1]).unwrap();
        let swap = Swap::find(base).unwrap();
        repair(base, swap.unfinished()).unwrap();
        for _ in 0..2 {
            let steps = if swap.is_committed().unwrap() {
                swap.steps().unwrap()
            } else {
                renames(&MemberFiles::of(&swap.unfinished).unwrap(), &swap.whole)
            };
            let done = changes.min(steps.len());
            apply(steps.into_iter().take(done)).unwrap();
            changes -= done;
        }
        changes == 0
    }

    #[test]
    fn a_repair_that_was_cut_off_anywhere_is_completed_by_the_next() {
        let mut changes = 0;
        loop {
            let (directory, base) = archive();
            if !cut_off(&base, changes) {
                break;
            }
            let repaired = repair_in_place(&base).unwrap();
            assert_eq!((repaired.base, repaired.records), (base.clone(), 9), "{changes}");
            assert_eq!(words(&base).len(), 9);
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4, "{changes}");
            changes += 1;
        }
        // Four files renamed, four removed, four renamed.
        assert_eq!(changes, 13);
    }

    #[test]
    fn what_a_repair_left_in_the_middle_of_writing_is_written_again() {
        let (directory, base) = archive();
        fs::write(base.with_extension("in-place-new.0"), "half").unwrap();
        fs::write(base.with_extension("in-place-whole.0"), "half").unwrap();
        assert_eq!(repair_in_place(&base).unwrap().records, 10);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4);
    }
}
