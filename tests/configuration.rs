//! The configuration file, as the agent's commands read it.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::compliance;
use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::binaries;
use crate::harness::facts::Facts;
use crate::harness::mmv_file::{grow, image};
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;
use crate::harness::wait;

/// Exit status `EX_CONFIG`.
const WRONG: i32 = 78;

fn config(scratch: &Scratch, text: &str) -> PathBuf {
    let file = scratch.path().join("agent.toml");
    fs::write(&file, text).expect("write the configuration");
    file
}

fn mmv_agent(arguments: &[&str], file: &Path) -> Output {
    let mut command = Command::new(binaries::mmv_agent());
    command.args(arguments).arg(file).output().expect("run mmv-agent")
}

#[test]
fn wrong_file_is_refused_alike_by_run_and_check_config() {
    let scratch = Scratch::new();
    let file = config(&scratch, "interval = \"1s\"\n[limits]\nqueu = \"1MB\"\n");
    for arguments in [&["check-config"][..], &["run", "--config"]] {
        let output = mmv_agent(arguments, &file);
        assert_eq!(output.status.code(), Some(WRONG), "{arguments:?}");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!("{}:3:1: limits.queu: unknown field", file.display());
        assert!(stderr.contains(&expected), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_file_that_is_not_there_is_refused_and_a_good_one_is_not() {
    let scratch = Scratch::new();
    let missing = mmv_agent(&["check-config"], &scratch.path().join("none.toml"));
    assert_eq!(missing.status.code(), Some(WRONG));
    assert!(missing.stdout.is_empty(), "{missing:?}");
    let text = "interval = \"2s\"\nmmv-dir = \"/m\"\narchive-dir = \"/a\"\n\
                [[group]]\nname = \"slow\"\nmetrics = [\"mmv.b\"]\ninterval = \"1m\"\n";
    let file = config(&scratch, text);
    let good = mmv_agent(&["check-config"], &file);
    assert!(good.status.success(), "{good:?}");
    let groups = "slow each 60s, mmv-agent rarely each 600s, mmv-agent each 60s, default each 2s";
    let stdout = String::from_utf8_lossy(&good.stdout);
    let (settings, retention) = stdout.split_once("; samples kept for ").expect("retention");
    let expected =
        format!("{}: valid: MMV files in /m, archives in /a; groups: {groups}", file.display());
    assert_eq!(settings, expected);
    let tiers =
        "14d, then a value each 1m up to 90d, then a value each 1h up to 730d; for 1000 values";
    assert!(retention.starts_with(tiers) && retention.contains(" of 10.0 GB: "), "{retention}");
}

#[test]
fn improbable_settings_are_warnings() {
    let scratch = Scratch::new();
    let (mmv, archives) = (scratch.path().join("mvm"), scratch.path().join("archive"));
    let text = format!(
        "mmv-dir = {mmv:?}\narchive-dir = {archives:?}\n[[group]]\nname = \"all\"\nmetrics = \
         [\"mmv.*\"]\n[[group]]\nname = \"slow\"\nmetrics = [\"mmv.batch\"]\n"
    );
    let file = config(&scratch, &text);
    let expected = [
        format!("mmv-dir: {}: No such file or directory", mmv.display()),
        format!("archive-dir: {}: No such file or directory", archives.display()),
        "group \"slow\" never logs anything: \"all\" above it".to_owned(),
    ];
    let checked = mmv_agent(&["check-config"], &file);
    assert!(checked.status.success(), "{checked:?}");
    let run = mmv_agent(&["run", "--samples", "1", "--interval", "10ms", "--config"], &file);
    assert!(run.status.success(), "{run:?}");
    for output in [checked, run] {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        for line in &expected {
            let warns = |found: &str| found.contains("warning: ") && found.contains(line.as_str());
            assert_eq!(stderr.lines().filter(|found| warns(found)).count(), 1, "{line}: {stderr}");
        }
        assert!(
            !stderr.contains("cannot publish the agent's own metrics")
                || stderr.contains("mvm: create a file in this directory"),
            "{stderr}"
        );
    }
    fs::create_dir_all(&mmv).expect("a directory");
    let text = text.replace("mmv.*", "mmv.batch.*");
    let good = mmv_agent(&["check-config"], &config(&scratch, &text));
    assert!(good.status.success() && good.stderr.is_empty(), "{good:?}");
}

#[test]
fn archives_of_version_2_are_written_when_asked_for() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let path = scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let file = config(&scratch, "interval = \"20ms\"\narchive-version = 2\nevents = true\n");
    let options = ["--config", file.to_str().expect("UTF-8")];
    let mut agent = Agent::start_with(&scratch, &options);
    let samples = |base: &Path| {
        archive_facts::so_far(base)
            .map_or(0, |facts| facts.records.iter().filter(|record| record.has_samples()).count())
    };
    agent.wait_for("some samples", |base| samples(base) > 3);
    // Instances and metrics that come later are logged as whole domains.
    grow(&path, &image(9, 2, &[("requests", 4), ("errors", 1)]));
    agent.wait_for("more samples", |base| samples(base) > 10);
    assert!(agent.terminate().success(), "{}", agent.log());
    let base = agent.archive();
    compliance::check(&oracle, &base);
    let label = oracle.run("pmdumplog", &["-l", base.to_str().expect("UTF-8")]);
    assert!(label.contains("(Log Format Version 2)"), "{label}");
    let facts = archive_facts::of_mmv_archive(&base);
    assert!(facts.metrics.values().any(|metric| metric.names.contains("mmv.app.errors")));
}

#[test]
fn labels_and_interval_of_the_file_are_those_of_the_archive() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let file = config(&scratch, "interval = \"20ms\"\n[labels]\nsite = \"north\"\n");
    let options = ["--config", file.to_str().expect("a UTF-8 path"), "--samples", "5"];
    let mut agent = Agent::start_with(&scratch, &options);
    agent.ended();
    let facts = archive_facts::of_mmv_archive(&agent.archive());
    let labels = format!("{:?}", facts.labels);
    assert!(labels.contains("site") && labels.contains("north"), "{labels}");
}

#[test]
fn sighup_rereads_the_file_and_a_wrong_one_changes_nothing() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    scratch.install_bytes(&image(10, 1, &[("steady", 8)]), "other");
    let text = |app: &str| {
        format!("interval = \"1h\"\n[[group]]\nmetrics = [\"mmv.{app}\"]\ninterval = \"20ms\"\n")
    };
    let file = config(&scratch, &text("app"));
    let options = ["--config", file.to_str().expect("a UTF-8 path")];
    let mut agent = Agent::start_with(&scratch, &options);
    let grows = |agent: &Agent| {
        let before = agent.volume_bytes();
        wait::until_true("more records", || agent.volume_bytes() > before + 1000);
    };
    grows(&agent);

    config(&scratch, "interval = 7\n");
    agent.signal(Signal::SIGHUP);
    wait::until_true("the error in the log", || agent.log().contains("configuration unchanged"));
    assert!(
        agent.log().contains(&format!("{}:1:12: interval: ", file.display())),
        "{}",
        agent.log()
    );
    grows(&agent);

    config(&scratch, &text("other"));
    agent.signal(Signal::SIGHUP);
    wait::until_true("the new file to be taken", || agent.log().contains("configuration reloaded"));
    grows(&agent);
    // Both are in the first and in the last sample of all; of the others the
    // file at first was in the group's, and later the other one. On a busy machine
    // what grows may have been taken before.
    let samples = |facts: &Facts, name: &str| {
        let (pmid, _) =
            facts.metrics.iter().find(|(_, metric)| metric.names.contains(name)).expect(name);
        facts.records.iter().filter(|record| record.value(pmid, None).is_some()).count()
    };
    agent.wait_for("samples of the other group", |base| {
        let facts = archive_facts::so_far(base);
        facts.is_some_and(|facts| samples(&facts, "mmv.other.steady") > 5)
    });
    assert!(agent.terminate().success(), "{}", agent.log());
    let facts = archive_facts::of_mmv_archive(&agent.archive());
    assert!(samples(&facts, "mmv.app.requests") > 5);
    assert!(!facts.records.iter().any(|record| record.mark), "a mark");
}

