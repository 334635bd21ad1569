//! Runs an agent and the programs of a plan, which end and start again.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use mmv_writer::{Gauge, Registry};
use serde_json::Value;

use super::compare::STARTING;
use super::journal::{self, What, now};
use super::log::{LifeLog, Log};
use super::plan::{Kind, PROGRAMS, Plan};
use super::program::{DIRECTORY, JOURNALS, LIFE, PLAN};
use super::servers;
use crate::harness::agent::Agent;
use crate::harness::binaries;
use crate::harness::scratch::Scratch;
use crate::harness::wait;

#[derive(Debug)]
pub(super) struct Record {
    pub(super) scratch: Scratch,
    pub(super) archives: PathBuf,
    pub(super) log: Log,
    pub(super) plan: Plan,
    pub(super) ended: i64,
    /// Time without an agent, if a second one followed the first.
    pub(super) away: Option<Away>,
    /// `mmv-agent status` while the last lives ran, and when that was.
    pub(super) status: (i64, Value),
    /// The page `/metrics` at that time.
    pub(super) scrape: String,
    /// Ticks that the agent says it missed.
    pub(super) missed: u64,
    /// Time that the work of the agent was delayed by that of other processes, in nanoseconds.
    pub(super) delayed: i64,
    /// The same with the time that the thread itself worked: a program that lived no longer may
    /// have been gone before its file was opened.
    pub(super) busy: i64,
    pub(super) agent_log: String,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Away {
    /// Time when the first one was told to end.
    pub(super) stopping: i64,
    /// Time when it had ended.
    pub(super) stopped: i64,
    /// Time when the second one had all files.
    pub(super) back: i64,
}

struct Slot {
    program: usize,
    life: u64,
    running: Option<Running>,
    due: Instant,
}

struct Running {
    child: Child,
    born: i64,
    /// Time when it is killed, or ends by itself.
    end: Instant,
    ending: Option<i64>,
    is_killed: bool,
}

struct World<'p> {
    plan: &'p Plan,
    form: &'p str,
    directory: PathBuf,
    journals: PathBuf,
    slots: Vec<Slot>,
    over: Vec<LifeLog>,
}

/// A file that never changes: each record with its value is a tick of the agent.
pub(super) const STEADY: &str = "mmv.steady.value";

pub(super) fn run(plan: Plan, form: &str) -> Record {
    let scratch = Scratch::new();
    let journals = scratch.path().join("journals");
    fs::create_dir(&journals).expect("a directory for journals");
    let steady = Registry::builder("steady").sealed().directory(scratch.mmv_dir()).build().unwrap();
    steady.metric::<Gauge<u64>>("value").build().unwrap().set(8);
    steady.publish().unwrap();
    let interval = format!("{}ms", plan.interval.as_millis());
    let options = ["--interval", &interval, "--events", "true"];
    let mut agent = Agent::start_with(&scratch, &options);
    wait::until_true("first records", || agent.data_bytes() > 500);
    let slot = |program| Slot { program, life: 0, running: None, due: Instant::now() };
    let mut world = World {
        plan: &plan,
        form,
        directory: scratch.mmv_dir(),
        journals,
        slots: (0..PROGRAMS.len()).map(slot).collect(),
        over: Vec::new(),
    };
    let (middle, end) = (Instant::now() + plan.length / 2, Instant::now() + plan.length);
    let mut away = None;
    let (mut first_log, mut missed) = (String::new(), 0);
    let mut delay = Delay::default();
    while Instant::now() < end {
        world.step(true);
        sleep(Duration::from_millis(2));
        if plan.restarts_agent && away.is_none() && middle <= Instant::now() {
            let stopping = now();
            delay.add(&agent);
            assert!(agent.terminate().success(), "{}", agent.log());
            let stopped = now();
            (first_log, missed) = (agent.log(), agent.counted("missed"));
            agent = Agent::start_with(&scratch, &options);
            wait::until_true("the second agent", || agent.log().contains("writing archive"));
            away = Some(Away { stopping, stopped, back: now() + STARTING });
        }
    }
    let status = (now(), status(&scratch));
    let archives = scratch.archives();
    // Programs end when they are due, however long the first answer takes.
    let scrape = thread::scope(|scope| {
        let scrape = scope.spawn(|| servers::scrape(&archives));
        while !scrape.is_finished() {
            world.step(false);
            sleep(Duration::from_millis(2));
        }
        scrape.join().expect("a scrape")
    });
    while world.slots.iter().any(|slot| slot.running.is_some()) {
        world.step(false);
        sleep(Duration::from_millis(2));
    }
    // The last values of a program are logged after its end.
    sleep(plan.interval * 3 + Duration::from_millis(1100));
    delay.add(&agent);
    assert!(agent.terminate().success(), "{}", agent.log());
    let ended = now();
    if let Some(away) = &mut away {
        away.back += delay.waited;
    }
    Record {
        archives: Agent::host_directory(&scratch),
        log: Log::new(std::mem::take(&mut world.over)),
        plan,
        ended,
        away,
        status,
        scrape,
        missed: missed + agent.counted("missed"),
        delayed: delay.waited,
        busy: delay.waited_and_worked,
        agent_log: first_log + &agent.log(),
        scratch,
    }
}

