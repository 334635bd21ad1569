//! Answers: all that reads archives.
//!
//! Runs on a thread that may block on disk I/O. Reading stops soon after the client
//! disconnects.

use std::ops::{Bound, RangeBounds};
use std::time::Duration;

use pcp_archive::envelope::{Envelope, GoOn, Grid, Options};
use pcp_archive::scan::{Columns, Selection};
use pcp_archive::{Error, Timestamp};
use serde::Serialize;

use super::archives::{Archives, OpenedArchives, lock};
use super::beyond::{self, Direction};
use super::question::{Question, SideMetric, Span};
use crate::Failure;
use crate::commands::compare::{Run, compare_last, document};
use crate::commands::explain::WindowChanges;
use crate::comparison::RunOptions;
use crate::groups::max_series;
use crate::page::header::events;
use crate::page::heat::{Histogram, Reading, maps};
use crate::page::movement::PageMovements;
use crate::page::series::EnvelopeNames;
use crate::page::sides::Side;
use crate::page::tile::Tile;
use crate::time::Window;

/// The most cells of all series of an answer, 25 bytes each.
const MAX_CELLS: usize = 1 << 19;
/// The least columns that many series leave.
const MIN_COLUMNS: u32 = 16;
/// The most series that are read at once: each takes a kilobyte and more meanwhile.
const PART: usize = 1 << 16;
/// Number of parts in which the window of a heat map is read.
const PARTS: u32 = 8;
/// The first part of the past that is searched for a sample, and how much longer each next is.
const MIN_SAMPLE_SEARCH: Duration = Duration::from_secs(60);
const GROWTH: u32 = 4;

/// The body of an answer.
#[derive(Debug)]
pub(super) enum Body {
    Json(String),
    /// Columns in the encoding of `page::tile`.
    Columns(Vec<u8>),
}

/// An answer; `None` if the client disconnected first.
type Answer = Result<Option<Body>, Failure>;

/// Answers a question about the archives; `None` if `go_on` ended it.
///
/// # Errors
///
/// Those of reading.
pub(super) fn answer(archives: &Archives, question: &Question, go_on: GoOn<'_>) -> Answer {
    let request = Request { archives, opened: &archives.opened(), go_on };
    match question {
        Question::Page | Question::Header => {
            let now = text(&archives.look())?;
            let header = &archives.opened().header;
            let moved = request.known_movements();
            let moved = moved.as_deref().unwrap_or("null");
            let text = format!("{{\"now\":{now},\"moved\":{moved},\"header\":{header}}}");
            Ok(Some(Body::Json(text)))
        }
        Question::Now => json(&archives.look()),
        Question::Columns { metrics, span, columns, raw } => {
            request.columns(metrics, *span, *columns, *raw)
        }
        Question::Heat { metrics, span } => request.heat(metrics, *span),
        Question::Events { span } => request.events(*span),
        Question::Movements { span } => request.movements(*span),
        Question::Changes { span } => request.changes(*span),
        Question::Sample { metrics, at, forward } => request.sample(metrics, *at, *forward),
    }
}

fn text(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::Output(std::io::Error::other(error)))
}

fn json(value: &impl Serialize) -> Answer {
    Ok(Some(Body::Json(text(value)?)))
}

/// The data that an answer is computed from.
struct Request<'r> {
    archives: &'r Archives,
    opened: &'r OpenedArchives,
    go_on: GoOn<'r>,
}

impl<'r> Request<'r> {
    fn window(&self, span: Span) -> Window {
        let start = self.archives.timestamp(span.from);
        let end = self.archives.timestamp(span.to);
        Window { start, end, origin: start }
    }

    /// Returns each side that is asked for, with a selection of its metrics.
    fn selections(&self, metrics: &[SideMetric]) -> Vec<(usize, &'r Side, Selection<'r>)> {
        let mut all = Vec::new();
        for (place, side) in self.opened.sides.iter().enumerate() {
            if metrics.iter().any(|one| one.side == place) {
                let mut selection = self.opened.sides.selection(side);
                selection.retain(|metric| {
                    let pmid = metric.desc.pmid.raw();
                    metric.has_numbers() && metrics.contains(&SideMetric { side: place, pmid })
                });
                all.push((place, side, selection));
            }
        }
        all
    }

