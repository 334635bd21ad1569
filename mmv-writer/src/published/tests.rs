use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use tempfile::TempDir;

use super::*;
use crate::mapping::tests::{idle_fork, in_a_fork};
use crate::pcp::{IndomMetricExt as _, RegistryBuilderExt as _, RegistryExt as _};
use crate::test_support::{directory, names_in};
use crate::{Gauge, Registry};
use mmv_format::layout::Flags;
use mmv_format::view::{Contents, Limits};

fn registry(directory: &TempDir) -> Registry {
    Registry::builder("app").sealed().directory(directory.path()).build().unwrap()
}

fn publish(registry: Registry) -> Registry {
    registry.publish().unwrap();
    registry
}

#[test]
fn until_publication_there_is_only_a_hidden_file() {
    let directory = directory();
    let registry = registry(&directory);
    let _counter = registry.counter("c").build().unwrap();
    assert!(names_in(&directory).iter().all(|name| name.starts_with('.')));
    registry.publish().unwrap();
    assert_eq!(names_in(&directory), ["app"]);
    registry.withdraw();
    assert_eq!(names_in(&directory), [""; 0]);
}

#[test]
fn a_registry_that_is_dropped_leaves_nothing() {
    let directory = directory();
    drop(registry(&directory));
    assert_eq!(names_in(&directory), [""; 0]);
}

#[test]
fn everyone_may_read_the_file_and_all_of_it_is_allocated() {
    let directory = directory();
    let registry = registry(&directory);
    let _text = registry.text("t").build().unwrap();
    registry.publish().unwrap();
    let metadata = std::fs::metadata(registry.path()).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o644);
    assert!(metadata.blocks() * 512 >= metadata.len());
}

#[test]
fn a_new_file_takes_the_old_ones_place_with_another_generation() {
    let directory = directory();
    let first = publish(registry(&directory));
    let old = File::open(first.path()).unwrap();
    let second = publish(registry(&directory));
    assert_ne!(first.generation(), second.generation());
    let contents = Contents::read(&old, &Limits::default()).unwrap();
    assert_eq!(contents.header.generation, first.generation(), "the old file is untouched");
    drop(first);
    assert_eq!(names_in(&directory), ["app"], "withdrawing the old one leaves the new one");
}

fn running(error: &Error) -> Option<u32> {
    let Error::Running { process, .. } = error else { panic!("{error}") };
    *process
}

#[test]
fn another_process_does_not_replace_the_file_of_one_that_runs() {
    let directory = directory();
    let first = publish(registry(&directory));
    let generation = first.generation();
    let path = first.path().to_owned();
    let pid = std::process::id();
    assert!(in_a_fork(|| {
        let growing = Registry::builder("app").directory(directory.path());
        let options = growing.clone().sealed();
        let sealed = options.clone().build().unwrap().publish().unwrap_err();
        let live = growing.build().unwrap_err();
        let text = sealed.to_string();
        let helps = ["per_process", "replace_running"].iter().all(|word| text.contains(word));
        let place = format!("{}: process {pid} publishes this file", path.display());
        let private = publish(options.lenient().build().unwrap());
        [sealed, live].iter().all(|error| running(error) == Some(pid))
            && text.starts_with(&place)
            && helps
            && !private.is_published()
    }));
    assert_eq!(names_in(&directory), ["app"]);
    let found = Contents::read(&File::open(&path).unwrap(), &Limits::default()).unwrap();
    assert_eq!(found.header.generation, generation);
}

#[test]
fn a_process_may_take_the_place_of_another_one_for_good() {
    let directory = directory();
    let first = publish(registry(&directory));
    assert!(in_a_fork(|| {
        let options =
            Registry::builder("app").directory(directory.path()).replace_running().sealed();
        let second = publish(options.build().unwrap());
        let taken = File::open(first.path()).unwrap();
        let header = mmv_format::file::read_header(&taken).unwrap();
        // It ends without withdrawing its file.
        std::mem::forget(second);
        header.pid.cast_unsigned() == std::process::id()
    }));
    drop(first);
    assert_eq!(names_in(&directory), ["app"], "the first withdraws its own file only");
    drop(publish(registry(&directory)));
    assert_eq!(names_in(&directory), [""; 0], "that of a dead process is replaced");
}

#[test]
fn a_forked_child_does_not_keep_its_parents_file_in_use() {
    let directory = directory();
    let (mut end, keeper) = std::io::pipe().unwrap();
    let mut keeper = Some(keeper);
    assert!(in_a_fork(|| {
        let draft = registry(&directory);
        // One that has inherited a file before its publication, and one after that.
        idle_fork(&mut end, &mut keeper);
        draft.publish().unwrap();
        idle_fork(&mut end, &mut keeper);
        std::mem::forget(draft);
        true
    }));
    drop(publish(registry(&directory)));
    drop(keeper);
}

#[test]
fn what_a_forked_child_drops_stays_locked() {
    let directory = directory();
    let mut published = Some(publish(registry(&directory)));
    assert!(in_a_fork(|| {
        drop(published.take());
        true
    }));
    assert!(in_a_fork(|| {
        let error = registry(&directory).publish().unwrap_err();
        running(&error).is_some()
    }));
    assert_eq!(names_in(&directory), ["app"]);
}

#[test]
fn stale_temporary_files_go_and_those_in_use_stay() {
    let directory = directory();
    let stale = directory.path().join(".app.1-0.tmp");
    std::fs::write(&stale, b"left by a killed process").unwrap();
    let unrelated = directory.path().join(".other.1-0.tmp");
    std::fs::write(&unrelated, b"").unwrap();
    let first = registry(&directory);
    assert!(!stale.exists() && unrelated.exists());
    let second = registry(&directory);
    first.publish().unwrap();
    second.publish().unwrap();
}

