use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::analysis::replay::tests::{archive, at};
use crate::analysis::replay::{LoggedBatches, Replay, ReplaySelection, Sample, Window, times};
use crate::scan::{ChunkLimits, Column};
use crate::{Archive, Error, Timestamp};

fn selection(archive: &Archive) -> ReplaySelection<'_> {
    let mut selection = Replay::open(archive).read_on();
    assert_eq!(selection.select("t"), 3);
    selection
}

fn held(replay: &Replay<'_>) -> usize {
    replay.tracks.iter().flat_map(|track| &track.columns).map(Column::len).sum()
}

/// A sample as text: it outlives its replay.
fn text(sample: &Sample<'_>) -> String {
    format!("{sample:?}")
}

/// All samples of a window, the most observations that were held, and the
/// number of batches.
fn in_batches(mut window: Window<'_>, step: Duration, back: Duration) -> (Vec<String>, usize, u32) {
    let (mut samples, mut most, mut batches) = (Vec::new(), 0, 0);
    assert_eq!(held(window.replay()), 0, "an outline holds nothing");
    while let Some(span) = window.next_batch().unwrap() {
        let replay = window.replay();
        most = most.max(held(replay));
        batches += 1;
        let answers = times(span, step).filter_map(|at| sample(replay, at, back));
        samples.extend(answers.map(|sample| text(&sample)));
    }
    (samples, most, batches)
}

/// All samples of a window, computed on several threads, and how often any were
/// taken.
fn side_by_side(mut window: Window<'_>, step: Duration, back: Duration) -> (Vec<String>, u32) {
    let (mut samples, mut taken) = (Vec::new(), 0);
    let work = |replay: &Replay<'_>, span| {
        let answers = times(span, step).filter_map(|at| sample(replay, at, back));
        Ok(answers.map(|sample| text(&sample)).collect())
    };
    let take = |made: Vec<String>| {
        samples.extend(made);
        taken += 1;
        Ok::<_, Error>(())
    };
    window.for_each(work, take).unwrap();
    (samples, taken)
}

fn sample<'r>(replay: &'r Replay<'_>, at: Timestamp, back: Duration) -> Option<Sample<'r>> {
    if back.is_zero() { replay.sample_at(at) } else { replay.rates_at(at, at.saturating_sub(back)) }
}

fn logged(mut logged: LoggedBatches<'_>) -> (Vec<String>, usize) {
    let (mut samples, mut most) = (Vec::new(), 0);
    while logged.next_batch().unwrap() {
        most = most.max(held(logged.replay()));
        samples.extend(logged.replay().observations().map(|sample| text(&sample)));
    }
    (samples, most)
}

#[test]
fn a_long_window_holds_no_more_than_a_short_one() {
    let rows: Vec<_> = (0..4000).map(|n| (n * 1000, Some(n as u32))).collect();
    let (_directory, archive) = archive(&rows);
    for (step, back) in [(700, 0), (700, 700), (50_000, 50_000)] {
        let (step, back) = (Duration::from_millis(step), Duration::from_millis(back));
        let mut window = selection(&archive).window(at(0)..=at(4_000_000), step, back).unwrap();
        (window.most, window.batch) = (300, crate::analysis::replay::window::FIRST);
        let (samples, most, batches) = in_batches(window, step, back);
        assert_eq!(samples.len() as i64, 1 + 3_999_000 / step.as_millis() as i64);
        // The first batches have a default length, before their density is known.
        let first = 16 * 3 * (1 + step.as_millis() as usize / 1000);
        assert!(
            most <= first.max(2 * 300) + 12,
            "{most} observations of 12000 in {batches} batches"
        );
        assert!(batches > 10, "{batches}");
    }
    let mut batches = selection(&archive).logged().unwrap();
    batches.limits = ChunkLimits { values: 300, ..ChunkLimits::CHUNK };
    let (samples, most) = logged(batches);
    assert_eq!(samples.len(), 4000);
    assert!(most <= 300, "{most}");
}

