//! `mmv-export push`: archives to a receiver of Prometheus remote write or OTLP.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use crate::Failure;
use crate::open_files;
use crate::options::HostOptions;
use crate::push::client::{Client, ClientOptions};
use crate::push::queue::{Filled, HostQueue, OpenError, now, shown};
use crate::push::sender::{BATCH, Sender, Undelivered};
use crate::push::state::{StateDirectory, StateError};
use crate::push::target::{Authorization, SecretError, Target};
use crate::push::{Counts, Protocol};
use crate::text::{json_line, print, warn};
use crate::tree::Host;

/// How often archives are looked at for new records.
const POLL: Duration = Duration::from_secs(1);
/// How often new hosts are looked for, and the state is said.
const MINUTE: Duration = Duration::from_secs(60);
/// Batches of one host before the next one gets its turn.
const TURN: usize = 16;
/// How long a host is held at first, and at most.
const HOLD: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(600)];
/// What lets old samples in.
const WINDOW: &str = "storage.tsdb.out_of_order_time_window in the configuration of Prometheus \
                      lets them in, --drop-too-old drops them";

/// Options of `push`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    hosts: HostOptions,

    /// Receiver, without credentials
    #[arg(long, help = "Receiver, as in http://127.0.0.1:9090/api/v1/write; without credentials")]
    url: String,

    /// Directory that keeps, for each host, how far its archives are sent; of one receiver and
    /// one process at a time
    #[arg(long, value_name = "DIR")]
    state: PathBuf,

    /// Go on with what is logged later, until a signal
    #[arg(long)]
    follow: bool,

    /// What the receiver understands
    #[arg(long, value_enum, default_value = "1.0")]
    protocol: Protocol,

    /// File with a token that says who sends
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    bearer_token_file: Option<PathBuf>,

    /// Name of a user, with --password-file
    #[arg(long, requires = "password_file")]
    user: Option<String>,

    /// File with the password of the user
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,

    /// File with the certificates (PEM) of authorities to trust, instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// Seconds from the start of a request to the end of its answer
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,

    /// Seconds after which a request that gets no answer, or "not now", is given up; without
    /// end when following
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    retry_for: u64,

    /// Drop samples that the receiver refuses as too old or out of order, and count them
    #[arg(long)]
    drop_too_old: bool,

    /// Print the counts at the end as one object of JSON
    #[arg(long)]
    json: bool,
}

/// Open files at most, which is what the kernel permits by default.
const OPEN_FILES: u64 = 1 << 20;

/// A host that is followed.
struct Followed {
    queue: HostQueue,
    /// Until when it is held, and for how long that was.
    held: Option<(Instant, Duration)>,
}

impl Arguments {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        // Not by the parser of the command line: it prints what it refuses.
        let target: Target = self.url.parse().map_err(Failure::Url)?;
        let state = StateDirectory::open(&self.state)?;
        let client = Client::new(ClientOptions {
            target,
            protocol: self.protocol,
            authorization: self.authorization(),
            ca_file: self.ca_file.clone(),
            timeout: Duration::from_secs(self.timeout),
        })?;
        let sender = Sender {
            client,
            protocol: self.protocol,
            drops_too_old: self.drop_too_old,
            retry_for: (!self.follow).then_some(Duration::from_secs(self.retry_for)),
            stop,
        };
        if self.follow { self.follow(&sender, &state) } else { self.back_fill(&sender, &state) }
    }

    fn authorization(&self) -> Option<Authorization> {
        if let Some(file) = &self.bearer_token_file {
            return Some(Authorization::Bearer(file.clone()));
        }
        Some(Authorization::Basic(self.user.clone()?, self.password_file.clone()?))
    }

    fn open(&self, host: &Host, state: &StateDirectory) -> Result<HostQueue, OpenError> {
        HostQueue::open(host, state, &self.url, self.protocol)
    }

    /// Sends what there is, one host after the other.
    fn back_fill(&self, sender: &Sender, state: &StateDirectory) -> Result<(), Failure> {
        let hosts = self.hosts.hosts()?;
        let (mut counts, mut unsent, mut damaged) = (Counts::default(), 0, 0);
        for host in &hosts {
            let mut queue = match self.open(host, state) {
                Ok(queue) => queue,
                Err(OpenError::State(error)) => return Err(error.into()),
                Err(OpenError::Archive(error)) => {
                    warn(&format_args!("{}: {error}", host.name));
                    damaged += 1;
                    continue;
                }
            };
            let before = *queue.counts();
            let result = send_all(&mut queue, sender);
            let here = queue.counts().since(&before);
            damaged += usize::from(here.damaged > 0);
            counts.add(&here);
            queue.close()?;
            match result {
                Ok(is_all) => unsent += usize::from(!is_all),
                Err(failure) => {
                    self.print(&counts)?;
                    return Err(failure);
                }
            }
        }
        self.print(&counts)?;
        match (unsent, damaged) {
            (0, 0) => Ok(()),
            (0, hosts_) => Err(Failure::Hosts { hosts: hosts_, all: hosts.len() }),
            (unsent, _) => Err(Failure::Unsent { hosts: unsent, all: hosts.len() }),
        }
    }

    fn print(&self, counts: &Counts) -> Result<(), Failure> {
        print(&if self.json { json_line(counts)? } else { format!("{counts}\n") })
    }

    /// Sends what is logged, until a signal.
    fn follow(&self, sender: &Sender, state: &StateDirectory) -> Result<(), Failure> {
        // Each host takes some.
        open_files::permit(OPEN_FILES);
        let mut hosts: BTreeMap<String, Followed> = BTreeMap::new();
        let mut looked: Option<Instant> = None;
        let mut said = Counts::default();
        let result = loop {
            if looked.is_none_or(|at| at.elapsed() >= MINUTE) {
                self.look(&mut hosts, state)?;
                said = say(&hosts, said, looked.is_some());
                looked = Some(Instant::now());
            }
            let mut is_idle = true;
            let mut failure = None;
            for host in hosts.values_mut() {
                match host.turn(sender) {
                    Ok(is_done) => is_idle &= is_done,
                    Err(error) => {
                        failure = Some(error);
                        break;
                    }
                }
            }
            if let Some(failure) = failure {
                break Err(failure);
            }
            if sender.stop.load(Ordering::Relaxed) || (is_idle && sender.wait(POLL)) {
                break Ok(());
            }
        };
        for host in hosts.values_mut() {
            host.queue.close()?;
        }
        say(&hosts, Counts::default(), true);
        match result {
            Err(Failure::Stopped) | Ok(()) => Ok(()),
            failure => failure,
        }
    }

    /// Adds hosts that are new.
    fn look(
        &self,
        hosts: &mut BTreeMap<String, Followed>,
        state: &StateDirectory,
    ) -> Result<(), Failure> {
        let found = match self.hosts.hosts() {
            Ok(found) => found,
            // There may be some later.
            Err(Failure::NoData(_)) => Vec::new(),
            Err(failure) => return Err(failure),
        };
        for host in found {
            if hosts.contains_key(&host.name) {
                continue;
            }
            match self.open(&host, state) {
                Ok(queue) => {
                    hosts.insert(host.name, Followed { queue, held: None });
                }
                Err(OpenError::State(error)) => return Err(error.into()),
                Err(OpenError::Archive(error)) => warn(&format_args!("{}: {error}", host.name)),
            }
        }
        Ok(())
    }
}

