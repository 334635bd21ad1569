//! Options that a writer needs before the first record.

use std::time::Duration;

use crate::{ArchiveLabel, ByteText, Version};

/// The writer's fields in the label of every file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterLabel {
    /// The process that writes.
    pub pid: i32,
    /// The host that the values are from, at most 255 bytes; in version 2 at
    /// most 63.
    pub hostname: ByteText,
    /// Its time zone as a POSIX rule without daylight saving, `AEST-10`; in version 2 at most 39
    /// bytes.
    pub timezone: ByteText,
    /// That zone's name with a colon, `:Australia/Melbourne`, or nothing.
    /// Version 2 has no place for it.
    pub zoneinfo: ByteText,
}

impl From<&ArchiveLabel> for WriterLabel {
    fn from(label: &ArchiveLabel) -> Self {
        Self {
            pid: label.pid,
            hostname: label.hostname.clone(),
            timezone: label.timezone.clone(),
            zoneinfo: label.zoneinfo.clone(),
        }
    }
}

impl WriterLabel {
    /// Returns the label as an archive of this version can store it: a longer host name is cut
    /// off, and a longer time zone, of which a part means another one, becomes UTC.
    #[must_use]
    pub fn fitted(mut self, version: Version) -> Self {
        let [host, zone, _] = version.string_sizes();
        let hostname = self.hostname.to_bytes();
        if hostname.len() >= host {
            // A character of UTF-8 is not cut in two.
            let mut end = host - 1;
            while end > 0 && hostname.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
                end -= 1;
            }
            self.hostname = ByteText::from_bytes(hostname.get(..end).unwrap_or_default());
        }
        if self.timezone.to_bytes().len() >= zone {
            self.timezone = "UTC".into();
        }
        self
    }
}

/// The format of an archive, and the sizes at which its files are cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterOptions {
    /// Version 2 is for readers that are older than PCP 6.0. It has times in
    /// microseconds (what is below is cut off) and up to 2038, files of less
    /// than 2 GiB, and no empty instance domains.
    pub version: Version,
    /// Bytes of records and metadata from one index entry to the next, if no
    /// entry is due earlier; 100 000 by default.
    pub index_bytes: u64,
    /// Time from one index entry to the next, likewise. `None`, the default: only
    /// bytes count, as for PCP.
    pub index_interval: Option<Duration>,
    /// The size that a data volume may reach; a record that would exceed it
    /// begins the next volume. `None`, the default: only
    /// [`switch_volume`](super::ArchiveWriter::switch_volume) begins one.
    pub volume_bytes: Option<u64>,
    /// Bytes of each file that may wait to be written together, for archives that are not read
    /// before they are [finished](super::ArchiveWriter::finish) or
    /// [synced](super::ArchiveWriter::sync). 0, the default: each record is in its file when the
    /// call returns. With more, a limit on the size of files that is not the process's
    /// (`RLIMIT_FSIZE`) is an error; without a buffer the next volume begins there.
    pub buffer_bytes: usize,
}

/// Version 3; index entries every 100 kB, as PCP writes them; volumes without
/// limit; no buffer.
impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            version: Version::V3,
            index_bytes: 100_000,
            index_interval: None,
            volume_bytes: None,
            buffer_bytes: 0,
        }
    }
}
