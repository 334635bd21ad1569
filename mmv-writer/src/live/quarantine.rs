//! Removed entries, and the delay before they are reused.

use std::collections::VecDeque;
use std::time::Duration;

use crate::system::Instant;

/// Delay between the announcement of a removal and the reuse of the entry: a reader that takes
/// longer between two of its own reads could take new content for old.
pub(super) const QUARANTINE: Duration =
    if cfg!(target_os = "linux") { mmv_format::growth::REUSE_DELAY } else { Duration::ZERO };

/// Limit on the entries that are examined for a free one: handles may hold any of them for long.
const MAX_EXAMINED: usize = 8;

/// Removed entries, in the order of removal.
#[derive(Debug)]
pub(super) struct Quarantine<T> {
    /// Each with the time when its removal was announced.
    places: VecDeque<(T, Option<Instant>)>,
}

impl<T> Default for Quarantine<T> {
    fn default() -> Self {
        Self { places: VecDeque::new() }
    }
}

impl<T> Quarantine<T> {
    /// Adds an entry that is removed now.
    pub(super) fn add(&mut self, place: T) {
        self.places.push_back((place, None));
    }

    /// Records that all removals were announced to readers.
    pub(super) fn announced(&mut self, now: Instant) {
        for (_, since) in self.places.iter_mut().rev() {
            if since.is_some() {
                break;
            }
            *since = Some(now);
        }
    }

    /// Returns the number of entries that may be used again.
    pub(super) fn ready(&self) -> usize {
        self.places.iter().take_while(|(_, since)| is_over(*since)).count()
    }

    /// Returns an entry that may be used again and is free.
    pub(super) fn take(&mut self, is_free: impl Fn(&T) -> bool) -> Option<T> {
        for _ in 0..MAX_EXAMINED.min(self.places.len()) {
            if !is_over(self.places.front()?.1) {
                return None; // Those after it were removed later.
            }
            let (place, since) = self.places.pop_front()?;
            if is_free(&place) {
                return Some(place);
            }
            let after = self.places.partition_point(|(_, since)| since.is_some());
            self.places.insert(after, (place, since));
        }
        None
    }
}

/// Returns whether a quarantine that began at `since` is over.
fn is_over(since: Option<Instant>) -> bool {
    since.is_some_and(|since| since.elapsed() >= QUARANTINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_waits_from_its_announcement_on() {
        let mut quarantine = Quarantine::default();
        quarantine.add(1);
        assert_eq!(quarantine.take(|_| true), None, "not announced");
        let long_ago = Instant::now().checked_sub(2 * QUARANTINE).unwrap();
        quarantine.announced(long_ago);
        quarantine.add(2);
        quarantine.announced(Instant::now());
        assert_eq!(quarantine.take(|_| true), Some(1));
        assert_eq!(quarantine.take(|_| true), None, "not for long enough");
    }

    #[test]
    fn places_that_are_held_do_not_hide_those_after_them() {
        let mut quarantine = Quarantine::default();
        (0..20).for_each(|place| quarantine.add(place));
        quarantine.announced(Instant::now().checked_sub(QUARANTINE).unwrap());
        let mut taken = Vec::new();
        for _ in 0..20 {
            taken.extend(quarantine.take(|place| *place >= 10));
        }
        taken.sort_unstable();
        assert_eq!(taken, (10..20).collect::<Vec<_>>());
    }
}
