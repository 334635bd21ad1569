//! Small files that decompress to 10 GB of zeros, or claim to, and files of a terabyte that
//! take no room on the disk: no command takes much time or memory, and each says what is wrong or
//! passes by it.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use test_archives::Builder;
use wait4::{ResUse, Wait4 as _};

#[cfg(feature = "view")]
use crate::view_server::Server;

const COMMANDS: [&[&str]; 19] = [
    &["info"],
    &["dump", "-a"],
    &["dump", "-r"],
    &["events"],
    &["check"],
    &["report", "a"],
    &["summary", "a"],
    &["plot", "a"],
    &["explain", "a"],
    &["compare", "--before", "0s..30s", "--after", "30s..60s"],
    &["snapshot", "-o", "new.html"],
    &["follow", "-s", "1"],
    &["extract", "-o", "new"],
    &["reduce", "-o", "new"],
    &["convert", "-o", "new", "--compress", "zstd"],
    &["convert", "-o", "new", "--rules", "rules"],
    &["repair", "-o", "new"],
    &["repair", "--in-place"],
    &["repair", "--index"],
];

/// Limit on the processor time of a build without optimization, in seconds. The time on a clock
/// would include the wait for a processor, and for a disk that other programs write to.
const SECONDS: u64 = 20;
/// In KB.
const MEMORY: u64 = 256 << 10;
/// Bytes that a file decompresses to.
const ZEROS: usize = 10 << 30;
const PART: usize = 1 << 20;

fn run(directory: &Path, arguments: &[&str]) -> ResUse {
    let (command, options) = arguments.split_first().unwrap();
    fs::write(directory.join("rules"), "metric a.b { type -> DOUBLE name -> a.c }").unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    process.arg(command).arg("a").args(options).current_dir(directory);
    process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = process.spawn().unwrap();
    // The kernel ends the command when its time is over.
    let limit = Rlimit { current: Some(SECONDS), maximum: Some(SECONDS) };
    prlimit(Some(Pid::from_child(&child)), Resource::Cpu, limit).unwrap();
    child.wait4().unwrap()
}

/// Returns bytes without a pattern, so that the file is as large as one with 10 GB may be.
fn noise() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..PART / 8)
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_ne_bytes()
        })
        .collect()
}

/// Packs the parts of a bomb: records, zeros, noise. Returns each with its length when unpacked.
fn parts(volume: &[u8], pack: impl Fn(&[u8]) -> Vec<u8>) -> Vec<(Vec<u8>, usize)> {
    let part = |bytes: &[u8]| (pack(bytes), bytes.len());
    let mut parts = vec![part(volume)];
    parts.extend(std::iter::repeat_n(part(&vec![0; PART]), ZEROS / PART));
    parts.extend(std::iter::repeat_n(part(&noise()), 11));
    parts
}

fn joined(parts: &[(Vec<u8>, usize)]) -> Vec<u8> {
    parts.iter().flat_map(|(part, _)| part).copied().collect()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 1).unwrap()
}

fn listed_frames(volume: &[u8]) -> Vec<u8> {
    listed(&parts(volume, zstd))
}

/// Packs a bomb in which a record of a gigabyte of zeros has both its length words.
fn long_record(volume: &[u8]) -> Vec<u8> {
    let mut parts = parts(volume, zstd);
    parts.drain(1..=ZEROS / PART - 1024);
    let word = (1_u32 << 30).to_be_bytes();
    let (mut first, mut last) = (vec![0; PART], vec![0; PART]);
    first[..4].copy_from_slice(&word);
    last[PART - 4..].copy_from_slice(&word);
    (parts[1].0, parts[1024].0) = (zstd(&first), zstd(&last));
    listed(&parts)
}

fn listed(parts: &[(Vec<u8>, usize)]) -> Vec<u8> {
    let mut out = joined(parts);
    let table: Vec<u8> = parts
        .iter()
        .flat_map(|(part, len)| [part.len() as u32, *len as u32])
        .flat_map(u32::to_le_bytes)
        .collect();
    out.extend(0x184d_2a5e_u32.to_le_bytes());
    out.extend((table.len() as u32 + 9).to_le_bytes());
    out.extend(table);
    out.extend((parts.len() as u32).to_le_bytes());
    out.push(0);
    out.extend(0x8f92_eab1_u32.to_le_bytes());
    out
}

fn frames(volume: &[u8]) -> Vec<u8> {
    joined(&parts(volume, zstd))
}

/// Packs a frame of 10 GB in 330 KB, with a window of 512 MB, that claims to have these bytes.
fn one_frame(volume: &[u8], claimed: u64) -> Vec<u8> {
    const BLOCK: usize = 128 << 10;
    let mut out = zstd(volume);
    // Content size in eight bytes; a window of 2^29.
    out.extend([0x28, 0xb5, 0x2f, 0xfd, 0xc0, 19 << 3]);
    out.extend(claimed.to_le_bytes());
    let blocks = ZEROS / BLOCK;
    for block in 1..=blocks {
        // Type 1: one byte, repeated.
        let header = (BLOCK as u32) << 3 | 1 << 1 | u32::from(block == blocks);
        out.extend(&header.to_le_bytes()[..3]);
        out.push(0);
    }
    out
}

