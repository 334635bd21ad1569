//! Mishaps, each repeated many times. `MMV_LONG` in the environment asks for the long form, which
//! `ci/long` runs.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use mmv_writer::Registry;
use mmv_writer::pcp::{IndomMetricExt as _, RegistryExt as _};
use nix::sys::signal::Signal;
use pcp_archive::Archive;

use crate::compliance;
use crate::failures::half_made;
use crate::harness::agent::Agent;
use crate::harness::archive_facts;
use crate::harness::facts::{Facts, number};
use crate::harness::mmv_file::image;
use crate::harness::oracle::Oracle;
use crate::harness::scratch::Scratch;
use crate::harness::wait;
use crate::producers::Producer;

/// Records of last values that a user has at once; and one more each second.
const LAST_VALUES_IN_A_ROW: usize = 10;

fn times(short: u64, long: u64) -> u64 {
    if std::env::var_os("MMV_LONG").is_some() { long } else { short }
}

#[test]
fn truncations_under_a_harvest_log_no_false_value() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(10, 1, &[("steady", 8)]), "other");
    let counters = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, 7));
    let begin = Instant::now();
    let mut agent = Agent::start_with(&scratch, &["--interval", "1ms"]);
    for round in 0..times(400, 20_000) {
        let bytes = image(9, round + 1, &counters);
        let path = scratch.install_bytes(&bytes, "app");
        // Now and then it is harvested for some samples before; else at most for one.
        if round % 16 == 0 {
            let before = agent.data_bytes();
            wait::until_true("samples with the file", || agent.data_bytes() > before + 2000);
        }
        // To nothing, and to every length by turns, page boundaries among them.
        let length = if round % 4 == 0 { 0 } else { round * 37 % bytes.len() as u64 };
        let file = OpenOptions::new().write(true).open(path).expect("open it");
        file.set_len(length).expect("truncate it");
    }
    let status = agent.terminate();
    assert!(status.success(), "{status}\n{}", agent.log());
    let facts = checked(&agent);
    let seven = number("7");
    for (name, value) in values(&facts) {
        let expected = if name == "mmv.other.steady" { number("8") } else { seven.clone() };
        assert_eq!(value, expected, "{name}");
    }
    assert!(values(&facts).any(|(name, _)| name == "mmv.app.h"), "it was never harvested");
    let samples = facts.records.iter().filter(|record| record.has_samples()).count();
    let steady = values(&facts).filter(|(name, _)| *name == "mmv.other.steady").count();
    // The last values of a file that was replaced may have a record of their own.
    let allowed = LAST_VALUES_IN_A_ROW + begin.elapsed().as_secs() as usize;
    let is_whole = (samples.saturating_sub(allowed)..=samples).contains(&steady);
    assert!(is_whole, "the other file is in {steady} of {samples} samples");
}

#[test]
fn program_restarted_many_times_is_logged_each_time() {
    let Some(oracle) = Oracle::find() else { return };
    let scratch = Scratch::new();
    scratch.install_bytes(&image(10, 1, &[("steady", 8)]), "other");
    let mut agent = Agent::start_with(&scratch, &["--interval", "10ms"]);
    let mut expected = Vec::new();
    for life in 0..times(10, 300) {
        let mut program = Producer::c(&oracle, &scratch, "app", 1);
        program.order(&format!("text life {life}"));
        let value = format!("\"life {life}\"");
        agent.wait_for(&value, |base| {
            archive_facts::so_far(base).is_some_and(|facts| {
                values(&facts).any(|(name, found)| name == "mmv.app.state" && found == value)
            })
        });
        expected.push(value);
    }
    let status = agent.terminate();
    assert!(status.success(), "{status}\n{}", agent.log());
    let facts = checked(&agent);
    let lives = values(&facts)
        .filter(|(name, value)| *name == "mmv.app.state" && value.starts_with("\"life "));
    let mut lives: Vec<_> = lives.map(|(_, value)| value.to_owned()).collect();
    lives.dedup();
    assert_eq!(lives, expected, "every life, in order");
    assert!(!facts.records.iter().any(|record| record.mark), "a mark");
}

#[test]
fn killed_agent_leaves_an_archive_with_all_it_wrote() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(10, 1, &[("steady", 8)]), "other");
    for life in 1..=times(4, 200) {
        let mut agent = Agent::start_with(&scratch, &["--interval", "5ms"]);
        let mut written = 0;
        wait::until_true("three records of this life", || {
            let bases = agent.archives();
            let facts = bases.last().and_then(|base| archive_facts::so_far(base));
            written = facts.map_or(0, |facts| facts.records.len());
            bases.len() as u64 == life && written >= 3
        });
        agent.signal(Signal::SIGKILL);
        agent.gone();
        let bases = agent.archives();
        let facts = archive_facts::so_far(bases.last().expect("one")).expect("a readable archive");
        assert!(facts.records.len() >= written, "{} of {written}", facts.records.len());
        assert!(values(&facts).all(|(_, value)| value == number("8")));
    }
}

