//! `mmv-archive explain`: what changed in a window of time, and what happened then.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::time::Duration;

use clap::Args;
use mmv_chart::Grid;
use pcp_archive::scan::Selection;
use pcp_archive::scan::histogram::HistogramLayout;
use pcp_archive::{Error, Source, Timestamp};
use pcp_types::scaled::scaled;
use serde::Serialize;

use crate::Failure;
use crate::columns::{InstanceLabels, Labels, instance_names};
use crate::comparison::{ObservedRun, RunOptions, Statistic, program_of, series_title};
use crate::explanation::{
    ChangeKind, ChangePoint, Explanation, History, MIN_CHANGE, MIN_VALUES, RecordedEvent,
    Recurrence, explain, read_events, read_resets, restart_loops,
};
use crate::groups::max_series;
use crate::left_out::check_whole_set;
use crate::options::ArchiveArgument;
use crate::order::is_unnamed_machinery;
use crate::selection::{select_metrics, warn_of_loss};
use crate::text::{Output, Rfc3339, broken, shown};
use crate::time::{Frame, SpanOptions, Zone, ZoneOptions, parse_time};

/// The window without options, at the end of the archive.
const DEFAULT_WINDOW: &str = "1h";
/// The time on both sides of `--at`.
const AROUND: Duration = Duration::from_secs(15 * 60);
/// Limit on the series, buckets included, which take 12 kB of memory each.
const MAX_SERIES: usize = 100_000;
/// Number of samples from which on smaller changes than those of a short recording are found.
const MIN_TELLING: usize = 96;
/// Width at which the first line is broken.
const WIDTH: usize = 80;
/// Limits on the lines of text of each kind: one screen in all.
const MAX_CHANGES: usize = 12;
const MAX_EVENTS: usize = 10;
const MAX_UNMEASURED: usize = 5;
const MAX_APPEARED: usize = 5;
const MAX_RECURRING: usize = 5;
/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  What happened in the last hour?
    mmv-archive explain @
  What changed around 14:05?
    mmv-archive explain @ --at 14:05
  What changed in one program between 14:00 and 16:00?
    mmv-archive explain @ -S 14:00 -T 16:00 mmv.shop
  Read the answer by a program:
    mmv-archive explain @ --last 1d --json";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ExplainCommand {
    #[command(flatten)]
    archive: ArchiveArgument,

    /// Metrics: names, branches of the name space, or patterns, also with labels [default: all but
    /// those of mmv-agent and pmcd]
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,

    /// A quarter of an hour before and after this time: 14:05, or as for -S
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["start", "finish", "last"])]
    at: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    span: SpanOptions,

    #[command(flatten)]
    zone: ZoneOptions,
}

/// The selected metrics of an archive.
struct SelectedHistory<'a>(Selection<'a>);