    fn columns(&self, metrics: &[SideMetric], span: Span, wanted: u32, raw: bool) -> Answer {
        let window = self.window(span);
        let selections = self.selections(metrics);
        let count: usize = selections.iter().map(|(.., one)| max_series(one)).sum();
        let columns = fitting(wanted, count);
        let mut tile = Tile::default();
        let parts = selections.iter().flat_map(|(place, side, all)| {
            all.parts(PART).into_iter().map(move |part| (*place, *side, part))
        });
        for (place, side, selection) in parts {
            let own = side.own_window(window);
            let grid = Grid::new(own.start..=own.end, columns);
            let Some(envelope) = self.envelope(place, &selection, grid, raw)? else {
                return Ok(None);
            };
            let origin = |envelope: &Envelope| {
                self.archives.offset(side.on_page(*envelope.grid.window().start()))
            };
            let names = EnvelopeNames::new(place, side, &selection, &envelope);
            tile.add(&envelope, &names, origin(&envelope));
            let mut add = |way, selection: &Selection<'_>, part: &Envelope| {
                let names = EnvelopeNames::new(place, side, selection, part);
                tile.add_beyond(part, &names, origin(part), way == Direction::After);
            };
            let options = Options { rates: !raw, gaps: self.archives.gaps };
            if !beyond::search(&selection, &envelope, options, self.go_on, &mut add)? {
                return Ok(None);
            }
        }
        Ok(Some(Body::Columns(tile.encoded().map_err(Failure::Output)?)))
    }

    /// Returns the envelope of a window. Logged values are read each time; rates may come from a
    /// pyramid.
    fn envelope(
        &self,
        place: usize,
        selection: &Selection<'_>,
        grid: Grid,
        raw: bool,
    ) -> Result<Option<Envelope>, Error> {
        if let Some(envelopes) = self.archives.envelopes.get(place).filter(|_| !raw) {
            let answer = envelopes.envelope(selection, &grid, self.go_on)?;
            return Ok(answer.map(|answer| answer.envelope));
        }
        let options = Options { rates: !raw, gaps: self.archives.gaps };
        Envelope::read_while(selection, grid, options, self.go_on)
    }

    fn heat(&self, metrics: &[SideMetric], span: Span) -> Answer {
        let window = self.window(span);
        let reading = Reading { gaps: self.archives.gaps, parts: PARTS, go_on: self.go_on };
        let mut all = Vec::new();
        let sides = self.opened.sides.iter().zip(&self.opened.histograms);
        for (place, (side, histograms)) in sides.enumerate() {
            let mut own: Vec<Histogram> = histograms.clone();
            own.retain(|histogram| {
                metrics.contains(&SideMetric { side: place, pmid: histogram.pmid.raw() })
            });
            if own.is_empty() {
                continue;
            }
            let Some(found) = maps(place, side, &own, window, reading)? else { return Ok(None) };
            all.extend(found);
        }
        json(&all)
    }

    fn events(&self, span: Span) -> Answer {
        let window = self.window(span);
        let mut all = Vec::new();
        for (place, side) in self.opened.sides.iter().enumerate() {
            let Some(found) = events(place, side, window, self.go_on)? else { return Ok(None) };
            all.extend(found);
        }
        json(&all)
    }

    /// Returns the movements in the window that a page opens with, so that it need not request them;
    /// `None` if they are not known or are being computed.
    fn known_movements(&self) -> Option<String> {
        let known = self.archives.movements.try_lock().ok()?;
        let (window, found) = known.as_ref()?;
        is_almost(*window, self.archives.opening()).then(|| found.clone())
    }

    /// Returns what moves in a window, or in one that differs little from it, if that is known.
    fn movements(&self, span: Span) -> Answer {
        let window = self.window(span);
        let mut known = lock(&self.archives.movements);
        if let Some((of, found)) = &*known
            && is_almost(*of, window)
        {
            return Ok(Some(Body::Json(found.clone())));
        }
        let sides = &self.opened.sides;
        let mut all = PageMovements::default();
        for (place, side) in sides.iter().enumerate() {
            all.add(place, side, sides.selection(side), window)?;
            if !(self.go_on)() {
                return Ok(None);
            }
        }
        let found = text(&all)?;
        *known = Some((window, found.clone()));
        Ok(Some(Body::Json(found)))
    }

    /// Returns what `explain --json` prints of one archive, or `compare --json` of several, of which
    /// the last is the new run.
    fn changes(&self, span: Span) -> Answer {
        let window = self.window(span);
        let sides = &self.opened.sides;
        let mut runs = Vec::new();
        for side in sides.iter() {
            let own = side.own_window(window);
            let source = side.source();
            let own = own.start.max(source.start())..=own.end.min(source.end());
            let selection = sides.selection(side);
            if sides.iter().count() == 1 {
                return json(
                    &WindowChanges::read(selection, own, sides.metrics())?.document(usize::MAX),
                );
            }
            let options = RunOptions { with_falls: true, ..RunOptions::default() };
            runs.push(Run::read(&side.name, selection, own, sides.metrics(), options)?);
            if !(self.go_on)() {
                return Ok(None);
            }
        }
        json(&document(&compare_last(&runs, &[]), &runs, usize::MAX))
    }

    /// Returns the time of the sample next to one, of any of the metrics.
    fn sample(&self, metrics: &[SideMetric], at: f64, forward: bool) -> Answer {
        let at = self.archives.timestamp(at);
        let mut found: Option<Timestamp> = None;
        for (_, side, selection) in self.selections(metrics) {
            let own = side.own(at);
            let next = if forward {
                next(&selection, own, self.go_on)?
            } else {
                former(&selection, own, self.go_on)?
            };
            let next = next.map(|next| side.on_page(next));
            found = match (found, next) {
                (Some(one), Some(other)) if forward => Some(one.min(other)),
                (Some(one), Some(other)) => Some(one.max(other)),
                (one, other) => one.or(other),
            };
        }
        if !(self.go_on)() {
            return Ok(None);
        }
        json(&found.map(|found| self.archives.offset(found)))
    }
}

