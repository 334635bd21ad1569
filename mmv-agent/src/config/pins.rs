//! Subtrees of names reserved for the files of some users: the table `[names]`.

use std::collections::{BTreeMap, BTreeSet};

use nix::unistd::{Gid, Group, Uid, User};
use pcp_types::names::check_metric_name;
use serde::de::{Deserialize, Deserializer, Error};

use super::groups::user_named;

/// The users who may have the names of a subtree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PinnedTo {
    users: BTreeSet<u32>,
    /// Primary groups of permitted users; other members are in `users`.
    groups: BTreeSet<u32>,
    /// Users and groups that the system does not know.
    unknown: Vec<String>,
}

/// The pinned subtrees with their users.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pins {
    by_subtree: BTreeMap<String, PinnedTo>,
    /// Names above pinned subtrees, which cannot be metrics.
    above: BTreeSet<String>,
}

impl PinnedTo {
    #[cfg(test)]
    pub(crate) fn users(users: impl IntoIterator<Item = u32>) -> Self {
        Self { users: users.into_iter().collect(), ..Self::default() }
    }

    /// Adds `user:shop`, `user:1000`, `group:ops` or `group:100`.
    fn add(&mut self, text: &str) -> Result<(), String> {
        let syntax = || format!("\"{text}\" is neither user:NAME nor group:NAME");
        let (kind, name) = text.split_once(':').ok_or_else(syntax)?;
        if name.is_empty() {
            return Err(syntax());
        }
        let known = match kind {
            "user" => self.add_user(name),
            "group" => self.add_group(name),
            _ => return Err(syntax()),
        };
        if !known {
            self.unknown.push(text.to_owned());
        }
        Ok(())
    }

    /// Adds a user. Returns true if it is known; a number needs no entry in the system's list.
    fn add_user(&mut self, name: &str) -> bool {
        let user = user_named(name);
        self.users.extend(user);
        user.is_some()
    }

    fn add_group(&mut self, name: &str) -> bool {
        let group = match name.parse() {
            Ok(number) => {
                self.groups.insert(number);
                Group::from_gid(Gid::from_raw(number))
            }
            Err(_) => Group::from_name(name),
        };
        let Ok(Some(group)) = group else { return false };
        self.groups.insert(group.gid.as_raw());
        for member in group.mem {
            self.add_user(&member);
        }
        true
    }

    fn permits(&self, user: u32, group: Option<u32>) -> bool {
        self.users.contains(&user) || group.is_some_and(|group| self.groups.contains(&group))
    }
}

impl From<BTreeMap<String, PinnedTo>> for Pins {
    fn from(by_subtree: BTreeMap<String, PinnedTo>) -> Self {
        let above = by_subtree.keys().flat_map(|subtree| branches(subtree).skip(1));
        let above = above.map(str::to_owned).collect();
        Self { by_subtree, above }
    }
}

impl Pins {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_subtree.is_empty()
    }

    /// Returns the innermost pinned subtree that has a name.
    fn innermost(&self, name: &str) -> Option<&PinnedTo> {
        branches(name).find_map(|branch| self.by_subtree.get(branch))
    }

    pub(crate) fn covers(&self, name: &str) -> bool {
        self.innermost(name).is_some()
    }

    /// Returns true if a user with this primary group may not have a name.
    pub(crate) fn forbids(&self, name: &str, user: u32, group: Option<u32>) -> bool {
        self.above.contains(name)
            || self.innermost(name).is_some_and(|pin| !pin.permits(user, group))
    }

    /// Returns the primary group of a user, if any pin needs it and the system knows it.
    pub(crate) fn group_of(&self, user: u32) -> Option<u32> {
        let needed = self.by_subtree.values().any(|pin| !pin.groups.is_empty());
        let known = needed.then(|| User::from_uid(Uid::from_raw(user)).ok().flatten());
        known.flatten().map(|user| user.gid.as_raw())
    }

    /// Returns a line for each user and group that the system does not know.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        self.by_subtree.iter().flat_map(|(subtree, pin)| {
            let unknown = pin.unknown.iter();
            unknown.map(move |who| format!("names.\"{subtree}\": there is no {who} on this system"))
        })
    }
}

