//! Archives follow each other, are compressed, repaired and deleted.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use mmv_writer::{Counter, Registry};
use pcp_archive::check::check;
use pcp_archive::compress::compress_volumes;
use pcp_archive::{Archive, Compression};

use super::rig::{Rig, counter_file, entries_of};
use super::u64s;
use crate::config::{Settings, SyncPolicy};
use crate::logging::Order;

const DAY: Duration = Duration::from_secs(86_400);

fn counting(change: impl FnOnce(&mut Settings)) -> (Rig, Counter<u64>, Registry) {
    let rig = Rig::with(change);
    let (count, published) = counter_file(&rig, "app", "count");
    (rig, count, published)
}

fn delete_after(settings: &mut Settings, age: Duration) {
    settings.reloadable.retention.age = Some(age);
    settings.reloadable.retention.tiers.clear();
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn is(name: &str, member: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, suffix)| suffix == member)
}

fn volumes(base: &Path) -> usize {
    Archive::open(base).unwrap().volumes().len()
}

#[test]
fn an_archive_begins_with_each_day_in_utc() {
    for daily in [true, false] {
        let (mut rig, _count, _published) =
            counting(|settings| settings.reloadable.rotation.daily = daily);
        rig.tick();
        // The time was 22:13:20; now some seconds before midnight, then some after.
        rig.skip(Duration::from_secs(6_390));
        rig.tick();
        rig.skip(Duration::from_secs(20));
        rig.tick();
        let archives = rig.archives();
        assert_eq!(archives.len(), if daily { 2 } else { 1 });
        if daily {
            assert_eq!(archives[1].file_name().unwrap(), "20231115.00.00");
            assert_eq!(entries_of(&archives[0]).len(), 2);
        }
        rig.finish();
    }
}

#[test]
fn volumes_end_by_size_and_by_time() {
    let (mut rig, _count, _published) =
        counting(|settings| settings.reloadable.rotation.volume_size = 1_400);
    (0..20).for_each(|_| rig.tick());
    let log = rig.finish();
    // After a label of 808 bytes there is room for ten records of 56 bytes, or for
    // seven and the prologue.
    assert_eq!(log.archive().volumes().len(), 3);
    assert_eq!(log.entries.len(), 20);

    let (mut rig, _count, _published) = counting(|settings| {
        settings.reloadable.rotation.volume_time = Some(Duration::from_secs(5));
    });
    (0..11).for_each(|_| rig.tick());
    let log = rig.finish();
    assert_eq!(log.archive().volumes().len(), 3, "at 0, 5 and 10 seconds");
}

#[test]
fn a_new_volume_begins_on_request() {
    let (mut rig, _count, _published) = counting(|_| ());
    rig.tick();
    rig.order(Order::NewVolume);
    rig.tick();
    let base = rig.archives()[0].clone();
    assert_eq!(volumes(&base), 2);
    rig.finish();
}

#[test]
fn no_archive_is_larger_than_a_quarter_of_what_is_retained() {
    let (mut rig, _count, _published) =
        counting(|settings| settings.reloadable.retention.size = Some(40_000));
    for _ in 0..1_000 {
        rig.tick();
        rig.tidy();
    }
    let directory = rig.host_directory();
    let all = names(&directory);
    let bytes: u64 = all.iter().map(|name| fs::metadata(directory.join(name)).unwrap().len()).sum();
    assert!(bytes <= 40_000 + 1_000, "{bytes} bytes in {all:?}");
    let archives = all.iter().filter(|name| is(name, "meta")).count();
    assert!((3..=5).contains(&archives), "{all:?}");
    assert!(rig.archives().len() > 6, "{:?}", rig.archives());
}

#[test]
fn clock_jump_deletes_no_archive_at_once() {
    let (mut rig, _count, _published) = counting(|settings| delete_after(settings, 2 * DAY));
    for _ in 0..2 {
        rig.tick();
        rig.order(Order::NewArchive);
        rig.skip(Duration::from_secs(60));
        rig.tidy();
    }
    let all = names(&rig.host_directory());
    assert_eq!(all.iter().filter(|name| is(name, "meta")).count(), 2);
    rig.set_clock_forward(4_000 * DAY);
    for _ in 0..3 {
        rig.tick();
        rig.tidy();
    }
    let left = names(&rig.host_directory());
    assert!(all.iter().all(|name| left.contains(name)), "{left:?} of {all:?}");
    rig.skip(3 * DAY);
    rig.tidy();
    let left = names(&rig.host_directory());
    assert!(!all.iter().any(|name| left.contains(name)), "{left:?}");
}

