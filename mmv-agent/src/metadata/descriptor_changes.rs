//! Rate limit on changes of metric descriptors.
//!
//! Input: a merged catalog. Output: the same without the metrics that changed too often. A metric
//! that changes its descriptor, or becomes a branch of the name tree, needs a new archive, as
//! after an upgrade of an application. A file that changes one at each tick would begin an archive
//! at each tick. So each user's files may begin some archives in a row and then one every few
//! minutes; until then such metrics are left out. A name and a PMID have one owner, so the user
//! who changes them is the one who is charged.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use pcp_archive::MetricDesc;
use pcp_types::{NameSpace, Pmid};

use super::MergedCatalog;
use crate::limits::FairRate;

/// Limit on archives that one user's files may begin at once.
const BURST: f64 = 10.0;
/// Limit on archives a second after that: one in five minutes.
const PER_SECOND: f64 = 1.0 / 300.0;

/// Limit on remembered metrics that no file has any more. Beyond it, metrics that are gone may
/// change their meaning once more without charge, which begins an archive.
const MAX_GONE: usize = 50_000;

/// The metadata of the current archive, as far as the sampler knows.
#[derive(Debug)]
pub(crate) struct DescriptorChanges {
    metrics: HashMap<Pmid, (MetricDesc, Arc<str>)>,
    names: NameSpace,
    archives: FairRate,
}

impl Default for DescriptorChanges {
    fn default() -> Self {
        let archives = FairRate::new(BURST, PER_SECOND);
        Self { metrics: HashMap::new(), names: NameSpace::default(), archives }
    }
}

impl DescriptorChanges {
    /// Forgets everything, since a new archive begins.
    pub(crate) fn forget(&mut self) {
        self.metrics.clear();
        self.names = NameSpace::default();
    }

    /// Removes the metrics whose descriptors changed although the owner of their file may not
    /// change any now, and returns their names. `owner` maps a source to its user.
    pub(crate) fn filter(
        &mut self,
        merged: &mut MergedCatalog,
        owner: impl Fn(usize) -> u32,
        now: Duration,
    ) -> Vec<String> {
        let present = merged.catalog.metrics.len();
        if self.metrics.len() > present.saturating_mul(2).saturating_add(MAX_GONE) {
            self.forget();
        }
        if self.metrics.is_empty() {
            self.learn(merged);
            return Vec::new();
        }
        let changed: HashSet<Pmid> = merged
            .catalog
            .metrics
            .iter()
            .filter(|(desc, name)| !self.fits(desc, name))
            .map(|(desc, _)| desc.pmid)
            .collect();
        if changed.is_empty() {
            return Vec::new();
        }
        let owners: HashMap<Pmid, u32> = merged
            .shape
            .iter()
            .filter(|set| changed.contains(&set.pmid))
            .filter_map(|set| Some((set.pmid, owner(*set.owners.first()?))))
            .collect();
        let allowed = self.allowed(owners.values().copied().collect(), now);
        let is_out = |pmid: &Pmid| owners.get(pmid).is_some_and(|owner| !allowed.contains(owner));
        let metrics = merged.catalog.metrics.iter();
        let out = metrics.filter(|(desc, _)| is_out(&desc.pmid)).map(|(_, name)| name.to_string());
        let out: Vec<String> = out.collect();
        merged.catalog.retain(|pmid| !is_out(&pmid));
        merged.shape.retain(|set| !is_out(&set.pmid));
        if !allowed.is_empty() {
            // The archive writer begins another archive with the present metrics only.
            self.forget();
            for (desc, name) in &merged.catalog.metrics {
                self.fits(desc, name);
            }
        }
        out
    }

    /// Learns the first catalog of an archive, whose names were checked when it was merged.
    fn learn(&mut self, merged: &mut MergedCatalog) {
        self.names = mem::take(&mut merged.names);
        let metrics = merged.catalog.metrics.iter();
        self.metrics = metrics.map(|(desc, name)| (desc.pmid, (*desc, Arc::clone(name)))).collect();
    }

    /// Returns true if a metric is unchanged or new.
    fn fits(&mut self, desc: &MetricDesc, name: &Arc<str>) -> bool {
        if let Some((known, known_name)) = self.metrics.get(&desc.pmid) {
            return known == desc && known_name == name;
        }
        let fits = self.names.take(name, desc.pmid).is_ok();
        if fits {
            self.metrics.insert(desc.pmid, (*desc, Arc::clone(name)));
        }
        fits
    }

