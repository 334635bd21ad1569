//! One archive after another: switches, restarts of the agent, and what joins them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mmv_writer::pcp::{IndomMetricExt as _, RegistryBuilderExt as _, RegistryExt as _};
use mmv_writer::{Label, Registry};
use nix::sys::signal::Signal;

use crate::compliance;
use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::binaries;
use crate::harness::mmv_archive::run_on;
use crate::harness::mmv_file::image;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;
use crate::harness::wait;
use crate::status_command::status_json;

fn samples(base: &Path) -> usize {
    archive_facts::so_far(base)
        .map_or(0, |facts| facts.records.iter().filter(|record| record.has_samples()).count())
}

/// Waits until the agent's newest archive, its `count`th, has samples.
#[track_caller]
fn wait_for_archive(agent: &Agent, count: usize) {
    wait::until_true("samples in a new archive", || {
        let bases = agent.archives();
        bases.len() == count && samples(&bases[count - 1]) >= 3
    });
}

/// Writes archives of two runs of an agent, the first of which makes two; `between` is done while
/// none runs.
fn three_archives(scratch: &Scratch, between: impl FnOnce()) -> Vec<PathBuf> {
    let mut agent = Agent::start(scratch);
    wait_for_archive(&agent, 1);
    agent.signal(Signal::SIGUSR2);
    wait_for_archive(&agent, 2);
    assert!(agent.terminate().success(), "{}", agent.log());
    between();
    let mut agent = Agent::start(scratch);
    wait_for_archive(&agent, 3);
    assert!(agent.terminate().success(), "{}", agent.log());
    agent.archives()
}

fn extract(oracle: &Oracle, scratch: &Scratch, bases: &[PathBuf]) -> (Output, PathBuf) {
    let merged = scratch.path().join("merged");
    let paths = bases.iter().chain([&merged]).map(|path| path.to_str().expect("UTF-8"));
    (oracle.output("pmlogextract", &paths.collect::<Vec<_>>()), merged)
}

fn marks(base: &Path) -> usize {
    archive_facts::of_mmv_archive(base).records.iter().filter(|record| record.mark).count()
}

#[test]
fn pmlogextract_merges_archives_of_several_runs_without_a_mark() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let bases = three_archives(&scratch, || ());
    for base in &bases {
        compliance::check(&oracle, base);
    }
    let (output, merged) = extract(&oracle, &scratch, &bases);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(marks(&merged), 0);
    let of_each: usize = bases.iter().map(|base| samples(base)).sum();
    assert_eq!(samples(&merged), of_each);
}

#[test]
fn pmlogextract_marks_a_restart_while_no_agent_ran() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    let install = |generation| {
        scratch.install_bytes(&image(9, generation, &[("requests", 3)]), "app");
    };
    install(1);
    let bases = three_archives(&scratch, || install(2));
    let (output, merged) = extract(&oracle, &scratch, &bases);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(marks(&merged), 1);
}

#[test]
fn pmlogextract_merges_archives_of_a_rebuilt_program() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    scratch.install_bytes(&image(0, 1, &[("requests", 3), ("errors", 1)]), "app");
    let bases = three_archives(&scratch, || {
        // Other numbers for the same names.
        let rebuilt = image(0, 2, &[("retries", 2), ("errors", 1), ("requests", 3)]);
        scratch.install_bytes(&rebuilt, "app");
    });
    let (output, merged) = extract(&oracle, &scratch, &bases);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let facts = archive_facts::of_mmv_archive(&merged);
    let pmid = |name: &str| {
        let known = facts.metrics.iter().find(|(_, metric)| metric.names.iter().any(|n| n == name));
        known.expect(name).0.clone()
    };
    let names = ["mmv.app.requests", "mmv.app.errors", "mmv.app.retries"];
    assert_eq!(names.map(pmid), ["70.1.1", "70.1.2", "70.1.3"]);
    compliance::check(&oracle, &merged);
}

