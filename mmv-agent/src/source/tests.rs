//! Tests of truncated files and of page faults.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use mmv_format::mapping::guard;
use mmv_writer::pcp::{IndomMetricExt as _, Instances, RegistryExt as _};
use mmv_writer::{Counter, Registry};
use nix::sys::resource::{UsageWho, getrusage};
use pcp_types::Timestamp;

use super::*;
use crate::moment::Moment;

fn open(path: &Path) -> Source {
    let limits = Limits::default();
    let mut open_limits = OpenLimits {
        limits,
        allow: &|_, _, _| Ok(()),
        find_process: &|number, _| Process::find(number),
        reads_ended: false,
        cost: Cost::default(),
    };
    Source::open(path, &mut open_limits).expect("a file").0
}

const fn options(stat: bool) -> PassOptions {
    PassOptions { micros: 0, stat, retry: true }
}

/// Truncates a file of counters, all 7, at many offsets, and restores its length if `again`.
/// Checks that a check without system calls notices each lost value.
fn no_lost_value_is_taken(counters: usize, step: usize, again: bool) {
    guard::install().expect("a guard");
    let dir = tempfile::tempdir().expect("a directory");
    let registry =
        Registry::builder("f").sealed().directory(dir.path()).build().expect("a registry");
    for number in 0..counters {
        let counter: Counter<u64> =
            registry.counter(format!("c{number}")).build().expect("a counter");
        counter.add(7);
    }
    let published = registry.publish().expect("a file");
    let whole = fs::read(published.path()).expect("its bytes");
    let path = dir.path().join("cut");
    let mut lost = 0;
    let mut kept = 0;
    for at in (layout::Header::BYTES..whole.len()).step_by(step) {
        fs::write(&path, &whole).expect("write it");
        let source = open(&path);
        let mut values = Values::new(source.plan());
        assert!(source.harvest(&mut values, options(false), &Allowance::unlimited()).1.is_ok());
        let file = OpenOptions::new().write(true).open(&path).expect("open it");
        file.set_len(at as u64).expect("cut it");
        if again {
            file.set_len(whole.len() as u64).expect("give it its length");
        }
        let (_, checked) = source.harvest(&mut values, options(false), &Allowance::unlimited());
        if values.words().iter().any(|word| *word != 7) {
            assert!(checked.is_err(), "cut at {at} of {}", whole.len());
            assert!(source.check(true).is_err(), "cut at {at} of {}", whole.len());
            lost += 1;
        } else {
            kept += usize::from(checked.is_ok());
        }
    }
    assert!(lost > 0 && kept > 0, "{lost} cuts cost values, {kept} none");
}

#[test]
fn no_value_of_a_page_that_was_cut_is_taken() {
    no_lost_value_is_taken(3, 8, false);
    no_lost_value_is_taken(3, 8, true);
}

#[test]
fn no_value_of_pages_that_were_cut_away_is_taken() {
    no_lost_value_is_taken(500, 264, false);
    no_lost_value_is_taken(500, 264, true);
}

#[test]
fn without_a_look_at_the_file_a_new_generation_is_noticed() {
    let dir = tempfile::tempdir().expect("a directory");
    let registry =
        Registry::builder("f").sealed().directory(dir.path()).build().expect("a registry");
    let _counter: Counter<u64> = registry.counter("c").build().expect("a counter");
    let published = registry.publish().expect("a file");
    let source = open(published.path());
    assert!(source.check(false).is_ok());
    let file = OpenOptions::new().read(true).write(true).open(published.path()).expect("open it");
    let mut byte = [0];
    let at = layout::Header::GENERATION2 as u64;
    file.read_exact_at(&mut byte, at).expect("read it");
    file.write_all_at(&byte.map(|byte| !byte), at).expect("write it");
    assert!(matches!(source.check(false), Err(Fault::Generation { .. })));
}

/// Returns the path of a file with a counter of this many instances.
pub(crate) fn counters_file(directory: &Path, name: &str, counters: usize) -> PathBuf {
    let registry =
        Registry::builder(name).sealed().directory(directory).build().expect("a registry");
    let names = (0..counters).map(|number| format!("n{number}"));
    let indom = registry.indom("all").names(names).build().expect("a domain");
    let _counters: Instances<Counter<u64>> =
        registry.counter("counter").build_instances(&indom).expect("a metric");
    let published = registry.publish().expect("a file");
    // Withdrawing it removes the file of this name only.
    let path = directory.join(format!("{name}.kept"));
    fs::hard_link(published.path(), &path).expect("another name");
    path
}

/// Returns a new source, as the loader makes it.
pub(crate) fn active(path: &Path, ticket: Ticket) -> Box<ActiveSource> {
    let gaps = FileGaps::new(path.file_name().expect("a name").to_owned());
    Box::new(ActiveSource::new(ticket, Arc::new(open(path)), Arc::new(gaps)))
}

#[test]
fn first_pass_after_loading_meets_no_page_fault() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = counters_file(dir.path(), "f", 50_000);
    let loader = thread::spawn(move || active(&path, 1));
    let mut active = loader.join().expect("a source");
    let faults = || {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("usage");
        usage.minor_page_faults() + usage.major_page_faults()
    };
    let before = faults();
    let now = Moment { monotonic: Duration::from_secs(1), wall: Timestamp::EPOCH };
    active.harvest(now, false, &Allowance::unlimited());
    let met = faults() - before;
    assert!(active.values(now).is_some());
    // Some may be of the test's own stack; the values are on hundreds of pages.
    assert!(met < 3, "{met} faults");
}
