//! Finds out which buckets of a histogram the instances of a metric are.
//!
//! A histogram is a counter with an instance for each bucket, and a label
//! `histogram` with the units of the values that are counted; its domain has the
//! labels `bucket_precision` and `bucket_max`, which define the buckets
//! (`docs/mmv-format.md` has all of this). A counter of the sum of all values
//! goes with it: `NAME.bucket` and `NAME.sum`.
//!
//! Buckets of a domain without those two labels are known by their instances'
//! names, as `path=/,bucket=96..103`. Such a metric has a histogram for each instance of
//! the sum, which is named `path=/`.

mod buckets;

use hashbrown::HashMap;

pub(crate) use self::buckets::{Bucket, Buckets};
use super::select_instances;
use crate::{
    InDom, IndomHistory, Instance, InstanceId, LabelTarget, Metadata, MetricDesc, Pmid, Semantics,
    Timestamp, Units,
};

/// The label of the counter of buckets, with the units of the values.
const UNITS: &str = "histogram";
/// Label of a domain with the precision of its buckets.
const PRECISION: &str = "bucket_precision";
/// The highest value that does not share its bucket with all higher ones.
const MAX: &str = "bucket_max";

/// The histogram, or those of a metric with labels, that is counted by bucket.
#[derive(Debug, Clone)]
pub struct HistogramLayout {
    name: String,
    sum: Option<MetricDesc>,
    units: Units,
    buckets: Buckets,
    /// The instance of each histogram, in order; `None` for a single one.
    histograms: Vec<Option<InstanceId>>,
}

/// One bucket of a histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HistogramBucket {
    /// The instance of the sum whose histogram it is of; `None` for a single histogram.
    pub histogram: Option<InstanceId>,
    /// The least value in it.
    pub first: f64,
    /// The greatest value in it; `None` of the last bucket, which has no upper bound.
    pub last: Option<f64>,
}

impl HistogramLayout {
    /// Returns the layout of the histogram whose buckets a metric of this name counts; `None` of
    /// other metrics. All instances that the metadata has are known.
    pub fn find(metadata: &Metadata, metric: &str, desc: &MetricDesc) -> Option<Self> {
        let MetricDesc { pmid, indom, semantics, value_type, .. } = *desc;
        let units = text_label(metadata, LabelTarget::Item(pmid), UNITS)?;
        let units = Units::parse(&units).ok()?.units;
        if semantics != Semantics::Counter || !value_type.is_numeric() {
            return None;
        }
        let name = metric.strip_suffix(".bucket").unwrap_or(metric).to_owned();
        let sum = metadata.metric_by_name(&format!("{name}.sum")).map(|metric| metric.desc);
        let number = |name| label(metadata, LabelTarget::InDom(indom?), name)?.parse::<u64>().ok();
        if let Some((precision, max)) = number(PRECISION).zip(number(MAX)) {
            // Numbers that became other buckets have the bounds in their names.
            let domain = metadata.indom_history(indom?);
            let buckets = match domain.filter(|domain| !domain.has_constant_numbers()) {
                Some(domain) => Buckets::ranges(&domain.by_identity().union()),
                None => Buckets::numbered(u32::try_from(precision).ok()?, max)?,
            };
            let sum = sum.filter(|desc| desc.indom.is_none());
            return Some(Self::single(name, sum, units, buckets));
        }
        let (buckets, histograms) =
            histograms_by_name(metadata, indom?, sum.and_then(|desc| desc.indom))?;
        Some(Self { name, sum, units, buckets, histograms })
    }

    pub(crate) fn single(
        name: String,
        sum: Option<MetricDesc>,
        units: Units,
        buckets: Buckets,
    ) -> Self {
        Self { name, sum, units, buckets, histograms: vec![None] }
    }

    /// Returns the name that the metrics of the histogram share.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the counter of the sum of all values, if there is one.
    pub fn sum(&self) -> Option<Pmid> {
        self.sum.map(|desc| desc.pmid)
    }

    /// Returns the domain of the sum, with an instance for each histogram; `None` for a single
    /// one.
    pub fn indom(&self) -> Option<InDom> {
        self.sum?.indom
    }

    /// Returns the units of the values, and so of the bounds of buckets.
    pub const fn units(&self) -> Units {
        self.units
    }

    /// Returns the bucket that an instance is.
    pub fn bucket(&self, instance: InstanceId) -> Option<HistogramBucket> {
        let Bucket { histogram, first, last } = self.bucket_in(Some(instance))?;
        let histogram = self.histograms.get(histogram).copied()?;
        Some(HistogramBucket { histogram, first, last })
    }

    /// Returns the buckets of the histograms that the texts [select](select_instances) among the
    /// instances of the sum. `domain` is that of the buckets. None of a single histogram.
    pub fn select_buckets(
        &self,
        metadata: &Metadata,
        domain: InDom,
        texts: &[impl AsRef<str>],
    ) -> Vec<InstanceId> {
        let Some(sum) = self.indom() else { return Vec::new() };
        let histograms = select_instances(texts, metadata.indom_history(sum));
        let buckets = metadata.identities(domain).map(IndomHistory::union).unwrap_or_default();
        let mut selected = Vec::new();
        for bucket in buckets {
            let histogram = self.bucket(bucket.id).and_then(|bucket| bucket.histogram);
            if histogram.is_some_and(|histogram| histograms.contains(&histogram)) {
                selected.push(bucket.id);
            }
        }
        selected
    }

    /// Returns the bucket of an instance, with the place of the histogram.
    pub(crate) fn bucket_in(&self, instance: Option<InstanceId>) -> Option<Bucket> {
        self.buckets.get(instance?)
    }

    /// Returns the instance of each histogram, in order; `None` for a single one.
    pub(crate) fn histograms(&self) -> &[Option<InstanceId>] {
        &self.histograms
    }
}

/// Returns the buckets of a domain by their names, and the instances of the histograms, which are
/// those of another domain, or one alone. `None` if they are not buckets.
fn histograms_by_name(
    metadata: &Metadata,
    buckets: InDom,
    histograms: Option<InDom>,
) -> Option<(Buckets, Vec<Option<InstanceId>>)> {
    let named = |indom| {
        let history = metadata.identities(indom);
        history.map(IndomHistory::union).unwrap_or_default()
    };
    // By number, as values are.
    let owners: Vec<Instance> = histograms.map(named).unwrap_or_default();
    let (places, histograms): (HashMap<&str, usize>, Vec<_>) = match histograms {
        Some(_) => {
            let all = owners.iter().enumerate();
            all.map(|(place, one)| ((&*one.name, place), Some(one.id))).unzip()
        }
        None => (HashMap::from([("", 0)]), vec![None]),
    };
    let buckets = Buckets::named(&named(buckets), |labels| places.get(labels).copied());
    let any = matches!(&buckets, Buckets::Named(named) if !named.is_empty());
    any.then_some((buckets, histograms))
}

/// Returns the latest value of a label, as JSON.
fn label(metadata: &Metadata, target: LabelTarget, name: &str) -> Option<String> {
    let sets = metadata.labels_at(target, Timestamp::MAX)?;
    let mut pairs = sets.iter().flat_map(crate::LabelSet::pairs);
    pairs.find(|(found, ..)| *found == name).map(|(_, value, _)| value.to_owned())
}

/// Returns the value of a label that is a string, without its quotes.
fn text_label(metadata: &Metadata, target: LabelTarget, name: &str) -> Option<String> {
    let value = label(metadata, target, name)?;
    Some(value.strip_prefix('"')?.strip_suffix('"')?.to_owned())
}

#[cfg(test)]
mod tests;