/// Has an agent read its configuration again, the `times`-th time.
#[track_caller]
fn reload(agent: &Agent, times: usize) {
    agent.signal(Signal::SIGHUP);
    wait::until_true("the new file to be taken", || {
        agent.log().matches("configuration reloaded").count() == times
    });
}

#[test]
fn on_sighup_events_go_on_as_they_began() {
    for [before, later] in [[true, false], [false, true]] {
        let scratch = Scratch::new();
        scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
        let text =
            |events| format!("interval = \"20ms\"\nown-metrics = false\nevents = {events}\n");
        let file = config(&scratch, &text(before));
        let agent = Agent::start_configured_on_disk_to_fill(&scratch, &file);
        let Some(mut agent) = agent else { return };
        agent.wait_for("a sample", |base| archive_facts::so_far(base).is_some());
        config(&scratch, &text(later));
        reload(&agent, 1);
        let line = "changed; takes effect at the next start key=\"events\"";
        assert!(agent.log().contains(line), "{}", agent.log());
        // The sampler has the events about files, and the writer that of a loss.
        agent.limit_files(agent.data_bytes());
        wait::until_true("the disk to be full", || agent.log().contains("cannot write"));
        scratch.install_bytes(&image(10, 1, &[("steady", 8)]), "late");
        wait::until_true("the file to be seen", || agent.log().contains("file=late"));
        agent.lift_limit();
        wait::until_true("writing to go on", || agent.log().contains("writing the archive again"));
        assert!(agent.terminate().success(), "{}", agent.log());
        let facts = archive_facts::of_mmv_archive(&agent.archive());
        let known = |name: &str| facts.metrics.values().any(|metric| metric.names.contains(name));
        assert!(known("mmv.late.steady"));
        assert_eq!(known("mmv.agent.events"), before);
        let mut types = crate::self_monitoring::types(&agent.archive());
        // The loss ends before or after the sampler hears of the file.
        types.sort_unstable();
        let expected = ["appeared app", "appeared late", "lost", "started", "stopped"];
        assert_eq!(types, if before { &expected[..] } else { &[] });
    }
}

