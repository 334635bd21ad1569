//! The sender's own metrics, as an agent reads them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mmv_format::mapping::ReadMapping;
use mmv_format::view::{Contents, Limits};

use super::receiver::{Reaction, Receiver};
use super::sender::{START, Sent, messages, write_archive};

fn directory(sent: &Sent) -> PathBuf {
    let directory = sent.place.path().join("mmv");
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// Reads the word of a metric and its only instance `web1`; `None` while there is none.
fn word(file: &Path, metric: &str) -> Option<u64> {
    let file = File::open(file).ok()?;
    // It changes while it is read.
    let contents = Contents::read(&file, &Limits::default()).ok()?;
    let place = contents.metrics.iter().position(|found| found.name == metric)?;
    let value = contents.values_of(place).next()?;
    let indom = contents.indom(contents.metrics[place].indom?)?;
    let names: Vec<_> = indom.instances.iter().map(|instance| instance.name.as_str()).collect();
    assert_eq!(names, ["web1"]);
    let word = ReadMapping::map(&file).ok()?.load_u64(value.cell as usize)?;
    // The sentinel: there is an instance, and no value of this metric.
    (word != u64::MAX).then_some(word)
}

#[track_caller]
fn wait_for(file: &Path, metric: &str, expected: u64) {
    let until = Instant::now() + Duration::from_secs(20);
    while word(file, metric) != Some(expected) {
        assert!(Instant::now() < until, "{metric}: {:?}", word(file, metric));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn seconds(seconds: i64) -> u64 {
    (seconds as f64).to_bits()
}

#[test]
fn counts_start_with_the_process_and_end_with_it() {
    let sent = Sent::new(10, 10);
    let file = directory(&sent).join("export");
    let receiver = Receiver::start(|_, _| Reaction::Store);
    assert!(sent.push(&receiver, &[]).status.success());
    write_archive(&sent.archives().join("b"), 10, START + 1_000, 20);
    let mut child = sent.start(&receiver.url(), &["--follow", "--metrics", "export"]);
    // The samples of an earlier process do not count; those of the end of its archive do.
    wait_for(&file, "sent", 210);
    wait_for(&file, "sent_until", seconds(START + 1_190));
    wait_for(&file, "held", 0);
    assert_eq!(word(&file, "refused"), Some(0));
    let signalled =
        std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(signalled.unwrap().success());
    assert!(child.wait().unwrap().success());
    assert!(!file.exists());
}

#[test]
fn a_host_that_is_held_shows_it() {
    let sent = Sent::new(10, 10);
    let file = directory(&sent).join("export");
    let receiver = Receiver::start(|_, _| Reaction::Answer(400, "", "out of bounds"));
    let mut child = sent.start(&receiver.url(), &["--follow", "--metrics", "export"]);
    wait_for(&file, "held", 1);
    assert_eq!((word(&file, "sent"), word(&file, "sent_until")), (Some(0), None));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn samples_are_sent_where_no_metrics_can_be_published() {
    let sent = Sent::new(10, 10);
    // A file in the place of the directory.
    fs::write(sent.place.path().join("mmv"), "").unwrap();
    let receiver = Receiver::start(|_, _| Reaction::Store);
    let mut child = sent.start(&receiver.url(), &["--follow", "--metrics", "export"]);
    let until = Instant::now() + Duration::from_secs(20);
    while receiver.stored().len() < 100 {
        assert!(Instant::now() < until, "{}", receiver.stored().len());
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(messages(&output).contains("export"), "{}", messages(&output));
    let output = sent.push(&receiver, &["--follow", "--metrics", "a/b"]);
    assert_eq!(output.status.code(), Some(2), "{}", messages(&output));
    assert!(messages(&output).contains("--metrics"), "{}", messages(&output));
}
