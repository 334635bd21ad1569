//! Places that were given up, and rest before they are used again.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long it must have been announced that a place is given up before it is used
/// again: a reader that is slower than this between two of its own reads could take
/// what is there now for what was there before.
pub(super) const REST: Duration = Duration::from_millis(100);

/// How many places are looked at for one that is free: handles may hold any of them
/// for long.
const LOOK_AT: usize = 8;

/// Places at rest, the one given up first in front.
#[derive(Debug)]
pub(super) struct Resting<T> {
    places: VecDeque<(T, Option<Instant>)>,
}

impl<T> Default for Resting<T> {
    fn default() -> Self {
        Self { places: VecDeque::new() }
    }
}

impl<T> Resting<T> {
    /// Takes a place that was given up now.
    pub(super) fn add(&mut self, place: T) {
        self.places.push_back((place, None));
    }

    /// Notes that readers were told of all that is given up.
    pub(super) fn announced(&mut self, now: Instant) {
        for (_, since) in self.places.iter_mut().rev() {
            if since.is_some() {
                break;
            }
            *since = Some(now);
        }
    }

    /// How many places have rested.
    pub(super) fn rested(&self) -> usize {
        self.places.iter().take_while(|(_, since)| is_over(*since)).count()
    }

    /// Gives a place that has rested and is free.
    pub(super) fn take(&mut self, is_free: impl Fn(&T) -> bool) -> Option<T> {
        for _ in 0..LOOK_AT.min(self.places.len()) {
            if !is_over(self.places.front()?.1) {
                return None; // Those behind it were given up later.
            }
            let (place, since) = self.places.pop_front()?;
            if is_free(&place) {
                return Some(place);
            }
            let behind = self.places.partition_point(|(_, since)| since.is_some());
            self.places.insert(behind, (place, since));
        }
        None
    }
}

/// Whether a rest that began then is over.
fn is_over(since: Option<Instant>) -> bool {
    since.is_some_and(|since| since.elapsed() >= REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_rests_from_its_announcement_on() {
        let mut resting = Resting::default();
        resting.add(1);
        assert_eq!(resting.take(|_| true), None, "not announced");
        let long_ago = Instant::now().checked_sub(2 * REST).unwrap();
        resting.announced(long_ago);
        resting.add(2);
        resting.announced(Instant::now());
        assert_eq!(resting.take(|_| true), Some(1));
        assert_eq!(resting.take(|_| true), None, "not for long enough");
    }

    #[test]
    fn places_that_are_held_do_not_hide_those_behind_them() {
        let mut resting = Resting::default();
        (0..20).for_each(|place| resting.add(place));
        resting.announced(Instant::now().checked_sub(REST).unwrap());
        let mut taken = Vec::new();
        for _ in 0..20 {
            taken.extend(resting.take(|place| *place >= 10));
        }
        taken.sort_unstable();
        assert_eq!(taken, (10..20).collect::<Vec<_>>());
    }
}
