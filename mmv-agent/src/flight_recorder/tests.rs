//! What is kept, and for how long.

use pcp_archive::MetricDesc;
use pcp_types::{InstanceId, Pmid, Semantics, Units, ValueType};

use super::{Reader, *};
use crate::metadata::{Place, ValueSetShape};

const MEMORY: usize = 1_000_000;

fn at(millis: u64) -> Timestamp {
    Timestamp::new(1_700_000_000, 0).unwrap().saturating_add(Duration::from_millis(millis))
}

/// The counters `mmv.m0` and so on of source 0, and `mmv.other` of source 1.
fn layout(id: u64, counters: u32) -> (RecordShape, Arc<Catalog>) {
    let (mut layout, mut catalog) = (RecordShape::default(), Catalog { id, ..Catalog::default() });
    for item in 0..=counters {
        let pmid = Pmid::new(70, 1, item).unwrap();
        let (value_type, semantics, units) = (ValueType::U64, Semantics::Counter, Units::NONE);
        let desc = MetricDesc { pmid, value_type, indom: None, semantics, units };
        let (source, value, name) = if item == counters {
            (1, 0, "mmv.other".to_owned())
        } else {
            (0, item as usize, format!("mmv.m{item}"))
        };
        catalog.metrics.push((desc, name.into()));
        let places = &[Place { instance: None, source, value }];
        layout.push(ValueSetShape { pmid, value_type, owners: &[source], places });
    }
    (layout, Arc::new(catalog))
}

/// A flight recorder with this span and memory that samples some counters.
fn flight_recorder(span: Duration, memory: usize, counters: u32) -> FlightRecorder {
    let interval = Duration::from_millis(100);
    let mut flight_recorder =
        FlightRecorder::new(FlightRecorderSettings { interval, span, memory, metrics: Vec::new() });
    let (layout, catalog) = layout(1, counters);
    let chosen = choose(&flight_recorder.settings.metrics, &layout, &catalog);
    flight_recorder.lay_out(Layout::new(chosen, &catalog), 2);
    flight_recorder
}

/// Takes samples number `numbers`: each counter is the number times its own.
fn sample(flight_recorder: &mut FlightRecorder, counters: u64, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let words: Vec<u64> = (0..counters).map(|own| number * own).collect();
        let (values, other) = (Values::of_words(&words), Values::of_words(&[number]));
        flight_recorder.take(at(100 * number), &[Some(&values), Some(&other)]);
    }
}

/// Time and last value of each sample of the last `time`.
fn played(flight_recorder: &FlightRecorder, now: u64, time: Option<Duration>) -> Vec<(u64, u64)> {
    let held = flight_recorder.held(at(now), time);
    let mut found = Vec::new();
    for chunk in &held.chunks {
        let (_, mut values) = chunk.shape.unfold().unwrap();
        let (mut reader, mut timestamp, mut samples) = (Reader::new(&chunk.bytes), chunk.first, 0);
        while !reader.is_at_end() {
            let passed = reader.varint().unwrap();
            timestamp = Timestamp::from_nanos(timestamp.as_nanos() + i128::from(passed));
            reader.sample(&mut values).unwrap();
            samples += 1;
            if timestamp >= held.since {
                let millis = timestamp.nanos_since(at(0)) / 1_000_000;
                found.push((millis as u64, *values.last().unwrap().words().last().unwrap()));
            }
        }
        assert_eq!((samples, timestamp), (chunk.samples, chunk.last));
    }
    found
}

