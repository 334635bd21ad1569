//! The open connections, of which there is a limit.
//!
//! Anyone on the machine can connect, and many at a time. When there are as many as the limit,
//! a new one takes the place of the one that has gone longest without a question: one that is
//! half-open, or idle. So a connection that asks at once is always served. Those whose
//! question has the token keep their place while it is answered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// The most connections.
pub(super) const MAX_CONNECTIONS: usize = 128;

/// A connection by its number.
#[derive(Debug)]
struct Entry {
    number: u64,
    /// How many of its questions are being answered.
    busy: u32,
    task: Option<AbortHandle>,
}

/// All open connections, those that asked longest ago first.
#[derive(Debug, Default)]
pub(super) struct Connections {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: Vec<Entry>,
    next: u64,
}

/// The place of one connection, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    connections: Arc<Connections>,
    number: u64,
}

/// Held while a question is answered.
#[derive(Debug)]
pub(super) struct Busy(Arc<Seat>);

impl Connections {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection; `None` if all are busy.
    pub(super) fn seat(self: &Arc<Self>) -> Option<Arc<Seat>> {
        let mut inner = self.lock();
        if inner.entries.len() >= MAX_CONNECTIONS {
            let oldest = inner.entries.iter().position(|entry| entry.busy == 0)?;
            if let Some(task) = inner.entries.remove(oldest).task {
                task.abort();
            }
        }
        let number = inner.next;
        inner.next += 1;
        inner.entries.push(Entry { number, busy: 0, task: None });
        Some(Arc::new(Seat { connections: Arc::clone(self), number }))
    }
}

impl Seat {
    /// Notes which task serves the connection.
    pub(super) fn is_served_by(&self, task: AbortHandle) {
        let mut inner = self.connections.lock();
        if let Some(entry) = inner.entries.iter_mut().find(|one| one.number == self.number) {
            entry.task = Some(task);
        }
    }

    /// Keeps the place while a question is answered.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.count(|busy| busy + 1);
        Busy(Arc::clone(self))
    }

    fn count(&self, change: impl Fn(u32) -> u32) {
        let mut inner = self.connections.lock();
        let place = inner.entries.iter().position(|one| one.number == self.number);
        if let Some(place) = place {
            let entry = inner.entries.remove(place);
            let busy = change(entry.busy);
            inner.entries.push(Entry { busy, ..entry });
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connections.lock().entries.retain(|entry| entry.number != self.number);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.count(|busy| busy.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_has_not_asked_for_longest_gives_way() {
        let connections = Arc::new(Connections::default());
        let seats: Vec<_> = (0..MAX_CONNECTIONS).map(|_| connections.seat().unwrap()).collect();
        let numbers = || -> Vec<u64> {
            connections.lock().entries.iter().map(|entry| entry.number).collect()
        };
        let busy = seats[0].busy();
        let new = connections.seat().unwrap();
        assert!(
            !numbers().contains(&1) && numbers().contains(&0) && numbers().contains(&new.number)
        );
        drop(busy);
        drop(seats[2].busy());
        let newer = connections.seat().unwrap();
        assert!(
            !numbers().contains(&3) && numbers().contains(&2) && numbers().contains(&newer.number)
        );
        drop(seats);
        assert_eq!(numbers().len(), 2);
    }

    #[test]
    fn nobody_gives_way_while_it_is_answered() {
        let connections = Arc::new(Connections::default());
        let seats: Vec<_> = (0..MAX_CONNECTIONS).map(|_| connections.seat().unwrap()).collect();
        let busy: Vec<_> = seats.iter().map(Seat::busy).collect();
        assert!(connections.seat().is_none());
        drop(busy);
        assert!(connections.seat().is_some());
    }
}
