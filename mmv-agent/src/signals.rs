//! Signals as messages.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use crossbeam::channel::Sender;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::iterator::Signals;
use tracing::error;

use crate::config::{Invocation, Settings};
use crate::hindsight::Held;
use crate::notify;
use crate::status::Status;

/// What the sampler is told from outside.
#[derive(Debug)]
pub(crate) enum Event {
    /// Take the last sample and end.
    Stop,
    /// Other settings from now on, and a new data volume.
    Change(Box<Settings>),
    /// Wait until all that was sampled is on disk.
    Sync,
    /// Begin a new archive.
    NewArchive,
    /// Say what is being done.
    Status(Sender<Status>),
    /// Hand over the samples of so much time, or all, that are kept in memory;
    /// `None` if none are to be.
    Capture(Option<Duration>, Sender<Option<Held>>),
}

/// Starts the thread "signals":
///
/// | signal | then |
/// |---|---|
/// | TERM, INT | an orderly stop; the second one ends the process at once |
/// | HUP | the configuration is read again; if it is wrong, all stays as it is |
/// | USR1 | all that was sampled is brought to disk |
/// | USR2 | a new archive begins |
///
/// Also makes a write beyond the file-size limit an error instead of the end
/// of the process (SIGXFSZ).
///
/// # Errors
///
/// From the system, when a handler or the thread cannot be set up.
pub(crate) fn listen(invocation: Invocation, events: Sender<Event>) -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut asked = false;
        for signal in signals.forever() {
            let event = match signal {
                // Read here: the sampler waits for no disk.
                SIGHUP => reload(&invocation),
                SIGUSR1 => Some(Event::Sync),
                SIGUSR2 => Some(Event::NewArchive),
                _ => {
                    if asked {
                        signal_hook::low_level::exit(128 + signal);
                    }
                    asked = true;
                    notify::stopping();
                    Some(Event::Stop)
                }
            };
            // A sampler that has ended already needs no telling.
            let _ = event.map(|event| events.send(event));
        }
    })?;
    Ok(())
}

/// Reads the configuration again; `None`, and that is said, if it is wrong.
fn reload(invocation: &Invocation) -> Option<Event> {
    notify::reloading();
    match invocation.settings() {
        Ok(settings) => Some(Event::Change(Box::new(settings))),
        Err(error) => {
            error!("{error}; the configuration stays as it was");
            notify::ready();
            None
        }
    }
}
