//! `mmv-agent record`: a command is logged while it runs, and its caller
//! sees its own output and exit status.

use std::path::Path;
use std::process::{Command, Output};

use mmv_writer::pcp::{IndomMetricExt as _, RegistryExt as _};
use mmv_writer::{Buckets, Counter, Registry, Units};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pcp_archive::Archive;
use pcp_archive::replay::Replay;

use crate::compliance;
use crate::harness::archive_facts;
use crate::harness::binaries;
use crate::harness::facts;
use crate::harness::mmv_file::image;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;
use crate::harness::wait;

/// Prepares `mmv-agent record` of a shell script, which finds a file with the counter `requests`
/// of 3 in `$image`.
fn recorder(scratch: &Scratch, base: &Path, script: &str) -> Command {
    let file = scratch.path().join("image");
    std::fs::write(&file, image(9, 1, &[("requests", 3)])).expect("an MMV file");
    let mut command = Command::new(binaries::mmv_agent());
    command.args(["record", "--interval", "20ms", "--output"]).arg(base);
    command.args(["sh", "-c", script]).env("image", file).env_remove("PCP_TMP_DIR");
    command
}

fn record(scratch: &Scratch, base: &Path, script: &str) -> Output {
    recorder(scratch, base, script).output().expect("start mmv-agent")
}

#[test]
fn a_command_is_logged_and_its_output_and_status_are_its_own() {
    let scratch = Scratch::new();
    let base = scratch.path().join("recording");
    let script = "cp \"$image\" \"$PCP_TMP_DIR/mmv/app\"; sleep 0.5; echo \"$PCP_TMP_DIR\"; exit 7";
    let output = record(&scratch, &base, script);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{stderr}");
    let directory = String::from_utf8(output.stdout).expect("a path");
    assert!(!Path::new(directory.trim()).exists(), "the directory for MMV files is left");
    assert!(stderr.contains("\nmmv.app, ") && stderr.contains("recording.0"), "{stderr}");
    assert!(stderr.contains("\nrequests     3"), "{stderr}");
    let facts = archive_facts::of_mmv_archive(&base);
    let samples = facts.records.iter().filter(|record| record.has_samples()).count();
    assert!(samples >= 5, "{samples} samples in half a second");
    if let Some(oracle) = Oracle::find() {
        compliance::check(&oracle, &base);
    }
    // A second recording of the same name says what it is called.
    let again = record(&scratch, &base, script);
    let stderr = String::from_utf8_lossy(&again.stderr);
    let base = base.display();
    let expected = format!("there is an archive {base} already, so this one is {base}-01\n");
    assert!(stderr.contains(&expected), "{stderr}");
}

/// The environment variable that says how [`short_tool`] ends.
const TOOL_END: &str = "MMV_TOOL_END";

#[test]
#[ignore = "a program of the tests of recordings, and no test"]
fn short_tool() {
    let end = std::env::var(TOOL_END).expect("how it ends");
    let registry = Registry::new("tool").unwrap();
    let total: Counter<u64> = registry.counter("total").units(Units::count()).build().unwrap();
    let things = registry.indom("things").build().unwrap();
    let by_thing = registry.counter("by_thing").units(Units::count()).build_named(&things);
    let by_thing = by_thing.unwrap();
    for number in 0..20_u64 {
        total.add(number);
        let thing: Counter<u64> = by_thing.get_or_create(&format!("thing {number}")).unwrap();
        thing.add(number);
    }
    match end.as_str() {
        "returns" => {}
        "exits" => std::process::exit(0),
        "killed" => kill(Pid::this(), Signal::SIGKILL).expect("end"),
        end => panic!("{end}"),
    }
}

/// Records a tool that runs for some milliseconds, this many times, and checks all that it counted.
fn check_short_tools(recordings: usize) {
    let tool = std::env::current_exe().expect("this program");
    for number in 0..recordings {
        let end = ["returns", "exits", "killed"][number % 3];
        let scratch = Scratch::new();
        let base = scratch.path().join("recording");
        let mut command = Command::new(binaries::mmv_agent());
        command.args(["record", "--output"]).arg(&base).arg("--").arg(&tool);
        command.args(["--ignored", "--exact", "record_command::short_tool"]);
        command.env(TOOL_END, end).env_remove("PCP_TMP_DIR").env_remove("MMV_DIR");
        let output = command.output().expect("start mmv-agent");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let archive = Archive::open(&base);
        let archive = archive.unwrap_or_else(|error| panic!("{number}, {end}: {error}: {stderr}"));
        let mut selection = Replay::open(&archive);
        selection.select("mmv.tool");
        let replay = selection.load().unwrap();
        let last = replay.observations().filter(|sample| !sample.is_mark).last().unwrap();
        let sums = last.values.iter().map(|values| {
            values.iter().filter_map(|(_, value)| value.as_f64()).sum::<f64>() as u64
        });
        assert_eq!(sums.collect::<Vec<_>>(), [190, 190], "{number}, {end}: {stderr}");
    }
}

#[test]
fn tool_of_a_millisecond_is_logged_whole_however_it_ends() {
    check_short_tools(6);
}

