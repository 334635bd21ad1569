//! The files of an archive, by their names.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::format::Role;
use crate::{Error, Result, io_error};

/// Marks of the metadata of an archive that is being created or deleted.
pub(super) const UNFINISHED: &str = "unfinished";
pub(super) const DELETING: &str = "deleting";

/// The compression of a member, by its suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// xz, and its predecessor lzma.
    Xz,
    /// Files with the suffix `.bz2` or `.bz`.
    Bzip2,
    /// Files with the suffix `.gz`, `.Z` or `.z`.
    Gzip,
    /// Files with the suffix `.zst`.
    Zstd,
}

impl Compression {
    /// Returns the compression that a file's suffix means (`src/libpcp/src/io.c`).
    pub fn from_path(path: impl AsRef<Path>) -> Option<Self> {
        match path.as_ref().extension()?.to_str()? {
            "xz" | "lzma" => Some(Self::Xz),
            "bz2" | "bz" => Some(Self::Bzip2),
            "gz" | "Z" | "z" => Some(Self::Gzip),
            "zst" => Some(Self::Zstd),
            _ => None,
        }
    }

    #[cfg(feature = "compression")]
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Xz => "xz",
            Self::Bzip2 => "bz2",
            Self::Gzip => "gz",
            Self::Zstd => "zst",
        }
    }
}

/// The files of an archive that can be read, by their names alone.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) base: PathBuf,
    pub(crate) metadata: PathBuf,
    pub(crate) index: Option<PathBuf>,
    /// At least one.
    pub(crate) volumes: BTreeMap<u32, PathBuf>,
}

/// The files of an archive, any of which may be missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct MemberFiles {
    pub(crate) base: PathBuf,
    pub(crate) metadata: Option<PathBuf>,
    pub(crate) index: Option<PathBuf>,
    pub(crate) volumes: BTreeMap<u32, PathBuf>,
}

/// The part of a file's name after the base name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberKind {
    Metadata,
    Index,
    Volume(u32),
}

impl Members {
    /// Returns the archive that a name means: a base name, a member, or a directory with one
    /// archive.
    pub(crate) fn find(path: &Path) -> Result<Self> {
        Self::from_files(MemberFiles::find(path)?)
    }

    /// Returns the files of an archive, which must have metadata and a volume.
    pub(crate) fn from_files(files: MemberFiles) -> Result<Self> {
        let MemberFiles { base, metadata, index, volumes } = files;
        let metadata = metadata.ok_or_else(|| missing(&base, "meta"))?;
        if volumes.is_empty() {
            return Err(missing(&base, "0"));
        }
        Ok(Self { base, metadata, index, volumes })
    }
}

impl MemberFiles {
    /// Finds the files as [`Members::find`], but allows any of them to be missing.
    pub(crate) fn find(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return only_archive(path);
        }
        // Of a base name the files are listed already.
        let found = Self::list(path)?;
        let base = found.base_of(path)?;
        if base == path { Ok(found) } else { Self::list(&base) }
    }

    /// Returns the base name of a path, which has these files: the path itself if there is metadata of
    /// this name, or another member and no file that has the name itself, as where metadata is missing
    /// of `20261126.16.28`; else without its last part if that is a member's.
    fn base_of(&self, path: &Path) -> Result<PathBuf> {
        let has_members = self.index.is_some() || !self.volumes.is_empty();
        if self.metadata.is_some() || (has_members && !path.is_file()) {
            return Ok(path.to_owned());
        }
        match split(path) {
            Some((base, _)) => Ok(base),
            None if has_members => Ok(path.to_owned()),
            None => Err(Error::NotFound { path: path.to_owned() }),
        }
    }

    /// Returns the files of the archive with this base name. Of a member that is there twice,
    /// plain and compressed, the plain one counts.
    pub(crate) fn list(base: &Path) -> Result<Self> {
        let mut found = Self::none(base);
        for (file, part, is_complete) in all_files(base)? {
            if is_complete {
                found.add(file, part);
            }
        }
        Ok(found)
    }

    fn none(base: &Path) -> Self {
        Self { base: base.to_owned(), ..Self::default() }
    }

    /// Adds a member, unless it is there already and the new one is compressed.
    fn add(&mut self, file: PathBuf, part: MemberKind) {
        let is_plain = Compression::from_path(&file).is_none();
        match part {
            MemberKind::Metadata if is_plain || self.metadata.is_none() => {
                self.metadata = Some(file);
            }
            MemberKind::Index if is_plain || self.index.is_none() => self.index = Some(file),
            MemberKind::Volume(number) if is_plain || !self.volumes.contains_key(&number) => {
                self.volumes.insert(number, file);
            }
            _ => {}
        }
    }

    /// Returns all files with their roles, metadata first and the index last.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Path, Role)> {
        let metadata = self.metadata.iter().map(|path| (path.as_path(), Role::Metadata));
        let data = self.volumes.iter().map(|(number, path)| (path.as_path(), Role::Data(*number)));
        let index = self.index.iter().map(|path| (path.as_path(), Role::Index));
        metadata.chain(data).chain(index)
    }
}