    /// Returns the owners who may begin an archive now, each of whom is charged once.
    fn allowed(&mut self, owners: HashSet<u32>, now: Duration) -> HashSet<u32> {
        let mut allowed = owners;
        allowed.retain(|owner| self.archives.try_take(*owner, now));
        allowed
    }
}

#[cfg(test)]
mod tests {
    use pcp_types::{Semantics, Units, ValueType};

    use super::*;
    use crate::metadata::ValueSetShape;

    const SECOND: Duration = Duration::from_secs(1);

    /// Metrics by item and name, all of source 0 but those of item 9.
    fn merged(metrics: &[(u32, &str)]) -> MergedCatalog {
        let mut merged = MergedCatalog::default();
        for (item, name) in metrics {
            let desc = MetricDesc {
                pmid: Pmid::new(70, 1, *item).unwrap(),
                value_type: ValueType::U64,
                indom: None,
                semantics: Semantics::Counter,
                units: Units::NONE,
            };
            merged.names.take(name, desc.pmid).unwrap();
            merged.catalog.metrics.push((desc, (*name).into()));
            merged.shape.push(ValueSetShape {
                pmid: desc.pmid,
                value_type: desc.value_type,
                owners: &[usize::from(*item == 9)],
                places: &[],
            });
        }
        merged
    }

    fn filter(
        changes: &mut DescriptorChanges,
        metrics: &[(u32, &str)],
        now: Duration,
    ) -> Vec<String> {
        let mut merged = merged(metrics);
        let out = changes.filter(&mut merged, |source| source as u32, now);
        assert_eq!(merged.shape.len(), merged.catalog.metrics.len());
        assert_eq!(merged.shape.len() + out.len(), metrics.len());
        out
    }

    #[test]
    fn metrics_that_are_gone_are_remembered_up_to_a_number() {
        let mut changes = DescriptorChanges::default();
        for cluster in 1..100 {
            let names: Vec<String> = (0..1_000).map(|item| format!("c{cluster}.{item}")).collect();
            let metrics: Vec<_> = (0..).zip(names.iter().map(String::as_str)).collect();
            let mut merged = merged(&metrics);
            for (desc, _) in &mut merged.catalog.metrics {
                desc.pmid = Pmid::new(70, cluster, desc.pmid.item()).unwrap();
            }
            let out = changes.filter(&mut merged, |source| source as u32, SECOND);
            assert_eq!((out.len(), merged.catalog.metrics.len()), (0, 1_000));
            assert!(changes.metrics.len() <= MAX_GONE + 3_000, "{}", changes.metrics.len());
        }
    }

    #[test]
    fn metrics_may_come_and_go_as_often_as_they_like() {
        let mut changes = DescriptorChanges::default();
        for _ in 0..100 {
            assert!(filter(&mut changes, &[(1, "a"), (2, "b")], SECOND).is_empty());
            assert!(filter(&mut changes, &[(2, "b")], SECOND).is_empty());
        }
    }

    #[test]
    fn changing_descriptor_is_left_out_until_allowed_again() {
        for (one, other) in [
            (&[(1, "a")][..], &[(1, "b")][..]),
            (&[(1, "a")], &[(2, "a")]),
            (&[(1, "a")], &[(2, "a.b")]),
        ] {
            let mut changes = DescriptorChanges::default();
            filter(&mut changes, one, SECOND);
            for change in 0..10 {
                let metrics = if change % 2 == 0 { other } else { one };
                assert!(filter(&mut changes, metrics, SECOND).is_empty(), "{change}");
            }
            assert_eq!(filter(&mut changes, other, SECOND * 2).len(), 1);
            assert!(filter(&mut changes, one, SECOND * 3).is_empty(), "as it was");
            assert!(filter(&mut changes, other, SECOND * 400).is_empty(), "later");
        }
    }

    #[test]
    fn users_who_change_all_the_time_begin_few_archives_together() {
        let mut changes = DescriptorChanges::default();
        let mut begun =
            |user| (0..20).filter(|_| !changes.allowed([user].into(), SECOND).is_empty()).count();
        let archives = [1, 2, 3, 4].map(&mut begun);
        // Ten each, twenty together, and one more for each user.
        assert_eq!(archives, [10, 10, 1, 1]);
        assert_eq!(begun(0), 10, "root has its own");
    }

    #[test]
    fn one_users_changes_are_not_charged_to_another() {
        let mut changes = DescriptorChanges::default();
        for change in 0..30 {
            let name = if change % 2 == 0 { "a" } else { "b" };
            filter(&mut changes, &[(1, name), (9, "x")], SECOND);
        }
        assert!(filter(&mut changes, &[(9, "y")], SECOND).is_empty());
    }
}
