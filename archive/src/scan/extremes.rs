//! The least and greatest values of gauges in archives that were reduced.
//!
//! In: a gauge. Out: the metrics that have its minimum and its maximum in each interval, beside its
//! mean. A spike of a second is seen in them however long the intervals are.
//!
//! | gauge | its minimum, its maximum |
//! |---|---|
//! | `mmv.shop.queue`, 70.5.3 | `reduced.minimum.mmv.shop.queue`, 326.5.3; `reduced.maximum.mmv.shop.queue`, 326.2053.3 |
//! | PMID D.C.I, D from 1 to 254, C below 2048 | D+256.C.I, D+256.C+2048.I |
//! | PMID 70.C.I, C from 2048 | 255.C.I, 256.C.I |
//! | any other | none |
//!
//! The instances are in a copy of the gauge's domain with the domain number of the PMID, since
//! pmlogcheck wants both to have one.
//!
//! So a gauge has the same in each archive, and archives can be merged. PCP registers no domain
//! above 254 (`src/pmns/stdpmid.pcp`).

use super::{SelectedMetric, Selection, programs};
use crate::{InDom, Metadata, MetricDesc, Pmid, Semantics};

/// The part of the name space with these metrics.
const BRANCH: &str = "reduced.";

/// Domains that are registered are below it.
const FREE_DOMAIN: u32 = 255;
/// The distance from a domain to that of its extremes.
const DOMAINS: u32 = 256;
/// The clusters of minima, and then of maxima.
const CLUSTERS: u32 = 2048;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Minimum,
    Maximum,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::Minimum, Self::Maximum];

    pub(crate) fn name(self, gauge: &str) -> String {
        format!("{BRANCH}{}.{gauge}", self.word())
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Minimum => "minimum",
            Self::Maximum => "maximum",
        }
    }

    /// Returns the PMID of the metric with this extreme of another; `None` if there is none.
    pub(crate) fn pmid(self, gauge: Pmid) -> Option<Pmid> {
        let place = u32::from(self == Self::Maximum);
        let domain = gauge.domain();
        let cluster = gauge.cluster();
        let (domain, cluster) = match domain {
            1..FREE_DOMAIN if cluster < CLUSTERS => (domain + DOMAINS, cluster + place * CLUSTERS),
            programs::DOMAIN => (FREE_DOMAIN + place, cluster),
            _ => return None,
        };
        Pmid::new(domain, cluster, gauge.item()).ok()
    }

    /// Returns the descriptor of this extreme of a metric; `None` if it has none.
    pub(crate) fn desc(self, gauge: &SelectedMetric) -> Option<MetricDesc> {
        let is_gauge = gauge.has_numbers() && gauge.desc.semantics == Semantics::Instant;
        let pmid = self.pmid(gauge.desc.pmid).filter(|_| is_gauge)?;
        let indom = match gauge.desc.indom {
            Some(indom) => Some(InDom::new(pmid.domain(), indom.serial()).ok()?),
            None => None,
        };
        Some(MetricDesc { pmid, indom, ..gauge.desc })
    }

    pub(crate) fn gauge_of(self, name: &str) -> Option<&str> {
        name.strip_prefix(BRANCH)?.strip_prefix(self.word())?.strip_prefix('.')
    }

    fn found(self, gauge: &SelectedMetric, metadata: &Metadata) -> Option<String> {
        let desc = self.desc(gauge)?;
        let name = self.name(&gauge.name);
        if metadata.metric_by_name(&name)?.desc != desc {
            return None;
        }
        // Instances are matched by their numbers.
        for indom in [gauge.desc.indom, desc.indom].into_iter().flatten() {
            if !metadata.indom_history(indom)?.has_constant_numbers() {
                return None;
            }
        }
        Some(name)
    }
}

/// Returns whether a metric is an extreme of one that the metadata has.
pub fn is_extreme(metric: &SelectedMetric, metadata: &Metadata) -> bool {
    Side::BOTH.iter().any(|side| {
        let gauge = side.gauge_of(&metric.name).and_then(|name| metadata.metric_by_name(name));
        gauge.is_some_and(|gauge| side.pmid(gauge.desc.pmid) == Some(metric.desc.pmid))
    })
}

/// A gauge, and the metric with its least or greatest values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GaugeExtreme {
    pub(crate) gauge: Pmid,
    pub(crate) extreme: Pmid,
    pub(crate) side: Side,
}

/// Adds the extremes of the gauges of a selection that its source has, and returns them in the
/// order of the gauges.
pub(crate) fn select(selection: &mut Selection<'_>) -> Vec<GaugeExtreme> {
    let metadata = selection.source().metadata();
    if metadata.subtree(BRANCH.trim_end_matches('.')).next().is_none() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut names = Vec::new();
    for metric in selection.metrics() {
        let gauge = metric.desc.pmid;
        for side in Side::BOTH {
            let Some(name) = side.found(metric, metadata) else { continue };
            let Some(extreme) = side.pmid(gauge) else { continue };
            found.push(GaugeExtreme { gauge, extreme, side });
            names.push(name);
        }
    }
    for (GaugeExtreme { gauge, .. }, name) in found.iter().zip(names) {
        let instances = selection.labelled_instances(*gauge).cloned();
        selection.select_operand(&name, instances.as_ref());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_have_pmids_of_their_own() {
        let pmid = |text: &str| text.parse::<Pmid>().unwrap();
        for (gauge, extremes) in [
            ("70.5.3", ["326.5.3", "326.2053.3"].map(Some)),
            ("60.2047.1023", ["316.2047.1023", "316.4095.1023"].map(Some)),
            ("254.0.0", ["510.0.0", "510.2048.0"].map(Some)),
            ("70.4095.1", ["255.4095.1", "256.4095.1"].map(Some)),
            ("60.2048.1", [None, None]),
            ("255.1.1", [None, None]),
            ("326.5.3", [None, None]),
        ] {
            let found = Side::BOTH.map(|side| side.pmid(pmid(gauge)));
            assert_eq!(found, extremes.map(|text| text.map(pmid)), "{gauge}");
        }
        assert_eq!(Side::Maximum.gauge_of("reduced.maximum.a.b"), Some("a.b"));
        assert_eq!(Side::Minimum.gauge_of("reduced.maximum.a.b"), None);
    }
}