#[test]
fn a_batch_grows_where_neighbours_are_far() {
    // A value every 1000 s, and a moment every second.
    let rows: Vec<_> = (0..100).map(|n| (n * 1_000_000, Some(n as u32))).collect();
    let (_directory, archive) = archive(&rows);
    let step = Duration::from_secs(1);
    let window = selection(&archive).window(at(0)..=at(99_000_000), step, step).unwrap();
    let (samples, _, batches) = in_batches(window, step, step);
    assert_eq!(samples.len(), 99_001);
    assert!(batches < 20, "{batches} batches, each searched for its neighbours");
}

#[test]
fn a_window_outside_of_the_archive_has_no_batches() {
    let (_directory, archive) = archive(&[(0, Some(1)), (10_000, Some(2))]);
    let step = Duration::from_secs(1);
    for (start, end) in [(20_000, 30_000), (5000, 4000)] {
        let window = selection(&archive).window(at(start)..=at(end), step, Duration::ZERO);
        assert_eq!(in_batches(window.unwrap(), step, Duration::ZERO), (vec![], 0, 0));
    }
    let years = at(-100_000_000_000)..=at(100_000_000_000);
    let window = selection(&archive).window(years, step, Duration::ZERO).unwrap();
    assert_eq!(in_batches(window, step, Duration::ZERO).0.len(), 11);
}

#[test]
fn parallel_batches_continue_after_damage_as_serial_ones_do() {
    let rows: Vec<_> = (0..4000).map(|n| (n * 1000, Some(n as u32))).collect();
    let (directory, archive) = archive(&rows);
    let mut records = archive.records_from(at(3_000_000)).unwrap();
    let offset = records.next().unwrap().unwrap().offset() as usize;
    let volume = directory.path().join("a.0");
    let mut bytes = std::fs::read(&volume).unwrap();
    // The number of value sets.
    bytes[offset + 16..][..4].fill(0xff);
    std::fs::write(&volume, bytes).unwrap();
    let damaged = Archive::open(directory.path().join("a")).unwrap();
    let step = Duration::from_millis(500);
    let window = || {
        let span = at(2_000_000)..=at(3_999_000);
        let mut window = selection(&damaged).window(span, step, Duration::ZERO).unwrap();
        (window.most, window.batch) = (100, 20);
        window
    };
    let expected = in_batches(window(), step, Duration::ZERO).0;
    assert_eq!(expected.len(), 3999);
    let (samples, taken) = side_by_side(window(), step, Duration::ZERO);
    assert!(samples == expected);
    assert!(taken > 20, "{taken}: all in front of the damage was answered in batches");
    let mut none = window();
    let failed = none.for_each(|_, _| Ok(()), |()| Err(Error::Compressed { file: "f".into() }));
    assert!(failed.unwrap_err().to_string().contains('f'));
}

proptest! {
    #[test]
    fn pieces_answer_as_the_whole_does(
        steps in vec((1i64..5000, proptest::option::weighted(0.9, any::<u32>())), 1..60),
        (start, length) in (-3000i64..60_000, 0i64..90_000),
        (step, back) in (1u64..4000, proptest::sample::select(vec![0u64, 1, 700, 9000])),
        most in 1usize..100,
    ) {
        let mut millis = 0;
        let mut records = vec![(0, Some(7))];
        for (step, value) in steps {
            millis += step;
            records.push((millis, value));
        }
        let (_directory, archive) = archive(&records);
        let (step, back) = (Duration::from_millis(step), Duration::from_millis(back));
        let span = at(start)..=at(start + length);
        let whole = selection(&archive).load().unwrap();
        let answers = times(span.clone(), step).filter_map(|at| sample(&whole, at, back));
        let expected: Vec<_> = answers.map(|sample| text(&sample)).collect();
        let mut window = selection(&archive).window(span.clone(), step, back).unwrap();
        (window.most, window.batch) = (most, 1);
        prop_assert_eq!(&in_batches(window, step, back).0, &expected);
        let mut window = selection(&archive).window(span, step, back).unwrap();
        (window.most, window.batch) = (most, 1);
        prop_assert_eq!(side_by_side(window, step, back).0, expected);

        let mut batches = selection(&archive).logged().unwrap();
        batches.limits = ChunkLimits { values: most, ..ChunkLimits::CHUNK };
        let expected: Vec<_> = whole.observations().map(|sample| text(&sample)).collect();
        prop_assert_eq!(logged(batches).0, expected);
    }
}
