//! Jobs on several threads, with their results in the order of the jobs.
//!
//! In: jobs from one thread. Out: the results of the other threads, in the order
//! of the jobs. A job that takes long delays only the results after it.
//!
//! ```
//! use pcp_archive::internal::parallel::in_order;
//!
//! let squares: Vec<u32> = in_order(
//!     [(), ()],
//!     |(), number: u32| number * number,
//!     |jobs| {
//!         (1..=4).for_each(|number| jobs.push(number));
//!         std::iter::from_fn(|| jobs.pop()).collect()
//!     },
//! );
//! assert_eq!(squares, [1, 4, 9, 16]);
//! ```

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

/// More threads than this wait for the one that hands out the jobs.
const MAX_THREADS: usize = 8;

const STACK: usize = 2 << 20;

/// Returns the number of threads that are worth starting on this machine. Determined once: the
/// standard library reads several cgroup files for it.
pub fn threads() -> usize {
    static COUNT: LazyLock<usize> =
        LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS));
    *COUNT
}

thread_local! {
    /// The number of threads in the pool of this thread; 0 outside of pools.
    static WORKERS: Cell<usize> = const { Cell::new(0) };
}

/// Returns the number of threads that are worth starting besides the pool of this thread.
#[cfg(feature = "compression")]
pub(crate) fn idle() -> usize {
    threads().saturating_sub(WORKERS.get())
}

/// Jobs that were handed out, and where their results arrive.
pub struct Jobs<'w, J, R> {
    queue: Sender<(J, Sender<R>)>,
    results: VecDeque<Receiver<R>>,
    /// Does jobs at once, where no thread could be started.
    here: Option<&'w mut dyn FnMut(J) -> R>,
}

impl<J, R> fmt::Debug for Jobs<'_, J, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("results", &self.results.len()).finish_non_exhaustive()
    }
}

impl<J, R> Jobs<'_, J, R> {
    /// Hands out a job.
    pub fn push(&mut self, job: J) {
        let (done, result) = mpsc::channel();
        self.results.push_back(result);
        // The threads receive until this sender is dropped, and the result can wait.
        let _ = match &mut self.here {
            Some(work) => done.send(work(job)).is_ok(),
            None => self.queue.send((job, done)).is_ok(),
        };
    }

    /// Waits for the result of the first job whose result was not taken yet;
    /// `None` without one.
    pub fn pop(&mut self) -> Option<R> {
        // No result arrives from a thread that panics: the scope of the threads
        // then ends with that panic.
        self.results.pop_front()?.recv().ok()
    }

    /// Returns the number of results that were not taken yet.
    pub fn len(&self) -> usize {
        self.results.len()
    }

    /// Returns whether all results were taken.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }
}

/// Starts a thread for each state. `feed` hands out jobs and takes their results,
/// `work` turns a job into a result on one of the threads. Returns when all
/// threads have ended.
///
/// Without as many threads (`ulimit -u`, `ulimit -v`) those that there are do the work,
/// without any the thread of `feed`.
pub fn in_order<S: Send, J: Send, R: Send, T>(
    states: impl IntoIterator<Item = S>,
    work: impl Fn(&mut S, J) -> R + Sync,
    feed: impl FnOnce(&mut Jobs<'_, J, R>) -> T,
) -> T {
    with_stacks(STACK, states, work, feed)
}

fn with_stacks<S: Send, J: Send, R: Send, T>(
    stack: usize,
    states: impl IntoIterator<Item = S>,
    work: impl Fn(&mut S, J) -> R + Sync,
    feed: impl FnOnce(&mut Jobs<'_, J, R>) -> T,
) -> T {
    let (queue, jobs) = mpsc::channel::<(J, Sender<R>)>();
    let jobs = Mutex::new(jobs);
    let workers = AtomicUsize::new(0);
    thread::scope(|scope| {
        let jobs = &jobs;
        let work = &work;
        let workers = &workers;
        let mut left = None;
        for (started, state) in states.into_iter().enumerate() {
            let state = Arc::new(Mutex::new(Some(state)));
            let own = Arc::clone(&state);
            let started_thread =
                thread::Builder::new().stack_size(stack).spawn_scoped(scope, move || {
                    let Some(mut state) = lock(&own).take() else { return };
                    while let Some((job, done)) = next(jobs) {
                        WORKERS.set(workers.load(Ordering::Relaxed));
                        // The receiver is gone if feeding has ended early.
                        let _ = done.send(work(&mut state, job));
                    }
                });
            if started_thread.is_err() {
                left = lock(&state).take().filter(|_| started == 0);
                break;
            }
            workers.store(started + 1, Ordering::Relaxed);
        }
        let mut here = left.map(|mut state| move |job| work(&mut state, job));
        let here = here.as_mut().map(|here| here as &mut dyn FnMut(J) -> R);
        // The threads end when the sender is dropped.
        feed(&mut Jobs { queue, results: VecDeque::new(), here })
    })
}

fn next<T>(jobs: &Mutex<Receiver<T>>) -> Option<T> {
    lock(jobs).recv().ok()
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn results_arrive_in_the_order_of_the_jobs() {
        let found: Vec<u64> = in_order(
            [(), (), ()],
            |(), job| {
                // The first one is slow.
                thread::sleep(Duration::from_millis(20 * u64::from(job == 0)));
                job
            },
            |jobs| {
                (0..10).for_each(|job| jobs.push(job));
                assert_eq!(jobs.len(), 10);
                std::iter::from_fn(|| jobs.pop()).collect()
            },
        );
        assert_eq!(found, (0..10).collect::<Vec<_>>());
    }

    #[test]
    #[cfg(feature = "compression")]
    fn no_thread_is_idle_when_all_processors_work() {
        let count = threads();
        let found = in_order(
            (0..count).map(|_| ()),
            |(), ()| idle(),
            |jobs| {
                jobs.push(());
                jobs.pop()
            },
        );
        assert_eq!((found, idle()), (Some(0), count));
    }

    #[test]
    fn without_a_thread_the_work_is_done_by_the_caller() {
        let caller = thread::current().id();
        let found: Vec<(u32, bool)> = with_stacks(
            usize::MAX / 4,
            [10, 20],
            |state: &mut u32, ()| {
                *state += 1;
                (*state, thread::current().id() == caller)
            },
            |jobs| {
                (0..3).for_each(|_| jobs.push(()));
                std::iter::from_fn(|| jobs.pop()).collect()
            },
        );
        assert_eq!(found, [(11, true), (12, true), (13, true)]);
    }

    #[test]
    fn a_thread_keeps_its_state_and_early_ends_lose_results_only() {
        let found = in_order(
            [10],
            |state, ()| {
                *state += 1;
                *state
            },
            |jobs| {
                (0..3).for_each(|_| jobs.push(()));
                (jobs.pop(), jobs.pop())
            },
        );
        assert_eq!(found, (Some(11), Some(12)));
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_of_a_thread_is_that_of_the_caller() {
        in_order(
            [()],
            |(), ()| assert!(threads() == 0, "on purpose"),
            |jobs| {
                jobs.push(());
                jobs.pop()
            },
        );
    }
}
