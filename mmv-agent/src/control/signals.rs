//! Turns signals into commands to the sampler thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crossbeam::channel::Sender;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::iterator::Signals;
use tracing::error;

use crate::config::Invocation;
use crate::sampling::SamplerCommand;
use crate::telemetry::notify;
use crate::threads;

/// Signals whose default action would end an agent that has no handlers yet.
const HELD: [Signal; 3] = [Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];

/// Blocks HUP, USR1 and USR2 until it is released, which restores the signal mask that the process
/// was started with. Threads inherit the mask, so this must be created before any thread.
#[derive(Debug)]
#[must_use]
pub(crate) struct HeldSignals {
    before: Option<SigSet>,
}

impl HeldSignals {
    /// Blocks the signals in this thread.
    pub(crate) fn hold() -> Self {
        let held: SigSet = HELD.into_iter().collect();
        // This fails for no set of valid signals.
        Self { before: held.thread_swap_mask(SigmaskHow::SIG_BLOCK).ok() }
    }

    /// Delivers the signals that wait.
    pub(crate) fn release(&mut self) {
        let _ = self.before.take().map(|before| before.thread_set_mask());
    }
}

/// Starts the thread "signals", and releases the signals held until now:
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
pub(crate) fn listen(
    mut held: HeldSignals,
    invocation: Invocation,
    commands: Sender<SamplerCommand>,
) -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2])?;
    held.release();
    threads::spawn("signals", move || {
        let mut stopping = false;
        for signal in signals.forever() {
            let command = match signal {
                // Read in this thread, since the sampler never waits for the disk.
                SIGHUP => reload(&invocation),
                SIGUSR1 => Some(SamplerCommand::Sync),
                SIGUSR2 => Some(SamplerCommand::NewArchive),
                _ => {
                    if stopping {
                        signal_hook::low_level::exit(128 + signal);
                    }
                    stopping = true;
                    notify::stopping();
                    Some(SamplerCommand::Stop)
                }
            };
            // A sampler that has ended needs no commands.
            let _ = command.map(|command| commands.send(command));
        }
    })?;
    Ok(())
}

/// Rereads the configuration; `None`, after an error in the log, if it is invalid.
fn reload(invocation: &Invocation) -> Option<SamplerCommand> {
    notify::reloading();
    match invocation.settings() {
        Ok(settings) => Some(SamplerCommand::Change(Box::new(settings))),
        Err(error) => {
            error!("{error}; configuration unchanged");
            notify::ready();
            None
        }
    }
}
