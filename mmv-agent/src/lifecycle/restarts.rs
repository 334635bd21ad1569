//! Tests of the state that is kept across runs of the agent.

use std::path::Path;

use mmv_writer::Registry;
use pcp_archive::{Archive, OwnedValue};
use pcp_types::Pmid;

use super::rig::{Rig, counter_file};
use crate::logging::Order;

/// Process and sequence number of an archive's prologue, which has the timestamp of
/// the archive's start and of its first sample.
fn server_of(base: &Path) -> (u64, u32) {
    let archive = Archive::open(base).unwrap();
    let mut records = archive.records().unwrap();
    let prologue = records.next().unwrap().unwrap().to_owned(archive.metadata()).unwrap();
    assert_eq!(prologue.timestamp, archive.label().start);
    let value = |item: u32| {
        let pmid = Pmid::new(2, 0, item).unwrap();
        let set = prologue.value_sets.iter().find(|set| set.pmid == pmid).unwrap();
        set.values.as_ref().unwrap()[0].1.clone()
    };
    let (OwnedValue::U64(pid), OwnedValue::U32(seqnum)) = (value(23), value(24)) else {
        panic!("{prologue:?}")
    };
    assert_eq!(records.next().unwrap().unwrap().timestamp(), archive.label().start);
    (pid, seqnum)
}

/// The prologues of a run that has two archives, and does `between` before the
/// second one begins.
fn servers_around(between: impl FnOnce(&mut Rig)) -> [(u64, u32); 2] {
    let mut rig = Rig::new();
    let (_count, _published) = counter_file(&rig, "app", "count");
    rig.tick();
    let first = rig.archives()[0].clone();
    between(&mut rig);
    rig.tick();
    let second = rig.archives().pop().unwrap();
    assert_ne!(first, second);
    let servers = [server_of(&first), server_of(&second)];
    assert_eq!(u64::from(servers[1].1), u64::from(rig.server().seqnum));
    rig.finish();
    servers
}

#[test]
fn archives_of_one_run_join_unless_samples_were_lost() {
    let [first, second] = servers_around(|rig| rig.order(Order::NewArchive));
    assert_eq!(first, second);
    let [first, second] = servers_around(|rig| {
        rig.order(Order::NewArchive);
        rig.gap();
    });
    assert_eq!((first.0, first.1 + 1), second);
}

#[test]
fn marked_restart_separates_archives_only_between_them() {
    for (wanted, between, parted) in
        [(true, true, true), (false, true, false), (true, false, false)]
    {
        let mut rig = Rig::with(|settings| settings.reloadable.mark_on_restart = wanted);
        let (_count, published) = counter_file(&rig, "app", "count");
        rig.tick();
        published.withdraw();
        if between {
            rig.tick();
            rig.order(Order::NewArchive);
        }
        let (_count, _published) = counter_file(&rig, "app", "count");
        rig.tick();
        if !between {
            // The first archive has the mark.
            rig.order(Order::NewArchive);
            rig.tick();
        }
        let archives = rig.archives();
        let [first, second] = [0, 1].map(|at: usize| server_of(&archives[at]));
        assert_eq!((first.0, first.1 + u32::from(parted)), second, "{wanted} {between}");
        let last = rig.finish();
        assert_eq!(last.marks(), 0, "{wanted} {between}");
    }
}

#[test]
fn archives_of_two_runs_join_unless_a_file_was_replaced() {
    let [first, second] = servers_around(Rig::restart);
    assert_eq!(first, second);

    let mut rig = Rig::new();
    let (_count, published) = counter_file(&rig, "app", "count");
    let (_other, _others) = counter_file(&rig, "other", "count");
    rig.tick();
    let first = server_of(&rig.archives()[0]);
    rig.restart();
    published.withdraw();
    let (_count, _published) = counter_file(&rig, "app", "count");
    rig.tick();
    let second = server_of(&rig.archives()[0]);
    assert_eq!((first.0, first.1 + 1), second);
    // It is known now, so it is no loss the next time.
    rig.restart();
    rig.tick();
    assert_eq!(server_of(&rig.archives()[0]), second);
    rig.finish();
}

#[test]
fn a_metric_keeps_its_pmid_over_restarts_of_the_agent() {
    let mut rig = Rig::new();
    let (_b, second) = counter_file(&rig, "b", "count");
    rig.tick();
    let (_a, _first) = counter_file(&rig, "a", "count");
    rig.tick();
    let pmids = |rig: &Rig| {
        let archive = Archive::open(rig.archives().last().unwrap()).unwrap();
        ["mmv.a.count", "mmv.b.count"]
            .map(|name| archive.metadata().metric_by_name(name).unwrap().desc.pmid.to_string())
    };
    // By the byte order of the names it would be the reverse.
    assert_eq!(pmids(&rig), ["70.2.1", "70.1.1"]);
    rig.restart();
    rig.tick();
    assert_eq!(pmids(&rig), ["70.2.1", "70.1.1"]);
    // Also if one of them appears later.
    rig.restart();
    drop(second);
    rig.tick();
    let registry = Registry::builder("0").sealed().directory(rig.mmv_dir()).build().unwrap();
    let _count = registry.counter("count").build().unwrap();
    registry.publish().unwrap();
    rig.tick();
    let (_b, _second) = counter_file(&rig, "b", "count");
    rig.tick();
    assert_eq!(pmids(&rig), ["70.2.1", "70.1.1"]);
    rig.finish();
}

#[test]
fn missing_samples_after_a_prologue_are_marked() {
    let mut rig = Rig::new();
    let (count, _published) = counter_file(&rig, "app", "count");
    count.add(1);
    rig.tick();
    rig.gap();
    rig.tick();
    let log = rig.finish();
    let marks: Vec<bool> = log.entries.iter().map(|entry| entry.mark).collect();
    assert_eq!(marks, [false, true, false]);
}
