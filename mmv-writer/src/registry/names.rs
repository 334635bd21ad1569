//! The metric names of a registry, in whichever of its files they are.

use hashbrown::HashSet;

use super::check;
use crate::Error;

/// Names of metrics, without what the file's name puts before them.
#[derive(Debug, Default)]
pub(crate) struct Names {
    taken: HashSet<String>,
    /// All that stands before a dot in a name that is taken.
    branches: HashSet<String>,
}

impl Names {
    /// Whether a metric may have this name: it is legal, it is free, and it is
    /// neither a part of another one nor the other way around.
    pub(crate) fn check(&self, name: &str) -> Result<(), Error> {
        check::metric_name(name)?;
        if self.taken.contains(name) {
            return Err(Error::NameTaken { what: "metric name", name: name.to_owned() });
        }
        if self.branches.contains(name) {
            let is_longer = |other: &&String| {
                other.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
            };
            let longer = self.taken.iter().filter(is_longer).min().cloned().unwrap_or_default();
            return Err(Error::LeafAndBranch { leaf: name.to_owned(), longer });
        }
        match branches(name).find(|branch| self.taken.contains(*branch)) {
            Some(leaf) => {
                let (leaf, longer) = (leaf.to_owned(), name.to_owned());
                Err(Error::LeafAndBranch { leaf, longer })
            }
            None => Ok(()),
        }
    }

    /// Takes a name that was checked.
    pub(crate) fn take(&mut self, name: String) {
        for branch in branches(&name) {
            if !self.branches.contains(branch) {
                self.branches.insert(branch.to_owned());
            }
        }
        self.taken.insert(name);
    }
}

/// What stands before each dot of a name.
fn branches(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('.').filter_map(|(dot, _)| name.get(..dot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_leaf_or_a_branch() {
        let mut names = Names::default();
        for name in ["disk.read.count", "disk.read.bytes", "net"] {
            names.check(name).unwrap();
            names.take(name.to_owned());
        }
        for (refused, leaf, longer) in [
            ("disk", "disk", "disk.read.bytes"),
            ("disk.read", "disk.read", "disk.read.bytes"),
            ("disk.read.count.max", "disk.read.count", "disk.read.count.max"),
            ("net.in.bytes", "net", "net.in.bytes"),
        ] {
            let Err(Error::LeafAndBranch { leaf: found_leaf, longer: found_longer }) =
                names.check(refused)
            else {
                panic!("{refused}");
            };
            assert_eq!((found_leaf.as_str(), found_longer.as_str()), (leaf, longer));
        }
        for free in ["dis", "disk.readers", "nets", "disk.write"] {
            names.check(free).unwrap();
        }
    }
}
