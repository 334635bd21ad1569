//! Ownership of subtrees of names, clusters and instance domains.
//!
//! A key belongs to the user whose file claimed it first, even while no file of that user has it,
//! until the user has been absent for [`Ownership::keep`]. Root gets what it claims.
//!
//! Absence is measured by the monotonic clock while an agent runs: neither a machine that is off
//! nor a change of the clock makes a user lose a name.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::mem;
use std::time::Duration;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use crate::limits::{Quota, ROOT};

/// Limit on keys that users hold while no file has them; those absent for the longest are
/// released first. Without it, files with ever new names would fill memory and state file.
const ABSENT_QUOTA: Quota = Quota { each: 1_000, all: 20_000 };

/// Default time for which users keep keys that none of their files has.
pub(crate) const KEEP: Duration = Duration::from_secs(14 * 86_400);

/// An owner in the state file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyOwner {
    pub owner: u32,
    /// Seconds for which no file has had the key while an agent ran.
    pub absent: u64,
}

/// Owners in the state file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owners {
    /// Owners of name subtrees.
    pub names: BTreeMap<String, KeyOwner>,
    #[serde(default)]
    pub clusters: BTreeMap<u32, KeyOwner>,
    /// Owners of instance domains by serial.
    #[serde(default)]
    pub indoms: BTreeMap<u32, KeyOwner>,
}

#[derive(Debug, Clone, Copy)]
struct KeyHolding {
    owner: u32,
    /// Duration of the absence at `since`; `None` while a file has it.
    absent: Option<Duration>,
    since: Duration,
    /// True if it was claimed since the last sweep began.
    claimed: bool,
}

impl KeyHolding {
    fn absent_for(&self, now: Duration) -> Option<Duration> {
        self.absent.map(|before| before + now.saturating_sub(self.since))
    }
}

/// The owners of keys of one kind.
#[derive(Debug)]
pub(crate) struct Ownership<K> {
    by_key: HashMap<K, KeyHolding>,
    /// Number of keys by user.
    counts: HashMap<u32, usize>,
    now: Duration,
    /// Time for which absent owners keep their keys; `None` for ever.
    pub keep: Option<Duration>,
}

impl<K> Default for Ownership<K> {
    fn default() -> Self {
        let by_key = HashMap::new();
        let counts = HashMap::new();
        Self { by_key, counts, now: Duration::ZERO, keep: Some(KEEP) }
    }
}

impl<K: Ord + Hash + Clone> Ownership<K> {
    /// Restores the ownership of an earlier run: all owners are absent until they claim again.
    pub(crate) fn from_earlier(owned: BTreeMap<K, KeyOwner>) -> Self {
        let mut holdings = Self::default();
        for (key, KeyOwner { owner, absent }) in owned {
            let absent = Some(Duration::from_secs(absent));
            let holding = KeyHolding { owner, absent, since: Duration::ZERO, claimed: false };
            holdings.by_key.insert(key, holding);
        }
        holdings.recount();
        holdings
    }

    fn recount(&mut self) {
        self.counts.clear();
        for holding in self.by_key.values() {
            *self.counts.entry(holding.owner).or_default() += 1;
        }
    }

    pub(crate) fn remember(&self) -> BTreeMap<K, KeyOwner> {
        let mut owned = BTreeMap::new();
        for (key, holding) in &self.by_key {
            let absent = holding.absent_for(self.now).map_or(0, |absent| absent.as_secs());
            owned.insert(key.clone(), KeyOwner { owner: holding.owner, absent });
        }
        owned
    }

