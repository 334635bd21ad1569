//! Assigns metrics and instances to groups.
//!
//! Input: the configuration and the shape of all values, once for each catalog. Output: the shape
//! of each group.
//!
//! Invariant: each value belongs to the first group of the configuration that chooses it, else to
//! a group of the agent's own metrics, else to the default group.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use pcp_archive::ByteText;
use pcp_types::{InDom, InstanceId, Semantics, names};

use crate::config::{Group, LogMode, Settings};
use crate::metadata::{Catalog, RecordShape, ValueLocation, ValueSetShape};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GroupId {
    /// Position in the configuration.
    Configured(usize),
    /// Position among the groups of the agent's own metrics.
    OwnMetrics(usize),
    /// The group of all metrics that no other one chooses.
    Default,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct GroupShape {
    /// Values of every record.
    pub every: RecordShape,
    /// Discrete metrics that are logged once or on change.
    pub on_change: RecordShape,
}

pub(crate) type GroupShapes = BTreeMap<GroupId, GroupShape>;

/// Partitions a shape among groups. Groups without values are left out, and metrics that are never
/// logged are removed from the catalog.
pub(crate) fn partition(
    shape: RecordShape,
    catalog: &mut Catalog,
    groups: &[(GroupId, &Group)],
) -> GroupShapes {
    if groups.is_empty() {
        return GroupShapes::from([(
            GroupId::Default,
            GroupShape { every: shape, ..GroupShape::default() },
        )]);
    }
    let mut shares = GroupShapes::new();
    let mut names = InstanceNames::default();
    let mut unlogged = HashSet::new();
    // Both are in the order of the PMIDs.
    for (set, (desc, name)) in shape.iter().zip(&catalog.metrics) {
        let takes =
            |(_, group): &&(GroupId, &Group)| group.metrics.iter().any(|p| names::selects(p, name));
        let candidates: Vec<(GroupId, &Group)> = groups.iter().filter(takes).copied().collect();
        let parts = split(set, &candidates, |id| names.get(catalog, desc.indom, id));
        let discrete = desc.semantics == Semantics::Discrete;
        let mut logged = false;
        for (id, places) in parts {
            let part = ValueSetShape { places: &places, ..set };
            let group = candidates.iter().find(|(candidate, _)| *candidate == id);
            let mode = group.map_or(LogMode::Every, |(_, group)| group.log);
            if mode == LogMode::Never {
                continue;
            }
            let own = shares.entry(id).or_default();
            if discrete && mode != LogMode::Every {
                own.on_change.push(part);
            } else {
                own.every.push(part);
            }
            logged = true;
        }
        if !logged {
            unlogged.insert(desc.pmid);
        }
    }
    if !unlogged.is_empty() {
        catalog.retain(|pmid| !unlogged.contains(&pmid));
    }
    shares
}

/// Splits the values of a metric by group. A metric without values goes, with its sources, to the
/// first group that chooses any instance of it.
fn split<'s>(
    set: ValueSetShape<'s>,
    candidates: &[(GroupId, &Group)],
    mut name: impl FnMut(InstanceId) -> Option<ByteText>,
) -> Vec<(GroupId, Cow<'s, [ValueLocation]>)> {
    // A group without instances takes all of them.
    let takes_all = |group: &Group| group.instances.is_empty();
    if set.places.is_empty() || candidates.first().is_none_or(|(_, group)| takes_all(group)) {
        let id = first_group(candidates, takes_all);
        return vec![(id, Cow::Borrowed(set.places))];
    }
    let mut places: BTreeMap<GroupId, Vec<ValueLocation>> = BTreeMap::new();
    for place in set.places {
        let instance = place.instance.and_then(|id| Some((id, name(id)?)));
        let id = first_group(candidates, |group| {
            takes_all(group)
                || instance.as_ref().is_some_and(|(id, name)| {
                    group.instances.iter().any(|pattern| pattern.matches(*id, name))
                })
        });
        places.entry(id).or_default().push(*place);
    }
    places.into_iter().map(|(id, places)| (id, Cow::Owned(places))).collect()
}

