//! Jobs on several threads, with their results in the order of the jobs.
//!
//! In: jobs from one thread. Out: the results of the other threads, in the order
//! of the jobs. A job that takes long delays only the results after it.
//!
//! ```
//! use pcp_archive::parallel::in_order;
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

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// More threads than this wait for the one that hands out the jobs.
const MAX_THREADS: usize = 8;

/// How many threads are worth starting on this machine.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS)
}

/// Jobs that were handed out, and where their results arrive.
#[derive(Debug)]
pub struct Jobs<J, R> {
    queue: Sender<(J, Sender<R>)>,
    results: VecDeque<Receiver<R>>,
}

impl<J, R> Jobs<J, R> {
    /// Hands out a job.
    pub fn push(&mut self, job: J) {
        let (done, result) = mpsc::channel();
        self.results.push_back(result);
        // The threads receive until this sender is dropped.
        let _ = self.queue.send((job, done));
    }

    /// Waits for the result of the first job whose result was not taken yet;
    /// `None` without one.
    pub fn pop(&mut self) -> Option<R> {
        // No result arrives from a thread that panics: the scope of the threads
        // then ends with that panic.
        self.results.pop_front()?.recv().ok()
    }

    /// How many results were not taken yet.
    pub fn len(&self) -> usize {
        self.results.len()
    }

    /// Whether all results were taken.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }
}

/// Starts a thread for each state. `feed` hands out jobs and takes their results,
/// `work` turns a job into a result on one of the threads. Returns when all
/// threads have ended.
pub fn in_order<S: Send, J: Send, R: Send, T>(
    states: impl IntoIterator<Item = S>,
    work: impl Fn(&mut S, J) -> R + Sync,
    feed: impl FnOnce(&mut Jobs<J, R>) -> T,
) -> T {
    let (queue, jobs) = mpsc::channel::<(J, Sender<R>)>();
    let jobs = Mutex::new(jobs);
    thread::scope(|scope| {
        for mut state in states {
            let (jobs, work) = (&jobs, &work);
            scope.spawn(move || {
                while let Some((job, done)) = next(jobs) {
                    // The receiver is gone if feeding has ended early.
                    let _ = done.send(work(&mut state, job));
                }
            });
        }
        // The threads end when the sender is dropped.
        let mut jobs = Jobs { queue, results: VecDeque::new() };
        feed(&mut jobs)
    })
}

fn next<T>(jobs: &Mutex<Receiver<T>>) -> Option<T> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn results_arrive_in_the_order_of_the_jobs() {
        let slow_first = |(): &mut (), job: u64| {
            thread::sleep(Duration::from_millis(20 * u64::from(job == 0)));
            job
        };
        let found: Vec<u64> = in_order([(), (), ()], slow_first, |jobs| {
            (0..10).for_each(|job| jobs.push(job));
            assert_eq!(jobs.len(), 10);
            std::iter::from_fn(|| jobs.pop()).collect()
        });
        assert_eq!(found, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_thread_keeps_its_state_and_early_ends_lose_results_only() {
        let count = |state: &mut u32, ()| {
            *state += 1;
            *state
        };
        let found = in_order([10], count, |jobs| {
            (0..3).for_each(|_| jobs.push(()));
            (jobs.pop(), jobs.pop())
        });
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
