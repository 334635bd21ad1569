//! The attacks: each is a process of its own, of a user of its own or of both, which repeats it
//! until it is killed.

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mmv_writer::Registry;
use mmv_writer::pcp::{IndomMetricExt as _, RegistryExt as _};
use nix::fcntl::{FallocateFlags, Flock, FlockArg, fallocate};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::files::{self, Image, NO_PREFIX};
use super::honest::{CLUSTERS, RETURNING, STEADY};
use super::users::{ATTACKERS, HONEST, Process, become_user};
use crate::harness::dice::Dice;
use crate::harness::scratch::Scratch;

const DIRECTORY: &str = "MMV_STORM_DIRECTORY";
const ARCHIVES: &str = "MMV_STORM_ARCHIVES";
const NAME: &str = "MMV_STORM_ATTACK";
const SEED: &str = "MMV_STORM_SEED";
const READY: &str = "MMV_STORM_READY";

/// Attackers compute at a lower priority than the agent, which as a service has a control
/// group of its own: what is tested is what they do to it, not how they share processors.
const NICENESS: i32 = 10;

#[derive(Debug)]
struct Attacker {
    directory: PathBuf,
    archives: PathBuf,
    ready: PathBuf,
    dice: Dice,
}

impl Attacker {
    /// Reports that the attack has all that it needs.
    fn set_ready(&self) -> io::Result<()> {
        File::create(&self.ready).map(drop)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Attack {
    name: &'static str,
    user: u32,
    round: fn(&mut Attacker) -> io::Result<()>,
    pause: Duration,
}

const fn attack(
    name: &'static str,
    user: usize,
    milliseconds: u64,
    round: fn(&mut Attacker) -> io::Result<()>,
) -> Attack {
    let user = ATTACKERS[user];
    Attack { name, user, round, pause: Duration::from_millis(milliseconds) }
}

/// Computes without an attack, to compare with.
pub(super) const COMPUTE: Attack = attack("compute", 0, 0, compute);

/// All attacks. Those that need two users are there twice.
pub(super) const ALL: [Attack; 16] = [
    attack("instances", 0, 500, empty_instances),
    attack("values", 0, 2000, many_values),
    attack("terabytes", 1, 1000, terabytes),
    attack("claims", 0, 100, claims),
    attack("meanings", 0, 300, meanings),
    attack("meanings2", 1, 300, meanings),
    attack("tiny", 1, 100, tiny_files),
    attack("crowd", 0, 50, crowd),
    attack("generations", 1, 1, generations),
    attack("refused", 0, 5, refused),
    attack("come-and-go", 1, 1, come_and_go),
    attack("truncate", 0, 1, truncate),
    attack("odd", 1, 20, odd_files),
    attack("sockets", 0, 1, sockets),
    attack("half-open", 1, 100, half_open),
    attack("locks", 0, 200, locks),
];

/// The name of a file whose values take long to be read.
pub(super) const SLOW: &str = "slow";

/// Files whose values take long to be read, on a disk and in memory.
pub(super) const SLOW_ON_DISK: Attack = attack("slow-on-disk", 0, 0, values_that_move);
pub(super) const SLOW_IN_MEMORY: Attack = attack("slow-in-memory", 0, 0, values_that_vanish);

/// More files than anybody looks at, names that change faster than they can be looked at, and
/// more valid files than are opened at once.
pub(super) const EMPTY_FILES: Attack = attack("empty-files", 0, 20, empty_files);
pub(super) const RENAMES: Attack = attack("renames", 1, 0, renames);
pub(super) const VALID_FILES: Attack = attack("valid-files", 1, 100, valid_files);

/// Large files, whose pages are allocated and freed.
pub(super) const LARGE_FILES: Attack = attack("large-files", 0, 0, large_files);

/// The names of a file that a program would publish in, while it is away.
pub(super) const SQUAT: Attack = attack("squat", 0, 1, squat);

/// Links to the file of another user, as root where that is forbidden to users.
pub(super) const LINKS: Attack = Attack { user: 0, ..attack("links", 0, 1, links) };

/// All bytes and all inodes of the file system that a user may have.
pub(super) const FILL: Attack = attack("fill", 0, 0, fill);

fn named(name: &str) -> Attack {
    let slow = [&COMPUTE, &SLOW_ON_DISK, &SLOW_IN_MEMORY, &LARGE_FILES];
    let crowds = [&EMPTY_FILES, &RENAMES, &VALID_FILES];
    let others = slow.into_iter().chain(crowds).chain([&SQUAT, &LINKS, &FILL]);
    let found = ALL.iter().chain(others).find(|attack| attack.name == name);
    *found.unwrap_or_else(|| panic!("no attack {name}"))
}

/// Returns the attacks of these names, which commas separate.
pub(super) fn of_names(names: &str) -> Vec<Attack> {
    names.split(',').map(named).collect()
}

pub(super) fn ready_directory(scratch: &Scratch) -> PathBuf {
    scratch.path().join("ready")
}

impl Attack {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn start(&self, scratch: &Scratch, seed: u64) -> Process {
        let text = |path: PathBuf| path.into_os_string().into_string().expect("UTF-8");
        let (directory, archives) = (text(scratch.mmv_dir()), text(scratch.archives()));
        let (ready, seed) = (text(ready_directory(scratch)), seed.to_string());
        let variables = [
            (DIRECTORY, &*directory),
            (ARCHIVES, &*archives),
            (NAME, self.name),
            (SEED, &*seed),
            (READY, &*ready),
        ];
        Process::start("storm::attacks::attacker", self.user, NICENESS, &variables)
    }

    pub(super) fn has_begun(&self, scratch: &Scratch) -> bool {
        ready_directory(scratch).join(self.name).exists()
    }
}

#[test]
#[ignore = "an attacker of the storm, and no test"]
fn attacker() {
    become_user();
    let variable = |name| std::env::var(name).unwrap_or_else(|_| panic!("no {name}"));
    let attack = named(&variable(NAME));
    let seed = variable(SEED).parse().expect("a number");
    let (directory, archives) = (variable(DIRECTORY).into(), variable(ARCHIVES).into());
    let ready = Path::new(&variable(READY)).join(attack.name);
    let mut attacker = Attacker { directory, archives, ready, dice: Dice::new(seed) };
    loop {
        // Shares, limits and other attackers are in the way: go on.
        let _ = (attack.round)(&mut attacker);
        attacker.set_ready().expect("a file that says so");
        sleep(attack.pause);
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as all attacks")]
fn compute(attacker: &mut Attacker) -> io::Result<()> {
    let end = Instant::now() + Duration::from_millis(200);
    while Instant::now() < end {
        std::hint::black_box(attacker.dice.below(1000));
    }
    Ok(())
}

/// Publishes six sparse files of millions of empty instances, with labels to look up among them.
fn empty_instances(attacker: &mut Attacker) -> io::Result<()> {
    let image = files::empty_instances(&mut attacker.dice);
    image.publish(&attacker.directory, &format!("instances{}", attacker.dice.below(6)))
}

/// Publishes one of eight files of 200 000 values, in place of the one before.
fn many_values(attacker: &mut Attacker) -> io::Result<()> {
    let name = format!("values{}", attacker.dice.below(8));
    let registry = Registry::builder(name).directory(&attacker.directory).lenient();
    let registry = registry.replace_running().sealed().build().map_err(io::Error::other)?;
    let many = (0..200_000).map(|number| format!("i{number}"));
    let many: Vec<String> = many.collect();
    let domain = registry.indom("many").names(many.iter().map(String::as_str));
    let domain = domain.build().map_err(io::Error::other)?;
    let values = registry.counter("v").build_instances(&domain);
    let values = values.map_err(io::Error::other)?;
    // It stays when this process forgets it.
    std::mem::forget(registry.publish().map_err(io::Error::other)?);
    values.iter().for_each(mmv_writer::Counter::inc);
    Ok(())
}

fn terabytes(attacker: &mut Attacker) -> io::Result<()> {
    for _ in 0..100 {
        let number = attacker.dice.below(1000);
        let values_at = (1 << 40) + (number << 16);
        let image = Image { values_at, ..Image::new(&[("a", number)]) };
        image.publish(&attacker.directory, &format!("terabyte{number}"))?;
    }
    Ok(())
}

/// Takes names, branches and clusters of the honest programs, and of the agent, in files that
/// sort before theirs; and the file of the one that returns, while it is away.
fn claims(attacker: &mut Attacker) -> io::Result<()> {
    let directory = &attacker.directory;
    let forged: [&[(&str, u64)]; 6] = [
        &[("mmv.honest.now", 666), ("mmv.honest.constant", 666), ("mmv.returning.now", 666)],
        &[("mmv.honest", 666), ("mmv.returning", 666)],
        &[("mmv.honest.now.more", 666), ("mmv.honest.by.red", 666)],
        &[("mmv.honest.other", 666), ("mmv.returning.other.deep", 666)],
        &[("mmv.agent.records.lost", 666), ("mmv.agent.events", 666)],
        &[("mmv", 666)],
    ];
    for (number, counters) in forged.iter().enumerate() {
        for (_, cluster) in CLUSTERS {
            let image = Image { flags: NO_PREFIX, cluster, ..Image::new(counters) };
            image.publish(directory, &format!("a_claim{number}_{cluster}"))?;
        }
    }
    for (name, cluster) in CLUSTERS {
        let image = Image { cluster, ..Image::new(&[("now", 666), ("constant", 666)]) };
        image.publish(directory, &format!("a_cluster_{cluster}"))?;
        if name == RETURNING && !directory.join(RETURNING).exists() {
            image.publish(directory, name)?;
            sleep(Duration::from_millis(attacker.dice.below(50)));
            fs::remove_file(directory.join(name))?;
        }
        // Refused in a directory for all users; it must stay so.
        assert!(image.publish(directory, STEADY).is_err(), "the directory is not sticky");
    }
    Ok(())
}

/// Publishes a name that means something else each time, of two users.
fn meanings(attacker: &mut Attacker) -> io::Result<()> {
    let user = nix::unistd::geteuid();
    // PM_TYPE_32, U32, 64 and U64 of pmapi.h.
    let value_type = attacker.dice.below(4) as u32;
    let counters = [("shared.meaning", 1), ("mmv.honest.meaning", 2)];
    let image = Image { flags: NO_PREFIX, value_type, ..Image::new(&counters) };
    image.publish(&attacker.directory, &format!("meaning{user}"))
}

fn tiny_files(attacker: &mut Attacker) -> io::Result<()> {
    for _ in 0..200 {
        let number = attacker.dice.below(2100);
        let name = format!("tiny{number}");
        Image::new(&[("a", number)]).publish(&attacker.directory, &name)?;
    }
    Ok(())
}

/// Writes twelve thousand files, which no agent can harvest all.
fn crowd(attacker: &mut Attacker) -> io::Result<()> {
    for _ in 0..100 {
        let number = attacker.dice.below(12_000);
        fs::write(attacker.directory.join(format!("crowd{number}")), b"MMV\0")?;
    }
    Ok(())
}

/// Publishes a hundred files of many metrics, whose generations change each millisecond.
fn generations(attacker: &mut Attacker) -> io::Result<()> {
    let file = attacker.dice.below(100);
    let path = attacker.directory.join(format!("generation{file}"));
    if !path.exists() {
        let names: Vec<String> = (0..64).map(|number| format!("m{number}")).collect();
        let counters: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        Image::new(&counters).publish(&attacker.directory, &format!("generation{file}"))?;
    }
    let file = File::options().write(true).open(path)?;
    (0..10).try_for_each(|_| files::flip(&file, 1 + attacker.dice.below(1 << 30)))
}

fn refused(attacker: &mut Attacker) -> io::Result<()> {
    let mut image = files::empty_instances(&mut attacker.dice);
    // The last section is not within the file.
    image.len -= files::INSTANCE as u64;
    image.publish(&attacker.directory, "refused")
}

fn come_and_go(attacker: &mut Attacker) -> io::Result<()> {
    let name = format!("guest{}", attacker.dice.below(1 << 30));
    Image::new(&[("a", 1)]).publish(&attacker.directory, &name)?;
    fs::remove_file(attacker.directory.join(name))
}

fn truncate(attacker: &mut Attacker) -> io::Result<()> {
    let name = format!("short{}", attacker.dice.below(20));
    Image::new(&[("a", 1), ("b", 2), ("c", 3)]).publish(&attacker.directory, &name)?;
    sleep(Duration::from_millis(attacker.dice.below(20)));
    let file = File::options().write(true).open(attacker.directory.join(name))?;
    file.set_len(attacker.dice.below(64 << 10))
}

/// Makes entries that are not readable files, under names of all kinds.
fn odd_files(attacker: &mut Attacker) -> io::Result<()> {
    let number = attacker.dice.below(200);
    let path = attacker.directory.join(format!("odd{number}\n\u{1b}[2J\u{202e}"));
    if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        fs::remove_dir(&path)?;
    } else {
        let _ = fs::remove_file(&path);
    }
    match attacker.dice.below(6) {
        0 => Ok(mkfifo(&path, Mode::S_IRWXU | Mode::S_IRWXO)?),
        1 => fs::create_dir(&path),
        2 => symlink(&path, &path),
        3 => symlink(attacker.directory.join(STEADY), &path),
        4 => {
            fs::write(&path, b"MMV\0")?;
            fs::set_permissions(&path, Permissions::from_mode(0o0))
        }
        _ => fs::hard_link(attacker.directory.join("short1"), &path),
    }
}

/// Makes fifty thousand empty files, two of which change their names all the time.
fn empty_files(attacker: &mut Attacker) -> io::Result<()> {
    const COUNT: u64 = 50_000;
    let path = |number: u64| attacker.directory.join(format!("empty{number:05}"));
    let last = path(COUNT);
    if !last.exists() {
        for number in 0..=COUNT {
            File::create(path(number))?;
        }
    }
    let other = attacker.directory.join("an empty file");
    fs::rename(path(0), &other)?;
    fs::rename(&other, path(0))
}

fn renames(attacker: &mut Attacker) -> io::Result<()> {
    let (one, other) = (attacker.directory.join("one"), attacker.directory.join("other"));
    File::create(&one)?;
    attacker.set_ready()?;
    for _ in 0..50_000 {
        fs::rename(&one, &other)?;
        fs::rename(&other, &one)?;
    }
    Ok(())
}

/// Publishes thousands of valid files, one of which is replaced now and then. With debug
/// assertions, hundreds: a catalog of thousands takes seconds then.
fn valid_files(attacker: &mut Attacker) -> io::Result<()> {
    const COUNT: u64 = if cfg!(debug_assertions) { 500 } else { 5_000 };
    let image = Image::new(&[("a", 1)]);
    let name = |number: u64| format!("valid{number}");
    if attacker.directory.join(name(COUNT - 1)).exists() {
        return image.publish(&attacker.directory, &name(attacker.dice.below(COUNT)));
    }
    (0..COUNT).try_for_each(|number| image.publish(&attacker.directory, &name(number)))
}

/// Publishes values each on a page of its own, which the file system has to find again each time:
/// a block before them is cut out and put in again.
fn values_that_move(attacker: &mut Attacker) -> io::Result<()> {
    const COUNT: u32 = 5_000;
    const STRIDE: u64 = 128 << 10;
    const BLOCK: i64 = 4096;
    let file = files::publish_spread(&attacker.directory, SLOW, COUNT, STRIDE)?;
    // Until it is harvested.
    sleep(Duration::from_secs(1));
    attacker.set_ready()?;
    let at = (files::SPREAD_VALUES_AT - 4096).cast_signed();
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        fallocate(&file, FallocateFlags::FALLOC_FL_COLLAPSE_RANGE, at, BLOCK)?;
        fallocate(&file, FallocateFlags::FALLOC_FL_INSERT_RANGE, at, BLOCK)?;
    }
    Ok(())
}

/// Publishes values each on a page of its own, all of which but the first and last are taken
/// away.
fn values_that_vanish(attacker: &mut Attacker) -> io::Result<()> {
    const COUNT: u32 = 25_000;
    const STRIDE: u64 = 4096;
    let file = files::publish_spread(&attacker.directory, SLOW, COUNT, STRIDE)?;
    sleep(Duration::from_secs(1));
    attacker.set_ready()?;
    let at = (files::SPREAD_VALUES_AT + STRIDE).cast_signed();
    let len = (u64::from(COUNT - 2) * STRIDE).cast_signed();
    let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        fallocate(&file, flags, at, len)?;
    }
    Ok(())
}

/// Makes three files of 1.2 GB on the file system of the directory, all pages of which are
/// allocated and freed again; smaller ones where memory is short.
fn large_files(attacker: &mut Attacker) -> io::Result<()> {
    const LARGEST: i64 = 1200 << 20;
    let memory = fs::read_to_string("/proc/meminfo")?;
    let available = memory.lines().find_map(|line| {
        let kilobytes = line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?;
        kilobytes.parse::<i64>().ok()
    });
    let len = LARGEST.min(available.map_or(0, |kilobytes| (kilobytes << 10) / 8));
    let punch = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    for number in 0..3 {
        let file = File::create(attacker.directory.join(format!("large{number}")))?;
        fallocate(&file, FallocateFlags::empty(), 0, len)?;
        attacker.set_ready()?;
        fallocate(&file, punch, 0, len)?;
    }
    Ok(())
}

/// Takes the names under which the program that returns could publish, one after the other.
fn squat(attacker: &mut Attacker) -> io::Result<()> {
    let names = [RETURNING.to_owned(), format!("{RETURNING}.{HONEST}")];
    let further = (2..20).map(|number| format!("{RETURNING}.{HONEST}.{number}"));
    for name in names.into_iter().chain(further) {
        let path = attacker.directory.join(&name);
        if !path.exists() {
            return Image::new(&[("now", 666), ("constant", 666)])
                .publish(&attacker.directory, &name);
        }
    }
    Ok(())
}

/// Makes thousands of names of one file, two of which change all the time.
fn links(attacker: &mut Attacker) -> io::Result<()> {
    const COUNT: u64 = 5_000;
    let path = |number: u64| attacker.directory.join(format!("a_link{number}"));
    if !path(COUNT - 1).exists() {
        for number in 0..COUNT {
            fs::hard_link(attacker.directory.join(STEADY), path(number))?;
        }
    }
    let other = attacker.directory.join("another_link");
    fs::rename(path(0), &other)?;
    fs::rename(&other, path(0))
}

/// Writes bytes until there is no room, and files until there are no inodes; then frees both.
fn fill(attacker: &mut Attacker) -> io::Result<()> {
    let path = |number: u64| attacker.directory.join(format!("fill{number}"));
    let mut file = File::create(path(0))?;
    while file.write_all(&[1; 4096]).is_ok() {}
    let full = (1..100_000).find(|number| File::create(path(*number)).is_err());
    attacker.set_ready()?;
    sleep(Duration::from_millis(1000 + attacker.dice.below(1000)));
    for number in 0..full.unwrap_or(0) {
        fs::remove_file(path(number))?;
    }
    Ok(())
}

fn sockets(attacker: &mut Attacker) -> io::Result<()> {
    let request: &[u8] = match attacker.dice.below(3) {
        0 => b"{}\n",
        1 => b"\n",
        _ => b"\xff\x00{{{{",
    };
    for path in sockets_in(&attacker.archives)? {
        let Ok(mut stream) = UnixStream::connect(path) else { continue };
        stream.set_read_timeout(Some(Duration::from_millis(5)))?;
        let _ = stream.write_all(request);
        let _ = stream.read(&mut [0; 100]);
    }
    Ok(())
}

/// Opens connections that say nothing and read nothing, many at a time.
fn half_open(attacker: &mut Attacker) -> io::Result<()> {
    let mut open = Vec::new();
    for path in sockets_in(&attacker.archives)? {
        for _ in 0..200 {
            let Ok(stream) = UnixStream::connect(&path) else { break };
            open.push(stream);
        }
    }
    sleep(Duration::from_millis(attacker.dice.below(3000)));
    Ok(())
}

fn sockets_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = |directory: &Path| -> io::Result<Vec<PathBuf>> {
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect()
    };
    let mut all = Vec::new();
    for path in entries(directory)? {
        if path.is_dir() {
            all.extend(entries(&path)?);
        }
    }
    all.retain(|path| path.extension().is_some_and(|suffix| suffix == "sock"));
    Ok(all)
}

/// Locks on everything that can be opened, for a while.
fn locks(attacker: &mut Attacker) -> io::Result<()> {
    let mut held = Vec::new();
    let mut directories = vec![attacker.archives.clone(), attacker.directory.clone()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)?.flatten().take(500) {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
            } else if entry.file_type()?.is_file()
                && let Ok(file) = File::open(path)
                && let Ok(lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            {
                held.push(lock);
            }
        }
    }
    sleep(Duration::from_millis(attacker.dice.below(2000)));
    Ok(())
}
