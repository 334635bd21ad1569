//! Prints records: times, metrics, instances, values.
//!
//! A dump spends most of its time here, so the text that is the same in all
//! records (PMID and names of a metric) is made once.

use hashbrown::HashMap;
use pcp_archive::raw::event::{EventArray, EventFlags, EventRecord};
use pcp_archive::raw::{IndomCursor, Record, RecordError, ValueSetView};
use pcp_archive::{Archive, InDom, InstanceId, MetricDesc, Pmid, Timestamp, Value, ValueType};

use super::{Dump, line_of};
use crate::Failure;
use crate::text::number;
use crate::time::Window;

pub(super) struct Options<'a> {
    /// The chosen metrics in their order; `None` for all.
    pub(super) chosen: Option<&'a [Pmid]>,
    /// `None` for all records.
    pub(super) window: Option<Window>,
    /// Whether to print the newest record first.
    pub(super) reverse: bool,
    pub(super) marks: bool,
    pub(super) sizes: bool,
}

impl Options<'_> {
    /// Returns whether any part of a record is printed.
    pub(super) fn shows(&self, record: &Record<'_>) -> bool {
        match self.chosen {
            _ if record.is_mark() => self.marks,
            Some(chosen) => record.value_sets().any(|set| chosen.contains(&set.pmid())),
            None => true,
        }
    }
}

/// The text of a metric that is the same in all records.
struct MetricText {
    /// `    29.0.5 (sample.colour): value `, the text before the value of a metric
    /// without instances; others use its start.
    line: Vec<u8>,
    value_type: ValueType,
    indom: Option<InDom>,
}

/// In place of a value whose type is not known.
const UNREADABLE: &[u8] = b"?";

/// The text after the closing parenthesis in a line of one value.
const SINGULAR: &[u8] = b": value ";

impl MetricText {
    /// Returns `None` for a metric without a descriptor.
    fn new(archive: &Archive, pmid: Pmid, is_raw: bool) -> Option<Self> {
        let metric = archive.metadata().metric(pmid)?;
        let mut line = format!("    {pmid} (").into_bytes();
        line.extend_from_slice(&line_of(&metric.names.join(" or "), is_raw));
        line.push(b')');
        line.extend_from_slice(SINGULAR);
        let MetricDesc { value_type, indom, .. } = metric.desc;
        Some(Self { line, value_type, indom })
    }

    /// Returns the beginning of the line of a metric: `    29.0.5 (sample.colour`.
    fn title(&self) -> &[u8] {
        self.line.get(..self.line.len() - SINGULAR.len() - 1).unwrap_or_default()
    }
}

/// The text of the metrics, and the instance domains at the last record.
#[derive(Default)]
pub(super) struct Cache<'a> {
    metrics: HashMap<Pmid, Option<MetricText>>,
    cursors: HashMap<InDom, IndomCursor<'a>>,
}

impl<'a> Cache<'a> {
    fn metric(
        &mut self,
        archive: &'a Archive,
        set: &ValueSetView<'_>,
        record: &Record<'_>,
        is_raw: bool,
    ) -> Option<(&MetricText, Option<&IndomCursor<'a>>)> {
        let pmid = set.pmid();
        let known = self.metrics.entry(pmid);
        let known = known.or_insert_with(|| MetricText::new(archive, pmid, is_raw));
        let known = known.as_ref()?;
        let history = known.indom.and_then(|indom| archive.metadata().indom_history(indom));
        let cursor = known.indom.zip(history).map(|(indom, history)| {
            let cursor = self.cursors.entry(indom).or_insert_with(|| history.cursor());
            cursor.move_to(record.timestamp());
            &*cursor
        });
        Some((known, cursor))
    }
}

