//! Which group logs a metric, or an instance of it.
//!
//! No values here: this is decided once for each catalog. There is one share
//! for each group of the configuration, in its order, and a last one for what
//! no group has.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use mmv_archive::scan::glob;
use pcp_types::{InDom, InstanceId, Semantics};

use crate::catalog::Catalog;
use crate::config::{Group, LogMode};
use crate::record::{Layout, Place, ValueSetLayout};

/// What one group logs.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Share {
    /// The values of each of its records.
    pub every: Layout,
    /// Discrete metrics that are logged once or on change.
    pub seldom: Layout,
}

/// Deals the layout out among the groups. Metrics that are never logged are
/// taken from the catalog.
pub(crate) fn deal(layout: Layout, catalog: &mut Catalog, groups: &[Group]) -> Vec<Share> {
    let mut shares = vec![Share::default(); groups.len() + 1];
    if groups.is_empty() {
        shares[0].every = layout;
        return shares;
    }
    let mut names = InstanceNames::default();
    let mut unlogged = HashSet::new();
    // Both are in the order of the PMIDs.
    for (set, (desc, name)) in layout.into_iter().zip(&catalog.metrics) {
        let mut logged = false;
        let fitting = |number: &usize| {
            groups[*number].metrics.iter().any(|pattern| glob::means(pattern, name))
        };
        let candidates: Vec<usize> = (0..groups.len()).filter(fitting).collect();
        let parts = split(set, &candidates, groups, |id| names.get(catalog, desc.indom, id));
        for (number, part) in parts {
            let mode = groups.get(number).map_or(LogMode::Every, |group| group.log);
            let discrete = desc.semantics == Semantics::Discrete;
            match mode {
                LogMode::Never => continue,
                LogMode::OnChange | LogMode::Once if discrete => shares[number].seldom.push(part),
                _ => shares[number].every.push(part),
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

/// The parts of a metric's values by group; a metric without values goes, with
/// its sources, to the first group that would have any.
fn split(
    set: ValueSetLayout,
    candidates: &[usize],
    groups: &[Group],
    mut name: impl FnMut(InstanceId) -> Option<Arc<str>>,
) -> Vec<(usize, ValueSetLayout)> {
    let rest = groups.len();
    let unfiltered = |number: &&usize| groups[**number].instances.is_empty();
    let first = candidates.first().copied().unwrap_or(rest);
    if first == rest || groups[first].instances.is_empty() {
        return vec![(first, set)];
    }
    let mut places: Vec<Vec<Place>> = vec![Vec::new(); rest + 1];
    for place in &set.places {
        let instance = place.instance.and_then(|id| Some((id, name(id)?)));
        let takes = |number: &&usize| {
            let wanted = &groups[**number].instances;
            let means = |(id, name): &(InstanceId, Arc<str>)| {
                wanted.iter().any(|pattern| pattern.means(*id, name))
            };
            wanted.is_empty() || instance.as_ref().is_some_and(means)
        };
        let number = candidates.iter().find(takes).copied().unwrap_or(rest);
        places[number].push(*place);
    }
    if set.places.is_empty() {
        let number = candidates.iter().find(unfiltered).copied().unwrap_or(rest);
        return vec![(number, set)];
    }
    let parts = places.into_iter().enumerate().filter(|(_, places)| !places.is_empty());
    parts.map(|(number, places)| (number, ValueSetLayout { places, ..set.clone() })).collect()
}

/// The names of a domain's instances, made when they are first asked for.
#[derive(Debug, Default)]
struct InstanceNames {
    of: Option<InDom>,
    names: HashMap<InstanceId, Arc<str>>,
}

impl InstanceNames {
    fn get(&mut self, catalog: &Catalog, indom: Option<InDom>, id: InstanceId) -> Option<Arc<str>> {
        if self.of != indom {
            let found = catalog.indoms.iter().find(|(known, _)| Some(*known) == indom);
            let instances = found.map_or(&[][..], |(_, instances)| instances);
            self.names = instances.iter().map(|one| (one.id, Arc::clone(&one.name))).collect();
            self.of = indom;
        }
        self.names.get(&id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use mmv_archive::{Instance, MetricDesc};
    use pcp_types::{Pmid, Units, ValueType};

    use super::*;
    use crate::config::InstancePattern;

    fn id(id: i32) -> InstanceId {
        InstanceId::new(id).unwrap()
    }

    /// The counter "mmv.a.count", the discrete "mmv.a.version", and "mmv.b.size"
    /// with the instances sda, sdb and tmp.
    fn catalog() -> (Layout, Catalog) {
        let indom = InDom::new(70, 1).unwrap();
        let metrics = [
            ("mmv.a.count", Semantics::Counter, None),
            ("mmv.a.version", Semantics::Discrete, None),
            ("mmv.b.size", Semantics::Instant, Some(indom)),
        ];
        let mut layout = Layout::new();
        let mut catalog = Catalog::default();
        for (item, (name, semantics, indom)) in metrics.into_iter().enumerate() {
            let pmid = Pmid::new(70, 1, item as u32).unwrap();
            let value_type = ValueType::U64;
            let units = Units::NONE;
            let desc = MetricDesc { pmid, value_type, indom, semantics, units };
            catalog.metrics.push((desc, name.into()));
            let place = |instance| Place { instance, source: 0, value: item };
            let places = match indom {
                Some(_) => (0..3).map(|number| place(Some(id(number)))).collect(),
                None => vec![place(None)],
            };
            layout.push(ValueSetLayout { pmid, value_type, owners: vec![0], places });
        }
        let instances = ["sda", "sdb", "tmp"].into_iter().enumerate();
        let instance =
            |(number, name): (usize, &str)| Instance { id: id(number as i32), name: name.into() };
        catalog.indoms.push((indom, instances.map(instance).collect()));
        (layout, catalog)
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
    fn sets(layout: &Layout) -> Vec<(u32, usize)> {
        layout.iter().map(|set| (set.pmid.item(), set.places.len())).collect()
    }

    fn every(groups: &[Group]) -> Vec<Vec<(u32, usize)>> {
        let (layout, mut catalog) = catalog();
        let shares = deal(layout, &mut catalog, groups);
        assert!(shares.iter().all(|share| share.seldom.is_empty()));
        shares.iter().map(|share| sets(&share.every)).collect()
    }

    #[test]
    fn what_no_group_has_is_in_the_last_share() {
        assert_eq!(every(&[]), [[(0, 1), (1, 1), (2, 3)]]);
        let groups = [group(&["mmv.a"], &[], LogMode::Every)];
        assert_eq!(every(&groups), [vec![(0, 1), (1, 1)], vec![(2, 3)]]);
    }

    #[test]
    fn the_first_group_that_has_a_metric_logs_it() {
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
    fn only_discrete_metrics_are_logged_seldom() {
        for log in [LogMode::Once, LogMode::OnChange] {
            let (layout, mut catalog) = catalog();
            let shares = deal(layout, &mut catalog, &[group(&["mmv"], &[], log)]);
            assert_eq!(sets(&shares[0].every), [(0, 1), (2, 3)]);
            assert_eq!(sets(&shares[0].seldom), [(1, 1)]);
        }
    }

    #[test]
    fn what_is_never_logged_is_not_in_the_catalog() {
        let (layout, mut catalog) = catalog();
        let groups =
            [group(&["mmv.a"], &[], LogMode::Never), group(&["mmv"], &["tmp"], LogMode::Never)];
        let shares = deal(layout, &mut catalog, &groups);
        assert_eq!(shares[..2], [Share::default(), Share::default()]);
        assert_eq!(sets(&shares[2].every), [(2, 2)]);
        let names: Vec<&str> = catalog.metrics.iter().map(|(_, name)| &**name).collect();
        assert_eq!(names, ["mmv.b.size"]);
    }

    #[test]
    fn a_metric_without_values_goes_to_a_group_that_would_have_all() {
        let (mut layout, mut catalog) = catalog();
        layout[2].places.clear();
        let groups =
            [group(&["mmv"], &["sd*"], LogMode::Every), group(&["mmv"], &[], LogMode::Every)];
        let shares = deal(layout, &mut catalog, &groups);
        assert_eq!(sets(&shares[1].every), [(0, 1), (1, 1), (2, 0)]);
    }
}
