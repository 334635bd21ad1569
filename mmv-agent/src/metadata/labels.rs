//! The labels of one target, merged from all files.
//!
//! The first file with a label wins, with one exception that PCP makes as well (`__pmMergeLabels`,
//! `src/libpcp/src/labels.c`): two values that are objects are merged recursively.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use pcp_archive::raw::{EncodeError, LabelSet, LabelTarget};
use pcp_types::InstanceId;
use serde_json::{Map, Value};

use super::translation::LoggedLabel;

#[derive(Debug)]
struct MergedLabel {
    json_value: String,
    optional: bool,
}

/// Labels by instance (`None`: of the target itself) and name.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    by_name: BTreeMap<(Option<InstanceId>, String), MergedLabel>,
}

impl Labels {
    /// Adds a label, or merges it with the one of the same name.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] for a label that no archive can hold; it is not added.
    pub(crate) fn add(&mut self, label: &LoggedLabel) -> Result<(), EncodeError> {
        let alone = (label.name.as_str(), label.json_value.as_str(), label.optional);
        LabelSet::from_pairs(label.target.class(), [alone])?;
        match self.by_name.entry((label.instance, label.name.clone())) {
            Entry::Vacant(entry) => {
                let json_value = label.json_value.clone();
                entry.insert(MergedLabel { json_value, optional: label.optional });
            }
            Entry::Occupied(mut entry) => {
                if let Some(both) = merged(&entry.get().json_value, &label.json_value) {
                    entry.get_mut().json_value = both;
                }
            }
        }
        Ok(())
    }

    /// Returns the labels of one instance, or of the target itself; empty if there are none.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] for labels that no archive can hold.
    pub(crate) fn set(
        &self,
        target: LabelTarget,
        instance: Option<InstanceId>,
    ) -> Result<LabelSet, EncodeError> {
        let own = self.by_name.range((instance, String::new())..);
        let own = own.take_while(|((id, _), _)| *id == instance);
        let pairs = own
            .map(|((_, name), label)| (name.as_str(), label.json_value.as_str(), label.optional));
        let set = LabelSet::from_pairs(target.class(), pairs)?;
        Ok(match instance {
            Some(id) => set.for_instance(id),
            None => set,
        })
    }
}

/// Merges two JSON objects; `None` unless both values are objects.
fn merged(first: &str, second: &str) -> Option<String> {
    let mut first: Map<String, Value> = serde_json::from_str(first).ok()?;
    let second: Map<String, Value> = serde_json::from_str(second).ok()?;
    merge_into(&mut first, second);
    Some(Value::Object(first).to_string())
}

// The depth of recursion is limited by the parser.
fn merge_into(first: &mut Map<String, Value>, second: Map<String, Value>) {
    for (name, value) in second {
        match (first.get_mut(&name), value) {
            (Some(Value::Object(known)), Value::Object(more)) => merge_into(known, more),
            (Some(_), _) => {}
            (None, value) => drop(first.insert(name, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[&str]) -> Labels {
        let mut labels = Labels::default();
        for value in values {
            let label = LoggedLabel {
                target: LabelTarget::Context,
                instance: None,
                name: "x".into(),
                json_value: (*value).into(),
                optional: false,
            };
            labels.add(&label).unwrap();
        }
        labels
    }

    fn json(values: &[&str]) -> String {
        labels(values).set(LabelTarget::Context, None).unwrap().json
    }

    #[test]
    fn the_first_value_stays() {
        assert_eq!(json(&["1", "2"]), "{\"x\":1}");
        assert_eq!(json(&["1", "{\"a\":1}"]), "{\"x\":1}");
        assert_eq!(json(&["[1]", "[2]"]), "{\"x\":[1]}");
    }

    #[test]
    fn objects_become_one_and_their_first_members_stay() {
        assert_eq!(json(&["{\"a\":1}", "{\"b\":2}"]), "{\"x\":{\"a\":1,\"b\":2}}");
        assert_eq!(
            json(&["{\"a\":{\"c\":1}}", "{\"a\":{\"c\":2,\"d\":3}}"]),
            "{\"x\":{\"a\":{\"c\":1,\"d\":3}}}"
        );
    }

    #[test]
    fn a_label_that_stands_alone_keeps_its_text() {
        assert_eq!(json(&["-1.5e3"]), "{\"x\":-1.5e3}");
    }
}