pub(super) fn print_record<'a>(
    dump: &mut Dump<'a>,
    options: &Options<'_>,
    cache: &mut Cache<'a>,
    record: &Record<'_>,
) -> Result<(), Failure> {
    let archive = dump.archive;
    let is_raw = dump.is_raw;
    let mut print_set = |dump: &mut Dump<'a>, set: ValueSetView<'_>| {
        print_set(dump, cache.metric(archive, &set, record, is_raw), record, &set)
    };
    if record.is_mark() {
        if options.marks {
            print_head(dump, options, record);
            dump.text("  <mark>\n");
        }
        return Ok(());
    }
    let Some(chosen) = options.chosen else {
        print_head(dump, options, record);
        print_count(dump, record.len() as usize);
        return record.value_sets().try_for_each(|set| print_set(dump, set));
    };
    let sets = picked(record, chosen);
    if sets.is_empty() {
        return Ok(());
    }
    print_head(dump, options, record);
    print_count(dump, sets.len());
    sets.into_iter().try_for_each(|set| print_set(dump, set))
}

/// Prints the time of the first record of a dump in reverse order.
pub(super) fn print_reversed(dump: &mut Dump<'_>, timestamp: Timestamp) {
    dump.text("\nLog finished at ");
    dump.zone.push_day(&mut dump.out.text, timestamp);
    dump.text(" ");
    dump.zone.push_time(&mut dump.out.text, timestamp, 0);
    let year = dump.zone.year(timestamp);
    dump.text(&format!(" {year} - dump in reverse order\n"));
}

fn print_head(dump: &mut Dump<'_>, options: &Options<'_>, record: &Record<'_>) {
    dump.text("\n");
    if options.sizes {
        dump.text("[");
        number::integer(&mut dump.out.text, record.size());
        dump.text(" bytes]\n");
    }
    dump.push_timestamp(record.timestamp());
}

fn print_count(dump: &mut Dump<'_>, metrics: usize) {
    dump.text(" ");
    number::integer(&mut dump.out.text, metrics);
    dump.text(if metrics == 1 { " metric\n" } else { " metrics\n" });
}

/// Returns the value sets of the chosen metrics in the order of the choice, as in pmdumplog.
fn picked<'r>(record: &Record<'r>, chosen: &[Pmid]) -> Vec<ValueSetView<'r>> {
    let mut sets: Vec<_> = record
        .value_sets()
        .filter_map(|set| Some((chosen.iter().position(|pmid| *pmid == set.pmid())?, set)))
        .collect();
    sets.sort_by_key(|(place, _)| *place);
    sets.into_iter().map(|(_, set)| set).collect()
}

/// Prints one metric of a record: on one line, or with a line per value if there
/// are several.
fn print_set(
    dump: &mut Dump<'_>,
    known: Option<(&MetricText, Option<&IndomCursor<'_>>)>,
    record: &Record<'_>,
    set: &ValueSetView<'_>,
) -> Result<(), Failure> {
    let Some((known, cursor)) = known else {
        // Its values cannot be read without its type.
        dump.text(&format!("    {} (<nonames>): no descriptor\n", set.pmid()));
        return Ok(());
    };
    if let Some(error) = set.error() {
        dump.out.text.extend_from_slice(known.title());
        let text = error.system_text().unwrap_or_else(|| error.to_string());
        dump.text(&format!("): {text}\n"));
        return Ok(());
    }
    if set.is_empty() {
        dump.out.text.extend_from_slice(known.title());
        dump.text("): No values returned!\n");
        return Ok(());
    }
    if known.value_type.is_event() {
        return print_events(dump, known, cursor, record, set);
    }
    let several = set.len() > 1;
    if several {
        dump.out.text.extend_from_slice(known.title());
        dump.text("):\n");
    }
    for (place, (instance, observed)) in observations(set, known.value_type) {
        if !dump.shows(set.pmid(), instance) {
            continue;
        }
        let value = readable(dump, record, observed)?;
        let is_raw = dump.is_raw;
        let out = &mut dump.out.text;
        if !several && known.indom.is_none() {
            out.extend_from_slice(&known.line);
        } else {
            if several {
                out.extend_from_slice(b"       ");
            } else {
                out.extend_from_slice(known.title());
                out.extend_from_slice(b"):");
            }
            if known.indom.is_some() {
                out.extend_from_slice(b" inst [");
                push_instance(out, cursor, is_raw, instance, place);
                out.push(b']');
            }
            out.extend_from_slice(b" value ");
        }
        match value {
            Some(value) => dump.value(value),
            None => out.extend_from_slice(UNREADABLE),
        }
        dump.text("\n");
    }
    Ok(())
}

fn observations<'r>(
    set: &ValueSetView<'r>,
    value_type: ValueType,
) -> impl Iterator<Item = (usize, (Option<InstanceId>, Result<Value<'r>, RecordError>))> {
    let values = set.values(value_type).map(|value| value.map(|(_, value)| value));
    set.instances().zip(values).enumerate()
}

/// Returns a value, unless it is [left out](Archive::leave_out).
fn readable<'r>(
    dump: &Dump<'_>,
    record: &Record<'_>,
    observed: Result<Value<'r>, RecordError>,
) -> Result<Option<Value<'r>>, Failure> {
    match observed {
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            dump.archive.leave_out(record, error)?;
            Ok(None)
        }
    }
}