#[test]
fn archives_are_deleted_by_age_but_not_the_current_one() {
    let (mut rig, _count, _published) = counting(|settings| delete_after(settings, 2 * DAY));
    for _ in 0..4 {
        rig.tick();
        rig.skip(DAY);
    }
    rig.tick();
    rig.tidy();
    let kept: Vec<_> = names(&rig.host_directory());
    let metas: Vec<_> = kept.iter().filter(|name| is(name, "meta")).collect();
    // The fourth ended 24 hours and some seconds ago, the fifth is current.
    assert_eq!(metas, ["20231117.22.13.meta", "20231118.22.13.meta"]);
    assert_eq!(kept.len(), 6, "{kept:?}");
    rig.skip(9 * DAY);
    rig.tidy();
    assert_eq!(names(&rig.host_directory()).len(), 3, "the current one stays");
}

#[test]
fn newest_archive_stays_when_others_fill_the_disk() {
    let (mut rig, _count, _published) = counting(|settings| {
        settings.reloadable.retention.free = Some(u64::MAX);
        delete_after(settings, 2 * DAY);
    });
    for _ in 0..3 {
        rig.tick();
        rig.order(Order::NewArchive);
    }
    rig.tidy();
    let is_newest =
        |names: &[String]| names.iter().all(|name| name.starts_with("20231114.22.13-02."));
    let left = names(&rig.host_directory());
    assert!(left.len() == 3 && is_newest(&left), "{left:?}");
    // When it is too old it is deleted like any other.
    rig.skip(9 * DAY);
    rig.tidy();
    assert_eq!(names(&rig.host_directory()), [""; 0]);
}

#[test]
fn files_of_other_programs_are_neither_counted_nor_deleted() {
    let (mut rig, _count, _published) =
        counting(|settings| settings.reloadable.retention.size = Some(1));
    rig.tick();
    let others = ["notes.txt", "mine.meta", "20231114.config"];
    for name in others {
        fs::write(rig.host_directory().join(name), "x".repeat(5_000)).unwrap();
    }
    rig.order(Order::NewArchive);
    rig.tidy();
    let mut expected = others.map(str::to_owned);
    expected.sort();
    assert_eq!(names(&rig.host_directory()), expected);
}

#[test]
fn closed_volumes_are_compressed_when_they_are_old_enough() {
    for (method, suffix) in [(Compression::Xz, "xz"), (Compression::Zstd, "zst")] {
        let (mut rig, count, _published) =
            counting(|settings| settings.reloadable.compression.method = Some(method));
        for value in 1..=3 {
            count.add(1);
            rig.tick();
            if value < 3 {
                rig.order(Order::NewVolume);
            }
        }
        rig.compress_after(Duration::from_secs(500));
        let volumes = |rig: &Rig| {
            let mut all = names(&rig.host_directory());
            all.retain(|name| !is(name, "meta") && !is(name, "index"));
            all
        };
        assert_eq!(volumes(&rig), ["20231114.22.13.0", "20231114.22.13.1", "20231114.22.13.2"]);
        rig.compress_after(Duration::from_secs(601));
        let packed = [0, 1].map(|number| format!("20231114.22.13.{number}.{suffix}"));
        assert_eq!(volumes(&rig)[..2], packed);
        assert_eq!(volumes(&rig)[2], "20231114.22.13.2", "this one is being written");
        count.add(1);
        rig.tick();
        let log = rig.finish();
        assert_eq!(log.series("mmv.app.count"), u64s(&[1, 2, 3, 4]));
    }
}

#[test]
fn much_metadata_of_a_closed_archive_is_compressed_after_its_volumes() {
    let (mut rig, count, _published) =
        counting(|settings| settings.reloadable.compression.method = Some(Compression::Zstd));
    let mut counted = 0;
    let mut tick = |rig: &mut Rig| {
        count.add(1);
        counted += 1;
        rig.tick();
    };
    tick(&mut rig);
    rig.order(Order::NewArchive);
    tick(&mut rig);
    let large = rig.archives()[1].clone();
    let many = Registry::builder("many").directory(rig.mmv_dir()).build().unwrap();
    for number in 0..1_200 {
        let metric = many.counter(format!("m{number}"));
        let _counter = metric.help("x".repeat(240)).build().unwrap();
    }
    // The loader pauses after work, by the clock of the machine.
    while fs::metadata(large.with_added_extension("meta")).unwrap().len() < 256 << 10 {
        sleep(Duration::from_millis(10));
        tick(&mut rig);
    }
    rig.order(Order::NewArchive);
    tick(&mut rig);
    rig.compress_after(DAY);
    let mut metadata = names(&rig.host_directory());
    metadata.retain(|name| name.contains(".meta"));
    let expected = ["20231114.22.13-01.meta.zst", "20231114.22.13-02.meta", "20231114.22.13.meta"];
    assert_eq!(metadata, expected, "much, what is being written, and little");
    assert_eq!(check(&large).unwrap().findings(), []);
    assert_eq!(entries_of(&large).len(), counted - 2, "one in each of the others");
    add_zeros(&large.with_added_extension("index"));
    rig.restart();
    assert_eq!(check(&large).unwrap().findings(), [], "its index is made again");
    assert!(large.with_added_extension("meta.zst").exists());
}

