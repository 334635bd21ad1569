//! `mmv-archive compare`: what differs between runs.

mod condition;

use mmv_chart::Grid;
use pcp_types::scaled::scaled;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args;
use pcp_archive::scan::Selection;
use pcp_archive::{Source, Timestamp};
use pcp_types::parse_interval;
use serde::Serialize;

use crate::Failure;
use crate::comparison::{
    Change, Comparison, ExcludedPeriod, ObservedRun, RunOptions, RunSide, SeriesName, Statistic,
    Verdict, compare, series_title,
};
use crate::left_out::check_whole_set;
use crate::options::{ArchiveArgument, Parts};
use crate::order::is_unnamed_machinery;
use crate::selection::select_metrics;
use crate::text::{EpochSeconds, Output, Rfc3339, shown, warn};
use crate::time::{Frame, SpanOptions, Zone, ZoneOptions, parse_time};
use condition::{Condition, Outcome};

/// Limit on the metrics listed as present on one side only.
const MAX_LISTED: usize = 5;
/// Limit on the listed numbers whose conditions hold or are undecided.
const MAX_OUTCOMES: usize = 10;
/// Limit on the restarts, gaps and warm-ups listed for a run.
const MAX_EXCLUDED: usize = 5;
/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  What is different between two runs of a benchmark?
    mmv-archive compare base=runs/main new=runs/branch
  What changed between 10:15 and 10:20?
    mmv-archive compare @ --before 10:00..10:15 --after 10:20..10:35
  Fail if the p99 of a histogram rose by more than 5 %:
    mmv-archive compare base=runs/main new=runs/branch \\
        --warm-up 30s --fail-if 'p99(mmv.shop.latency) > +5%'
  Three runs, whose differences are no news, against a fourth:
    mmv-archive compare a=runs/1 b=runs/2 c=runs/3 new=runs/4";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CompareCommand {
    /// Base run as base=ARCHIVE, and the new one as new=ARCHIVE; or one archive for --before and
    /// --after. An archive is a base name, a directory, a pattern, a list with commas, or @ for
    /// those of this machine's agent
    archive: PathBuf,

    /// The other runs, of which the last is the new one unless one is named new; and metrics:
    /// names, branches of the name space, or patterns, also with labels [default: all but those of
    /// mmv-agent and pmcd]
    #[arg(value_name = "METRIC")]
    metrics: Vec<String>,

    /// Only these instances, by name, number or a pattern such as "sd*"; may be repeated
    /// [default: all]
    #[arg(short = 'i', long = "instance", value_name = "NAME")]
    instances: Vec<String>,

    /// The part of a single archive that is the base: 10:00..10:15
    #[arg(long, value_name = "FROM..TO", requires = "after", allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["start", "finish", "last"])]
    before: Option<String>,

    /// The part of a single archive that is new: 10:20..10:35
    #[arg(long, value_name = "FROM..TO", requires = "before", allow_hyphen_values = true)]
    after: Option<String>,

    /// Leave out this time after the beginning of each run, and after each start of a program
    #[arg(long, value_name = "INTERVAL", default_value = "0s")]
    warm_up: String,

    /// Exit with status 1 if a number changed significantly and by more than this; may be repeated:
    /// "p99(mmv.shop.latency) > +5%", "rate(mmv.shop.requests{code='500'}) > +10%". Conditions
    /// that the runs cannot decide are named on standard error
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<Condition>,

    /// Also print numbers that are the same or unclear
    #[arg(long)]
    all: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    span: SpanOptions,

    #[command(flatten)]
    zone: ZoneOptions,
}

/// A run and what was read of it.
pub(crate) struct Run {
    name: String,
    window: RangeInclusive<Timestamp>,
    observed: ObservedRun,
    /// The series that the labels of each condition select.
    labelled: Vec<BTreeSet<SeriesName>>,
}

impl Run {
    /// Reads a window of a selection without the agent's and pmcd's own metrics, unless they are
    /// `named`.
    ///
    /// # Errors
    ///
    /// Those of reading.
    pub(crate) fn read(
        name: &str,
        mut selection: Selection<'_>,
        window: RangeInclusive<Timestamp>,
        named: &[String],
        options: RunOptions,
    ) -> Result<Self, Failure> {
        selection.retain(|metric| !is_unnamed_machinery(&metric.name, named));
        let observed = ObservedRun::read(&selection, window.clone(), options)?;
        Ok(Self { name: name.to_owned(), window, observed, labelled: Vec::new() })
    }
}

