//! The columns of a report and the lines of a plot: one for each instance of
//! each metric, with its units.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pcp_archive::raw::IndomHistory;
use pcp_archive::replay::{Replay, Sample, SelectedMetric};
use pcp_archive::scan::MetricLabels;
use pcp_archive::{InDom, InstanceId, Metadata, Semantics, Timestamp, Units, Value};
use pcp_types::names::selects;
use pcp_types::{Conversion, ParsedUnits};

use crate::Failure;
use crate::order::{SeriesOrder, error_instances, histogram_name};
use crate::selection::{ChosenInstances, warn_of_unknown_instances};
use crate::text::{natural_order, warn};

/// The most units that a warning lists.
const MAX_UNITS: usize = 5;

/// One instance of a metric.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// The index of the metric in the replay.
    pub(crate) metric: usize,
    pub(crate) instance: Option<InstanceId>,
    /// The newest number that records have for the instance.
    pub(crate) number: Option<InstanceId>,
    pub(crate) name: String,
    /// The name of the instance; `None` without instances, and if no record of the domain
    /// names it.
    pub(crate) instance_name: Option<Arc<str>>,
    /// The labels of the instance, for JSON alone.
    pub(crate) labels: Labels,
    pub(crate) scale: Scale,
}

/// The labels of an instance by name, without those that it inherits.
pub(crate) type Labels = BTreeMap<String, String>;

/// The units in which the values of a metric are reported, and the conversion.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Scale {
    pub(crate) units: String,
    /// The values are rates or converted, not those that were logged.
    pub(crate) is_computed: bool,
    /// The time that a value stands for, where the metric says so.
    pub(crate) time: Option<ValueTime>,
    /// The units of the values, if a table chooses others that suit their size.
    pub(crate) scaled_from: Option<Units>,
    conversion: Option<Conversion>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueTime {
    /// The interval before the sample, of which it is the mean.
    Interval,
    /// The moment of the sample; changes between two samples are not seen.
    Instant,
}

impl ValueTime {
    /// Returns the word in the head of a table column.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Interval => "average",
            Self::Instant => "instant",
        }
    }

    fn new(metric: &SelectedMetric, is_rate: bool) -> Option<Self> {
        match metric.desc.semantics {
            _ if is_rate => Some(Self::Interval),
            Semantics::Instant if metric.has_numbers() => Some(Self::Instant),
            _ => None,
        }
    }
}

impl Scale {
    /// Returns the first of `wanted` with the same dimension, else the metric's own units or those
    /// of its rates.
    pub(crate) fn new(metric: &SelectedMetric, rates: bool, wanted: &[WantedUnits]) -> Self {
        let is_rate = rates && metric.has_rates();
        let own = if is_rate { metric.rate_units() } else { metric.desc.units };
        let time = ValueTime::new(metric, is_rate);
        if let Some((conversion, text)) = conversion_to(own, wanted) {
            let units = text.to_owned();
            let conversion = Some(conversion);
            return Self { units, is_computed: true, time, scaled_from: None, conversion };
        }
        let units = units(metric, is_rate);
        Self { units, is_computed: is_rate, time, scaled_from: None, conversion: None }
    }

    /// Lets a table choose units that suit the size of the values, unless others are wanted.
    /// Discrete numbers without a unit are not scaled: they name something.
    pub(crate) fn scaled(mut self, metric: &SelectedMetric) -> Self {
        let is_rate = self.is_computed && metric.has_rates();
        let own = if is_rate { metric.rate_units() } else { metric.desc.units };
        let is_name = own == Units::NONE && metric.desc.semantics == Semantics::Discrete;
        let is_quantity = metric.has_numbers() && !is_name;
        self.scaled_from = Some(own).filter(|_| is_quantity && self.conversion.is_none());
        self
    }

    /// Converts a value to these units. Values that are not numbers are returned unchanged.
    pub(crate) fn apply<'v>(&self, value: Value<'v>) -> Value<'v> {
        match (self.conversion, value.as_f64()) {
            (Some(conversion), Some(number)) => Value::Double(conversion.apply(number)),
            _ => value,
        }
    }
}