/// Returns whether the ends of two windows differ by less than a fiftieth of their length.
fn is_almost(one: Window, other: Window) -> bool {
    let most = other.end.seconds_since(other.start) / 50.0;
    let differences = [one.start.seconds_since(other.start), one.end.seconds_since(other.end)];
    differences.iter().all(|difference| difference.abs() <= most)
}

/// Reads what moves in the window that a page shows first, before one asks.
pub(super) fn prepare(archives: &Archives, go_on: GoOn<'_>) {
    let Window { start, end, .. } = archives.opening();
    let span = Span { from: archives.offset(start), to: archives.offset(end) };
    // What cannot be read is an error of the answers, too, which say so.
    let _ = answer(archives, &Question::Movements { span }, go_on);
}

/// Returns the number of columns that fit into an answer with this number of series, at most
/// `wanted`.
fn fitting(wanted: u32, series: usize) -> u32 {
    let mut columns = wanted;
    while columns > MIN_COLUMNS && columns as usize * series > MAX_CELLS {
        columns = columns.div_ceil(2).max(MIN_COLUMNS);
    }
    columns
}

fn next(
    selection: &Selection<'_>,
    at: Timestamp,
    go_on: GoOn<'_>,
) -> Result<Option<Timestamp>, Error> {
    let mut columns = Columns::open(selection, (Bound::Excluded(at), Bound::Unbounded))?;
    while go_on()
        && let Some(chunk) = columns.next_chunk()?
    {
        let places = 0..selection.metrics().len();
        let own = places.flat_map(|place| chunk.columns(place));
        let first = own.filter_map(|column| column.get(0)).map(|(row, _)| row).min();
        if let Some(row) = first {
            return Ok(chunk.timestamps().get(row as usize).copied());
        }
    }
    Ok(None)
}

