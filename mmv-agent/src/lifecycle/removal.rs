//! Removal of files whose processes have ended.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, symlink};
use std::process::{Child, Command};
use std::time::Duration;

use mmv_format::layout::Header;
use mmv_writer::Registry;

use super::rig::{Rig, counter_file};
use super::{file_of, publish_for, u64s};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn removing() -> Rig {
    Rig::with(|settings| settings.reloadable.remove_dead_after = Some(HOUR))
}

fn process() -> Child {
    Command::new("sleep").arg("60").spawn().unwrap()
}

/// A rig with the file "app" of a process that has ended, whose last values it has
/// logged.
fn after_a_death(mut rig: Rig) -> (Rig, File) {
    let mut child = process();
    let file = file_of(&rig, child.id());
    rig.tick();
    child.kill().unwrap();
    child.wait().unwrap();
    rig.tick();
    rig.tick();
    (rig, file)
}

impl Rig {
    /// Time passes; then a tick requests removals, and the next one reports them.
    fn after(&mut self, time: Duration) {
        self.skip(time);
        self.tick();
        self.tidy();
        self.tick();
    }

    fn has_app(&self) -> bool {
        fs::symlink_metadata(self.mmv_dir().join("app")).is_ok()
    }
}

#[test]
fn file_of_ended_process_is_removed_after_a_time() {
    let (mut rig, _file) = after_a_death(removing());
    rig.after(MINUTE * 59);
    assert!(rig.has_app(), "a minute remains");
    rig.after(MINUTE * 2);
    assert!(!rig.has_app());
    let log = rig.finish();
    assert_eq!(log.series("mmv.app.count"), u64s(&[9, 9]));
}

#[test]
fn nothing_is_removed_by_default() {
    let (mut rig, _file) = after_a_death(Rig::new());
    rig.after(HOUR * 1_000);
    assert!(rig.has_app());
    rig.finish();
}

#[test]
fn a_living_programs_file_and_one_without_the_flag_stay() {
    let mut rig = removing();
    let mut child = process();
    let _file = file_of(&rig, child.id());
    let mut other = process();
    let registry = Registry::builder("lasting").directory(rig.mmv_dir()).process(false);
    let published = registry.sealed().build().unwrap().publish().unwrap();
    let file = fs::OpenOptions::new().write(true).open(published.path()).unwrap();
    let pid_at = std::mem::offset_of!(Header, pid) as u64;
    file.write_all_at(&other.id().to_ne_bytes(), pid_at).unwrap();
    rig.tick();
    other.kill().unwrap();
    other.wait().unwrap();
    rig.after(HOUR * 2);
    rig.after(HOUR * 2);
    assert!(rig.has_app() && published.path().exists());
    child.kill().unwrap();
    child.wait().unwrap();
    rig.finish();
}

#[test]
fn a_file_that_was_created_again_stays() {
    let (mut rig, _file) = after_a_death(removing());
    fs::remove_file(rig.mmv_dir().join("app")).unwrap();
    let (_count, published) = counter_file(&rig, "app", "count");
    rig.after(HOUR * 2);
    rig.after(HOUR * 2);
    assert!(rig.has_app());
    published.withdraw();
    rig.finish();
}

#[test]
fn a_file_that_replaces_it_at_the_last_moment_stays() {
    for link in [false, true] {
        let (mut rig, _file) = after_a_death(removing());
        rig.skip(HOUR * 2);
        // The sampler has requested the removal; before that another file gets the name.
        rig.tick();
        let path = rig.mmv_dir().join("app");
        let aside = rig.archive_dir().join("aside");
        fs::rename(&path, &aside).unwrap();
        if link {
            symlink(&aside, &path).unwrap();
        } else {
            fs::copy(&aside, &path).unwrap();
        }
        rig.tidy();
        assert!(rig.has_app() && aside.exists(), "link: {link}");
        rig.finish();
    }
}

#[test]
fn a_file_that_another_process_has_taken_over_stays() {
    let (mut rig, file) = after_a_death(removing());
    rig.skip(HOUR * 2);
    rig.tick();
    let mut child = process();
    let pid_at = std::mem::offset_of!(Header, pid) as u64;
    file.write_all_at(&child.id().to_ne_bytes(), pid_at).unwrap();
    rig.tidy();
    rig.after(HOUR * 2);
    assert!(rig.has_app());
    child.kill().unwrap();
    child.wait().unwrap();
    rig.finish();
}

#[test]
fn an_agent_that_is_restarted_meanwhile_removes_the_file_later() {
    let (mut rig, _file) = after_a_death(removing());
    rig.restart();
    rig.tick();
    rig.after(MINUTE * 59);
    assert!(rig.has_app(), "the time starts again");
    rig.after(MINUTE * 2);
    assert!(!rig.has_app());
    let (_count, _published) = counter_file(&rig, "other", "count");
    rig.tick();
    rig.finish();
}

#[test]
fn a_process_that_no_agent_saw_end_proves_nothing() {
    // One ended while no agent ran, the other before any agent had read its file.
    for known in [true, false] {
        let mut rig = removing();
        let mut child = process();
        let workshop = tempfile::tempdir().unwrap();
        let registry =
            Registry::builder("app").sealed().directory(workshop.path()).build().unwrap();
        registry.publish().unwrap();
        let _file = publish_for(&rig, registry.path(), child.id());
        if known {
            rig.tick();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        rig.restart();
        rig.tick();
        rig.after(HOUR * 2);
        rig.after(HOUR * 2);
        assert!(rig.has_app(), "known: {known}");
        let (_count, _published) = counter_file(&rig, "other", "count");
        rig.tick();
        rig.finish();
    }
}
