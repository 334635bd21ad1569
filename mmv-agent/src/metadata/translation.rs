//! Translates the metadata of a file into PCP's terms.
//!
//! Items, serials and clusters of MMV become PMIDs, instance domains and descriptors of PCP
//! (`src/pmdas/mmv/src/mmv.c`):
//!
//! | MMV | PCP |
//! |---|---|
//! | item `i` of a file with cluster `c` | PMID 70.c.i, unless another metric has `i` ([`items`](crate::metadata::items)) |
//! | indom with serial `s` | indom 70.((c << 11) \| s), cut to 22 bits; 70.(1024 \| s) of the agent's own file |
//! | type ELAPSED | 64-bit counter in microseconds, whatever its type in the file |
//! | label of the cluster, an indom, an item, an instance | label set of the same |

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::sync::Arc;

use mmv_format::view::{self, Contents, Flags, Label, LabelClass};
use pcp_archive::raw::LabelTarget;
use pcp_archive::{Instance, MetricDesc};
use pcp_types::{InDom, InstanceId, Pmid, Units};

use super::clusters::Placement;
use super::items::{Item, Items};
use super::names::{NameError, complete_name};
use super::numbers::{DOMAIN, indom, is_clusters_own};
use crate::source::ValuePlan;

#[derive(Debug, Clone)]
pub(crate) struct LoggedMetric {
    pub desc: MetricDesc,
    /// The complete name.
    pub name: Arc<str>,
    pub short_help: Option<String>,
    pub long_help: Option<String>,
}

/// An instance domain as logged.
#[derive(Debug, Clone)]
pub(crate) struct LoggedIndom {
    pub indom: InDom,
    /// True if no other cluster can have the number, since cluster and serial are both small
    /// enough. Serials made by hashing, as some producers do, are not.
    pub own: bool,
    /// Instances in the file's order.
    pub instances: Vec<Instance>,
    pub short_help: Option<String>,
    pub long_help: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct LoggedLabel {
    pub target: LabelTarget,
    /// The instance, for a label of one.
    pub instance: Option<InstanceId>,
    pub name: String,
    /// Value as JSON.
    pub json_value: String,
    /// True if it is not part of the identity of a metric.
    pub optional: bool,
}

/// All logged metadata of a file.
#[derive(Debug, Default)]
pub(crate) struct Translation {
    /// Cluster of its PMIDs and instance domains.
    pub cluster: u32,
    /// Metrics by their index in the file's metadata; `None` for one that cannot be logged.
    pub metrics: Vec<Option<LoggedMetric>>,
    pub indoms: Vec<LoggedIndom>,
    pub labels: Vec<LoggedLabel>,
}

impl Translation {
    /// Adds a label of the whole file, unless the file has a label of this name.
    pub(crate) fn add_label(&mut self, name: &str, value: &str) {
        let cluster = self.cluster;
        self.labels.push(LoggedLabel {
            target: LabelTarget::Cluster { domain: DOMAIN, cluster },
            instance: None,
            name: name.to_owned(),
            json_value: serde_json::Value::from(value).to_string(),
            optional: true,
        });
    }

    /// Returns the number of metrics that can be logged.
    pub(crate) fn logged_metrics(&self) -> usize {
        self.metrics.iter().flatten().count()
    }

