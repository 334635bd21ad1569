//! A listing of a directory, limited to what fits into memory.
//!
//! Input: entries of the directory, in any number. Output: the files to keep track of. Of a user
//! with too many, the first in byte order are kept. The choice must not depend on the order in
//! which the system lists them, or files would come and go.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;

use super::file_table::ListedFile;
use crate::limits::Quota;

/// Limit on listed entries that are not regular files; each of them is logged once.
pub(super) const MAX_OTHERS: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirectoryLimits {
    pub quota: Quota,
    /// User whose files are not counted, as root's are not: the agent's.
    pub agent: u32,
}

impl DirectoryLimits {
    /// Returns limits that leave room for waiting files beside `harvested` ones.
    pub(crate) const fn new(harvested: u64, agent: u32) -> Self {
        let each = harvested.saturating_mul(2);
        let all = harvested.saturating_mul(3);
        Self { quota: Quota { each, all }, agent }
    }

    const fn is_free(&self, user: u32) -> bool {
        user == 0 || user == self.agent
    }

    /// Returns true if another file of a user is within the limits, given the number of files
    /// of each user. When all is used up, a user may still have an equal part.
    pub(super) fn allow(&self, user: u32, counts: &HashMap<u32, u64>) -> bool {
        if self.is_free(user) {
            return true;
        }
        let mut users = 0;
        let mut total = 0;
        for (_, count) in counts.iter().filter(|(user, _)| !self.is_free(**user)) {
            users += 1;
            total += count;
        }
        let own = counts.get(&user).copied().unwrap_or(0);
        let equal_part = self.quota.all / users.max(1);
        let has_headroom = self.quota.headroom(own, total).left > 0;
        has_headroom || own < self.quota.each.min(equal_part)
    }
}

/// The files and other entries of a directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    /// The regular files, in byte order of their names.
    pub(crate) files: Vec<ListedFile>,
    /// Other entries, with a description of each.
    pub(crate) others: Vec<(OsString, &'static str)>,
    /// Number of further files.
    pub(crate) left_out: usize,
}

#[derive(Debug)]
pub(super) struct Collector {
    limits: DirectoryLimits,
    users: HashMap<u32, BTreeMap<OsString, ListedFile>>,
    count: u64,
    listing: Listing,
}

impl Collector {
    pub(super) fn new(limits: DirectoryLimits) -> Self {
        Self { limits, users: HashMap::new(), count: 0, listing: Listing::default() }
    }

    pub(super) fn add(&mut self, file: ListedFile) {
        let user = file.owner;
        let files = self.users.entry(user).or_default();
        files.insert(file.name.clone(), file);
        if self.limits.is_free(user) {
            return;
        }
        if files.len() as u64 > self.limits.quota.each {
            files.pop_last();
            self.listing.left_out += 1;
        } else {
            self.count += 1;
        }
        // Now and then, or it would cost a look at all users for each file.
        if self.count > self.limits.quota.all.saturating_mul(2) {
            self.cut();
        }
    }

    /// Adds an entry that is not a regular file.
    pub(super) fn add_other(&mut self, name: OsString, kind: &'static str) {
        if self.listing.others.len() < MAX_OTHERS {
            self.listing.others.push((name, kind));
        }
    }

    /// Returns the files within the limits.
    pub(super) fn finish(mut self) -> Listing {
        self.cut();
        let files = self.users.into_values().flat_map(BTreeMap::into_values);
        self.listing.files = files.collect();
        self.listing.files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        self.listing
    }

    fn cut(&mut self) {
        let Self { limits, users, count, listing } = self;
        let counted = users.iter().filter(|(user, _)| !limits.is_free(**user));
        let level = limits.quota.fair_level(&counted.map(|(_, files)| files.len() as u64));
        // Further files only lower the level, so nobody gets what others had to leave out.
        limits.quota.each = level;
        for (_, files) in users.iter_mut().filter(|(user, _)| !limits.is_free(**user)) {
            while files.len() as u64 > level {
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

    const LIMITS: DirectoryLimits =
        DirectoryLimits { quota: Quota { each: 20, all: 30 }, agent: 9 };

    fn listed(files: impl IntoIterator<Item = (u32, usize)>) -> Listing {
        let mut collector = Collector::new(LIMITS);
        for (owner, number) in files {
            let name = format!("u{owner}.{number:03}").into();
            let id = FileId { device: 1, inode: number as u64, born: None };
            collector.add(ListedFile { name, id, owner, bytes: 0 });
        }
        collector.finish()
    }

    fn count(listing: &Listing, owner: u32) -> usize {
        listing.files.iter().filter(|file| file.owner == owner).count()
    }

    #[test]
    fn first_files_by_name_are_listed_in_any_order() {
        let there = |numbers: Vec<usize>| numbers.into_iter().map(|number| (5, number));
        let forwards = listed(there((0..500).collect()));
        let backwards = listed(there((0..500).rev().collect()));
        assert_eq!(forwards, backwards);
        assert_eq!((forwards.files.len(), forwards.left_out), (20, 480));
        assert_eq!(forwards.files.last().unwrap().name, "u5.019");
    }

    #[test]
    fn user_with_few_files_root_and_agent_lose_no_file() {
        let crowd = (100..200).flat_map(|owner| (0..50).map(move |number| (owner, number)));
        let few = (0..2).map(|number| (5, number));
        let own = [0, 9].into_iter().flat_map(|owner| (0..40).map(move |number| (owner, number)));
        let listing = listed(crowd.clone().take(500).chain(few.clone()).chain(own.clone()));
        assert_eq!([5, 0, 9, 100].map(|owner| count(&listing, owner)), [2, 40, 40, 2]);
        // More users than there is room for files: theirs are in no order of merit.
        let listing = listed(crowd.chain(own));
        assert_eq!([0, 9].map(|owner| count(&listing, owner)), [40, 40]);
        assert!(listing.files.len() as u64 <= 80 + LIMITS.quota.all, "{}", listing.files.len());
    }

    #[test]
    fn one_more_file_has_a_place_as_in_a_listing() {
        let counts = HashMap::from([(5, 20), (6, 10), (7, 9)]);
        let is_allowed = |user| LIMITS.allow(user, &counts);
        assert!(!is_allowed(5), "it has all that one may have");
        assert!(!is_allowed(6), "all is used, and it has as many as others");
        assert!([7, 8, 0, 9].into_iter().all(is_allowed));
        assert!(LIMITS.allow(6, &HashMap::from([(5, 19), (6, 10)])));
    }

    #[test]
    fn entries_that_are_no_files_are_listed_up_to_a_number() {
        let mut collector = Collector::new(LIMITS);
        (0..5_000).for_each(|number| collector.add_other(number.to_string().into(), "a directory"));
        assert_eq!(collector.finish().others.len(), MAX_OTHERS);
    }
}