impl History for SelectedHistory<'_> {
    fn read(
        &self,
        range: RangeInclusive<Timestamp>,
        columns: u32,
        metrics: Option<&BTreeSet<String>>,
    ) -> Result<ObservedRun, Failure> {
        let mut selection = self.0.clone();
        if let Some(metrics) = metrics {
            // The name of a histogram is a branch, below which its metrics are.
            selection.retain(|metric| {
                let mut branches = metric.name.match_indices('.').map(|(dot, _)| dot);
                metrics.contains(&metric.name)
                    || branches.any(|dot| {
                        metric.name.get(..dot).is_some_and(|branch| metrics.contains(branch))
                    })
            });
        }
        let options = RunOptions {
            columns,
            without_absences: true,
            past_damage: true,
            ..RunOptions::default()
        };
        ObservedRun::read(&selection, range, options)
    }

    fn has_records(&self, after: Timestamp, before: Timestamp) -> Result<bool, Failure> {
        let has_records = || {
            let mut records = self.0.source().records_from(after)?;
            while let Some(record) = records.next()? {
                if record.timestamp() >= before {
                    return Ok(false);
                }
                if record.timestamp() > after && !record.is_mark() {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        match has_records() {
            // What is damaged was recorded.
            Err(error) if Error::is_damage(&error) => Ok(true),
            found => Ok(found?),
        }
    }
}

impl ExplainCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.run_within(usize::MAX)
    }

    /// Runs the command; its JSON document lists at most `limit` things of each kind.
    pub(crate) fn run_within(&self, limit: usize) -> Result<(), Failure> {
        let archives = self.archive.open(&self.metrics)?;
        let source = Source::from(&archives);
        let zone = self.zone.zone(source.label())?;
        let window = self.window(source, &zone)?;
        let selection = select_metrics(source, &self.metrics, &[])?;
        let report =
            Report { content: WindowChanges::read(selection, window, &self.metrics)?, zone };
        if report.content.explanation.series == 0 && report.content.events.is_empty() {
            let reason = format!(
                "the window is too short to tell what changed: at least {MIN_VALUES} \
                 samples of a metric are needed"
            );
            return Err(Failure::NoData(reason));
        }
        report.content.explanation.lost.iter().for_each(|lost| warn_of_loss(lost, &report.zone));
        let mut out = Output::new();
        if self.json {
            out.json_line(&report.content.document(limit))?;
        } else {
            report.write_text(&mut out)?;
        }
        out.finish()?;
        check_whole_set(&archives)?;
        if report.content.explanation.lost.is_empty() { Ok(()) } else { Err(Failure::Lost) }
    }

    fn window(
        &self,
        source: Source<'_>,
        zone: &Zone,
    ) -> Result<RangeInclusive<Timestamp>, Failure> {
        let (first, last) = (source.start(), source.end());
        if let Some(at) = &self.at {
            let frame = Frame {
                start: first,
                end: last,
                now: Timestamp::now(),
                zone: zone.time_zone().clone(),
            };
            let at = parse_time(at, &frame)?;
            if !(first..=last).contains(&at) {
                let reason = format!(
                    "{} is not in the archive, which is from {} to {}",
                    zone.long(at),
                    zone.long(first),
                    zone.long(last)
                );
                return Err(Failure::NoData(reason));
            }
            let start = at.saturating_sub(AROUND).max(first);
            return Ok(start..=at.saturating_add(AROUND).min(last));
        }
        let mut span = self.span.clone();
        if !span.is_given() {
            span.last = Some(DEFAULT_WINDOW.to_owned());
        }
        let window = span.window(first, last, zone.time_zone())?;
        Ok(window.start..=window.end)
    }
}

/// The changes and the events in a window.
pub(crate) struct WindowChanges<'a> {
    selection: Selection<'a>,
    window: RangeInclusive<Timestamp>,
    /// The window with the time before it.
    range: RangeInclusive<Timestamp>,
    explanation: Explanation,
    events: Vec<RecordedEvent>,
}

impl<'a> WindowChanges<'a> {
    /// Compares a window with a period of the same length before it, or with what the archive has of
    /// it. The agent's and pmcd's own metrics are left out unless they are `named`.
    ///
    /// # Errors
    ///
    /// Those of reading, and [`Failure::Usage`] for more series than there is memory for.
    pub(crate) fn read(
        mut selection: Selection<'a>,
        window: RangeInclusive<Timestamp>,
        named: &[String],
    ) -> Result<Self, Failure> {
        let source = selection.source();
        let length = Duration::from_nanos(
            u64::try_from(window.end().nanos_since(*window.start())).unwrap_or(u64::MAX),
        );
        let before = window.start().saturating_sub(length).max(source.start());
        let range = before..=*window.end();
        selection.retain(|metric| !is_unnamed_machinery(&metric.name, named));
        let series = max_series(&selection);
        if series > MAX_SERIES {
            return Err(Failure::Usage(format!(
                "the metrics have {series} series, more than the limit of {MAX_SERIES}: name some of them"
            )));
        }
        let mut events = read_events(source, range.clone())?;
        let loops = restart_loops(&events, &range, *window.start());
        let history = SelectedHistory(selection);
        let explanation = explain(&history, range.clone(), *window.start(), loops)?;
        events.extend(read_resets(&history.0, &explanation.interrupted, window.clone())?);
        events.sort_by_key(|event| event.time);
        events.retain(|event| window.contains(&event.time));
        Ok(Self { selection: history.0, window, range, explanation, events })
    }

