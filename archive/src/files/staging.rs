//! An archive that appears complete or not at all.
//!
//! It is written in a hidden directory next to its place, and its files are moved out when they
//! are complete. The last one is the metadata, without which the files are not an archive.
//!
//! A process that is killed leaves its hidden directory (`.NAME.PID`). No command reads it, and it
//! may be deleted; the agent removes those among its archives when it starts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::visibility::replace_archive;
#[cfg(feature = "compression")]
use super::visibility::succeed_archive;
use super::{
    MemberFiles, directory_of, existing_file, move_archive, remove_archive, sync_directory,
};
#[cfg(test)]
use crate::test_support::fault;
use crate::{Error, Result, io_error};

/// An archive under construction. The hidden directory is removed on drop, with what is left in
/// it.
#[derive(Debug)]
pub struct Staging {
    base: PathBuf,
    directory: PathBuf,
    hidden: PathBuf,
    target: Target,
}

/// The archive that already has the name, when the new one is committed.
#[derive(Debug)]
enum Target {
    Free,
    /// Another archive, which is removed first.
    Replaced,
    /// The same archive, whose files are replaced one after the other.
    InPlace,
}

impl Staging {
    /// Creates the hidden directory for an archive called `base`, which must not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`]; [`Error::Io`] if the hidden directory cannot be created.
    pub fn new(base: &Path) -> Result<Self> {
        match existing_file(base)? {
            Some(file) => Err(Error::Exists { file }),
            None => Self::create(base, Target::Free),
        }
    }

    /// Creates the hidden directory for an archive called `base`; what has that name now is
    /// replaced. `sources` are base names of archives that must not be.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and [`Error::Exists`] if `base` is a source.
    pub fn replacing(base: &Path, sources: &[&Path]) -> Result<Self> {
        match existing_file(base)? {
            Some(file) if sources.iter().any(|source| is_same(base, source)) => {
                Err(Error::Exists { file })
            }
            _ => Self::create(base, Target::Replaced),
        }
    }

    /// Creates the hidden directory for files that replace those of the archive called `base`, one
    /// after the other. So each old file must be of use with each new one; files that are not
    /// written stay.
    pub(crate) fn in_place(base: &Path) -> Result<Self> {
        Self::create(base, Target::InPlace)
    }

    fn create(base: &Path, target: Target) -> Result<Self> {
        let name = base.file_name().unwrap_or_default();
        let hidden_name = format!(".{}.{}", name.to_string_lossy(), std::process::id());
        let directory = base.with_file_name(hidden_name);
        match fs::create_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Error::Exists { file: directory });
            }
            created => created.map_err(io_error("create", &directory))?,
        }
        let hidden = directory.join(name);
        Ok(Self { base: base.to_owned(), directory, hidden, target })
    }

    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    /// Returns the base name to write under until [`commit`](Self::commit).
    pub fn hidden(&self) -> &Path {
        &self.hidden
    }

    /// Removes what was written so far, to start again.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn clear(&self) -> Result<()> {
        for (file, _) in MemberFiles::list(&self.hidden)?.all() {
            fs::remove_file(file).map_err(io_error("remove", file))?;
        }
        Ok(())
    }

    /// Gives the archive its name.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] if someone else took the name; [`Error::Io`].
    pub fn commit(self) -> Result<()> {
        match self.target {
            Target::InPlace => return replace_archive(&self.hidden, &self.base),
            Target::Replaced => remove_archive(&self.base)?,
            Target::Free => {
                if let Some(file) = existing_file(&self.base)? {
                    return Err(Error::Exists { file });
                }
            }
        }
        move_archive(&self.hidden, &self.base).inspect_err(|_| {
            // What was moved is of no use without the metadata.
            let _ = remove_archive(&self.base);
        })?;
        sync_directory(&self.base)
    }

    /// Gives the archive its name in the same step in which the archive called `old` loses its
    /// own, so that readers find either. What is left of the old one, which
    /// [`remove_archive`](super::remove_archive) removes, is for readers that have opened it.
    ///
    /// The metadata of the new archive must begin with that of the old one, and be of use for
    /// both.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] if someone else took the name; [`Error::Missing`] if the old archive is
    /// gone; [`Error::Io`].
    #[cfg(feature = "compression")]
    pub(crate) fn succeed(self, old: &Path) -> Result<()> {
        if let Some(file) = existing_file(&self.base)? {
            return Err(Error::Exists { file });
        }
        succeed_archive(&self.hidden, old, &self.base)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        #[cfg(test)]
        if fault::is_killed() {
            return;
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Returns whether two base names are of one archive.
fn is_same(one: &Path, other: &Path) -> bool {
    let [one_directory, other_directory] =
        [one, other].map(|base| fs::canonicalize(directory_of(base)).ok());
    one_directory == other_directory && one.file_name() == other.file_name()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::AddExtension as _;
    use crate::test_support::names_in;

    fn fill(staging: &Staging, extensions: &[&str]) {
        for extension in extensions {
            fs::write(staging.hidden().with_extension_added(extension), "new").unwrap();
        }
    }

    #[test]
    fn nothing_is_seen_before_it_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().join("20240501.10");
        let staging = Staging::new(&base).unwrap();
        fill(&staging, &["meta", "0.xz", "1.xz", "index"]);
        assert!(names_in(&directory).iter().all(|name| name.starts_with('.')));
        assert!(
            crate::ArchiveSet::bases([directory.path()]).is_err(),
            "hidden files are no archive"
        );
        staging.commit().unwrap();
        let expected = ["0.xz", "1.xz", "index", "meta"].map(|e| format!("20240501.10.{e}"));
        assert_eq!(names_in(&directory), expected);
    }

    #[test]
    fn abandoned_files_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let staging = Staging::new(&directory.path().join("a")).unwrap();
        fill(&staging, &["meta", "0", "index"]);
        drop(staging);
        assert_eq!(names_in(&directory), [""; 0]);
    }

    #[test]
    fn what_is_cleared_is_begun_again() {
        let directory = tempfile::tempdir().unwrap();
        let staging = Staging::new(&directory.path().join("a")).unwrap();
        staging.clear().unwrap();
        fill(&staging, &["meta", "0", "1", "index"]);
        staging.clear().unwrap();
        fill(&staging, &["meta", "0", "index"]);
        staging.commit().unwrap();
        assert_eq!(names_in(&directory), ["a.0", "a.index", "a.meta"]);
    }

    #[test]
    fn only_a_requested_target_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().join("a");
        fs::write(base.with_extension("7"), "old").unwrap();
        assert!(matches!(Staging::new(&base), Err(Error::Exists { .. })));
        let indirect = directory.path().join(".").join("a");
        let replaced = Staging::replacing(&base, &[&indirect]);
        assert!(matches!(replaced, Err(Error::Exists { .. })));
        let staging = Staging::replacing(&base, &[&directory.path().join("b")]).unwrap();
        fill(&staging, &["meta", "0", "index"]);
        staging.commit().unwrap();
        assert_eq!(names_in(&directory), ["a.0", "a.index", "a.meta"]);
        assert_eq!(fs::read(base.with_extension("0")).unwrap(), b"new");
    }
}
