//! What is kept, and for how long.

use mmv_archive::MetricDesc;
use pcp_types::{InstanceId, Pmid, Semantics, Units, ValueType};

use super::delta::Reader;
use super::*;
use crate::record::{Place, ValueSetLayout};

const MEMORY: usize = 1_000_000;

fn at(millis: u64) -> Timestamp {
    Timestamp::new(1_700_000_000, 0).unwrap().saturating_add(Duration::from_millis(millis))
}

/// The counters `mmv.m0` and so on of source 0, and `mmv.other` of source 1.
fn layout(id: u64, counters: u32) -> (Layout, Arc<Catalog>) {
    let (mut layout, mut catalog) = (Layout::new(), Catalog { id, ..Catalog::default() });
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
        let places = vec![Place { instance: None, source, value }];
        layout.push(ValueSetLayout { pmid, value_type, owners: vec![source], places });
    }
    (layout, Arc::new(catalog))
}

/// Hindsight of so much time and memory that samples some counters.
fn hindsight(span: Duration, memory: usize, counters: u32) -> Hindsight {
    let interval = Duration::from_millis(100);
    let mut hindsight =
        Hindsight::new(HindsightSettings { interval, span, memory, metrics: Vec::new() });
    let (layout, catalog) = layout(1, counters);
    let chosen = hindsight.choose(&layout, &catalog);
    hindsight.lay_out(chosen, &catalog, 2);
    hindsight
}

/// Takes samples number `numbers`: each counter is the number times its own.
fn sample(hindsight: &mut Hindsight, counters: u64, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let words: Vec<u64> = (0..counters).map(|own| number * own).collect();
        let (values, other) = (Values::of_words(&words), Values::of_words(&[number]));
        hindsight.take(at(100 * number), &[Some(&values), Some(&other)]);
    }
}

/// Time and last value of each sample of the last `time`.
fn played(hindsight: &Hindsight, now: u64, time: Option<Duration>) -> Vec<(u64, u64)> {
    let held = hindsight.held(at(now), time);
    let mut found = Vec::new();
    for chunk in &held.chunks {
        let (_, mut values) = chunk.shape.unfold().unwrap();
        let (mut reader, mut stamp, mut samples) = (Reader::new(&chunk.bytes), chunk.first, 0);
        while !reader.is_at_end() {
            let passed = reader.varint().unwrap();
            stamp = Timestamp::from_nanos(stamp.as_nanos() + i128::from(passed));
            reader.sample(&mut values).unwrap();
            samples += 1;
            if stamp >= held.since {
                let millis = stamp.nanos_since(at(0)) / 1_000_000;
                found.push((millis as u64, *values.last().unwrap().words().last().unwrap()));
            }
        }
        assert_eq!((samples, stamp), (chunk.samples, chunk.last));
    }
    found
}

#[test]
fn the_samples_of_the_span_are_there_and_few_older_ones() {
    let mut hindsight = hindsight(Duration::from_secs(60), MEMORY, 5);
    sample(&mut hindsight, 5, 1..2001);
    let found = played(&hindsight, 200_000, None);
    let expected: Vec<_> = (1400..=2000).map(|number| (number * 100, number)).collect();
    assert_eq!(found, expected);
    let found = played(&hindsight, 200_000, Some(Duration::from_secs(5)));
    assert_eq!(found, expected[expected.len() - 51..]);
    let HindsightStatus { values, samples, span, .. } = hindsight.status();
    assert_eq!(values, 6);
    assert!((601..=640).contains(&samples) && (60.0..64.0).contains(&span), "{samples} {span}");
}

#[test]
fn memory_is_bounded_however_much_changes() {
    let memory = 600_000;
    let mut hindsight = hindsight(Duration::from_secs(3600), memory, 1000);
    let mut most = 0;
    for number in 1..2000 {
        sample(&mut hindsight, 1000, number..number + 1);
        most = most.max(hindsight.status().bytes);
    }
    assert!(most <= memory as u64 && most > memory as u64 / 2, "{most}");
    let found = played(&hindsight, 199_900, None);
    assert!(found.len() > 20 && found.last() == Some(&(199_900, 1999)), "{}", found.len());
    let gaps = found.windows(2).filter(|pair| pair[0].0 + 100 != pair[1].0);
    assert_eq!(gaps.count(), 0);
}

#[test]
fn other_metadata_at_each_sample_stays_within_the_memory() {
    let mut hindsight = hindsight(Duration::from_secs(3600), MEMORY, 100);
    for number in 0..1000 {
        let (layout, catalog) = layout(number + 2, 100 + number as u32 % 50);
        hindsight.lay_out(layout, &catalog, 2);
        sample(&mut hindsight, 149, number..number + 1);
        assert!(hindsight.status().bytes <= MEMORY as u64);
    }
    let found = played(&hindsight, 99_900, None);
    assert!(found.len() > 10 && found.last() == Some(&(99_900, 999)), "{}", found.len());
}