#[test]
fn nothing_is_compressed_unless_configured() {
    let (mut rig, _count, _published) =
        counting(|settings| settings.reloadable.compression.method = None);
    rig.tick();
    rig.order(Order::NewArchive);
    rig.compress_after(DAY);
    assert_eq!(names(&rig.host_directory())[0], "20231114.22.13.0");
}

/// Changes a closed archive into one of a killed agent: with only a part of its last
/// record, and without an index entry for the end.
fn tear(base: &Path, cut: u64) {
    for (suffix, cut) in [("0", cut), ("index", 32)] {
        let path = format!("{}.{suffix}", base.display());
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() - cut).unwrap();
    }
}

#[test]
fn an_archive_of_a_killed_agent_is_repaired_at_the_next_start() {
    for cut in [0, 10] {
        let (mut rig, count, _published) = counting(|_| ());
        for _ in 0..3 {
            count.add(1);
            rig.tick();
        }
        let base = rig.archives()[0].clone();
        rig.order(Order::NewArchive);
        tear(&base, cut);
        let before = check(&base).unwrap();
        rig.restart();
        assert_eq!(check(&base).unwrap().findings(), [], "was {:?}", before.findings());
        let last = Archive::open(&base).unwrap();
        let end = last.index().entries().last().unwrap().timestamp;
        assert_eq!(end, last.end(), "the index knows the end");
        assert_eq!(entries_of(&base).len(), if cut > 0 { 2 } else { 3 });
        let modified = |base: &Path| {
            fs::metadata(format!("{}.index", base.display())).unwrap().modified().unwrap()
        };
        let then = modified(&base);
        rig.restart();
        assert_eq!(modified(&base), then);
    }
}

/// Appends zeros to the index, more entries than it has, as a power failure may.
fn add_zeros(index: &Path) {
    let mut bytes = fs::read(index).unwrap();
    bytes.extend([0; 320]);
    fs::write(index, bytes).unwrap();
}

#[test]
fn zeros_in_an_index_do_not_make_an_archive_old() {
    let (mut rig, _count, _published) = counting(|settings| delete_after(settings, 2 * DAY));
    for _ in 0..2 {
        (0..3).for_each(|_| rig.tick());
        rig.order(Order::NewArchive);
    }
    let base = rig.archives()[0].clone();
    // A housekeeper that compresses for a second reads the undamaged index meanwhile.
    compress_volumes(&base, Compression::Zstd).unwrap();
    let volume = PathBuf::from(format!("{}.0.zst", base.display()));
    let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_060);
    OpenOptions::new().append(true).open(volume).unwrap().set_modified(written).unwrap();
    add_zeros(&PathBuf::from(format!("{}.index", base.display())));
    let metadata = PathBuf::from(format!("{}.meta", base.display()));
    for (days, kept) in [(0, true), (1, true), (2, false)] {
        rig.tidy();
        assert_eq!(metadata.exists(), kept, "after {days} days");
        rig.skip(DAY + Duration::from_secs(30));
    }
    let error = rig.last_error().unwrap();
    assert!(error.contains(".index: the index is damaged"), "{error}");
}

#[test]
fn damaged_index_of_compressed_archive_is_rebuilt() {
    let (mut rig, count, _published) =
        counting(|settings| settings.reloadable.compression.method = Some(Compression::Zstd));
    for _ in 0..3 {
        count.add(1);
        rig.tick();
    }
    let base = rig.archives()[0].clone();
    rig.order(Order::NewArchive);
    rig.compress_after(DAY);
    let index = PathBuf::from(format!("{}.index", base.display()));
    add_zeros(&index);
    rig.restart();
    assert_eq!(check(&base).unwrap().findings(), []);
    let archive = Archive::open(&base).unwrap();
    assert_eq!(archive.index().entries().last().unwrap().timestamp, archive.end());
    assert_eq!(entries_of(&base).len(), 3);
    let rebuilt = fs::metadata(&index).unwrap().modified().unwrap();
    rig.restart();
    assert_eq!(fs::metadata(&index).unwrap().modified().unwrap(), rebuilt);
}

