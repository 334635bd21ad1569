//! Runs the loader: on a thread of its own, or inline for tests that move the clock.
//!
//! Updates go through a mailbox that holds one; a later update replaces one that the sampler has
//! not taken. The sampler waits for the mailbox only where a time limit is stated.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender, unbounded};
use pcp_types::Timestamp;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::Loader;
use super::last_values::LastValuesRequest;
use super::loader::Request;
use super::update::Update;
use crate::limits::TokenBucket;
use crate::moment::Moment;
use crate::threads;

/// Maximum time between two checks for due work.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// After work that took more processor time than [`SHORT_WORK`] the thread pauses for as long, up
/// to [`LONGEST_PAUSE`], so that it takes at most half a processor. A lower priority, or a pause for
/// the time that it waited for a processor, would delay new files on a busy machine.
const SHORT_WORK: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Time that the first tick waits for the files that exist at the start.
const FIRST_WAIT: Duration = Duration::from_secs(2);

/// Maximum wait within a tick for the new metadata of a source, and the rate limit on such waits
/// in seconds: a burst, and seconds per second.
const LONGEST_WAIT: Duration = Duration::from_millis(5);
const WAITS_IN_A_ROW: f64 = 0.05;
const WAITS_PER_SECOND: f64 = 0.01;

/// Longest time that a stop waits for the loader, which may be in its longest pause: before the last
/// tick, and again for the last events.
pub(crate) const LAST_WAIT: Duration = Duration::from_secs(2);

/// Time that it waits until the loader has opened all files, where none may be missing.
const CATCH_UP_WAIT: Duration = Duration::from_secs(5);

/// The sampler's handle to the loader.
#[derive(Debug)]
pub(crate) enum LoaderHandle {
    /// Works when asked.
    #[cfg(test)]
    Inline(Box<InlineLoader>),
    /// Works on its own thread.
    Thread(Link),
}

/// A loader without a thread.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct InlineLoader {
    loader: Loader,
    /// Set while updates are late: they wait for [`LoaderHandle::deliver_late`].
    is_late: bool,
    waiting: Option<Update>,
    delivered: Option<Update>,
}

#[cfg(test)]
impl InlineLoader {
    /// Returns what has changed, unless updates are late.
    fn update(&mut self) -> Option<Update> {
        let mut update = self.loader.update();
        if self.is_late {
            if let Some(before) = self.waiting.take() {
                update.replace(before);
            }
            self.waiting = Some(update);
            return None;
        }
        Some(update).filter(|update| !update.is_empty())
    }
}

/// The sampler's end of the loader thread. The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Link {
    requests: Sender<Request>,
    made: u64,
    post: Arc<SharedMailbox>,
    waits: TokenBucket,
}

/// The number of a request to the loader, from 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestNumber(u64);

/// State shared by both threads.
#[derive(Debug)]
struct SharedMailbox {
    mailbox: Mutex<Mailbox>,
    filled: Condvar,
    /// Readable when there are requests.
    bell: OwnedFd,
}

#[derive(Debug, Default)]
struct Mailbox {
    update: Option<Update>,
    /// Number of requests whose results are in this update or an earlier one.
    handled: u64,
    /// True once all files that existed at the start were tried.
    complete: bool,
    /// True once the thread has ended.
    ended: bool,
}

impl SharedMailbox {
    // A thread that panicked with the lock held has left a complete update or none.
    fn open(&self) -> MutexGuard<'_, Mailbox> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        // It fails only when it is readable anyway.
        let _ = rustix::io::write(&self.bell, &[1; 8]);
    }
}

/// The loader with its ends of the channels, on its own thread.
pub(crate) struct LoaderThread {
    loader: Loader,
    requests: Receiver<Request>,
    handled: u64,
    post: Arc<SharedMailbox>,
    /// Sends the sampler a request.
    request_last_values: Box<dyn Fn(LastValuesRequest) + Send>,
}

impl fmt::Debug for LoaderThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoaderThread").finish_non_exhaustive()
    }
}

/// Creates the two ends of a loader on a thread, which asks the sampler for last values by
/// `request_last_values`.
///
/// # Errors
///
/// Those of eventfd(2).
pub(crate) fn on_thread(
    loader: Loader,
    request_last_values: impl Fn(LastValuesRequest) + Send + 'static,
) -> std::io::Result<(LoaderHandle, LoaderThread)> {
    let (sender, requests) = unbounded();
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let post = Arc::new(SharedMailbox { mailbox: Mutex::default(), filled: Condvar::new(), bell });
    let waits = TokenBucket::new(WAITS_IN_A_ROW, WAITS_PER_SECOND);
    let link = Link { requests: sender, made: 0, post: Arc::clone(&post), waits };
    let request_last_values = Box::new(request_last_values);
    let thread = LoaderThread { loader, requests, handled: 0, post, request_last_values };
    Ok((LoaderHandle::Thread(link), thread))
}