#[test]
fn new_host_labels_begin_an_archive_and_program_labels_do_not() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let config = scratch.path().join("agent.toml");
    let configure = |site| {
        let text = format!("interval = \"20ms\"\n[labels]\nsite = \"{site}\"\n");
        std::fs::write(&config, text).expect("write the configuration");
    };
    configure("north");
    let mut agent = Agent::start_with(&scratch, &["--config", config.to_str().expect("UTF-8")]);
    wait_for_archive(&agent, 1);
    let application = Registry::builder("web").directory(scratch.mmv_dir()).cluster(77);
    let application = application.build().expect("a registry");
    application.label(Label::new("team", "blue")).expect("a label");
    application.announce();
    configure("south");
    agent.signal(Signal::SIGHUP);
    wait_for_archive(&agent, 2);
    application.label(Label::new("shift", "late")).expect("a label");
    application.announce();
    wait::until_true("the labels of the program", || {
        let newest = agent.archives().pop().expect("an archive");
        let output = run_on(&newest, &["dump", "-e"]);
        String::from_utf8_lossy(&output.stdout).contains("late")
    });
    assert!(agent.terminate().success(), "{}", agent.log());
    let bases = agent.archives();
    let labels =
        bases.iter().map(|base| format!("{:?}", archive_facts::of_mmv_archive(base).labels));
    let labels: Vec<_> = labels.collect();
    assert_eq!(labels.len(), 2, "{labels:?}");
    for (labels, site, other) in [(&labels[0], "north", "south"), (&labels[1], "south", "north")] {
        assert!(labels.contains(site) && !labels.contains(other), "{labels}");
    }
    assert!(labels[1].contains("late"), "{}", labels[1]);
}

#[test]
fn unwritable_state_file_is_reported() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    // A file where the directory should be: that stops root, too.
    let file = scratch.path().join("file");
    std::fs::write(&file, "").expect("make a file");
    let config = scratch.path().join("agent.toml");
    let text = format!("interval = \"20ms\"\nstate-dir = \"{}\"\n", file.display());
    std::fs::write(&config, text).expect("write the configuration");
    let options = ["--config", config.to_str().expect("UTF-8"), "--samples", "4"];
    let mut agent = Agent::start_with(&scratch, &options);
    agent.ended();
    assert!(agent.log().contains("the state cannot be written"), "{}", agent.log());
    assert_eq!(samples(&agent.archive()), 4);
}

#[test]
fn second_agent_in_a_directory_fails_and_names_the_first() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let first = Agent::start(&scratch);
    wait_for_archive(&first, 1);
    let mut command = Command::new(binaries::mmv_agent());
    command.arg("run").arg("--mmv-dir").arg(scratch.mmv_dir());
    let second = command.arg("--archive-dir").arg(scratch.archives()).output().expect("run it");
    let stderr = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(75), "{stderr}");
    assert!(stderr.contains(&format!("process {}", first.id())), "{stderr}");
}

#[test]
fn records_that_the_status_counts_as_written_survive_a_kill() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    let config = scratch.path().join("agent.toml");
    let text = "interval = \"5ms\"\nsync = \"always\"\n";
    std::fs::write(&config, text).expect("write the configuration");
    for life in 1..=5 {
        let options = ["--config", config.to_str().expect("UTF-8")];
        let mut agent = Agent::start_with(&scratch, &options);
        wait_for_archive(&agent, life);
        let written = wait::until("records in the status", || {
            let written = status_json(&scratch)?["archive"]["written"].as_u64()?;
            (written >= 3).then_some(written)
        });
        agent.signal(Signal::SIGKILL);
        agent.gone();
        let base = agent.archives().pop().expect("an archive");
        let there = archive_facts::so_far(&base).expect("a readable archive").records.len() as u64;
        assert!(there >= written, "{there} records of {written}");
    }
}

#[test]
fn archives_of_a_killed_agent_are_repaired_by_the_next() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(9, 1, &[("requests", 3)]), "app");
    for life in 1..=3 {
        let mut agent = Agent::start_with(&scratch, &["--interval", "5ms"]);
        wait_for_archive(&agent, life);
        agent.signal(Signal::SIGKILL);
        agent.gone();
    }
    let mut agent = Agent::start(&scratch);
    wait_for_archive(&agent, 4);
    assert!(agent.terminate().success(), "{}", agent.log());
    let oracle = Oracle::find();
    for base in agent.archives() {
        let facts = archive_facts::of_mmv_archive(&base);
        let last = facts.records.last().expect("records").timestamp;
        assert_eq!(facts.label.end, last, "the end that the index knows");
        if let Some(oracle) = &oracle {
            compliance::check(oracle, &base);
        }
    }
}

