//! The labels of a series.
//!
//! In: the labels of an archive at some time, the name of its host, and an instance. Out: the
//! labels that a receiver sees, sorted by name, each name once. Labels of an instance override
//! those of the metric, which override those of its cluster, instance domain, domain and host
//! (`pmLookupLabels(3)`).

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use pcp_archive::internal::programs::OWNER_LABEL;
use pcp_archive::raw::{LabelSet, LabelTarget};
use pcp_archive::{InDom, InstanceId, Metadata, MetricDesc, Timestamp};
use pcp_types::json;

use super::name;

/// One label of a series.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    /// The name, which matches `[a-zA-Z_][a-zA-Z0-9_]*`.
    pub name: Arc<str>,
    /// The value, which is not empty.
    pub value: Arc<str>,
}

/// The identity of an instance in labels.
#[derive(Debug, Clone, Copy)]
pub struct LabelledInstance<'n> {
    /// The number in records.
    pub id: InstanceId,
    /// The name, if it is known.
    pub name: Option<&'n str>,
    /// Whether another instance has the same name.
    pub is_repeated: bool,
}

/// The labels of the series of one metric.
#[derive(Debug)]
pub struct MetricLabels<'m> {
    /// Values by names, as they are in the archive: values are JSON.
    common: BTreeMap<&'m str, &'m str>,
    of_instances: HashMap<InstanceId, &'m LabelSet>,
    hostname: &'m str,
}

const HOSTNAME: &str = "hostname";
const INSTANCE_NAME: &str = "instname";
/// The label with the number of an instance without a unique name. Other instances do not have it:
/// numbers may change at a restart, which would begin new series.
const INSTANCE_ID: &str = "instid";

impl<'m> MetricLabels<'m> {
    /// Returns the labels at a time of the metric, its cluster and so on, and of the instances of
    /// `instances`; `hostname` is that of the archive's label.
    pub fn new(
        metadata: &'m Metadata,
        desc: &MetricDesc,
        instances: Option<InDom>,
        hostname: &'m str,
        at: Timestamp,
    ) -> Self {
        let mut common = BTreeMap::new();
        for target in LabelTarget::of_metric(&MetricDesc { indom: instances, ..*desc }) {
            for set in metadata.labels_at(target, at).into_iter().flatten() {
                let pairs = set.pairs().map(|(name, value, _)| (name, value));
                common.extend(pairs.filter(|(name, _)| *name != OWNER_LABEL));
            }
        }
        let targets = instances.into_iter().map(LabelTarget::Instances);
        let sets = targets.flat_map(|target| metadata.labels_at(target, at).into_iter().flatten());
        let of_instances = sets.filter_map(|set| Some((set.instance?, set))).collect();
        Self { common, of_instances, hostname }
    }

    /// Returns whether the labels that all instances share are the same.
    pub fn has_same_common(&self, other: &Self) -> bool {
        self.hostname == other.hostname && self.common == other.common
    }

    /// Returns whether the labels of an instance are the same.
    pub fn has_same_instance(&self, other: &Self, instance: Option<InstanceId>) -> bool {
        let Some(id) = instance else { return true };
        self.of_instances.get(&id) == other.of_instances.get(&id)
    }

    /// Removes a label of the archive.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.common.remove(name);
        self
    }

    /// Returns the labels of an instance, or of a metric without instances.
    pub fn of_instance(&self, instance: Option<LabelledInstance<'_>>) -> Arc<[Label]> {
        let mut all = self.common.clone();
        let set = instance.and_then(|instance| self.of_instances.get(&instance.id));
        all.extend(
            set.into_iter().flat_map(|set| set.pairs()).map(|(name, value, _)| (name, value)),
        );
        let mut labels: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in all {
            let value = text(value);
            if value.is_empty() {
                continue;
            }
            let mut clean = name::label_name(name);
            if labels.contains_key(&clean) {
                clean += &name::suffix(name);
            }
            labels.insert(clean, value);
        }
        let mut add = |name: &str, value: &str| {
            if !value.is_empty() && !labels.contains_key(name) {
                labels.insert(name.to_owned(), value.to_owned());
            }
        };
        add(HOSTNAME, self.hostname);
        if let Some(LabelledInstance { id, name, is_repeated }) = instance {
            add(INSTANCE_NAME, name.unwrap_or_default());
            if name.is_none_or(str::is_empty) || is_repeated {
                add(INSTANCE_ID, &id.to_string());
            }
        }
        let labels = labels.into_iter();
        labels.map(|(name, value)| Label { name: name.into(), value: value.into() }).collect()
    }
}

/// Converts a JSON value to the value of a label: strings are unescaped, `null` is empty, and
/// anything else stays as it is written.
fn text(value: &str) -> String {
    match value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => json::unescape(inner),
        None if value == "null" => String::new(),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(
        common: &[(&'static str, &'static str)],
        instance: Option<(i32, &str)>,
    ) -> Vec<(String, String)> {
        let common = common.iter().copied().collect();
        let labels = MetricLabels { common, of_instances: HashMap::new(), hostname: "web1" };
        let instance = instance.map(|(id, name)| LabelledInstance {
            id: InstanceId::new(id).unwrap(),
            name: Some(name),
            is_repeated: false,
        });
        let labels = labels.of_instance(instance);
        labels.iter().map(|label| (label.name.to_string(), label.value.to_string())).collect()
    }

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn host_and_instance_labels_give_way_to_those_of_the_archive() {
        assert_eq!(labels(&[], None), pairs(&[("hostname", "web1")]));
        assert_eq!(
            labels(&[], Some((3, "sda"))),
            pairs(&[("hostname", "web1"), ("instname", "sda")])
        );
        assert_eq!(
            labels(
                &[("hostname", "\"web1.example.org\""), ("instname", "\"x\"")],
                Some((3, "sda"))
            ),
            pairs(&[("hostname", "web1.example.org"), ("instname", "x")])
        );
        let unnamed = pairs(&[("hostname", "web1"), ("instid", "3")]);
        assert_eq!(labels(&[], Some((3, ""))), unnamed);
    }

    #[test]
    fn values_are_strings_without_quotes_and_other_json_as_it_is() {
        let common = [
            ("a", r#""x\"y\u00fc""#),
            ("b", "17"),
            ("c", "true"),
            ("d", "null"),
            ("e", r#"{"f":1}"#),
            ("g", r#""""#),
        ];
        let expected = [("a", "x\"y\u{fc}"), ("b", "17"), ("c", "true"), ("e", "{\"f\":1}")];
        let expected = [&expected[..], &[("hostname", "web1")]].concat();
        assert_eq!(labels(&common, None), pairs(&expected));
    }

    #[test]
    fn names_that_become_one_keep_their_values() {
        let found = labels(&[("a.b", "1"), ("a_b", "2"), ("job", "3")], None);
        let other = format!("a_b{}", name::suffix("a_b"));
        let expected =
            [("a_b", "1"), (other.as_str(), "2"), ("exported_job", "3"), ("hostname", "web1")];
        assert_eq!(found, pairs(&expected));
    }
}
