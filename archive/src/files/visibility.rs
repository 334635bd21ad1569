//! Makes archives appear and disappear for readers in one step each.
//!
//! Readers find the archives of a directory by their metadata. PCP's take every file whose
//! name ends in `.meta`, also one whose name begins with a dot, and refuse the whole directory
//! if one of these archives has no data volume or overlaps another one. They do not enter
//! directories.
//!
//! | an archive that | has its metadata as | its other files |
//! |---|---|---|
//! | is being created | `BASE.meta.unfinished` | grow |
//! | is complete | `BASE.meta` | are there |
//! | is being deleted | `BASE.meta.deleting` | go |
//! | another one replaces | `OTHER.meta` | stay for a while |
//!
//! An archive is replaced by one of another name in one step, too: first its metadata is replaced
//! by some that serves both, then this file is renamed ([`succeed_archive`]).
//!
//! Of an archive that is being created or deleted this metadata is the first and the last file,
//! so that after a kill it tells which files to remove ([`unfinished_archives`]). An archive
//! that is written as a whole lies in a hidden directory until [`move_archive`].

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::members::{
    AddExtension as _, Compression, DELETING, MemberFiles, MemberKind, UNFINISHED, all_files, list,
    split, sync_directory, without_mark,
};
use crate::format::Role;
#[cfg(test)]
use crate::test_support::fault;
use crate::{Error, Result, io_error};

/// Returns the name of the metadata of an archive that is being created.
pub(crate) fn unfinished_metadata(base: &Path) -> PathBuf {
    base.with_extension_added(&Role::Metadata.extension()).with_extension_added(UNFINISHED)
}

/// Creates a file of an archive, which all users may read.
///
/// # Errors
///
/// [`Error::Exists`] if it is there already; [`Error::Io`].
pub(crate) fn create_new(path: &Path) -> Result<File> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path);
    opened.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { file: path.to_owned() },
        _ => io_error("create", path)(error),
    })
}

/// Lets readers find an archive: gives its metadata the name that they look for, which is
/// returned. The other files must be complete.
pub(crate) fn show(metadata: &Path, base: &Path) -> Result<PathBuf> {
    rename_member(metadata, base, Role::Metadata)
}

/// Gives a complete archive that readers cannot find another base name, by which they can.
/// The index is moved first and the metadata last.
pub(crate) fn move_archive(from: &Path, to: &Path) -> Result<()> {
    let files = MemberFiles::list(from)?;
    if let Some(index) = &files.index {
        rename_member(index, to, Role::Index)?;
    }
    for (number, volume) in &files.volumes {
        rename_member(volume, to, Role::Data(*number))?;
    }
    if let Some(metadata) = &files.metadata {
        show(metadata, to)?;
    }
    Ok(())
}

/// Replaces files of an archive by those called `from`, of the same kinds: metadata, volumes, and
/// the index last. Files of these kinds that have no successor are removed.
///
/// A process that is killed meanwhile leaves old files and new ones, so each old file must be of
/// use with each new one. The index, which says where records are, is not: without one, readers
/// search the volumes.
pub(crate) fn replace_archive(from: &Path, base: &Path) -> Result<()> {
    let new = MemberFiles::list(from)?;
    let (old_indexes, old): (Vec<_>, Vec<_>) =
        all_files(base)?.into_iter().partition(|(_, kind, _)| *kind == MemberKind::Index);
    if !new.volumes.is_empty() {
        for (file, ..) in &old_indexes {
            remove_file(file)?;
        }
        sync_directory(base)?;
    }
    let mut placed = Vec::new();
    for (file, role) in new.all().filter(|(_, role)| *role != Role::Index) {
        placed.push(rename_member(file, base, role)?);
    }
    for (file, kind, _) in old {
        let is_replaced = match kind {
            MemberKind::Metadata => new.metadata.is_some(),
            _ => !new.volumes.is_empty(),
        };
        if is_replaced && !placed.contains(&file) {
            remove_file(&file)?;
        }
    }
    if let Some(index) = &new.index {
        let placed = rename_member(index, base, Role::Index)?;
        for (file, ..) in old_indexes.iter().filter(|(file, ..)| *file != placed) {
            remove_file(file)?;
        }
    }
    sync_directory(base)
}

/// Replaces the archive called `old` by a complete one that readers cannot find, which gets the
/// name `base`.
///
/// | step | readers find |
/// |---|---|
/// | index and volumes of the new archive are moved | `old` |
/// | the metadata of `old` is replaced by that of the new archive, which serves both | `old` |
/// | this file is renamed to the metadata of `base` | `base` |
///
/// Before the last step an error or a kill leaves `old`, and perhaps files of `base` without
/// metadata; after it files of `old` without metadata.
#[cfg(feature = "compression")]
pub(crate) fn succeed_archive(from: &Path, old: &Path, base: &Path) -> Result<()> {
    let missing = |of: &Path| Error::Missing { file: of.with_extension_added("meta") };
    let new = MemberFiles::list(from)?;
    let shared = new.metadata.as_ref().ok_or_else(|| missing(from))?;
    let metadata = MemberFiles::list(old)?.metadata.ok_or_else(|| missing(old))?;
    let placed = (|| {
        for (file, role) in new.all().filter(|(_, role)| *role != Role::Metadata) {
            rename_member(file, base, role)?;
        }
        sync_directory(base)?;
        step();
        fs::rename(shared, &metadata).map_err(io_error("rename", shared))?;
        sync_directory(base)?;
        show(&metadata, base)
    })();
    if let Err(error) = placed {
        // Without metadata it is nothing to readers.
        let _ = remove_archive(base);
        return Err(error);
    }
    sync_directory(base)
}