#[test]
fn the_samples_of_the_span_are_there_and_few_older_ones() {
    let mut flight_recorder = flight_recorder(Duration::from_secs(60), MEMORY, 5);
    sample(&mut flight_recorder, 5, 1..2001);
    let found = played(&flight_recorder, 200_000, None);
    let expected: Vec<_> = (1400..=2000).map(|number| (number * 100, number)).collect();
    assert_eq!(found, expected);
    let found = played(&flight_recorder, 200_000, Some(Duration::from_secs(5)));
    assert_eq!(found, expected[expected.len() - 51..]);
    let FlightRecorderStatus { values, samples, span, .. } = flight_recorder.status();
    assert_eq!(values, 6);
    assert!((601..=640).contains(&samples) && (60.0..64.0).contains(&span), "{samples} {span}");
}

#[test]
fn memory_is_bounded_however_much_changes() {
    let memory = 600_000;
    let mut flight_recorder = flight_recorder(Duration::from_secs(3600), memory, 1000);
    let mut most = 0;
    for number in 1..2000 {
        sample(&mut flight_recorder, 1000, number..number + 1);
        most = most.max(flight_recorder.status().bytes);
    }
    assert!(most <= memory as u64 && most > memory as u64 / 2, "{most}");
    let found = played(&flight_recorder, 199_900, None);
    assert!(found.len() > 20 && found.last() == Some(&(199_900, 1999)), "{}", found.len());
    let gaps = found.windows(2).filter(|pair| pair[0].0 + 100 != pair[1].0);
    assert_eq!(gaps.count(), 0);
}

#[test]
fn other_metadata_at_each_sample_stays_within_the_memory() {
    let mut flight_recorder = flight_recorder(Duration::from_secs(3600), MEMORY, 100);
    for number in 0..1000 {
        let (layout, catalog) = layout(number + 2, 100 + number as u32 % 50);
        flight_recorder.lay_out(Layout::new(layout, &catalog), 2);
        sample(&mut flight_recorder, 149, number..number + 1);
        assert!(flight_recorder.status().bytes <= MEMORY as u64);
    }
    let found = played(&flight_recorder, 99_900, None);
    assert!(found.len() > 10 && found.last() == Some(&(99_900, 999)), "{}", found.len());
}

#[test]
fn metadata_that_comes_back_is_kept_once() {
    let mut flight_recorder = flight_recorder(Duration::from_secs(3600), MEMORY, 100);
    sample(&mut flight_recorder, 100, 1..2);
    let before = flight_recorder.status().bytes;
    for number in 1..41 {
        let counters = if number % 2 == 1 { 50 } else { 100 };
        let (layout, catalog) = layout(1 + number, counters);
        flight_recorder.lay_out(Layout::new(layout, &catalog), 2);
        sample(&mut flight_recorder, counters.into(), 1 + number..2 + number);
    }
    let samples = 41 * (2 * 100 + 400);
    assert!(
        flight_recorder.status().bytes < 2 * before + samples,
        "{before} {:?}",
        flight_recorder.status()
    );
    assert_eq!(flight_recorder.held(at(0), None).chunks.len(), 41);
    // Nothing is begun for an equal catalog.
    let (layout, catalog) = layout(99, 100);
    flight_recorder.lay_out(Layout::new(layout, &catalog), 2);
    sample(&mut flight_recorder, 100, 42..43);
    assert_eq!(flight_recorder.held(at(0), None).chunks.len(), 41);
}

#[test]
fn a_source_that_is_not_there_has_no_values() {
    let mut flight_recorder = flight_recorder(Duration::from_secs(60), MEMORY, 2);
    let (values, other) = (Values::of_words(&[1, 2]), Values::of_words(&[3]));
    flight_recorder.take(at(100), &[Some(&values), Some(&other)]);
    flight_recorder.take(at(200), &[None, Some(&other)]);
    flight_recorder.take(at(300), &[None, Some(&other)]);
    flight_recorder.take(at(400), &[Some(&values), Some(&other)]);
    let held = flight_recorder.held(at(400), None);
    let there: Vec<_> = held.chunks.iter().map(|chunk| (&chunk.there[..], chunk.samples)).collect();
    let all = &[true, true][..];
    assert_eq!(there, [(all, 1), (&[false, true], 2), (all, 1)]);
    assert_eq!(played(&flight_recorder, 400, None).len(), 4);
}

