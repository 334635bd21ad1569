//! Replay against a model of its rules, over random archives: metrics of all semantics, instances
//! that come and go and change their numbers, error codes, marks, records of one time, one archive
//! or several.
//!
//! The model is as simple as the documented rules: for every value it walks over
//! all records, and it counts in integers. Times lie on a grid of 1/64 s, on
//! which PCP's doubles are exact, so each question has one right answer.

mod random;
mod rules;

use std::time::Duration;

use pcp_archive::Timestamp;
use pcp_archive::replay::{Replay, Sample, times};
use proptest::collection::vec;
use proptest::prelude::*;

use random::{Archives, TICK, at, build, options, step};
use rules::Model;

/// Returns times on the grid, before, in and after the archive, and those of all records and
/// half-way between them.
fn moments(model: &Model, asked: &[i64]) -> Vec<Timestamp> {
    let own: Vec<Timestamp> = model.timestamps().collect();
    let middles: Vec<Timestamp> = own
        .windows(2)
        .filter_map(|pair| {
            let whole = pair[1].nanos_since(pair[0]);
            // The marks between archives are off the grid.
            let is_on_grid = whole % TICK == 0;
            is_on_grid.then(|| Timestamp::from_nanos(pair[0].as_nanos() + whole / 2))
        })
        .collect();
    asked.iter().map(|&tick| at(tick)).chain(own).chain(middles).collect()
}

/// Checks that the answer is the model's: nothing outside the archive, and inside the values of
/// all metrics and instances that have one.
fn check(
    (archives, model): (&Archives, &Model),
    at: Timestamp,
    found: Option<&Sample<'_>>,
) -> Result<(), TestCaseError> {
    let expected = model.at(at);
    prop_assert_eq!(found.is_some(), expected.is_some(), "inside the archive at {}", at);
    let (Some(found), Some(expected)) = (found, expected) else { return Ok(()) };
    prop_assert_eq!(found.timestamp, at);
    for (metric, (found, expected)) in found.values.iter().zip(&expected).enumerate() {
        let found = archives.by_instance(metric, found);
        let is_same = found.len() == expected.len()
            && found.iter().zip(expected).all(|((instance, value), (other, expected))| {
                instance == other && expected.is(*value)
            });
        let desc = random::desc(metric);
        prop_assert!(is_same, "{desc:?} at {at}: found {found:?}, expected {expected:?}");
    }
    Ok(())
}

fn all(
    made: (&Archives, &Model),
    replay: &Replay<'_>,
    at: &[Timestamp],
) -> Result<(), TestCaseError> {
    at.iter().try_for_each(|&at| check(made, at, replay.sample_at(at).as_ref()))
}

fn cases() -> u32 {
    if std::env::var_os("MMV_LONG").is_some() { 256 } else { 64 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn an_answer_depends_on_the_archive_and_the_moment_alone(
        steps in vec(step(), 0..30),
        options in options(),
        asked in vec(-3i64..1200, 1..12),
        shuffle in any::<prop::sample::Index>(),
    ) {
        let (archive, model) = build(&steps, &options);
        let made = (&archive, &model);
        let mut moments = moments(&model, &asked);
        let whole = archive.selection().load().unwrap();
        all(made, &whole, &moments)?;
        moments.sort_unstable();
        all(made, &whole, &moments)?;
        moments.reverse();
        all(made, &whole, &moments)?;
        let alone = moments[shuffle.index(moments.len())];
        let replay = archive.selection().load_moments(&[alone], Duration::ZERO).unwrap();
        check(made, alone, replay.sample_at(alone).as_ref())?;
        let turn = shuffle.index(moments.len());
        moments.rotate_left(turn);
        let some = &moments[..moments.len().div_ceil(2)];
        let replay = archive.selection().load_moments(some, Duration::ZERO).unwrap();
        all(made, &replay, some)?;
    }

    #[test]
    fn the_batches_of_a_window_have_the_answers_of_the_whole(
        steps in vec(step(), 0..30),
        options in options(),
        (first, length) in (-70i64..600, 0i64..900),
        step in prop::sample::select(vec![1i64, 5, 64, 300]),
    ) {
        let (archive, model) = build(&steps, &options);
        let made = (&archive, &model);
        let (span, step) = (at(first)..=at(first + length), ticks(step));
        let mut expected = times(span.clone(), step).filter(|&at| model.at(at).is_some());
        let mut window = archive.selection().window(span, step, Duration::ZERO).unwrap();
        while let Some(piece) = window.next_batch().unwrap() {
            for at in times(piece, step) {
                let sample = window.replay().sample_at(at);
                check(made, at, sample.as_ref())?;
                if sample.is_some() {
                    prop_assert_eq!(expected.next(), Some(at));
                }
            }
        }
        prop_assert_eq!(expected.next(), None);
    }

    /// forall archives: at the time of a record the values that it stored come
    /// back, of the instances that live then; of several records of one time
    /// those of the last that has them.
    #[test]
    fn what_was_stored_comes_back_at_its_time(
        steps in vec(step(), 0..30),
        options in options(),
    ) {
        let (archive, model) = build(&steps, &options);
        let replay = archive.selection().load().unwrap();
        let mut compared = 0;
        for (at, metric, instance, value) in model.stored() {
            let sample = replay.sample_at(at).unwrap();
            let values = archive.by_instance(metric, &sample.values[metric]);
            let found = values.iter().find(|(id, _)| *id == instance);
            prop_assert_eq!(found.map(|(_, found)| found.to_owned()), Some(value), "{}", at);
            compared += 1;
        }
        prop_assert!(compared > 0, "the clock is in every record");
    }
}

fn ticks(count: i64) -> Duration {
    Duration::from_nanos(count as u64 * TICK as u64)
}