/// Returns the units of a metric or of its rates. The rate of a time is a utilisation.
pub(crate) fn units(metric: &SelectedMetric, rates: bool) -> String {
    match (rates, metric.rate_units()) {
        (true, Units::NONE) if metric.desc.units != Units::NONE => "utilisation".to_owned(),
        (true, units) => units.to_string(),
        (false, _) => metric.desc.units.to_string(),
    }
}

/// Units to convert to, and their text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WantedUnits {
    text: String,
    parsed: ParsedUnits,
}

impl WantedUnits {
    /// Reads `Mbyte / sec`, `2 Kbytes`, `count x 10^-2`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let parsed = Units::parse(text).map_err(|error| {
            let alike = match &error {
                pcp_types::Error::UnknownUnit(word) => most_like(word),
                _ => None,
            };
            let question = alike.map(|unit| format!("; did you mean {unit}?")).unwrap_or_default();
            Failure::Usage(format!("{error}{question}"))
        })?;
        Ok(Self { text: text.trim().to_owned(), parsed })
    }
}

/// Returns the conversion to the first of `wanted` with the dimension of some units, and its text.
pub(crate) fn conversion_to(own: Units, wanted: &[WantedUnits]) -> Option<(Conversion, &str)> {
    wanted.iter().find_map(|wanted| {
        let conversion = own.conversion_to(wanted.parsed.units)?;
        Some((conversion.and_times(wanted.parsed.multiplier), wanted.text.as_str()))
    })
}

fn most_like(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    let word = word.as_str();
    let singular = word.strip_suffix('s').unwrap_or(word);
    let abbreviated = ABBREVIATIONS.iter().find(|(short, _)| *short == word || *short == singular);
    if let Some((_, unit)) = abbreviated {
        return Some(unit);
    }
    let likeness =
        |unit: &str| strsim::normalized_damerau_levenshtein(word, &unit.to_ascii_lowercase());
    let alike = UNITS.iter().map(|unit| (likeness(unit), *unit));
    let best = alike.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    (best.0 >= MIN_LIKENESS).then_some(best.1)
}

const UNITS: [&str; 16] = [
    "byte", "Kbyte", "Mbyte", "Gbyte", "Tbyte", "Pbyte", "Ebyte", "Zbyte", "Ybyte", "nanosec",
    "microsec", "millisec", "sec", "min", "hour", "count",
];
/// Common abbreviations of units, and the names that PCP has for them.
const ABBREVIATIONS: [(&str, &str); 4] =
    [("nsec", "nanosec"), ("usec", "microsec"), ("msec", "millisec"), ("hr", "hour")];
/// Minimum similarity of a unit that is proposed instead of an unknown one.
const MIN_LIKENESS: f64 = 0.6;

/// The options that determine the columns of a report.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each follows from an option")]
pub(crate) struct Choice<'o> {
    /// The names or numbers of instances; all if empty.
    pub(crate) instances: &'o [String],
    /// Counters are converted to rates.
    pub(crate) rates: bool,
    pub(crate) units: &'o [WantedUnits],
    /// Values are reported as logged.
    pub(crate) raw: bool,
    /// Numbers are scaled by column.
    pub(crate) scaled: bool,
    /// Columns have the labels of their instances.
    pub(crate) labels: bool,
}

