//! The threads: sampler, writer, keeper and, for the command, signals.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam::channel::{Receiver, Sender, unbounded};
use mmv_writer::Published;
use mmv_writer::mapping::guard;
use nix::unistd::{AccessFlags, access};
use tracing::{info, warn};

use crate::archive_name::ArchiveNames;
use crate::config::{Destination, Invocation, Settings};
use crate::descriptors;
use crate::driver::{self, Driver};
use crate::error::Error;
use crate::hindsight;
use crate::host::Host;
use crate::keeper::{Keeper, Rules};
use crate::ledger::Ledger;
use crate::lock::Lock;
use crate::notify;
use crate::own::Own;
use crate::queue::{Inlet, Job, queue};
use crate::sampler::{self, Sampler, SamplerReport};
use crate::signals::{self, Event};
use crate::sink::{self, Policy, Sink, SinkReport};
use crate::state::Store;
use crate::status;

/// What a run has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// What was sampled.
    pub sampler: SamplerReport,
    /// What was written.
    pub sink: SinkReport,
}

/// An agent that runs on threads of this process.
///
/// Dropped, it stops by itself, and nobody learns what it did.
#[derive(Debug)]
pub struct RunningAgent {
    events: Sender<Event>,
    sampler: Worker<SamplerReport>,
    writer: Worker<SinkReport>,
    keeper: Worker<()>,
    /// What prologues say.
    store: Arc<Store>,
    /// The file of the agent's own metrics goes with it.
    _own: Option<Published>,
    _lock: Option<Lock>,
}

impl RunningAgent {
    /// Takes a last sample, writes it and the last index entry.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`].
    pub fn stop(self) -> Result<Summary, Error> {
        // It may have come to its end already.
        let _ = self.events.send(Event::Stop);
        self.wait()
    }

    /// Waits until the agent has come to its end by itself.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`].
    pub fn wait(self) -> Result<Summary, Error> {
        // Each ends when those before it have.
        let sampler = self.sampler.wait();
        let sink = self.writer.wait();
        self.keeper.wait()?;
        Ok(Summary { sampler: sampler?, sink: sink? })
    }
}

/// Runs as a command does: ends orderly at TERM and INT, tells systemd.
///
/// # Errors
///
/// Any [`Error`].
pub fn run(invocation: &Invocation) -> Result<Summary, Error> {
    let settings = invocation.settings()?;
    descriptors::raise_limit();
    let (events, inbox) = unbounded();
    let setup = |what| move |source| Error::Setup { what, source };
    signals::listen(invocation.clone(), events.clone()).map_err(setup("signals"))?;
    let agent = start_with(&settings, events.clone(), inbox)?;
    let host = Host::here();
    let status = settings.socket(&host.name);
    let capture = status.as_deref().map(hindsight::serve::socket);
    if let Some(socket) = &status
        && let Err(error) = status::serve(socket, events.clone())
    {
        warn!(socket = %socket.display(), %error, "nobody can ask how it goes");
    }
    if let Some(socket) = &capture
        && let Err(error) = hindsight::serve::serve(socket, host, Arc::clone(&agent.store), events)
    {
        warn!(socket = %socket.display(), %error, "nobody can capture anything");
    }
    notify::ready();
    let summary = agent.wait()?;
    // Whoever asks from now on hears that there is no agent.
    for socket in [status, capture].into_iter().flatten() {
        let _ = fs::remove_file(socket);
    }
    info!(
        records = summary.sink.written,
        values = summary.sampler.values,
        dropped = summary.sampler.dropped,
        lost = summary.sink.lost,
        missed = summary.sampler.missed,
        "stopped"
    );
    Ok(summary)
}

/// Starts an agent on threads of this process. Signals are left alone, but for
/// SIGBUS, which the guard of the mappings needs.
///
/// # Errors
///
/// Any [`Error`].
pub fn start(settings: &Settings) -> Result<RunningAgent, Error> {
    let (events, inbox) = unbounded();
    start_with(settings, events, inbox)
}

fn start_with(
    settings: &Settings,
    events: Sender<Event>,
    inbox: Receiver<Event>,
) -> Result<RunningAgent, Error> {
    if settings.interval.is_zero() {
        return Err(Error::NoInterval);
    }
    let host = Host { labels: settings.labels.clone(), ..Host::here() };
    let names = ArchiveNames::new(settings.destination.clone(), &host.name);
    let folder = names.folder();
    prepare(&folder).map_err(|source| Error::ArchiveFolder { folder: folder.clone(), source })?;
    let kept = matches!(settings.destination, Destination::Folder(_)).then_some(folder);
    let lock = kept.as_deref().map(Lock::take).transpose()?;
    let setup = |what| move |source| Error::Setup { what, source };
    guard::install().map_err(setup("the SIGBUS guard"))?;

    let (outlet, inlet) = queue(driver::queue_limit(settings));
    let (notes, inbox_of_keeper) = unbounded();
    let store = settings.state_file(&host.name).map_or_else(Store::in_memory, Store::open);
    let (own, published) =
        if settings.own_metrics { Own::publish(&settings.mmv_dir) } else { (Own::unseen(), None) };
    let (store, ledger) = (Arc::new(store), Arc::new(Ledger::new(own)));
    let keeper = Keeper::new(Arc::clone(&store), Arc::clone(&ledger), kept, Rules::of(settings));
    let left = keeper.left();
    let memory = store.memory();
    let links = sink::Links {
        store: Arc::clone(&store),
        ledger: Arc::clone(&ledger),
        keeper: notes.clone(),
    };
    let sink = Sink::new(names, &host, Policy::of(settings), links);
    let links = sampler::Links { keeper: notes, ledger };
    let sampler = Sampler::new(settings, host, memory, outlet, links);
    let driver = Driver::new(sampler, settings.clone());
    Ok(RunningAgent {
        events,
        writer: spawn("writer", move || write_all(sink, &inlet))?,
        keeper: spawn("keeper", move || keeper.run(&left, &inbox_of_keeper))?,
        sampler: spawn("sampler", move || driver.run(&inbox))?,
        store,
        _own: published,
        _lock: lock,
    })
}

fn spawn<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Worker<T>, Error> {
    let thread = thread::Builder::new().name(name.into()).spawn(work);
    let thread = thread.map_err(|source| Error::Setup { what: name, source })?;
    Ok(Worker { name, thread })
}

/// A thread and its name.
#[derive(Debug)]
struct Worker<T> {
    name: &'static str,
    thread: JoinHandle<T>,
}

impl<T> Worker<T> {
    fn wait(self) -> Result<T, Error> {
        self.thread.join().map_err(|_| Error::Thread { thread: self.name })
    }
}

/// Makes the folder for archives, so that a wrong one is told at once and not
/// when there is something to write.
fn prepare(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    access(folder, AccessFlags::W_OK | AccessFlags::X_OK).map_err(io::Error::from)
}

/// Does what comes until nothing more can come.
fn write_all(mut sink: Sink, inlet: &Inlet) -> SinkReport {
    while let Some(job) = inlet.next() {
        match job {
            Job::Write(sample) => {
                sink.write(&sample);
                inlet.done(sample);
            }
            Job::Do(order) => sink.obey(&order),
        }
    }
    sink.finish()
}