/// The longest times that a thread of each agent waited for a processor, and that it waited and
/// worked. Both are doubled: the thread that reads files pauses after work for as long as that took.
#[derive(Debug, Default)]
struct Delay {
    waited: i64,
    waited_and_worked: i64,
}

impl Delay {
    fn add(&mut self, agent: &Agent) {
        let mut longest = (0, 0);
        for thread in fs::read_dir(format!("/proc/{}/task", agent.id())).expect("threads") {
            let path = thread.expect("a thread").path().join("schedstat");
            let text = fs::read_to_string(path).expect("the times of a thread");
            // proc(5): time on a processor, time in the queue of one, time slices.
            let times = text.split_whitespace().map(|time| time.parse::<i64>().expect("a time"));
            let times: Vec<i64> = times.collect();
            longest.0 = longest.0.max(times[1]);
            longest.1 = longest.1.max(times[0] + times[1]);
        }
        self.waited += 2 * longest.0;
        self.waited_and_worked += 2 * longest.1;
    }
}

impl Record {
    /// Returns whether, at some time of a span, no agent ran or it had not opened all files yet.
    pub(super) fn is_away(&self, from: i64, to: i64) -> bool {
        self.away.is_some_and(|away| away.stopping <= to && from <= away.back)
    }
}

fn status(scratch: &Scratch) -> Value {
    let mut command = Command::new(binaries::mmv_agent());
    command.args(["status", "--json", "--archive-dir"]).arg(scratch.archives());
    let output = command.output().expect("start mmv-agent");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

impl World<'_> {
    fn step(&mut self, starts: bool) {
        for number in 0..self.slots.len() {
            let slot = &mut self.slots[number];
            let has_ended = slot.running.as_mut().is_some_and(Running::has_ended);
            if has_ended {
                self.reap(number);
            } else if slot.running.is_none() && starts && Instant::now() >= slot.due {
                self.start(number);
            }
        }
    }

    fn start(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        let life = self.plan.life(slot.program, slot.life);
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--ignored", "--exact", "changing_programs::program::run"]);
        command.env(DIRECTORY, &self.directory).env(JOURNALS, &self.journals);
        command.env(LIFE, format!("{} {}", slot.program, slot.life));
        command.env(PLAN, format!("{} {}", self.form, self.plan.seed));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let born = now();
        let child = command.spawn().expect("start a program");
        let end = Instant::now() + life.length;
        let is_killed = life.is_killed;
        slot.running = Some(Running { child, born, end, ending: None, is_killed });
    }

    fn reap(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        let mut running = slot.running.take().expect("it ran");
        let status = running.child.wait().expect("its status");
        let ended = now();
        assert!(running.is_killed || status.success(), "{:?}: {status}", PROGRAMS[slot.program]);
        let (name, kind) = PROGRAMS[slot.program];
        let mut threads = Vec::new();
        let prefix = format!("{}.{}.", slot.program, slot.life);
        let mut paths: Vec<PathBuf> = fs::read_dir(&self.journals)
            .expect("journals")
            .map(|entry| entry.expect("a journal").path())
            .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&prefix))
            .collect();
        // That of the main thread, which begins, comes first.
        paths.sort_by_key(|path| !path.to_string_lossy().ends_with("main"));
        for path in paths {
            threads.push(journal::read(&path));
        }
        let end = threads.iter().flatten().find(|line| line.what == What::End);
        let ending = running.ending.or(end.map(|line| line.from)).unwrap_or(ended);
        let file = match kind {
            Kind::PerProcess => format!("{name}.{}", running.child.id()),
            _ => name.to_owned(),
        };
        let life = self.plan.life(slot.program, slot.life);
        self.over.push(LifeLog {
            program: slot.program,
            file,
            born: running.born,
            ending,
            ended,
            is_killed: running.is_killed,
            threads,
        });
        slot.life += 1;
        slot.due = Instant::now() + life.pause;
    }
}

impl Running {
    /// Kills it if it is due, and returns true if it has ended.
    fn has_ended(&mut self) -> bool {
        if self.is_killed && Instant::now() >= self.end && self.ending.is_none() {
            self.ending = Some(now());
            self.child.kill().expect("kill a program");
        }
        self.child.try_wait().expect("its status").is_some()
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        for running in self.slots.iter_mut().filter_map(|slot| slot.running.as_mut()) {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}
