//! The metric names of a registry, in whichever of its files they are.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::check;
use crate::Error;

/// Names of metrics, without what the file's name puts before them.
#[derive(Debug, Default)]
pub(crate) struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    /// Whether a metric may have this name: it is legal, it is free, and it is
    /// neither a part of another one nor the other way around.
    pub(crate) fn check(&self, name: &str) -> Result<(), Error> {
        check::metric_name(name)?;
        if self.taken.contains(name) {
            return Err(Error::NameTaken { what: "metric name", name: name.to_owned() });
        }
        let branch = format!("{name}.");
        let behind = (Bound::Included(branch.as_str()), Bound::Unbounded);
        let below = self.taken.range::<str, _>(behind).next();
        if let Some(longer) = below.filter(|other| other.starts_with(&branch)) {
            return Err(Error::LeafAndBranch { leaf: name.to_owned(), longer: longer.clone() });
        }
        let dots = name.match_indices('.').filter_map(|(dot, _)| name.get(..dot));
        for leaf in dots {
            if self.taken.contains(leaf) {
                return Err(Error::LeafAndBranch {
                    leaf: leaf.to_owned(),
                    longer: name.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Takes a name that was checked.
    pub(crate) fn take(&mut self, name: String) {
        self.taken.insert(name);
    }
}
