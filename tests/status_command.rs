//! `mmv-agent status` of a running agent.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::agent::Agent;
use crate::harness::binaries;
use crate::harness::mmv_file::image;
use crate::harness::scratch::Scratch;
use crate::harness::skip::skip;
use crate::harness::wait;

fn run_status(scratch: &Scratch, options: &[&str]) -> Output {
    let mut command = Command::new(binaries::mmv_agent());
    command.arg("status").arg("--archive-dir").arg(scratch.archives()).args(options);
    command.output().expect("run mmv-agent")
}

pub(crate) fn status_json(scratch: &Scratch) -> Option<Value> {
    serde_json::from_slice(&run_status(scratch, &["--json"]).stdout).ok()
}

#[test]
fn status_reports_files_groups_losses_and_the_archive() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3), ("errors", 0)]), "app");
    scratch.install_bytes(b"no MMV file", "junk");
    let config = scratch.path().join("agent.toml");
    let text = "interval = \"50ms\"\n[[group]]\nname = \"rare\"\nmetrics = [\"*.errors\"]\ninterval = \"1h\"\n";
    fs::write(&config, text).expect("write the configuration");
    let options = ["--config", config.to_str().expect("UTF-8")];
    let mut agent = Agent::start_with(&scratch, &options);
    let status = wait::until("records in the status", || {
        let output = run_status(&scratch, &["--json"]);
        let status: Value = serde_json::from_slice(&output.stdout).ok()?;
        (status["archive"]["written"].as_u64()? > 3).then_some(status)
    });
    assert_eq!(status["pid"], agent.id());
    let sources = status["sources"].as_array().expect("files");
    assert_eq!((&sources[0]["file"], &sources[0]["values"]), (&"app".into(), &2.into()));
    assert_eq!(sources[0]["reason"], Value::Null);
    assert_eq!(
        (&sources[0]["state"], &sources[1]["state"]),
        (&"harvested".into(), &"quarantined".into())
    );
    assert!(sources[1]["since"].as_f64().is_some_and(|since| (0.0..60.0).contains(&since)));
    assert_eq!(sources[1]["file"], "junk");
    assert!(sources[1]["reason"].as_str().is_some_and(|reason| !reason.is_empty()));
    let groups = status["groups"].as_array().expect("groups");
    assert_eq!((&groups[0]["name"], &groups[0]["values"]), (&"rare".into(), &1.into()));
    // A record of one singular 64-bit value has 24 bytes of head and trailer, a
    // set of 12, a value of 8 and a block of 12.
    assert_eq!(groups[0]["bytes-a-day"], 24 * 56);
    assert_eq!(groups[1]["bytes-a-day"], 20 * 86_400 * 56);
    let base = agent.archive();
    assert_eq!(status["archive"]["base"], base.to_str().expect("UTF-8"));
    // Both together, all the time: nothing is compressed yet, and 14 days are kept.
    let forecast = &status["forecast"];
    assert_eq!(forecast["bytes-a-day"], 24 * 56 + 20 * 86_400 * 56);
    assert_eq!((&forecast["compressed-to"], &forecast["limit"]), (&Value::Null, &"age".into()));
    assert_eq!(forecast["days"], 14.0);
    assert!(status["values-a-second"].as_f64().is_some_and(|rate| rate > 1.0), "{status}");
    assert!(status["bytes-a-second"].as_f64().is_some_and(|rate| rate > 56.0), "{status}");
    let lateness = ["p50", "p99", "max"].map(|name| status["lateness"][name].as_f64().unwrap());
    assert!(0.0 < lateness[0] && lateness.is_sorted(), "{status}");
    assert_eq!(status["last-error"], Value::Null);
    let line = "MB a day before compression group=rare values=1";
    assert_eq!(agent.log().matches(line).count(), 1, "{}", agent.log());
    let text = run_status(&scratch, &[]);
    assert!(text.status.success());
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for part in
        ["file app: 2 values", "file junk: quarantined for ", "group rare: 1 values each 3600 s"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert!(agent.terminate().success());
    assert_eq!(run_status(&scratch, &[]).status.code(), Some(74), "there is no agent any more");
}

/// Returns the sum of a field of the objects in a list.
fn sum(list: &Value, field: &[&str]) -> u64 {
    let objects = list.as_array().expect("a list").iter();
    let numbers = objects.map(|object| {
        let value = field.iter().fold(object, |value, name| &value[*name]);
        value.as_u64().unwrap_or_else(|| panic!("{field:?} of {object}"))
    });
    numbers.sum()
}

