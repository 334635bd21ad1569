//! Which user may have which names.
//!
//! In come the names of all files with their owners; out goes for each whether it may be
//! logged. The first two parts of a name, `mmv.shop` of `mmv.shop.orders`, and all below
//! them belong to one user:
//!
//! | order | who |
//! |---|---|
//! | 1 | the agent has `mmv.agent`; no file gets a name in it |
//! | 2 | root |
//! | 3 | in a pinned subtree, the users that the configuration names |
//! | 4 | who had it first, as [`Ownership`] keeps it |
//! | 5 | of files that are found together, the one that is called like the subtree; then the first in byte order |

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use hashbrown::HashMap;

use super::holdings::{Owned, Ownership};
use crate::config::Pins;
use crate::limits::ROOT;

/// The subtree of the agent's own metrics and events.
pub(crate) const OWN_NAMES: &str = "mmv.agent";

/// How many subtrees one user may have at once.
const MOST: usize = 10_000;

/// Why a name is not a file's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OwnerError {
    /// It is in the agent's subtree.
    #[error("the name \"{name}\" is in {OWN_NAMES}, which is the agent's own")]
    Agent {
        /// The complete name.
        name: String,
    },
    /// The configuration pins its subtree to other users.
    #[error("the name \"{name}\" is pinned to other users than {owner}")]
    Pinned {
        /// The complete name.
        name: String,
        /// The file's user.
        owner: u32,
    },
    /// Another user has the subtree.
    #[error("the name \"{name}\" belongs to user {holder}{}, this file to user {owner}", of_file(.file.as_deref()))]
    Held {
        /// The complete name.
        name: String,
        /// The user who has it.
        holder: u32,
        /// A file of that user with names in the subtree, if there is one.
        file: Option<String>,
        /// The file's user.
        owner: u32,
    },
    /// The user has too many subtrees.
    #[error("the name \"{name}\": files of user {owner} have {MOST} subtrees already")]
    TooMany {
        /// The complete name.
        name: String,
        /// The file's user.
        owner: u32,
    },
}

fn of_file(file: Option<&str>) -> String {
    file.map(|file| format!(", who has {file}")).unwrap_or_default()
}

/// The names of one file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claimant<'a> {
    /// The file's name.
    pub file: &'a OsStr,
    /// The user who owns the file.
    pub owner: u32,
    /// It is the agent's own file.
    pub own: bool,
}

/// The owners of names.
#[derive(Debug, Default)]
pub(crate) struct NameOwners {
    subtrees: Ownership<String>,
    pins: Pins,
    /// A file of each owner, by subtree, as of the last sweep.
    files: HashMap<String, String>,
    /// How many subtrees of each user files have.
    counts: HashMap<u32, usize>,
    /// The primary group of each user, as far as pins need them.
    groups: HashMap<u32, Option<u32>>,
}

impl NameOwners {
    /// Continues with the owners of an earlier run.
    pub(crate) fn of(owned: BTreeMap<String, Owned>) -> Self {
        Self { subtrees: Ownership::from_earlier(owned), ..Self::default() }
    }

    /// Takes other settings.
    pub(crate) fn change(&mut self, pins: Pins, keep: Option<Duration>) {
        self.pins = pins;
        self.groups.clear();
        self.subtrees.keep = keep;
    }

    /// Whether a part of a subtree may have other owners than the whole.
    pub(crate) fn has_pins(&self) -> bool {
        !self.pins.is_empty()
    }

    /// What the next run has to know.
    pub(crate) fn remember(&self) -> BTreeMap<String, Owned> {
        self.subtrees.remember()
    }

    /// Sets the time, counted from the start of the agent.
    pub(crate) fn set_now(&mut self, now: Duration) {
        self.subtrees.set_now(now);
    }