    /// Sets the time, counted from the start of the agent.
    pub(crate) fn set_now(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// Returns the owner of a key, unless it was released.
    pub(crate) fn owner<Q: ?Sized + Hash + Eq>(&self, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
    {
        let holding = self.by_key.get(key)?;
        (!self.is_expired(holding)).then_some(holding.owner)
    }

    pub(crate) fn is_of_another<Q: ?Sized + Hash + Eq>(&self, key: &Q, owner: u32) -> bool
    where
        K: Borrow<Q>,
    {
        self.owner(key).is_some_and(|known| known != owner)
    }

    /// Claims a key for a file of `owner`. Root gets what it claims.
    ///
    /// # Errors
    ///
    /// The present owner.
    pub(crate) fn claim<Q>(&mut self, key: &Q, owner: u32) -> Result<(), u32>
    where
        Q: ?Sized + Hash + Eq + ToOwned<Owned = K>,
        K: Borrow<Q>,
    {
        let present = KeyHolding { owner, absent: None, since: self.now, claimed: true };
        let keep = self.keep;
        let now = self.now;
        match self.by_key.get_mut(key) {
            None => {
                *self.counts.entry(owner).or_default() += 1;
                self.by_key.insert(key.to_owned(), present);
            }
            Some(known) if known.owner == owner => *known = present,
            Some(known) if owner == ROOT || is_absence_over(known, keep, now) => {
                let before = mem::replace(known, present).owner;
                *self.counts.entry(owner).or_default() += 1;
                self.decrement(before);
            }
            Some(known) => return Err(known.owner),
        }
        Ok(())
    }

    /// Makes a user the owner of a key, even if another user owns it.
    pub(crate) fn transfer(&mut self, key: K, owner: u32) {
        let absent = None;
        let present = KeyHolding { owner, absent, since: self.now, claimed: true };
        *self.counts.entry(owner).or_default() += 1;
        if let Some(before) = self.by_key.insert(key, present) {
            self.decrement(before.owner);
        }
    }

    fn decrement(&mut self, owner: u32) {
        if let Some(count) = self.counts.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&owner);
            }
        }
    }

    pub(crate) fn forget(&mut self, key: &K) {
        if let Some(before) = self.by_key.remove(key) {
            self.decrement(before.owner);
        }
    }

    /// Returns true if the owner of a key has been absent for too long.
    pub(crate) fn has_expired(&self, key: &K) -> bool {
        self.by_key.get(key).is_some_and(|holding| self.is_expired(holding))
    }

    /// Returns all keys with their owners, except released ones.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, u32)> {
        let kept = self.by_key.iter().filter(|(_, holding)| !self.is_expired(holding));
        kept.map(|(key, holding)| (key, holding.owner))
    }

    pub(crate) fn keys(&self, owner: u32) -> impl Iterator<Item = &K> {
        self.iter().filter(move |(_, known)| *known == owner).map(|(key, _)| key)
    }

    /// Notes that no file of the owner has the key any more.
    pub(crate) fn leave(&mut self, key: &K) {
        let now = self.now;
        if let Some(holding) = self.by_key.get_mut(key)
            && holding.absent.is_none()
        {
            holding.absent = Some(Duration::ZERO);
            holding.since = now;
        }
    }

    /// Begins a sweep: keys that are not claimed before its [end](Self::end_sweep) are absent.
    pub(crate) fn begin_sweep(&mut self) {
        self.by_key.values_mut().for_each(|holding| holding.claimed = false);
    }

    pub(crate) fn end_sweep(&mut self) {
        let now = self.now;
        for holding in self.by_key.values_mut().filter(|holding| !holding.claimed) {
            if holding.absent.is_none() {
                holding.absent = Some(Duration::ZERO);
                holding.since = now;
            }
        }
        self.drop_expired();
    }

    /// Removes keys of owners who were absent for too long, and excess keys of absent owners.
    pub(crate) fn drop_expired(&mut self) {
        let keep = self.keep;
        let now = self.now;
        self.by_key.retain(|_, holding| !is_absence_over(holding, keep, now));
        let mut absent: HashMap<u32, u64> = HashMap::new();
        for holding in self.by_key.values().filter(|holding| holding.absent.is_some()) {
            *absent.entry(holding.owner).or_default() += 1;
        }
        let level = ABSENT_QUOTA.fair_level(&absent.values().copied());
        for (owner, _) in absent.into_iter().filter(|(_, count)| *count > level) {
            let all = self.by_key.iter().filter(|(_, holding)| holding.owner == owner);
            let absent = all.filter_map(|(key, one)| Some((one.absent_for(now)?, key.clone())));
            let mut absent: Vec<(Duration, K)> = absent.collect();
            absent.sort_unstable();
            for (_, key) in absent.drain(level as usize..) {
                self.by_key.remove(&key);
            }
        }
        self.recount();
    }

    /// Returns the number of keys of a user, present or absent.
    pub(crate) fn count(&self, owner: u32) -> usize {
        self.counts.get(&owner).copied().unwrap_or_default()
    }

    fn is_expired(&self, holding: &KeyHolding) -> bool {
        is_absence_over(holding, self.keep, self.now)
    }
}

