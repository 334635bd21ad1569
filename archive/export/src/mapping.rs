//! Names, units and labels of metrics in other engines, as `docs/export-mapping.md` defines them.
//!
//! In: the metadata of an archive, as it grows. Out: a [`Role`] for each metric and a [`Family`]
//! for each that is exported. A family keeps its name as long as the [`Mapping`] lives,
//! whatever metrics come later; no two families have a name in common.
//!
//! | metric | family | samples |
//! |---|---|---|
//! | `mmv.shop.orders`, counter, count | `mmv_shop_orders` | `mmv_shop_orders_total` |
//! | `mmv.shop.queue.age`, instant, millisec | `mmv_shop_queue_age_seconds` | the same |
//! | `mmv.shop.latency.bucket` and `.sum` | `mmv_shop_latency_seconds` | `_bucket`, `_sum`, `_count` |

mod label;
mod name;
mod unit;

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use pcp_archive::raw::{TextKind, TextTarget};
use pcp_archive::scan::histogram::HistogramLayout;
use pcp_archive::{Metadata, Metric, MetricDesc, Pmid, Semantics, Units, ValueType};

pub use label::{Label, LabelledInstance, MetricLabels};
#[cfg(feature = "parquet")]
pub(crate) use name::application;
pub use name::metric_name;
#[cfg(feature = "parquet")]
pub(crate) use name::suffix;
pub use unit::{Scale, base_unit};

/// The label that marks a counter of buckets as a histogram.
pub const HISTOGRAM_LABEL: &str = "histogram";

/// The type of a metric family in Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Grows from 0, and from 0 again after a restart.
    Counter,
    /// A value of a moment.
    Gauge,
    /// Cumulative counts by upper bound, their sum and their number.
    Histogram,
}

impl Kind {
    /// Returns the word for it in expositions.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }

    /// Returns the suffixes of the names of samples.
    const fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Counter => &["", "_total", "_created"],
            Self::Gauge => &[""],
            Self::Histogram => &["", "_bucket", "_sum", "_count", "_created"],
        }
    }
}

/// A metric as other engines see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// The metric's name in the archive; of a histogram what its metrics share.
    pub metric: String,
    /// The metric's name, cleaned and unique, without unit.
    pub base: String,
    /// The name of the family: the column's, with the unit.
    pub name: String,
    /// The base unit, which `name` ends with; empty without one.
    pub unit: String,
    /// Counter, gauge or histogram.
    pub kind: Kind,
    /// From the archive's values to those in `unit`; of a histogram for the bounds of
    /// buckets and the sum.
    pub scale: Scale,
    /// Help text in one line, never empty.
    pub help: String,
}

impl Family {
    /// Returns the name of the samples of a counter or gauge.
    pub fn sample_name(&self) -> String {
        match self.kind {
            Kind::Counter => format!("{}_total", self.name),
            Kind::Gauge | Kind::Histogram => self.name.clone(),
        }
    }
}

/// The name of the column that counts the values in a bucket.
pub(crate) const BUCKET_COUNT: &str = "count";

impl Family {
    /// Returns the name of the column of a metric with this role in a table, whose values stay in
    /// the units of the archive: without the application, which the table is named after.
    pub fn column(&self, role: Role) -> String {
        if let Role::Buckets(_) = role {
            return BUCKET_COUNT.to_owned();
        }
        let application = metric_name(name::application(&self.metric)) + "_";
        self.base.strip_prefix(&application).unwrap_or(&self.base).to_owned() + table_suffix(role)
    }

    /// Returns the whole name of the column, for tables that have another one of its short name.
    #[cfg(feature = "parquet")]
    pub(crate) fn whole_column(&self, role: Role) -> String {
        self.base.clone() + table_suffix(role)
    }
}

const fn table_suffix(role: Role) -> &'static str {
    match role {
        Role::Sum(_) => "_sum",
        _ => "",
    }
}

/// A family's place in [`Mapping::families`].
pub type FamilyId = usize;

/// The part that a metric has in the mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A family of its own.
    Family(FamilyId),
    /// The buckets of a histogram.
    Buckets(FamilyId),
    /// The sum of a histogram.
    Sum(FamilyId),
    /// The metric is not exported.
    LeftOut(LeftOut),
}

/// The reason why a metric is not exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeftOut {
    /// The values are strings.
    Strings,
    /// The values are event arrays.
    Events,
    /// The values are opaque bytes, or have no type.
    Opaque,
    /// It has no name.
    Unnamed,
}

impl LeftOut {
    /// Returns a description of the values, for messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strings => "strings",
            Self::Events => "events",
            Self::Opaque => "opaque bytes",
            Self::Unnamed => "values without a name",
        }
    }
}

/// The families of one host.
#[derive(Debug, Default)]
pub struct Mapping {
    families: Vec<Family>,
    /// The buckets of histograms, by family.
    layouts: HashMap<FamilyId, HistogramLayout>,
    roles: HashMap<Pmid, Role>,
    /// By the metric's name and kind, so that a metric is the same family in each archive.
    known: HashMap<(String, Kind, String), FamilyId>,
    taken: HashSet<String>,
}

