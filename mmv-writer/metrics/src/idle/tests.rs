use metrics::{counter, histogram, with_local_recorder};
use mmv_writer::Registry;
use tempfile::TempDir;

use crate::{FacadeCounter, Recorder};

use super::*;

const LONG: Duration = Duration::from_secs(3600);

fn recorder(directory: &TempDir) -> Recorder {
    let registry = Registry::builder("app").directory(directory.path()).build().unwrap();
    Recorder::builder(&registry).idle_timeout(LONG).build()
}

fn kept(recorder: &Recorder) -> usize {
    let mut count = 0;
    recorder.shared.counters.retain(|_| {
        count += 1;
        true
    });
    count
}

#[test]
fn a_series_without_updates_is_removed_and_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = recorder(&directory);
    with_local_recorder(&recorder, || {
        counter!("count", "a" => "1", "b" => "2").increment(1);
        counter!("count", "b" => "2", "a" => "1").increment(1);
        let held = counter!("count", "a" => "3");
        recorder.shared.expire(LONG);
        assert_eq!(kept(&recorder), 2, "updated");
        recorder.shared.expire(Duration::ZERO);
        assert_eq!(kept(&recorder), 1, "the program has a handle");
        held.increment(1);
        drop(held);
        recorder.shared.expire(Duration::ZERO);
        assert_eq!(kept(&recorder), 0);
    });
}

#[test]
fn threads_count_while_their_series_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = recorder(&directory);
    let handles = with_local_recorder(&recorder, || {
        (counter!("count", "a" => "1"), histogram!("size", "a" => "1"))
    });
    let end = Instant::now() + Duration::from_millis(200);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while Instant::now() < end {
                    handles.0.increment(1);
                    handles.1.record(1.0);
                    with_local_recorder(&recorder, || {
                        counter!("count", "a" => "1").increment(1);
                    });
                }
            });
        }
        while Instant::now() < end {
            recorder.shared.expire(Duration::ZERO);
        }
    });
    recorder.shared.expire(Duration::ZERO);
    thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(|| handles.0.increment(1))));
    });
    let key = Key::from_parts("count", vec![metrics::Label::new("a", "1")]);
    let given = recorder.shared.state().series::<FacadeCounter>(&key).unwrap();
    assert_eq!(given.handle.counter.value(), 4);
}