#[test]
fn metadata_that_comes_back_is_kept_once() {
    let mut hindsight = hindsight(Duration::from_secs(3600), MEMORY, 100);
    sample(&mut hindsight, 100, 1..2);
    let before = hindsight.status().bytes;
    for number in 1..41 {
        let counters = if number % 2 == 1 { 50 } else { 100 };
        let (layout, catalog) = layout(1 + number, counters);
        hindsight.lay_out(layout, &catalog, 2);
        sample(&mut hindsight, counters.into(), 1 + number..2 + number);
    }
    let samples = 41 * (2 * 100 + 400);
    assert!(hindsight.status().bytes < 2 * before + samples, "{before} {:?}", hindsight.status());
    assert_eq!(hindsight.held(at(0), None).chunks.len(), 41);
    // Nothing is begun for a catalog that says the same.
    let (layout, catalog) = layout(99, 100);
    hindsight.lay_out(layout, &catalog, 2);
    sample(&mut hindsight, 100, 42..43);
    assert_eq!(hindsight.held(at(0), None).chunks.len(), 41);
}

#[test]
fn a_source_that_is_not_there_has_no_values() {
    let mut hindsight = hindsight(Duration::from_secs(60), MEMORY, 2);
    let (values, other) = (Values::of_words(&[1, 2]), Values::of_words(&[3]));
    hindsight.take(at(100), &[Some(&values), Some(&other)]);
    hindsight.take(at(200), &[None, Some(&other)]);
    hindsight.take(at(300), &[None, Some(&other)]);
    hindsight.take(at(400), &[Some(&values), Some(&other)]);
    let held = hindsight.held(at(400), None);
    let there: Vec<_> = held.chunks.iter().map(|chunk| (&chunk.there[..], chunk.samples)).collect();
    let all = &[true, true][..];
    assert_eq!(there, [(all, 1), (&[false, true], 2), (all, 1)]);
    assert_eq!(played(&hindsight, 400, None).len(), 4);
}

#[test]
fn a_gap_is_noted_and_a_clock_set_back_begins_anew() {
    let mut hindsight = hindsight(Duration::from_secs(60), MEMORY, 2);
    sample(&mut hindsight, 2, 100..103);
    hindsight.note_gap();
    sample(&mut hindsight, 2, 200..203);
    let gaps = |hindsight: &Hindsight| -> Vec<_> {
        let chunks = hindsight.held(at(0), None).chunks;
        chunks.iter().map(|chunk| (chunk.samples, chunk.after_gap)).collect()
    };
    assert_eq!(gaps(&hindsight), [(3, false), (3, true)]);
    sample(&mut hindsight, 2, 50..52);
    assert_eq!(gaps(&hindsight), [(2, false)]);
    assert_eq!(played(&hindsight, 5100, None), [(5000, 50), (5100, 51)]);
}

#[test]
fn only_what_is_wanted_is_read_and_kept() {
    let settings = HindsightSettings { metrics: vec!["mmv.o*".into()], ..Default::default() };
    let mut hindsight = Hindsight::new(settings);
    let (layout, catalog) = layout(1, 5);
    let chosen = hindsight.choose(&layout, &catalog);
    hindsight.lay_out(chosen, &catalog, 2);
    assert_eq!((hindsight.needs(0), hindsight.needs(1)), (false, true));
    sample(&mut hindsight, 5, 1..4);
    assert_eq!(hindsight.status().values, 1);
    assert_eq!(played(&hindsight, 300, None), [(100, 1), (200, 2), (300, 3)]);
}

#[test]
fn what_no_group_logs_is_not_kept() {
    let mut hindsight = Hindsight::new(HindsightSettings::default());
    let (layout, _) = layout(1, 5);
    let (_, fewer) = self::layout(2, 3);
    hindsight.lay_out(layout, &fewer, 2);
    sample(&mut hindsight, 5, 1..2);
    assert_eq!(hindsight.status().values, 4);
}

#[test]
fn what_does_not_fit_at_all_is_given_up_until_it_changes() {
    let mut hindsight = hindsight(Duration::from_secs(60), 30_000, 1000);
    sample(&mut hindsight, 1000, 1..10);
    assert!(played(&hindsight, 1000, None).is_empty());
    assert!(!hindsight.needs(0) && hindsight.status().bytes < 30_000, "{:?}", hindsight.status());
    let (layout, catalog) = layout(2, 5);
    hindsight.lay_out(layout, &catalog, 2);
    sample(&mut hindsight, 5, 10..12);
    assert_eq!(played(&hindsight, 1100, None).len(), 2);
}

#[test]
fn a_new_instance_is_another_shape() {
    let mut hindsight = hindsight(Duration::from_secs(60), MEMORY, 1);
    sample(&mut hindsight, 1, 1..3);
    let (mut layout, catalog) = layout(2, 1);
    let instance = Some(InstanceId::new(4).unwrap());
    layout[1].places.push(Place { instance, source: 1, value: 1 });
    hindsight.lay_out(layout, &catalog, 2);
    let (values, other) = (Values::of_words(&[1]), Values::of_words(&[3, 77]));
    hindsight.take(at(300), &[Some(&values), Some(&other)]);
    assert_eq!(played(&hindsight, 300, None), [(100, 1), (200, 2), (300, 77)]);
}
