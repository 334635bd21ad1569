//! The flight recorder's part of the loader's plan.

use std::collections::HashSet;
use std::sync::Arc;

use pcp_types::{InDom, Pmid, names};

use crate::metadata::{Catalog, RecordShape};

/// The values that the flight recorder samples.
#[derive(Debug)]
pub(crate) struct RecorderPlan {
    pub(crate) shape: RecordShape,
    pub(crate) catalog: Arc<Catalog>,
}

impl RecorderPlan {
    /// Creates the plan for metrics with these names or patterns, or for all if there are none.
    /// Metrics that are not in the catalog, since no group logs them, are left out.
    pub(crate) fn new(patterns: &[String], mut shape: RecordShape, catalog: &Arc<Catalog>) -> Self {
        let mut chosen: HashSet<Pmid> = HashSet::new();
        for (desc, name) in &catalog.metrics {
            if patterns.is_empty() || patterns.iter().any(|pattern| names::selects(pattern, name)) {
                chosen.insert(desc.pmid);
            }
        }
        shape.retain(|set| chosen.contains(&set.pmid));
        let mut catalog = Arc::clone(catalog);
        if chosen.len() < catalog.metrics.len() {
            let mut part = Catalog::clone(&catalog);
            part.retain(|pmid| chosen.contains(&pmid));
            let indoms: HashSet<InDom> =
                part.metrics.iter().filter_map(|(desc, _)| desc.indom).collect();
            part.indoms.retain(|(indom, _)| indoms.contains(indom));
            catalog = Arc::new(part);
        }
        Self { shape, catalog }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use pcp_archive::MetricDesc;
    use pcp_types::{Semantics, Units, ValueType};

    use super::*;
    use crate::metadata::{ValueLocation, ValueSetShape};

    fn pmid(item: u32) -> Pmid {
        Pmid::new(70, 1, item).unwrap()
    }

    /// A metric for each of these names.
    pub(crate) fn catalog(names: &[&str]) -> Arc<Catalog> {
        let metrics = (0..).zip(names).map(|(item, name)| {
            let desc = MetricDesc {
                pmid: pmid(item),
                value_type: ValueType::U64,
                indom: None,
                semantics: Semantics::Counter,
                units: Units::NONE,
            };
            (desc, Arc::from(*name))
        });
        Arc::new(Catalog { metrics: metrics.collect(), ..Catalog::default() })
    }

    /// Values of one source for so many metrics.
    pub(crate) fn shape(metrics: u32) -> RecordShape {
        let places: Vec<_> = (0..metrics as usize)
            .map(|value| ValueLocation { instance: None, source: 0, value })
            .collect();
        let sets = (0..metrics).map(|item| ValueSetShape {
            pmid: pmid(item),
            value_type: ValueType::U64,
            owners: &[0],
            places: &places[item as usize..=item as usize],
        });
        sets.collect()
    }

    #[test]
    fn only_chosen_metrics_that_are_logged_are_recorded() {
        // The third one is logged by no group.
        let catalog = catalog(&["mmv.a.x", "mmv.b"]);
        let plan = |patterns: &[&str]| {
            let patterns: Vec<_> = patterns.iter().map(|name| (*name).to_owned()).collect();
            let plan = RecorderPlan::new(&patterns, shape(3), &catalog);
            let sets: Vec<_> = plan.shape.iter().map(|set| set.pmid).collect();
            let metrics: Vec<_> = plan.catalog.metrics.iter().map(|(desc, _)| desc.pmid).collect();
            assert_eq!(sets, metrics);
            sets
        };
        assert_eq!(plan(&[]), [pmid(0), pmid(1)]);
        assert_eq!(plan(&["mmv.a"]), [pmid(0)]);
        assert_eq!(plan(&["*.b", "mmv.a.?"]), [pmid(0), pmid(1)]);
        assert_eq!(plan(&["mmv.c"]), []);
    }
}
