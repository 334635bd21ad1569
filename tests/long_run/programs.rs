//! The programs from outside: who lives, who is killed, and who comes back.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::program::{DIRECTORY, JOURNAL, LIFE, micros};
use super::shape::{PROGRAMS, Shape};
use crate::harness::scratch::Scratch;

/// One life of a program; times in microseconds since 1970.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) shape: Shape,
    pub(super) born: u64,
    /// Time when its end was known to everyone.
    pub(super) reaped: u64,
    journal: PathBuf,
}

#[derive(Debug, Default)]
pub(super) struct Journal {
    /// Values that lasted longer than usual, and until when.
    pub(super) late: HashMap<u64, u64>,
    /// Time in which a metric or instance was there that was not set yet.
    pub(super) unset: HashMap<String, (u64, u64)>,
    /// The last value of an instance that was removed, and until when it lasted.
    pub(super) gone: HashMap<String, (u64, u64)>,
}

impl Life {
    pub(super) fn new(shape: Shape, born: u64, reaped: u64, journal: PathBuf) -> Self {
        Self { shape, born, reaped, journal }
    }

    /// Reads the journal of its program; the last line may be cut off.
    pub(super) fn journal(&self) -> Journal {
        let mut journal = Journal::default();
        let text = fs::read_to_string(&self.journal).unwrap_or_default();
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u64>().expect("a number in a journal");
            match words[0] {
                "late" => _ = journal.late.insert(number(1), number(2)),
                "new" => _ = journal.unset.insert(words[1].to_owned(), (number(2), u64::MAX)),
                "set" => journal.unset.get_mut(words[1]).expect("it is new").1 = number(2),
                "gone" => _ = journal.gone.insert(words[1].to_owned(), (number(2), number(3))),
                other => panic!("{other} in {}", self.journal.display()),
            }
        }
        journal
    }
}

#[derive(Debug)]
pub(super) struct Crowd {
    seed: u64,
    directory: PathBuf,
    journals: PathBuf,
    running: HashMap<u64, (Child, Life)>,
    over: Vec<Vec<Life>>,
    /// Time when a program comes back.
    due: HashMap<u64, u64>,
}

impl Crowd {
    pub(super) fn start(scratch: &Scratch, seed: u64) -> Self {
        let journals = scratch.path().join("journals");
        fs::create_dir(&journals).expect("a directory for the journals");
        let mut crowd = Self {
            seed,
            directory: scratch.mmv_dir(),
            journals,
            running: HashMap::new(),
            over: (0..PROGRAMS).map(|_| Vec::new()).collect(),
            due: HashMap::new(),
        };
        (0..PROGRAMS).for_each(|program| crowd.run(program));
        crowd
    }

    fn run(&mut self, program: u64) {
        let life = self.over[program as usize].len() as u64;
        let shape = Shape::of(self.seed, program, life);
        let journal = self.journals.join(format!("{}.{life}", shape.file));
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--ignored", "--exact", "long_run::program::produce"]);
        command.env(DIRECTORY, &self.directory).env(JOURNAL, &journal);
        command.env(LIFE, format!("{} {program} {life}", self.seed));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let born = micros();
        let child = command.spawn().expect("start a program");
        let life = Life::new(shape, born, u64::MAX, journal);
        self.running.insert(program, (child, life));
    }

    /// Kills a program if it runs; it restarts after `pause` microseconds.
    pub(super) fn kill(&mut self, program: u64, pause: u64) {
        let Some((mut child, life)) = self.running.remove(&program) else { return };
        let _ = child.kill();
        child.wait().expect("the end of a program");
        self.reap(program, life, pause);
    }

    fn reap(&mut self, program: u64, life: Life, pause: u64) {
        let reaped = micros();
        self.over[program as usize].push(Life { reaped, ..life });
        self.due.insert(program, reaped + pause);
    }

    /// Restarts programs that are due, and reaps those that have ended normally.
    pub(super) fn look(&mut self) {
        let ended = |(child, _): &mut (Child, Life)| child.try_wait().expect("its status");
        let ended: Vec<_> = self
            .running
            .iter_mut()
            .filter_map(|(program, running)| Some((*program, ended(running)?)))
            .collect();
        for (program, status) in ended {
            let (_, life) = self.running.remove(&program).expect("it ran");
            assert!(status.success() && life.shape.updates.is_some(), "{status}: {life:?}");
            self.reap(program, life, 0);
        }
        let now = micros();
        let due: Vec<u64> =
            self.due.iter().filter(|(_, at)| **at <= now).map(|(program, _)| *program).collect();
        for program in due {
            self.due.remove(&program);
            self.run(program);
        }
    }

    pub(super) fn end(mut self) -> Vec<Vec<Life>> {
        (0..PROGRAMS).for_each(|program| self.kill(program, u64::MAX / 2));
        std::mem::take(&mut self.over)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for (child, _) in self.running.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
