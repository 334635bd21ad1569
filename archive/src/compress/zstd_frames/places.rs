//! Where else than in the previous record to look for matches.
//!
//! The high bytes of a value that crosses zero flip between all ones and all zeros. The
//! previous record does not match then, but a neighboring value or an earlier record may.
//! Repeated distances are cheap to encode, so two are chosen for each frame, from a sample.

use super::records::{Part, differing, equal};
use super::sequences::MIN_MATCH;

/// The number of places besides the previous record.
pub(super) const OTHERS: usize = 2;
/// The number of samples, and of matches in each.
const SAMPLES: usize = 16;
const MATCHES: usize = 16;
/// By how many bytes a match must be longer to be worth another distance than the last one.
pub(super) const SWITCH: usize = 2;

/// A place before the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The same place this many records earlier, counting those of the same length.
    Records(usize),
    /// This many bytes earlier.
    Bytes(usize),
}

use Place::{Bytes, Records};

/// The candidates. Values of 4 or 8 bytes are 8 to 20 bytes apart, depending on their layout,
/// or twice that where types alternate.
const TRIED: [Place; 13] = [
    Records(2),
    Records(3),
    Records(5),
    Records(8),
    Records(13),
    Bytes(8),
    Bytes(12),
    Bytes(16),
    Bytes(20),
    Bytes(24),
    Bytes(32),
    Bytes(36),
    Bytes(40),
];

/// The lengths of matches at one point: in the previous record, and at each of [`TRIED`].
type Lengths = (usize, [usize; TRIED.len()]);

impl Place {
    /// The distance in bytes, if the previous record is `distance` bytes earlier.
    pub(super) const fn distance(self, distance: usize) -> usize {
        match self {
            Records(count) => count * distance,
            Bytes(count) => count,
        }
    }
}

/// The places that together add most to what the previous record matches, best first.
pub(super) fn choose(bytes: &[u8], parts: &[Part]) -> [Option<Place>; OTHERS] {
    let sample = sample(bytes, parts);
    let mut have: Vec<usize> = sample.iter().map(|(last, _)| *last).collect();
    [(); OTHERS].map(|()| {
        let gain = |number: usize| {
            let found = sample.iter().filter_map(|(_, tried)| tried.get(number));
            found.zip(&have).map(|(found, have)| found.saturating_sub(have + SWITCH)).sum::<usize>()
        };
        let rated = TRIED.into_iter().enumerate().map(|(number, place)| {
            // The first records of a frame have no record that far back.
            let after = match place {
                Records(count) => parts.len().saturating_sub(count),
                Bytes(_) => parts.len(),
            };
            (gain(number) * after, number, place)
        });
        let best = rated.filter(|(gain, ..)| *gain > 0).max_by_key(|(gain, ..)| *gain);
        let (_, number, place) = best?;
        for (have, (_, tried)) in have.iter_mut().zip(&sample) {
            *have = tried.get(number).copied().unwrap_or(0).max(*have);
        }
        Some(place)
    })
}

/// The lengths of matches, sampled across the second half.
fn sample(bytes: &[u8], parts: &[Part]) -> Vec<Lengths> {
    let mut lengths = Vec::with_capacity(SAMPLES * MATCHES);
    let (from, half) = (bytes.len() / 2, bytes.len().div_ceil(2));
    for sample in 0..SAMPLES {
        let at = from + sample * half / SAMPLES;
        let number = parts.partition_point(|part| part.range.end <= at);
        let Some(part) = parts.get(number) else { continue };
        let Some(distance) = part.distance else { continue };
        let (end, mut at) = (part.range.end, at);
        let after = |at: usize, distance: usize| {
            let then = at.checked_sub(distance).and_then(|at| bytes.get(at..end - distance));
            bytes.get(at..end).zip(then).map(|(now, then)| (now, then, equal(now, then)))
        };
        // The first match began before the sample.
        for counted in 0..=MATCHES {
            let Some((now, then, same)) = after(at, distance).filter(|_| at < end) else { break };
            if counted > 0 {
                let tried = TRIED.map(|place| {
                    let found = after(at, place.distance(distance)).map_or(0, |(.., len)| len);
                    if found < MIN_MATCH { 0 } else { found }
                });
                lengths.push((same, tried));
            }
            let rest = (now.get(same..).unwrap_or_default(), then.get(same..).unwrap_or_default());
            at += same + differing(rest.0, rest.1);
        }
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of 64 bytes: what is changed in each, by its number.
    fn records(count: usize, change: impl Fn(usize, &mut [u8])) -> (Vec<u8>, Vec<Part>) {
        let mut bytes = vec![7; 64 * count];
        for (number, record) in bytes.chunks_mut(64).enumerate() {
            change(number, record);
        }
        let parts = (0..count).map(|number| Part {
            range: 64 * number..64 * (number + 1),
            distance: (number > 0).then_some(64),
        });
        let parts = parts.collect();
        (bytes, parts)
    }

    #[test]
    fn what_comes_back_is_found_where_it_was() {
        // What has changed ends where a match may begin.
        let of_three = |number: usize, record: &mut [u8]| {
            record[10] = number as u8;
            record[20..40].fill(number as u8 % 3);
        };
        let (bytes, parts) = records(100, of_three);
        assert_eq!(choose(&bytes, &parts), [Some(Records(3)), None]);
        let beside = |number: usize, record: &mut [u8]| {
            record[0..8].fill((number * number) as u8);
            record[20] = number as u8;
            record[24..32].fill((number * number) as u8);
        };
        let (bytes, parts) = records(100, beside);
        assert_eq!(choose(&bytes, &parts), [Some(Bytes(24)), None]);
    }

    #[test]
    fn nothing_is_chosen_where_the_last_record_is_best() {
        let (bytes, parts) = records(100, |number, record| record[30] = number as u8);
        assert_eq!(choose(&bytes, &parts), [None, None]);
        let (bytes, parts) = records(1, |_, _| {});
        assert_eq!(choose(&bytes, &parts), [None, None]);
        assert_eq!(choose(&[], &[]), [None, None]);
    }
}
