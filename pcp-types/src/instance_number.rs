//! Numbers of instances, which follow from their names.
//!
//! A name is hashed, so that it has the same number in every run of every program. Where
//! another instance of the domain has that number, the name is hashed again with a
//! prefix. `docs/mmv-format.md`, section 5, defines the numbers,
//! `docs/decisions/003-numbers-from-names.md` gives the reasons.

use hashbrown::HashSet;

/// Numbers of instances that are taken in one domain, and those that follow from names.
#[derive(Debug, Default)]
pub struct InstanceNumbers {
    taken: HashSet<i32>,
}

impl InstanceNumbers {
    /// Returns the number for an instance of this name; `None` if none of its numbers is
    /// free.
    pub fn choose(&self, name: &str) -> Option<i32> {
        let mut hashes = (0..=u8::MAX).map(|attempt| hash(name, attempt));
        hashes.find(|number| !self.taken.contains(number))
    }

    /// Takes numbers for all names of a domain, and returns them in the order of the names;
    /// nothing if a name gets none.
    ///
    /// They depend on the set of names only: where a number is taken, names are numbered in
    /// the order of their bytes.
    pub fn choose_all(&mut self, names: &[&str]) -> Vec<i32> {
        let hashes: Vec<i32> = names.iter().map(|name| hash(name, 0)).collect();
        let all: HashSet<i32> = hashes.iter().chain(&self.taken).copied().collect();
        if all.len() == hashes.len() + self.taken.len() {
            self.taken = all;
            return hashes;
        }
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_unstable_by_key(|index| names.get(*index));
        let mut numbers = hashes;
        for index in order {
            let (Some(name), Some(number)) = (names.get(index), numbers.get_mut(index)) else {
                continue;
            };
            let Some(chosen) = self.choose(name) else { return Vec::new() };
            self.take(chosen);
            *number = chosen;
        }
        numbers
    }

    /// Takes a number; returns whether it was free.
    pub fn take(&mut self, number: i32) -> bool {
        self.taken.insert(number)
    }

    /// Frees the number of an instance that is removed.
    pub fn release(&mut self, number: i32) {
        self.taken.remove(&number);
    }
}

/// Returns the first number of a name: its hash without a prefix.
pub fn hash_of_name(name: &str) -> i32 {
    hash(name, 0)
}

/// Hashes a name: FNV-1a of 32 bits, folded to 31 bits. The attempts after the first begin
/// with a byte that tells them from each other.
fn hash(name: &str, attempt: u8) -> i32 {
    let prefix = (attempt > 0).then_some(attempt);
    let sum = prefix
        .into_iter()
        .chain(name.bytes())
        .fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    ((sum >> 31) ^ (sum & i32::MAX.cast_unsigned())).cast_signed()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Two names with one hash, found among `tenant-0`, `tenant-1` and so on.
    const COLLIDING: [&str; 2] = ["tenant-180400", "tenant-97018"];

    #[test]
    fn hashes_are_those_of_the_documentation() {
        for (name, first, second, last) in [
            ("a", 1_678_518_573, 1_282_717_207, 1_327_362_045),
            ("foobar", 1_067_252_073, 403_345_216, 1_265_394_326),
            ("sda", 1_428_480_008, 51_683_455, 505_518_248),
            ("/index.html", 1_165_777_521, 1_793_034_878, 453_578_192),
            ("method=GET,code=200", 958_778_529, 1_898_666_518, 1_771_251_721),
            ("äöü", 1_138_454_712, 290_111_812, 1_711_073_447),
            ("tenant-97018", 1_994_931_301, 1_846_970_376, 1_964_597_126),
            ("tenant-180400", 1_994_931_301, 466_679_454, 1_543_024_668),
        ] {
            let found = [0, 1, u8::MAX].map(|attempt| hash(name, attempt));
            assert_eq!(found, [first, second, last], "{name}");
        }
    }

    #[test]
    fn of_two_instances_with_one_hash_the_first_has_its_number() {
        let [one, other] = COLLIDING;
        let mut numbers = InstanceNumbers::default();
        assert!(numbers.take(numbers.choose(one).unwrap()));
        assert_eq!(numbers.choose(other), Some(hash(other, 1)));
        numbers.release(hash(one, 0));
        assert_eq!(numbers.choose(other), Some(hash(one, 0)));
    }

    #[test]
    fn a_number_that_a_program_gave_is_not_given_to_a_name() {
        let mut numbers = InstanceNumbers::default();
        numbers.take(hash("sda", 0));
        assert_eq!(numbers.choose_all(&["sdb", "sda"]), [hash("sdb", 0), hash("sda", 1)]);
    }

    #[test]
    fn a_name_whose_numbers_are_all_taken_gets_none() {
        let mut numbers = InstanceNumbers::default();
        for attempt in 0..=u8::MAX {
            numbers.take(hash("sda", attempt));
        }
        assert_eq!(numbers.choose("sda"), None);
        assert_eq!(numbers.choose_all(&["sdb", "sda"]), [0; 0]);
    }

    /// Pairs of texts: whichever of them a name is made of, its hash is the same. Found in turn,
    /// among random texts, for the state of the hash after those before.
    const BLOCKS: [[&str; 2]; 8] = [
        ["ul2wP2qs", "SJJ1ACCm"],
        ["OULmficO", "r7qLQl7l"],
        ["TSKUCHfl", "GgxKr7Yw"],
        ["Dw5FQeSZ", "Fy1FoUO8"],
        ["EYTJsdSB", "b6apX1p4"],
        ["m693Kiad", "TvT4w4mv"],
        ["zIeAFt/B", "OvyGyOJQ"],
        ["9BrAgUSd", "QWNET/wb"],
    ];

    #[test]
    fn names_that_were_made_to_collide_have_numbers_of_their_own() {
        let mut names = vec![String::new()];
        for blocks in BLOCKS {
            names = names
                .iter()
                .flat_map(|name| blocks.map(|block| format!("{name}{block}")))
                .collect();
        }
        assert!(names.iter().all(|name| hash(name, 0) == hash(&names[0], 0)));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let numbers = InstanceNumbers::default().choose_all(&names);
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 256);
    }

    proptest! {
        #[test]
        fn numbers_of_a_set_of_names_do_not_depend_on_its_order(
            names in proptest::collection::btree_set("[a-z0-9/=,-]{1,12}", 1..50),
            with_collision in any::<bool>(),
            explicit in proptest::collection::hash_set(0..i32::MAX, 0..5),
            seed in any::<u64>(),
        ) {
            let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
            if with_collision {
                names.extend(COLLIDING);
            }
            let numbered = |names: &[&str]| {
                let mut numbers = InstanceNumbers::default();
                for number in &explicit {
                    numbers.take(*number);
                }
                let chosen = numbers.choose_all(names);
                names.iter().map(|name| (*name).to_owned()).zip(chosen).collect::<BTreeSet<_>>()
            };
            let expected = numbered(&names);
            prop_assert_eq!(expected.len(), names.len());
            names.sort_by_key(|name| hash(name, seed as u8) ^ (seed >> 33) as i32);
            prop_assert_eq!(numbered(&names), expected);
        }
    }
}
