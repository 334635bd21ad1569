//! Reading the deciding records gives the same values as reading all.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use test_archives::{Builder, Cell};

use super::*;
use crate::Archive;
use crate::test_support::at;

/// A record: milliseconds since the last one, a bit for each instance with values and for each
/// that the domain lists, and whether it is a mark.
type Step = (i64, u32, Option<u32>, bool);

fn step() -> impl Strategy<Value = Step> {
    let listed = proptest::option::weighted(0.2, any::<u32>());
    (1i64..4, any::<u32>(), listed, prop::bool::weighted(0.1))
}

/// Writes three metrics with up to 20 instances, so that lifetimes matter, and one
/// without any; the values follow from the number of the record.
fn archive(steps: &[Step], branch: &str) -> (tempfile::TempDir, Archive) {
    let metrics = [
        (format!("{branch}.m0"), "u32 counter count"),
        (format!("{branch}.m1"), "u32 instant count"),
        (format!("{branch}.m2"), "u32 discrete count"),
        (format!("{branch}.m3"), "u32 discrete count"),
    ];
    let mut builder = Builder::new();
    for (name, description) in &metrics {
        builder = builder.metric(name, description);
    }
    for (name, _) in &metrics[..3] {
        builder = builder.in_domain(name, 1);
    }
    let names: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    let bits = |set: u32| (0..20).filter(move |n| set >> n & 1 == 1);
    let mut millis = 0;
    for (number, (after, present, listed, is_mark)) in steps.iter().enumerate() {
        millis += after;
        if let Some(listed) = listed {
            let listed = bits(*listed).map(|n| (n, names[n as usize].as_str()));
            builder = builder.numbered_instances(&metrics[0].0, listed);
        }
        if *is_mark {
            builder = builder.mark_at(at(millis));
            continue;
        }
        let value = number as u32 * 10 % 70;
        let mut values = Vec::new();
        // Each metric in other records, the last one in few.
        for metric in 0..3 {
            values.push((format!("{branch}.m{metric}[0]"), Cell::Absent));
            let present = bits(present.rotate_left(metric * 7));
            values.extend(present.map(|n| (format!("{branch}.m{metric}[{n}]"), value.into())));
        }
        let single = if number % 7 == 1 { value.into() } else { Cell::Absent };
        values.push((metrics[3].0.clone(), single));
        builder = builder.row_at(at(millis), values);
    }
    let (directory, base) = builder.finish().into_parts();
    let archive = Archive::open(&base).unwrap();
    (directory, archive)
}

fn selection<'a>(archive: &'a Archive, branch: &str) -> ReplaySelection<'a> {
    let mut selection = Replay::open(archive);
    selection.select(branch);
    selection
}

proptest! {
    /// forall archives, spans, t in a span: at(t) is that of a full scan, and
    /// so are the rates between two moments of the span.
    #[test]
    fn answers_within_the_spans_are_those_of_a_full_scan(
        steps in vec(step(), 1..40),
        spans in vec((-3i64..80, 0i64..20), 1..4),
        is_of_program in any::<bool>(),
    ) {
        let branch = if is_of_program { "mmv.t" } else { "t" };
        let first = (0, u32::MAX, Some(u32::MAX), false);
        let steps: Vec<Step> = [first].into_iter().chain(steps).collect();
        let (_directory, archive) = archive(&steps, branch);
        let full = selection(&archive, branch).load().unwrap();
        let of = |(start, length): &(i64, i64)| at(*start)..=at(start + length);
        let spans_asked: Vec<Span> = spans.iter().map(of).collect();
        let seeking = selection(&archive, branch).load_spans(&spans_asked).unwrap();
        prop_assert_eq!(seeking.end(), full.end());
        for (start, length) in spans {
            // Halves, to be between the records, too.
            for half in 0..=length * 2 {
                let t = at(start).saturating_add(Duration::from_micros(half as u64 * 500));
                prop_assert_eq!(seeking.sample_at(t), full.sample_at(t), "{}", t);
                let rates = |replay: &Replay<'_>| {
                    let rates = replay.rates_at(t, at(start));
                    rates.map(|sample| format!("{sample:?}"))
                };
                prop_assert_eq!(rates(&seeking), rates(&full), "{}", t);
            }
        }
    }
}

#[test]
fn an_instance_that_ended_has_no_rate_before_a_mark() {
    let first = (0, u32::MAX, Some(u32::MAX), false);
    let without_instance_1 = (1, 0, Some(!2), false);
    let others = (9, !2, None, false);
    let all = (2, u32::MAX, None, false);
    let mark = (1, 0, None, true);
    let (_directory, archive) = archive(&[first, without_instance_1, others, all, mark], "t");
    let span = at(10)..=at(13);
    let between = at(12).saturating_add(Duration::from_micros(500));
    let full = selection(&archive, "t").load().unwrap();
    let seeking = selection(&archive, "t").load_spans(std::slice::from_ref(&span)).unwrap();
    for replay in [&full, &seeking] {
        let sample = replay.rates_at(between, *span.start()).unwrap();
        let counters = sample.values.first().unwrap();
        let instances: Vec<i32> =
            counters.iter().filter_map(|(id, _)| Some(id.as_ref()?.get())).collect();
        assert!(instances.contains(&2) && !instances.contains(&1), "{instances:?}");
    }
}

#[test]
fn a_few_moments_of_a_long_archive_read_a_few_records() {
    let steps = vec![(1, u32::MAX, None, false); 5000];
    let first = (0, u32::MAX, Some(u32::MAX), false);
    let (_directory, archive) = archive(&[&[first][..], &steps].concat(), "t");
    let moments = [at(1000), at(4000)];
    let mut selection = Replay::open(&archive);
    selection.select("t.m0");
    selection.select("t.m1");
    let replay = selection.load_spans(&moments.map(|t| t..=t)).unwrap();
    assert_eq!(replay.observations().count(), 2, "each record is at its moment");
    assert!(moments.iter().all(|t| replay.sample_at(*t).is_some()));
    assert_eq!(replay.sample_at(at(2000)), None, "was not read");
}

#[test]
fn spans_that_touch_are_merged() {
    let span = |start, end| at(start)..=at(end);
    let spans = vec![span(5, 9), span(0, 2), span(2, 3), span(6, 7)];
    assert_eq!(joined(spans), [span(0, 3), span(5, 9)]);
}
