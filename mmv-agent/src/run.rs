//! Starts the threads of an agent and connects them.
//!
//! Input: the settings. Output: a running agent: the threads sampler, loader, writer and
//! housekeeper, and for the command signals and status. Invariant: each thread ends after those
//! that send to it have ended; results of the housekeeping thread about removed files are lost
//! then.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender, unbounded};
use mmv_format::mapping::guard;
use nix::unistd::{AccessFlags, access};
use pcp_types::printable::line;
use tracing::{debug, info, warn};

use crate::config::{Destination, Invocation, Settings, recorder_directory};
use crate::control::signals::{self, HeldSignals};
use crate::control::{Service, reserve_descriptors, status_socket};
use crate::discovery::descriptor_budget;
use crate::error::Error;
use crate::flight_recorder::{Access, RecorderPlace, flight_recorder};
use crate::host::{Host, file_name};
use crate::housekeeping::{Housekeeper, HousekeepingRules, Store, Task, recover_owners};
use crate::loading::{self, Loader, loader};
use crate::lock::Lock;
use crate::logging::{
    ArchiveNames, Archiver, ArchiverReport, Policy, QueueReceiver, WriterMessage, archive_writer,
    queue,
};
use crate::sampling::{Driver, Sampler, SamplerCommand, SamplerReport, driver, sampler};
use crate::telemetry::{OwnMetrics, SharedStatus, notify};
use crate::threads;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub sampler: SamplerReport,
    pub archiver: ArchiverReport,
}

/// Number of sockets that the command serves.
const SOCKETS: usize = 1;

/// Number of threads of the command besides the first one.
const THREADS: usize = 7;

/// Time that the end of the agent waits for the loader, which may be reading a file.
const LOADER_TIMEOUT: Duration = Duration::from_secs(1);

/// Pause between checks whether a thread has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// An agent that runs on threads of this process. When dropped, it stops by itself, and its
/// summary is lost.
#[derive(Debug)]
pub(crate) struct RunningAgent {
    commands: Sender<SamplerCommand>,
    sampler: Worker<SamplerReport>,
    loader: Worker<()>,
    writer: Worker<ArchiverReport>,
    recorder: Option<Worker<()>>,
    housekeeper: Worker<()>,
    /// Tasks for the housekeeper, which holds the lock on the archives.
    tasks: Sender<Task>,
    service: Option<Service>,
}

impl RunningAgent {
    /// Takes a last sample, writes it and the last index entry.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`].
    pub(crate) fn stop(self) -> Result<Summary, Error> {
        // The sampler may have ended already.
        let _ = self.commands.send(SamplerCommand::Stop);
        self.wait()
    }

    /// Waits until the agent has ended.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`].
    pub(crate) fn wait(self) -> Result<Summary, Error> {
        // Each of these ends when those before it have ended.
        let sampler = self.sampler.wait();
        let loader = self.loader.wait_at_most(LOADER_TIMEOUT).unwrap_or_else(|UnfinishedThread| {
            warn!("reading a file does not return; stopping without waiting for it");
            Ok(())
        });
        let archiver = self.writer.wait();
        let recorder = self.recorder.map(Worker::wait).transpose();
        // Before another agent can create its own socket there.
        drop(self.service);
        // Sending fails only if the thread has ended. The loader may still be able to send tasks.
        let _ = self.tasks.send(Task::End);
        self.housekeeper.wait()?;
        loader?;
        recorder?;
        Ok(Summary { sampler: sampler?, archiver: archiver? })
    }
}

/// Runs an agent as a command: handles signals, which are `held` until then, answers at the status
/// socket, and notifies systemd.
///
/// # Errors
///
/// Any [`Error`].
pub(crate) fn run(invocation: &Invocation, held: HeldSignals) -> Result<Summary, Error> {
    reserve_descriptors(SOCKETS);
    let settings = invocation.settings()?;
    let host = Host::local();
    let status = settings.fixed.destination.socket(&host.name);
    info!("{}", settings.fixed.prepare(status.as_deref()));
    settings.warnings().iter().for_each(|warning| warn!("{warning}"));
    descriptor_budget::raise_limit();
    descriptor_budget::check()?;
    threads::reserve(THREADS);
    let (commands, inbox) = unbounded();
    signals::listen(held, invocation.clone(), commands.clone()).map_err(Error::setup("signals"))?;
    let recorder = status.as_deref().map(recorder_directory);
    let mut agent = start_with(&settings, commands.clone(), inbox, recorder)?;
    if let Some(status) = &status {
        let service = status_socket::serve(status, commands);
        agent.service = Some(service.map_err(Error::setup("the status socket"))?);
    }
    threads::release();
    notify::ready();
    let summary = agent.wait()?;
    info!(
        records = summary.archiver.written,
        values = summary.sampler.values,
        dropped = summary.sampler.dropped,
        lost = summary.archiver.lost,
        missed = summary.sampler.missed,
        "stopped"
    );
    Ok(summary)
}

/// Starts an agent on threads of this process. The only signal that it handles is
/// SIGBUS, for the guard of the mappings.
///
/// # Errors
///
/// Any [`Error`].
pub(crate) fn start(settings: &Settings) -> Result<RunningAgent, Error> {
    let (commands, inbox) = unbounded();
    start_with(settings, commands, inbox, None)
}

