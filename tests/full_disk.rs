//! A disk that is full is an error when something is registered, and never a
//! signal when it is counted.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use mmv_writer::pcp::{IndomMetricExt as _, RegistryExt as _};
use mmv_writer::{Counter, Error, Registry};

use crate::harness::binaries;
use crate::harness::scratch::Scratch;
use crate::harness::skip::skip;
use crate::harness::wait;

/// Variable with the path of the small disk, for the inner test.
const DISK: &str = "MMV_SMALL_DISK";

/// Runs the test itself in a process within: a small disk needs a mount of its own, and that a
/// namespace.
#[test]
fn a_full_disk_is_an_error_of_publication_and_growth() {
    run_on_small_disk("256k", "full_disk::registrations_on_a_small_disk");
}

/// Returns the disk of an ignored test that [`run_on_small_disk`] runs.
pub(crate) fn small_disk() -> PathBuf {
    std::env::var_os(DISK).map_or_else(|| panic!("no {DISK}"), PathBuf::from)
}

#[track_caller]
pub(crate) fn run_on_small_disk(size: &str, test: &str) {
    let scratch = Scratch::new();
    let disk = scratch.path().join("disk");
    std::fs::create_dir(&disk).expect("make a directory");
    let within = |command: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
        unshare.arg(format!("mount -t tmpfs -o size={size} none \"$0\" && {command}")).arg(&disk);
        unshare.arg(std::env::current_exe().expect("this program")).env(DISK, &disk);
        unshare.output()
    };
    if !within("true").is_ok_and(|output| output.status.success()) {
        return skip("no mount in a namespace of one's own");
    }
    let run = format!("exec \"$1\" --ignored --exact {test}");
    let output = within(&run).expect("start unshare");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}

#[test]
#[ignore = "runs where a small disk is, within the test above"]
fn registrations_on_a_small_disk() {
    let disk = small_disk();
    publication(&disk);
    growth(&disk);
    recording(&disk);
}

fn publication(disk: &Path) {
    let registry = |count: usize| {
        let registry = Registry::builder("app").sealed().directory(disk).build().unwrap();
        let help = "what fills a disk, ".repeat(10);
        for number in 0..count {
            let metric = registry.counter(format!("m{number}")).help(help.clone());
            let _: Counter<u64> = metric.build().unwrap();
        }
        registry
    };
    let old = registry(3).publish().unwrap();
    let refused = registry(900).publish();
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    assert_eq!(names(disk), ["app"], "what is on the disk");
    let file = std::fs::read(old.path()).unwrap();
    assert!(file.windows(3).any(|name| name == b"m2\0"), "the old file");
    drop(old);
    assert!(names(disk).is_empty());
}

fn growth(disk: &Path) {
    let registry = Registry::builder("live").directory(disk).build().unwrap();
    let domain = registry.indom("paths").build().unwrap();
    let family = registry.counter("hits").build_named(&domain).unwrap();
    let mut handles: Vec<Counter<u64>> = Vec::new();
    let refused = loop {
        match family.get_or_create(&format!("/{}", handles.len())) {
            Ok(handle) => handles.push(handle),
            Err(error) => break error,
        }
        assert!(handles.len() < 10_000, "the disk is not full");
    };
    assert!(matches!(refused, Error::Io { .. }), "{refused:?}");
    handles.iter().for_each(Counter::inc);
    assert!(handles.len() > 10 && handles.iter().all(|handle| handle.value() == 1));
    assert!(domain.remove("/0"));
    assert!(family.get("/1").is_some());
}

fn recording(disk: &Path) {
    // Each record fills a page, so that few of them fill the disk on a slow machine as well.
    let elsewhere = disk.with_file_name("elsewhere");
    std::fs::create_dir_all(&elsewhere).expect("a directory");
    let registry = Registry::builder("app").directory(&elsewhere).process(false);
    let registry = registry.sealed().build().expect("a registry");
    for number in 0..200 {
        let counter = registry.counter(format!("requests{number}")).build();
        counter.expect("a counter").add(3);
    }
    let published = registry.publish().expect("an MMV file");
    let image = published.path();
    // All but some pages. The kernel may free those of removed files a little later.
    let full = disk.join("full");
    wait::until_true("room on the disk", || std::fs::write(&full, vec![0; 220_000]).is_ok());
    let record = |ending: &str| {
        let script = format!(
            "cp \"$0\" \"$PCP_TMP_DIR/mmv/app\"
            for turn in $(seq 200); do
                [ \"$(stat -f -c %f \"$1\")\" = 0 ] && break
                sleep 0.1
            done
            sleep 1; {ending}"
        );
        let mut command = Command::new(binaries::mmv_agent());
        command.args(["record", "--interval", "1ms", "--output"]).arg(disk.join("run"));
        command.args(["sh", "-c", &script]).arg(image).arg(disk);
        let output = command.output().expect("start mmv-agent");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains("records could not be written: "), "{text}");
        assert!(text.contains("No space left on device"), "{text}");
        assert!(!text.contains("published no metrics"), "{text}");
        (output.status.code(), text)
    };
    let (status, text) = record("true");
    assert!(status == Some(74) && text.contains("run.0"), "{status:?}: {text}");
    // Nothing is left for another archive.
    let mut rest = std::fs::File::create(disk.join("rest")).expect("a file");
    while rest.write_all(&[0; 64]).is_ok() {}
    let (status, text) = record("true");
    assert_eq!(status, Some(74), "{text}");
    let (status, text) = record("exit 3");
    assert_eq!(status, Some(3), "the command's own status: {text}");
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("list the disk");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().unwrap()).collect()
}