impl LoaderHandle {
    /// Returns what has changed at the beginning of a tick, without waiting for the thread.
    #[cfg_attr(not(test), expect(unused_variables, reason = "the thread has its own clock"))]
    pub(crate) fn begin(&mut self, now: Moment) -> Option<Update> {
        match self {
            #[cfg(test)]
            Self::Inline(inline) if inline.is_late => inline.delivered.take(),
            #[cfg(test)]
            Self::Inline(inline) => {
                inline.loader.begin(now);
                while inline.loader.step() {}
                inline.update()
            }
            Self::Thread(link) => link.take(),
        }
    }

    /// Lets an inline loader find changes of the directory, and returns its requests.
    #[cfg(test)]
    pub(crate) fn last_values_requests(&mut self, now: Moment) -> Vec<LastValuesRequest> {
        let Self::Inline(inline) = self else { return Vec::new() };
        if inline.is_late {
            return Vec::new();
        }
        inline.loader.begin(now);
        while inline.loader.step() {}
        inline.loader.sources.take_last_values_requests().collect()
    }

    /// Creates a loader that works when asked.
    #[cfg(test)]
    pub(crate) fn inline(loader: Loader) -> Self {
        let inline = InlineLoader { loader, is_late: false, waiting: None, delivered: None };
        Self::Inline(Box::new(inline))
    }

    /// Lets an inline loader deliver an update only when [told](Self::deliver_late) to.
    #[cfg(test)]
    pub(crate) fn be_late(&mut self) {
        let Self::Inline(inline) = self else { return };
        inline.is_late = true;
    }

    /// Delivers at the next tick what a late loader has.
    #[cfg(test)]
    pub(crate) fn deliver_late(&mut self) {
        let Self::Inline(inline) = self else { return };
        inline.delivered = inline.waiting.take();
    }

    /// Returns what has changed after a request made at this tick. Waits for the thread for a
    /// small part of the interval, unless that was often in vain lately.
    pub(crate) fn answer(&mut self, now: Moment, interval: Duration) -> Option<Update> {
        match self {
            #[cfg(test)]
            Self::Inline(inline) => inline.update(),
            Self::Thread(link) => link.wait(now, (interval / 20).min(LONGEST_WAIT)),
        }
    }

    /// Returns what has changed after all requests so far and after the loader's present step.
    pub(crate) fn finish(&mut self, longest_wait: Duration) -> Option<Update> {
        self.ask_to_finish();
        self.update_after_requests(longest_wait)
    }

    /// Requests what has changed after the loader's present step.
    pub(crate) fn ask_to_finish(&mut self) -> RequestNumber {
        self.ask(Request::Gaps(Vec::new()));
        RequestNumber(self.link().map_or(0, |link| link.made))
    }

    /// Returns true if the results of a request are there, or the loader has ended.
    pub(crate) fn is_answered(&self, request: RequestNumber) -> bool {
        let Some(link) = self.link() else { return true };
        let mailbox = link.post.open();
        mailbox.handled >= request.0 || mailbox.ended
    }

    /// Has all files opened that there are, and returns what has changed. The wait is limited.
    pub(crate) fn catch_up(&mut self) -> Option<Update> {
        self.ask(Request::CatchUp);
        self.update_after_requests(CATCH_UP_WAIT)
    }

    fn update_after_requests(&mut self, longest: Duration) -> Option<Update> {
        match self {
            #[cfg(test)]
            Self::Inline(inline) => inline.update(),
            Self::Thread(link) => link.wait_for_requests(longest),
        }
    }

    /// Sends a request. Returns false if the loader has ended.
    pub(crate) fn ask(&mut self, request: Request) -> bool {
        match self {
            #[cfg(test)]
            Self::Inline(inline) => inline.loader.handle(request),
            Self::Thread(link) => {
                let sent = link.requests.send(request).is_ok();
                link.made += 1;
                link.post.ring();
                sent
            }
        }
    }