    /// Returns the number of values in a plan whose metrics can be logged.
    pub(crate) fn logged_values(&self, plan: &ValuePlan) -> usize {
        let metrics = plan.keys.iter().filter_map(|key| self.metrics.get(key.metric));
        metrics.flatten().count()
    }
}

/// Returns the metrics of a file by item, for the assignment of its cluster, and the reasons why
/// others cannot be logged.
pub(crate) fn items(file: &OsStr, contents: &Contents) -> (Items, Vec<NameError>) {
    let no_prefix = contents.header.flags.contains(Flags::NO_PREFIX);
    let mut items = BTreeMap::new();
    let mut errors = Vec::new();
    for metric in &contents.metrics {
        match item(file, no_prefix, metric) {
            Ok(item) => drop(items.entry(metric.item).or_insert(item)),
            Err(error) => errors.push(error),
        }
    }
    (Arc::new(items), errors)
}

fn item(file: &OsStr, no_prefix: bool, metric: &view::Metric) -> Result<Item, NameError> {
    let name = complete_name(file, no_prefix, &metric.name)?;
    Ok(Item {
        name: name.into(),
        value_type: metric.kind.value_type(),
        semantics: metric.semantics,
        units: tidy(metric.units),
        indom: metric.indom,
    })
}

/// Returns the serials of all instance domains that a file has or refers to.
pub(crate) fn indom_serials(contents: &Contents) -> Vec<u32> {
    let own = contents.indoms.iter().map(|indom| indom.serial);
    let of_metrics = contents.metrics.iter().filter_map(|metric| metric.indom);
    let is_of_indom =
        |label: &&Label| matches!(label.class, LabelClass::Indom | LabelClass::Instances);
    let of_labels = contents.labels.iter().filter(is_of_indom).map(|label| label.identity);
    let serials: BTreeSet<u32> = own.chain(of_metrics).chain(of_labels).collect();
    serials.into_iter().collect()
}

/// Translates a file's metadata for its cluster.
pub(crate) fn translate(contents: &Contents, items: &Items, place: &Placement) -> Translation {
    let cluster = place.cluster;
    let pmid = |item: u32| {
        let number = place.renumbered.get(&item).copied().unwrap_or(item);
        Pmid::new(DOMAIN, cluster, number).ok()
    };
    let metrics = contents.metrics.iter();
    let metrics = metrics.map(|found| {
        let item = items.get(&found.item)?;
        metric(found, item, pmid(found.item)?)
    });
    // An instance domain that another user's file has is left out with everything attached to it.
    let is_foreign = |indom: InDom| place.foreign.contains_key(&indom);
    let metrics = metrics.map(|metric| {
        metric.filter(|metric| metric.desc.indom.is_none_or(|indom| !is_foreign(indom)))
    });
    let indoms = contents.indoms.iter();
    let indoms = indoms.filter_map(|found| instance_domain(found, cluster));
    let indoms = indoms.filter(|found| !is_foreign(found.indom)).collect();
    let mut labels = labels(contents, cluster, pmid);
    labels.retain(|label| match label.target {
        LabelTarget::InDom(indom) | LabelTarget::Instances(indom) => !is_foreign(indom),
        _ => true,
    });
    Translation { cluster, metrics: metrics.collect(), indoms, labels }
}

fn metric(found: &view::Metric, item: &Item, pmid: Pmid) -> Option<LoggedMetric> {
    let cluster = pmid.cluster();
    let indom = match item.indom {
        Some(serial) => Some(indom(cluster, serial)?),
        None => None,
    };
    Some(LoggedMetric {
        desc: MetricDesc {
            pmid,
            value_type: item.value_type,
            indom,
            semantics: item.semantics,
            units: item.units,
        },
        name: Arc::clone(&item.name),
        short_help: found.short_help.clone(),
        long_help: found.long_help.clone(),
    })
}

fn instance_domain(found: &view::Indom, cluster: u32) -> Option<LoggedIndom> {
    Some(LoggedIndom {
        indom: indom(cluster, found.serial)?,
        own: is_clusters_own(cluster, found.serial),
        instances: found
            .instances
            .iter()
            .map(|instance| Instance { id: instance.id, name: instance.name.as_str().into() })
            .collect(),
        short_help: found.short_help.clone(),
        long_help: found.long_help.clone(),
    })
}

/// Returns the unit without the scales of dimensions that it does not have, which pmlogcheck
/// reports as errors.
fn tidy(units: Units) -> Units {
    let mut raw = units.raw();
    for (dimension, scale) in [
        (units.space_dimension(), 0x000f_0000),
        (units.time_dimension(), 0x0000_f000),
        (units.count_dimension(), 0x0000_0f00),
    ] {
        if dimension == 0 {
            raw &= !scale;
        }
    }
    Units::from_raw(raw)
}

fn labels(
    contents: &Contents,
    cluster: u32,
    pmid: impl Fn(u32) -> Option<Pmid>,
) -> Vec<LoggedLabel> {
    let logged = contents.labels.iter().filter_map(|label| {
        let target = match label.class {
            // The cluster that the file got, not the one it asked for.
            LabelClass::Cluster => LabelTarget::Cluster { domain: DOMAIN, cluster },
            LabelClass::Indom => LabelTarget::InDom(indom(cluster, label.identity)?),
            LabelClass::Item => LabelTarget::Item(pmid(label.identity)?),
            LabelClass::Instances => LabelTarget::Instances(indom(cluster, label.identity)?),
        };
        Some(LoggedLabel {
            target,
            instance: label.instance,
            name: label.name.clone(),
            json_value: label.json_value.clone(),
            optional: label.optional,
        })
    });
    logged.collect()
}

#[cfg(test)]
mod tests {
    use mmv_format::view::{HeaderFields, Metric, MetricKind};
    use pcp_types::{Semantics, ValueType};