fn is_absence_over(holding: &KeyHolding, keep: Option<Duration>, now: Duration) -> bool {
    holding.absent_for(now).zip(keep).is_some_and(|(absent, keep)| absent >= keep)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn holdings() -> Ownership<String> {
        Ownership::default()
    }

    #[test]
    fn first_claim_holds_while_its_owner_is_absent() {
        let mut names = holdings();
        assert_eq!(names.claim("a", 1), Ok(()));
        assert_eq!(names.claim("a", 2), Err(1));
        names.leave(&"a".to_owned());
        names.set_now(DAY * 13);
        assert_eq!(names.claim("a", 2), Err(1));
        assert!(names.is_of_another("a", 2) && !names.is_of_another("a", 1));
        names.set_now(DAY * 14);
        assert_eq!(names.owner("a"), None);
        assert_eq!(names.claim("a", 2), Ok(()));
        assert_eq!(names.claim("a", 1), Err(2));
    }

    #[test]
    fn an_owner_that_returns_begins_anew() {
        let mut names = holdings();
        for day in [0, 13, 26] {
            names.set_now(DAY * day);
            assert_eq!(names.claim("a", 1), Ok(()), "{day}");
            names.leave(&"a".to_owned());
        }
        names.set_now(DAY * 39);
        assert_eq!(names.owner("a"), Some(1));
    }

    #[test]
    fn absence_counts_over_runs_and_only_while_an_agent_runs() {
        let mut names = holdings();
        names.claim("a", 1).unwrap();
        names.leave(&"a".to_owned());
        names.set_now(DAY * 10);
        let owned = names.remember();
        assert_eq!(owned["a"], KeyOwner { owner: 1, absent: 864_000 });
        let mut names = Ownership::from_earlier(owned);
        names.set_now(DAY * 3);
        assert_eq!(names.claim("a", 2), Err(1));
        names.set_now(DAY * 4);
        assert_eq!(names.claim("a", 2), Ok(()));
    }

    #[test]
    fn root_takes_what_it_claims() {
        let mut names = holdings();
        names.claim("a", 1).unwrap();
        assert_eq!(names.claim("a", ROOT), Ok(()));
        assert_eq!(names.claim("a", 1), Err(ROOT));
    }

    #[test]
    fn what_a_sweep_does_not_find_is_absent() {
        let mut names = holdings();
        names.claim("a", 1).unwrap();
        names.claim("b", 1).unwrap();
        names.begin_sweep();
        names.claim("b", 1).unwrap();
        names.end_sweep();
        names.set_now(DAY);
        let remembered = names.remember();
        assert_eq!((remembered["a"].absent, remembered["b"].absent), (86_400, 0));
    }

    #[test]
    fn many_users_who_are_gone_keep_equal_parts_of_a_limit() {
        let mut names = holdings();
        names.claim("victim", 1).unwrap();
        for user in 2..102 {
            (0..500).for_each(|n| names.claim(format!("u{user}.{n}").as_str(), user).unwrap());
        }
        names.begin_sweep();
        names.end_sweep();
        assert_eq!(names.owner("victim"), Some(1));
        assert_eq!((names.count(2), names.count(101)), (199, 199));
        assert_eq!(names.remember().len(), 100 * 199 + 1);
    }

    #[test]
    fn ever_new_names_cost_no_other_user_a_name() {
        let mut names = holdings();
        names.claim("victim", 1).unwrap();
        for second in 0..3_000 {
            names.set_now(Duration::from_secs(second));
            names.begin_sweep();
            names.claim(format!("n{second}").as_str(), 2).unwrap();
            names.end_sweep();
        }
        assert_eq!(names.owner("victim"), Some(1));
        assert_eq!((names.owner("n0"), names.owner("n2998")), (None, Some(2)));
        assert_eq!(names.count(2) as u64, ABSENT_QUOTA.each + 1);
    }
}