/// Returns the files of the archive with this base name: metadata first, then the data volumes,
/// and the index last. Empty if there is no such archive.
///
/// # Errors
///
/// [`Error::Io`] if the directory cannot be listed.
pub fn member_files(base: &Path) -> Result<Vec<PathBuf>> {
    Ok(MemberFiles::list(base)?.all().map(|(file, _)| file.to_owned()).collect())
}

fn missing(base: &Path, extension: &str) -> Error {
    Error::Missing { file: base.with_extension_added(extension) }
}

fn only_archive(directory: &Path) -> Result<MemberFiles> {
    let mut archives = archives_of(directory)?;
    match (archives.pop(), archives.len()) {
        (Some(files), 0) => Ok(files),
        (None, _) => Err(Error::NotFound { path: directory.to_owned() }),
        (_, others) => Err(Error::Ambiguous { path: directory.to_owned(), count: others + 1 }),
    }
}

/// Returns the archives that a path means: all in a directory, else one. In the order of the names.
pub(crate) fn archives(path: &Path) -> Result<Vec<MemberFiles>> {
    if !path.is_dir() {
        return Ok(vec![MemberFiles::find(path)?]);
    }
    let archives = archives_of(path)?;
    if archives.is_empty() { Err(Error::NotFound { path: path.to_owned() }) } else { Ok(archives) }
}

/// Returns the archives in a directory, or else those in the only directory in it that has any:
/// loggers write into one directory for each host.
fn archives_of(directory: &Path) -> Result<Vec<MemberFiles>> {
    let archives = archives_in(directory)?;
    if !archives.is_empty() {
        return Ok(archives);
    }
    let mut hosts = host_directories(directory)?;
    match (hosts.pop(), hosts.is_empty()) {
        (Some(host), true) => archives_in(&host),
        (Some(_), false) => {
            Err(Error::SeveralHosts { path: directory.to_owned(), count: hosts.len() + 1 })
        }
        (None, _) => Ok(Vec::new()),
    }
}

/// Returns the directories in a directory that have archives, sorted; hidden ones do not count.
///
/// # Errors
///
/// [`Error::Io`] if the directory cannot be listed.
pub fn host_directories(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut hosts = list(directory, |name| !name.as_encoded_bytes().starts_with(b"."))?;
    hosts.retain(|path| {
        path.is_dir() && archives_in(path).is_ok_and(|archives| !archives.is_empty())
    });
    Ok(hosts)
}

/// Returns all archives in a directory, sorted by their names, without hidden ones.
///
/// A listing may have neither the old nor the new name of metadata that is renamed meanwhile, as
/// when a [reduced](super::reduced_base) archive takes the place of another one. Both have other
/// files then, so where files have no metadata, two listings in a row have to agree.
pub(super) fn archives_in(directory: &Path) -> Result<Vec<MemberFiles>> {
    let mut listed = ListedArchives::list(directory)?;
    for _ in 1..super::LISTINGS {
        if listed.are_whole {
            break;
        }
        let before = listed.bases();
        listed = ListedArchives::list(directory)?;
        if listed.bases() == before {
            break;
        }
    }
    Ok(listed.archives)
}

/// The archives in a directory.
struct ListedArchives {
    /// Those with metadata, sorted by their names.
    archives: Vec<MemberFiles>,
    /// Set if there are no files of others.
    are_whole: bool,
}

