//! `mmv-archive events`: what happened, and when.
//!
//! Prints the records of event metrics, a line for each:
//!
//! ```text
//! 2023-11-14 22:13:20.500  ended  file=shop  pid=4711
//! ```
//!
//! A program that gets one instance after another has one line for all of them, also in JSON.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use hashbrown::HashMap;
use pcp_archive::internal::programs::{ProgramEvent, events_metric};
use pcp_archive::raw::event::{EventArray, EventFlags, EventRecord};
use pcp_archive::scan::SelectedMetric;
use pcp_archive::{Metadata, Pmid, Source, Timestamp, Value};
use serde::Serialize;

use crate::Failure;
use crate::left_out::check_whole_set;
use crate::options::ArchiveArgument;
use crate::selection::select_metrics;
use crate::text::{
    EpochSeconds, EventJson, Output, Rfc3339, broken, push_plain, shown, terminal_width, warn,
};
use crate::time::{SpanOptions, Zone, ZoneOptions};
use crate::walk::Walk;

/// Time after which another growth of a program has a line of its own.
const MAX_GROWTH_PAUSE: Duration = Duration::from_secs(60);

/// The characters of a time, and the blanks after it.
const TIME_WIDTH: usize = "2023-11-14 22:13:20.500".len();
const GAP: usize = 2;

const EXAMPLES: &str = "\
Examples:
  When did programs start, restart or end during the last day?
    mmv-archive events @ --last 1d
  When did one program start, restart or end?
    mmv-archive events @ mmv.shop
  Why are there no samples between 18:00 and 18:10?
    mmv-archive events @ -S 18:00 -T 18:10
  Read events by a program:
    mmv-archive events @ --last 1h --json";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct EventsCommand {
    #[command(flatten)]
    archive: ArchiveArgument,

    /// Programs, such as mmv.shop: what happened to those that have these metrics; or event
    /// metrics: names, branches of the name space, or patterns [default: all events; those of
    /// mmv-agent say when programs started and ended, and where samples are missing]
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,

    /// Print JSON Lines, an object for each line of the table, with its time in RFC 3339 and in seconds since
    /// 1970, and for those of mmv-agent type, program, pid and reason
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    span: SpanOptions,

    #[command(flatten)]
    zone: ZoneOptions,
}

/// An event in JSON.
#[derive(Serialize)]
struct Line<'a> {
    time: Rfc3339,
    seconds: EpochSeconds,
    metric: &'a str,
    #[serde(flatten)]
    program: Option<ProgramJson<'a>>,
    #[serde(flatten)]
    growth: Option<GrowthJson>,
    #[serde(flatten)]
    event: EventJson<'a>,
}

/// The growth of a program, once or several times in succession.
#[derive(Serialize)]
struct GrowthJson {
    added: Option<u64>,
    times: u32,
    until: Rfc3339,
    until_seconds: EpochSeconds,
}

/// An event of the agent, without the metrics of its parameters.
#[derive(Serialize)]
struct ProgramJson<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    program: Option<&'a str>,
    pid: Option<u32>,
    reason: Option<&'a str>,
}

impl EventsCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let archives = self.archive.open(&self.metrics)?;
        let source = Source::from(&archives);
        let zone = self.zone.zone(source.label())?;
        let window = self.span.window(source.start(), source.end(), zone.time_zone())?;
        let selection = select_metrics(source, &self.metrics, &[])?;
        let metrics = selection.metrics().iter();
        let mut names: HashMap<Pmid, &str> = metrics
            .filter(|metric| metric.desc.value_type.is_event())
            .map(|metric| (metric.desc.pmid, metric.name.as_str()))
            .collect();
        // The agent's events are about programs; the metrics without events are those of programs.
        let mut programs: &[SelectedMetric] = &[];
        let own = source.metadata().metric(events_metric()).and_then(|own| own.names.first());
        if let Some(own) = own.filter(|_| names.is_empty()) {
            names.insert(events_metric(), own);
            programs = selection.metrics();
        }
        if names.is_empty() {
            let reason = if self.metrics.is_empty() {
                "no metric of the archive has events"
            } else {
                "none of the metrics has events"
            };
            return Err(Failure::NoData(reason.to_owned()));
        }
        let mut printer = Printer {
            out: Output::new(),
            metadata: source.metadata(),
            zone,
            programs,
            has_names: names.len() > 1,
            json: self.json,
            width: terminal_width(),
            pending: VecDeque::new(),
            values: HashMap::new(),
        };
        let mut count = 0;
        let mut records = Walk::new(source, Some(window), false)?;
        loop {
            let record = match records.next() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(failure) => {
                    records.skip_damage(failure)?;
                    continue;
                }
            };
            for set in record.value_sets() {
                let Some(name) = names.get(&set.pmid()) else { continue };
                let Some(desc) = source.metadata().metric(set.pmid()) else { continue };
                for value in set.values(desc.desc.value_type) {
                    match value {
                        Ok((_, value)) => count += printer.print(name, set.pmid(), value)?,
                        Err(error) => warn(&format_args!("{name}: {error}")),
                    }
                }
            }
        }
        let outcome = records.finish();
        if count == 0 {
            outcome?;
            return Err(Failure::NoData("there are no events in this window".to_owned()));
        }
        printer.pending.iter_mut().for_each(|line| line.growth = None);
        printer.print_complete()?;
        printer.out.finish()?;
        check_whole_set(&archives)?;
        outcome
    }
}