/// Appends `1 or "Anvils"`, or `1 or ???` if the domain does not have the instance.
fn push_instance(
    out: &mut Vec<u8>,
    cursor: Option<&IndomCursor<'_>>,
    is_raw: bool,
    id: Option<InstanceId>,
    place: usize,
) {
    match id {
        Some(id) => number::integer(out, id.get()),
        None => out.extend_from_slice(b"-1"),
    }
    match cursor.zip(id).and_then(|(cursor, id)| cursor.name_near(id, place)) {
        Some(name) => {
            out.extend_from_slice(b" or \"");
            out.extend_from_slice(&line_of(name, is_raw));
            out.push(b'"');
        }
        None => out.extend_from_slice(b" or ???"),
    }
}

fn print_events(
    dump: &mut Dump<'_>,
    known: &MetricText,
    cursor: Option<&IndomCursor<'_>>,
    record: &Record<'_>,
    set: &ValueSetView<'_>,
) -> Result<(), Failure> {
    for (place, (instance, observed)) in observations(set, known.value_type) {
        if !dump.shows(set.pmid(), instance) {
            continue;
        }
        let value = readable(dump, record, observed)?;
        let is_raw = dump.is_raw;
        let out = &mut dump.out.text;
        out.extend_from_slice(known.title());
        if known.indom.is_some() {
            out.push(b'[');
            push_instance(out, cursor, is_raw, instance, place);
            out.push(b']');
        }
        out.extend_from_slice(b"): ");
        let Some(value) = value else {
            out.extend_from_slice(UNREADABLE);
            out.push(b'\n');
            continue;
        };
        match EventArray::unpack(value) {
            Err(source) => dump.text(&format!("damaged event array: {source}\n")),
            Ok(array) if array.is_empty() => dump.text("No event records\n"),
            Ok(array) => print_event_records(dump, &array),
        }
    }
    Ok(())
}

fn print_event_records(dump: &mut Dump<'_>, array: &EventArray<'_>) {
    let missed = array.missed();
    dump.text(&array.len().to_string());
    if missed > 0 {
        dump.text(&format!(" (and {missed} missed)"));
    }
    dump.text(if u64::from(array.len()) + missed == 1 {
        " event record\n"
    } else {
        " event records\n"
    });
    for (place, record) in array.records().enumerate() {
        dump.text(&format!("        --- event record [{place}] timestamp "));
        if array.is_highres() {
            dump.zone.push_time(&mut dump.out.text, record.timestamp(), 9);
        } else {
            dump.push_dated(record.timestamp(), 6);
        }
        print_event_record(dump, &record);
    }
}

fn print_event_record(dump: &mut Dump<'_>, record: &EventRecord<'_>) {
    let flags = record.flags();
    if flags != EventFlags::NONE {
        dump.text(&format!(" flags 0x{:x} ({flags})", flags.bits()));
    }
    dump.text(" ---\n");
    if let Some(missed) = record.missed() {
        dump.text(&format!("        ==> {missed} missed event records\n"));
    } else if flags == EventFlags::NONE && record.parameters().next().is_none() {
        dump.text("\t          No parameters\n");
    }
    for (pmid, parameter) in record.parameters() {
        match dump.archive.metadata().metric(pmid) {
            Some(metric) => {
                dump.text(&format!("        {pmid} ("));
                dump.name(&metric.names.join(" or "));
                dump.text("): value ");
            }
            None => dump.text(&format!("        PMID: {pmid}: value ")),
        }
        dump.value(parameter);
        dump.text("\n");
    }
}
