//! The targets, on seeds that were changed at random, for `FUZZ_SECONDS` (1)
//! each. This needs no more than a Rust compiler.
//!
//! Changes are the same in every run, so a failing input is found again. It is also
//! kept in `fuzz/artifacts/`.

use mmv_format::view::{Contents, Limits};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs, panic};

/// No input may take longer.
const MOST_TIME: Duration = Duration::from_secs(10);
/// Words that are wrong in an interesting way more often than others.
const WORDS: [u32; 8] = [0, 1, 8, 0x7f_ffff, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX];

#[test]
fn growing_seed_has_a_value_that_is_not_announced() {
    let bytes = fuzz::seeds::growing_file();
    let values = |writer_has_ended| {
        let limits = Limits { writer_has_ended, ..Limits::default() };
        let contents = Contents::read_from(&bytes[..], bytes.len() as u64, &limits).unwrap();
        assert_eq!(contents.skipped, []);
        contents.values.len()
    };
    assert_eq!([false, true].map(values), [1, 2]);
}

#[test]
fn label() {
    run("label");
}

#[test]
fn metadata() {
    run("metadata");
}

#[test]
fn result() {
    run("result");
}

#[test]
fn index() {
    run("index");
}

#[test]
fn event() {
    run("event");
}

#[test]
fn archive() {
    run("archive");
}

#[test]
fn mmv() {
    run("mmv");
}

#[test]
fn reduce() {
    run("reduce");
}

#[test]
fn rules() {
    run("rules");
}

/// Runs a target on its seeds, and then on changed ones until time is up.
fn run(name: &str) {
    let (_, target) = fuzz::TARGETS.into_iter().find(|(found, _)| *found == name).unwrap();
    let seconds = env::var("FUZZ_SECONDS").map_or(1, |text| text.parse().unwrap());
    let end = Instant::now() + Duration::from_secs(seconds);
    let seeds: Vec<_> =
        fuzz::seeds::all().into_iter().filter(|seed| seed.0 == name).map(|seed| seed.1).collect();
    assert!(!seeds.is_empty());
    let mut random = fastrand::Rng::with_seed(1);
    let mut inputs = 0;
    while inputs < seeds.len() || Instant::now() < end {
        let input = match seeds.get(inputs) {
            Some(seed) => seed.clone(),
            None => mutated(&seeds, &mut random),
        };
        inputs += 1;
        one(name, target, &input);
    }
    println!("{name}: {inputs} inputs of {} seeds", seeds.len());
}

fn one(name: &str, target: fuzz::Target, input: &[u8]) {
    let start = Instant::now();
    let result = panic::catch_unwind(|| target(input));
    let took = start.elapsed();
    if result.is_ok() && took < MOST_TIME {
        return;
    }
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts").join(name);
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("mutated");
    fs::write(&file, input).unwrap();
    panic!("{} makes {name} fail, or take {took:?}", file.display());
}

fn mutated(seeds: &[Vec<u8>], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = seeds[random.usize(..seeds.len())].clone();
    for _ in 0..random.usize(1..=8) {
        let at = random.usize(..=bytes.len());
        let len = random.usize(..=16.min(bytes.len() - at));
        match random.u8(..7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.u8(..8),
            1 if at < bytes.len() => bytes[at] = random.u8(..),
            2 => {
                let word = WORDS[random.usize(..WORDS.len())].to_be_bytes();
                let at = at & !3;
                let len = word.len().min(bytes.len() - at);
                bytes[at..at + len].copy_from_slice(&word[..len]);
            }
            3 => drop(bytes.drain(at..at + len)),
            // The same bytes again, or those of another seed.
            4 => drop(bytes.splice(at..at, bytes[at..at + len].to_vec())),
            5 => {
                let other = &seeds[random.usize(..seeds.len())];
                let from = random.usize(..=other.len());
                let len = random.usize(..=64.min(other.len() - from));
                bytes.splice(at..at, other[from..from + len].iter().copied());
            }
            6 if random.u8(..4) == 0 => bytes.truncate(at),
            _ => {}
        }
    }
    bytes
}
