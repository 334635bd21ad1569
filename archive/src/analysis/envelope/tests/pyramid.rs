//! Pyramids against envelopes from records.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn assert_agrees(answer: &Answer, selection: &Selection<'_>, options: Options) {
    let found = &answer.envelope;
    let expected = Envelope::read(selection, found.grid.clone(), options).unwrap();
    assert_eq!(found.marks, expected.marks, "{:?}", found.grid);
    let series = |envelope: &Envelope| -> Vec<_> {
        envelope.series.iter().map(|one| (one.metric, one.instance, one.is_rate)).collect()
    };
    assert_eq!(series(found), series(&expected), "{:?}", found.grid);
    for (one, other) in found.series.iter().zip(&expected.series) {
        let context = format!("{} {:?} of {:?}", one.metric, one.instance, found.grid);
        let cells = |series: &Series| -> Vec<(u32, Cell)> {
            series.cells().map(|(column, cell)| (column, *cell)).collect()
        };
        let (cells, others) = (cells(one), cells(other));
        let columns = |cells: &[(u32, Cell)]| cells.iter().map(|(n, _)| *n).collect::<Vec<_>>();
        assert_eq!(columns(&cells), columns(&others), "{context}");
        for ((column, cell), (_, other)) in cells.iter().zip(&others) {
            let exact =
                |cell: &Cell| (cell.minimum, cell.maximum, cell.last, cell.count, cell.joined);
            assert_eq!(exact(cell), exact(other), "{context}, column {column}");
            let (mean, expected) = (cell.mean(), other.mean());
            let near = (cell.maximum - cell.minimum) * 2f64.powi(-23) + 1e-9 * expected.abs();
            let is_near = (mean - expected).abs() <= near;
            let is_same = mean.to_bits() == expected.to_bits();
            assert!(is_near || is_same, "{context}, column {column}: {mean} {expected}");
        }
    }
}

fn grid(source: Source<'_>, (a, b): (f64, f64), columns: u32) -> Grid {
    let (first, last) = (source.start(), source.end());
    let length = last.nanos_since(first) as f64;
    let at = |part: f64| Timestamp::from_nanos(first.as_nanos() + (part * length) as i128);
    Grid::new(at(a.min(b))..=at(a.max(b)), columns)
}

proptest! {
    /// forall archives, windows, widths: pyramid and records agree, also if the pyramid grows,
    /// is read by several threads, or has to be made coarser.
    #[test]
    fn pyramid_and_records_agree(
        steps in vec(step(), 1..60),
        before in 0.0f64..1.0,
        windows in vec(((-0.2f64..1.2, -0.2f64..1.2), 1u32..400), 1..6),
        named in 3i32..5,
        budget in prop_oneof![Just(48usize << 20), 9_000usize..40_000],
        segment in prop_oneof![Just(100u64), Just(1 << 30)],
        rates in any::<bool>(),
    ) {
        let options = Options { rates, ..Options::default() };
        let envelopes = Envelopes::new(options).max_direct_bytes(0).budget(budget).segment(segment);
        let count = (before * steps.len() as f64) as usize;
        for steps in [&steps[..count], &steps[..]].into_iter().filter(|steps| !steps.is_empty()) {
            let (_directory, archives) = written(steps, named);
            let source = Source::from(&archives);
            let mut selection = Selection::new(source);
            selection.select("t");
            let is_built = envelopes.extend(&selection, &|| true).unwrap();
            prop_assert!(is_built || budget < 40_000);
            for (window, columns) in &windows {
                let grid = grid(source, *window, *columns);
                let answer = envelopes.coarse(&selection, &grid);
                prop_assert!(answer.is_some() == is_built);
                let Some(answer) = answer else { continue };
                prop_assert_eq!(answer.origin, EnvelopeOrigin::Pyramid { until: source.end() });
                assert_agrees(&answer, &selection, options);
                let asked = grid.window();
                let found = answer.envelope.grid.window();
                prop_assert!(found.start() <= asked.start() && asked.end() <= found.end());
            }
        }
    }

    /// forall columns: those of an answer are not wider than those that were asked for, but
    /// more than half as wide, if there are such.
    #[test]
    fn an_answer_has_about_as_many_columns(columns in 1u32..5000, window in (0.0f64..1.0, 0.0f64..1.0)) {
        let step = |n: u8| Step { after: 1000, values: vec![(3, 0, n)], is_last: false };
        let (_directory, archives) = written(&(0..200).map(step).collect::<Vec<_>>(), 1);
        let mut selection = Selection::new(&archives);
        selection.select(NAMES[3]);
        let envelopes = Envelopes::new(Options::default());
        assert!(envelopes.extend(&selection, &|| true).unwrap());
        let grid = grid(Source::from(&archives), window, columns);
        let answer = envelopes.coarse(&selection, &grid).unwrap();
        let width = |grid: &Grid| {
            let (start, end) = grid.window().into_inner();
            end.nanos_since(start) as f64 / f64::from(grid.columns())
        };
        let (asked, found) = (width(&grid), width(&answer.envelope.grid));
        let narrowest = 1e9 / 128.0;
        prop_assert!(found <= asked.max(narrowest) && (2.0 * found > asked * 0.999), "{} {}", found, asked);
    }
}