#[test]
fn sighup_changes_the_interval_of_own_metrics_alone() {
    for [before, later] in [[true, false], [false, true]] {
        let scratch = Scratch::new();
        let text = |interval, own| format!("interval = \"{interval}\"\nown-metrics = {own}\n");
        let file = config(&scratch, &text("7s", before));
        let agent = Agent::start_configured(&scratch, &file);
        let groups = || {
            let status = crate::status_command::status_json(&scratch)?;
            let groups = status["groups"].as_array()?.iter();
            let groups = groups
                .map(|group| format!("{} {}", group["name"].as_str().unwrap(), group["interval"]));
            Some(groups.collect::<Vec<_>>())
        };
        let expected = |[rarely, own]: [&str; 2], default: &str| {
            let own = [format!("mmv-agent rarely {rarely}"), format!("mmv-agent {own}")];
            let own = own.into_iter().filter(|_| before);
            own.chain([format!("default {default}")]).collect::<Vec<_>>()
        };
        // Each minute at most, with samples that are taken anyway.
        let wait_for_groups = |own, default| {
            // An answer may be a little old.
            wait::until_true("these groups", || groups() == Some(expected(own, default)));
        };
        wait_for_groups(["602.0", "63.0"], "7.0");
        config(&scratch, &text("4s", before));
        reload(&agent, 1);
        wait_for_groups(["600.0", "60.0"], "4.0");
        let line = "key=\"own-metrics\"";
        assert!(!agent.log().contains(line), "{}", agent.log());
        // Twice: the log compares with how the agent runs, not with what was read before.
        for times in 2..=3 {
            config(&scratch, &text("1s", later));
            reload(&agent, times);
            wait_for_groups(["600.0", "60.0"], "1.0");
            assert_eq!(agent.log().matches(line).count(), times - 1, "{}", agent.log());
        }
        assert_eq!(scratch.mmv_dir().join("agent").exists(), before);
    }
}

