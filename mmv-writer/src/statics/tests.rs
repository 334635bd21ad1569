use std::time::Duration;

use super::*;
use crate::Registry;
use crate::test_support::singular_values_of as values;
use mmv_format::view::{Contents, Limits};
use tempfile::TempDir;

fn live(directory: &TempDir) -> Registry {
    Registry::builder("app").directory(directory.path()).build().unwrap()
}

fn value(name: &str, value: u64) -> (String, u64) {
    (name.to_owned(), value)
}

#[test]
fn statics_take_their_counts_into_a_sealed_registry() {
    static COUNT: Counter<f64> = Counter::new("count");
    static LEVEL: Gauge<i64> = Gauge::new("level").units(Units::bytes());
    static BUSY: Timer = Timer::new("busy");
    static TOOK: Histogram =
        Histogram::new("took").units(Units::microseconds()).buckets(Buckets::new(0, 3));
    COUNT.add(0.5);
    LEVEL.set(-7);
    LEVEL.set_max(3);
    let in_flight = LEVEL.guard();
    BUSY.add(Duration::from_nanos(9));
    let timing = BUSY.start();
    TOOK.record(2);
    TOOK.record_duration(Duration::from_secs(1));
    TOOK.start().discard();
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").sealed().directory(directory.path()).build().unwrap();
    registry.register_static(&COUNT).unwrap();
    registry.register_static(&LEVEL).unwrap();
    registry.register_static(&BUSY).unwrap();
    registry.register_static(&TOOK).unwrap();
    registry.register_static(&TOOK).unwrap();
    registry.publish().unwrap();
    assert_eq!(
        values(registry.path()),
        [
            value("count", 0.5f64.to_bits()),
            value("level", 4),
            value("busy", 9),
            value("took.sum", 1_000_002),
        ]
    );
    // What began before ends in the file.
    drop((in_flight, timing));
    assert_eq!(LEVEL.value(), 3);
    assert!(BUSY.value() > Duration::from_nanos(9));
    assert_eq!(values(registry.path())[1], value("level", 3));
    assert_eq!(values(registry.path())[2].1, BUSY.value().as_nanos() as u64);
    LEVEL.sub(1);
    LEVEL.add(5);
    TOOK.time(|| TOOK.record(2));
    assert_eq!((TOOK.count(), LEVEL.value()), (4, 7));
    let file = std::fs::File::open(registry.path()).unwrap();
    let contents = Contents::read(&file, &Limits::default()).unwrap();
    assert_eq!(contents.metrics[1].units, Units::bytes());
}

#[test]
fn a_static_that_cannot_be_registered_counts_further() {
    static COUNT: Counter<u64> = Counter::new("count");
    COUNT.inc();
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::builder("app").sealed().directory(directory.path()).build().unwrap();
    let _taken = registry.counter("count").build().unwrap();
    assert!(matches!(registry.register_static(&COUNT), Err(Error::NameTaken { .. })));
    COUNT.inc();
    assert_eq!(COUNT.value(), 2);
}

#[test]
fn no_count_is_lost_while_a_static_is_registered() {
    const THREADS: u64 = 4;
    const EACH: u64 = 20_000;
    macro_rules! rounds {
        ($($round:ident)*) => {[$({
            static $round: (Counter<u64>, Histogram) =
                (Counter::new("count"), Histogram::new("sizes"));
            (&$round.0, &$round.1)
        }),*]};
    }
    for (count, sizes) in rounds!(A B C D E F G H) {
        let directory = tempfile::tempdir().unwrap();
        let registry = live(&directory);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for size in 0..EACH {
                        count.inc();
                        sizes.record(size % 2);
                    }
                });
            }
            while count.value() < 100 {
                std::thread::yield_now();
            }
            registry.register_static(count).unwrap();
            registry.register_static(sizes).unwrap();
        });
        registry.announce();
        let found = values(registry.path());
        assert_eq!(found, [value("count", THREADS * EACH), value("sizes.sum", THREADS * EACH / 2)]);
        assert_eq!(sizes.count(), THREADS * EACH);
    }
}