fn former(
    selection: &Selection<'_>,
    at: Timestamp,
    go_on: GoOn<'_>,
) -> Result<Option<Timestamp>, Error> {
    let start = selection.source().start();
    let mut end = at;
    let mut length = MIN_SAMPLE_SEARCH;
    while end > start && go_on() {
        let from = end.saturating_sub(length).max(start);
        let span = (Bound::Included(from), Bound::Excluded(end));
        if let Some(last) = last(selection, span, go_on)? {
            return Ok(Some(last));
        }
        end = from;
        length = length.saturating_mul(GROWTH);
    }
    Ok(None)
}

fn last(
    selection: &Selection<'_>,
    span: impl RangeBounds<Timestamp>,
    go_on: GoOn<'_>,
) -> Result<Option<Timestamp>, Error> {
    let mut columns = Columns::open(selection, span)?;
    let mut found = None;
    while go_on()
        && let Some(chunk) = columns.next_chunk()?
    {
        let places = 0..selection.metrics().len();
        let own = places.flat_map(|place| chunk.columns(place));
        let last = own.filter_map(|column| column.iter().next_back()).map(|(row, _)| row).max();
        found = last.and_then(|row| chunk.timestamps().get(row as usize).copied()).or(found);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use jiff::tz::TimeZone;
    use pcp_archive::Pmid;
    use pcp_archive::replay::Gaps;
    use test_archives::Builder;

    use super::*;
    use crate::options::SidesArgument;
    use crate::page::sides::Sides;
    use crate::time::Zone;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        sides: SidesArgument,
    }

    const PMID: u32 = 70 << 22 | 1;

    /// A metric with ten values, one a second.
    fn archives() -> (tempfile::TempDir, Archives) {
        let (directory, base) = Builder::new()
            .metric_with(Pmid::from_raw(PMID), "a.metric", "u32 instant")
            .rows((0..10).map(|second| (second, [("a.metric", second)])))
            .finish()
            .into_parts();
        let line = Line::parse_from(["view", base.to_str().unwrap()]);
        let sides = Sides::open(&line.sides).unwrap();
        let archives = Archives::new(sides, Zone::new(TimeZone::UTC), Gaps::Keep).unwrap();
        (directory, archives)
    }

    #[test]
    fn reading_ends_when_nobody_waits() {
        let (_directory, archives) = archives();
        let metrics = vec![SideMetric { side: 0, pmid: PMID }];
        let span = Span { from: 0.0, to: 9.0 };
        let questions = [
            Question::Columns { metrics: metrics.clone(), span, columns: 10, raw: false },
            Question::Columns { metrics: metrics.clone(), span, columns: 10, raw: true },
            Question::Sample { metrics: metrics.clone(), at: 0.5, forward: true },
            Question::Sample { metrics, at: 0.5, forward: false },
        ];
        for question in questions {
            let answered = answer(&archives, &question, &|| true).unwrap();
            assert!(answered.is_some(), "{question:?}");
            let ended = answer(&archives, &question, &|| false).unwrap();
            assert!(ended.is_none(), "{question:?}");
        }
    }

    #[test]
    fn movements_of_the_first_window_are_known_before_a_page_asks() {
        let (_directory, archives) = archives();
        prepare(&archives, &|| true);
        // Nothing more is read: reading would end.
        let asked = |to| {
            let question = Question::Movements { span: Span { from: 0.0, to } };
            answer(&archives, &question, &|| false).unwrap().is_some()
        };
        assert!(asked(9.0) && asked(9.1), "almost the same window");
        assert!(!asked(5.0), "another window");
        let Ok(Some(Body::Json(header))) = answer(&archives, &Question::Header, &|| false) else {
            panic!("no header");
        };
        assert!(header.contains(r#""moved":{"programs":{"a":"#), "{header}");
        assert!(!asked(5.0), "another window");
        let question = Question::Movements { span: Span { from: 0.0, to: 5.0 } };
        answer(&archives, &question, &|| true).unwrap();
        let Ok(Some(Body::Json(header))) = answer(&archives, &Question::Header, &|| true) else {
            panic!("no header");
        };
        assert!(header.contains("\"moved\":null"), "of another window: {header}");
    }

    #[test]
    fn large_archive_is_answered_from_a_pyramid() {
        let (_directory, archives) = archives();
        let archives = archives.max_direct_bytes(0);
        let metrics = vec![SideMetric { side: 0, pmid: PMID }];
        let span = Span { from: 0.0, to: 9.0 };
        let question = Question::Columns { metrics, span, columns: 8, raw: false };
        let length = |archives: &Archives| match answer(archives, &question, &|| true) {
            Ok(Some(Body::Columns(bytes))) => bytes.len(),
            other => panic!("{other:?}"),
        };
        let exact = length(&archives);
        archives.extend(&|| true).unwrap();
        assert!(archives.envelopes[0].bytes() > 0);
        // Its columns are at least as many, and less than twice as many.
        assert!((exact..4 * exact).contains(&length(&archives)));
    }

    /// Selections with many series are read in parts.
    #[test]
    fn parts_of_a_selection_have_the_same_series_in_the_same_order() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let values = |second: u32| {
            let many = names.map(|name| (format!("a.many[{name}]"), second));
            many.into_iter().chain([("a.one".to_owned(), 7), ("a.few[x]".to_owned(), second)])
        };
        let archive = Builder::new()
            .metric("a.few", "u32 instant")
            .metric("a.many", "u32 instant")
            .metric("a.one", "u32 instant")
            .instances("a.few", ["x", "y"])
            .instances("a.many", names)
            .rows((0..10_u32).map(|second| (second, values(second))))
            .finish();
        let archive = pcp_archive::Archive::open(archive.base()).unwrap();
        let mut selection = Selection::new(&archive);
        selection.select("");
        let series = |selection: &Selection<'_>| {
            let source = selection.source();
            let grid = Grid::new(source.start()..=source.end(), 4);
            let all = Envelope::read(selection, grid, Options::default()).unwrap().series;
            let each = all.into_iter().map(|one| {
                let name = selection.metrics()[one.metric].name.clone();
                (name, one.instance, one.runs)
            });
            each.collect::<Vec<_>>()
        };
        let whole = series(&selection);
        assert_eq!(whole.len(), 9);
        for most in 1..12 {
            let parts: Vec<_> = selection.parts(most).iter().map(series).collect();
            assert!(parts.iter().all(|part| part.len() <= most), "{most}");
            assert_eq!(parts.concat(), whole, "{most}");
        }
        assert_eq!(selection.parts(100).len(), 1);
    }

    #[test]
    fn a_window_between_two_samples_has_both() {
        let (_directory, archives) = archives();
        let metrics = vec![SideMetric { side: 0, pmid: PMID }];
        let span = Span { from: 3.2, to: 3.4 };
        let question = Question::Columns { metrics, span, columns: 8, raw: false };
        let Ok(Some(Body::Columns(bytes))) = answer(&archives, &question, &|| true) else {
            panic!("no columns");
        };
        let head = String::from_utf8_lossy(&bytes);
        for value in ["\"value\":3.0,\"joined\":true", "\"value\":4.0,\"joined\":true"] {
            assert!(head.contains(value), "{head}");
        }
    }

    #[test]
    fn many_columns_of_many_series_are_fewer_columns() {
        assert_eq!(fitting(8192, 1), 8192);
        assert_eq!(fitting(1000, 1000), 500);
        assert_eq!(fitting(1000, 1_000_000), MIN_COLUMNS);
        assert_eq!(fitting(3, 1_000_000), 3);
    }
}