#[test]
fn files_of_pmlogger_are_accepted_and_refused_as_by_pmlogger() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let file = scratch.path().join("pmlogger.config");
    for text in [
        "",
        "# nothing\n",
        "log mandatory on every 10 seconds { mmv.a, mmv.b[ \"x y\" ] }\n",
        "log advisory on once mmv.a",
        "on default mmv.a",
        "mandatory on 5 msec { mmv.a mmv.b[x,3], mmv.c } # more\n",
        "log mandatory maybe mmv.a\nlog on once { on every }",
        "log mandatory off { mmv.a }\n[access]\ndisallow * : all;\nallow localhost : enquire;\n",
        "log on 74 hours mmv.a",
        "log on 0 min mmv.a",
        "log on default mmv.a\n[access]\ndisallow * : all;\n",
        "log on 75 hours mmv.a",
        "log mandatory on every ten seconds { mmv.a }",
        "log advisory maybe mmv.a",
        "log on default on",
        "log on default { }",
        "log on default { mmv.my-app }",
        "log on default { mmv.a [ \"\" ] }",
        "log on default { mmv.a [ ] }",
        "log on default { mmv.a",
        "log mandatory { mmv.a }",
        "log on every 5 { mmv.a }",
        "log off on { mmv.a }",
        "mmv.a",
        "log on default { mmv.a } }",
    ] {
        // pmlogger's preprocessor drops a last line that does not end.
        fs::write(&file, format!("{text}\n")).expect("write it");
        let theirs = oracle.output("pmlogger", &["-C", "-o", "-c", file.to_str().expect("UTF-8")]);
        let ours = mmv_agent(&["check-config", "--pmlogger-config"], &file);
        assert_eq!(
            ours.status.success(),
            theirs.status.success(),
            "{text}\npmlogger: {}\nmmv-agent: {}",
            String::from_utf8_lossy(&theirs.stderr),
            String::from_utf8_lossy(&ours.stderr)
        );
    }
}

#[test]
fn systemd_hears_of_start_reload_watchdog_and_end() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let socket = scratch.path().join("notify");
    let heard = UnixDatagram::bind(&socket).expect("a socket");
    heard.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    let file = config(&scratch, "interval = \"1h\"\n");
    let options = ["--config", file.to_str().expect("UTF-8")];
    let mut agent = Agent::start_notifying(&scratch, &options, &socket, 100_000);
    // Waits for a line and returns what came before it.
    let wait_for = |line: &str| {
        let mut before = Vec::new();
        loop {
            let mut buffer = [0; 256];
            let len = match heard.recv(&mut buffer) {
                Ok(len) => len,
                // A signal that another test of this process handles.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => panic!("no {line} after {before:?}: {error}"),
            };
            let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
            let found = text.lines().next() == Some(line);
            before.push(text);
            if found {
                return before;
            }
        }
    };
    wait_for("READY=1");
    // With an hour between samples only this wakes it.
    wait_for("WATCHDOG=1");
    wait_for("WATCHDOG=1");
    agent.signal(Signal::SIGHUP);
    let reloading = wait_for("RELOADING=1").pop().expect("this line");
    assert!(reloading.contains("\nMONOTONIC_USEC="), "{reloading}");
    wait_for("READY=1");
    config(&scratch, "interval = 7\n");
    agent.signal(Signal::SIGHUP);
    wait_for("RELOADING=1");
    wait_for("READY=1");
    assert!(agent.terminate().success(), "{}", agent.log());
    wait_for("STOPPING=1");
}