#[test]
fn a_missing_directory_is_an_error_that_names_it() {
    let error =
        Registry::builder("app").sealed().directory("/no/such/directory").build().unwrap_err();
    let text = error.to_string();
    let expected = "/no/such/directory: create a file in this directory: No such file";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn forked_child_counts_alone_and_neither_withdraws_nor_adds() {
    let directory = directory();
    let sealed = registry(&directory);
    let sealed_count = sealed.counter("c").build().unwrap();
    sealed.publish().unwrap();
    let live = Registry::builder("live").directory(directory.path()).build().unwrap();
    let live_count = live.counter("c").build().unwrap();
    let draft = Registry::builder("draft").sealed().directory(directory.path()).build().unwrap();
    assert!(in_a_fork(|| {
        sealed_count.add(10);
        live_count.add(10);
        let refused = live.counter("d").build();
        let own = Registry::builder("child").sealed().directory(directory.path()).build().unwrap();
        own.publish().unwrap();
        let is_own = own.path().exists();
        drop(own);
        is_own
            && matches!(refused, Err(Error::Forked { .. }))
            && matches!(draft.publish(), Err(Error::Forked { .. }))
            && (sealed_count.value(), live_count.value()) == (10, 10)
    }));
    assert_eq!((sealed_count.value(), live_count.value()), (0, 0));
    let names = names_in(&directory);
    assert_eq!(names.iter().filter(|name| name.starts_with(".draft")).count(), 1);
    assert_eq!(names[1..], ["app", "live"]);
}

#[test]
fn a_lenient_registry_counts_privately_without_a_file() {
    let builder = Registry::builder("app").directory("/no/such/directory").lenient();
    let registry = builder.clone().sealed().build().unwrap();
    let many = registry.indom("many").names((0..5000).map(|n| n.to_string())).build().unwrap();
    let counts = registry.counter("c").build_instances(&many).unwrap();
    let text = registry.text("t").build().unwrap();
    assert!(matches!(registry.metric::<Gauge<i32>>("c").build(), Err(Error::NameTaken { .. })));
    registry.publish().unwrap();
    assert!(!registry.is_published());
    counts.get(4999).unwrap().add(7);
    text.set("unseen");
    assert_eq!(counts.by_name("4999").unwrap().value(), 7);

    let live = builder.build().unwrap();
    let things = live.indom("things").build().unwrap();
    let family = live.counter("c").build_named(&things).unwrap();
    family.get_or_create("one").unwrap().add(3);
    assert_eq!(family.get_or_create("one").unwrap().value(), 3);
    assert!(!live.is_published() && things.remove("one"));
}

#[test]
fn a_lenient_registry_is_published_where_possible() {
    let directory = directory();
    let builder = Registry::builder("app").directory(directory.path()).lenient();
    let published = publish(builder.sealed().build().unwrap());
    assert!(published.is_published());
    assert_eq!(names_in(&directory), ["app"]);
    let wrong = Registry::builder("my-app").directory(directory.path()).lenient();
    assert!(matches!(wrong.build(), Err(Error::FileName { .. })));
}

#[test]
fn lenient_registry_that_cannot_be_renamed_is_unpublished() {
    let directory = directory();
    let builder = Registry::builder("app").directory(directory.path()).sealed();
    let (strict, lenient) = (builder.clone().build().unwrap(), builder.lenient().build().unwrap());
    let count = lenient.counter("c").build().unwrap();
    std::fs::create_dir_all(directory.path().join("app/in/the/way")).unwrap();
    assert!(matches!(strict.publish(), Err(Error::Io { action: "rename", .. })));
    lenient.publish().unwrap();
    count.inc();
    assert_eq!((lenient.is_published(), count.value()), (false, 1));
    drop((lenient, count));
    assert_eq!(names_in(&directory), ["app"]);
}

#[test]
fn processes_of_an_application_have_a_file_and_an_instance_each() {
    let directory = directory();
    let builder = Registry::builder("my-app").directory(directory.path()).per_process();
    let builder = builder.sealed();
    assert!(matches!(builder.clone().build(), Err(Error::NeedsCluster { .. })));
    let registry = builder.cluster(12).build().unwrap();
    let process = registry.process().unwrap();
    let _requests = registry.counter("my_app.requests").build_instances(&process).unwrap();
    registry.publish().unwrap();
    let pid = std::process::id();
    assert_eq!(names_in(&directory), [format!("my-app.{pid}")]);
    let file = File::open(registry.path()).unwrap();
    let contents = Contents::read(&file, &Limits::default()).unwrap();
    assert_eq!(contents.header.flags, Flags::PROCESS.with(Flags::NO_PREFIX));
    assert_eq!(contents.header.cluster, 12);
    let instance = &contents.indoms[0].instances[0];
    assert_eq!((instance.id.get(), &*instance.name), (pid.cast_signed(), &*pid.to_string()));
}

/// The umask is the whole process's, so this runs in one of its own.
#[test]
fn the_mode_does_not_depend_on_the_umask() {
    let directory = directory();
    let test = std::env::current_exe().unwrap();
    let status = Command::new("sh")
        .args([
            "-c",
            "umask 077; exec \"$0\" --exact --ignored published::tests::publish_in_a_child",
        ])
        .arg(test)
        .env("MMV_TEST_DIRECTORY", directory.path())
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let metadata = std::fs::metadata(directory.path().join("app")).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o644);
}

#[test]
#[ignore = "a child process of the_mode_does_not_depend_on_the_umask"]
fn publish_in_a_child() {
    let Some(directory) = std::env::var_os("MMV_TEST_DIRECTORY") else { return };
    let registry = Registry::builder("app").sealed().directory(directory).build().unwrap();
    std::mem::forget(publish(registry));
}