fn start_with(
    settings: &Settings,
    commands: Sender<SamplerCommand>,
    inbox: Receiver<SamplerCommand>,
    recorder: Option<PathBuf>,
) -> Result<RunningAgent, Error> {
    if settings.reloadable.interval.is_zero() {
        return Err(Error::NoInterval);
    }
    let host = Host { labels: settings.reloadable.labels.clone(), ..Host::local() };
    let files = file_name(&host.name);
    if files != host.name {
        let host = line(&host.name);
        warn!(%host, %files, "the host name cannot be used as a file name; files are named differently");
    }
    let names = ArchiveNames::new(settings.fixed.destination.clone(), &host.name);
    let directory = names.directory();
    prepare(&directory)
        .map_err(|source| Error::ArchiveDirectory { directory: directory.clone(), source })?;
    let kept = matches!(settings.fixed.destination, Destination::Directory(_)).then_some(directory);
    let state = settings.state_file(&host.name);
    let lock = match kept.as_deref() {
        Some(directory) => Some(Arc::new(Lock::take(directory)?.with_state(state.as_deref())?)),
        None => None,
    };
    guard::install().map_err(Error::setup("the SIGBUS guard"))?;

    let (sender, receiver) = queue(driver::queue_limit(&settings.reloadable));
    let (tasks, task_inbox) = unbounded();
    let (outcomes, removals) = unbounded();
    let shared = Arc::new(SharedStatus::default());
    let store = state.map_or_else(Store::in_memory, |path| Store::open(path, Arc::clone(&shared)));
    let store =
        store.with_recovered_owners(|| kept.as_deref().map(recover_owners).unwrap_or_default());
    let store = Arc::new(store);
    let own = if settings.fixed.own_metrics {
        OwnMetrics::publish(&settings.fixed.mmv_dir)
    } else {
        OwnMetrics::default()
    };
    shared.set_own(own);
    shared.set_warnings(settings.shared_file_system().into_iter().collect());
    let housekeeper = Housekeeper::new(
        Arc::clone(&store),
        Arc::clone(&shared),
        outcomes,
        kept,
        HousekeepingRules::new(&settings.reloadable),
    )
    .with_lock(lock.clone());
    let left = housekeeper.leftovers();
    let memory = store.memory();
    let server = store.server();
    let links = archive_writer::ArchiverLinks {
        store,
        shared: Arc::clone(&shared),
        housekeeper: tasks.clone(),
        lock,
    };
    let (recorder, recorder_writer) = recorder
        .map(|directory| {
            flight_recorder(RecorderPlace {
                directory,
                access: Access::of_group(settings.fixed.capture_group.as_deref()),
                host: host.clone(),
                server,
                version: settings.fixed.archive_version,
            })
        })
        .unzip();
    let names = names.after_found(left.bases());
    let archiver = Archiver::new(names, &host, Policy::new(settings), links);
    let housekeeper_tasks = tasks.clone();
    let status = Arc::clone(&shared);
    let links = loader::LoaderLinks { housekeeper: housekeeper_tasks, removals, shared: status };
    let loader = Loader::new(settings, host, memory, links);
    let sampler_commands = commands.clone();
    let request_last_values = move |request| {
        // Sending fails only while the agent stops.
        let _ = sampler_commands.send(SamplerCommand::ReadLastValues(request));
    };
    let (loading, loader) =
        loading::thread::on_thread(loader, request_last_values).map_err(Error::setup("loader"))?;
    let links = sampler::SamplerLinks { housekeeper: tasks.clone(), shared, recorder };
    let sampler = Sampler::new(settings, loading, sender, links);
    let settings = settings.clone();
    Ok(RunningAgent {
        commands,
        writer: spawn("writer", move || write_all(archiver, &receiver))?,
        recorder: recorder_writer
            .map(|writer| spawn("recorder", move || writer.run()))
            .transpose()?,
        housekeeper: spawn("housekeeper", move || housekeeper.run(&left, &task_inbox))?,
        loader: spawn("loader", move || loader.run())?,
        sampler: spawn("sampler", move || {
            if settings.fixed.realtime {
                match threads::make_realtime() {
                    Ok(()) => info!("sampling with real-time scheduling"),
                    // Most users may not, and need not be informed.
                    Err(error) => debug!(%error, "real-time scheduling is not available"),
                }
            }
            Driver::new(sampler, settings).run(&inbox)
        })?,
        tasks,
        service: None,
    })
}

fn spawn<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Worker<T>, Error> {
    let thread = threads::spawn(name, work).map_err(Error::setup(name))?;
    Ok(Worker { name, thread })
}

/// A thread that has not ended in time.
#[derive(Debug)]
struct UnfinishedThread;

/// A thread and its name.
#[derive(Debug)]
struct Worker<T> {
    name: &'static str,
    thread: JoinHandle<T>,
}

impl<T> Worker<T> {
    fn wait_at_most(self, longest: Duration) -> Result<Result<T, Error>, UnfinishedThread> {
        let until = Instant::now() + longest;
        while !self.thread.is_finished() {
            if Instant::now() >= until {
                return Err(UnfinishedThread);
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(self.wait())
    }

    fn wait(self) -> Result<T, Error> {
        self.thread.join().map_err(|_| Error::Thread { thread: self.name })
    }
}

/// Creates the archive directory, so that a wrong one is an error at once, not when the first
/// record is written.
fn prepare(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    access(directory, AccessFlags::W_OK | AccessFlags::X_OK).map_err(io::Error::from)
}

fn write_all(mut archiver: Archiver, receiver: &QueueReceiver) -> ArchiverReport {
    while let Some(job) = receiver.next() {
        match job {
            WriterMessage::Write(sample) => {
                archiver.write(&sample);
                receiver.done(sample);
            }
            WriterMessage::Do(order) => archiver.obey(&order),
        }
    }
    archiver.finish()
}
