//! Decides which user may have which metric names.
//!
//! Input: the names of all files with their owners. Output: for each name whether it may be
//! logged. The first two parts of a name, `mmv.shop` of `mmv.shop.orders`, and everything below
//! them belong to one user:
//!
//! | order | owner |
//! |---|---|
//! | 1 | the agent owns `mmv.agent`; no file gets a name in it |
//! | 2 | root |
//! | 3 | in a pinned subtree, the users that the configuration names |
//! | 4 | the first user to claim it, as [`Ownership`] records it |
//! | 5 | among files found together, the file named like the subtree; then the first in byte order
//! |

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use hashbrown::HashMap;

use super::ownership::{KeyOwner, Ownership};
use crate::config::Pins;
use crate::limits::ROOT;

/// Subtree of the agent's own metrics and events.
pub(crate) const OWN_NAMES: &str = "mmv.agent";

/// Limit on the subtrees of one user.
const MAX_SUBTREES: usize = 10_000;

/// The reason why a file may not have a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OwnerError {
    #[error("the name \"{name}\" is in {OWN_NAMES}, which is reserved for the agent")]
    Agent { name: String },
    #[error(
        "the name \"{name}\" is reserved for users other than {owner} (names in the configuration)"
    )]
    Pinned {
        name: String,
        /// Owner of the file.
        owner: u32,
    },
    #[error("the name \"{name}\" belongs to user {holder}{}, and this file to user {owner}", who_has(.file.as_deref()))]
    Held {
        name: String,
        /// Owner of the subtree.
        holder: u32,
        /// A file of that owner with names in the subtree, if there is one.
        file: Option<String>,
        /// Owner of this file.
        owner: u32,
    },
    #[error(
        "the name \"{name}\" would exceed the limit of {MAX_SUBTREES} subtrees for user {owner}"
    )]
    TooMany {
        name: String,
        /// Owner of the file.
        owner: u32,
    },
}

fn who_has(file: Option<&str>) -> String {
    file.map(|file| format!(", who has {file}")).unwrap_or_default()
}

/// A file that claims names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claimant<'a> {
    pub file: &'a OsStr,
    pub owner: u32,
    /// True for the agent's own file.
    pub own: bool,
}

#[derive(Debug, Default)]
pub(crate) struct NameOwners {
    subtrees: Ownership<String>,
    pins: Pins,
    /// A file in each subtree, as of the last sweep.
    files: HashMap<String, String>,
    /// Number of subtrees in use, by user.
    counts: HashMap<u32, usize>,
    /// Primary group of each user, as far as pins need it.
    groups: HashMap<u32, Option<u32>>,
}

impl NameOwners {
    pub(crate) fn restore(owned: BTreeMap<String, KeyOwner>) -> Self {
        Self { subtrees: Ownership::from_earlier(owned), ..Self::default() }
    }

    pub(crate) fn change(&mut self, pins: Pins, keep: Option<Duration>) {
        self.pins = pins;
        self.groups.clear();
        self.subtrees.keep = keep;
    }

    /// Returns true if a part of a subtree may have another owner than the whole.
    pub(crate) fn has_pins(&self) -> bool {
        !self.pins.is_empty()
    }

    pub(crate) fn remember(&self) -> BTreeMap<String, KeyOwner> {
        self.subtrees.remember()
    }

    /// Sets the time, counted from the start of the agent.
    pub(crate) fn set_now(&mut self, now: Duration) {
        self.subtrees.set_now(now);
    }