    /// Returns the document that `--json` prints, with at most `limit` things of each kind.
    pub(crate) fn document(&self, limit: usize) -> impl Serialize {
        let mut labels = InstanceLabels::new(self.selection.source().metadata());
        let changes = self.explanation.changes.iter().take(limit);
        let explanation = &self.explanation;
        ExplanationJson {
            window: WindowJson {
                begin: Rfc3339(*self.window.start()),
                end: Rfc3339(*self.window.end()),
                compared_since: Rfc3339(*self.range.start()),
                series: self.explanation.series,
            },
            changes: changes
                .map(|change| ChangeJson::new(change, self.labels(&mut labels, change)))
                .collect(),
            recurring: self
                .explanation
                .recurring
                .iter()
                .take(limit)
                .map(RecurrenceJson::new)
                .collect(),
            appeared: self
                .explanation
                .appeared
                .iter()
                .take(limit)
                .map(|new| AppearedJson {
                    time: Rfc3339(new.time),
                    metric: &new.metric,
                    instance: &new.instance,
                })
                .collect(),
            events: self.events.iter().take(limit).map(EventJson::new).collect(),
            unmeasured: self
                .explanation
                .unmeasured
                .iter()
                .take(limit)
                .map(|absence| UnmeasuredJson {
                    program: absence.program.as_deref(),
                    begin: Rfc3339(absence.begin),
                    end: Rfc3339(absence.end),
                    reason: absence.reason,
                })
                .collect(),
            left_out: LeftOutJson {
                changes: explanation.changes.len().saturating_sub(limit),
                recurring: explanation.recurring.len().saturating_sub(limit),
                appeared: explanation.appeared.len().saturating_sub(limit),
                events: self.events.len().saturating_sub(limit),
                unmeasured: explanation.unmeasured.len().saturating_sub(limit),
            },
        }
    }

    /// Returns the labels of the instance of a change.
    fn labels(&self, labels: &mut InstanceLabels<'_>, change: &ChangePoint) -> Labels {
        let Some(name) = &change.instance else { return Labels::new() };
        let metadata = self.selection.source().metadata();
        let indom = self.selection.metrics().iter().find_map(|metric| {
            if metric.name == change.metric {
                return metric.desc.indom;
            }
            let layout = HistogramLayout::find(metadata, &metric.name, &metric.desc)?;
            (layout.name() == change.metric).then(|| layout.indom()).flatten()
        });
        let Some(indom) = indom else { return Labels::new() };
        let instances = instance_names(metadata, indom);
        let instance = instances.iter().filter(|(_, own)| *own == name).map(|(id, _)| *id).min();
        labels.get(Some(indom), instance)
    }
}

/// All that is printed.
struct Report<'a> {
    content: WindowChanges<'a>,
    zone: Zone,
}

/// Consecutive events of one kind and program.
struct EventLine<'e> {
    event: &'e RecordedEvent,
    last: Timestamp,
    times: usize,
}