/// Sends all that a host has; false if some of it has to wait.
fn send_all(queue: &mut HostQueue, sender: &Sender) -> Result<bool, Failure> {
    loop {
        match queue.fill(BATCH)? {
            Filled::Nothing => return Ok(true),
            Filled::Future(_) => return Ok(false),
            Filled::Batch => {}
        }
        match sender.deliver(queue) {
            Ok(()) => queue.done(),
            Err(Undelivered::Held(why)) => {
                say_held(queue, &why);
                return Ok(false);
            }
            Err(other) => return Err(other.into()),
        }
    }
}

fn say_held(queue: &HostQueue, why: &str) {
    let until = queue.sent_until().map_or_else(|| "the start".to_owned(), shown);
    let name = &queue.name;
    warn(&format_args!("{name}: held after {until}: the receiver says {why:?}: {WINDOW}"));
}

impl Followed {
    /// Sends some batches; true if there is nothing more to send now.
    fn turn(&mut self, sender: &Sender) -> Result<bool, Failure> {
        if self.held.is_some_and(|(until, _)| Instant::now() < until) {
            return Ok(true);
        }
        for _ in 0..TURN {
            match self.queue.fill(BATCH)? {
                Filled::Nothing | Filled::Future(_) => return Ok(true),
                Filled::Batch => {}
            }
            match sender.deliver(&mut self.queue) {
                Ok(()) => {
                    if self.held.take().is_some() {
                        warn(&format_args!("{}: no longer held", self.queue.name));
                    }
                    self.queue.done();
                }
                Err(Undelivered::Held(why)) => {
                    let [first, longest] = HOLD;
                    let time = self.held.map_or(first, |(_, last)| (last * 2).min(longest));
                    self.held = Some((Instant::now() + time, time));
                    say_held(&self.queue, &why);
                    return Ok(true);
                }
                Err(other) => return Err(other.into()),
            }
        }
        Ok(false)
    }
}

/// Says what became of samples, if that changed.
fn say(hosts: &BTreeMap<String, Followed>, before: Counts, is_due: bool) -> Counts {
    let mut counts = Counts::default();
    let mut held = 0;
    let mut oldest: Option<i64> = None;
    for host in hosts.values() {
        counts.add(host.queue.counts());
        held += usize::from(host.held.is_some());
        oldest = [oldest, host.queue.sent_until()].into_iter().flatten().min();
    }
    if is_due && counts != before {
        let behind = oldest.map_or(0, |oldest| now().saturating_sub(oldest) / 1_000_000_000);
        let all = hosts.len();
        warn(&format_args!("{counts}; {all} hosts, {held} held, {behind} s behind"));
    }
    counts
}

// Here, since failures are known to all that the queue of a host is made of.
impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        Self::State(error.to_string())
    }
}

impl From<SecretError> for Failure {
    fn from(error: SecretError) -> Self {
        Self::Secret(error.to_string())
    }
}

impl From<Undelivered> for Failure {
    fn from(undelivered: Undelivered) -> Self {
        match undelivered {
            Undelivered::Stopped => Self::Stopped,
            Undelivered::GaveUp(why) | Undelivered::Held(why) => Self::GaveUp(why),
            Undelivered::NoReceiver(why) => Self::NoReceiver(why),
        }
    }
}