    /// Assigns the subtrees of all present files to their owners. Subtrees of no file are absent.
    pub(crate) fn sweep<'a, N>(&mut self, files: impl Iterator<Item = (Claimant<'a>, N)>)
    where
        N: Iterator<Item = &'a str>,
    {
        self.subtrees.begin_sweep();
        self.files.clear();
        self.counts.clear();
        let mut newcomers = Vec::new();
        for (claimant, names) in files.filter(|(claimant, _)| !claimant.own) {
            if !self.pins.is_empty() && !self.groups.contains_key(&claimant.owner) {
                self.groups.insert(claimant.owner, self.pins.group_of(claimant.owner));
            }
            let mut last = "";
            for name in names {
                let subtree = subtree(name);
                if subtree == last || subtree == OWN_NAMES || self.is_pinned(name) {
                    continue;
                }
                last = subtree;
                // Existing owners precede all new claims except root's.
                if claimant.owner != ROOT && self.subtrees.owner(subtree) == Some(claimant.owner) {
                    self.claim(claimant, subtree);
                } else {
                    newcomers.push((rank(claimant, subtree), claimant, subtree));
                }
            }
        }
        // The sort is stable, so files stay in byte order.
        newcomers.sort_by_key(|(rank, ..)| *rank);
        for (_, claimant, subtree) in newcomers {
            self.claim(claimant, subtree);
        }
        self.subtrees.end_sweep();
    }

    fn claim(&mut self, Claimant { file, owner, .. }: Claimant<'_>, subtree: &str) {
        let count = self.counts.entry(owner).or_default();
        if *count >= MAX_SUBTREES || self.subtrees.claim(subtree, owner).is_err() {
            return;
        }
        // A file in the same subtree as the one before it counts again.
        *count += 1;
        if self.files.get(subtree).is_none() {
            self.files.insert(subtree.to_owned(), file.display().to_string());
        }
    }

    /// Returns true if a name is in a pinned subtree, where names need no other owner.
    fn is_pinned(&self, name: &str) -> bool {
        !self.pins.is_empty() && self.pins.covers(name)
    }

    /// Checks that a file may have a name, after a sweep with that file.
    ///
    /// # Errors
    ///
    /// The [`OwnerError`].
    pub(crate) fn check(&self, claimant: Claimant<'_>, name: &str) -> Result<(), OwnerError> {
        let Claimant { owner, own, .. } = claimant;
        let subtree = subtree(name);
        if own {
            return Ok(());
        }
        if subtree == OWN_NAMES {
            return Err(OwnerError::Agent { name: name.to_owned() });
        }
        if owner == ROOT {
            return Ok(());
        }
        if !self.pins.is_empty() {
            let group = self.groups.get(&owner).copied().flatten();
            if self.pins.forbids(name, owner, group) {
                return Err(OwnerError::Pinned { name: name.to_owned(), owner });
            }
            if self.pins.covers(name) {
                return Ok(());
            }
        }
        match self.subtrees.owner(subtree) {
            Some(holder) if holder == owner => Ok(()),
            Some(holder) => {
                let file = self.files.get(subtree).cloned();
                Err(OwnerError::Held { name: name.to_owned(), holder, file, owner })
            }
            None => Err(OwnerError::TooMany { name: name.to_owned(), owner }),
        }
    }
}

/// Returns the part of a name that has one owner: `mmv.shop` of `mmv.shop.orders.open`.
pub(crate) fn subtree(name: &str) -> &str {
    let mut dots = name.match_indices('.').map(|(at, _)| at);
    dots.nth(1).and_then(|at| name.get(..at)).unwrap_or(name)
}

