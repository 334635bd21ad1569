//! Files that cost much to load, with an honest program beside them whose samples are
//! counted. `MMV_LONG` in the environment asks for the long form, which `ci/long` runs.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::mmv_file::{image, patched};
use crate::harness::scratch::Scratch;
use crate::harness::wait;

/// Files of other users are in it as well: they have no part in what is counted.
const HONEST: &str = "honest";

/// The interval of the agent.
const INTERVAL: Duration = Duration::from_millis(10);

fn seconds(short: u64, long: u64) -> Duration {
    Duration::from_secs(if std::env::var_os("MMV_LONG").is_some() { long } else { short })
}

/// Runs an agent while `attack` repeats; each call of it should be short. Of the ticks
/// in that time at most half may be missed (another process may have the processors),
/// and each record has the honest program's value.
fn attacked(mut attack: impl FnMut(&Scratch, u64) + Send) {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(0, 1, &[("steady", 7)]), HONEST);
    let mut agent = Agent::start_with(&scratch, &["--interval", "10ms"]);
    wait::until_true("first records", || agent.data_bytes() > 500);
    let (run, over) = (seconds(4, 60), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0.. {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                attack(&scratch, turn);
            }
        });
        let end = Instant::now() + run;
        while Instant::now() < end {
            agent.assert_alive();
            assert!(agent.memory() < 256 << 10, "{} KiB of memory", agent.memory());
            thread::sleep(Duration::from_millis(100));
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(agent.terminate().success(), "{}", agent.log());
    let ticks = (run.as_millis() / INTERVAL.as_millis()) as u64;
    let missed = agent.counted("missed");
    assert!(missed <= ticks / 2, "{missed} of {ticks} ticks\n{}", agent.log());
    let mut samples = 0;
    for base in agent.archives() {
        let facts = archive_facts::of_mmv_archive(&base);
        let name = format!("mmv.{HONEST}.steady");
        let found = facts.metrics.iter().find(|(_, metric)| metric.names.contains(&name));
        let Some((pmid, _)) = found else { continue };
        for record in facts.records.iter().filter(|record| record.has_samples()) {
            let values: Vec<_> = record.values(pmid).map(|(_, value)| value).collect();
            assert_eq!(values, [crate::harness::facts::number("7")]);
            samples += 1;
        }
    }
    assert!(
        samples >= ticks / 2 - ticks / 10,
        "{samples} samples of {ticks} ticks, {missed} missed"
    );
}

/// The bytes of a section's line in the table of contents.
fn section(kind: u32, count: u32, offset: u64) -> Vec<u8> {
    [&kind.to_ne_bytes()[..], &count.to_ne_bytes(), &offset.to_ne_bytes()].concat()
}

/// A file of version 3 with ten million empty instances and 250 labels of instances,
/// which takes 68 KB of disk.
fn put_sparse(scratch: &Scratch, name: &str) {
    const INSTANCES: u32 = 10_000_000;
    let hidden = scratch.mmv_dir().join(format!(".{name}"));
    let file = File::create(&hidden).expect("create a file");
    let (indoms, metrics, labels, values) = (200, 240, 400, 70_000);
    let instances = 80_000;
    file.set_len(instances + u64::from(INSTANCES) * 24).expect("make it long");
    let header = image(0, 1, &[("x", 1)]);
    let header = patched(&patched(&header, 4, &3_u32.to_ne_bytes()), 24, &5_u32.to_ne_bytes());
    let write = |bytes: &[u8], at| file.write_all_at(bytes, at).expect("write");
    write(&header[..40], 0);
    let toc = [
        section(1, 1, indoms),
        section(2, INSTANCES, instances),
        section(3, 1, metrics),
        section(4, 1, values),
        section(6, 250, labels),
    ];
    write(&toc.concat(), 40);
    let domain = [&1_u32.to_ne_bytes()[..], &INSTANCES.to_ne_bytes(), &instances.to_ne_bytes()];
    write(&domain.concat(), indoms);
    for label in 0..250_u32 {
        let entry = [32, 1, label].map(u32::to_ne_bytes).concat();
        let at = labels + 256 * u64::from(label);
        write(&[&entry[..], br#"{"a":1}"#].concat(), at);
    }
    fs::rename(&hidden, scratch.mmv_dir().join(name)).expect("rename it");
}

#[test]
fn empty_instances_and_their_labels_stop_no_tick() {
    attacked(|scratch, turn| {
        put_sparse(scratch, &format!("sparse{}", turn % 3));
        thread::sleep(Duration::from_millis(100));
    });
}

#[test]
fn a_new_file_of_a_thousand_metrics_is_logged_in_an_interval_and_fifty_milliseconds() {
    use mmv_writer::{Counter, Registry};

    const INTERVAL: Duration = Duration::from_millis(200);
    let scratch = Scratch::new();
    scratch.install_bytes(&image(0, 1, &[("steady", 7)]), HONEST);
    let mut agent = Agent::start_with(&scratch, &["--interval", "200ms"]);
    wait::until_true("first records", || agent.data_bytes() > 200);
    let mut taken = Vec::new();
    for turn in 0..5 {
        let name = format!("app{turn}");
        let registry = Registry::builder(&name).directory(scratch.mmv_dir()).process(false);
        let registry = registry.build().expect("a registry");
        for number in 0..1000 {
            let _: Counter<u64> =
                registry.counter(format!("m{number}")).build().expect("a counter");
        }
        let before = agent.volume_bytes();
        let published = registry.publish().expect("a file");
        let began = Instant::now();
        // A record with a thousand values more, of 20 bytes and more each.
        wait::until_true("its values", || agent.volume_bytes() > before + 20_000);
        taken.push(began.elapsed());
        drop(published);
        thread::sleep(2 * INTERVAL);
    }
    assert!(agent.terminate().success(), "{}", agent.log());
    taken.sort_unstable();
    // The median, since other tests have the processors as well.
    assert!(taken[2] < INTERVAL + Duration::from_millis(50), "{taken:?}");
}