impl AsRef<Self> for Column {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Column {
    /// Returns the instance's name or else its number; `None` without instances.
    pub(crate) fn instance_title(&self) -> Option<Arc<str>> {
        instance_title(self.instance, self.instance_name.as_ref())
    }
}

/// Returns the instance's name or else its number; `None` without instances.
pub(crate) fn instance_title(id: Option<InstanceId>, name: Option<&Arc<str>>) -> Option<Arc<str>> {
    name.cloned().or_else(|| id.map(|id| id.get().to_string().into()))
}

/// Returns the columns of all chosen instances with values, ordered by metric and name of the
/// instance; metrics without instances are always among them. An instance without a name exists at
/// no time for replay and has a column only if the values are raw. Warns of chosen instances that
/// do not exist.
pub(crate) fn columns(
    metadata: &Metadata,
    replay: &Replay<'_>,
    choice: &Choice<'_>,
) -> Vec<Column> {
    warn_of_unknown_instances(choice.instances, metadata, replay.metrics());
    warn_of_unused_units(choice.units, &own_units(replay, choice.rates));
    let mut columns = Vec::new();
    let mut chosen = ChosenInstances::new(choice.instances, metadata);
    let mut labels = InstanceLabels::new(metadata);
    for (index, metric) in replay.metrics().enumerate() {
        let mut scale = Scale::new(metric, choice.rates, choice.units);
        if choice.scaled {
            scale = scale.scaled(metric);
        }
        if replay.is_derived(index) {
            scale.is_computed = true;
            // Expressions can contain rates.
            scale.time = scale.time.filter(|time| *time == ValueTime::Interval);
        }
        let names = metric.desc.indom.map(|indom| names_in_replay(metadata, replay, indom));
        let has_choice = metric.desc.indom.is_some() && !choice.instances.is_empty();
        let selected = has_choice.then(|| chosen.of_metric(metric));
        for instance in replay.instances(index) {
            let column = Column {
                metric: index,
                instance,
                number: number_in_records(metadata, metric.desc.indom, instance),
                name: metric.name.clone(),
                instance_name: names.as_ref().zip(instance).and_then(|(n, id)| n.get(&id).cloned()),
                labels: if choice.labels {
                    labels.get(metric.desc.indom, instance)
                } else {
                    Labels::new()
                },
                scale: scale.clone(),
            };
            let can_have_values =
                choice.raw || instance.is_none() || column.instance_name.is_some();
            let is_chosen =
                selected.as_ref().zip(instance).is_none_or(|(all, id)| all.contains(&id));
            if can_have_values && is_chosen {
                columns.push(column);
            }
        }
    }
    columns.sort_by(|one: &Column, other| {
        let by_name =
            || compare_names(one.instance_name.as_deref(), other.instance_name.as_deref());
        one.metric.cmp(&other.metric).then_with(by_name)
    });
    columns
}

/// The labels of instances, which are read once for each instance domain.
pub(crate) struct InstanceLabels<'a> {
    metadata: &'a Metadata,
    domains: HashMap<InDom, MetricLabels>,
}

impl<'a> InstanceLabels<'a> {
    pub(crate) fn new(metadata: &'a Metadata) -> Self {
        Self { metadata, domains: HashMap::new() }
    }

    /// Returns the labels of an instance; none without an instance.
    pub(crate) fn get(&mut self, indom: Option<InDom>, instance: Option<InstanceId>) -> Labels {
        let (Some(indom), Some(instance)) = (indom, instance) else { return Labels::new() };
        let metadata = self.metadata;
        let domain = self.domains.entry(indom);
        let domain = domain.or_insert_with(|| MetricLabels::of_domain(metadata, indom));
        domain.of_instance(instance).cloned().unwrap_or_default()
    }
}

pub(crate) fn names_in_replay(
    metadata: &Metadata,
    replay: &Replay<'_>,
    indom: InDom,
) -> HashMap<InstanceId, Arc<str>> {
    let mut names = instance_names(metadata, indom);
    names.extend(replay.groups(indom).map(|(group, name)| (group, Arc::clone(name))));
    names
}

/// Sorts columns by the metrics that were asked for, and those of each in an order. Expressions follow,
/// as they were given.
pub(crate) fn sort_columns(
    columns: &mut [Column],
    asked: &[String],
    replay: &Replay<'_>,
    mut order: SeriesOrder<'_>,
) {
    let metrics: Vec<&SelectedMetric> = replay.metrics().collect();
    let metadata = order.metadata();
    let names: Vec<&str> =
        asked.iter().map(|text| text.split('{').next().unwrap_or(text)).collect();
    columns.sort_by_cached_key(|column| {
        let metric = metrics.get(column.metric);
        let place = names.iter().position(|name| selects(name, &column.name));
        let key = metric.map(|metric| order.key(metric, column.instance, false));
        let is_expression = place.is_none()
            && replay.is_derived(column.metric)
            && metric.is_some_and(|metric| histogram_name(metadata, metric).is_none());
        (place.unwrap_or(names.len()), is_expression.then_some(column.metric), key)
    });
}