#[test]
fn numbers_of_status_add_up() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3), ("errors", 0)]), "app");
    scratch.install_bytes(&image(9, 2, &[("reads", 3)]), "db");
    let config = scratch.path().join("agent.toml");
    let text = "interval = \"50ms\"\n[[group]]\nname = \"rare\"\nmetrics = [\"*.errors\"]\ninterval = \"1s\"\n";
    fs::write(&config, text).expect("write the configuration");
    let agent = Agent::start_with(&scratch, &["--config", config.to_str().expect("UTF-8")]);
    let status = wait::until("records of all groups", || {
        let status = status_json(&scratch)?;
        let is_sampled = |group: &Value| group["values"].as_u64() > Some(0);
        let is_complete = status["groups"].as_array()?.iter().all(is_sampled);
        (is_complete && status["archive"]["written"].as_u64()? > 25).then_some(status)
    });
    let groups = &status["groups"];
    let known = sum(groups, &["known"]);
    assert_eq!(known, sum(&status["sources"], &["values"]), "values of groups and files: {status}");
    assert_eq!(known, sum(&status["owners"], &["values", "used"]), "and of users: {status}");
    assert_eq!(
        status["forecast"]["bytes-a-day"].as_u64(),
        Some(sum(groups, &["bytes-a-day"])),
        "bytes of groups and of the forecast: {status}"
    );
    let archive = &status["archive"];
    let [written, lost] = ["written", "lost"].map(|name| archive[name].as_u64().expect(name));
    let [records, dropped] = ["records", "dropped"].map(|name| status[name].as_u64().expect(name));
    let done = written + lost + dropped;
    assert!(done <= records && done + 20 > records, "some may wait to be written: {status}");
    drop(agent);
}

#[test]
fn status_reports_why_an_agent_cannot_write() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let agent = Agent::start_on_full_disk(&scratch, 3_000, &["--interval", "50ms"]);
    let Some(agent) = agent else { return };
    wait::until_true("the disk to be full", || agent.log().contains("cannot write"));
    wait::until_true("the exit status of an error", || {
        run_status(&scratch, &[]).status.code() == Some(1)
    });
    let text = String::from_utf8_lossy(&run_status(&scratch, &[]).stdout).into_owned();
    assert!(text.contains("cannot write: "), "{text}");
    agent.lift_limit();
    wait::until_true("an end of it", || run_status(&scratch, &[]).status.success());
    let text = String::from_utf8_lossy(&run_status(&scratch, &[]).stdout).into_owned();
    assert!(text.contains("last error, at 20"), "{text}");
}

#[test]
fn unwritable_state_is_an_error_of_status() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let (config, state) = (scratch.path().join("agent.toml"), scratch.path().join("state"));
    let text = format!("interval = \"50ms\"\nstate-dir = \"{}\"\n", state.display());
    fs::write(&config, text).expect("write the configuration");
    let options = ["--config", config.to_str().expect("UTF-8")];
    let agent = Agent::start_with(&scratch, &options);
    wait::until_true("a status", || run_status(&scratch, &[]).status.success());
    let files = fs::read_dir(&state).expect("the directory of the state");
    let mut files = files.map(|entry| entry.expect("an entry").path());
    let file = files.find(|path| path.extension().is_some_and(|suffix| suffix == "json"));
    let file = file.expect("a state file");
    // Not even root can write to a directory. The agent may be writing the file at this moment.
    let new = file.with_extension("new");
    wait::until_true("a directory in the way", || fs::create_dir(&new).is_ok());
    scratch.install_bytes(&image(10, 1, &[("requests", 3)]), "another");
    wait::until_true("the exit status of an error", || {
        run_status(&scratch, &[]).status.code() == Some(1)
    });
    let text = String::from_utf8_lossy(&run_status(&scratch, &[]).stdout).into_owned();
    let error = format!("error: {}: the state cannot be written: ", file.display());
    assert!(text.lines().any(|line| line.starts_with(&error)), "{text}");
    let of_log = |line: &str| line.contains("error: ") && line.contains("state cannot be written");
    assert_eq!(agent.log().lines().filter(|line| of_log(line)).count(), 1, "{}", agent.log());
    fs::remove_dir(new).expect("clear the way");
    wait::until_true("an end of it", || run_status(&scratch, &[]).status.success());
    assert!(agent.log().contains("the state can be written again"), "{}", agent.log());
}

