//! How often metrics may change their meaning.
//!
//! A metric that changes its descriptor, or becomes the folder of others, needs a
//! new archive. An application does that when it is upgraded. A file that does it at each tick
//! would begin an archive at each tick; so each user's files may do it some times
//! in a row and then every few minutes, and until they may again, such metrics are
//! left out.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use mmv_archive::MetricDesc;
use pcp_types::{NameSpace, Pmid};

use crate::allowance::Allowance;
use crate::catalog::Merged;

/// How many archives in a row one user's files may begin.
const IN_A_ROW: f64 = 10.0;
/// And how many later on, in a second: one in five minutes.
const PER_SECOND: f64 = 1.0 / 300.0;

/// What the archive that is being written knows, as far as the sampler can tell.
#[derive(Debug, Default)]
pub(crate) struct Meanings {
    metrics: HashMap<Pmid, (MetricDesc, Arc<str>)>,
    names: NameSpace,
    allowances: HashMap<u32, Allowance>,
}

impl Meanings {
    /// An archive begins that knows nothing.
    pub(crate) fn forget(&mut self) {
        self.metrics.clear();
        self.names = NameSpace::default();
    }

    /// Takes those metrics out that have another meaning than before though
    /// the owner of their file may not change any now; returns their names.
    /// `owner` says which user a source is of.
    pub(crate) fn sift(
        &mut self,
        merged: &mut Merged,
        owner: impl Fn(usize) -> u32,
        now: Duration,
    ) -> Vec<String> {
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
            .layout
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
        merged.layout.retain(|set| !is_out(&set.pmid));
        if !allowed.is_empty() {
            // The sink begins another archive, which knows only what is there.
            self.forget();
            for (desc, name) in &merged.catalog.metrics {
                self.fits(desc, name);
            }
        }
        out
    }

    /// Takes the first catalog of an archive as it is: merging it has shown already
    /// that its names go together.
    fn learn(&mut self, merged: &mut Merged) {
        self.names = mem::take(&mut merged.names);
        let metrics = merged.catalog.metrics.iter();
        self.metrics = metrics.map(|(desc, name)| (desc.pmid, (*desc, Arc::clone(name)))).collect();
    }

    /// Whether a metric is what it was; one that is new becomes known.
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

    /// Those of the owners that may begin an archive now; each is charged once.
    fn allowed(&mut self, owners: HashSet<u32>, now: Duration) -> HashSet<u32> {
        self.allowances.retain(|_, allowance| !allowance.is_full(now));
        let mut allowed = owners;
        allowed.retain(|owner| {
            let new = || Allowance::new(IN_A_ROW, PER_SECOND);
            self.allowances.entry(*owner).or_insert_with(new).spend(1.0, now)
        });
        allowed
    }
}

#[cfg(test)]
mod tests {
    use pcp_types::{Semantics, Units, ValueType};

    use super::*;
    use crate::record::ValueSetLayout;

    const SECOND: Duration = Duration::from_secs(1);

    /// Metrics by item and name, all of source 0 but those of item 9.
    fn merged(metrics: &[(u32, &str)]) -> Merged {
        let mut merged = Merged::default();
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
            merged.layout.push(ValueSetLayout {
                pmid: desc.pmid,
                value_type: desc.value_type,
                owners: vec![usize::from(*item == 9)],
                places: Vec::new(),
            });
        }
        merged
    }

    fn sift(meanings: &mut Meanings, metrics: &[(u32, &str)], now: Duration) -> Vec<String> {
        let mut merged = merged(metrics);
        let out = meanings.sift(&mut merged, |source| source as u32, now);
        assert_eq!(merged.layout.len(), merged.catalog.metrics.len());
        assert_eq!(merged.layout.len() + out.len(), metrics.len());
        out
    }

    #[test]
    fn metrics_may_come_and_go_as_often_as_they_like() {
        let mut meanings = Meanings::default();
        for _ in 0..100 {
            assert!(sift(&mut meanings, &[(1, "a"), (2, "b")], SECOND).is_empty());
            assert!(sift(&mut meanings, &[(2, "b")], SECOND).is_empty());
        }
    }

    #[test]
    fn a_meaning_that_changes_all_the_time_is_left_out_until_it_may_change_again() {
        for (one, other) in [
            (&[(1, "a")][..], &[(1, "b")][..]),
            (&[(1, "a")], &[(2, "a")]),
            (&[(1, "a")], &[(2, "a.b")]),
        ] {
            let mut meanings = Meanings::default();
            sift(&mut meanings, one, SECOND);
            for change in 0..10 {
                let metrics = if change % 2 == 0 { other } else { one };
                assert!(sift(&mut meanings, metrics, SECOND).is_empty(), "{change}");
            }
            assert_eq!(sift(&mut meanings, other, SECOND * 2).len(), 1);
            assert!(sift(&mut meanings, one, SECOND * 3).is_empty(), "as it was");
            assert!(sift(&mut meanings, other, SECOND * 400).is_empty(), "later");
        }
    }

    #[test]
    fn one_users_changes_are_not_charged_to_another() {
        let mut meanings = Meanings::default();
        for change in 0..30 {
            let name = if change % 2 == 0 { "a" } else { "b" };
            sift(&mut meanings, &[(1, name), (9, "x")], SECOND);
        }
        assert!(sift(&mut meanings, &[(9, "y")], SECOND).is_empty());
    }
}
