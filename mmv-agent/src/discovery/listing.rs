//! The contents of a directory, as far as they fit into memory.
//!
//! In come the entries that the directory has, of any number; out go those that are looked
//! at. Of a user with too many the first in byte order are: which they are does not depend
//! on the order in which the system lists them, or files would come and go.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;

use super::file_table::Listed;
use crate::limits::fair_level;

/// How many entries that are no regular files are listed: each is mentioned once.
pub(super) const MAX_OTHERS: usize = 1_000;

/// How many files are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Of one user.
    pub of_user: usize,
    /// Of all.
    pub all: usize,
    /// The user whose files are not counted, besides root: the agent's.
    pub agent: u32,
}

impl Room {
    /// Room for files that wait, given the most files that are harvested.
    pub(crate) const fn for_limit(harvested: usize, agent: u32) -> Self {
        Self { of_user: harvested.saturating_mul(2), all: harvested.saturating_mul(3), agent }
    }

    const fn is_free(&self, user: u32) -> bool {
        user == 0 || user == self.agent
    }

    /// Returns true if there is room for another file of a user, given the numbers of files by
    /// user. Where there is none for all, a user may have as many as any other.
    pub(super) fn has_place(&self, user: u32, counts: &HashMap<u32, usize>) -> bool {
        let (mut users, mut all) = (0, 0);
        for (_, count) in counts.iter().filter(|(user, _)| !self.is_free(**user)) {
            users += 1;
            all += count;
        }
        let count = counts.get(&user).copied().unwrap_or(0);
        let is_within = count < self.of_user && (all < self.all || count < self.all / users.max(1));
        self.is_free(user) || is_within
    }
}

/// The contents of a directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    /// The regular files, in byte order of their names.
    pub(crate) files: Vec<Listed>,
    /// Other entries, and what each is instead of a regular file.
    pub(crate) others: Vec<(OsString, &'static str)>,
    /// How many files there are beyond those.
    pub(crate) left_out: usize,
}

/// A listing that is being made.
#[derive(Debug)]
pub(super) struct Collector {
    room: Room,
    users: HashMap<u32, BTreeMap<OsString, Listed>>,
    count: usize,
    listing: Listing,
}

impl Collector {
    /// Collects as many files as there is room for.
    pub(super) fn new(room: Room) -> Self {
        Self { room, users: HashMap::new(), count: 0, listing: Listing::default() }
    }

    /// Adds a regular file.
    pub(super) fn add(&mut self, file: Listed) {
        let user = file.owner;
        let files = self.users.entry(user).or_default();
        files.insert(file.name.clone(), file);
        if self.room.is_free(user) {
            return;
        }
        if files.len() > self.room.of_user {
            files.pop_last();
            self.listing.left_out += 1;
        } else {
            self.count += 1;
        }
        // Now and then, or it would cost a look at all users for each file.
        if self.count > self.room.all.saturating_mul(2) {
            self.cut();
        }
    }

    /// Adds something else.
    pub(super) fn add_other(&mut self, name: OsString, kind: &'static str) {
        if self.listing.others.len() < MAX_OTHERS {
            self.listing.others.push((name, kind));
        }
    }

    /// The files that there is room for.
    pub(super) fn finish(mut self) -> Listing {
        self.cut();
        let files = self.users.into_values().flat_map(BTreeMap::into_values);
        self.listing.files = files.collect();
        self.listing.files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        self.listing
    }

    fn cut(&mut self) {
        let Self { room, users, count, listing } = self;
        let counted = users.iter().filter(|(user, _)| !room.is_free(**user));
        let level = fair_level(&counted.map(|(_, files)| files.len()), room.all);
        // More files make it lower still: nobody gets what was left out of the others.
        room.of_user = room.of_user.min(level);
        for (_, files) in users.iter_mut().filter(|(user, _)| !room.is_free(**user)) {
            while files.len() > level {
                files.pop_last();
                *count -= 1;
                listing.left_out += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::FileId;

    const ROOM: Room = Room { of_user: 20, all: 30, agent: 9 };

    fn listed(files: impl IntoIterator<Item = (u32, usize)>) -> Listing {
        let mut collector = Collector::new(ROOM);
        for (owner, number) in files {
            let name = format!("u{owner}.{number:03}").into();
            let id = FileId { device: 1, inode: number as u64, born: None };
            collector.add(Listed { name, id, owner, bytes: 0 });
        }
        collector.finish()
    }

    fn count(listing: &Listing, owner: u32) -> usize {
        listing.files.iter().filter(|file| file.owner == owner).count()
    }

    #[test]
    fn of_a_user_with_too_many_files_the_first_by_name_are_listed_in_whatever_order_they_come() {
        let there = |numbers: Vec<usize>| numbers.into_iter().map(|number| (5, number));
        let forwards = listed(there((0..500).collect()));
        let backwards = listed(there((0..500).rev().collect()));
        assert_eq!(forwards, backwards);
        assert_eq!((forwards.files.len(), forwards.left_out), (20, 480));
        assert_eq!(forwards.files.last().unwrap().name, "u5.019");
    }

    #[test]
    fn many_users_with_many_files_cost_one_with_few_none_and_root_and_the_agent_none() {
        let crowd = (100..200).flat_map(|owner| (0..50).map(move |number| (owner, number)));
        let few = (0..2).map(|number| (5, number));
        let own = [0, 9].into_iter().flat_map(|owner| (0..40).map(move |number| (owner, number)));
        let listing = listed(crowd.clone().take(500).chain(few.clone()).chain(own.clone()));
        assert_eq!([5, 0, 9, 100].map(|owner| count(&listing, owner)), [2, 40, 40, 2]);
        // More users than there is room for files: theirs are in no order of merit.
        let listing = listed(crowd.chain(own));
        assert_eq!([0, 9].map(|owner| count(&listing, owner)), [40, 40]);
        assert!(listing.files.len() <= 80 + ROOM.all, "{}", listing.files.len());
    }

    #[test]
    fn one_more_file_has_a_place_as_in_a_listing() {
        let counts = HashMap::from([(5, 20), (6, 10), (7, 9)]);
        let has_place = |user| ROOM.has_place(user, &counts);
        assert!(!has_place(5), "it has all that one may have");
        assert!(!has_place(6), "all is used, and it has as many as others");
        assert!([7, 8, 0, 9].into_iter().all(has_place));
        assert!(ROOM.has_place(6, &HashMap::from([(5, 19), (6, 10)])));
    }

    #[test]
    fn entries_that_are_no_files_are_listed_up_to_a_number() {
        let mut collector = Collector::new(ROOM);
        (0..5_000).for_each(|number| collector.add_other(number.to_string().into(), "a directory"));
        assert_eq!(collector.finish().others.len(), MAX_OTHERS);
    }
}