impl ListedArchives {
    fn list(directory: &Path) -> Result<Self> {
        let mut found: BTreeMap<PathBuf, MemberFiles> = BTreeMap::new();
        for file in list(directory, |name| !name.as_encoded_bytes().starts_with(b"."))? {
            if let Some((base, part)) = split(&file) {
                let files = found.entry(base).or_insert_with_key(|base| MemberFiles::none(base));
                files.add(file, part);
            }
        }
        let are_whole = found.values().all(|files| files.metadata.is_some());
        let archives = found.into_values().filter(|files| files.metadata.is_some()).collect();
        Ok(Self { archives, are_whole })
    }

    fn bases(&self) -> Vec<PathBuf> {
        self.archives.iter().map(|files| files.base.clone()).collect()
    }
}

/// Lists all files with the base name of an archive, and whether they are complete: also both
/// forms of a member that is there plain and compressed.
pub(super) fn all_files(base: &Path) -> Result<Vec<(PathBuf, MemberKind, bool)>> {
    let directory = base.parent().unwrap_or(Path::new(""));
    let name = base.file_name().unwrap_or_default().as_encoded_bytes();
    let mut files = Vec::new();
    for file in list(directory, |file| file.as_encoded_bytes().starts_with(name))? {
        let (member, is_marked) = without_mark(&file);
        if let Some((of, part)) = split(&member)
            && of.file_name() == base.file_name()
        {
            files.push((file, part, !is_marked));
        }
    }
    Ok(files)
}

/// Returns the name of an incomplete file without its mark, and whether it has one.
pub(super) fn without_mark(file: &Path) -> (PathBuf, bool) {
    let is_marked =
        [UNFINISHED, DELETING].iter().any(|mark| file.extension() == Some(mark.as_ref()));
    (if is_marked { file.with_extension("") } else { file.to_owned() }, is_marked)
}