/// Returns a name and all names above it.
fn branches(name: &str) -> impl Iterator<Item = &str> {
    let above = name.rmatch_indices('.').filter_map(|(dot, _)| name.get(..dot));
    [name].into_iter().chain(above)
}

/// A subtree as a key of the table: `mmv.shop` or `mmv.shop.*`.
#[derive(PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(try_from = "String")]
struct Subtree(String);

impl TryFrom<String> for Subtree {
    type Error = String;

    fn try_from(key: String) -> Result<Self, String> {
        let name = key.strip_suffix(".*").unwrap_or(&key);
        if check_metric_name(name.as_bytes()).is_err() || !name.starts_with("mmv.") {
            return Err(format!(
                "\"{key}\" is not a subtree of names below mmv, such as \"mmv.shop\""
            ));
        }
        if name == "mmv.agent" || name.starts_with("mmv.agent.") {
            return Err(format!("\"{key}\" is the agent's own"));
        }
        Ok(Self(name.to_owned()))
    }
}

#[derive(serde::Deserialize)]
#[serde(untagged, expecting = "expected \"user:NAME\", \"group:NAME\" or a list of these")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl<'de> Deserialize<'de> for Pins {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut by_subtree = BTreeMap::new();
        for (Subtree(name), who) in BTreeMap::<Subtree, OneOrMore>::deserialize(from)? {
            let all = match who {
                OneOrMore::One(one) => vec![one],
                OneOrMore::More(all) => all,
            };
            let mut pin = PinnedTo::default();
            for one in all {
                pin.add(&one).map_err(D::Error::custom)?;
            }
            by_subtree.insert(name, pin);
        }
        Ok(by_subtree.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pins(text: &str) -> Result<Pins, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    #[test]
    fn users_and_groups_are_read_by_name_and_number() {
        let pins = pins(
            "\"mmv.shop\" = \"user:4711\"\n\"mmv.web.*\" = [\"user:root\", \"group:4712\"]\n\
             \"mmv.shop.db\" = \"user:4713\"\n",
        );
        let pins = pins.unwrap();
        for (name, user, group, forbidden) in [
            ("mmv.shop.x", 4711, None, false),
            ("mmv.shop", 4711, None, true),
            ("mmv.web", 4712, Some(4712), false),
            ("mmv.shop.x", 4713, None, true),
            ("mmv.shop.db.x", 4711, None, true),
            ("mmv.shop.db.x", 4713, None, false),
            ("mmv.shopping", 1, None, false),
            ("mmv.web.x", 0, None, false),
            ("mmv.web.x", 1, Some(4712), false),
            ("mmv.web.x", 1, Some(4713), true),
            ("mmv", 4711, None, true),
        ] {
            assert_eq!(pins.forbids(name, user, group), forbidden, "{name} {user}");
        }
        assert!(pins.covers("mmv.web") && !pins.covers("mmv.webs"));
    }

    #[test]
    fn users_that_the_system_does_not_know_are_a_warning() {
        let text = "\"mmv.shop\" = [\"user:no_such_user\", \"group:no_such_group\", \"user:root\"]";
        let warnings: Vec<String> = pins(text).unwrap().warnings().collect();
        let expected = ["user:no_such_user", "group:no_such_group"]
            .map(|who| format!("names.\"mmv.shop\": there is no {who} on this system"));
        assert_eq!(warnings, expected);
    }

    #[test]
    fn what_is_no_subtree_user_or_group_is_an_error() {
        for (text, expected) in [
            ("\"shop\" = \"user:root\"", "is not a subtree of names"),
            ("\"mmv.*.x\" = \"user:root\"", "is not a subtree of names"),
            ("\"mmv.agent\" = \"user:root\"", "is the agent's own"),
            ("\"mmv.a\" = \"root\"", "is neither user:NAME nor group:NAME"),
            ("\"mmv.a\" = \"host:root\"", "is neither user:NAME nor group:NAME"),
            ("\"mmv.a\" = \"user:\"", "is neither user:NAME nor group:NAME"),
            ("\"mmv.a\" = 7", "expected \"user:NAME\""),
        ] {
            let error = pins(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