#[test]
#[ignore = "takes half a minute with two busy processes; ci/slow runs it"]
fn hundred_short_tools_beside_busy_processes_are_logged_whole() {
    let busy = [(); 2].map(|()| {
        // Until it is killed, or its parent has ended.
        let script = "while kill -0 $PPID; do :; done";
        Command::new("sh").args(["-c", script]).spawn().expect("start a process")
    });
    let checked = std::panic::catch_unwind(|| check_short_tools(100));
    for mut process in busy {
        process.kill().expect("end it");
        process.wait().expect("its end");
    }
    checked.expect("all that the tools counted");
}

#[test]
fn the_report_has_the_quantiles_of_a_histogram() {
    let scratch = Scratch::new();
    let base = scratch.path().join("recording");
    let [place, done] = ["place", "done"].map(|name| scratch.path().join(name));
    let script = "echo \"$PCP_TMP_DIR\" > \"$place.new\"; mv \"$place.new\" \"$place\"; \
                  until [ -e \"$done\" ]; do sleep 0.05; done";
    let mut command = recorder(&scratch, &base, script);
    command.env("place", &place).env("done", &done).stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("start mmv-agent");
    let directory = wait::until("the directory", || std::fs::read_to_string(&place).ok());
    let registry = Registry::builder("web").directory(Path::new(directory.trim()).join("mmv"));
    let registry = registry.sealed().build().unwrap();
    let buckets = Buckets::new(3, 60_000_000);
    let counter = registry.histogram("latency").units(Units::microseconds());
    let histogram = counter.buckets(buckets).build().unwrap();
    registry.publish().unwrap();
    let sum = |expected: u64| {
        wait::until_true("the sum", || {
            let Ok(archive) = Archive::open(&base) else { return false };
            let mut selection = Replay::open(&archive);
            selection.select("mmv.web.latency.sum");
            let replay = selection.load().unwrap();
            let last = replay.observations().filter(|sample| !sample.is_mark).last();
            let value = last.and_then(|sample| sample.values.first()?.first()?.1.as_f64());
            value == Some(expected as f64)
        });
    };
    sum(0);
    (0..90).for_each(|_| histogram.record(1_000));
    (0..10).for_each(|_| histogram.record(50_000));
    sum(90 * 1_000 + 10 * 50_000);
    std::fs::write(&done, "").expect("a file");
    let output = child.wait_with_output().expect("wait for mmv-agent");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let line = stderr.lines().find(|line| line.starts_with("latency "));
    let line = line.unwrap_or_else(|| panic!("no histogram in {stderr}"));
    // The count, its rate, and the middles of 960..1023 and 49152..53247, rounded.
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!((cells[1], &cells[3..5]), ("100", &["992", "51200"][..]), "{stderr}");
    assert_eq!(cells.last(), Some(&"us"), "{stderr}");
}

#[test]
fn a_command_without_metrics_and_a_missing_program_are_reported() {
    let scratch = Scratch::new();
    let base = scratch.path().join("recording");
    let output = record(&scratch, &base, "exit 0");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.contains("published no metrics"), "{stderr}");
    let mut command = Command::new(binaries::mmv_agent());
    let output = command.args(["record", "--output"]).arg(&base).arg("no-such-program").output();
    let output = output.expect("start mmv-agent");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(127), "{stderr}");
    assert!(stderr.contains("no-such-program"), "{stderr}");
}

#[test]
fn signal_to_record_ends_the_command_and_the_archive() {
    let scratch = Scratch::new();
    let base = scratch.path().join("recording");
    let script = "cp \"$image\" \"$PCP_TMP_DIR/mmv/app\"; exec sleep 60";
    let child = recorder(&scratch, &base, script).spawn().expect("start mmv-agent");
    let data = base.with_extension("0");
    wait::until_true("a record", || std::fs::metadata(&data).is_ok_and(|data| data.len() > 2_000));
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).expect("send TERM");
    let output = child.wait_with_output().expect("wait for mmv-agent");
    assert_eq!(output.status.code(), Some(128 + Signal::SIGTERM as i32));
    assert!(archive_facts::of_mmv_archive(&base).records.iter().any(facts::Record::has_samples));
}

#[test]
fn killed_recording_is_cleaned_up_by_the_next_one() {
    let scratch = Scratch::new();
    let temporary = scratch.path().join("temporary");
    std::fs::create_dir(&temporary).expect("a directory");
    let base = scratch.path().join("recording");
    let recorder = |script| {
        let mut command = recorder(&scratch, &base, script);
        command.env("TMPDIR", &temporary).env("command", scratch.path().join("command"));
        command
    };
    let mut killed = recorder("echo $$ > \"$command\"; exec sleep 100").spawn().expect("start it");
    let command: Pid = wait::until("the command", || {
        let text = std::fs::read_to_string(scratch.path().join("command")).ok()?;
        text.trim().parse().ok().map(Pid::from_raw)
    });
    killed.kill().expect("kill it");
    killed.wait().expect("its end");
    let entries = || std::fs::read_dir(&temporary).expect("the directory").flatten();
    let left = entries().next().expect("its directory").path();
    // As if it had been for long.
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    std::fs::File::open(&left).and_then(|left| left.set_modified(old)).expect("set its time");
    assert!(recorder("exit 0").status().expect("start it").success());
    assert!(left.join("mmv").exists(), "the command is still using it");
    kill(command, Signal::SIGKILL).expect("end the command");
    wait::until_true("its directory to be removed", || {
        assert!(recorder("exit 0").status().expect("start it").success());
        !left.exists()
    });
    assert_eq!(entries().count(), 0);
}