/// Returns the files of a directory whose names are wanted, sorted; none if there is no such
/// directory. The name of the present one is empty, and files in it are called as if a user had
/// named them: `acme.meta`, not `./acme.meta`.
pub(crate) fn list(directory: &Path, is_wanted: impl Fn(&OsStr) -> bool) -> Result<Vec<PathBuf>> {
    let failed = io_error("list", directory);
    let is_here = directory.as_os_str().is_empty();
    let entries = match fs::read_dir(if is_here { Path::new(".") } else { directory }) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(&failed)?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let name = entry.map_err(&failed)?.file_name();
        if is_wanted(&name) {
            paths.push(directory.join(name));
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Returns a member's name as base and part; `None` for other names.
pub(super) fn split(path: &Path) -> Option<(PathBuf, MemberKind)> {
    let path = without_compression(path);
    let part = match path.extension()?.to_str()? {
        "meta" => MemberKind::Metadata,
        "index" => MemberKind::Index,
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            MemberKind::Volume(digits.parse().ok().filter(|number| i32::try_from(*number).is_ok())?)
        }
        _ => return None,
    };
    Some((path.with_extension(""), part))
}

#[cfg(feature = "compression")]
pub(super) fn is_index(path: &Path) -> bool {
    matches!(split(path), Some((_, MemberKind::Index)))
}

/// Removes the compression suffix of a name, if it has one.
fn without_compression(path: &Path) -> PathBuf {
    match Compression::from_path(path) {
        Some(_) => path.with_extension(""),
        None => path.to_owned(),
    }
}

/// Returns the directory of a file, `.` for a name without one.
pub fn directory_of(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Syncs the directory of an archive: names are on disk only when it is.
pub(crate) fn sync_directory(base: &Path) -> Result<()> {
    let directory = directory_of(base);
    let synced = fs::File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(io_error("sync", directory))
}

/// `Path::with_extension` replaces what follows the last dot; base names of
/// archives are full of dots.
pub(crate) trait AddExtension {
    fn with_extension_added(&self, extension: &str) -> PathBuf;
}

impl AddExtension for Path {
    fn with_extension_added(&self, extension: &str) -> PathBuf {
        let mut name = self.as_os_str().to_owned();
        name.push(".");
        name.push(extension);
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::directory_of;

    const ARCHIVE: [&str; 5] = ["a.b.7.meta", "a.b.7.index", "a.b.7.2", "a.b.7.11", "a.b.7.x"];

    fn bases(path: &Path) -> Result<Vec<PathBuf>> {
        Ok(archives(path)?.into_iter().map(|files| files.base).collect())
    }

    #[test]
    fn base_member_and_directory_name_the_same_archive() {
        let directory = directory_of(&ARCHIVE);
        let base = directory.path().join("a.b.7");
        for name in ["", "a.b.7", "a.b.7.meta", "a.b.7.index", "a.b.7.11"] {
            let members = Members::find(&directory.path().join(name)).unwrap();
            assert_eq!(members.base, base, "{name}");
            assert_eq!(members.volumes.keys().copied().collect::<Vec<_>>(), [2, 11]);
            assert!(members.index.is_some());
        }
    }

    #[test]
    fn a_base_name_that_ends_like_a_volume_is_not_cut() {
        let directory = directory_of(&["a.1.meta", "a.1.0", "a.meta", "a.1"]);
        let members = Members::find(&directory.path().join("a.1")).unwrap();
        assert_eq!(members.base, directory.path().join("a.1"));
    }

    #[test]
    fn such_a_name_is_not_cut_where_metadata_is_missing_either() {
        let directory = directory_of(&["20261126.16.28.0", "20261126.16.28.index"]);
        for name in ["20261126.16.28", "20261126.16.28.0", "20261126.16.28.index"] {
            let found = MemberFiles::find(&directory.path().join(name)).unwrap();
            assert_eq!(found.base, directory.path().join("20261126.16.28"), "{name}");
        }
    }

    #[test]
    fn the_directory_of_a_host_is_found_in_that_of_all() {
        let all = directory_of(&["README"]);
        assert!(matches!(bases(all.path()), Err(Error::NotFound { .. })));
        for host in ["web", "db", ".hidden", "empty"] {
            fs::create_dir(all.path().join(host)).unwrap();
        }
        let put = |file: &str| fs::write(all.path().join(file), "").unwrap();
        ["web/a.meta", "web/a.0", "web/b.meta", ".hidden/c.meta"].into_iter().for_each(put);
        let found = ["web/a", "web/b"].map(|base| all.path().join(base));
        assert_eq!(bases(all.path()).unwrap(), found);
        assert!(matches!(Members::find(all.path()), Err(Error::Ambiguous { count: 2, .. })));
        put("db/d.meta");
        assert!(matches!(bases(all.path()), Err(Error::SeveralHosts { count: 2, .. })));
        let hosts = host_directories(all.path()).unwrap();
        assert_eq!(hosts, ["db", "web"].map(|host| all.path().join(host)));
        put("own.meta");
        assert_eq!(bases(all.path()).unwrap(), [all.path().join("own")], "archives come first");
    }

    #[test]
    fn two_archives_in_a_directory_are_ambiguous() {
        let directory = directory_of(&["a.meta", "a.0", "b.meta", "b.0"]);
        let error = Members::find(directory.path()).unwrap_err();
        assert!(matches!(error, Error::Ambiguous { count: 2, .. }));
    }

    #[test]
    fn what_is_missing_is_named() {
        let directory = directory_of(&["a.meta", "b.0"]);
        let missing = |name: &str| match Members::find(&directory.path().join(name)) {
            Err(Error::Missing { file }) => file,
            other => panic!("{other:?}"),
        };
        assert_eq!(missing("a"), directory.path().join("a.0"));
        assert_eq!(missing("b"), directory.path().join("b.meta"));
        let error = Members::find(&directory.path().join("c")).unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }));
    }

    #[test]
    fn plain_member_is_preferred_to_a_compressed_one() {
        let directory = directory_of(&["a.meta.zst", "a.index", "a.0.xz"]);
        let find = || Members::find(&directory.path().join("a")).unwrap();
        assert_eq!(find().volumes[&0], directory.path().join("a.0.xz"));
        assert_eq!(find().metadata, directory.path().join("a.meta.zst"));
        fs::write(directory.path().join("a.0"), "").unwrap();
        assert_eq!(find().volumes[&0], directory.path().join("a.0"));
    }

    #[test]
    fn a_compressed_member_names_its_archive() {
        let directory = directory_of(&["a.meta", "a.0.xz"]);
        let members = Members::find(&directory.path().join("a.0.xz")).unwrap();
        assert_eq!(members.base, directory.path().join("a"));
    }
}
