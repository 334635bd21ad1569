//! Turns signals into commands to the sampler thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use crossbeam::channel::Sender;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::iterator::Signals;
use tracing::error;

use crate::config::Invocation;
use crate::sampling::Command;
use crate::telemetry::notify;

/// Starts the thread "signals":
///
/// | signal | effect |
/// |---|---|
/// | TERM, INT | an orderly stop; the second one ends the process at once |
/// | HUP | the configuration is reloaded; if it is invalid, nothing changes |
/// | USR1 | everything sampled so far is synced to disk |
/// | USR2 | a new archive begins |
///
/// Also makes a write beyond the file-size limit an error instead of the end
/// of the process (SIGXFSZ).
///
/// # Errors
///
/// From the system, when a handler or the thread cannot be set up.
pub(crate) fn listen(invocation: Invocation, commands: Sender<Command>) -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut stopping = false;
        for signal in signals.forever() {
            let command = match signal {
                // Read here, since the sampler never waits for the disk.
                SIGHUP => reload(&invocation),
                SIGUSR1 => Some(Command::Sync),
                SIGUSR2 => Some(Command::NewArchive),
                _ => {
                    if stopping {
                        signal_hook::low_level::exit(128 + signal);
                    }
                    stopping = true;
                    notify::stopping();
                    Some(Command::Stop)
                }
            };
            // A sampler that has ended needs no commands.
            let _ = command.map(|command| commands.send(command));
        }
    })?;
    Ok(())
}

/// Reads the configuration again; `None`, after an error in the log, if it is invalid.
fn reload(invocation: &Invocation) -> Option<Command> {
    notify::reloading();
    match invocation.settings() {
        Ok(settings) => Some(Command::Change(Box::new(settings))),
        Err(error) => {
            error!("{error}; configuration unchanged");
            notify::ready();
            None
        }
    }
}
