//! The server of the status socket.
//!
//! In come connections of any user; out go answers, which are made for many clients at
//! once, and streamed to each as fast as that client reads. One thread serves all clients of
//! a socket and waits for none of them.
//!
//! Invariants: connections, requests and bytes are limited for each user and in all, and a
//! connection ends in bounded time. So a user can use up no more than a share, and the cost
//! of a socket in a second is bounded.

mod bound;
mod connection;
mod peers;
mod server;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam::channel::{Sender, bounded};

pub(super) use peers::ClientLimits;
pub(crate) use server::reserve_descriptors;

use crate::sampling::SamplerCommand;
use crate::threads;
use bound::Bound;
use server::SocketServer;

#[cfg(test)]
pub(super) use peers::tests::small;

/// What a client is sent.
pub(super) type Answer = Arc<Vec<u8>>;

/// Makes the answers of a socket.
pub(super) trait Answers: Send + 'static {
    /// Gets what the next answers are made of: called once for all clients that wait. Or
    /// when that can be done.
    fn prepare(&mut self, now: Instant) -> Result<(), Instant>;

    /// The answer to a client; `None` if there is none.
    fn answer(&mut self) -> Option<Answer>;
}

/// A socket that is served by a thread.
///
/// Dropped, it removes the socket, ends all connections and waits for the thread.
#[derive(Debug)]
pub(crate) struct Service {
    /// Its end ends the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Serves a socket on a thread of this name. While the socket cannot be made, which is
    /// logged, it is tried again.
    ///
    /// # Errors
    ///
    /// From the system, if there is no thread.
    pub(super) fn start<A: Answers>(
        socket: &Path,
        name: &str,
        limits: ClientLimits,
        answers: A,
    ) -> io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let mut bound = Bound::new(socket);
        bound.look();
        let server = SocketServer::new(bound, stopped, limits, answers);
        let thread = threads::spawn(name, move || server.run())?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A thread that has panicked serves no more either.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The sampler thread's reply to a command; `None` if it has ended or takes too long.
pub(super) fn ask<T>(
    sampler: &Sender<SamplerCommand>,
    command: impl FnOnce(Sender<T>) -> SamplerCommand,
    timeout: Duration,
) -> Option<T> {
    let (reply, answer) = bounded(1);
    sampler.send(command(reply)).ok()?;
    answer.recv_timeout(timeout).ok()
}