fn xz_blocks(volume: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
    encoder.write_all(volume).unwrap();
    encoder.flush().unwrap();
    // A stream of many blocks would have to be compressed: many streams of one block.
    let mut out = encoder.finish().unwrap();
    let pack = |bytes: &[u8]| {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let (zeros, noise) = (pack(&vec![0; 8 * PART]), pack(&noise()));
    (0..ZEROS / (8 * PART)).for_each(|_| out.extend(&zeros));
    (0..11).for_each(|_| out.extend(&noise));
    out
}

fn gzip(volume: &[u8]) -> Vec<u8> {
    joined(&parts(volume, |bytes| {
        let level = flate2::Compression::default();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }))
}

fn bzip2(volume: &[u8]) -> Vec<u8> {
    joined(&parts(volume, |bytes| {
        let level = bzip2::Compression::default();
        let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), level);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }))
}

/// Name and suffix of a bomb, and the function that makes it of a volume.
type Bomb = (&'static str, &'static str, fn(&[u8]) -> Vec<u8>);

const BOMBS: [Bomb; 9] = [
    ("frames that are listed", "zst", listed_frames),
    ("frames that are not", "zst", frames),
    ("a record of a gigabyte", "zst", long_record),
    ("one frame", "zst", |volume| one_frame(volume, ZEROS as u64)),
    ("a frame that claims an exabyte", "zst", |volume| one_frame(volume, 1 << 60)),
    ("frames in a frame", "zst", |volume| [zstd(volume), zstd(&frames(volume))].concat()),
    ("xz", "xz", xz_blocks),
    ("gzip", "gz", gzip),
    ("bzip2", "bz2", bzip2),
];

fn archive(pack: fn(&[u8]) -> Vec<u8>, suffix: &str, volume: &str) -> tempfile::TempDir {
    let directory = plain();
    let plain = directory.path().join("a").with_extension(volume);
    let packed = pack(&fs::read(&plain).unwrap());
    fs::remove_file(&plain).unwrap();
    fs::write(plain.with_extension(format!("{volume}.{suffix}")), packed).unwrap();
    directory
}

/// Writes an archive of two volumes.
fn plain() -> tempfile::TempDir {
    let row = |n| (n, [("a.b", n)]);
    let builder = Builder::new().metric("a.b", "i64 instant").rows((0..10).map(row));
    builder.volume().rows((10..20).map(row)).finish().into_parts().0
}

#[test]
#[ignore = "takes a minute of a processor where nothing is optimized: ci/slow runs it"]
fn no_command_is_slow_on_ten_gigabytes_of_zeros() {
    // Every command with every bomb takes minutes: in the short form each gets some.
    let long = std::env::var_os("MMV_LONG").is_some();
    let volumes: &[&str] = if long { &["0", "1"] } else { &["1"] };
    let mut failures = Vec::new();
    for (number, (what, suffix, pack)) in BOMBS.into_iter().enumerate() {
        let every = if long { 1 } else { 5 };
        let commands = COMMANDS.iter().skip(number % every).step_by(every);
        for (volume, arguments) in
            volumes.iter().flat_map(|v| commands.clone().map(move |c| (v, c)))
        {
            // Some commands change the archive.
            let directory = archive(pack, suffix, volume);
            failures.extend(failure(&format!("{what}, {volume}"), directory.path(), arguments));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Returns what a command used if that is too much, or if it was ended by a signal: it took too
/// long, or had a defect.
fn failure(what: &str, directory: &Path, arguments: &[&str]) -> Option<String> {
    let used = run(directory, arguments);
    let time = used.rusage.utime + used.rusage.stime;
    let memory = used.rusage.maxrss / 1024;
    let result = format!("{what}: {arguments:?}: {time:?}, {memory} KB");
    println!("{result}");
    (used.status.code().is_none() || memory >= MEMORY).then_some(result)
}

#[test]
fn no_command_is_slow_on_a_sparse_terabyte() {
    let long = std::env::var_os("MMV_LONG").is_some();
    let mut failures = Vec::new();
    for (number, part) in ["0", "1", "meta", "index"].into_iter().enumerate() {
        let every = if long { 1 } else { 2 };
        for arguments in COMMANDS.iter().skip(number % every).step_by(every) {
            let directory = plain();
            let file = directory.path().join("a").with_extension(part);
            let file = fs::File::options().write(true).open(file).unwrap();
            // Not every file system has files as large.
            if file.set_len(1 << 40).is_err() {
                file.set_len(1 << 33).unwrap();
            }
            failures.extend(failure(part, directory.path(), arguments));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Checks that a page reads its answers about 200 000 instances in parts: each takes more than a
/// kilobyte while it is read, and a pyramid of them none.
#[cfg(feature = "view")]
#[test]
#[ignore = "takes half a minute of a processor where nothing is optimized: ci/slow runs it"]
fn a_page_of_very_many_instances_takes_limited_memory() {
    const INSTANCES: usize = 200_000;
    const MOST: u64 = 450 << 10;
    let names: Vec<String> = (0..INSTANCES).map(|number| format!("instance {number}")).collect();
    let cells: Vec<String> = names.iter().map(|name| format!("a.jobs[{name}]")).collect();
    let archive = Builder::new()
        .metric("a.jobs", "u64 counter count")
        .instances("a.jobs", names.iter().map(String::as_str))
        .rows((0..12_u64).map(|second| (second, cells.iter().map(move |cell| (cell, second)))))
        .finish();
    let server = Server::start(&[archive.base().to_str().unwrap()]);
    let pmid = server.get("header").json()["header"]["metrics"][0]["of"][0].as_u64().unwrap();
    let answer = server.get(&format!("columns?of=0:{pmid}&from=0&to=12&columns=1000&raw=0"));
    // Of each three doubles and flags of eleven columns and more.
    assert_eq!(answer.status, 200);
    assert!(answer.body.len() > INSTANCES * 11 * 25, "{}", answer.body.len());
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let most: u64 = most.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    println!("{} MB of memory", most >> 10);
    assert!(most < MOST, "{} MB of memory", most >> 10);
}
