//! Series that end when nothing was counted in them for some time.
//!
//! The handle of such a series notes each update. A thread looks at the notes, and
//! removes the instance of a series without any. A handle that the program kept
//! creates the instance again when it is used: no count is lost, as an update holds
//! the lock that the removal takes. The recorder's lock is taken before that.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use metrics::{CounterFn, GaugeFn, HistogramFn, Key};

use crate::measure::Measure;
use crate::state::Series;
use crate::{SharedState, warning};

/// Limit on the time between two looks at the notes.
const LONGEST_STEP: Duration = Duration::from_secs(5);
const SHORTEST_STEP: Duration = Duration::from_millis(5);

/// A handle that notes when it is used.
pub(crate) struct TrackedHandle<M> {
    recorder: Weak<SharedState>,
    key: Key,
    updated: AtomicBool,
    current: RwLock<Current<M>>,
}

struct Current<M> {
    /// The handle with its instance; `None` if the series was removed.
    given: Option<Series<M>>,
    /// Time at which an update was last noted.
    seen: Instant,
}

impl<M: Measure> TrackedHandle<M> {
    pub(crate) fn new(recorder: Weak<SharedState>, key: &Key, given: Series<M>) -> Self {
        let current = RwLock::new(Current { given: Some(given), seen: Instant::now() });
        Self { recorder, key: key.to_retained(), updated: AtomicBool::new(true), current }
    }

    /// Updates the series, which is created again if it was removed.
    fn update(&self, update: impl Fn(&M)) {
        loop {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(given) = &current.given {
                // Mostly it is set: then no other thread's cache line is taken.
                if !self.updated.load(Ordering::Relaxed) {
                    self.updated.store(true, Ordering::Relaxed);
                }
                return update(&given.handle);
            }
            drop(current);
            if !self.create_again() {
                return;
            }
        }
    }

    /// Creates the series again. Returns `false` if that is not possible.
    #[cold]
    fn create_again(&self) -> bool {
        let Some(shared) = self.recorder.upgrade() else { return false };
        let mut state = shared.state();
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.given.is_some() {
            return true;
        }
        match state.series(&self.key) {
            Ok(given) => {
                *current = Current { given: Some(given), seen: Instant::now() };
                self.updated.store(true, Ordering::Relaxed);
                true
            }
            Err(message) => {
                warning(&message);
                false
            }
        }
    }

    /// Removes the series if it was not updated for this long. Returns whether it is removed.
    pub(crate) fn expire(&self, idle: Duration) -> bool {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if self.updated.swap(false, Ordering::Relaxed) {
            current.seen = Instant::now();
        }
        if current.given.is_some() && current.seen.elapsed() < idle {
            return false;
        }
        if let Some(given) = current.given.take()
            && let Some(remove) = given.remove
        {
            remove();
        }
        true
    }
}

impl<M> fmt::Debug for TrackedHandle<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracked").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<M: Measure + CounterFn> CounterFn for TrackedHandle<M> {
    fn increment(&self, value: u64) {
        self.update(|counter| counter.increment(value));
    }

    fn absolute(&self, value: u64) {
        self.update(|counter| counter.absolute(value));
    }
}

impl<M: Measure + GaugeFn> GaugeFn for TrackedHandle<M> {
    fn increment(&self, value: f64) {
        self.update(|gauge| gauge.increment(value));
    }

    fn decrement(&self, value: f64) {
        self.update(|gauge| gauge.decrement(value));
    }

    fn set(&self, value: f64) {
        self.update(|gauge| gauge.set(value));
    }
}

impl<M: Measure + HistogramFn> HistogramFn for TrackedHandle<M> {
    fn record(&self, value: f64) {
        self.update(|histogram| histogram.record(value));
    }

    fn record_many(&self, value: f64, count: usize) {
        self.update(|histogram| histogram.record_many(value, count));
    }
}

/// Starts the thread that removes idle series. It ends with the recorder.
pub(crate) fn start(shared: &Arc<SharedState>, idle: Duration) {
    let step = (idle / 4).clamp(SHORTEST_STEP, LONGEST_STEP);
    let recorder = Arc::downgrade(shared);
    let started = thread::Builder::new().name("mmv-idle".to_owned()).spawn(move || {
        loop {
            thread::sleep(step);
            let Some(shared) = recorder.upgrade() else { return };
            shared.expire(idle);
        }
    });
    if let Err(error) = started {
        warning(&format_args!("idle series are not removed: {error}"));
    }
}

#[cfg(test)]
mod tests;