/// Returns the rank of a claim among those of one sweep.
fn rank(claimant: Claimant<'_>, subtree: &str) -> u8 {
    let wanted = subtree.split_once('.').map_or("", |(_, wanted)| wanted).as_bytes();
    let file = claimant.file.as_bytes();
    match claimant.owner {
        ROOT => 0,
        _ if file == wanted => 1,
        _ if file.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(b".")) => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PinnedTo;

    /// Files: name, user and names of metrics.
    type TestFiles<'a> = [(&'a str, u32, &'a [&'a str])];

    fn claimant(file: &str, owner: u32) -> Claimant<'_> {
        Claimant { file: OsStr::new(file), owner, own: false }
    }

    fn sweep(owners: &mut NameOwners, files: &TestFiles<'_>) {
        let files = files
            .iter()
            .map(|(file, owner, names)| (claimant(file, *owner), names.iter().copied()));
        owners.sweep(files);
    }

    /// The files whose names are theirs.
    fn winners(owners: &mut NameOwners, files: &TestFiles<'_>) -> Vec<String> {
        sweep(owners, files);
        let whole = files.iter().filter(|(file, owner, names)| {
            names.iter().all(|name| owners.check(claimant(file, *owner), name).is_ok())
        });
        whole.map(|(file, ..)| (*file).to_owned()).collect()
    }

    #[test]
    fn a_subtree_is_the_first_two_parts() {
        for (name, expected) in
            [("mmv.a.b.c", "mmv.a"), ("mmv.a.b", "mmv.a"), ("mmv.a", "mmv.a"), ("mmv", "mmv")]
        {
            assert_eq!(subtree(name), expected);
        }
    }

    #[test]
    fn newcomer_gets_no_name_of_an_existing_owner() {
        let mut owners = NameOwners::default();
        let victim = ("shop", 1, &["mmv.shop.orders"][..]);
        assert_eq!(winners(&mut owners, &[victim]), ["shop"]);
        for names in
            [&["mmv.shop.orders"][..], &["mmv.shop"], &["mmv.shop.orders.late"], &["mmv.shop.new"]]
        {
            let attacker = ("aaa", 2, names);
            assert_eq!(winners(&mut owners, &[attacker, victim]), ["shop"], "{names:?}");
            assert_eq!(winners(&mut owners, &[attacker]), [""; 0], "while it restarts");
            let other = ("aaa", 1, names);
            assert_eq!(winners(&mut owners, &[other, victim]), ["aaa", "shop"], "its own user");
        }
        let error = owners.check(claimant("aaa", 2), "mmv.shop.x").unwrap_err();
        let expected =
            "the name \"mmv.shop.x\" belongs to user 1, who has aaa, and this file to user 2";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn file_called_like_the_names_gets_them() {
        for (files, expected) in [
            ([("aaa", 2, &["mmv.shop.x"][..]), ("shop", 1, &["mmv.shop.x"])], "shop"),
            ([("aaa", 2, &["mmv.shop"]), ("shop.7", 1, &["mmv.shop.7.x"])], "shop.7"),
            ([("shop", 1, &["mmv.shop.x"]), ("shop.evil", 2, &["mmv.shop.evil.x"])], "shop"),
            ([("aaa", 2, &["mmv.shop.x"]), ("bbb", 1, &["mmv.shop.y"])], "aaa"),
            ([("shop", 1, &["mmv.shop.x"]), ("zzz", ROOT, &["mmv.shop.x"])], "zzz"),
        ] {
            assert_eq!(winners(&mut NameOwners::default(), &files), [expected], "{files:?}");
        }
    }

    #[test]
    fn root_goes_before_who_was_there() {
        let mut owners = NameOwners::default();
        let user = ("shop", 1, &["mmv.shop.x"][..]);
        sweep(&mut owners, &[user]);
        assert_eq!(winners(&mut owners, &[("a", ROOT, &["mmv.shop.y"]), user]), ["a"]);
        assert_eq!(winners(&mut owners, &[user]), [""; 0], "root is absent");
    }

    #[test]
    fn no_file_gets_a_name_of_the_agent() {
        let mut owners = NameOwners::default();
        for name in ["mmv.agent.records.lost", "mmv.agent"] {
            for owner in [ROOT, 1] {
                sweep(&mut owners, &[("agent", owner, &[name])]);
                let error = owners.check(claimant("agent", owner), name).unwrap_err();
                assert_eq!(error, OwnerError::Agent { name: name.to_owned() });
            }
            let own = Claimant { own: true, ..claimant("agent_2", 5) };
            assert_eq!(owners.check(own, name), Ok(()));
        }
    }

    #[test]
    fn pins_override_existing_owners() {
        let mut owners = NameOwners::default();
        let was_there = ("shop", 2, &["mmv.shop.x"][..]);
        let deep = ("deep", 3, &["mmv.deep.a.x"][..]);
        assert_eq!(winners(&mut owners, &[was_there, deep]), ["shop", "deep"]);
        let pins = [("mmv.shop", 1), ("mmv.deep.a", 4)];
        let pins = pins.map(|(name, user)| (name.to_owned(), PinnedTo::users([user])));
        owners.change(Pins::from(BTreeMap::from(pins)), None);
        let pinned = ("zzz", 1, &["mmv.shop.x"][..]);
        let below = ("below", 4, &["mmv.deep.a.x"][..]);
        let above = ("above", 3, &["mmv.deep.a"][..]);
        let root = ("root", ROOT, &["mmv.shop.y"][..]);
        let leaf = ("leaf", 3, &["mmv.deep"][..]);
        let files = [was_there, deep, above, leaf, below, pinned, root];
        assert_eq!(winners(&mut owners, &files), ["below", "zzz", "root"]);
        let rest = ("rest", 3, &["mmv.deep.b"][..]);
        assert_eq!(winners(&mut owners, &[rest]), ["rest"], "the rest stays with its owner");
    }

    #[test]
    fn a_user_has_a_limited_number_of_subtrees() {
        let mut owners = NameOwners::default();
        let names: Vec<String> =
            (0..=MAX_SUBTREES).map(|number| format!("mmv.n{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        sweep(&mut owners, &[("many", 1, &names), ("other", 2, &["mmv.other.x"])]);
        assert_eq!(owners.check(claimant("many", 1), names[MAX_SUBTREES - 1]), Ok(()));
        let error = owners.check(claimant("many", 1), names[MAX_SUBTREES]).unwrap_err();
        assert!(matches!(error, OwnerError::TooMany { .. }), "{error}");
        assert_eq!(owners.check(claimant("other", 2), "mmv.other.x"), Ok(()));
    }
}