impl Report<'_> {
    fn write_text(&self, out: &mut Output) -> Result<(), Failure> {
        let changes = &self.content.explanation.changes;
        for line in broken(&self.headline(), ' ', WIDTH) {
            push_line(out, &line);
        }
        if !changes.is_empty() {
            out.text.push(b'\n');
            let mut grid = Grid::new(6);
            for head in ["Change", "Before", "During", "Ratio", "Since", "For"] {
                grid.cell(|text| text.push_str(head));
            }
            for change in changes.iter().take(MAX_CHANGES) {
                self.push_cells(&mut grid, change);
            }
            out.narrow_rows(&grid)?;
            push_more(out, changes.len(), MAX_CHANGES);
        }
        let recurring = &self.content.explanation.recurring;
        if !recurring.is_empty() {
            out.text.extend_from_slice(b"\nChanged more than twice\n");
            for recurrence in recurring.iter().take(MAX_RECURRING) {
                let last = self.time(recurrence.last);
                push_line(out, &format!("until {last}  {}", recurrence_title(recurrence)));
            }
            push_more(out, recurring.len(), MAX_RECURRING);
        }
        let appeared = &self.content.explanation.appeared;
        if !appeared.is_empty() {
            out.text.extend_from_slice(b"\nNew instances\n");
            for new in appeared.iter().take(MAX_APPEARED) {
                let time = self.time(new.time);
                push_line(out, &format!("{time}  {}[{}]", new.metric, new.instance));
            }
            push_more(out, appeared.len(), MAX_APPEARED);
        }
        let events = self.event_lines();
        if !events.is_empty() {
            out.text.extend_from_slice(b"\nEvents\n");
            for line in events.iter().take(MAX_EVENTS) {
                push_line(out, &self.event_text(line));
            }
            push_more(out, events.len(), MAX_EVENTS);
        }
        let unmeasured = &self.content.explanation.unmeasured;
        if !unmeasured.is_empty() {
            out.text.extend_from_slice(b"\nNot measured\n");
            for absence in unmeasured.iter().take(MAX_UNMEASURED) {
                let begin = self.time(absence.begin);
                let end = self.time(absence.end);
                let program = absence.program.as_deref().unwrap_or("all");
                push_line(out, &format!("{begin} to {end}  {program}: {}", absence.reason));
            }
            push_more(out, unmeasured.len(), MAX_UNMEASURED);
        }
        out.text.push(b'\n');
        push_line(out, &self.zone.period(&self.content.window));
        push_line(out, &self.scope());
        Ok(())
    }

    /// Returns a sentence with the largest change.
    fn headline(&self) -> String {
        let changes = &self.content.explanation.changes;
        if self.content.explanation.series == 0 {
            return format!(
                "The window is too short to tell what changed: no metric has {MIN_VALUES} samples in it."
            );
        }
        let samples = self.content.explanation.samples;
        let Some(first) = changes.first() else {
            let recurring = &self.content.explanation.recurring;
            if let Some(clearest) = recurring.first() {
                return format!(
                    "No series changed only once or twice. More often: {}, {} series in all.",
                    recurrence_title(clearest),
                    recurring.len()
                );
            }
            if samples < MIN_TELLING {
                return format!(
                    "No series changed by much. With {samples} samples a small change cannot be told \
                     from noise, nor one of fewer than {MIN_CHANGE} samples."
                );
            }
            return "No series changed more than it usually does.".to_owned();
        };
        let begin = self.time(first.begin);
        let before = number(first, first.before);
        let during = number(first, first.during);
        let what = if let (ChangeKind::Restarts, Some(program)) =
            (first.kind, program_of(&first.metric))
        {
            format!("{program} restarted {during}, before {before}")
        } else {
            let direction = if first.during > first.before { "rose" } else { "fell" };
            let manner = if first.is_gradual { " slowly" } else { "" };
            let factor = factor_text(first);
            format!("{} {direction}{manner} from {before} to {during}{factor}", title(first))
        };
        let end = match first.end {
            Some(_) => format!("for {}", length(first)),
            None => "and goes on".to_owned(),
        };
        let mut text = format!("{begin}  {what}, {end}");
        let mut again = Vec::new();
        for change in changes.iter().skip(1) {
            if change.is_of_series(first) && change.begin > first.begin {
                again.push(self.time(change.begin));
            }
        }
        if !again.is_empty() {
            let _ = write!(text, ", again at {}", again.join(" and "));
        }
        match changes.iter().filter(|change| change.group == first.group).count() - 1 {
            0 => {}
            1 => text.push_str("; 1 other moved with it"),
            others => {
                let _ = write!(text, "; {others} others moved with it");
            }
        }
        text.push('.');
        text
    }

    /// Returns the number of series, and the period that the window is compared with.
    fn scope(&self) -> String {
        let series = self.content.explanation.series;
        let is_compared = self.content.range.start() < self.content.window.start();
        let compared = if is_compared {
            format!("compared with the time since {}", self.time(*self.content.range.start()))
        } else {
            "with nothing before them to compare with".to_owned()
        };
        format!("{series} series, {compared}.")
    }

    fn push_cells(&self, grid: &mut Grid, change: &ChangePoint) {
        let lag = if change.lag >= 0.5 { format!(" +{:.0} s", change.lag) } else { String::new() };
        grid.cell(|text| text.push_str(&shown(&format!("{} {}", change.group, title(change)))));
        grid.cell(|text| text.push_str(&number(change, change.before)));
        grid.cell(|text| text.push_str(&number(change, change.during)));
        grid.cell(|text| text.push_str(&ratio_text(change)));
        grid.cell(|text| text.push_str(&self.time(change.begin)));
        grid.format(format_args!("{}{lag}", length(change)));
    }

    fn event_lines(&self) -> Vec<EventLine<'_>> {
        let mut lines: Vec<EventLine<'_>> = Vec::new();
        for event in &self.content.events {
            let same = lines.iter_mut().rev().take(4).find(|line| {
                line.event.kind == event.kind
                    && line.event.program == event.program
                    && line.event.reason == event.reason
            });
            match same {
                Some(line) => {
                    line.last = event.time;
                    line.times += 1;
                }
                None => lines.push(EventLine { event, last: event.time, times: 1 }),
            }
        }
        lines
    }

    fn event_text(&self, line: &EventLine<'_>) -> String {
        let EventLine { event, last, times } = line;
        let program = event.program.as_deref().unwrap_or("agent");
        let mut text = format!("{}  {} {program}", self.time(event.time), event.kind);
        if *times > 1 {
            let last = self.time(*last);
            let _ = write!(text, ", {times} times until {last}");
        } else if let Some(pid) = event.pid {
            let _ = write!(text, ", pid {pid}");
        }
        if let Some(reason) = &event.reason {
            let _ = write!(text, ": {reason}");
        }
        text
    }

    /// Formats a time, with the date if the window is longer than a day.
    fn time(&self, time: Timestamp) -> String {
        let is_long =
            self.content.range.end().seconds_since(*self.content.range.start()) > 86_400.0;
        self.zone.strftime(time, if is_long { "%m-%d %T" } else { "%T" })
    }
}

