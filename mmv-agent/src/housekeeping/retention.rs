//! Chooses the archives to delete.

use std::time::Duration;

use pcp_types::Timestamp;

use crate::config::Retention;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClosedArchive {
    /// Bytes of all its files.
    pub bytes: u64,
    /// Time of its last record.
    pub end: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Reason {
    /// Its newest data is too old.
    #[error("its data is older than {}", shown(*.0))]
    Age(Duration),
    /// All archives together are too large.
    #[error("all archives together have {found} bytes; the limit is {allowed}")]
    Size { found: u64, allowed: u64 },
    /// The file system is too full.
    #[error("the file system has {found} bytes free; {wanted} are required")]
    Free { found: u64, wanted: u64 },
}

/// Formats a time in the largest unit of the configuration that divides it.
fn shown(time: Duration) -> String {
    let seconds = time.as_secs();
    if time.subsec_nanos() == 0 && seconds > 0 {
        for (unit, length) in [("d", 86_400), ("h", 3_600), ("m", 60)] {
            if seconds.is_multiple_of(length) {
                return format!("{}{unit}", seconds / length);
            }
        }
    }
    format!("{time:?}")
}

impl Reason {
    /// Returns true if other programs contribute to the cause.
    pub(super) const fn is_room(self) -> bool {
        matches!(self, Self::Free { .. })
    }
}

/// Returns the archives to delete, as indexes of `closed`, which is in order of their ends, and
/// the limit that is exceeded even without them. `current` is the size of the archive that is
/// being written, `free` the free space of the file system, both in bytes.
pub(super) fn doomed(
    closed: &[ClosedArchive],
    current: u64,
    free: u64,
    now: Timestamp,
    retention: &Retention,
) -> (Vec<(usize, Reason)>, Option<Reason>) {
    let mut total = closed.iter().fold(current, |sum, one| sum.saturating_add(one.bytes));
    let mut free = free;
    let mut gone = Vec::new();
    for (number, archive) in closed.iter().enumerate() {
        let Some(reason) = too_old(archive, now, retention).or(too_much(total, free, retention))
        else {
            return (gone, None);
        };
        total = total.saturating_sub(archive.bytes);
        free = free.saturating_add(archive.bytes);
        gone.push((number, reason));
    }
    (gone, too_much(total, free, retention))
}

fn too_old(archive: &ClosedArchive, now: Timestamp, retention: &Retention) -> Option<Reason> {
    let age = retention.age?;
    (archive.end.saturating_add(age) < now).then_some(Reason::Age(age))
}

fn too_much(total: u64, free: u64, retention: &Retention) -> Option<Reason> {
    let size = retention.size.filter(|allowed| total > *allowed);
    let size = size.map(|allowed| Reason::Size { found: total, allowed });
    let room = retention.free.filter(|wanted| free < *wanted);
    size.or(room.map(|wanted| Reason::Free { found: free, wanted }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;
    const NOTHING: Retention = Retention { age: None, size: None, free: None };

    fn now() -> Timestamp {
        Timestamp::new(1_700_000_000, 0).unwrap()
    }

    /// Archives of 100 bytes that ended these numbers of days ago.
    fn ended(days: &[u64]) -> Vec<ClosedArchive> {
        let closed = days.iter().map(|days| ClosedArchive {
            bytes: 100,
            end: now().saturating_sub(Duration::from_secs(days * DAY)),
        });
        closed.collect()
    }

    fn numbers(closed: &[ClosedArchive], free: u64, retention: &Retention) -> Vec<usize> {
        let (gone, _) = doomed(closed, 50, free, now(), retention);
        gone.into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn archives_are_deleted_by_the_age_of_their_newest_data() {
        let retention = Retention { age: Some(Duration::from_secs(2 * DAY)), ..NOTHING };
        assert_eq!(numbers(&ended(&[9, 3, 2, 1, 0]), 0, &retention), [0, 1]);
        assert_eq!(numbers(&ended(&[9, 3]), 0, &NOTHING), [0; 0]);
    }

    #[test]
    fn an_age_is_written_as_in_the_configuration() {
        for (millis, text) in [
            (1_209_600_000, "14d"),
            (93_600_000, "26h"),
            (5_400_000, "90m"),
            (61_000, "61s"),
            (1_500, "1.5s"),
        ] {
            let reason = Reason::Age(Duration::from_millis(millis)).to_string();
            assert_eq!(reason, format!("its data is older than {text}"));
        }
    }

    #[test]
    fn the_oldest_are_deleted_until_all_together_are_small_enough() {
        let closed = ended(&[3, 2, 1]);
        for (size, deleted) in [(350, &[][..]), (349, &[0]), (150, &[0, 1])] {
            let retention = Retention { size: Some(size), ..NOTHING };
            assert_eq!(numbers(&closed, 0, &retention), deleted, "{size}");
        }
        let retention = Retention { size: Some(10), ..NOTHING };
        let (gone, rest) = doomed(&closed, 50, 0, now(), &retention);
        assert_eq!(gone.len(), 3);
        assert_eq!(rest, Some(Reason::Size { found: 50, allowed: 10 }));
    }

    #[test]
    fn the_oldest_are_deleted_until_the_file_system_has_enough_room() {
        let retention = Retention { free: Some(1_000), ..NOTHING };
        let closed = ended(&[3, 2, 1]);
        assert_eq!(numbers(&closed, 1_000, &retention), [0; 0]);
        assert_eq!(numbers(&closed, 850, &retention), [0, 1]);
        let (gone, rest) = doomed(&closed, 50, 5, now(), &retention);
        assert_eq!(gone.len(), 3);
        assert_eq!(rest, Some(Reason::Free { found: 305, wanted: 1_000 }));
    }
}
