//! Signals as messages.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use crossbeam::channel::Sender;
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::notify;

/// What the sampler is told from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// Take the last sample and end.
    Stop,
}

/// Starts the thread "signals": the first TERM or INT asks for an orderly
/// stop, a second one ends the process at once.
///
/// Also makes a write beyond the file-size limit an error instead of the end
/// of the process (SIGXFSZ).
///
/// # Errors
///
/// From the system, when a handler or the thread cannot be set up.
pub(crate) fn listen(events: Sender<Event>) -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut asked = false;
        for signal in signals.forever() {
            if asked {
                signal_hook::low_level::exit(128 + signal);
            }
            asked = true;
            notify::stopping();
            // A sampler that has ended already needs no telling.
            let _ = events.send(Event::Stop);
        }
    })?;
    Ok(())
}
