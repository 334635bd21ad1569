//! The archives of a host, one after the other.

use std::path::{Path, PathBuf};

use hashbrown::HashSet;
use pcp_archive::follow::start_of;
use pcp_archive::{Result, Timestamp};

use crate::tree::Archives;

/// Which archives of a host come next. An archive that appears later is taken if it begins
/// after those that were read.
#[derive(Debug)]
pub(super) struct Queue {
    archives: Archives,
    /// Taken, or begun before the first one that was.
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
        self.done.insert(next.clone());
        Ok(Some(next))
    }

    /// The next archive.
    pub(super) fn peek(&self) -> Result<Option<PathBuf>> {
        let is_next = |base: &PathBuf| {
            // One without a label is taken, so that its error is seen.
            let is_later = |newest| start_of(base).map_or(true, |start| start >= newest);
            !self.done.contains(base) && self.newest.is_none_or(is_later)
        };
        Ok(self.archives.bases()?.into_iter().find(is_next))
    }

    /// Passes by all archives in front of one, which is taken next; false if it is not there.
    pub(super) fn skip_to(&mut self, is_wanted: impl Fn(&Path) -> bool) -> Result<bool> {
        let bases = self.archives.bases()?;
        let Some(at) = bases.iter().position(|base| is_wanted(base)) else { return Ok(false) };
        self.done.extend(bases.into_iter().take(at));
        Ok(true)
    }

    /// Passes by all archives that begin at a time or before, except for the last of them if
    /// that is kept.
    pub(super) fn skip_begun(&mut self, at: Timestamp, keeps_last: bool) -> Result<()> {
        let mut begun = self.archives.bases()?;
        begun.retain(|base| start_of(base).is_ok_and(|start| start <= at));
        if keeps_last {
            begun.pop();
        }
        self.done.extend(begun);
        Ok(())
    }
}