fn first_group(candidates: &[(GroupId, &Group)], takes: impl Fn(&Group) -> bool) -> GroupId {
    let group = candidates.iter().find(|(_, group)| takes(group));
    group.map_or(GroupId::Default, |(id, _)| *id)
}

/// The names of an instance domain, looked up on first use.
#[derive(Debug, Default)]
struct InstanceNames {
    of: Option<InDom>,
    names: HashMap<InstanceId, ByteText>,
}

impl InstanceNames {
    fn get(&mut self, catalog: &Catalog, indom: Option<InDom>, id: InstanceId) -> Option<ByteText> {
        if self.of != indom {
            let found = catalog.indoms.iter().find(|(known, _)| Some(*known) == indom);
            let instances = found.map_or(&[][..], |(_, instances)| instances);
            self.names = instances.iter().map(|one| (one.id, one.name.clone())).collect();
            self.of = indom;
        }
        self.names.get(&id).cloned()
    }
}

/// Returns the configurations of all groups, in the order in which they take metrics.
pub(crate) fn group_configs(settings: &Settings) -> Vec<(GroupId, Group)> {
    let configured = settings.reloadable.groups.iter().cloned().enumerate();
    let configured = configured.map(|(number, group)| (GroupId::Configured(number), group));
    let own = settings.own_groups().into_iter().enumerate();
    let own = own.map(|(number, group)| (GroupId::OwnMetrics(number), group));
    let default = Group {
        name: "default".to_owned(),
        metrics: Vec::new(),
        instances: Vec::new(),
        interval: None,
        log: LogMode::Every,
    };
    configured.chain(own).chain([(GroupId::Default, default)]).collect()
}

#[cfg(test)]
mod tests {
    use pcp_archive::{Instance, MetricDesc};
    use pcp_types::{Pmid, Units, ValueType};

    use super::*;
    use crate::config::InstancePattern;

    fn id(id: i32) -> InstanceId {
        InstanceId::new(id).unwrap()
    }

    /// The counter "mmv.a.count", the discrete "mmv.a.version", and "mmv.b.size"
    /// with the instances sda, sdb and tmp.
    fn catalog() -> (RecordShape, Catalog) {
        let indom = InDom::new(70, 1).unwrap();
        let metrics = [
            ("mmv.a.count", Semantics::Counter, None),
            ("mmv.a.version", Semantics::Discrete, None),
            ("mmv.b.size", Semantics::Instant, Some(indom)),
        ];
        let mut shape = RecordShape::default();
        let mut catalog = Catalog::default();
        for (item, (name, semantics, indom)) in metrics.into_iter().enumerate() {
            let pmid = Pmid::new(70, 1, item as u32).unwrap();
            let value_type = ValueType::U64;
            let units = Units::NONE;
            let desc = MetricDesc { pmid, value_type, indom, semantics, units };
            catalog.metrics.push((desc, name.into()));
            let place = |instance| ValueLocation { instance, source: 0, value: item };
            let places = match indom {
                Some(_) => (0..3).map(|number| place(Some(id(number)))).collect(),
                None => vec![place(None)],
            };
            shape.push(ValueSetShape { pmid, value_type, owners: &[0], places: &places });
        }
        let instances = ["sda", "sdb", "tmp"].into_iter().enumerate();
        let instances =
            instances.map(|(number, name)| Instance { id: id(number as i32), name: name.into() });
        catalog.indoms.push((indom, instances.collect()));
        (shape, catalog)
    }

    fn group(metrics: &[&str], instances: &[&str], log: LogMode) -> Group {
        Group {
            name: String::new(),
            metrics: metrics.iter().map(|&name| name.to_owned()).collect(),
            instances: instances
                .iter()
                .map(|&name| InstancePattern::Matching(name.to_owned()))
                .collect(),
            interval: None,
            log,
        }
    }