#[test]
fn status_reports_the_size_of_a_rarely_sampled_group() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let config = scratch.path().join("agent.toml");
    let text = "interval = \"50ms\"\n[hindsight]\ninterval = \"20ms\"\nspan = \"1m\"\n";
    fs::write(&config, text).expect("write the configuration");
    let options = ["--config", config.to_str().expect("UTF-8"), "--own-metrics", "true"];
    let agent = Agent::start_with(&scratch, &options);
    // By then the flight recorder has seen other values of the agent's own metrics, which are
    // logged each minute.
    let status = wait::until("some records", || {
        let status: Value =
            serde_json::from_slice(&run_status(&scratch, &["--json"]).stdout).ok()?;
        (status["archive"]["written"].as_u64()? > 10).then_some(status)
    });
    let groups = status["groups"].as_array().expect("groups");
    assert_eq!(groups[1]["name"], "mmv-agent");
    assert!(groups[1]["values"].as_u64() > Some(10), "{groups:?}");
    assert!(groups[1]["bytes-a-day"].as_u64() > Some(400_000), "{groups:?}");
    // All of them are little.
    let own = groups[..2].iter().filter_map(|group| group["bytes-a-day"].as_u64());
    assert!(own.sum::<u64>() < 1_500_000, "{groups:?}");
    drop(agent);
}

#[test]
fn without_an_answer_status_says_whether_an_agent_is_there() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let stderr = |output: &Output| {
        assert_eq!(output.status.code(), Some(74), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let nobody = stderr(&run_status(&scratch, &[]));
    assert!(nobody.contains("no agent answers: No such file"), "{nobody}");
    let agent = Agent::start(&scratch);
    wait::until_true("the agent", || run_status(&scratch, &[]).status.success());
    agent.signal(Signal::SIGSTOP);
    let late = stderr(&run_status(&scratch, &[]));
    agent.signal(Signal::SIGCONT);
    assert!(late.contains("there is an agent, but it did not answer within 6 seconds"), "{late}");
    assert!(!late.contains("mmv-agent run"), "{late}");
}

#[test]
fn agent_with_a_runtime_directory_is_found() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let runtime = scratch.path().join("runtime");
    std::fs::create_dir(&runtime).expect("a directory");
    let mut command = Command::new(binaries::mmv_agent());
    command.env("RUNTIME_DIRECTORY", &runtime);
    let agent = Agent::spawn(command, &scratch, &["--interval", "50ms"]);
    wait::until_true("the socket", || runtime.join("status.sock").exists());
    let output = run_status(&scratch, &[]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = format!("process {} writes there; its socket is elsewhere", agent.id());
    assert!(output.status.code() == Some(74) && text.contains(&expected), "{text}");
    // Where this user's agent has its socket, an agent is found by what it writes.
    wait::until_true("an archive", || !agent.archives().is_empty());
    let host = Agent::host_directory(&scratch).file_name().expect("a name").to_owned();
    let state = scratch.path().join("state");
    let directory = state.join("mmv-agent/archives").join(host);
    std::fs::create_dir_all(&directory).expect("a directory");
    let socket = directory.join(".mmv-agent.sock");
    std::os::unix::fs::symlink(runtime.join("status.sock"), socket).expect("a link");
    let mut command = Command::new(binaries::mmv_agent());
    command.env("XDG_STATE_HOME", &state).arg("status");
    let output = command.arg("--archive-dir").arg(scratch.archives()).output();
    let output = output.expect("run mmv-agent");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn directory_that_users_can_fill_is_a_warning() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let shared = Permissions::from_mode(0o1777);
    std::fs::set_permissions(scratch.mmv_dir(), shared).expect("its mode");
    let config = scratch.path().join("agent.toml");
    let text = format!("mmv-dir = {:?}\n", scratch.mmv_dir());
    fs::write(&config, text).expect("write the configuration");
    let output = Command::new(binaries::mmv_agent()).arg("check-config").arg(&config).output();
    let output = output.expect("run check-config");
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    if !printed.contains("can fill its file system") {
        skip("the file system of temporary files has quotas");
        return;
    }
    assert!(output.status.success(), "a warning is no error");
    let mut agent = Agent::start_with(&scratch, &["--interval", "50ms"]);
    let status = wait::until("the status", || status_json(&scratch));
    let warning = status["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("can fill its file system"), "{warning}");
    assert!(agent.terminate().success(), "{}", agent.log());
}