#[test]
fn agent_killed_while_making_archives_leaves_them_readable() {
    let scratch = Scratch::new();
    scratch.install_bytes(&image(10, 1, &[("requests", 8)]), "app");
    let mut agent = Agent::start_with(&scratch, &["--interval", "2ms"]);
    wait::until_true("an archive", || agent.data_bytes() > 2000);
    let directory = agent.archive().parent().expect("a directory").to_owned();
    let (kills, begun) = (times(20, 300), Instant::now());
    for life in 0..kills {
        // The kill comes while it starts, ends an archive or begins one.
        for order in 0..life % 4 {
            agent.signal(Signal::SIGUSR2);
            sleep(Duration::from_micros(life * 7919 % 5000 + order * 1000));
        }
        agent.signal(Signal::SIGKILL);
        agent.gone();
        half_made::assert_readable_after_kill(&directory);
        agent = Agent::start_with(&scratch, &["--interval", "2ms"]);
        sleep(Duration::from_micros(life * 104_729 % 40_000));
    }
    wait::until_true("its first record", || agent.log().contains("writing"));
    assert!(agent.terminate().success(), "{}", agent.log());
    half_made::assert_readable(&directory);
    println!("{kills} kills in {:?}, {} archives", begun.elapsed(), agent.archives().len());
    for base in agent.archives() {
        if let Some(oracle) = Oracle::find() {
            compliance::check(&oracle, &base);
        }
        let facts = archive_facts::of_mmv_archive(&base);
        assert!(values(&facts).all(|(_, value)| value == number("8")), "{}", base.display());
    }
}

/// Counts the samples of each archive of a directory; `None` while one cannot be read.
fn samples_of(agent: &Agent) -> Option<BTreeMap<PathBuf, u64>> {
    agent
        .archives()
        .into_iter()
        .map(|base| {
            let mut samples = 0;
            let archive = Archive::open(&base).ok()?;
            let mut records = archive.records().ok()?;
            while let Some(record) = records.next().ok()? {
                samples += u64::from(record.value_sets().next().is_some());
            }
            Some((base, samples))
        })
        .collect()
}

/// Counts the volumes that are being compressed, and those that are.
fn packed(agent: &Agent) -> (usize, usize) {
    let archives = agent.archives();
    let directory = archives.first().and_then(|base| base.parent()).map(std::fs::read_dir);
    let files = directory.into_iter().flatten().flatten().flatten();
    let names: Vec<_> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    let count = |suffix: &str| names.iter().filter(|name| name.ends_with(suffix)).count();
    (count(".unfinished"), count(".xz") + count(".zst"))
}

#[test]
#[ignore = "takes half a minute: ci/slow runs it"]
fn an_agent_killed_while_it_compresses_loses_no_record() {
    let scratch = Scratch::new();
    let registry = Registry::builder("app").sealed().directory(scratch.mmv_dir()).build();
    let registry = registry.expect("a registry");
    let many = registry.indom("many").names((0..600).map(|number| format!("n{number}")));
    let many = many.build().expect("a domain");
    let _count = registry.counter("count").build_instances(&many).expect("counters");
    let _published = registry.publish().expect("a file");
    let config = scratch.path().join("agent.toml");
    let options = ["--config", config.to_str().expect("UTF-8")];
    let kills = times(16, 1000);
    let mut half = 0;
    for life in 0..kills {
        let method = ["xz", "xz", "zstd"][life as usize % 3];
        let text = format!(
            "interval = \"1ms\"\n[rotation]\nvolume-size = \"2MB\"\n\
             [retention]\nsize = \"1GB\"\n[compression]\nmethod = \"{method}\"\nafter = \"1ms\"\n"
        );
        std::fs::write(&config, text).expect("write the configuration");
        let mut agent = Agent::start_with(&scratch, &options);
        let written = wait::until("all archives", || samples_of(&agent));
        // A volume takes about 170 ms to be written, and 50 ms to be compressed by xz.
        let before = packed(&agent).0;
        // On a busy machine the kill may come while it waits for a processor.
        let deadline = Instant::now() + Duration::from_secs(2);
        while packed(&agent).0 == before && Instant::now() < deadline {
            sleep(Duration::from_millis(5));
        }
        sleep(Duration::from_micros(life * 104_729 % 20_000));
        agent.signal(Signal::SIGKILL);
        agent.gone();
        let left = samples_of(&agent).expect("all archives are whole");
        for (base, samples) in &written {
            assert!(left.get(base) >= Some(samples), "{left:?} of {written:?}; {}", agent.log());
        }
        half += packed(&agent).0;
    }
    println!("{kills} kills left {half} volumes half compressed");
    std::fs::write(&config, "interval = \"1s\"\n[compression]\nafter = \"1ms\"\n")
        .expect("write the configuration");
    let mut agent = Agent::start_with(&scratch, &options);
    wait::until_true("its first record", || agent.log().contains("writing"));
    wait::for_idle_work("a compressed volume", || (packed(&agent).1 > 0).then_some(()));
    assert!(agent.terminate().success(), "{}", agent.log());
    for base in agent.archives() {
        let checked = pcp_archive::check::check(&base).expect("readable");
        assert_eq!(checked.findings(), [], "{}", base.display());
    }
}

fn values(facts: &Facts) -> impl Iterator<Item = (&str, &str)> {
    let records = facts.records.iter().filter(|record| record.has_samples());
    records.flat_map(|record| {
        record.sets.iter().flat_map(|(pmid, _)| {
            let name = facts.metrics[pmid].names.first().map_or("", String::as_str);
            record.values(pmid).map(move |(_, value)| (name, value))
        })
    })
}

/// Reads the agent's archive, after the checks that every archive has to pass.
fn checked(agent: &Agent) -> Facts {
    let base = agent.archive();
    if let Some(oracle) = Oracle::find() {
        compliance::check(&oracle, &base);
    }
    archive_facts::of_mmv_archive(&base)
}
