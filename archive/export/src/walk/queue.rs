//! The archives of a host, one after the other.

use std::path::{Path, PathBuf};

use hashbrown::HashSet;
use pcp_archive::follow::start_of;
use pcp_archive::internal::original_base;
use pcp_archive::{Result, Timestamp};

use crate::tree::Archives;

/// A queue of the archives of a host. An archive that appears later is added if it does not begin
/// before those that were taken.
#[derive(Debug)]
pub(super) struct Queue {
    archives: Archives,
    /// The original names of archives that were taken or skipped: one and its reduced form are the
    /// same archive.
    done: HashSet<PathBuf>,
    newest: Option<Timestamp>,
}

impl Queue {
    pub(super) fn new(archives: Archives) -> Self {
        Self { archives, done: HashSet::new(), newest: None }
    }

    /// Takes the next archive; `None` if there is none yet.
    pub(super) fn take(&mut self) -> Result<Option<PathBuf>> {
        let Some(next) = self.peek()? else { return Ok(None) };
        self.newest = self.newest.max(start_of(&next).ok());
        self.done.insert(original_base(&next));
        Ok(Some(next))
    }

    /// Returns an archive that was taken, since its reduced form has taken its place.
    pub(super) fn give_back(&mut self, base: &Path) {
        self.done.remove(&original_base(base));
    }

    /// Returns the next archive without taking it.
    pub(super) fn peek(&self) -> Result<Option<PathBuf>> {
        for base in self.archives.bases()? {
            if self.done.contains(&original_base(&base)) {
                continue;
            }
            // An archive without a label is taken, so that its error is reported.
            let is_later = match (self.newest, start_of(&base)) {
                (Some(newest), Ok(start)) => start >= newest,
                _ => true,
            };
            if is_later {
                return Ok(Some(base));
            }
        }
        Ok(None)
    }

    /// Skips all archives before the wanted one, and returns false if it does not exist.
    pub(super) fn skip_to(&mut self, is_wanted: impl Fn(&Path) -> bool) -> Result<bool> {
        let bases = self.archives.bases()?;
        let Some(at) = bases.iter().position(|base| is_wanted(base)) else { return Ok(false) };
        self.done.extend(bases.iter().take(at).map(|base| original_base(base)));
        Ok(true)
    }

    /// Skips all archives that begin at a time or before, except for the last of them if
    /// `keeps_last` is set.
    pub(super) fn skip_begun(&mut self, at: Timestamp, keeps_last: bool) -> Result<()> {
        let mut begun = self.archives.bases()?;
        begun.retain(|base| start_of(base).is_ok_and(|start| start <= at));
        if keeps_last {
            begun.pop();
        }
        self.done.extend(begun.iter().map(|base| original_base(base)));
        Ok(())
    }
}