fn push_line(out: &mut Output, line: &str) {
    out.text.extend_from_slice(shown(line).as_bytes());
    out.text.push(b'\n');
}

fn push_more(out: &mut Output, count: usize, shown: usize) {
    if count > shown {
        push_line(out, &format!("and {} more, by --json", count - shown));
    }
}

/// Formats the duration of a change.
fn length(change: &ChangePoint) -> String {
    match change.end {
        Some(end) => length_text(end.seconds_since(change.begin)),
        None => "goes on".to_owned(),
    }
}

fn title(change: &ChangePoint) -> String {
    series_title(change.kind, &change.metric, change.instance.as_deref())
}

fn recurrence_title(recurrence: &Recurrence) -> String {
    series_title(recurrence.kind, &recurrence.metric, recurrence.instance.as_deref())
}

/// Formats a value of a change in a unit that suits its size.
fn number(change: &ChangePoint, value: f64) -> String {
    match change.kind {
        ChangeKind::Restarts => format!("{:.1}/min", value * 60.0),
        ChangeKind::Statistic(_) => scaled(value, change.units),
    }
}

fn ratio_text(change: &ChangePoint) -> String {
    match change.ratio() {
        Some(ratio) if ratio >= 100.0 => format!("{ratio:.0}"),
        Some(ratio) => format!("{ratio:.2}"),
        None => "-".to_owned(),
    }
}

/// Formats the size of a change: ` (8.9x)` if a number at least doubles, ` (+25%)` otherwise, and nothing
/// if it was 0.
fn factor_text(change: &ChangePoint) -> String {
    match change.ratio() {
        Some(ratio) if ratio >= 10.0 => format!(" ({ratio:.0}x)"),
        Some(ratio) if ratio >= 2.0 => format!(" ({ratio:.1}x)"),
        Some(ratio) if ratio >= 0.0 => format!(" ({:+.0}%)", 100.0 * (ratio - 1.0)),
        _ => String::new(),
    }
}

