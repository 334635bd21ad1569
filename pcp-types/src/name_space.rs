//! The tree of metric names: which name belongs to whom.

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;

use crate::Pmid;

/// The names of metrics (PMNS). Each name belongs to one holder, and is either a
/// leaf or a branch (pmns(5)). One holder may have several names.
///
/// The holder is a [`Pmid`] unless stated otherwise; `()` where it does not matter.
/// Taking a name costs a few look-ups, however many names there are; releasing
/// one visits all of them.
///
/// ```
/// use pcp_types::{NameConflict, NameSpace, Pmid};
///
/// let (one, other) = (Pmid::new(70, 1, 1)?, Pmid::new(70, 1, 2)?);
/// let mut names = NameSpace::default();
/// assert_eq!(names.take("mmv.app.requests", one), Ok(true));
/// assert_eq!(names.take("mmv.app.requests", one), Ok(false));
/// let taken = names.take("mmv.app.requests", other);
/// assert_eq!(taken, Err(NameConflict::Taken { holder: one }));
/// let branch = names.take("mmv.app", other);
/// assert_eq!(branch, Err(NameConflict::LeafAndBranch { other: "mmv.app.requests".into() }));
/// # Ok::<(), pcp_types::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct NameSpace<H = Pmid> {
    /// Complete names. All branches of a name in here are in here, too.
    nodes: HashMap<Box<str>, Node<H>>,
    /// The innermost branch of the name taken last: names come in families.
    recent: Box<str>,
}

#[derive(Debug, Clone)]
enum Node<H> {
    Leaf(H),
    /// With a leaf that is or was somewhere below.
    Branch(Box<str>),
}

/// The reason why a metric cannot have a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameConflict<H = Pmid> {
    /// Another metric has the name.
    Taken {
        /// The metric that has it.
        holder: H,
    },
    /// One name would be a leaf and a branch of the other.
    LeafAndBranch {
        /// The name that was there before.
        other: String,
    },
}

impl<H> Default for NameSpace<H> {
    fn default() -> Self {
        Self { nodes: HashMap::new(), recent: Box::default() }
    }
}

impl<H: Copy + PartialEq> NameSpace<H> {
    /// Returns whether `holder` can take `name`: true if it is new, false if the holder has it
    /// already. The syntax of the name is not checked.
    ///
    /// # Errors
    ///
    /// [`NameConflict`].
    pub fn check(&self, name: &str, holder: H) -> Result<bool, NameConflict<H>> {
        match self.nodes.get(name) {
            Some(node) => node.taken_by(holder).map(|()| false),
            None => self.innermost_branch(name).map(|_| true),
        }
    }

    /// Takes `name` for `holder`, with the result of [`Self::check`].
    ///
    /// # Errors
    ///
    /// As [`Self::check`]; then nothing changes.
    pub fn take(&mut self, name: &str, holder: H) -> Result<bool, NameConflict<H>> {
        if let Some(branch) = branches(name).next()
            && *branch != *self.recent
            && !self.nodes.contains_key(name)
        {
            self.add_branches(name)?;
            self.recent = branch.into();
        }
        match self.nodes.entry_ref(name) {
            EntryRef::Vacant(entry) => {
                entry.insert_with_key(name.into(), Node::Leaf(holder));
                Ok(true)
            }
            EntryRef::Occupied(entry) => entry.get().taken_by(holder).map(|()| false),
        }
    }

    /// Returns the innermost branch of `name` that exists; the branches above it exist, too.
    fn innermost_branch<'n>(&self, name: &'n str) -> Result<Option<&'n str>, NameConflict<H>> {
        match branches(name).find_map(|branch| Some((branch, self.nodes.get(branch)?))) {
            Some((leaf, Node::Leaf(_))) => {
                Err(NameConflict::LeafAndBranch { other: leaf.to_owned() })
            }
            known => Ok(known.map(|(branch, _)| branch)),
        }
    }

    fn add_branches(&mut self, name: &str) -> Result<(), NameConflict<H>> {
        let known = self.innermost_branch(name)?;
        for branch in branches(name).take_while(|branch| Some(*branch) != known) {
            self.nodes.insert(branch.into(), Node::Branch(name.into()));
        }
        Ok(())
    }

    /// Reserves memory for `names` more names.
    pub fn reserve(&mut self, names: usize) {
        self.nodes.reserve(names);
    }

    /// Returns the holder of a name.
    pub fn holder(&self, name: &str) -> Option<H> {
        match self.nodes.get(name)? {
            Node::Leaf(holder) => Some(*holder),
            Node::Branch(_) => None,
        }
    }

    /// Releases a name, and its branches if no other name needs them.
    pub fn release(&mut self, name: &str) {
        if self.holder(name).is_none() {
            return;
        }
        self.nodes.remove(name);
        self.recent = Box::default();
        for branch in branches(name) {
            let is_below =
                |one: &str| one.strip_prefix(branch).is_some_and(|tail| tail.starts_with('.'));
            if self.nodes.keys().any(|one| is_below(one)) {
                return;
            }
            self.nodes.remove(branch);
        }
    }
}