    /// Gives the subtrees of all files that there are to their users; what no file has is
    /// absent.
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
                // Who has it already goes before all newcomers but root.
                if claimant.owner != ROOT && self.subtrees.owner(subtree) == Some(claimant.owner) {
                    self.claim(claimant, subtree);
                } else {
                    newcomers.push((rank(claimant, subtree), claimant, subtree));
                }
            }
        }
        // Stable: files stay in byte order.
        newcomers.sort_by_key(|(rank, ..)| *rank);
        for (_, claimant, subtree) in newcomers {
            self.claim(claimant, subtree);
        }
        self.subtrees.end_sweep();
    }

    fn claim(&mut self, Claimant { file, owner, .. }: Claimant<'_>, subtree: &str) {
        let count = self.counts.entry(owner).or_default();
        if *count >= MOST || self.subtrees.claim(subtree, owner).is_err() {
            return;
        }
        // Files with the same subtree one after the other count as many.
        *count += 1;
        if self.files.get(subtree).is_none() {
            self.files.insert(subtree.to_owned(), file.display().to_string());
        }
    }

    /// Whether a name is in a pinned subtree, whose names need no other owner.
    fn is_pinned(&self, name: &str) -> bool {
        !self.pins.is_empty() && self.pins.covers(name)
    }

    /// Whether a file may have a name, after a sweep with it.
    ///
    /// # Errors
    ///
    /// The [`OwnerError`].
    pub(crate) fn check(&self, claimant: Claimant<'_>, name: &str) -> Result<(), OwnerError> {
        let Claimant { owner, own, .. } = claimant;
        let subtree = subtree(name);
        let named = || name.to_owned();
        if own {
            return Ok(());
        }
        if subtree == OWN_NAMES {
            return Err(OwnerError::Agent { name: named() });
        }
        if owner == ROOT {
            return Ok(());
        }
        if !self.pins.is_empty() {
            let group = self.groups.get(&owner).copied().flatten();
            if self.pins.forbids(name, owner, group) {
                return Err(OwnerError::Pinned { name: named(), owner });
            }
            if self.pins.covers(name) {
                return Ok(());
            }
        }
        match self.subtrees.owner(subtree) {
            Some(holder) if holder == owner => Ok(()),
            Some(holder) => {
                let file = self.files.get(subtree).cloned();
                Err(OwnerError::Held { name: named(), holder, file, owner })
            }
            None => Err(OwnerError::TooMany { name: named(), owner }),
        }
    }
}

/// The part of a name that has one owner: `mmv.shop` of `mmv.shop.orders.open`.
pub(crate) fn subtree(name: &str) -> &str {
    let mut dots = name.match_indices('.').map(|(at, _)| at);
    dots.nth(1).and_then(|at| name.get(..at)).unwrap_or(name)
}

/// The order of claims that come together.
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
        let is_whole = |(file, owner, names): &&(&str, u32, &[&str])| {
            names.iter().all(|name| owners.check(claimant(file, *owner), name).is_ok())
        };
        files.iter().filter(is_whole).map(|(file, ..)| (*file).to_owned()).collect()
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
    fn a_newcomer_gets_no_name_leaf_or_branch_of_a_user_who_was_there_or_is_absent() {
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
            "the name \"mmv.shop.x\" belongs to user 1, who has aaa, this file to user 2";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn of_files_found_together_the_one_called_like_the_names_gets_them() {
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
    fn a_pinned_subtree_is_for_the_users_of_the_pin_whoever_was_there() {
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
        let names: Vec<String> = (0..=MOST).map(|number| format!("mmv.n{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        sweep(&mut owners, &[("many", 1, &names), ("other", 2, &["mmv.other.x"])]);
        assert_eq!(owners.check(claimant("many", 1), names[MOST - 1]), Ok(()));
        let error = owners.check(claimant("many", 1), names[MOST]).unwrap_err();
        assert!(matches!(error, OwnerError::TooMany { .. }), "{error}");
        assert_eq!(owners.check(claimant("other", 2), "mmv.other.x"), Ok(()));
    }
}
