//! The least and greatest values of gauges are seen in a reduced archive.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::analysis::replay::Decrease;
use crate::analysis::summary::summarize;
use crate::envelope::{Envelope, Envelopes, Grid, Options};

fn summarized(archive: &Archive, name: &str) -> Vec<(Option<i32>, f64, f64)> {
    let mut selection = Selection::new(archive);
    selection.select(name);
    let span = archive.label().start..=archive.end();
    let summaries = summarize(&selection, span, Decrease::Reset).unwrap();
    assert!(summaries.len() <= 1, "of the gauge alone");
    let instances = summaries.iter().flat_map(|summary| &summary.instances);
    let extremes = instances.filter_map(|found| {
        let statistics = found.statistics.as_ref()?;
        let instance = found.instance.map(crate::InstanceId::get);
        Some((instance, statistics.minimum.value, statistics.maximum.value))
    });
    extremes.collect()
}

fn enveloped(archive: &Archive, name: &str) -> [Vec<(Option<i32>, f64, f64)>; 2] {
    let mut selection = Selection::new(archive);
    selection.select(name);
    let grid = Grid::new(archive.label().start..=archive.end(), 1);
    let read = Envelope::read(&selection, grid.clone(), Options::default()).unwrap();
    let envelopes = Envelopes::new(Options::default()).max_direct_bytes(0);
    assert!(envelopes.extend(&selection, &|| true).unwrap());
    let coarse = envelopes.coarse(&selection, &grid).unwrap().envelope;
    [read, coarse].map(|envelope| {
        let series = envelope.series.iter().map(|series| {
            assert_eq!(series.metric, 0);
            let instance = series.instance.map(crate::InstanceId::get);
            let cells = || series.cells().map(|(_, cell)| cell);
            let minimum = cells().map(|cell| cell.minimum).fold(f64::INFINITY, f64::min);
            let maximum = cells().map(|cell| cell.maximum).fold(f64::NEG_INFINITY, f64::max);
            (instance, minimum, maximum)
        });
        series.collect()
    })
}

#[test]
fn spike_of_a_second_is_seen_after_it_was_reduced_twice() {
    let rows = (0..7200).map(|second| {
        let queue = if second == 4000 { 99 } else { 2 + second % 3 };
        (second, [("mmv.shop.queue", queue)])
    });
    let made = Builder::new().metric("mmv.shop.queue", "u32 instant none").rows(rows).finish();
    let source = open(&made);
    let (_minutes, minutes) = reduced(&source, Duration::from_secs(60));
    let (_hours, hours) = reduced(&minutes, Duration::from_secs(3600));
    for archive in [&minutes, &hours] {
        assert_eq!(summarized(archive, "mmv.shop.queue"), [(None, 2.0, 99.0)]);
        for found in enveloped(archive, "mmv.shop.queue") {
            assert_eq!(found, [(None, 2.0, 99.0)]);
        }
    }
    let maximum = "reduced.maximum.mmv.shop.queue";
    let expected = [(0.0, 2.0), (3600.0, 4.0), (7199.0, 99.0)];
    assert_eq!(singular(&hours, maximum), expected);
    let desc = hours.metadata().metric_by_name(maximum).unwrap().desc;
    assert_eq!(desc.pmid.to_string(), "326.2049.1");
    assert_eq!(hours.metadata().metrics().len(), 3, "no extremes of extremes");
}

#[test]
fn extreme_alone_is_reduced_to_itself() {
    let rows = (0..120).map(|second| (second, [("a.g", second % 50)]));
    let made = Builder::new().metric("a.g", "i32 instant none").rows(rows).finish();
    let (_minutes, minutes) = reduced(&open(&made), Duration::from_secs(60));
    let mut selection = Selection::new(&minutes);
    selection.select("reduced.minimum.a.g");
    let directory = test_archives::scratch();
    let base = directory.path().join("alone");
    let label = minutes.label().into();
    let mut writer = ArchiveWriter::create_with(&base, label, WriterOptions::default()).unwrap();
    Reduce::new(selection, Duration::from_secs(3600)).write(&mut writer, |_| {}).unwrap();
    writer.finish().unwrap();
    let alone = Archive::open(&base).unwrap();
    let values = singular(&alone, "reduced.minimum.a.g");
    let least = values.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
    assert!(least.abs() < 1e-9, "{values:?}");
    assert_eq!(alone.metadata().metrics().len(), 1);
}

proptest! {
    /// forall gauges with instances and marks, intervals and reads: minimum and maximum are those of
    /// the original, also of an archive that is reduced again.
    #[test]
    fn extremes_are_those_of_the_original(
        steps in vec((1i64..7, -9i32..9, proptest::option::weighted(0.8, -9i32..9), 0u8..12), 2..60),
        interval in 1u64..40,
        rows in prop_oneof![Just(1usize << 16), 1usize..9],
    ) {
        let mut builder = Builder::new()
            .metric("a.g", "i32 instant none")
            .instances("a.g", ["x", "y"])
            .metric("a.other", "u32 counter count");
        let mut second = 0;
        for (after, x, y, mark) in steps {
            second += after;
            let row = [("a.g[x]", Some(x)), ("a.g[y]", y), ("a.other", Some(1))];
            let row = row.into_iter().filter(|(_, value)| value.is_some());
            builder = builder.row(second, row);
            if mark == 0 {
                builder = builder.mark(second as f64 + 0.5);
            }
        }
        let made = builder.finish();
        let source = open(&made);
        let expected = summarized(&source, "a.g");
        let (_once, once) = reduced_by(&source, Duration::from_secs(interval), rows);
        let (_twice, twice) = reduced_by(&once, Duration::from_secs(4 * interval), rows);
        for archive in [&once, &twice] {
            prop_assert_eq!(&summarized(archive, "a.g"), &expected);
            for found in enveloped(archive, "a.g") {
                prop_assert_eq!(&found, &expected);
            }
        }
    }
}
