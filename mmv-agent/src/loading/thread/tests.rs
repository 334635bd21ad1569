use std::path::Path;

use mmv_writer::{Counter, Registry};
use pcp_types::Timestamp;

use super::*;
use crate::config::{Destination, Settings};
use crate::host::Host;
use crate::housekeeping::LoaderState;
use crate::loading::loader::LoaderLinks;
use crate::loading::update::Plan;
use crate::source::Ticket;
use crate::telemetry::SharedStatus;

fn publish(dir: &Path, name: &str) -> Registry {
    let registry = Registry::builder(name).sealed().directory(dir).build().unwrap();
    let _count: Counter<u64> = registry.counter("count").build().unwrap();
    registry.publish().unwrap()
}

fn loader(dir: &Path) -> Loader {
    mmv_format::mapping::guard::install().unwrap();
    let destination = Destination::Directory(dir.join("archives"));
    let settings = Settings::new(dir.to_owned(), destination, Duration::from_secs(1));
    let housekeeper = unbounded().0;
    let removals = unbounded().1;
    let shared = Arc::<SharedStatus>::default();
    let links = LoaderLinks { housekeeper, removals, shared };
    Loader::new(&settings, Host::local(), LoaderState::default(), links)
}

fn step(loader: &mut Loader, second: u64) -> Update {
    let monotonic = Duration::from_secs(second);
    loader.begin(Moment { monotonic, wall: Timestamp::EPOCH });
    while loader.step() {}
    loader.update()
}

fn tickets(plan: &Plan) -> (Vec<Ticket>, Vec<Ticket>) {
    let all = plan.sources.iter().map(|source| source.ticket);
    let new = plan.sources.iter().filter(|source| source.new.is_some());
    (all.collect(), new.map(|source| source.ticket).collect())
}

#[test]
fn a_plan_that_was_not_taken_leaves_its_sources_to_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut loader = loader(dir.path());
    let [_b, _c] = ["b", "c"].map(|name| publish(dir.path(), name));
    let first = step(&mut loader, 1);
    assert_eq!(tickets(first.plan.as_ref().unwrap()), (vec![1, 2], vec![1, 2]));
    let idle = step(&mut loader, 2);
    assert!(idle.is_empty());
    let _a = publish(dir.path(), "a");
    let mut second = step(&mut loader, 3);
    assert_eq!(tickets(second.plan.as_ref().unwrap()), (vec![3, 1, 2], vec![3]));
    second.replace(first);
    assert_eq!(tickets(second.plan.as_ref().unwrap()), (vec![3, 1, 2], vec![3, 1, 2]));
    assert_eq!(second.news.counts.iter().sum::<u64>(), 3, "the events of both");
    let mut news = Update::default();
    news.replace(second);
    assert!(news.plan.is_some(), "news alone replace no plan");
}

#[test]
fn thread_finds_existing_and_new_files_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let _first = publish(dir.path(), "first");
    let (mut loading, thread) = on_thread(loader(dir.path()), |_| ()).unwrap();
    let thread = thread::spawn(move || thread.run());
    loading.wait_for_first();
    let plan = loading.begin(Moment::START).and_then(|update| update.plan);
    assert_eq!(tickets(&plan.unwrap()).1, [1]);
    let _second = publish(dir.path(), "second");
    let deadline = Instant::now() + Duration::from_secs(10);
    let plan = loop {
        assert!(Instant::now() < deadline, "a new file is not found");
        if let Some(plan) = loading.begin(Moment::START).and_then(|update| update.plan) {
            break plan;
        }
        thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(tickets(&plan), (vec![1, 2], vec![2]));
    assert!(!loading.has_ended());
    let (reply, answer) = unbounded();
    loading.ask(Request::Files(reply));
    let files = answer.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(files.sources.len(), 2);
    drop(loading);
    thread.join().unwrap();
}

#[test]
fn waits_within_ticks_are_short_and_few() {
    let dir = tempfile::tempdir().unwrap();
    let (mut loading, _thread) = on_thread(loader(dir.path()), |_| ()).unwrap();
    let began = Instant::now();
    for _ in 0..1000 {
        assert!(loading.answer(Moment::START, Duration::from_secs(10)).is_none());
    }
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(50), "{waited:?}");
    assert!(waited < Duration::from_secs(1), "{waited:?}");
}