impl Mapping {
    /// Creates a mapping without families.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the metadata of an archive, after which only its metrics have roles. Known metrics keep
    /// their families; new ones get names in the order of their names in the archive.
    pub fn set_metadata(&mut self, metadata: &Metadata) {
        let mut sorted: Vec<&Metric> = metadata.metrics().iter().collect();
        sorted.sort_by(|one, other| one.names.first().cmp(&other.names.first()));
        self.roles.clear();
        self.layouts.clear();
        let mut histograms: BTreeMap<Pmid, HistogramLayout> = BTreeMap::new();
        let mut sums: HashMap<Pmid, Pmid> = HashMap::new();
        for metric in &sorted {
            let Some(name) = metric.names.first() else { continue };
            if let Some(layout) = HistogramLayout::find(metadata, name, &metric.desc) {
                sums.extend(layout.sum().map(|sum| (sum, metric.desc.pmid)));
                histograms.insert(metric.desc.pmid, layout);
            }
        }
        for metric in &sorted {
            let pmid = metric.desc.pmid;
            if !sums.contains_key(&pmid) {
                let role = self.role_of(metric, metadata, histograms.remove(&pmid));
                self.roles.insert(pmid, role);
            }
        }
        for (sum, buckets) in sums {
            if let Some(Role::Buckets(family)) = self.roles.get(&buckets).copied() {
                self.roles.insert(sum, Role::Sum(family));
            }
        }
    }

    fn role_of(
        &mut self,
        metric: &Metric,
        metadata: &Metadata,
        layout: Option<HistogramLayout>,
    ) -> Role {
        let Some(name) = metric.names.first() else { return Role::LeftOut(LeftOut::Unnamed) };
        if let Some(left_out) = left_out(metric.desc.value_type) {
            return Role::LeftOut(left_out);
        }
        let help_text = help(metadata, &metric.desc, name);
        let Some(layout) = layout else {
            let kind = match metric.desc.semantics {
                Semantics::Counter => Kind::Counter,
                _ => Kind::Gauge,
            };
            return Role::Family(self.family_of(name, kind, metric.desc.units, help_text));
        };
        let family = self.family_of(layout.name(), Kind::Histogram, layout.units(), help_text);
        self.layouts.insert(family, layout);
        Role::Buckets(family)
    }

    fn family_of(&mut self, metric: &str, kind: Kind, units: Units, help: String) -> FamilyId {
        let (unit, scale) = base_unit(units);
        let key = (metric.to_owned(), kind, format!("{unit} {scale:?}"));
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let (base, name) = self.free_names(metric, kind, &unit);
        let metric = metric.to_owned();
        self.families.push(Family { metric, base, name, unit, kind, scale, help });
        self.known.insert(key, self.families.len() - 1);
        self.families.len() - 1
    }

    /// Takes names for a new column and family, appending the hash of the metric's name until they
    /// are unique.
    fn free_names(&mut self, metric: &str, kind: Kind, unit: &str) -> (String, String) {
        let mut column = metric_name(metric);
        if kind == Kind::Counter
            && let Some(short) = column.strip_suffix("_total")
        {
            column.truncate(short.len());
        }
        loop {
            let name = with_unit(&column, unit);
            let mut all: Vec<String> =
                kind.suffixes().iter().map(|suffix| format!("{name}{suffix}")).collect();
            all.push(column.clone());
            all.dedup();
            if all.iter().all(|name| !self.taken.contains(name)) {
                self.taken.extend(all);
                return (column, name);
            }
            column += &name::suffix(metric);
        }
    }

    /// Returns all families in the order in which they were added.
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// Returns a family; `None` if it does not exist.
    pub fn family(&self, id: FamilyId) -> Option<&Family> {
        self.families.get(id)
    }

    /// Returns the family of a metric with this role.
    pub fn role_family(&self, role: Role) -> Option<&Family> {
        match role {
            Role::Family(id) | Role::Buckets(id) | Role::Sum(id) => self.family(id),
            Role::LeftOut(_) => None,
        }
    }

    /// Returns the buckets of the histogram whose buckets a metric with this role counts.
    #[cfg(feature = "parquet")]
    pub(crate) fn role_layout(&self, role: Role) -> Option<&HistogramLayout> {
        match role {
            Role::Buckets(id) => self.layout(id),
            _ => None,
        }
    }

    /// Returns the buckets of a histogram that is in the metadata.
    pub fn layout(&self, id: FamilyId) -> Option<&HistogramLayout> {
        self.layouts.get(&id)
    }

    /// Returns the role of a metric; [`LeftOut::Unnamed`] if it is not in the metadata.
    pub fn role(&self, pmid: Pmid) -> Role {
        self.roles.get(&pmid).copied().unwrap_or(Role::LeftOut(LeftOut::Unnamed))
    }
}

/// Appends a unit to a name unless it ends with the unit already.
fn with_unit(name: &str, unit: &str) -> String {
    let has_it = name.strip_suffix(unit).is_some_and(|before| before.ends_with('_'));
    if unit.is_empty() || has_it { name.to_owned() } else { format!("{name}_{unit}") }
}

const fn left_out(value_type: ValueType) -> Option<LeftOut> {
    match value_type {
        ValueType::I32
        | ValueType::U32
        | ValueType::I64
        | ValueType::U64
        | ValueType::Float
        | ValueType::Double => None,
        ValueType::String => Some(LeftOut::Strings),
        ValueType::Event | ValueType::HighresEvent => Some(LeftOut::Events),
        _ => Some(LeftOut::Opaque),
    }
}

fn help(metadata: &Metadata, desc: &MetricDesc, name: &str) -> String {
    let target = TextTarget::Metric(desc.pmid);
    let texts = [TextKind::OneLine, TextKind::Full].into_iter();
    let text = texts.filter_map(|kind| metadata.text(target, kind)).find(|text| !text.is_empty());
    text.map_or_else(|| format!("The metric {name} of Performance Co-Pilot."), ToString::to_string)
}

#[cfg(test)]
mod tests;
