//! Chooses the archives to delete and to reduce.

use std::cmp::Reverse;
use std::time::Duration;

use pcp_types::{Timestamp, format_interval};

use crate::config::Retention;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClosedArchive {
    /// Bytes of all its files.
    pub bytes: u64,
    /// Time of its last record.
    pub end: Timestamp,
    /// The interval that it was reduced to; zero if it has all samples.
    pub interval: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Reason {
    /// Its newest data is too old.
    #[error("its data is older than {}", format_interval(*.0))]
    Age(Duration),
    /// All archives together are too large.
    #[error("all archives together have {found} bytes; the limit is {allowed}")]
    Size { found: u64, allowed: u64 },
    /// The file system is too full.
    #[error("the file system has {found} bytes free; {wanted} are required")]
    Free { found: u64, wanted: u64 },
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
///
/// Those that are too old go first, then the oldest of the longest interval.
pub(super) fn doomed(
    closed: &[ClosedArchive],
    current: u64,
    free: u64,
    now: Timestamp,
    retention: &Retention,
) -> (Vec<(usize, Reason)>, Option<Reason>) {
    let mut total = closed.iter().fold(current, |sum, one| sum.saturating_add(one.bytes));
    let mut free = free;
    let mut order: Vec<(usize, Option<Reason>, ClosedArchive)> = Vec::new();
    for (number, archive) in closed.iter().enumerate() {
        order.push((number, too_old(archive, now, retention), *archive));
    }
    // The order of their ends stays within each interval.
    order.sort_by_key(|(_, age, archive)| (age.is_none(), Reverse(archive.interval)));
    let mut gone = Vec::new();
    for (number, age, archive) in order {
        let Some(reason) = age.or(too_much(total, free, retention)) else {
            return (gone, None);
        };
        total = total.saturating_sub(archive.bytes);
        free = free.saturating_add(archive.bytes);
        gone.push((number, reason));
    }
    (gone, too_much(total, free, retention))
}

/// Returns the interval to which an archive is to be reduced now; `None` if it has it, or a longer
/// one, or is not old enough.
pub(super) fn due_interval(
    archive: &ClosedArchive,
    now: Timestamp,
    retention: &Retention,
) -> Option<Duration> {
    let (_, tier) =
        retention.tiers_from().rfind(|(age, _)| archive.end.saturating_add(*age) < now)?;
    (tier.interval > archive.interval).then_some(tier.interval)
}

fn too_old(archive: &ClosedArchive, now: Timestamp, retention: &Retention) -> Option<Reason> {
    let age = retention.last_age()?;
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
    const NOTHING: Retention = Retention::NONE;

    fn now() -> Timestamp {
        Timestamp::new(1_700_000_000, 0).unwrap()
    }

    /// Archives of 100 bytes that ended these numbers of days ago.
    fn ended(days: &[u64]) -> Vec<ClosedArchive> {
        let closed = days.iter().map(|days| ClosedArchive {
            bytes: 100,
            end: now().saturating_sub(Duration::from_secs(days * DAY)),
            interval: Duration::ZERO,
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

    #[test]
    fn oldest_of_the_longest_interval_is_deleted_first() {
        let mut closed = ended(&[9, 8, 7, 6, 5]);
        for (archive, interval) in closed.iter_mut().zip([0, 60, 3600, 3600, 60]) {
            archive.interval = Duration::from_secs(interval);
        }
        for (size, deleted) in [(450, &[2][..]), (250, &[2, 3, 1]), (50, &[2, 3, 1, 4, 0])] {
            let retention = Retention { size: Some(size), ..NOTHING };
            assert_eq!(numbers(&closed, 0, &retention), deleted, "{size}");
        }
        let age = Some(Duration::from_secs(8 * DAY));
        let retention = Retention { age, size: Some(450), ..NOTHING };
        assert_eq!(numbers(&closed, 0, &retention), [0], "too old, and with that small enough");
    }

    #[test]
    fn archives_are_reduced_by_age_and_deleted_after_the_last_tier() {
        let retention = Retention { size: None, free: None, ..Retention::default() };
        let minute = Duration::from_secs(60);
        let hour = Duration::from_secs(3600);
        let zero = Duration::ZERO;
        for (days, interval, expected) in [
            (14, zero, None),
            (15, zero, Some(minute)),
            (15, minute, None),
            (15, hour, None),
            (91, zero, Some(hour)),
            (91, minute, Some(hour)),
            (91, hour, None),
            (800, Duration::from_secs(86_400), None),
        ] {
            let [archive] = ended(&[days])[..] else { panic!("one archive") };
            let archive = ClosedArchive { interval, ..archive };
            assert_eq!(due_interval(&archive, now(), &retention), expected, "{days} {interval:?}");
        }
        assert_eq!(numbers(&ended(&[731, 730, 91, 15, 14]), 0, &retention), [0]);
        let [archive] = ended(&[900])[..] else { panic!("one archive") };
        assert_eq!(due_interval(&archive, now(), &NOTHING), None);
    }
}
