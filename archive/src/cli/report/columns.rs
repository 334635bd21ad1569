//! What a report has a column for: each instance of each metric.

use std::sync::Arc;

use hashbrown::HashMap;
use pcp_types::{InDom, InstanceId};

use crate::replay::Replay;
use crate::{Archive, IndomHistory, Value};

/// One metric and instance.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    /// The place of the metric in the replay.
    pub(super) metric: usize,
    pub(super) instance: Option<InstanceId>,
    /// The metric's name.
    pub(super) name: String,
    /// The instance's newest name; `None` without instances, and where no
    /// record of the domain names it.
    pub(super) instance_name: Option<Arc<str>>,
    pub(super) units: String,
}

impl Column {
    /// What tells the column from the others of its metric: the instance's
    /// name or else its number; `None` without instances.
    pub(super) fn instance_title(&self) -> Option<Arc<str>> {
        let number = || self.instance.map(|id| id.get().to_string().into());
        self.instance_name.clone().or_else(number)
    }
}

/// The columns of all instances with values, in the order of the metrics and
/// of the instances' numbers. With `wanted` names only those instances, and no
/// metric without instances is left out. An instance without a name exists at
/// no time for replay and has a column only if the values are `raw`.
pub(super) fn columns(
    archive: &Archive,
    replay: &Replay<'_>,
    wanted: &[String],
    raw: bool,
) -> Vec<Column> {
    let mut columns = Vec::new();
    for (place, metric) in replay.metrics().enumerate() {
        let names = metric.desc.indom.map(|indom| instance_names(archive, indom));
        for instance in replay.instances(place) {
            let column = Column {
                metric: place,
                instance,
                name: metric.name.clone(),
                instance_name: names.as_ref().zip(instance).and_then(|(n, id)| n.get(&id).cloned()),
                units: metric.desc.units.to_string(),
            };
            let can_have_values = raw || instance.is_none() || column.instance_name.is_some();
            let title = column.instance_title();
            if can_have_values && title.is_none_or(|title| is_wanted(&title, wanted)) {
                columns.push(column);
            }
        }
    }
    columns
}

/// A name is wanted whole, or up to its first blank, as PCP matches names.
fn is_wanted(name: &str, wanted: &[String]) -> bool {
    let first_word = name.split(' ').next().unwrap_or(name);
    wanted.is_empty() || wanted.iter().any(|w| w == name || w == first_word)
}

/// The newest name of every instance that a domain ever had.
fn instance_names(archive: &Archive, indom: InDom) -> HashMap<InstanceId, Arc<str>> {
    let history = archive.metadata().indom_history(indom);
    let instances = history.map(IndomHistory::union).unwrap_or_default();
    instances.into_iter().map(|instance| (instance.id, instance.name)).collect()
}

/// Appends a value without the quotes that a dump puts around strings.
pub(super) fn push_plain(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::String(bytes) => out.extend_from_slice(bytes),
        other => crate::cli::value::push(out, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_named_whole_or_by_their_first_word() {
        let wanted = ["0001 init".to_owned(), "0002".to_owned()];
        assert!(is_wanted("0001 init", &wanted));
        assert!(is_wanted("0002 /sbin/getty", &wanted));
        assert!(!is_wanted("0001", &wanted));
        assert!(!is_wanted("0003 sh", &wanted));
        assert!(is_wanted("anything", &[]));
    }
}
