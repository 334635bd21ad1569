//! Which file a registry makes: its name, its path and the fields of its header.

use std::path::{Path, PathBuf};

use mmv_format::file::TemporaryFile;
use mmv_format::layout::{Flags, Header, MAGIC, TocEntry, Version};
use zerocopy::IntoBytes;

use crate::Error;

/// A file before it has content.
#[derive(Debug, Clone)]
pub(crate) struct FileIdentity {
    /// The file's name.
    pub(crate) name: String,
    /// Its path after publication.
    pub(crate) path: PathBuf,
    pub(crate) cluster: u32,
    pub(crate) flags: Flags,
    /// What metric names in it begin with.
    pub(crate) prefix: String,
}

impl FileIdentity {
    /// Creates the temporary file, after removing stale ones.
    pub(crate) fn temporary(&self) -> Result<TemporaryFile, Error> {
        Ok(TemporaryFile::create(self.path.parent().unwrap_or(Path::new("")), &self.name)?)
    }

    /// The header, with generation 2 still 0, and the table of contents.
    pub(crate) fn head(&self, version: Version, generation: u64, toc: &[TocEntry]) -> Vec<u8> {
        let header = Header {
            magic: MAGIC,
            version: version.code(),
            generation1: generation,
            generation2: 0,
            toc_count: toc.len() as i32,
            flags: self.flags.raw(),
            pid: std::process::id().cast_signed(),
            cluster: self.cluster.cast_signed(),
        };
        let mut head = header.as_bytes().to_vec();
        head.extend(toc.as_bytes());
        head
    }
}
