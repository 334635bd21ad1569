//! Circles among the modules with one parent.
//!
//! Comes in: the modules of a crate. Goes out: the largest groups of siblings that
//! depend on each other, with one import for each dependency. A dependency of
//! `a::b` on `c::d` is one of `a` on `c`, their ancestors with the same parent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::modules::{Crate, Place};

/// Siblings that depend on each other.
#[derive(Debug)]
pub(super) struct Circle {
    parent: Place,
    members: BTreeSet<String>,
    /// Importing sibling, imported sibling, and the place in the source.
    imports: Vec<(String, String, String)>,
}

/// Dependencies among siblings: from, to, and the first place that causes it.
type Siblings = BTreeMap<(String, String), String>;

pub(super) fn circles(parsed: &Crate) -> Vec<Circle> {
    let mut levels: BTreeMap<Place, Siblings> = BTreeMap::new();
    for (place, module) in &parsed.modules {
        for mention in &module.mentions {
            let Some(target) = parsed.resolve(place, &mention.path) else { continue };
            let common = place.iter().zip(&target).take_while(|(one, other)| one == other).count();
            let (Some(from), Some(to)) = (place.get(common), target.get(common)) else { continue };
            let level = levels.entry(place.get(..common).unwrap_or_default().to_vec());
            level.or_default().entry((from.clone(), to.clone())).or_insert_with(|| {
                let (file, path) = (module.file.display(), mention.path.join("::"));
                format!("{file}:{}: {path}", mention.line)
            });
        }
    }
    levels.into_iter().flat_map(|(parent, siblings)| of_level(&parent, &siblings)).collect()
}

fn of_level(parent: &Place, siblings: &Siblings) -> Vec<Circle> {
    let mut groups: BTreeSet<BTreeSet<String>> = BTreeSet::new();
    for (from, _) in siblings.keys() {
        let members: BTreeSet<String> = reachable(siblings, from)
            .into_iter()
            .filter(|other| reachable(siblings, other).contains(from))
            .collect();
        if !members.is_empty() {
            groups.insert(members);
        }
    }
    groups
        .into_iter()
        .map(|members| {
            let imports = siblings
                .iter()
                .filter(|((from, to), _)| members.contains(from) && members.contains(to))
                .map(|((from, to), written)| (from.clone(), to.clone(), written.clone()))
                .collect();
            Circle { parent: parent.clone(), members, imports }
        })
        .collect()
}

/// Returns all siblings that `from` depends on, directly or not.
fn reachable(siblings: &Siblings, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut pending = vec![from];
    while let Some(next) = pending.pop() {
        for (_, to) in siblings.keys().filter(|(one, _)| one == next) {
            if found.insert(to.clone()) {
                pending.push(to);
            }
        }
    }
    found
}

impl Circle {
    /// Formats the parent and the members: `replay: interpolate seek`.
    pub(super) fn title(&self) -> String {
        let parent =
            if self.parent.is_empty() { "<root>".to_owned() } else { self.parent.join("::") };
        let members: Vec<&str> = self.members.iter().map(String::as_str).collect();
        format!("{parent}: {}", members.join(" "))
    }
}

impl fmt::Display for Circle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.imports
            .iter()
            .try_for_each(|(from, to, written)| writeln!(out, "  {from} -> {to}: {written}"))
    }
}
