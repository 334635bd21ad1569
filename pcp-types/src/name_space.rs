//! Which name is whose, in a tree of names.

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;

use crate::Pmid;

/// The names of metrics (PMNS): each belongs to one metric, and is a leaf or a
/// folder (pmns(5)). A name may have several leaves to one metric.
///
/// Taking a name costs a look-up or a few, however many there are; giving one
/// back looks at all of them.
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
/// let folder = names.take("mmv.app", other);
/// assert_eq!(folder, Err(NameConflict::LeafAndFolder { other: "mmv.app.requests".into() }));
/// # Ok::<(), pcp_types::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct NameSpace {
    /// Complete names. Of a name all folders above it are there.
    nodes: HashMap<Box<str>, Node>,
    /// The folder of the name that was taken last: names come in families.
    recent: Box<str>,
}

#[derive(Debug, Clone)]
enum Node {
    Leaf(Pmid),
    /// With a leaf that is or was somewhere below.
    Folder(Box<str>),
}

/// Why a metric cannot have a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameConflict {
    /// It is another metric's.
    Taken {
        /// That metric.
        holder: Pmid,
    },
    /// A name goes on where another one ends.
    LeafAndFolder {
        /// The other one.
        other: String,
    },
}

impl NameSpace {
    /// Takes `name` for `pmid`; false if the metric has it already. What is a
    /// name is not checked.
    ///
    /// # Errors
    ///
    /// [`NameConflict`]; then all is as before.
    pub fn take(&mut self, name: &str, pmid: Pmid) -> Result<bool, NameConflict> {
        if let Some(folder) = folders(name).next()
            && *folder != *self.recent
            && !self.nodes.contains_key(name)
        {
            self.make_folders(name)?;
            self.recent = folder.into();
        }
        match self.nodes.entry_ref(name) {
            EntryRef::Vacant(entry) => {
                entry.insert_with_key(name.into(), Node::Leaf(pmid));
                Ok(true)
            }
            EntryRef::Occupied(entry) => match entry.get() {
                Node::Leaf(holder) if *holder == pmid => Ok(false),
                Node::Leaf(holder) => Err(NameConflict::Taken { holder: *holder }),
                Node::Folder(example) => {
                    Err(NameConflict::LeafAndFolder { other: example.to_string() })
                }
            },
        }
    }

    /// Makes those folders of a name that are not there.
    fn make_folders(&mut self, name: &str) -> Result<(), NameConflict> {
        // Those above a folder that is there are there, too.
        let known = folders(name).find_map(|folder| Some((folder, self.nodes.get(folder)?)));
        if let Some((leaf, Node::Leaf(_))) = known {
            return Err(NameConflict::LeafAndFolder { other: leaf.to_owned() });
        }
        let top = known.map(|(top, _)| top);
        for folder in folders(name).take_while(|folder| Some(*folder) != top) {
            self.nodes.insert(folder.into(), Node::Folder(name.into()));
        }
        Ok(())
    }

    /// Makes room for so many names more.
    pub fn reserve(&mut self, names: usize) {
        self.nodes.reserve(names);
    }

    /// The metric that has a name.
    pub fn holder(&self, name: &str) -> Option<Pmid> {
        match self.nodes.get(name)? {
            Node::Leaf(holder) => Some(*holder),
            Node::Folder(_) => None,
        }
    }

    /// Gives a name back. One that is no metric's stays as it is.
    pub fn release(&mut self, name: &str) {
        if self.holder(name).is_none() {
            return;
        }
        self.nodes.remove(name);
        self.recent = Box::default();
        for folder in folders(name) {
            let is_below =
                |one: &str| one.strip_prefix(folder).is_some_and(|rest| rest.starts_with('.'));
            if self.nodes.keys().any(|one| is_below(one)) {
                return;
            }
            self.nodes.remove(folder);
        }
    }
}

/// The folders of a name, the innermost first.
fn folders(name: &str) -> impl Iterator<Item = &str> {
    name.rmatch_indices('.').filter_map(|(at, _)| name.get(..at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pmid(item: u32) -> Pmid {
        Pmid::new(70, 1, item).unwrap()
    }

    #[test]
    fn a_name_is_a_leaf_or_a_folder_and_not_both() {
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
            let conflict = NameConflict::LeafAndFolder { other: other.to_owned() };
            assert_eq!(names.take(name, pmid(2)), Err(conflict), "{name}");
        }
    }

    #[test]
    fn what_is_released_is_free_with_its_folders() {
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
    fn it_agrees_with_a_list_of_names() {
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
                one.strip_prefix(other).is_some_and(|r| r.starts_with('.'))
            };
            let known = list.contains(&name);
            let related = list.iter().any(|one| is_below(one, &name) || is_below(&name, one));
            match names.take(&name, pmid(1)) {
                Ok(new) => assert_eq!((new, related), (!known, false), "{name} in {list:?}"),
                Err(_) => assert!(related, "{name} in {list:?}"),
            }
            if !known && !related {
                list.push(name);
            }
        }
    }
}
