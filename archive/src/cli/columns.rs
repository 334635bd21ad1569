//! What a report has a column and a plot a line for: each instance of each
//! metric, and in which units.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use pcp_types::{Conversion, InDom, InstanceId, ParsedUnits, Units};

use crate::cli::failure::Failure;
use crate::cli::warn;
use crate::replay::{Replay, Sample, SelectedMetric};
use crate::scan::{Selection, instances};
use crate::{IndomHistory, Metadata, Source, Value};

/// One metric and instance.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// The place of the metric in the replay.
    pub(crate) metric: usize,
    pub(crate) instance: Option<InstanceId>,
    /// The metric's name.
    pub(crate) name: String,
    /// The instance's newest name; `None` without instances, and where no
    /// record of the domain names it.
    pub(crate) instance_name: Option<Arc<str>>,
    pub(crate) scale: Scale,
}

/// In which units the values of a metric are reported, and how they get there.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Scale {
    pub(crate) units: String,
    /// The values are rates, or are converted: no longer what was logged.
    pub(crate) is_computed: bool,
    conversion: Option<Conversion>,
}

impl Scale {
    /// The metric's own units, or those of its rates, or the first of `wanted`
    /// that measure the same.
    pub(crate) fn new(metric: &SelectedMetric, rates: bool, wanted: &[WantedUnits]) -> Self {
        let is_rate = rates && metric.has_rates();
        let own = if is_rate { metric.rate_units() } else { metric.desc.units };
        let converted = wanted.iter().find_map(|wanted| {
            let conversion = own.conversion_to(wanted.parsed.units)?;
            Some((wanted.text.clone(), conversion.and_times(wanted.parsed.multiplier)))
        });
        match converted {
            Some((units, conversion)) => {
                Self { units, is_computed: true, conversion: Some(conversion) }
            }
            None => Self { units: units(metric, is_rate), is_computed: is_rate, conversion: None },
        }
    }

    /// A value in these units. What is no number stays as it is.
    pub(crate) fn apply<'v>(&self, value: Value<'v>) -> Value<'v> {
        match (self.conversion, value.as_f64()) {
            (Some(conversion), Some(number)) => Value::Double(conversion.apply(number)),
            _ => value,
        }
    }
}

/// The units of a metric, or of its rates: a utilisation is a time by a time,
/// and has none.
pub(crate) fn units(metric: &SelectedMetric, rates: bool) -> String {
    match (rates, metric.rate_units()) {
        (true, Units::NONE) if metric.desc.units != Units::NONE => "utilisation".to_owned(),
        (true, units) => units.to_string(),
        (false, _) => metric.desc.units.to_string(),
    }
}

/// Metrics and instances selected by name; says which names there are not.
///
/// # Errors
///
/// [`Failure::NoData`] if none of the metrics is there.
pub(crate) fn selected<'a>(
    source: Source<'a>,
    names: &[String],
    instances: &[String],
) -> Result<Selection<'a>, Failure> {
    let mut selection = Selection::new(source);
    for name in names {
        if selection.select(name) == 0 {
            warn(&format_args!("{name}: no metric of this name in the archive"));
        }
    }
    if selection.metrics().is_empty() {
        return Err(Failure::NoData("none of the metrics is in the archive".to_owned()));
    }
    let indoms = selection.metrics().iter().filter_map(|metric| metric.desc.indom);
    tell_unknown(instances, source.metadata(), indoms);
    for instance in instances {
        selection.select_instance(instance);
    }
    Ok(selection)
}

/// Says which texts mean no instance of any of the domains.
fn tell_unknown(texts: &[String], metadata: &Metadata, indoms: impl Iterator<Item = InDom>) {
    let indoms: HashSet<InDom> = indoms.collect();
    for text in texts {
        let meant = |indom: &InDom| instances::meant(&[text], metadata.indom_history(*indom));
        if indoms.iter().all(|indom| meant(indom).is_empty()) {
            warn(&format_args!("{text}: no instance of this name in the archive"));
        }
    }
}

/// Units that values are to be reported in, with their text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WantedUnits {
    text: String,
    parsed: ParsedUnits,
}

impl WantedUnits {
    /// Reads all units of a command line.
    pub(crate) fn parse_all(texts: &[String]) -> Result<Vec<Self>, Failure> {
        texts.iter().map(|text| Self::parse(text)).collect()
    }

    /// Reads `Mbyte / sec`, `2 Kbytes`, `count x 10^-2`.
    fn parse(text: &str) -> Result<Self, Failure> {
        let parsed = Units::parse(text).map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Self { text: text.trim().to_owned(), parsed })
    }
}

/// What decides which columns there are.
#[derive(Debug, Default)]
pub(crate) struct Choice<'o> {
    /// The names or numbers of instances; all if empty.
    pub(crate) instances: &'o [String],
    /// Counters are reported as rates.
    pub(crate) rates: bool,
    pub(crate) units: &'o [WantedUnits],
    /// Values are reported as they were logged.
    pub(crate) raw: bool,
}

impl Column {
    /// What tells the column from the others of its metric: the instance's
    /// name or else its number; `None` without instances.
    pub(crate) fn instance_title(&self) -> Option<Arc<str>> {
        let number = || self.instance.map(|id| id.get().to_string().into());
        self.instance_name.clone().or_else(number)
    }
}