impl<H: Copy + PartialEq> Node<H> {
    fn taken_by(&self, wanted: H) -> Result<(), NameConflict<H>> {
        match self {
            Self::Leaf(holder) if *holder == wanted => Ok(()),
            Self::Leaf(holder) => Err(NameConflict::Taken { holder: *holder }),
            Self::Branch(example) => {
                Err(NameConflict::LeafAndBranch { other: example.to_string() })
            }
        }
    }
}

/// Returns the branches of a name, the innermost first.
fn branches(name: &str) -> impl Iterator<Item = &str> {
    name.rmatch_indices('.').filter_map(|(dot, _)| name.get(..dot))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pmid(item: u32) -> Pmid {
        Pmid::new(70, 1, item).unwrap()
    }

    #[test]
    fn a_name_is_a_leaf_or_a_branch() {
        let mut names = NameSpace::default();
        for name in ["app.req", "app.req_failed", "app.requests", "b.c.d.e"] {
            assert_eq!(names.take(name, pmid(1)), Ok(true), "{name}");
        }
        for (name, other) in [
            ("app.req.failed", "app.req"),
            ("app.req.failed.late", "app.req"),
            ("app", "app.req"),
            ("b", "b.c.d.e"),
            ("b.c.d", "b.c.d.e"),
            ("b.c.d.e.f.g", "b.c.d.e"),
        ] {
            let conflict = NameConflict::LeafAndBranch { other: other.to_owned() };
            assert_eq!(names.check(name, pmid(2)), Err(conflict.clone()), "{name}");
            assert_eq!(names.take(name, pmid(2)), Err(conflict), "{name}");
        }
    }

    #[test]
    fn released_names_and_their_branches_are_free() {
        let mut names = NameSpace::default();
        for name in ["a.b.c", "a.b.d", "a.e"] {
            names.take(name, pmid(1)).unwrap();
        }
        names.release("a.b");
        names.release("a.b.x");
        names.release("a.b.c");
        assert!(names.take("a.b", pmid(2)).is_err(), "a.b.d is left");
        assert_eq!(names.take("a.b.c", pmid(2)), Ok(true));
        names.release("a.b.c");
        names.release("a.b.d");
        assert_eq!(names.take("a.b", pmid(2)), Ok(true));
        assert!(names.take("a", pmid(3)).is_err(), "a.b and a.e are left");
        names.release("a.b");
        names.release("a.e");
        assert_eq!(names.take("a", pmid(3)), Ok(true));
        assert_eq!(names.holder("a"), Some(pmid(3)));
    }

    #[test]
    fn the_tree_agrees_with_a_list_of_names() {
        let parts = ["a", "b", "ab"];
        let mut names = NameSpace::default();
        let mut list: Vec<String> = Vec::new();
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let depth = 1 + (seed >> 8) % 4;
            let path = (0..depth).map(|level| parts[(seed >> (16 + 4 * level)) as usize % 3]);
            let name = path.collect::<Vec<_>>().join(".");
            if seed.is_multiple_of(3) {
                names.release(&name);
                list.retain(|known| *known != name);
                continue;
            }
            let is_below = |one: &str, other: &str| {
                one.strip_prefix(other).is_some_and(|tail| tail.starts_with('.'))
            };
            let known = list.contains(&name);
            let related = list.iter().any(|one| is_below(one, &name) || is_below(&name, one));
            let checked = names.check(&name, pmid(1));
            let taken = names.take(&name, pmid(1));
            assert_eq!(checked, taken, "{name} in {list:?}");
            match taken {
                Ok(new) => assert_eq!((new, related), (!known, false), "{name} in {list:?}"),
                Err(_) => assert!(related, "{name} in {list:?}"),
            }
            if !known && !related {
                list.push(name);
            }
        }
    }
}
