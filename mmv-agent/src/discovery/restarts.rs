//! Detects restarted programs: another file has taken the name of a program's file.
//!
//! Some programs remove their file when they end, others leave it to be replaced, and the agent
//! may or may not list the directory in between. So a name is remembered for a while after its
//! file is gone.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};

use super::FileId;

/// Limit on remembered names without a file. Without it, any process that may create files could
/// fill the memory with names.
const MAX_GONE: usize = 1_000;

/// The known file names.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    /// The file that was harvested last under each name.
    known: HashMap<OsString, FileId>,
    /// Names without a file, the longest gone first.
    gone: VecDeque<OsString>,
    /// True if restarts are reported.
    pub enabled: bool,
    detected: bool,
}

impl Restarts {
    pub(crate) fn harvested(&mut self, name: &OsStr, id: FileId) {
        if let Some(before) = self.known.insert(name.to_owned(), id) {
            self.detected |= before != id;
            self.gone.retain(|gone| gone != name);
        }
    }

    /// Returns true if a file of this name was harvested.
    pub(crate) fn is_known(&self, name: &OsStr) -> bool {
        self.known.contains_key(name)
    }

    /// Returns the names under which files were harvested.
    pub(crate) fn names(&self) -> impl Iterator<Item = &OsStr> {
        self.known.keys().map(OsString::as_os_str)
    }

    /// Notes that a name has no file any more.
    pub(crate) fn vanished(&mut self, name: &OsStr) {
        if !self.known.contains_key(name) || self.gone.iter().any(|gone| gone == name) {
            return;
        }
        self.gone.push_back(name.to_owned());
        if self.gone.len() > MAX_GONE
            && let Some(oldest) = self.gone.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Returns true if a program was restarted since the last call; false while disabled.
    pub(crate) fn take_detected(&mut self) -> bool {
        std::mem::take(&mut self.detected) && self.enabled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(inode: u64) -> FileId {
        FileId { device: 1, inode, born: None }
    }

    fn enabled() -> Restarts {
        Restarts { enabled: true, ..Restarts::default() }
    }

    #[test]
    fn restarts_while_disabled_are_not_reported_later() {
        let mut restarts = Restarts::default();
        let name = OsStr::new("a");
        restarts.harvested(name, id(1));
        restarts.harvested(name, id(2));
        assert!(!restarts.take_detected());
        restarts.enabled = true;
        assert!(!restarts.take_detected());
        restarts.harvested(name, id(3));
        assert!(restarts.take_detected());
    }

    #[test]
    fn only_another_file_under_a_name_is_a_restart() {
        let mut restarts = enabled();
        let [a, b] = ["a", "b"].map(OsStr::new);
        for (name, inode, expected) in
            [(a, 1, false), (a, 1, false), (b, 2, false), (a, 3, true), (a, 3, false)]
        {
            restarts.harvested(name, id(inode));
            assert_eq!(restarts.take_detected(), expected, "{name:?} {inode}");
        }
    }

    #[test]
    fn a_name_is_remembered_after_its_file_is_gone() {
        let mut restarts = enabled();
        let name = OsStr::new("a");
        for life in 1..4 {
            restarts.harvested(name, id(life));
            assert_eq!(restarts.take_detected(), life > 1);
            restarts.vanished(name);
            restarts.vanished(name);
        }
        assert_eq!(restarts.gone.len(), 1);
    }

    #[test]
    fn the_number_of_remembered_names_is_limited() {
        let mut restarts = enabled();
        let stays = OsStr::new("stays");
        restarts.harvested(stays, id(0));
        for number in 0..3 * MAX_GONE {
            let name = OsString::from(number.to_string());
            restarts.harvested(&name, id(1));
            restarts.vanished(&name);
        }
        // One that was never harvested is not worth a place.
        restarts.vanished(OsStr::new("junk"));
        assert_eq!((restarts.known.len(), restarts.gone.len()), (MAX_GONE + 1, MAX_GONE));
        restarts.harvested(stays, id(2));
        assert!(restarts.take_detected(), "a file that is there is not forgotten");
        restarts.harvested(OsStr::new("0"), id(2));
        assert!(!restarts.take_detected(), "the longest gone are");
    }
}