/// Compares the last run with the others. `ranks` are further quantiles of histograms.
pub(crate) fn compare_last(runs: &[Run], ranks: &[f64]) -> Comparison {
    let Some((new, bases)) = runs.split_last() else { return Comparison::default() };
    let bases: Vec<&ObservedRun> = bases.iter().map(|run| &run.observed).collect();
    compare(&bases, &new.observed, ranks)
}

impl CompareCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.run_within(usize::MAX)
    }

    /// Runs the command; its JSON document lists at most `limit` things of each kind.
    pub(crate) fn run_within(&self, limit: usize) -> Result<(), Failure> {
        let mut zone = None;
        let mut runs = self.runs(&mut zone)?;
        let place = runs.iter().position(|run| run.name == "new").unwrap_or(runs.len() - 1);
        let new = runs.remove(place);
        runs.push(new);
        let ranks: Vec<f64> = self.fail_if.iter().filter_map(Condition::rank).collect();
        let comparison = compare_last(&runs, &ranks);
        if comparison.changes.is_empty() && comparison.one_sided.is_empty() {
            let reason = "none of the metrics has enough values in these windows";
            return Err(Failure::NoData(reason.to_owned()));
        }
        let zone = zone.ok_or_else(|| Failure::Usage("no run".to_owned()))?;
        let mut out = Output::new();
        if self.json {
            out.json_line(&document(&comparison, &runs, limit))?;
        } else {
            self.write_table(&mut out, &comparison, &runs, &zone)?;
        }
        out.finish()?;
        self.check_conditions(&comparison, &runs)
    }

    /// Reads the two parts of one archive, or each of several archives.
    fn runs(&self, zone: &mut Option<Zone>) -> Result<Vec<Run>, Failure> {
        let Parts { first, others, metrics } = Parts::new(&self.archive, &self.metrics)?;
        let mut runs = Vec::new();
        if let (Some(before), Some(after)) = (&self.before, &self.after) {
            if !others.is_empty() {
                let reason = "--before and --after are parts of one archive";
                return Err(Failure::Usage(reason.to_owned()));
            }
            let (_, archive) = &first;
            runs.push(self.read("base", archive, Some(before), &metrics, zone)?);
            runs.push(self.read("new", archive, Some(after), &metrics, zone)?);
            check_parts(&runs)?;
            return Ok(runs);
        }
        if others.is_empty() {
            let reason = "one run; name two or more as base=ARCHIVE new=ARCHIVE, or two parts of \
                          one with --before and --after";
            return Err(Failure::Usage(reason.to_owned()));
        }
        for (name, archive) in [first].iter().chain(&others) {
            runs.push(self.read(name, archive, None, &metrics, zone)?);
        }
        Ok(runs)
    }

    /// Reads an archive or a part of it. All runs use the time zone of the first.
    fn read(
        &self,
        name: &str,
        archive: &ArchiveArgument,
        part: Option<&str>,
        metrics: &[String],
        zone: &mut Option<Zone>,
    ) -> Result<Run, Failure> {
        let archives = archive.open(metrics)?;
        let source = Source::from(&archives);
        let own = self.zone.zone(source.label())?;
        let zone = zone.get_or_insert(own);
        let window = if let Some(part) = part {
            part_of(source, part, zone)?
        } else {
            let window = self.span.window(source.start(), source.end(), zone.time_zone())?;
            window.start..=window.end
        };
        let selection = select_metrics(source, metrics, &self.instances)?;
        let options = RunOptions {
            warm_up: parse_interval(&self.warm_up)?,
            with_falls: true,
            ..RunOptions::default()
        };
        let mut run = Run::read(name, selection, window, metrics, options)?;
        for condition in &self.fail_if {
            run.labelled.push(condition.labelled_series(source));
        }
        check_whole_set(&archives)?;
        Ok(run)
    }

    fn write_table(
        &self,
        out: &mut Output,
        comparison: &Comparison,
        runs: &[Run],
        zone: &Zone,
    ) -> Result<(), Failure> {
        let width = runs.iter().map(|run| run.name.len()).max().unwrap_or_default();
        for run in runs {
            let line = format!("{:width$}  {}", run.name, zone.period(&run.window));
            out.text.extend_from_slice(shown(&line).as_bytes());
            out.text.push(b'\n');
            let cuts = &run.observed.excluded;
            for cut in cuts.iter().take(MAX_EXCLUDED) {
                let line = format!("  {}", excluded_text(cut, &run.window, zone));
                out.text.extend_from_slice(shown(&line).as_bytes());
                out.text.push(b'\n');
            }
            if cuts.len() > MAX_EXCLUDED {
                let more = cuts.len() - MAX_EXCLUDED;
                out.text.extend_from_slice(format!("  and {more} more, by --json\n").as_bytes());
            }
        }
        let is_shown = |change: &&Change| {
            self.all || matches!(change.verdict, Verdict::Higher | Verdict::Lower)
        };
        let rows: Vec<&Change> = comparison.changes.iter().filter(is_shown).collect();
        if !rows.is_empty() {
            out.text.push(b'\n');
            let mut grid = Grid::new(6);
            for head in ["Number", "Base", "New", "Ratio", "95 % bounds", "Verdict"] {
                grid.cell(|text| text.push_str(head));
            }
            for change in &rows {
                push_cells(&mut grid, change);
            }
            out.rows(&grid)?;
        }
        out.text.push(b'\n');
        out.text.extend_from_slice(self.totals(comparison, rows.len()).as_bytes());
        for (side, title) in
            [(RunSide::New, "Only in the new run"), (RunSide::Base, "Only in the base")]
        {
            if let Some(list) = one_sided_text(comparison, side) {
                out.text.extend_from_slice(format!("{title}: {}\n", shown(&list)).as_bytes());
            }
        }
        Ok(())
    }

    /// Returns a line with the number of each verdict.
    fn totals(&self, comparison: &Comparison, rows: usize) -> String {
        let count =
            |verdict| comparison.changes.iter().filter(|change| change.verdict == verdict).count();
        let all = comparison.changes.len();
        let different = count(Verdict::Higher) + count(Verdict::Lower);
        let same = count(Verdict::Same);
        let unclear = count(Verdict::Unclear);
        let hint = if self.all || rows == all { "" } else { "; --all prints all" };
        format!(
            "{different} of {all} numbers differ, {same} do not, {unclear} are unclear{hint}.\n"
        )
    }

    /// Names the numbers for which a condition holds or is undecided.
    ///
    /// # Errors
    ///
    /// [`Failure::Usage`] for a condition about no number, [`Failure::Condition`] if one holds.
    fn check_conditions(&self, comparison: &Comparison, runs: &[Run]) -> Result<(), Failure> {
        let mut holding = Vec::new();
        let mut undecided = Vec::new();
        let mut unknown = Vec::new();
        for (place, condition) in self.fail_if.iter().enumerate() {
            let labelled: BTreeSet<&SeriesName> =
                runs.iter().filter_map(|run| run.labelled.get(place)).flatten().collect();
            let mut is_known = false;
            for change in &comparison.changes {
                if !condition.is_about(change, &labelled) {
                    continue;
                }
                is_known = true;
                match condition.outcome(change) {
                    Outcome::Holds => holding.push(outcome_text(condition, change)),
                    Outcome::Undecided => undecided.push(undecided_text(condition, change)),
                    Outcome::DoesNotHold => {}
                }
            }
            if !is_known {
                unknown.push(format!("{}: this number was not compared", condition.text()));
            }
        }
        for line in first_lines(undecided, "undecided") {
            warn(&line);
        }
        let mut holding = first_lines(holding, "for which a condition holds");
        // The last line is that of the error.
        let failure = if unknown.is_empty() {
            holding.pop().map(Failure::Condition)
        } else {
            Some(Failure::Usage(unknown.join("; ")))
        };
        for line in holding {
            warn(&line);
        }
        failure.map_or(Ok(()), Err)
    }
}

