//! A process that is killed before any step of creating, deleting, compressing, reducing or
//! repairing an archive: PCP's readers and ours read the directory, and the next start removes
//! what is left.
//!
//! The steps are counted in the thread that takes them, so that their order does not depend on
//! what other threads do meanwhile.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use mmv_writer::Registry;
use nix::sys::signal::Signal;
use pcp_archive::check::{Severity, check};
use pcp_archive::internal::original_base;

use super::half_made::{assert_readable, assert_readable_after_kill, names};
use crate::harness::agent::Agent;
use crate::harness::binaries;
use crate::harness::mmv_file::image;
use crate::harness::scratch::Scratch;
use crate::harness::{shim, wait};

pub(super) fn member(base: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}.{suffix}", base.display()))
}

/// Calls `run` with 1, 2, 3 and so on, as long as a process that is to be killed before this
/// step is killed. Returns how many steps there were.
#[track_caller]
pub(super) fn each_step(mut run: impl FnMut(u64) -> ExitStatus) -> u64 {
    let mut step = 1;
    loop {
        // Shown if an assertion about this step fails.
        println!("killed before step {step}");
        let status = run(step);
        if status.signal() != Some(Signal::SIGKILL as i32) {
            assert!(status.success(), "{status}");
            return step - 1;
        }
        step += 1;
    }
}

fn agent_killed_before(thread: &str, step: u64) -> Command {
    let mut command = Command::new(binaries::mmv_agent());
    shim::kill_before(&mut command, thread, step);
    command
}

fn with_archives(count: usize) -> Scratch {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    for _ in 0..count {
        Agent::start_with(&scratch, &["--interval", "5ms", "--samples", "4"]).ended();
    }
    scratch
}

fn configured(scratch: &Scratch, text: &str) -> [String; 2] {
    let file = scratch.path().join("agent.toml");
    fs::write(&file, text).expect("write the configuration");
    ["--config".to_owned(), file.to_str().expect("UTF-8").to_owned()]
}

fn run(command: Command, scratch: &Scratch, config: &[String; 2], options: &[&str]) -> Agent {
    let config = config.iter().map(String::as_str);
    let options: Vec<&str> = config.chain(options.iter().copied()).collect();
    Agent::spawn(command, scratch, &options)
}

/// Checks that a directory has nothing but complete archives, with metadata, an index and volumes
/// from 0 on, and without errors; returns their base names.
#[track_caller]
fn assert_complete(directory: &Path) -> Vec<PathBuf> {
    let names = names(directory);
    let plain = names.iter().map(|name| name.strip_suffix(".xz").unwrap_or(name));
    let metadata = plain.filter_map(|name| name.strip_suffix(".meta"));
    let mut bases: Vec<PathBuf> = metadata.map(|name| directory.join(name)).collect();
    bases.sort();
    let mut members = 0;
    for base in &bases {
        let stem = base.file_name().and_then(|name| name.to_str()).expect("UTF-8");
        let is_member = |name: &&String| name.strip_prefix(stem).is_some_and(is_suffix);
        members += names.iter().filter(is_member).count();
        let report = check(base).expect("an archive that can be read");
        let error = report.findings().iter().find(|one| one.defect.severity() == Severity::Error);
        assert!(error.is_none(), "{}: {error:?}", base.display());
        let has = |suffix: &str| names.contains(&format!("{stem}.{suffix}"));
        assert!(has("index") && (has("0") || has("0.xz")), "{names:?}");
    }
    assert_eq!(members, names.len(), "{names:?}");
    assert_readable(directory);
    bases
}

/// Returns whether a name ends like a member after the base name: `.meta`, `.0.xz`.
fn is_suffix(suffix: &str) -> bool {
    let part = suffix.strip_prefix('.').unwrap_or_default();
    let part = part.strip_suffix(".xz").unwrap_or(part);
    ["meta", "index"].contains(&part) || part.parse::<u32>().is_ok()
}

#[test]
fn killed_while_creating_archive_directory_stays_readable() {
    if shim::library().is_none() {
        return;
    }
    let scratch = with_archives(1);
    let host = Agent::host_directory(&scratch);
    // The prologue fills a volume, so each sample begins another one.
    let config = configured(&scratch, "[rotation]\nvolume-size = \"1000B\"\n");
    let options = ["--interval", "5ms", "--samples", "2"];
    // Each run also cleans up after the one before it.
    let steps = each_step(|step| {
        let agent = agent_killed_before("writer", step);
        let status = run(agent, &scratch, &config, &options).gone();
        assert_readable_after_kill(&host);
        status
    });
    assert!(steps >= 20, "only {steps} steps");
    let agent = Command::new(binaries::mmv_agent());
    assert!(run(agent, &scratch, &config, &options).gone().success());
    assert!(assert_complete(&host).len() > 5);
}

