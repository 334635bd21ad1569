//! Starts threads and sets their scheduling.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use memmap2::MmapMut;
use rustix::time::{ClockId, clock_gettime};
use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// Nice value of a background thread. Beside a thread that computes all the time it gets 110 of
/// 1134 parts of a processor.
const NICE: i32 = 10;

/// Time for which a failed start is repeated.
const START_TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// Stack size of a thread, in bytes.
const STACK: usize = 2 << 20;
/// Size of a thread's mapping beyond its stack, in bytes: a guard page and thread-local variables.
const BESIDES: usize = 256 << 10;

/// Number of additional stacks that are reserved.
const SPARE: usize = 4;

/// Address space for the stacks of future threads.
static RESERVED: Mutex<Vec<MmapMut>> = Mutex::new(Vec::new());

/// Reserves address space for the stacks of this number of threads, and of a few more.
///
/// In a small address space (`ulimit -v`) nothing would be left for the last of them: malloc takes
/// 64 MiB for each of the first threads, and then all the rest piece by piece.
pub(crate) fn reserve(threads: usize) {
    let stacks = (0..threads + SPARE).map_while(|_| MmapMut::map_anon(STACK + BESIDES).ok());
    lock(&RESERVED).extend(stacks);
}

/// Frees the rest of the reserve, when all threads were started.
pub(crate) fn release() {
    lock(&RESERVED).clear();
}

/// Starts a thread of this name.
///
/// If there is no space for its stack, the start is repeated: for a moment malloc takes twice the
/// address space that it keeps for another thread.
///
/// # Errors
///
/// From the system, after two seconds of `EAGAIN`.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let work = Arc::new(Mutex::new(Some(work)));
    let until = Instant::now() + START_TIMEOUT;
    loop {
        let own = Arc::clone(&work);
        drop(lock(&RESERVED).pop());
        let started = thread::Builder::new().name(name.into()).stack_size(STACK).spawn(move || {
            let work = lock(&own).take();
            work.expect("only one of the threads has started")()
        });
        match started {
            // Another thread may have taken the space that was freed; free the next piece.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                thread::sleep(PAUSE);
            }
            started => return started,
        }
    }
}

/// Gives the calling thread precedence over all threads with ordinary scheduling (`SCHED_RR`, the
/// lowest priority; see sched(7)).
///
/// # Errors
///
/// Without `RLIMIT_RTPRIO` or `CAP_SYS_NICE`.
pub(crate) fn make_realtime() -> Result<(), thread_priority::Error> {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy)
}

/// Gives the calling thread ordinary scheduling, whatever the thread that started it has.
pub(crate) fn make_ordinary() {
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
    // This fails only for a thread that has it already.
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy);
}

/// Gives the calling thread a tenth of the processor time of others, from which Linux derives a
/// low I/O priority (decision 009). With `SCHED_BATCH` it preempts no other thread.
pub(crate) fn make_background() {
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Batch);
    // Best effort: without it the thread competes with others.
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy);
    let _ = rustix::process::nice(NICE);
}

/// Returns the processor time that the calling thread has used.
pub(crate) fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// Locks what several threads share. One that panicked meanwhile has left it consistent.
pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_its_name_and_a_result() {
        let thread = spawn("worker", || thread::current().name().map(str::to_owned));
        let result = thread.expect("a thread").join();
        assert_eq!(result.expect("it ends"), Some("worker".to_owned()));
    }
}
