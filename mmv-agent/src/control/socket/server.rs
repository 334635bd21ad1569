//! The thread that serves all clients of a socket.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Answer;
use super::bound::Bound;
use super::connection::{Connection, Stage};
use super::peers::{ClientLimits, Peers, Verdict, admit};
use crate::discovery::descriptor_budget::is_shortage;

/// Interval at which the existence of the socket is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Delay before a rate-limited request is retried.
const DELAY: Duration = Duration::from_millis(5);
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);

/// Limit on writes to one client in a turn.
const MAX_WRITES: usize = 8;

pub(super) struct SocketServer<A> {
    bound: Bound,
    /// Readable when the agent ends.
    stop: UnixStream,
    limits: ClientLimits,
    peers: Peers,
    answer: A,
    /// Open connections, the oldest first.
    connections: Vec<Connection>,
    accept: Instant,
    /// Time of the last check of the socket.
    looked: Instant,
    /// Number of the turn, which determines whose answer is continued first.
    turn: usize,
    /// Closed to accept a connection when no other descriptor is left.
    spare: Option<File>,
}

/// Descriptors for sockets that are yet to be served.
static SPARES: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Reserves a descriptor for each socket. The first descriptors of the process stay usable when
/// its limit is lowered later.
pub(crate) fn reserve_descriptors(sockets: usize) {
    let mut spares = SPARES.lock().unwrap_or_else(PoisonError::into_inner);
    spares.extend((0..sockets).filter_map(|_| open_spare()));
}

/// Opens a file that only takes a descriptor.
fn open_spare() -> Option<File> {
    File::open("/dev/null").ok()
}

impl<A: FnMut() -> Option<Answer>> SocketServer<A> {
    /// Serves a socket until the other end of `stop` is closed.
    pub(super) fn new(bound: Bound, stop: UnixStream, limits: ClientLimits, answer: A) -> Self {
        let peers = Peers::new(&limits);
        let now = Instant::now();
        let connections = Vec::new();
        let [accept, looked] = [now; 2];
        let reserved = SPARES.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let spare = reserved.or_else(open_spare);
        Self { bound, stop, limits, peers, answer, connections, accept, looked, turn: 0, spare }
    }

    pub(super) fn run(mut self) {
        let mut now = Instant::now();
        while let Some(ready) = self.wait(now) {
            now = Instant::now();
            if now >= self.looked + CHECK_INTERVAL {
                self.looked = now;
                self.bound.check();
            }
            for (connection, ready) in self.connections.iter_mut().zip(ready) {
                let is_late = connection.until().is_some_and(|until| until <= now);
                if is_late || ready.intersects(PollFlags::HUP | PollFlags::ERR) {
                    connection.stage = Stage::Ended;
                }
            }
            self.accept(now);
            self.answer(now);
            self.write(now);
            self.connections.retain(|connection| !matches!(connection.stage, Stage::Ended));
            if self.spare.is_none() && self.connections.is_empty() {
                self.spare = open_spare();
            }
        }
    }

    /// Waits until something is due that was not due at the last turn, `now`; it may be due
    /// already. Returns the events of each connection; `None` at the end.
    fn wait(&self, now: Instant) -> Option<Vec<PollFlags>> {
        let mut all = vec![PollFd::new(&self.stop, PollFlags::IN)];
        all.extend(self.connections.iter().map(|connection| {
            PollFd::from_borrowed_fd(connection.stream.as_fd(), connection.interest(now))
        }));
        let listener = self.bound.listener();
        let accepting = listener.filter(|_| now >= self.accept);
        all.extend(accepting.map(|listener| PollFd::new(listener, PollFlags::IN)));

        let delayed = self.connections.iter().map(|connection| connection.delayed);
        let delayed = delayed.chain([self.accept]).filter(|time| *time > now);
        let ends = self.connections.iter().filter_map(Connection::until);
        let next = delayed.chain(ends).chain([self.looked + CHECK_INTERVAL]).min().unwrap_or(now);
        // Rounded up, or there would be turns without work.
        let timeout = next.saturating_duration_since(Instant::now()) + Duration::from_micros(100);
        if poll(&mut all, Timespec::try_from(timeout).ok().as_ref()).is_err() {
            // Interrupted: nothing is ready.
            all.iter_mut().for_each(PollFd::clear_revents);
        }
        let mut ready = all.iter().map(PollFd::revents);
        let is_over = ready.next().is_some_and(|stop| !stop.is_empty());
        (!is_over).then(|| ready.take(self.connections.len()).collect())
    }

    /// Accepts connections, and refuses those of users who have too many.
    fn accept(&mut self, now: Instant) {
        let Some(listener) = self.bound.listener() else { return };
        while now >= self.accept {
            if !self.peers.may_accept() {
                self.accept = now + DELAY;
                return;
            }
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_shortage(&error) && self.spare.take().is_some() => continue,
                // Descriptors may be free later.
                Err(_) => {
                    self.accept = now + PAUSE;
                    return;
                }
            };
            self.peers.accepted();
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let connection = Connection::new(stream, now);
            let users: Vec<u32> = self.connections.iter().map(|other| other.user).collect();
            match admit(connection.user, &users, &self.limits) {
                Verdict::Admit => {}
                Verdict::InPlaceOf(place) => drop(self.connections.remove(place)),
                Verdict::Refuse => continue,
            }
            self.connections.push(connection);
        }
    }

    /// Begins to answer waiting clients, as far as limits permit.
    fn answer(&mut self, now: Instant) {
        let mut reading: Vec<u32> = Vec::new();
        for connection in &self.connections {
            if matches!(connection.stage, Stage::Reading { .. }) {
                reading.push(connection.user);
            }
        }
        for connection in &mut self.connections {
            if !matches!(connection.stage, Stage::Waiting) {
                continue;
            }
            let own = reading.iter().filter(|user| **user == connection.user).count();
            let headroom = self.limits.transfers.headroom(own as u64, reading.len() as u64);
            if headroom.left == 0 || connection.delayed > now {
                continue;
            }
            if !self.peers.may_ask(connection.user) {
                connection.delayed = now + DELAY;
                continue;
            }
            match (self.answer)() {
                Some(answer) => {
                    reading.push(connection.user);
                    // Making the answer may have taken a while.
                    connection.send(answer, &self.limits, Instant::now());
                }
                None => connection.stage = Stage::Ended,
            }
        }
    }

    /// Continues answers, as far as limits permit.
    fn write(&mut self, now: Instant) {
        let count = self.connections.len();
        self.turn = self.turn.wrapping_add(1);
        for place in 0..count {
            let place = self.turn.wrapping_add(place) % count;
            let Some(connection) = self.connections.get_mut(place) else { continue };
            for _ in 0..MAX_WRITES {
                if !matches!(connection.stage, Stage::Reading { .. }) || connection.delayed > now {
                    break;
                }
                if !self.peers.may_write(connection.user) {
                    connection.delayed = now + DELAY;
                } else if !connection.write() {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::peers::tests::small;
    use super::*;

    #[test]
    fn what_became_due_since_the_last_turn_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (_agent, stopped) = UnixStream::pair().unwrap();
        let bound = Bound::new(&dir.path().join("sock"));
        let mut server = SocketServer::new(bound, stopped, small(), || None);
        let turn = Instant::now();
        server.accept = turn + Duration::from_millis(1);
        // As if other programs had the processor.
        thread::sleep(Duration::from_millis(5));
        assert!(server.wait(turn).is_some());
        assert!(turn.elapsed() < CHECK_INTERVAL / 2, "{:?}", turn.elapsed());
    }
}