    use super::*;
    use crate::metadata::items::RenumberedItems;

    fn contents(metrics: Vec<Metric>) -> Contents {
        Contents {
            header: HeaderFields {
                version: 1,
                generation: 1,
                flags: Flags::default(),
                pid: 0,
                cluster: 0,
                file_len: 0,
            },
            growing: None,
            indoms: Vec::new(),
            metrics,
            values: Vec::new(),
            labels: Vec::new(),
            skipped: Vec::new(),
            unlisted: 0,
        }
    }

    fn place(cluster: u32) -> Placement {
        Placement {
            cluster,
            moved: None,
            renumbered: RenumberedItems::new(),
            foreign: BTreeMap::new(),
        }
    }

    fn counter(name: &str, item: u32, kind: MetricKind) -> Metric {
        Metric {
            name: name.into(),
            item,
            kind,
            semantics: Semantics::Counter,
            units: Units::NONE,
            indom: Some(3),
            short_help: None,
            long_help: None,
        }
    }

    #[test]
    fn items_and_serials_become_pmids_and_indoms_as_in_pmdammv() {
        let kind = MetricKind::Numeric(ValueType::U32);
        let contents = contents(vec![counter("a", 17, kind)]);
        let (items, errors) = items(OsStr::new("f"), &contents);
        assert_eq!(errors, []);
        let translation = translate(&contents, &items, &place(1));
        let logged = translation.metrics[0].as_ref().unwrap();
        assert_eq!(&*logged.name, "mmv.f.a");
        assert_eq!(logged.desc.pmid.to_string(), "70.1.17");
        assert_eq!(logged.desc.indom.unwrap().to_string(), "70.2051");
        assert_eq!(logged.desc.value_type, ValueType::U32);
    }

    #[test]
    fn a_metric_that_is_renumbered_takes_its_labels_along() {
        let kind = MetricKind::Numeric(ValueType::U32);
        let mut contents = contents(vec![counter("a", 17, kind)]);
        contents.labels.push(Label {
            class: LabelClass::Item,
            identity: 17,
            instance: None,
            name: "unit".into(),
            json_value: "1".into(),
            optional: false,
        });
        let (items, _) = items(OsStr::new("f"), &contents);
        let place = Placement { renumbered: RenumberedItems::from([(17, 3)]), ..place(1) };
        let translation = translate(&contents, &items, &place);
        let pmid = Pmid::new(DOMAIN, 1, 3).unwrap();
        assert_eq!(translation.metrics[0].as_ref().unwrap().desc.pmid, pmid);
        assert_eq!(translation.labels[0].target, LabelTarget::Item(pmid));
    }

    #[test]
    fn metric_without_valid_complete_name_is_left_out() {
        let contents = contents(vec![counter("a", 1, MetricKind::Elapsed)]);
        let (items, errors) = items(OsStr::new("my-app"), &contents);
        assert_eq!(errors.len(), 1);
        assert!(translate(&contents, &items, &place(1)).metrics[0].is_none());
    }

    #[test]
    fn scales_of_dimensions_that_a_unit_does_not_have_are_dropped() {
        let seconds = Units::seconds();
        assert_eq!(tidy(seconds), seconds);
        assert_eq!(tidy(Units::kilobytes().per_second()), Units::kilobytes().per_second());
        assert_eq!(tidy(Units::from_raw(seconds.raw() | 0x0002_0100)), seconds);
        // Count 1 with a count scale of 4; the scales of space and time mean nothing.
        assert_eq!(tidy(Units::from_raw(0x0012_3400)), Units::from_raw(0x0010_0400));
    }
}