/// Ends the process before a step of a test.
fn step() {
    #[cfg(test)]
    fault::before_step();
}

/// Removes an archive, or what an interrupted run left of one. Its metadata is renamed first:
/// from then on no reader finds the archive, and [`unfinished_archives`] does.
///
/// # Errors
///
/// [`Error::Io`](crate::Error::Io). Files that are gone already are none.
pub fn remove_archive(base: &Path) -> Result<()> {
    // There may be a compressed one as well.
    while let Some(metadata) = MemberFiles::list(base)?.metadata {
        let hidden = metadata.with_extension_added(DELETING);
        unless_gone(fs::rename(&metadata, hidden)).map_err(io_error("rename", &metadata))?;
    }
    let mut files = all_files(base)?;
    files.sort_by_key(|(_, part, _)| *part == MemberKind::Metadata);
    for (file, ..) in files {
        remove_file(&file)?;
    }
    Ok(())
}

/// Returns the base names of archives of a directory that are being created or deleted, or were
/// when their process ended; sorted. [`remove_archive`] removes what is left of them.
///
/// # Errors
///
/// [`Error::Io`](crate::Error::Io) if the directory cannot be listed.
pub fn unfinished_archives(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut unfinished = BTreeSet::new();
    let mut complete = BTreeSet::new();
    for file in list(directory, |_| true)? {
        let (member, is_marked) = without_mark(&file);
        match split(&member) {
            Some((base, MemberKind::Metadata)) if is_marked => unfinished.insert(base),
            Some((base, MemberKind::Metadata)) => complete.insert(base),
            _ => continue,
        };
    }
    Ok(unfinished.difference(&complete).cloned().collect())
}

/// Returns a file that has the base name of an archive, also of an incomplete one: its metadata
/// if there is any; `None` if the name is free.
///
/// # Errors
///
/// [`Error::Io`](crate::Error::Io) if the directory cannot be listed.
pub fn existing_file(base: &Path) -> Result<Option<PathBuf>> {
    let files = all_files(base)?.into_iter();
    let first = files.min_by_key(|(_, part, _)| *part != MemberKind::Metadata);
    Ok(first.map(|(file, ..)| file))
}

/// Makes a file a member of the archive called `base`, with the same compression suffix.
fn rename_member(file: &Path, base: &Path, role: Role) -> Result<PathBuf> {
    let mut name = base.with_extension_added(&role.extension());
    if Compression::from_path(file).is_some()
        && let Some(suffix) = file.extension().and_then(OsStr::to_str)
    {
        name = name.with_extension_added(suffix);
    }
    step();
    fs::rename(file, &name).map_err(io_error("rename", file))?;
    Ok(name)
}

fn remove_file(file: &Path) -> Result<()> {
    step();
    unless_gone(fs::remove_file(file)).map_err(io_error("remove", file))
}

fn unless_gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{directory_of, names_in};

    #[test]
    fn removing_an_archive_removes_all_its_files_and_no_others() {
        let others = ["a.1.0", "a.1.meta", "a.config", "a.x.unfinished", "ab.0", "b.meta"];
        let own = [
            "a.0",
            "a.0.xz",
            "a.1.zst.unfinished",
            "a.12",
            "a.index",
            "a.meta",
            "a.meta.deleting",
            "a.meta.unfinished",
            "a.meta.xz",
        ];
        let directory = directory_of(&[&others[..], &own].concat());
        let base = directory.path().join("a");
        assert!(existing_file(&base).unwrap().is_some());
        remove_archive(&base).unwrap();
        assert_eq!(names_in(&directory), others);
        assert!(existing_file(&base).unwrap().is_none());
        remove_archive(&base).unwrap();
    }

    #[test]
    fn archive_that_resists_removal_is_hidden_first() {
        let directory = directory_of(&["a.meta", "a.0", "a.index"]);
        let base = directory.path().join("a");
        let stubborn = directory.path().join("a.1");
        fs::create_dir(&stubborn).unwrap();
        assert!(remove_archive(&base).is_err());
        assert_eq!(names_in(&directory), ["a.1", "a.index", "a.meta.deleting"]);
        assert_eq!(unfinished_archives(directory.path()).unwrap(), std::slice::from_ref(&base));
        fs::remove_dir(stubborn).unwrap();
        remove_archive(&base).unwrap();
        assert_eq!(names_in(&directory), [""; 0]);
    }

    #[test]
    fn archives_with_hidden_metadata_are_unfinished() {
        let files = [
            "a.meta.unfinished",
            "b.0",
            "b.meta.xz.deleting",
            "c.0",
            "c.index",
            "d.meta",
            "d.meta.unfinished",
            "e.0.unfinished",
        ];
        let directory = directory_of(&files);
        let expected = ["a", "b"].map(|name| directory.path().join(name));
        assert_eq!(unfinished_archives(directory.path()).unwrap(), expected);
    }

    #[test]
    fn a_moved_archive_keeps_its_compression() {
        let directory = directory_of(&["a.meta.xz", "a.0.zst", "a.3", "a.index"]);
        let [from, to] = ["a", "b.0"].map(|name| directory.path().join(name));
        move_archive(&from, &to).unwrap();
        assert_eq!(names_in(&directory), ["b.0.0.zst", "b.0.3", "b.0.index", "b.0.meta.xz"]);
    }
}
