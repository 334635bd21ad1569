//! The names that were declared: each belongs to one metric, and is a leaf or
//! a folder.

use std::collections::BTreeMap;

use pcp_types::Pmid;

use crate::error::{Error, Result};
use crate::format::desc;

/// Names and the metrics that have them.
#[derive(Debug, Default)]
pub(super) struct NameSpace {
    owners: BTreeMap<String, Pmid>,
}

impl NameSpace {
    /// Gives `names` to a metric, all of them or none; those that it did not
    /// have, each once.
    pub(super) fn take(&mut self, pmid: Pmid, names: &[&str]) -> Result<Vec<String>> {
        let mut new = Vec::new();
        for name in names {
            match self.check(pmid, name) {
                Ok(true) => {}
                Ok(false) => {
                    self.owners.insert((*name).to_owned(), pmid);
                    new.push((*name).to_owned());
                }
                Err(error) => {
                    for name in &new {
                        self.owners.remove(name);
                    }
                    return Err(error);
                }
            }
        }
        Ok(new)
    }

    /// Whether the metric has the name already; an error if it cannot.
    fn check(&self, pmid: Pmid, name: &str) -> Result<bool> {
        if let Some(&owner) = self.owners.get(name) {
            if owner == pmid {
                return Ok(true);
            }
            return Err(Error::NameTaken { name: name.to_owned(), owner, pmid });
        }
        desc::check_name(name)?;
        match self.related(name) {
            Some(other) => Err(Error::LeafAndFolder { name: name.to_owned(), other }),
            None => Ok(false),
        }
    }

    /// A name below `name`, or one that `name` is below.
    fn related(&self, name: &str) -> Option<String> {
        let folder = format!("{name}.");
        let below = self.owners.range(folder.clone()..).next().map(|(below, _)| below);
        if let Some(below) = below.filter(|below| below.starts_with(&folder)) {
            return Some(below.clone());
        }
        let mut above = name.match_indices('.').filter_map(|(at, _)| name.get(..at));
        above.find(|above| self.owners.contains_key(*above)).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pmid(item: u32) -> Pmid {
        Pmid::new(70, 1, item).unwrap()
    }

    #[test]
    fn each_new_name_is_given_once_however_often_it_is_asked_for() {
        let mut names = NameSpace::default();
        assert_eq!(names.take(pmid(1), &["a", "b", "a"]).unwrap(), ["a", "b"]);
        assert_eq!(names.take(pmid(1), &["b", "c"]).unwrap(), ["c"]);
    }

    #[test]
    fn a_name_is_a_leaf_or_a_folder_and_not_both() {
        let mut names = NameSpace::default();
        names.take(pmid(1), &["app.req"]).unwrap();
        names.take(pmid(2), &["app.req_failed", "app.requests"]).unwrap();
        for name in ["app.req.failed", "app.req.failed.late", "app"] {
            let error = names.take(pmid(3), &[name]).unwrap_err();
            assert!(matches!(error, Error::LeafAndFolder { .. }), "{name}");
        }
    }

    #[test]
    fn names_that_cannot_all_be_given_are_not_given_at_all() {
        let mut names = NameSpace::default();
        names.take(pmid(1), &["taken"]).unwrap();
        for last in ["taken", "a.b", "1"] {
            assert!(names.take(pmid(2), &["a", last]).is_err());
        }
        assert_eq!(names.take(pmid(3), &["a"]).unwrap(), ["a"]);
    }
}