/// The columns of all instances with values, in the order of the metrics and
/// of the instances' numbers. With instances chosen only those, and no metric
/// without instances is left out. An instance without a name exists at
/// no time for replay and has a column only if the values are raw. Says
/// which of the chosen instances there are not.
pub(crate) fn columns(
    metadata: &Metadata,
    replay: &Replay<'_>,
    choice: &Choice<'_>,
) -> Vec<Column> {
    let indoms = replay.metrics().filter_map(|metric| metric.desc.indom);
    tell_unknown(choice.instances, metadata, indoms);
    let mut columns = Vec::new();
    let mut chosen = HashMap::new();
    for (place, metric) in replay.metrics().enumerate() {
        let mut scale = Scale::new(metric, choice.rates, choice.units);
        scale.is_computed |= replay.is_derived(place);
        let names = metric.desc.indom.map(|indom| instance_names(metadata, indom));
        let meant = metric.desc.indom.filter(|_| !choice.instances.is_empty()).map(|indom| {
            let meant = || instances::meant(choice.instances, metadata.indom_history(indom));
            &*chosen.entry(indom).or_insert_with(meant)
        });
        for instance in replay.instances(place) {
            let column = Column {
                metric: place,
                instance,
                name: metric.name.clone(),
                instance_name: names.as_ref().zip(instance).and_then(|(n, id)| n.get(&id).cloned()),
                scale: scale.clone(),
            };
            let can_have_values =
                choice.raw || instance.is_none() || column.instance_name.is_some();
            let is_chosen = meant.zip(instance).is_none_or(|(meant, id)| meant.contains(&id));
            if can_have_values && is_chosen {
                columns.push(column);
            }
        }
    }
    columns
}

/// The value in a column of a sample, in the column's units.
pub(crate) fn cell<'a>(sample: &Sample<'a>, column: &Column) -> Option<Value<'a>> {
    let values = sample.values.get(column.metric)?;
    let place = values.binary_search_by_key(&column.instance, |(instance, _)| *instance).ok()?;
    values.get(place).map(|(_, value)| column.scale.apply(*value))
}

/// The columns that have a value in a sample, in their order, with the value in
/// the column's units. Costs what the sample has, not what all times have.
pub(crate) fn present<'s, 'a>(
    sample: &'s Sample<'a>,
    columns: &'s [Column],
) -> impl Iterator<Item = (&'s Column, Value<'a>)> {
    let mut rest = columns;
    let values = sample.values.iter().enumerate().flat_map(|(metric, values)| {
        values.iter().map(move |(instance, value)| ((metric, *instance), *value))
    });
    values.filter_map(move |(key, value)| {
        let key_of = |column: &Column| (column.metric, column.instance);
        if rest.first().is_some_and(|first| key_of(first) < key) {
            rest = rest.get(rest.partition_point(|column| key_of(column) < key)..)?;
        }
        let (column, behind) = rest.split_first().filter(|(first, _)| key_of(first) == key)?;
        rest = behind;
        Some((column, column.scale.apply(value)))
    })
}

/// The newest name of every instance that a domain ever had.
pub(crate) fn instance_names(metadata: &Metadata, indom: InDom) -> HashMap<InstanceId, Arc<str>> {
    let history = metadata.indom_history(indom);
    let instances = history.map(IndomHistory::union).unwrap_or_default();
    instances.into_iter().map(|instance| (instance.id, instance.name)).collect()
}

/// Appends a value without the quotes that a dump puts around strings, and
/// floating point numbers with so many places if any are asked for.
pub(crate) fn push_plain(out: &mut Vec<u8>, value: Value<'_>, places: Option<usize>) {
    let float = match value {
        Value::Float(float) => Some(f64::from(float)),
        Value::Double(double) => Some(double),
        _ => None,
    };
    match (value, float, places) {
        (Value::String(bytes), ..) => out.extend_from_slice(bytes),
        (_, Some(float), Some(places)) => {
            out.extend_from_slice(format!("{float:.places$}").as_bytes());
        }
        (other, ..) => crate::cli::value::push(out, other),
    }
}

#[cfg(test)]
mod tests {
    use pcp_types::{Pmid, Semantics, ValueType};

    use super::*;
    use crate::MetricDesc;

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
    fn values_are_reported_in_the_first_units_that_measure_the_same() {
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
    fn what_is_present_is_what_the_cells_have() {
        let id = |number| Some(InstanceId::new(number).unwrap());
        let column = |metric, instance| Column {
            metric,
            instance,
            name: String::new(),
            instance_name: None,
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
            timestamp: pcp_types::Timestamp::EPOCH,
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
        assert_eq!(present(&sample, &columns).collect::<Vec<_>>(), cells);
        assert_eq!(cells.len(), 4);
    }

    #[test]
    fn places_are_those_of_floating_point_numbers_only() {
        let text = |value, places| {
            let mut out = Vec::new();
            push_plain(&mut out, value, places);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(Value::Double(2.0 / 3.0), Some(3)), "0.667");
        assert_eq!(text(Value::Double(0.5), None), "0.5");
        assert_eq!(text(Value::U64(7), Some(3)), "7");
        assert_eq!(text(Value::String(b"a b"), Some(3)), "a b");
    }
}
