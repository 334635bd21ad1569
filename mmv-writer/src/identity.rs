//! Which file a registry makes: its name, its path and the fields of its header.

use std::path::{Path, PathBuf};

use mmv_format::directory::MmvDirectory;
use mmv_format::file::TemporaryFile;
use mmv_format::layout::{Flags, Header, MAGIC, TocEntry, Version};
use zerocopy::IntoBytes;

use crate::Error;
use crate::mapping::LockRegistration;

/// Whether values of a file may be absent: whether it has the sentinel flag.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Absent {
    /// From the first metric on that needs it.
    #[default]
    ByNeed,
    Always,
    Never,
}

/// A file before it has content.
#[derive(Debug, Clone)]
pub(crate) struct FileIdentity {
    /// The file's name.
    pub(crate) name: String,
    /// Its path after publication.
    pub(crate) path: PathBuf,
    /// The directory, if the program names none: it is created where that is allowed.
    pub(crate) chosen: Option<MmvDirectory>,
    pub(crate) cluster: u32,
    /// Whether it replaces the file of another running process.
    pub(crate) replace_running: bool,
    /// Those that it has at first.
    pub(crate) flags: Flags,
    pub(crate) absent: Absent,
    /// What metric names in it begin with.
    pub(crate) prefix: String,
}

impl FileIdentity {
    /// Creates the temporary file, after removing stale ones. Children of fork do not
    /// inherit its lock.
    pub(crate) fn temporary(&self) -> Result<(TemporaryFile, LockRegistration), Error> {
        if let Some(chosen) = &self.chosen {
            chosen.prepare()?;
        }
        let directory = self.path.parent().unwrap_or(Path::new(""));
        let file = TemporaryFile::create(directory, &self.name)?;
        let lock = LockRegistration::new(&file);
        Ok((file, lock))
    }

    /// The header, with generation 2 still 0, and the table of contents.
    pub(crate) fn head(&self, version: Version, generation: u64, toc: &[TocEntry]) -> Vec<u8> {
        let mut head = self.header(version, generation, toc.len()).as_bytes().to_vec();
        head.extend(toc.as_bytes());
        head
    }
    fn header(&self, version: Version, generation: u64, sections: usize) -> Header {
        Header {
            magic: MAGIC,
            version: version.code(),
            generation1: generation,
            generation2: 0,
            toc_count: sections as i32,
            flags: self.flags.raw(),
            pid: std::process::id().cast_signed(),
            cluster: self.cluster.cast_signed(),
        }
    }
}
