//! Programs under a limit on the size of files (`ulimit -f`): never killed, and each file
//! within the limit.
//!
//! The program is this test again, in a child process of a shell that sets the limit.

use std::fmt::Display;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use mmv_writer::pcp::{IndomMetricExt as _, NamedFamily, RegistryExt as _};
use mmv_writer::{Counter, Error, Registry};

/// Unit of `ulimit -f` in a POSIX shell.
const BLOCK: u64 = 512;

/// Runs the test `name` in a child process, under a limit of `blocks`.
#[track_caller]
fn run(name: &str, directory: &Path, blocks: u64, stderr: Stdio) -> Output {
    let command = format!(
        "ulimit -f {blocks} && exec \"$0\" --ignored --nocapture --exact file_size_limit::{name}"
    );
    let output = Command::new("sh")
        .args(["-c", &command])
        .arg(std::env::current_exe().unwrap())
        .env("LIMIT_DIRECTORY", directory)
        .stderr(stderr)
        .output()
        .unwrap();
    assert!(output.status.success(), "{blocks}: {output:?}");
    for entry in std::fs::read_dir(directory).unwrap() {
        let found = entry.unwrap().metadata().unwrap().len();
        assert!(found <= blocks * BLOCK, "{blocks}: {found}");
    }
    output
}

fn directory() -> String {
    std::env::var("LIMIT_DIRECTORY").unwrap()
}

fn report<T>(what: &str, result: Result<T, Error>) -> Option<T> {
    let text: &dyn Display = match &result {
        Ok(_) => &"done",
        Err(error) => error,
    };
    println!("{what}: {text}");
    result.ok()
}

fn program(lenient: bool) {
    let builder = Registry::builder("sealed").directory(directory());
    let sealed = if lenient { builder.clone().lenient() } else { builder.clone() }.build();
    let _published = report(
        "sealed",
        sealed.and_then(|registry| {
            registry.counter("c").build()?.inc();
            registry.publish()
        }),
    );
    let builder = Registry::builder("live").directory(directory());
    let builder = if lenient { builder.lenient() } else { builder };
    let Some(registry) = report("live", builder.build()) else { return };
    let counters: Result<Vec<Counter<u64>>, _> =
        (0..300).map(|index| registry.counter(format!("m{index}")).help("one").build()).collect();
    let counters = report("counters", counters).unwrap_or_default();
    counters.iter().for_each(Counter::inc);
    let things = registry.indom("things").build().unwrap();
    let count: NamedFamily<Counter<u64>> = registry.counter("count").build_named(&things).unwrap();
    let handles: Result<Vec<_>, _> =
        (0..2000).map(|index| count.get_or_create(&format!("i{index}"))).collect();
    let handles = report("instances", handles).unwrap_or_default();
    handles.iter().for_each(Counter::inc);
    println!("present: {}", things.len());
    registry.announce();
    println!("files: {}", std::fs::read_dir(directory()).unwrap().count());
}

#[test]
#[ignore = "run by the tests below"]
fn strict() {
    program(false);
}

#[test]
#[ignore = "run by the tests below"]
fn lenient() {
    program(true);
}

#[test]
#[ignore = "run by the tests below"]
fn lowered_later() {
    use nix::sys::resource::{Resource, setrlimit};
    let registry = Registry::builder("live").directory(directory()).build().unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, 300 << 10, 300 << 10).unwrap();
    let counters: Result<Vec<Counter<u64>>, _> =
        (0..1000).map(|index| registry.counter(format!("m{index}")).build()).collect();
    report("counters", counters);
}

fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines()
        .filter(|line| line.contains(": ") && !line.starts_with("test "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn strict_registry_reports_a_limit_that_is_too_low() {
    for blocks in [0, 1, 100, 128, 1000, 10_000] {
        let directory = tempfile::tempdir().unwrap();
        let output = run("strict", directory.path(), blocks, Stdio::piped());
        let lines = lines(&output);
        println!("{blocks}: {lines:?}");
        let live = &lines[1];
        if blocks <= 100 {
            assert!(live.ends_with("File too large (os error 27)"), "{live}");
            assert!(live.contains(directory.path().to_str().unwrap()), "{live}");
            continue;
        }
        assert_eq!(lines[..3], ["sealed: done", "live: done", "counters: done"]);
        let all = lines.contains(&"present: 2000".to_owned());
        assert_eq!(all, blocks == 10_000, "{lines:?}");
        assert_eq!(all, lines.contains(&"instances: done".to_owned()));
        assert!(all || lines[3].contains("does not fit: the file already has"), "{lines:?}");
    }
}

#[test]
fn limit_lowered_later_is_an_error_of_the_registration() {
    let directory = tempfile::tempdir().unwrap();
    let lines = lines(&run("lowered_later", directory.path(), 100_000, Stdio::piped()));
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.starts_with("counters: ") && line.contains("File too large"), "{line}");
}

#[test]
fn the_line_on_standard_error_does_not_exceed_the_limit_either() {
    for (blocks, expected) in [(0, false), (1, true)] {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let stderr = std::fs::File::create(&log).unwrap();
        run("lenient", directory.path(), blocks, stderr.into());
        let line = std::fs::read_to_string(&log).unwrap();
        assert_eq!(line.contains("metrics are not published: "), expected, "{line}");
    }
}

#[test]
fn a_lenient_registry_counts_under_any_limit() {
    for blocks in [0, 1, 100, 128, 1000, 10_000] {
        let directory = tempfile::tempdir().unwrap();
        let lines = lines(&run("lenient", directory.path(), blocks, Stdio::piped()));
        println!("{blocks}: {lines:?}");
        assert_eq!(lines[..3], ["sealed: done", "live: done", "counters: done"], "{blocks}");
    }
}