#[test]
fn killed_while_creating_archive_fails_directory_stays_readable() {
    if shim::library().is_none() {
        return;
    }
    let scratch = with_archives(1);
    let host = Agent::host_directory(&scratch);
    let options = ["--interval", "5ms", "--samples", "2"];
    let mut log = String::new();
    let steps = each_step(|step| {
        // There is room for the labels and the log, and not for the metadata.
        let mut command = Command::new("prlimit");
        command.arg("--fsize=1400:").arg(binaries::mmv_agent()).env("SHIM_FULL", "1");
        shim::kill_before(&mut command, "writer", step);
        let mut agent = Agent::spawn(command, &scratch, &options);
        let status = agent.gone();
        assert_readable_after_kill(&host);
        log = agent.log();
        status
    });
    assert!(steps >= 20, "only {steps} steps");
    // An archive that was never there needs no completion.
    assert!(log.contains("stopped records=0") && !log.contains("completed"), "{log}");
    assert!(Agent::start_with(&scratch, &options).gone().success());
    assert_eq!(assert_complete(&host).len(), 2);
}

/// Kills an agent before each step of a thread until `is_done` with the host's directory, each
/// time in a copy of `archives`, and starts another one. Returns the number of steps, and the
/// archives at the end.
#[track_caller]
fn killed_until(
    archives: &Scratch,
    config: &str,
    thread: &str,
    is_done: impl Fn(&Path) -> bool,
) -> (u64, Vec<PathBuf>) {
    let mut complete = Vec::new();
    let steps = each_step(|step| {
        let scratch = Scratch::with_archives_of(archives);
        let host = Agent::host_directory(&scratch);
        let config = configured(&scratch, config);
        let options = ["--interval", "1s"];
        let mut killed = run(agent_killed_before(thread, step), &scratch, &config, &options);
        let status = killed.terminate_after("the work", || is_done(&host));
        assert_readable_after_kill(&host);
        let command = Command::new(binaries::mmv_agent());
        let mut next = run(command, &scratch, &config, &options);
        assert!(next.terminate_after("the work", || is_done(&host)).success(), "{}", next.log());
        complete = assert_complete(&host);
        status
    });
    (steps, complete)
}

#[test]
fn killed_while_deleting_archive_directory_stays_readable() {
    if shim::library().is_none() {
        return;
    }
    let archives = with_archives(3);
    let host = Agent::host_directory(&archives);
    let all = assert_complete(&host);
    let sizes = names(&host).into_iter().map(|name| fs::metadata(host.join(name)));
    let bytes: u64 = sizes.map(|found| found.expect("a member").len()).sum();
    let config = format!("[retention]\nsize = \"{}\"\n", bytes - 1);
    let oldest = all[0].file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
    let is_oldest =
        |name: &String| name.strip_prefix(&oldest).is_some_and(|end| end.starts_with('.'));
    let is_deleted = |host: &Path| !names(host).iter().any(is_oldest);
    let (steps, left) = killed_until(&archives, &config, "housekeeper", is_deleted);
    // Renamed, and three files removed.
    assert!(steps >= 4, "only {steps} steps");
    let left: Vec<_> = left.iter().map(|base| base.file_name()).collect();
    assert_eq!(left, [all[1].file_name(), all[2].file_name()]);
}

#[test]
fn killed_while_compressing_archive_directory_stays_readable() {
    if shim::library().is_none() {
        return;
    }
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let many = Registry::builder("many").directory(scratch.mmv_dir()).build().expect("a file");
    for number in 0..1_200 {
        let metric = many.counter(format!("m{number}"));
        let _counter = metric.help("x".repeat(240)).build().expect("a metric");
    }
    let mut agent = Agent::start_with(&scratch, &["--interval", "5ms"]);
    wait::until_true("first records", || agent.data_bytes() > 1_000);
    let metadata = member(&agent.archive(), "meta");
    wait::until_true("much metadata", || {
        fs::metadata(&metadata).is_ok_and(|found| found.len() >= 256 << 10)
    });
    assert!(agent.terminate().success(), "{}", agent.log());
    let config = "[compression]\nmethod = \"xz\"\nafter = \"1ms\"\n";
    let is_compressed = |host: &Path| {
        let names = names(host);
        ["index", "meta.xz", "0.xz"].iter().all(|end| names.iter().any(|name| name.ends_with(end)))
            && names.len() == 3
    };
    let (steps, left) = killed_until(&scratch, config, "compressor", is_compressed);
    // Volume and metadata: created, written, renamed, and the plain one removed.
    assert!(steps >= 8, "only {steps} steps");
    assert_eq!(left.len(), 1);
}