    /// Waits until the existing files were tried, for [`FIRST_WAIT`] at most.
    pub(crate) fn wait_for_first(&self) {
        let Some(link) = self.link() else { return };
        let mailbox = link.post.open();
        drop(link.post.filled.wait_timeout_while(mailbox, FIRST_WAIT, |mailbox| {
            !mailbox.complete && !mailbox.ended
        }));
    }

    /// Returns true if the loader's thread has ended, which only a defect causes.
    pub(crate) fn has_ended(&self) -> bool {
        let Some(link) = self.link() else { return false };
        link.post.mailbox.try_lock().is_ok_and(|mailbox| mailbox.ended)
    }

    #[cfg_attr(not(test), expect(clippy::unnecessary_wraps, reason = "tests have no thread"))]
    fn link(&self) -> Option<&Link> {
        match self {
            #[cfg(test)]
            Self::Inline(_) => None,
            Self::Thread(link) => Some(link),
        }
    }

    pub(crate) fn is_inline(&self) -> bool {
        self.link().is_none()
    }
}

impl Link {
    fn take(&self) -> Option<Update> {
        self.post.mailbox.try_lock().ok()?.update.take()
    }

    fn wait(&mut self, now: Moment, longest: Duration) -> Option<Update> {
        if !self.waits.has_any(now.monotonic) {
            return None;
        }
        let began = Instant::now();
        let waited = self.post.filled.wait_timeout_while(self.post.open(), longest, |mailbox| {
            mailbox.update.is_none() && !mailbox.ended
        });
        let (mut mailbox, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let update = mailbox.update.take();
        drop(mailbox);
        self.waits.take(began.elapsed().as_secs_f64());
        update
    }

    fn wait_for_requests(&self, longest: Duration) -> Option<Update> {
        let waited = self.post.filled.wait_timeout_while(self.post.open(), longest, |mailbox| {
            mailbox.handled < self.made && !mailbox.ended
        });
        let (mut mailbox, _) = waited.unwrap_or_else(PoisonError::into_inner);
        mailbox.update.take()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Sending fails only if the thread has ended already.
        let _ = self.requests.send(Request::End);
        self.post.ring();
    }
}

impl LoaderThread {
    /// Runs until the other end is dropped.
    pub(crate) fn run(mut self) {
        let start = Instant::now();
        loop {
            let worked_before = threads::processor_time();
            let now = Moment { monotonic: start.elapsed(), wall: Timestamp::now() };
            self.loader.begin(now);
            while let Ok(request) = self.requests.try_recv() {
                if !self.loader.handle(request) {
                    return;
                }
                self.handled += 1;
            }
            // Results that the sampler waits for go out before new work.
            self.send();
            let more = self.loader.step();
            self.send();
            // The update may have newer metadata of these files.
            for request in self.loader.sources.take_last_values_requests() {
                (self.request_last_values)(request);
            }
            let worked = threads::processor_time().saturating_sub(worked_before);
            if worked > SHORT_WORK {
                thread::sleep(worked.min(LONGEST_PAUSE));
            }
            if !more {
                self.sleep(self.loader.sources.due_in(now.monotonic).min(LONGEST_SLEEP));
            }
        }
    }

    /// Puts the latest update into the mailbox.
    fn send(&mut self) {
        let mut update = self.loader.update();
        let complete = self.loader.is_complete();
        if update.is_empty() {
            let mut mailbox = self.post.open();
            mailbox.handled = self.handled;
            mailbox.complete = complete;
            drop(mailbox);
            self.post.filled.notify_all();
            return;
        }
        // For these microseconds the sampler finds the mailbox empty.
        let before = self.post.open().update.take();
        if let Some(before) = before {
            update.replace(before);
        }
        let mut mailbox = self.post.open();
        mailbox.update = Some(update);
        mailbox.handled = self.handled;
        mailbox.complete = complete;
        drop(mailbox);
        self.post.filled.notify_all();
    }

    /// Sleeps until there is a request, a change of the directory, or the time is over.
    fn sleep(&self, longest: Duration) {
        let bell = self.post.bell.as_fd();
        let watch: Option<BorrowedFd<'_>> = self.loader.sources.watch();
        let fds = [Some(bell), watch].into_iter().flatten();
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = Timespec::try_from(longest).ok();
        // When interrupted, the thread checks a bit earlier.
        let _ = poll(&mut fds, timeout.as_ref());
        let _ = rustix::io::read(bell, &mut [0; 8]);
    }
}

impl Drop for LoaderThread {
    fn drop(&mut self) {
        self.post.open().ended = true;
        self.post.filled.notify_all();
    }
}

#[cfg(test)]
mod tests;