/// Returns the columns of instances that were ever labelled as errors, by metric and instance.
pub(crate) fn error_columns(
    metadata: &Metadata,
    replay: &Replay<'_>,
    columns: &[Column],
) -> HashSet<(usize, Option<InstanceId>)> {
    let domains: Vec<Option<InDom>> = replay.metrics().map(|metric| metric.desc.indom).collect();
    let mut errors: HashMap<InDom, HashSet<InstanceId>> = HashMap::new();
    let mut found = HashSet::new();
    for column in columns {
        let domain = domains.get(column.metric).copied().flatten();
        let Some((indom, instance)) = domain.zip(column.instance) else { continue };
        let of_domain = errors.entry(indom).or_insert_with(|| error_instances(metadata, indom));
        if of_domain.contains(&instance) {
            found.insert((column.metric, column.instance));
        }
    }
    found
}

/// Returns the units of the values of metrics, or of their rates, and their text.
fn own_units(replay: &Replay<'_>, rates: bool) -> Vec<(Units, String)> {
    let mut own = Vec::new();
    for metric in replay.metrics() {
        let is_rate = rates && metric.has_rates();
        let of_values = if is_rate { metric.rate_units() } else { metric.desc.units };
        own.push((of_values, units(metric, is_rate)));
    }
    own
}

/// Warns of units that no values can be converted to, with those that the values have.
pub(crate) fn warn_of_unused_units(wanted: &[WantedUnits], own: &[(Units, String)]) {
    for wanted in wanted {
        let wanted_units = wanted.parsed.units;
        if own.iter().any(|(units, _)| units.conversion_to(wanted_units).is_some()) {
            continue;
        }
        let mut found: Vec<&str> = own.iter().map(|(_, text)| text.as_str()).collect();
        found.iter_mut().filter(|text| text.is_empty()).for_each(|text| *text = "none");
        found.sort_unstable();
        found.dedup();
        found.truncate(MAX_UNITS);
        let text = &wanted.text;
        let found = found.join("\", \"");
        warn(&format_args!(
            "--units \"{text}\" fits no metric and is ignored: the units here are \"{found}\", \
             which convert to others of their dimension, as byte to Mbyte, sec to hour, count to \
             \"count x 10^3\", each also \"/ sec\""
        ));
    }
}

pub(crate) fn cell<'a>(sample: &Sample<'a>, column: &Column) -> Option<Value<'a>> {
    let values = sample.values.get(column.metric)?;
    let place = values.binary_search_by_key(&column.instance, |(instance, _)| *instance).ok()?;
    values.get(place).map(|(_, value)| column.scale.apply(*value))
}

/// Returns the columns with a value in a sample, and the value in the column's units. Columns are
/// in the order of metrics and instances. The cost grows with the values of the sample, not with
/// the number of columns.
pub(crate) fn present<'s, 'a>(
    sample: &'s Sample<'a>,
    columns: &'s [&'s Column],
) -> impl Iterator<Item = (&'s Column, Value<'a>)> {
    let mut remaining = columns;
    let values = sample.values.iter().enumerate().flat_map(|(metric, values)| {
        values.iter().map(move |(instance, value)| ((metric, *instance), *value))
    });
    values.filter_map(move |(key, value)| {
        let key_of = |column: &Column| (column.metric, column.instance);
        if remaining.first().is_some_and(|first| key_of(first) < key) {
            remaining =
                remaining.get(remaining.partition_point(|column| key_of(column) < key)..)?;
        }
        let (column, after) = remaining.split_first().filter(|(first, _)| key_of(first) == key)?;
        remaining = after;
        Some((*column, column.scale.apply(value)))
    })
}

/// Orders the names of instances; instances without a name come last.
pub(crate) fn compare_names(one: Option<&str>, other: Option<&str>) -> Ordering {
    match (one, other) {
        (Some(one), Some(other)) => natural_order(one, other),
        (one, other) => other.is_some().cmp(&one.is_some()),
    }
}

