//! The limit on open connections.
//!
//! A connection has a [`ConnectionPlace`] until its socket is closed. When all places are taken, the
//! connection that has been idle longest is closed, and a new one waits until it is: there are
//! never more sockets than places. A connection is idle while no whole request of it is being
//! answered, so peers that say nothing, or send a request slowly, give way to others. None gives
//! way before it had the time to ask: peers that connect in a loop would close all others.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Time for which a connection is idle before it gives way. As many connections as there are places
/// are accepted in it, so the longest queue of the kernel is accepted within two seconds.
const GRACE: Duration = Duration::from_millis(50);

/// All open connections.
#[derive(Debug)]
pub(crate) struct Limit {
    most: usize,
    inner: Mutex<Inner>,
    /// A connection was closed.
    closed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// By number.
    open: HashMap<u64, Connection>,
    /// When each idle connection became idle, with its number.
    idle: BTreeSet<(u64, u64)>,
    /// The next number, and the next moment.
    next: u64,
}

#[derive(Debug)]
struct Connection {
    idle_since: u64,
    /// The same by the clock.
    since: Instant,
    /// How many of its requests are being answered.
    busy: u32,
    task: Option<AbortHandle>,
}

/// The place of a connection, free again when this is dropped.
#[derive(Debug)]
pub struct ConnectionPlace {
    limit: Arc<Limit>,
    number: u64,
}

/// A request is being answered, until this is dropped.
#[derive(Debug)]
pub struct Busy(Arc<ConnectionPlace>);

impl Limit {
    /// At most this many connections.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, inner: Mutex::default(), closed: Notify::new() })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection; `None` if all are busy. One task at a time may wait.
    pub(crate) async fn place(self: &Arc<Self>) -> Option<Arc<ConnectionPlace>> {
        while self.is_full() {
            let idle = self.inner().longest_idle()?;
            if idle < GRACE {
                let _ = timeout(GRACE.saturating_sub(idle), self.closed.notified()).await;
                continue;
            }
            self.close_idle();
            while self.is_full() {
                self.closed.notified().await;
            }
        }
        let mut inner = self.inner();
        let number = inner.moment();
        inner.idle.insert((number, number));
        let entry = Connection { idle_since: number, since: Instant::now(), busy: 0, task: None };
        inner.open.insert(number, entry);
        Some(Arc::new(ConnectionPlace { limit: Arc::clone(self), number }))
    }

    fn is_full(&self) -> bool {
        self.inner().open.len() >= self.most
    }

    /// Closes the connection that has been idle longest; false if none is idle.
    pub(crate) fn close_idle(&self) -> bool {
        self.inner().close_idle()
    }
}

impl Inner {
    fn moment(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns how long the connection has been idle that has been idle longest.
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
    /// Notes the task that ends with the connection.
    pub(crate) fn is_served_by(&self, task: AbortHandle) {
        if let Some(entry) = self.limit.inner().open.get_mut(&self.number) {
            entry.task = Some(task);
        }
    }

    /// Keeps the connection while a request is answered.
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
        let now = inner.moment();
        if let Some(entry) = inner.open.get_mut(&self.0.number) {
            entry.busy = entry.busy.saturating_sub(1);
            if entry.busy == 0 {
                (entry.idle_since, entry.since) = (now, Instant::now());
                inner.idle.insert((now, self.0.number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::runtime::Builder;
    use tokio::task::{JoinHandle, spawn};
    use tokio::time::timeout;

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        Builder::new_current_thread().enable_time().build().unwrap().block_on(test);
    }

    /// A connection that lasts until it is closed.
    fn open(place: &Arc<ConnectionPlace>) -> JoinHandle<()> {
        let kept = Arc::clone(place);
        let task = spawn(async move {
            let _place = kept;
            pending::<()>().await;
        });
        place.is_served_by(task.abort_handle());
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
    fn no_connection_is_closed_while_it_is_answered() {
        run(async {
            let limit = Limit::new(2);
            let (one, other) = (limit.place().await.unwrap(), limit.place().await.unwrap());
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
