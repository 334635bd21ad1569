//! Detects when the system runs out of descriptors or memory.
//!
//! Input: the files that cannot be harvested for that reason, and the error of an unreadable
//! directory. Output: a report when a shortage begins, and one with its extent when it ends.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use pcp_types::Timestamp;

/// The files affected by a shortage, and the current spell.
#[derive(Debug, Default)]
pub(crate) struct Shortage {
    files: BTreeSet<OsString>,
    reason: String,
    current: Option<Spell>,
}

#[derive(Debug)]
struct Spell {
    since: Timestamp,
    reason: String,
    /// Largest number of affected files at one time.
    files: usize,
}

/// The beginning or end of a shortage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShortageReport {
    Began { reason: String },
    Ended { since: Timestamp, reason: String },
}

impl Shortage {
    /// Notes that a file cannot be harvested for a reason.
    pub(crate) fn add(&mut self, file: &OsStr, reason: String) {
        self.files.insert(file.to_owned());
        self.reason = reason;
    }

    /// Notes that a file is harvested, or is not for another reason.
    pub(crate) fn remove(&mut self, file: &OsStr) {
        self.files.remove(file);
    }

    /// Forgets files that are gone.
    pub(crate) fn retain(&mut self, exists: impl Fn(&OsStr) -> bool) {
        self.files.retain(|file| exists(file));
    }

    /// Returns the change since the last call; `unreadable` is the reason if the directory cannot
    /// be read.
    pub(crate) fn update(
        &mut self,
        now: Timestamp,
        unreadable: Option<&str>,
    ) -> Option<ShortageReport> {
        let count = self.files.len();
        let reason = match unreadable {
            Some(reason) => Some(reason.to_owned()),
            None => (count > 0).then(|| self.reason.clone()),
        };
        match (reason, &mut self.current) {
            (Some(reason), None) => {
                self.current = Some(Spell { since: now, reason: reason.clone(), files: count });
                Some(ShortageReport::Began { reason })
            }
            (Some(_), Some(spell)) => {
                spell.files = spell.files.max(count);
                None
            }
            (None, current) => {
                let Spell { since, reason, files } = current.take()?;
                let reason = match files {
                    0 => reason,
                    1 => format!("a file was not harvested: {reason}"),
                    files => format!("{files} files were not harvested: {reason}"),
                };
                Some(ShortageReport::Ended { since, reason })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortage_reports_reason_and_missing_files() {
        let at = |seconds| Timestamp::new(seconds, 0).unwrap();
        let mut shortage = Shortage::default();
        assert_eq!(shortage.update(at(1), None), None);
        shortage.add("a".as_ref(), "no memory".to_owned());
        let began = |reason: &str| Some(ShortageReport::Began { reason: reason.to_owned() });
        assert_eq!(shortage.update(at(2), None), began("no memory"));
        shortage.add("b".as_ref(), "no memory".to_owned());
        assert_eq!(shortage.update(at(3), Some("unreadable")), None, "it goes on");
        shortage.remove("a".as_ref());
        assert_eq!(shortage.update(at(4), None), None);
        shortage.retain(|_| false);
        let reason = "2 files were not harvested: no memory".to_owned();
        let ended = Some(ShortageReport::Ended { since: at(2), reason });
        assert_eq!(shortage.update(at(5), None), ended);
        assert_eq!(shortage.update(at(6), None), None);
        assert_eq!(shortage.update(at(7), Some("unreadable")), began("unreadable"));
        let ended = ShortageReport::Ended { since: at(7), reason: "unreadable".to_owned() };
        assert_eq!(shortage.update(at(8), None), Some(ended));
    }
}