pub(crate) fn number_in_records(
    metadata: &Metadata,
    indom: Option<InDom>,
    instance: Option<InstanceId>,
) -> Option<InstanceId> {
    let Some(history) = indom.and_then(|indom| metadata.indom_history(indom)) else {
        return instance;
    };
    history.number_at(instance?, Timestamp::MAX)
}

/// Returns the name of every instance that a domain ever had, by its identity.
pub(crate) fn instance_names(metadata: &Metadata, indom: InDom) -> HashMap<InstanceId, Arc<str>> {
    let history = metadata.identities(indom);
    let instances = history.map(IndomHistory::union).unwrap_or_default();
    instances.into_iter().map(|instance| (instance.id, instance.name.into())).collect()
}

#[cfg(test)]
mod tests {
    use pcp_archive::Pmid;

    use super::*;
    use pcp_archive::{MetricDesc, ValueType};

    fn counter(units: Units) -> SelectedMetric {
        let desc = MetricDesc {
            pmid: Pmid::new(70, 1, 1).unwrap(),
            value_type: ValueType::U64,
            indom: None,
            semantics: Semantics::Counter,
            units,
        };
        SelectedMetric { name: "acme.requests".to_owned(), desc }
    }

    #[test]
    fn values_are_converted_to_the_first_units_of_their_dimension() {
        let wanted = ["sec", "Mbyte", "10 Kbyte / sec"].map(|text| {
            WantedUnits::parse(text).unwrap_or_else(|failure| panic!("{text}: {failure}"))
        });
        let value = |units, rates| {
            let scale = Scale::new(&counter(units), rates, &wanted);
            (scale.apply(Value::U64(1 << 20)).as_f64().unwrap(), scale.units)
        };
        assert_eq!(value(Units::bytes(), false), (1.0, "Mbyte".to_owned()));
        assert_eq!(value(Units::bytes(), true), (102.4, "10 Kbyte / sec".to_owned()));
        assert_eq!(value(Units::count(), false), (1_048_576.0, "count".to_owned()));
        assert_eq!(value(Units::milliseconds(), true).1, "utilisation");
    }

    #[test]
    fn the_unit_that_was_meant_is_proposed() {
        for (text, unit) in
            [("Mbite", "Mbyte"), ("secnd", "sec"), ("counts / huor", "hour"), ("msec", "millisec")]
        {
            let failure = WantedUnits::parse(text).unwrap_err().to_string();
            assert!(failure.ends_with(&format!("; did you mean {unit}?")), "{text}: {failure}");
        }
        let failure = WantedUnits::parse("furlongs").unwrap_err().to_string();
        assert!(failure.contains("units are byte") && !failure.contains("mean"), "{failure}");
    }

    #[test]
    fn present_returns_the_columns_that_have_a_cell() {
        let id = |number| Some(InstanceId::new(number).unwrap());
        let column = |metric, instance| Column {
            metric,
            instance,
            number: instance,
            name: String::new(),
            instance_name: None,
            labels: Labels::new(),
            scale: Scale::default(),
        };
        let columns = [
            column(0, None),
            column(2, id(1)),
            column(2, id(4)),
            column(2, id(9)),
            column(3, id(4)),
        ];
        let values = |of: &[(Option<InstanceId>, u32)]| {
            of.iter().map(|(instance, value)| (*instance, Value::U32(*value))).collect()
        };
        let sample = Sample {
            timestamp: pcp_archive::Timestamp::EPOCH,
            is_mark: false,
            values: vec![
                values(&[(None, 1)]),
                values(&[(id(4), 2)]),
                values(&[(id(0), 3), (id(4), 4), (id(5), 5), (id(9), 6), (id(10), 7)]),
                values(&[(id(4), 8)]),
            ],
        };
        let cells: Vec<_> =
            columns.iter().filter_map(|one| Some((one, cell(&sample, one)?))).collect();
        let columns: Vec<&Column> = columns.iter().collect();
        assert_eq!(present(&sample, &columns).collect::<Vec<_>>(), cells);
        assert_eq!(cells.len(), 4);
    }
}
