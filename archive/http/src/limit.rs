//! The limit on open connections.
//!
//! A connection has a [`ConnectionPlace`] until its socket is closed. When all places are taken,
//! the connection that has been idle longest is closed, and a new one waits for its place: there
//! are never more sockets than places. A connection is idle while no complete request of it is
//! being answered, so silent or slow peers give way to others. Each has [`GRACE`] to send its
//! request first: otherwise peers that connect in a loop would close all other connections.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::{AbortHandle, yield_now};
use tokio::time::timeout;

/// Minimum idle time before a connection may be closed for a new one. A full set of places can be
/// replaced in this time, so the kernel's longest queue is accepted within two seconds.
const GRACE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Limit {
    max: usize,
    inner: Mutex<Inner>,
    closed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<u64, Connection>,
    /// The logical time since which a connection is idle, and its number.
    idle: BTreeSet<(u64, u64)>,
    /// The last number, which is also the logical time.
    next: u64,
}

#[derive(Debug)]
struct Connection {
    /// The logical time of its key in `idle`.
    idle_since: u64,
    /// The wall-clock equivalent of `idle_since`.
    since: Instant,
    /// The number of its requests that are being answered.
    busy: u32,
    task: Option<AbortHandle>,
}

/// The place of a connection, free again when this is dropped.
#[derive(Debug)]
pub struct ConnectionPlace {
    limit: Arc<Limit>,
    number: u64,
}

/// A guard that keeps a connection open while one of its requests is answered.
#[derive(Debug)]
pub struct Busy(Arc<ConnectionPlace>);

impl Limit {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, inner: Mutex::default(), closed: Notify::new() })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place for a new connection, and returns `None` if all connections are busy. Only
    /// one task at a time may wait.
    pub(crate) async fn place(self: &Arc<Self>) -> Option<Arc<ConnectionPlace>> {
        let mut are_requests_read = false;
        while self.is_full() {
            let idle = self.inner().longest_idle()?;
            if idle < GRACE {
                let _ = timeout(GRACE.saturating_sub(idle), self.closed.notified()).await;
                continue;
            }
            // On a busy machine a request may have arrived while this thread was not scheduled. The
            // runtime polls for it in one turn and wakes its task in the next.
            if !are_requests_read {
                yield_now().await;
                yield_now().await;
                are_requests_read = true;
                continue;
            }
            self.close_idle();
            while self.is_full() {
                self.closed.notified().await;
            }
        }
        let mut inner = self.inner();
        let number = inner.advance();
        inner.idle.insert((number, number));
        let entry = Connection { idle_since: number, since: Instant::now(), busy: 0, task: None };
        inner.open.insert(number, entry);
        Some(Arc::new(ConnectionPlace { limit: Arc::clone(self), number }))
    }

    fn is_full(&self) -> bool {
        self.inner().open.len() >= self.max
    }

    pub(crate) fn close_idle(&self) -> bool {
        self.inner().close_idle()
    }
}

impl Inner {
    fn advance(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn longest_idle(&self) -> Option<Duration> {
        let (_, number) = self.idle.first()?;
        self.open.get(number).map(|entry| entry.since.elapsed())
    }

    fn close_idle(&mut self) -> bool {
        let Some((_, number)) = self.idle.pop_first() else { return false };
        if let Some(task) = self.open.get(&number).and_then(|entry| entry.task.as_ref()) {
            task.abort();
        }
        true
    }
}

impl ConnectionPlace {
    pub(crate) fn set_task(&self, task: AbortHandle) {
        if let Some(entry) = self.limit.inner().open.get_mut(&self.number) {
            entry.task = Some(task);
        }
    }

    /// Marks the connection as busy until the guard is dropped.
    pub fn busy(self: &Arc<Self>) -> Busy {
        let mut inner = self.limit.inner();
        if let Some(entry) = inner.open.get_mut(&self.number) {
            entry.busy += 1;
            let idle = (entry.idle_since, self.number);
            inner.idle.remove(&idle);
        }
        drop(inner);
        Busy(Arc::clone(self))
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut inner = self.limit.inner();
        if let Some(entry) = inner.open.remove(&self.number) {
            inner.idle.remove(&(entry.idle_since, self.number));
        }
        drop(inner);
        self.limit.closed.notify_one();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut inner = self.0.limit.inner();
        let now = inner.advance();
        if let Some(entry) = inner.open.get_mut(&self.0.number) {
            entry.busy = entry.busy.saturating_sub(1);
            if entry.busy == 0 {
                entry.idle_since = now;
                entry.since = Instant::now();
                inner.idle.insert((now, self.0.number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::net::UnixStream;
    use tokio::runtime::Builder;
    use tokio::task::{JoinHandle, spawn};
    use tokio::time::timeout;

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    /// A connection that lasts until it is closed.
    fn open(place: &Arc<ConnectionPlace>) -> JoinHandle<()> {
        let kept = Arc::clone(place);
        let task = spawn(async move {
            let _place = kept;
            pending::<()>().await;
        });
        place.set_task(task.abort_handle());
        task
    }

    #[test]
    fn a_new_connection_waits_until_the_longest_idle_one_is_closed() {
        run(async {
            let limit = Limit::new(3);
            let mut places = Vec::new();
            for _ in 0..3 {
                places.push(limit.place().await.unwrap());
            }
            let tasks: Vec<_> = places.iter().map(open).collect();
            // The first one was busy last, the second one is.
            let _busy = places[1].busy();
            drop(places[0].busy());
            let third = places.pop().unwrap();
            let waits = timeout(GRACE / 4, limit.place()).await;
            assert!(waits.is_err() && !tasks[2].is_finished(), "it had no time to ask");
            let waits = timeout(4 * GRACE, limit.place()).await;
            assert!(waits.is_err(), "its socket is open as long as its place is kept");
            assert_eq!(limit.inner().open.len(), 3);
            drop(third);
            assert!(limit.place().await.is_some());
            assert!(tasks[2].is_finished() && !tasks[0].is_finished() && !tasks[1].is_finished());
        });
    }

    #[test]
    fn request_that_arrived_while_the_thread_did_not_run_is_read_first() {
        run(async {
            let limit = Limit::new(1);
            let place = limit.place().await.unwrap();
            let (peer, socket) = UnixStream::pair().unwrap();
            let kept = Arc::clone(&place);
            let task = spawn(async move {
                socket.readable().await.unwrap();
                let _busy = kept.busy();
                pending::<()>().await;
            });
            place.set_task(task.abort_handle());
            drop(place);
            yield_now().await;
            peer.try_write(b"GET").unwrap();
            std::thread::sleep(2 * GRACE);
            assert!(limit.place().await.is_none());
            assert!(!task.is_finished());
        });
    }

    #[test]
    fn no_connection_is_closed_while_it_is_answered() {
        run(async {
            let limit = Limit::new(2);
            let one = limit.place().await.unwrap();
            let other = limit.place().await.unwrap();
            let tasks = [open(&one), open(&other)];
            let busy = [one.busy(), one.busy(), other.busy()];
            assert!(limit.place().await.is_none());
            let [first, second, _third] = busy;
            drop(first);
            assert!(limit.place().await.is_none());
            drop((one, second));
            assert!(limit.place().await.is_some());
            assert!(tasks[0].is_finished() && !tasks[1].is_finished());
        });
    }
}