#[test]
fn a_gap_is_noted_and_a_clock_set_back_starts_over() {
    let mut flight_recorder = flight_recorder(Duration::from_secs(60), MEMORY, 2);
    sample(&mut flight_recorder, 2, 100..103);
    flight_recorder.note_gap();
    sample(&mut flight_recorder, 2, 200..203);
    let gaps = |flight_recorder: &FlightRecorder| -> Vec<_> {
        let chunks = flight_recorder.held(at(0), None).chunks;
        chunks.iter().map(|chunk| (chunk.samples, chunk.after_gap)).collect()
    };
    assert_eq!(gaps(&flight_recorder), [(3, false), (3, true)]);
    sample(&mut flight_recorder, 2, 50..52);
    assert_eq!(gaps(&flight_recorder), [(2, false)]);
    assert_eq!(played(&flight_recorder, 5100, None), [(5000, 50), (5100, 51)]);
}

#[test]
fn only_what_is_wanted_is_read_and_kept() {
    let settings = FlightRecorderSettings { metrics: vec!["mmv.o*".into()], ..Default::default() };
    let mut flight_recorder = FlightRecorder::new(settings);
    let (layout, catalog) = layout(1, 5);
    let chosen = choose(&flight_recorder.settings.metrics, &layout, &catalog);
    flight_recorder.lay_out(Layout::new(chosen, &catalog), 2);
    assert_eq!((flight_recorder.needs(0), flight_recorder.needs(1)), (false, true));
    sample(&mut flight_recorder, 5, 1..4);
    assert_eq!(flight_recorder.status().values, 1);
    assert_eq!(played(&flight_recorder, 300, None), [(100, 1), (200, 2), (300, 3)]);
}

#[test]
fn what_no_group_logs_is_not_kept() {
    let mut flight_recorder = FlightRecorder::new(FlightRecorderSettings::default());
    let (layout, _) = layout(1, 5);
    let (_, fewer) = self::layout(2, 3);
    flight_recorder.lay_out(Layout::new(layout, &fewer), 2);
    sample(&mut flight_recorder, 5, 1..2);
    assert_eq!(flight_recorder.status().values, 4);
}

#[test]
fn what_does_not_fit_is_dropped_until_it_changes() {
    let mut flight_recorder = flight_recorder(Duration::from_secs(60), 30_000, 1000);
    sample(&mut flight_recorder, 1000, 1..10);
    assert!(played(&flight_recorder, 1000, None).is_empty());
    assert!(
        !flight_recorder.needs(0) && flight_recorder.status().bytes < 30_000,
        "{:?}",
        flight_recorder.status()
    );
    let (layout, catalog) = layout(2, 5);
    flight_recorder.lay_out(Layout::new(layout, &catalog), 2);
    sample(&mut flight_recorder, 5, 10..12);
    assert_eq!(played(&flight_recorder, 1100, None).len(), 2);
}

#[test]
fn a_new_instance_is_another_shape() {
    let mut flight_recorder = flight_recorder(Duration::from_secs(60), MEMORY, 1);
    sample(&mut flight_recorder, 1, 1..3);
    let (before, catalog) = layout(2, 1);
    let instance = Some(InstanceId::new(4).unwrap());
    let mut sets: Vec<_> = before.iter().collect();
    let places = [sets[1].places, &[Place { instance, source: 1, value: 1 }]].concat();
    sets[1].places = &places;
    flight_recorder.lay_out(Layout::new(sets.into_iter().collect(), &catalog), 2);
    let (values, other) = (Values::of_words(&[1]), Values::of_words(&[3, 77]));
    flight_recorder.take(at(300), &[Some(&values), Some(&other)]);
    assert_eq!(played(&flight_recorder, 300, None), [(100, 1), (200, 2), (300, 77)]);
}
