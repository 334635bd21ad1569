//! Envelopes against summaries, which other code computes, and pyramids against envelopes.

use std::time::Duration;

use pcp_archive::Source;
use pcp_archive::envelope::{Cell, Envelope, Envelopes, Grid, Options, Series};
use pcp_archive::raw::IndomHistory;
use pcp_archive::replay::Decrease;
use pcp_archive::scan::Selection;
use pcp_archive::summary::summarize;

use super::golden::cases;

/// Only these instances have no series: those without a name, and those of large domains
/// outside of their lifetimes.
#[test]
fn envelopes_of_one_column_have_the_extremes_of_summaries() {
    let mut compared = 0;
    for case in cases() {
        let (start, end) = (case.archive.label().start, case.archive.end());
        let mut selection = Selection::new(&case.archive);
        selection.select("");
        let Ok(summaries) = summarize(&selection, start..=end, Decrease::Reset) else { continue };
        let grid = Grid::new(start..=end, 1);
        let envelope = Envelope::read(&selection, grid, Options::default()).unwrap();
        let fine = Grid::new(start..=end, 500);
        let fine = Envelope::read(&selection, fine, Options::default()).unwrap();
        let metadata = case.archive.metadata();
        for summary in &summaries {
            let desc = &summary.metric.desc;
            let history = desc.indom.and_then(|indom| metadata.indom_history(indom));
            let named = history.map(IndomHistory::union).unwrap_or_default();
            // A lifetime may leave values out.
            let may_end = named.len() >= 16 || desc.pmid.domain() == 70;
            for instance in &summary.instances {
                let id = instance.instance;
                let position = |envelope: &Envelope| {
                    envelope.series.iter().position(|series| {
                        let metric = &selection.metrics()[series.metric].desc;
                        (metric.pmid, series.instance) == (desc.pmid, id)
                    })
                };
                let is_named = id.is_none_or(|id| named.iter().any(|one| one.id == id));
                let Some(statistics) = instance.statistics.as_ref().filter(|_| is_named) else {
                    assert_eq!(position(&envelope), None, "{} {desc:?} {id:?}", case.name);
                    continue;
                };
                let Some(place) = position(&envelope) else {
                    assert!(may_end, "{} {desc:?} {id:?}", case.name);
                    continue;
                };
                let runs = &envelope.series[place].runs;
                let cell = runs[0].cell;
                let bounds = (cell.minimum, cell.maximum);
                if !may_end {
                    let expected = (statistics.minimum.value, statistics.maximum.value);
                    assert_eq!(bounds, expected, "{} {desc:?} {id:?}", case.name);
                    assert_eq!(u64::from(cell.count), statistics.count, "{} {desc:?}", case.name);
                    compared += 1;
                }
                let all = || fine.series[position(&fine).unwrap()].cells().map(|(_, cell)| cell);
                let least = all().map(|cell| cell.minimum).fold(f64::INFINITY, f64::min);
                let most = all().map(|cell| cell.maximum).fold(f64::NEG_INFINITY, f64::max);
                assert_eq!((least, most), bounds, "{} {desc:?} {id:?}", case.name);
            }
        }
    }
    let is_there = super::golden::corpus().is_some();
    assert!(compared > 5000 || !is_there, "{compared}");
}

#[test]
fn pyramid_and_records_agree() {
    let mut compared = 0;
    for case in cases() {
        let source = Source::from(&case.archive);
        let (start, end) = (source.start(), source.end());
        let length = end.nanos_since(start).unsigned_abs();
        let at =
            |part: f64| start.saturating_add(Duration::from_nanos((length as f64 * part) as u64));
        let mut selection = Selection::new(source);
        selection.select("");
        for rates in [true, false] {
            let options = Options { rates, ..Options::default() };
            let envelopes = Envelopes::new(options);
            let Ok(true) = envelopes.extend(&selection, &|| true) else { continue };
            for window in [start..=end, at(0.3)..=at(0.7), at(0.5)..=at(0.51)] {
                let grid = Grid::new(window, 200);
                let found = envelopes.coarse(&selection, &grid).unwrap().envelope;
                let expected = Envelope::read(&selection, found.grid.clone(), options).unwrap();
                assert_eq!(found.marks, expected.marks, "{}", case.name);
                assert_eq!(found.series.len(), expected.series.len(), "{}", case.name);
                for (one, other) in found.series.iter().zip(&expected.series) {
                    let desc = &selection.metrics()[one.metric].desc;
                    assert_eq!(exact(one), exact(other), "{} {desc:?}", case.name);
                    for ((_, cell), (_, other)) in one.cells().zip(other.cells()) {
                        let near = (cell.maximum - cell.minimum) * 2f64.powi(-23);
                        let is_near = (cell.mean() - other.mean()).abs()
                            <= near.max(1e-9 * cell.mean().abs());
                        assert!(is_near, "{} {desc:?} {cell:?} {other:?}", case.name);
                        compared += 1;
                    }
                }
            }
        }
    }
    let is_there = super::golden::corpus().is_some();
    assert!(compared > 100_000 || !is_there, "{compared}");
}

fn exact(series: &Series) -> impl PartialEq + std::fmt::Debug {
    let exact = |cell: &Cell| (cell.minimum, cell.maximum, cell.last, cell.count, cell.joined);
    let cells: Vec<_> = series.cells().map(|(column, cell)| (column, exact(cell))).collect();
    (series.metric, series.instance, series.is_rate, cells)
}
