//! The growth of an archive, measured by its data volumes alone.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Records that hold all the values.
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

/// Follows an archive that is being written. Of each record it reads the length,
/// once.
#[derive(Debug)]
pub(crate) struct Follower {
    base: PathBuf,
    volume: u32,
    at: u64,
    /// Bytes of the volumes before.
    closed: u64,
    progress: Progress,
}

impl Follower {
    pub(crate) fn new(base: &Path) -> Self {
        let progress = Progress::default();
        Self { base: base.to_owned(), volume: 0, at: 0, closed: 0, progress }
    }

    /// Counts the records that are long enough to hold `values` values.
    pub(crate) fn look(&mut self, values: u64) -> Progress {
        while self.read_volume(values).is_some() && volume(&self.base, self.volume + 1).exists() {
            // It may have got its last record after it was read.
            let _ = self.read_volume(values);
            self.closed += self.at;
            (self.volume, self.at) = (self.volume + 1, 0);
        }
        self.progress
    }

    fn read_volume(&mut self, values: u64) -> Option<()> {
        let file = File::open(volume(&self.base, self.volume)).ok()?;
        let size = file.metadata().ok()?.len();
        let mut word = [0; 4];
        while file.read_exact_at(&mut word, self.at).is_ok() {
            let length = u64::from(u32::from_be_bytes(word));
            if length == 0 || self.at + length > size {
                break;
            }
            self.at += length;
            if length >= 8 * values {
                let bytes = self.closed + self.at;
                self.progress = Progress { count: self.progress.count + 1, bytes };
            }
        }
        Some(())
    }
}

pub(crate) fn volume(base: &Path, number: u32) -> PathBuf {
    let mut path = base.as_os_str().to_owned();
    path.push(format!(".{number}"));
    path.into()
}