fn outcome_text(condition: &Condition, change: &Change) -> String {
    let text = format!(
        "{}: {} was {} and is {}",
        condition.text(),
        title(change),
        number(change, change.base),
        number(change, change.new)
    );
    shown(&text).into_owned()
}

fn undecided_text(condition: &Condition, change: &Change) -> String {
    let bounds = match (change.low, change.high) {
        (Some(low), Some(high)) => format!("; their ratio may be {low:.2} to {high:.2}"),
        _ => String::new(),
    };
    format!("not decided: too few values: {}{bounds}", outcome_text(condition, change))
}

/// Returns the first lines about some numbers, and one that says how many others there are.
fn first_lines(mut lines: Vec<String>, kind: &str) -> Vec<String> {
    let more = lines.len().saturating_sub(MAX_OUTCOMES);
    lines.truncate(MAX_OUTCOMES);
    if more > 0 {
        lines.push(format!("{more} more numbers {kind}"));
    }
    lines
}

/// Refuses two parts of an archive that have values in common, which would be compared with
/// themselves.
fn check_parts(parts: &[Run]) -> Result<(), Failure> {
    let [before, after] = parts else { return Ok(()) };
    if before.window.start() < after.window.end() && after.window.start() < before.window.end() {
        let reason = "--before and --after overlap, but only parts without a common value can be \
                      compared; let one end where the other begins";
        return Err(Failure::Usage(reason.to_owned()));
    }
    Ok(())
}