/// Formats a length of time in its largest unit.
fn length_text(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

/// The JSON document.
#[derive(Serialize)]
struct ExplanationJson<'a> {
    window: WindowJson,
    changes: Vec<ChangeJson<'a>>,
    recurring: Vec<RecurrenceJson<'a>>,
    appeared: Vec<AppearedJson<'a>>,
    events: Vec<EventJson<'a>>,
    unmeasured: Vec<UnmeasuredJson<'a>>,
    left_out: LeftOutJson,
}

/// The numbers of things that are not listed.
#[derive(Serialize)]
struct LeftOutJson {
    changes: usize,
    recurring: usize,
    appeared: usize,
    events: usize,
    unmeasured: usize,
}

#[derive(Serialize)]
struct WindowJson {
    begin: Rfc3339,
    end: Rfc3339,
    compared_since: Rfc3339,
    series: usize,
}

#[derive(Serialize)]
struct ChangeJson<'a> {
    program: Option<&'a str>,
    metric: &'a str,
    instance: Option<&'a str>,
    labels: Labels,
    kind: &'static str,
    quantile: Option<f64>,
    begin: Rfc3339,
    end: Option<Rfc3339>,
    gradual: bool,
    before: f64,
    during: f64,
    units: String,
    ratio: Option<f64>,
    score: f64,
    group: usize,
    lag: f64,
}

#[derive(Serialize)]
struct RecurrenceJson<'a> {
    program: Option<&'a str>,
    metric: &'a str,
    instance: Option<&'a str>,
    kind: &'static str,
    quantile: Option<f64>,
    last: Rfc3339,
}

#[derive(Serialize)]
struct AppearedJson<'a> {
    time: Rfc3339,
    metric: &'a str,
    instance: &'a str,
}

#[derive(Serialize)]
struct EventJson<'a> {
    time: Rfc3339,
    #[serde(rename = "type")]
    kind: &'a str,
    program: Option<&'a str>,
    pid: Option<u32>,
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct UnmeasuredJson<'a> {
    program: Option<&'a str>,
    begin: Rfc3339,
    end: Rfc3339,
    reason: &'static str,
}

impl ChangeKind {
    /// Returns the fields `kind` and `quantile` of the document.
    fn json(self) -> (&'static str, Option<f64>) {
        match self {
            Self::Restarts => ("restarts", None),
            Self::Statistic(Statistic::Rate) => ("rate", None),
            Self::Statistic(Statistic::Value) => ("value", None),
            Self::Statistic(Statistic::Share) => ("share", None),
            Self::Statistic(Statistic::Mean) => ("mean", None),
            Self::Statistic(Statistic::Quantile(rank)) => ("quantile", Some(rank)),
            Self::Statistic(Statistic::ShareAbove { .. }) => ("share_above", None),
        }
    }
}

impl<'a> RecurrenceJson<'a> {
    fn new(recurrence: &'a Recurrence) -> Self {
        let (kind, quantile) = recurrence.kind.json();
        Self {
            program: program_of(&recurrence.metric),
            metric: &recurrence.metric,
            instance: recurrence.instance.as_deref(),
            kind,
            quantile,
            last: Rfc3339(recurrence.last),
        }
    }
}

impl<'a> ChangeJson<'a> {
    fn new(change: &'a ChangePoint, labels: Labels) -> Self {
        let (kind, quantile) = change.kind.json();
        Self {
            program: program_of(&change.metric),
            metric: &change.metric,
            instance: change.instance.as_deref(),
            labels,
            kind,
            quantile,
            begin: Rfc3339(change.begin),
            end: change.end.map(Rfc3339),
            gradual: change.is_gradual,
            before: change.before,
            during: change.during,
            units: change.units.to_string(),
            ratio: change.ratio(),
            score: change.score,
            group: change.group,
            lag: change.lag,
        }
    }
}

impl<'a> EventJson<'a> {
    fn new(event: &'a RecordedEvent) -> Self {
        Self {
            time: Rfc3339(event.time),
            kind: &event.kind,
            program: event.program.as_deref(),
            pid: event.pid,
            reason: event.reason.as_deref(),
        }
    }
}
