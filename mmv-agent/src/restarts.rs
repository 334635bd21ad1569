//! Which programs began anew: another file has the name that theirs had.
//!
//! Some programs take their file away when they end, and others leave it to be
//! replaced; whether the agent looks between end and start is chance. So a name is
//! remembered for a while when its file is gone.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};

use crate::roster::FileId;

/// How many names without a file are remembered. Whoever may make files could
/// fill the memory with names.
const MOST_GONE: usize = 1_000;

/// The names that had a file.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    /// The file that was harvested last under each name.
    known: HashMap<OsString, FileId>,
    /// The names without a file, the longest gone in front.
    gone: VecDeque<OsString>,
    wanted: bool,
    noticed: bool,
}

impl Restarts {
    /// Whether anybody wants to know from now on.
    pub(crate) fn want(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    /// A file is harvested from now on, or still is.
    pub(crate) fn harvested(&mut self, name: &OsStr, id: FileId) {
        if let Some(before) = self.known.insert(name.to_owned(), id) {
            self.noticed |= before != id;
            self.gone.retain(|gone| gone != name);
        }
    }

    /// A name has no file any more.
    pub(crate) fn vanished(&mut self, name: &OsStr) {
        if !self.known.contains_key(name) || self.gone.iter().any(|gone| gone == name) {
            return;
        }
        self.gone.push_back(name.to_owned());
        if self.gone.len() > MOST_GONE
            && let Some(oldest) = self.gone.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Whether a program began anew since this was last asked, and that is wanted.
    pub(crate) fn take(&mut self) -> bool {
        std::mem::take(&mut self.noticed) && self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(inode: u64) -> FileId {
        FileId { device: 1, inode, born: None }
    }

    fn wanted() -> Restarts {
        Restarts { wanted: true, ..Restarts::default() }
    }

    #[test]
    fn what_nobody_wants_to_know_is_not_told_later() {
        let (mut restarts, name) = (Restarts::default(), OsStr::new("a"));
        restarts.harvested(name, id(1));
        restarts.harvested(name, id(2));
        assert!(!restarts.take());
        restarts.want(true);
        assert!(!restarts.take());
        restarts.harvested(name, id(3));
        assert!(restarts.take());
    }

    #[test]
    fn another_file_under_a_name_is_a_restart_and_the_same_one_is_none() {
        let mut restarts = wanted();
        let [a, b] = ["a", "b"].map(OsStr::new);
        for (name, inode, expected) in
            [(a, 1, false), (a, 1, false), (b, 2, false), (a, 3, true), (a, 3, false)]
        {
            restarts.harvested(name, id(inode));
            assert_eq!(restarts.take(), expected, "{name:?} {inode}");
        }
    }

    #[test]
    fn a_name_is_known_when_its_file_has_been_gone_for_a_while() {
        let mut restarts = wanted();
        let name = OsStr::new("a");
        for life in 1..4 {
            restarts.harvested(name, id(life));
            assert_eq!(restarts.take(), life > 1);
            restarts.vanished(name);
            restarts.vanished(name);
        }
        assert_eq!(restarts.gone.len(), 1);
    }

    #[test]
    fn names_without_end_are_not_remembered_without_end() {
        let mut restarts = wanted();
        let stays = OsStr::new("stays");
        restarts.harvested(stays, id(0));
        for number in 0..3 * MOST_GONE {
            let name = OsString::from(number.to_string());
            restarts.harvested(&name, id(1));
            restarts.vanished(&name);
        }
        // One that was never harvested is not worth a place.
        restarts.vanished(OsStr::new("junk"));
        assert_eq!((restarts.known.len(), restarts.gone.len()), (MOST_GONE + 1, MOST_GONE));
        restarts.harvested(stays, id(2));
        assert!(restarts.take(), "a file that is there is not forgotten");
        restarts.harvested(OsStr::new("0"), id(2));
        assert!(!restarts.take(), "the longest gone are");
    }
}