/// Parses `FROM..TO`; relative times count from the start or end of the archive.
fn part_of(
    source: Source<'_>,
    text: &str,
    zone: &Zone,
) -> Result<RangeInclusive<Timestamp>, Failure> {
    let (from, to) = text
        .split_once("..")
        .ok_or_else(|| Failure::Usage(format!("\"{text}\" is not a part such as 10:00..10:15")))?;
    let frame = Frame {
        start: source.start(),
        end: source.end(),
        now: Timestamp::now(),
        zone: zone.time_zone().clone(),
    };
    let from = parse_time(from, &frame)?.max(frame.start);
    let to = parse_time(to, &frame)?.min(frame.end);
    if to <= from {
        let reason = format!(
            "nothing of \"{text}\" is in the archive, which is from {} to {}",
            zone.long(frame.start),
            zone.long(frame.end)
        );
        return Err(Failure::NoData(reason));
    }
    Ok(from..=to)
}

/// Describes a cut, with dates if the run is on several days.
fn excluded_text(cut: &ExcludedPeriod, window: &RangeInclusive<Timestamp>, zone: &Zone) -> String {
    let program = cut.program.as_deref().map(|program| format!("{program}: ")).unwrap_or_default();
    let first_day = zone.strftime(*window.start(), "%F");
    let is_one_day = first_day == zone.strftime(*window.end(), "%F");
    let format = if is_one_day { "%T" } else { "%F %T" };
    let begin = zone.strftime(cut.begin, format);
    let end = zone.strftime(cut.end, format);
    if begin == end {
        return format!("{program}{} at {begin}", cut.reason);
    }
    format!("{program}{} from {begin} to {end}", cut.reason)
}

fn title(change: &Change) -> String {
    series_title(change.statistic, &change.metric, change.instance.as_deref())
}

/// Formats a value of a change in a unit that suits its size.
fn number(change: &Change, value: f64) -> String {
    match change.statistic {
        Statistic::Share | Statistic::ShareAbove { .. } => format!("{:.1} %", value * 100.0),
        _ => scaled(value, change.units),
    }
}

fn push_cells(grid: &mut Grid, change: &Change) {
    let ratio =
        |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
    let bounds = match (change.low, change.high) {
        (Some(low), Some(high)) => format!("{low:.2} - {high:.2}"),
        _ if change.base_may_be_zero => "base may be 0".to_owned(),
        // Of few values the rank of a quantile is not known well enough to name a greatest bucket.
        _ => "too few values".to_owned(),
    };
    grid.cell(|text| text.push_str(&shown(&title(change))));
    grid.cell(|text| text.push_str(&number(change, change.base)));
    grid.cell(|text| text.push_str(&number(change, change.new)));
    grid.cell(|text| text.push_str(&ratio(change.ratio())));
    grid.cell(|text| text.push_str(&bounds));
    grid.format(format_args!("{}", change.verdict));
}

/// Lists the metrics that only one side has, with the number of instances of each.
fn one_sided_text(comparison: &Comparison, side: RunSide) -> Option<String> {
    let mut metrics: BTreeMap<&str, usize> = BTreeMap::new();
    for (found, metric, instance) in &comparison.one_sided {
        if *found == side {
            *metrics.entry(metric).or_default() += usize::from(instance.is_some());
        }
    }
    let more = metrics.len().saturating_sub(MAX_LISTED);
    let mut list: Vec<String> = metrics
        .iter()
        .take(MAX_LISTED)
        .map(|(metric, instances)| match instances {
            0 => (*metric).to_owned(),
            instances => format!("{metric} ({instances})"),
        })
        .collect();
    if more > 0 {
        list.push(format!("{more} more"));
    }
    (!list.is_empty()).then(|| list.join(", "))
}