/// A line that is not printed yet.
struct PendingLine {
    text: String,
    /// Set while further growth of the program belongs to this line.
    growth: Option<Growth>,
}

/// A program that grew, once or several times in succession.
struct Growth {
    program: String,
    first: Timestamp,
    last: Timestamp,
    times: u32,
    /// The number of its values before, if it is known.
    values_before: Option<u64>,
}

impl Growth {
    /// Returns the number of values that were added, from that of the values now.
    fn added(&self, values: Option<u64>) -> Option<u64> {
        let (values, before) = values.zip(self.values_before)?;
        values.checked_sub(before)
    }
}

struct Printer<'a> {
    out: Output,
    metadata: &'a Metadata,
    zone: Zone,
    /// The metrics of the programs whose events are printed; none for all events.
    programs: &'a [SelectedMetric],
    /// Events of several metrics are printed.
    has_names: bool,
    json: bool,
    /// Of a terminal, on which lines are folded.
    width: Option<usize>,
    /// The first growth that may continue, and all lines after it.
    pending: VecDeque<PendingLine>,
    /// The latest number of values of each program.
    values: HashMap<String, u64>,
}

impl Printer<'_> {
    /// Prints the events of a value, and returns how many there are.
    fn print(&mut self, name: &str, pmid: Pmid, value: Value<'_>) -> Result<usize, Failure> {
        let is_of_agent = pmid == events_metric();
        let array = match EventArray::unpack(value) {
            Ok(array) => array,
            Err(error) => {
                warn(&format_args!("{name}: {error}"));
                return Ok(0);
            }
        };
        let mut count = 0;
        for record in array.records() {
            let event = ProgramEvent::from_record(record).filter(|_| is_of_agent);
            if !self.is_chosen(event.as_ref()) {
                continue;
            }
            count += 1;
            self.add_line(name, record, event.as_ref())?;
            self.print_complete()?;
        }
        Ok(count)
    }

    /// Returns whether an event is printed: all are, unless programs are given.
    fn is_chosen(&self, event: Option<&ProgramEvent<'_>>) -> bool {
        let mut programs = self.programs.iter();
        self.programs.is_empty()
            || event.is_some_and(|event| {
                programs.any(|metric| event.concerns(&metric.name, metric.desc.pmid))
            })
    }

    /// Adds the line of an event, or its growth to that of its program.
    fn add_line(
        &mut self,
        name: &str,
        record: EventRecord<'_>,
        event: Option<&ProgramEvent<'_>>,
    ) -> Result<(), Failure> {
        let at = record.timestamp();
        let program = event.and_then(|event| event.file);
        let grows = event.is_some_and(|event| event.kind == "grew" && event.reason.is_none());
        for line in &mut self.pending {
            let Some(growth) = &line.growth else { continue };
            let is_over = at > growth.last.saturating_add(MAX_GROWTH_PAUSE);
            if is_over || Some(&*growth.program) == program && !grows {
                line.growth = None;
            }
        }
        let mut values_before = None;
        if let (Some(program), Some(values)) = (program, event.and_then(|event| event.values)) {
            values_before = self.values.insert(program.to_owned(), values);
        }
        let Some(program) = program.filter(|_| grows) else {
            let text = self.text(name, record, event, None)?;
            self.pending.push_back(PendingLine { text, growth: None });
            return Ok(());
        };
        let is_earlier = |line: &PendingLine| {
            line.growth.as_ref().is_some_and(|growth| growth.program == program)
        };
        let place = self.pending.iter().position(is_earlier);
        let earlier = place.and_then(|place| self.pending.get_mut(place)?.growth.take());
        let mut growth = earlier.unwrap_or_else(|| Growth {
            program: program.to_owned(),
            first: at,
            last: at,
            times: 0,
            values_before,
        });
        growth.last = at;
        growth.times += 1;
        let text = self.text(name, record, event, Some(&growth))?;
        let line = PendingLine { text, growth: Some(growth) };
        match place.and_then(|place| self.pending.get_mut(place)) {
            Some(earlier) => *earlier = line,
            None => self.pending.push_back(line),
        }
        Ok(())
    }

    /// Prints the lines before the first growth that may continue.
    fn print_complete(&mut self) -> Result<(), Failure> {
        while self.pending.front().is_some_and(|line| line.growth.is_none()) {
            let Some(line) = self.pending.pop_front() else { break };
            self.out.text.extend_from_slice(line.text.as_bytes());
            self.out.spill()?;
        }
        Ok(())
    }

    /// Formats an event as a line of the table or of JSON.
    fn text(
        &self,
        name: &str,
        record: EventRecord<'_>,
        event: Option<&ProgramEvent<'_>>,
        growth: Option<&Growth>,
    ) -> Result<String, Failure> {
        if !self.json {
            return Ok(self.line(name, record, growth));
        }
        let at = growth.map_or(record.timestamp(), |growth| growth.first);
        let program = event.map(|event| ProgramJson {
            kind: event.kind,
            program: event.file,
            pid: event.pid,
            reason: event.reason,
        });
        let growth = growth.map(|growth| GrowthJson {
            added: growth.added(event.and_then(|event| event.values)),
            times: growth.times,
            until: Rfc3339(growth.last),
            until_seconds: EpochSeconds(growth.last),
        });
        let mut out = Output::detached();
        out.json_line(&Line {
            time: Rfc3339(at),
            seconds: EpochSeconds(at),
            metric: name,
            program,
            growth,
            event: EventJson::new(record, Some(self.metadata)),
        })?;
        Ok(String::from_utf8_lossy(&out.text).into_owned())
    }

    /// Formats the time, the metric if there are several, and the parameters: the type of the event
    /// without its name. The line of a growth has the time of the first.
    fn line(&self, name: &str, record: EventRecord<'_>, growth: Option<&Growth>) -> String {
        let at = growth.map_or(record.timestamp(), |growth| growth.first);
        let mut line = self.zone.strftime(at, "%Y-%m-%d %H:%M:%S%.3f");
        if self.has_names {
            let _ = write!(line, "  {}", shown(name));
        }
        if let Some(missed) = record.missed() {
            let _ = write!(line, "  {missed} events were missed");
        } else if record.flags() != EventFlags::POINT {
            let _ = write!(line, "  {}", record.flags());
        }
        for (pmid, value) in record.parameters() {
            let text = parameter_text(value);
            let metric = self.metadata.metric(pmid).map(pcp_archive::Metric::display_name);
            let metric = metric.unwrap_or_else(|| pmid.to_string());
            let metric = shown(&metric);
            let short = if metric.contains(|c: char| c.is_alphabetic()) {
                metric.rsplit('.').next().unwrap_or(&metric)
            } else {
                &metric
            };
            let _ = match short {
                "type" => write!(line, "  {text:<11}"),
                _ if text.contains(' ') => write!(line, "  {short}=\"{text}\""),
                _ => write!(line, "  {short}={text}"),
            };
        }
        line.truncate(line.trim_end().len());
        if let Some(growth) = growth {
            let values = ProgramEvent::from_record(record).and_then(|event| event.values);
            if let Some(added) = growth.added(values) {
                let _ = write!(line, "  added={added}");
            }
            if growth.times > 1 {
                let until = self.zone.strftime(growth.last, "%H:%M:%S%.3f");
                let _ = write!(line, "  times={}  until={until}", growth.times);
            }
        }
        if let Some(width) = self.width {
            line = folded(&line, width);
        }
        line.push('\n');
        line
    }
}

/// Formats the value of a parameter. The agent's texts have bytes as `\xHH` already.
fn parameter_text(value: Value<'_>) -> String {
    if let Value::String(bytes) = value
        && let Ok(text) = std::str::from_utf8(bytes)
    {
        return shown(text).into_owned();
    }
    let mut text = Vec::new();
    push_plain(&mut text, value, None);
    String::from_utf8_lossy(&text).into_owned()
}

/// Breaks a line at blanks to fit a width; what follows is below what comes after the time.
fn folded(line: &str, width: usize) -> String {
    let Some((time, rest)) = line.split_at_checked(TIME_WIDTH) else { return line.to_owned() };
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let parts = broken(rest.trim_start(), ' ', width.saturating_sub(TIME_WIDTH + GAP));
    let parts: Vec<&str> = parts.iter().map(|part| part.trim_start()).collect();
    let begin = " ".repeat(TIME_WIDTH + GAP);
    format!("{time}{:GAP$}{}", "", parts.join(&format!("\n{begin}")))
}
