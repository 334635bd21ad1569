//! An archive that appears complete or not at all.
//!
//! It is written under a hidden name in the same directory, and is renamed when
//! it is complete: data volumes first, and last the metadata, without which the
//! files are no archive.
//!
//! A process that is killed leaves its hidden files (`.NAME.PID.meta` and so
//! on). No command reads them as part of a directory, and none removes them:
//! they may be deleted.

use std::fs;
use std::path::{Path, PathBuf};

use crate::files::{AddExtension as _, MemberFiles, Members, sync_directory};
use crate::format::Role;
use crate::{Compression, Error, Result, io_error};

/// An archive under construction. Its remaining files are removed on drop.
#[derive(Debug)]
pub struct Staging {
    base: PathBuf,
    hidden: PathBuf,
    replaces: bool,
}

impl Staging {
    /// The place of an archive called `base`, which must not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`]; [`Error::Io`] if the directory cannot be listed.
    pub fn new(base: &Path) -> Result<Self> {
        match Members::any(base)? {
            Some(file) => Err(Error::Exists { file }),
            None => Self::at(base, false),
        }
    }

    /// The place of an archive called `base`; what has that name now is
    /// replaced. `sources` are base names of archives that must not be.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and [`Error::Exists`] if `base` is a source.
    pub fn replacing(base: &Path, sources: &[&Path]) -> Result<Self> {
        match Members::any(base)? {
            Some(file) if sources.iter().any(|source| is_same(base, source)) => {
                Err(Error::Exists { file })
            }
            _ => Self::at(base, true),
        }
    }

    fn at(base: &Path, replaces: bool) -> Result<Self> {
        let name = base.file_name().unwrap_or_default().to_string_lossy();
        let hidden = base.with_file_name(format!(".{name}.{}", std::process::id()));
        match Members::any(&hidden)? {
            Some(file) => Err(Error::Exists { file }),
            None => Ok(Self { base: base.to_owned(), hidden, replaces }),
        }
    }

    /// The name to write under until [`commit`](Self::commit).
    pub fn hidden(&self) -> &Path {
        &self.hidden
    }

    /// Removes what was written so far, to start again.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn clear(&self) -> Result<()> {
        for (file, _) in MemberFiles::of(&self.hidden)?.all() {
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
        if self.replaces {
            for (file, _) in MemberFiles::of(&self.base)?.all() {
                fs::remove_file(file).map_err(io_error("remove", file))?;
            }
        } else if let Some(file) = Members::any(&self.base)? {
            return Err(Error::Exists { file });
        }
        let files = MemberFiles::of(&self.hidden)?;
        let mut files: Vec<_> = files.all().collect();
        files.sort_by_key(|(_, role)| *role == Role::Metadata);
        for (file, role) in files {
            let mut name = self.base.with_extension_added(&role.extension());
            if let Some(suffix) = compression_suffix(file) {
                name = name.with_extension_added(suffix);
            }
            fs::rename(file, &name).map_err(io_error("rename", file))?;
        }
        sync_directory(&self.base)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let Ok(files) = MemberFiles::of(&self.hidden) else { return };
        for (file, _) in files.all() {
            let _ = fs::remove_file(file);
        }
    }
}

/// Whether two base names are of one archive.
fn is_same(one: &Path, other: &Path) -> bool {
    let place = |base: &Path| {
        let parent = base.parent().filter(|parent| !parent.as_os_str().is_empty());
        (
            fs::canonicalize(parent.unwrap_or(Path::new("."))).ok(),
            base.file_name().map(ToOwned::to_owned),
        )
    };
    place(one) == place(other)
}

fn compression_suffix(file: &Path) -> Option<&str> {
    Compression::of(file)?;
    file.extension()?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &tempfile::TempDir) -> Vec<String> {
        let entries = fs::read_dir(directory.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

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
        assert!(names(&directory).iter().all(|name| name.starts_with('.')));
        assert!(
            crate::ArchiveSet::bases(&[directory.path()]).is_err(),
            "hidden files are no archive"
        );
        staging.commit().unwrap();
        let expected = ["0.xz", "1.xz", "index", "meta"].map(|e| format!("20240501.10.{e}"));
        assert_eq!(names(&directory), expected);
    }

    #[test]
    fn abandoned_files_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let staging = Staging::new(&directory.path().join("a")).unwrap();
        fill(&staging, &["meta", "0", "index"]);
        drop(staging);
        assert_eq!(names(&directory), [""; 0]);
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
        assert_eq!(names(&directory), ["a.0", "a.index", "a.meta"]);
    }

    #[test]
    fn an_archive_is_replaced_only_if_that_is_asked_for_and_never_a_source() {
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
        assert_eq!(names(&directory), ["a.0", "a.index", "a.meta"]);
        assert_eq!(fs::read(base.with_extension("0")).unwrap(), b"new");
    }
}