#[test]
fn an_archive_without_a_record_is_removed_at_the_next_start() {
    let (mut rig, _count, _published) = counting(|_| ());
    rig.tick();
    let base = rig.archives()[0].clone();
    rig.order(Order::NewArchive);
    for (suffix, label) in [("0", 808), ("meta", 808), ("index", 808)] {
        let file = OpenOptions::new().write(true).open(format!("{}.{suffix}", base.display()));
        file.unwrap().set_len(label).unwrap();
    }
    fs::write(rig.host_directory().join("20231114.22.13.0.xz.unfinished"), "").unwrap();
    rig.restart();
    assert_eq!(names(&rig.host_directory()), [""; 0]);
}

#[test]
fn volume_is_replaced_only_by_an_equal_compressed_one() {
    for cut in [0, 40] {
        let (mut rig, count, _published) = counting(|_| ());
        count.add(1);
        rig.tick();
        rig.order(Order::NewVolume);
        rig.tick();
        let plain = rig.host_directory().join("20231114.22.13.0");
        let bytes = fs::read(&plain).unwrap();
        rig.compress_after(DAY);
        // The agent was killed while both existed, or another program wrote the other.
        fs::write(&plain, &bytes).unwrap();
        let packed = rig.host_directory().join("20231114.22.13.0.zst");
        let whole = fs::read(&packed).unwrap();
        fs::write(&packed, &whole[..whole.len() - cut]).unwrap();
        rig.restart();
        assert_eq!(plain.exists(), cut > 0);
        rig.compress_after(DAY);
        assert!(!plain.exists());
        assert_eq!(fs::read(&packed).unwrap(), whole);
    }
}

#[test]
fn files_of_an_archive_that_is_being_created_are_not_leftovers() {
    let (mut rig, _count, _published) = counting(|_| ());
    rig.clean_up_around(|rig| {
        rig.tick();
        // As in a listing that began before the metadata existed.
        let metadata = rig.host_directory().join("20231114.22.13.meta");
        fs::rename(&metadata, rig.host_directory().join("aside")).unwrap();
    });
    let expected = ["20231114.22.13.0", "20231114.22.13.index", "aside"];
    assert_eq!(names(&rig.host_directory()), expected);
}

#[test]
fn a_new_archive_has_no_name_that_the_clean_up_removes() {
    let (mut rig, _count, _published) = counting(|_| ());
    rig.tick();
    rig.order(Order::NewArchive);
    let left = ["0", "index", "meta.unfinished"]
        .map(|suffix| rig.host_directory().join(format!("20231114.22.13-01.{suffix}")));
    for file in &left {
        fs::write(file, "").unwrap();
    }
    rig.restart_and(|rig| {
        // The clean-up has removed them, and lists the directory again after the first record.
        for file in &left {
            fs::remove_file(file).unwrap();
        }
        rig.tick();
    });
    assert_eq!(rig.archives()[0].file_name().unwrap(), "20231114.22.13-02");
    rig.tick();
    assert_eq!(rig.finish().entries.len(), 2);
}

#[test]
fn programs_without_an_archive_are_forgotten() {
    let (mut rig, _count, published) = counting(|settings| delete_after(settings, 2 * DAY));
    let (_other, _others) = counter_file(&rig, "other", "count");
    rig.tick();
    published.withdraw();
    for _ in 0..4 {
        rig.tick();
        rig.tidy();
        rig.skip(DAY);
    }
    rig.tick();
    rig.tidy();
    // The housekeeper has determined the oldest archive; the next tick uses it.
    let (_new, _published) = counter_file(&rig, "new", "count");
    rig.tick();
    rig.tidy();
    assert_eq!(rig.remembered(), ["new", "other"]);
}

#[test]
fn records_are_synced_as_often_as_configured() {
    for sync in [SyncPolicy::Never, SyncPolicy::Always, SyncPolicy::Every(Duration::from_secs(2))] {
        let (mut rig, _count, _published) = counting(|settings| settings.reloadable.sync = sync);
        (0..7).for_each(|_| rig.tick());
        let expected = match sync {
            SyncPolicy::Never => 0,
            SyncPolicy::Always => 7,
            // Two, four and six seconds after the start.
            SyncPolicy::Every(_) => 3,
        };
        assert_eq!(rig.synced(), expected, "{sync:?}");
        rig.order(Order::Sync);
        assert_eq!(rig.synced(), expected + 1);
        rig.finish();
    }
}
