//! Old archives are reduced, and reduced again, before they are deleted.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mmv_writer::{Counter, Registry};
use pcp_archive::check::{Severity, check};
use pcp_archive::replay::Decrease;
use pcp_archive::scan::Selection;
use pcp_archive::summary::summarize;
use pcp_archive::{ArchiveSet, Source};

use super::rig::{Rig, counter_file};
use crate::config::{Retention, Tier};

const DAY: Duration = Duration::from_secs(86_400);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// An agent with two tiers and a counter, which logs a minute each day.
struct Agent {
    rig: Rig,
    count: Counter<u64>,
    _published: Registry,
    /// Growth of the counter within the archives of each day.
    grown: Vec<u64>,
}

impl Agent {
    fn new(retention: Retention) -> Self {
        let rig = Rig::with(|settings| settings.reloadable.retention = retention);
        let (count, published) = counter_file(&rig, "app", "count");
        Self { rig, count, _published: published, grown: Vec::new() }
    }

    fn log_day(&mut self) {
        let mut grown = 0;
        for second in 0..150 {
            self.rig.tick();
            let step = 1 + second % 7;
            self.count.add(step);
            grown += step;
        }
        self.rig.tick();
        self.grown.push(grown);
        self.rig.skip(Duration::from_secs(86_400 - 151));
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.rig.host_directory()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| Path::new(name).extension().is_some_and(|of| of == "meta"));
        names.sort();
        names
    }

    fn bases(&self) -> Vec<PathBuf> {
        ArchiveSet::bases([self.rig.host_directory()]).unwrap()
    }

    /// Returns by how much the counter grew in all archives.
    fn growth(&self) -> u64 {
        let set = ArchiveSet::open([self.rig.host_directory()]).unwrap();
        let source = Source::from(&set);
        let mut selection = Selection::new(source);
        selection.select("mmv.app.count");
        let span = source.start()..=source.end();
        let summaries = summarize(&selection, span, Decrease::Reset).unwrap();
        let statistics = summaries[0].instances[0].statistics.as_ref().unwrap();
        statistics.sum as u64
    }
}

fn retention() -> Retention {
    let minutes = Tier { interval: MINUTE, age: 4 * DAY };
    let hours = Tier { interval: HOUR, age: 7 * DAY };
    Retention { age: Some(2 * DAY), size: None, free: None, tiers: vec![minutes, hours] }
}

#[test]
fn archives_are_reduced_tier_by_tier_and_count_the_same() {
    let mut agent = Agent::new(retention());
    for _ in 0..6 {
        agent.log_day();
    }
    let before = agent.growth();
    assert_eq!(before, agent.grown.iter().sum::<u64>());
    assert_eq!(agent.rig.reduce(), 4);
    let expected = [
        "20231114.22.13.1h.meta",
        "20231115.22.13.1h.meta",
        "20231116.22.13.1m.meta",
        "20231117.22.13.1m.meta",
        "20231118.22.13.meta",
        "20231119.22.13.meta",
    ];
    assert_eq!(agent.names(), expected);
    assert_eq!(agent.growth(), before, "no count is lost");
    for base in agent.bases() {
        let report = check(&base).unwrap();
        assert!(report.worst() < Some(Severity::Warning), "{:?}", report.findings());
    }
    // Without anything to do nothing is done.
    assert_eq!(agent.rig.reduce(), 0);
    let status = agent.rig.kept();
    let tiers: Vec<_> = status.tiers.iter().map(|tier| (tier.interval, tier.archives)).collect();
    assert_eq!(tiers, [(0.0, 2), (60.0, 2), (3600.0, 2)]);
    assert_eq!(status.tiers.iter().map(|tier| tier.bytes).sum::<u64>(), status.bytes);
    assert_eq!(status.tiers[2].oldest, Some(1_700_000_001));
    assert_eq!(status.oldest, Some(1_700_000_001));

    // Those of minutes become hours, and the oldest are deleted at the end of the last tier.
    agent.rig.skip(2 * DAY);
    assert_eq!(agent.rig.reduce(), 3);
    let expected = [
        "20231115.22.13.1h.meta",
        "20231116.22.13.1h.meta",
        "20231117.22.13.1h.meta",
        "20231118.22.13.1m.meta",
        "20231119.22.13.meta",
    ];
    assert_eq!(agent.names(), expected);
    assert_eq!(agent.growth(), before - agent.grown[0]);
}

#[test]
fn without_tiers_archives_are_deleted_by_age() {
    let mut agent = Agent::new(Retention { tiers: Vec::new(), ..retention() });
    for _ in 0..4 {
        agent.log_day();
    }
    assert_eq!(agent.rig.reduce(), 0);
    assert_eq!(agent.names(), ["20231116.22.13.meta", "20231117.22.13.meta"]);
}

#[test]
fn size_limit_deletes_the_oldest_of_the_longest_interval() {
    let mut agent = Agent::new(retention());
    for _ in 0..6 {
        agent.log_day();
    }
    agent.rig.reduce();
    let size = agent.rig.kept().bytes - 1;
    agent.rig.change_retention(Retention { size: Some(size), ..retention() });
    agent.rig.reduce();
    assert_eq!(agent.names()[0], "20231115.22.13.1h.meta");
    assert_eq!(agent.names().len(), 5);
}

#[test]
fn damaged_archive_is_not_reduced_and_others_are() {
    let mut agent = Agent::new(retention());
    for _ in 0..4 {
        agent.log_day();
    }
    let damaged = agent.rig.host_directory().join("20231114.22.13.meta");
    let mut bytes = fs::read(&damaged).unwrap();
    bytes.extend([0, 0, 0, 99, 0]);
    fs::write(&damaged, bytes).unwrap();
    // The attempts count: it is tried again only after a while.
    assert_eq!(agent.rig.reduce(), 2);
    assert_eq!(agent.names()[..2], ["20231114.22.13.meta", "20231115.22.13.1m.meta"]);
    let error = agent.rig.last_error().unwrap();
    assert!(error.contains("cannot reduce") && error.contains("20231114.22.13"), "{error}");
    agent.rig.skip(9 * DAY);
    agent.rig.tidy();
    assert!(!agent.names().iter().any(|name| name.starts_with("20231114")));
}

#[test]
fn files_of_replaced_archives_are_removed_by_the_next_run() {
    let mut agent = Agent::new(retention());
    for _ in 0..4 {
        agent.log_day();
    }
    assert_eq!(agent.rig.reduce(), 2);
    let volume = agent.rig.host_directory().join("20231114.22.13.0");
    assert!(volume.exists(), "for readers that have opened it");
    let before = agent.growth();
    agent.rig.restart();
    assert!(!volume.exists());
    assert_eq!(agent.growth(), before);
    assert!(agent.names().contains(&"20231114.22.13.1m.meta".to_owned()));
}