#[test]
fn killed_while_reducing_archive_directory_stays_readable() {
    if shim::library().is_none() {
        return;
    }
    let archives = with_archives(3);
    let host = Agent::host_directory(&archives);
    let originals = assert_complete(&host);
    // PCP 6.0.3 reads xz.
    let config = "[compression]\nmethod = \"xz\"\n\
                  [retention]\nage = \"1ms\"\n\
                  [[retention.tier]]\ninterval = \"10ms\"\nage = \"1000d\"\n";
    let stem = originals[0].file_name().and_then(|name| name.to_str()).expect("UTF-8");
    let reduced = format!("{stem}.10ms.meta");
    let is_reduced = |host: &Path| names(host).contains(&reduced);
    let (steps, left) = killed_until(&archives, config, "reducer", is_reduced);
    // Three files created and written, metadata and index again, all moved, the metadata twice.
    assert!(steps >= 20, "only {steps} steps");
    assert_eq!(original_names(&left)[..3], original_names(&originals), "each archive once");
}

/// Returns the names that archives had before they were reduced, in order.
fn original_names(bases: &[PathBuf]) -> Vec<OsString> {
    let bases = bases.iter().map(|base| original_base(base));
    let mut names: Vec<_> =
        bases.map(|base| base.file_name().expect("a name").to_owned()).collect();
    names.sort();
    names
}

/// Runs `mmv-archive`, killed before a step; to its end without one.
fn mmv_archive(arguments: &[&str], step: Option<u64>) -> ExitStatus {
    let mut command = Command::new(binaries::mmv_archive());
    if let Some(step) = step {
        shim::kill_before(&mut command, "mmv-archive", step);
    }
    command.args(arguments).stdout(Stdio::null()).status().expect("run mmv-archive")
}

/// Kills `mmv-archive` before each of its steps, each time in a copy of the second of three
/// archives that was changed by `change`; then runs it to its end. `BASE` among the arguments
/// is the archive, and `COPY` what it was before.
#[track_caller]
fn mmv_archive_killed(change: impl Fn(&Path), arguments: &[&str]) -> u64 {
    let archives = with_archives(3);
    let base = &assert_complete(&Agent::host_directory(&archives))[1];
    let copy = archives.path().join("copy");
    let [from, to] = [base, &copy].map(|path| path.to_str().expect("UTF-8"));
    assert!(mmv_archive(&["extract", from, "-o", to], None).success());
    change(base);
    each_step(|step| {
        let scratch = Scratch::with_archives_of(&archives);
        let host = Agent::host_directory(&scratch);
        let base = host.join(base.file_name().expect("a name"));
        let base = base.to_str().expect("UTF-8");
        let of = |argument: &&str| match *argument {
            "BASE" => base.to_owned(),
            "COPY" => to.to_owned(),
            argument => argument.to_owned(),
        };
        let arguments: Vec<String> = arguments.iter().map(of).collect();
        let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let status = mmv_archive(&arguments, Some(step));
        assert_readable_after_kill(&host);
        // An archive that is repaired is there at any time.
        assert!(arguments[0] != "repair" || member(Path::new(base), "meta").exists());
        if arguments[0] == "extract" && !arguments.contains(&"--force") {
            arguments.push("--force");
        }
        assert!(mmv_archive(&arguments, None).success());
        assert_eq!(assert_complete(&host).len(), 3);
        status
    })
}

#[test]
fn killed_mmv_archive_leaves_directory_readable() {
    if shim::library().is_none() {
        return;
    }
    let nothing = |_: &Path| {};
    let cut_record = |base: &Path| {
        let volume = File::options().write(true).open(member(base, "0")).expect("a volume");
        volume.set_len(volume.metadata().expect("its size").len() - 5).expect("cut it");
    };
    let remove_index = |base: &Path| fs::remove_file(member(base, "index")).expect("an index");
    let remove = |base: &Path| {
        for suffix in ["meta", "index", "0"] {
            fs::remove_file(member(base, suffix)).expect("a member");
        }
    };
    // Three files written and moved, and the old index removed.
    let steps = mmv_archive_killed(cut_record, &["repair", "BASE", "--in-place"]);
    assert!(steps >= 14, "repair: only {steps} steps");
    let steps = mmv_archive_killed(remove_index, &["repair", "BASE", "--index"]);
    assert!(steps >= 3, "repair --index: only {steps} steps");
    let steps = mmv_archive_killed(remove, &["extract", "COPY", "-o", "BASE"]);
    assert!(steps >= 8, "extract: only {steps} steps");
    let steps = mmv_archive_killed(nothing, &["extract", "COPY", "-o", "BASE", "--force"]);
    assert!(steps >= 12, "extract --force: only {steps} steps");
}