#[test]
fn volumes_are_compressed_and_deleted_while_harvesting() {
    let scratch = Scratch::new();
    let counters = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, 7));
    scratch.install_bytes(&image(9, 1, &counters), "app");
    let config = scratch.path().join("agent.toml");
    let text = "interval = \"2ms\"\n[rotation]\nvolume-size = \"4kB\"\n\
                [retention]\nsize = \"60kB\"\n[compression]\nafter = \"1ms\"\n";
    std::fs::write(&config, text).expect("write the configuration");
    let options = ["--config", config.to_str().expect("UTF-8")];
    let mut agent = Agent::start_with(&scratch, &options);
    let is_compressed = |path: &Path| path.extension().is_some_and(|suffix| suffix == "zst");
    let files = |directory: &Path| std::fs::read_dir(directory).into_iter().flatten().flatten();
    // Compression has the lowest priority: what is to be compressed may be deleted
    // first.
    wait::for_idle_work("a compressed volume and a deleted archive", || {
        let newest = agent.archives().pop();
        let directory = newest.as_deref().and_then(Path::parent);
        let compressed = directory
            .is_some_and(|directory| files(directory).any(|entry| is_compressed(&entry.path())));
        (compressed && agent.log().contains("deleted")).then_some(())
    });
    assert!(agent.terminate().success(), "{}", agent.log());
    let bases = agent.archives();
    for base in &bases {
        assert!(samples(base) > 0, "{}", base.display());
    }
    let directory = bases[0].parent().expect("a directory");
    let bytes =
        files(directory).map(|entry| entry.metadata().map_or(0, |file| file.len())).sum::<u64>();
    // Files written since the last deletion may exceed the limit.
    assert!(bytes < 500_000, "{bytes} bytes");
}

/// A volume takes longer to be compressed than to be written here.
#[test]
fn the_size_that_is_kept_holds_while_volumes_are_compressed() {
    const LIMIT: u64 = 6_000_000;
    const VOLUME: u64 = 500_000;
    let scratch = Scratch::new();
    let registry = Registry::builder("app").sealed().directory(scratch.mmv_dir()).build();
    let registry = registry.expect("a registry");
    let many = registry.indom("many").names((0..600).map(|number| format!("n{number}")));
    let many = many.build().expect("a domain");
    let counters = registry.counter("count").build_instances(&many).expect("counters");
    let _published = registry.publish().expect("a file");
    let config = scratch.path().join("agent.toml");
    let text = format!(
        "interval = \"4ms\"\n[rotation]\nvolume-size = \"{VOLUME}\"\n\
         [retention]\nsize = \"{LIMIT}\"\n[compression]\nmethod = \"xz\"\nafter = \"1ms\"\n"
    );
    std::fs::write(&config, text).expect("write the configuration");
    let options = ["--config", config.to_str().expect("UTF-8")];
    let mut agent = Agent::start_with(&scratch, &options);
    wait::until_true("its first record", || agent.log().contains("writing"));
    let directory = agent.archives()[0].parent().expect("a directory").to_owned();
    let files = || std::fs::read_dir(&directory).into_iter().flatten().flatten();
    let size = || files().map(|entry| entry.metadata().map_or(0, |file| file.len())).sum::<u64>();
    let (mut most, mut number) = (0, 0_u64);
    let is_done = |agent: &Agent| agent.log().matches("deleted").count() >= 4;
    wait::until_true("deleted archives", || {
        for counter in &counters {
            // Noise, which takes long to compress.
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            counter.add(number >> 40);
        }
        most = most.max(size());
        is_done(&agent)
    });
    assert!(agent.terminate().success(), "{}", agent.log());
    println!("{most} bytes at most");
    // An archive, a quarter of the limit at most, is deleted when its compression has ended.
    assert!(most <= LIMIT + LIMIT / 4 + VOLUME, "{most} bytes; {}", agent.log());
}