fn steps(count: usize) -> Vec<Step> {
    let step =
        |n: usize| Step { after: 1000, values: vec![(3, 0, (n % 200) as u8)], is_last: false };
    (0..count).map(step).collect()
}

#[test]
fn a_small_window_is_read_and_a_large_one_is_not() {
    let (_directory, archives) = written(&steps(1000), 1);
    let source = Source::from(&archives);
    let mut selection = Selection::new(source);
    selection.select(NAMES[3]);
    let whole = Grid::new(source.start()..=source.end(), 10);
    let bytes = source.bytes_of(&whole.window());
    let envelopes = Envelopes::new(Options::default()).max_direct_bytes(bytes / 2);
    let origin = |selection: &Selection<'_>, grid: &Grid| {
        envelopes.envelope(selection, grid, &|| true).unwrap().unwrap().origin
    };
    assert_eq!(origin(&selection, &whole), EnvelopeOrigin::Records, "there is no pyramid");
    assert!(envelopes.extend(&selection, &|| true).unwrap());
    let pyramid = EnvelopeOrigin::Pyramid { until: source.end() };
    assert_eq!(origin(&selection, &whole), pyramid);
    assert_eq!(origin(&selection, &Grid::new(at(5000)..=at(9000), 10)), EnvelopeOrigin::Records);
    // Of two metrics one is not in it.
    let mut more = selection.clone();
    more.select(NAMES[2]);
    assert_eq!(origin(&more, &whole), EnvelopeOrigin::Records);
    assert!(envelopes.extend(&more, &|| true).unwrap(), "it is built again");
    assert_eq!([origin(&more, &whole), origin(&selection, &whole)], [pyramid; 2]);
    // The pyramid lacks the newest records.
    let (_directory, archives) = written(&steps(1100), 1);
    let source = Source::from(&archives);
    let mut selection = Selection::new(source);
    selection.select(NAMES[3]);
    let whole = Grid::new(source.start()..=source.end(), 10);
    assert_eq!(origin(&selection, &whole), EnvelopeOrigin::Records);
    assert_eq!(envelopes.coarse(&selection, &whole).unwrap().origin, pyramid);
}

#[test]
fn what_was_ended_goes_on_where_it_was() {
    let (_directory, archives) = written(&steps(3000), 1);
    let source = Source::from(&archives);
    let mut selection = Selection::new(source);
    selection.select(NAMES[3]);
    let grid = Grid::new(source.start()..=source.end(), 10);
    assert_eq!(
        Envelope::read_while(&selection, grid.clone(), Options::default(), &|| false).unwrap(),
        None
    );
    let envelopes = Envelopes::new(Options::default()).max_direct_bytes(0).segment(4000);
    let until = || match envelopes.coarse(&selection, &grid)?.origin {
        EnvelopeOrigin::Pyramid { until } => Some(until),
        EnvelopeOrigin::Records => None,
    };
    let (mut seen, mut ended) = (BTreeSet::new(), 0);
    loop {
        // Each call ends after a few segments.
        let left = AtomicUsize::new(20);
        let used = |left: usize| left.checked_sub(1);
        let go_on = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, used).is_ok();
        let is_whole = envelopes.extend(&selection, &go_on).unwrap();
        assert!(until() >= seen.last().copied(), "it never has less");
        seen.extend(until());
        if is_whole {
            break;
        }
        ended += 1;
        assert!(ended < 100);
    }
    assert!(ended > 2 && seen.len() > 2, "{ended} {seen:?}");
    assert_eq!(until(), Some(source.end()));
    let answer = envelopes.coarse(&selection, &grid).unwrap();
    assert_agrees(&answer, &selection, Options::default());
}

#[test]
fn a_pyramid_keeps_to_its_budget_or_gives_up() {
    let (_directory, archives) = written(&steps(5000), 1);
    let mut selection = Selection::new(&archives);
    selection.select(NAMES[3]);
    for budget in [4_000, 8_000, 20_000] {
        let envelopes = Envelopes::new(Options::default()).budget(budget);
        assert!(envelopes.extend(&selection, &|| true).unwrap(), "{budget}");
        assert!(
            (budget / 8..=budget).contains(&envelopes.bytes()),
            "{} of {budget}",
            envelopes.bytes()
        );
    }
    let envelopes = Envelopes::new(Options::default()).budget(500);
    assert!(!envelopes.extend(&selection, &|| true).unwrap());
    assert!(!envelopes.extend(&selection, &|| true).unwrap());
    assert_eq!(envelopes.bytes(), 0);
    let source = Source::from(&archives);
    let grid = Grid::new(source.start()..=source.end(), 10);
    let answer =
        envelopes.max_direct_bytes(0).envelope(&selection, &grid, &|| true).unwrap().unwrap();
    assert_eq!(answer.origin, EnvelopeOrigin::Records);
}