    /// Item and number of values of each set.
    fn sets(shape: &RecordShape) -> Vec<(u32, usize)> {
        shape.iter().map(|set| (set.pmid.item(), set.places.len())).collect()
    }

    /// The shares of groups of the configuration, and of the default group.
    fn partition_among(
        groups: &[Group],
        shape: RecordShape,
        catalog: &mut Catalog,
    ) -> Vec<GroupShape> {
        let ids = (0..groups.len()).map(GroupId::Configured);
        let configured: Vec<_> = ids.clone().zip(groups).collect();
        let mut shares = partition(shape, catalog, &configured);
        ids.chain([GroupId::Default]).map(|id| shares.remove(&id).unwrap_or_default()).collect()
    }

    fn every(groups: &[Group]) -> Vec<Vec<(u32, usize)>> {
        let (shape, mut catalog) = catalog();
        let shares = partition_among(groups, shape, &mut catalog);
        assert!(shares.iter().all(|share| share.on_change.is_empty()));
        shares.iter().map(|share| sets(&share.every)).collect()
    }

    #[test]
    fn what_no_group_takes_is_in_the_default_group() {
        assert_eq!(every(&[]), [[(0, 1), (1, 1), (2, 3)]]);
        let groups = [group(&["mmv.a"], &[], LogMode::Every)];
        assert_eq!(every(&groups), [vec![(0, 1), (1, 1)], vec![(2, 3)]]);
    }

    #[test]
    fn the_first_group_that_takes_a_metric_logs_it() {
        let groups = [
            group(&["*.version", "mmv.b.s"], &[], LogMode::Every),
            group(&["mmv"], &[], LogMode::Every),
        ];
        assert_eq!(every(&groups), [vec![(1, 1)], vec![(0, 1), (2, 3)], vec![]]);
    }

    #[test]
    fn instances_of_a_metric_may_be_of_several_groups() {
        let groups = [
            group(&["mmv"], &["sda"], LogMode::Every),
            group(&["mmv.b"], &["sd*"], LogMode::Every),
        ];
        assert_eq!(every(&groups), [vec![(2, 1)], vec![(2, 1)], vec![(0, 1), (1, 1), (2, 1)]]);
    }

    #[test]
    fn only_discrete_metrics_are_logged_on_change() {
        for log in [LogMode::Once, LogMode::OnChange] {
            let (shape, mut catalog) = catalog();
            let shares = partition_among(&[group(&["mmv"], &[], log)], shape, &mut catalog);
            assert_eq!(sets(&shares[0].every), [(0, 1), (2, 3)]);
            assert_eq!(sets(&shares[0].on_change), [(1, 1)]);
        }
    }

    #[test]
    fn what_is_never_logged_is_not_in_the_catalog() {
        let (shape, mut catalog) = catalog();
        let groups =
            [group(&["mmv.a"], &[], LogMode::Never), group(&["mmv"], &["tmp"], LogMode::Never)];
        let shares = partition_among(&groups, shape, &mut catalog);
        assert_eq!(shares[..2], [GroupShape::default(), GroupShape::default()]);
        assert_eq!(sets(&shares[2].every), [(2, 2)]);
        let names: Vec<&str> = catalog.metrics.iter().map(|(_, name)| &**name).collect();
        assert_eq!(names, ["mmv.b.size"]);
    }

    #[test]
    fn a_metric_without_values_goes_to_a_group_that_would_have_all() {
        let (shape, mut catalog) = catalog();
        let last = shape.iter().last().unwrap().pmid;
        let some = shape.iter().map(|set| {
            let places = if set.pmid == last { &[] } else { set.places };
            ValueSetShape { places, ..set }
        });
        let shape = some.collect();
        let groups =
            [group(&["mmv"], &["sd*"], LogMode::Every), group(&["mmv"], &[], LogMode::Every)];
        let shares = partition_among(&groups, shape, &mut catalog);
        assert_eq!(sets(&shares[1].every), [(0, 1), (1, 1), (2, 0)]);
    }
}