/// The JSON document.
#[derive(Serialize)]
struct ComparisonJson<'a> {
    runs: Vec<RunJson<'a>>,
    series: Vec<ChangeJson<'a>>,
    only_base: Vec<SeriesJson<'a>>,
    only_new: Vec<SeriesJson<'a>>,
    excluded: Vec<ExcludedJson<'a>>,
    left_out: LeftOutJson,
}

/// Number of omitted items of each kind.
#[derive(Serialize)]
struct LeftOutJson {
    series: usize,
    only_base: usize,
    only_new: usize,
    excluded: usize,
}

#[derive(Serialize)]
struct RunJson<'a> {
    name: &'a str,
    begin: Rfc3339,
    begin_seconds: EpochSeconds,
    end: Rfc3339,
    end_seconds: EpochSeconds,
}

#[derive(Serialize)]
struct ChangeJson<'a> {
    metric: &'a str,
    instance: Option<&'a str>,
    statistic: &'static str,
    quantile: Option<f64>,
    limit: Option<f64>,
    base: f64,
    new: f64,
    units: String,
    ratio: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    significance: f64,
    verdict: Verdict,
}

#[derive(Serialize)]
struct SeriesJson<'a> {
    metric: &'a str,
    instance: Option<&'a str>,
}

#[derive(Serialize)]
struct ExcludedJson<'a> {
    run: &'a str,
    program: Option<&'a str>,
    begin: Rfc3339,
    begin_seconds: EpochSeconds,
    end: Rfc3339,
    end_seconds: EpochSeconds,
    reason: &'static str,
}

impl<'a> ChangeJson<'a> {
    fn new(change: &'a Change) -> Self {
        let mut quantile = None;
        let mut limit = None;
        let statistic = match change.statistic {
            Statistic::Rate => "rate",
            Statistic::Value => "value",
            Statistic::Share => "share",
            Statistic::Mean => "mean",
            Statistic::Quantile(rank) => {
                quantile = Some(rank);
                "quantile"
            }
            Statistic::ShareAbove { limit: value, .. } => {
                limit = Some(value);
                "share_above"
            }
        };
        Self {
            metric: &change.metric,
            instance: change.instance.as_deref(),
            statistic,
            quantile,
            limit,
            base: change.base,
            new: change.new,
            units: change.units.to_string(),
            ratio: change.ratio(),
            low: change.low,
            high: change.high,
            significance: change.significance,
            verdict: change.verdict,
        }
    }
}

/// Returns the document that `--json` prints, with at most `limit` things of each kind.
pub(crate) fn document<'a>(
    comparison: &'a Comparison,
    runs: &'a [Run],
    limit: usize,
) -> impl Serialize + 'a {
    let one_sided = |side| {
        let series = comparison.one_sided.iter().filter(move |(found, ..)| *found == side);
        let series = series
            .map(|(_, metric, instance)| SeriesJson { metric, instance: instance.as_deref() });
        limited(series, limit)
    };
    let excluded = runs.iter().flat_map(|run| {
        let Run { name, observed, .. } = run;
        observed.excluded.iter().map(move |cut| ExcludedJson {
            run: name,
            program: cut.program.as_deref(),
            begin: Rfc3339(cut.begin),
            begin_seconds: EpochSeconds(cut.begin),
            end: Rfc3339(cut.end),
            end_seconds: EpochSeconds(cut.end),
            reason: cut.reason,
        })
    });
    let (series, more_series) = limited(comparison.changes.iter().map(ChangeJson::new), limit);
    let (only_base, more_of_base) = one_sided(RunSide::Base);
    let (only_new, more_of_new) = one_sided(RunSide::New);
    let (excluded, more_excluded) = limited(excluded, limit);
    ComparisonJson {
        runs: runs
            .iter()
            .map(|run| RunJson {
                name: &run.name,
                begin: Rfc3339(*run.window.start()),
                begin_seconds: EpochSeconds(*run.window.start()),
                end: Rfc3339(*run.window.end()),
                end_seconds: EpochSeconds(*run.window.end()),
            })
            .collect(),
        series,
        only_base,
        only_new,
        excluded,
        left_out: LeftOutJson {
            series: more_series,
            only_base: more_of_base,
            only_new: more_of_new,
            excluded: more_excluded,
        },
    }
}

/// Returns the first things, at most `limit`, and the number of the others.
fn limited<T>(mut things: impl Iterator<Item = T>, limit: usize) -> (Vec<T>, usize) {
    let first = things.by_ref().take(limit).collect();
    (first, things.count())
}
