//! The server of the status socket.
//!
//! Any user may connect. Answers are made for many clients at once, and streamed to each as fast
//! as that client reads. One thread serves all clients of a socket and waits for none of them.
//!
//! Invariants: connections, requests and bytes are limited for each user and in total, and a
//! connection ends in bounded time. So no user can use up more than a share, and the cost of a
//! socket per second is bounded.

mod bound;
mod connection;
mod peers;
mod server;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

pub(super) use peers::{ClientLimits, RateLimit};
pub(crate) use server::reserve_descriptors;

use crate::threads;
use bound::Bound;
use server::SocketServer;

#[cfg(test)]
pub(super) use peers::tests::small;

pub(super) type Answer = Arc<Vec<u8>>;

/// A socket that is served by a thread.
///
/// Dropped, it removes the socket, ends all connections and waits for the thread.
#[derive(Debug)]
pub(crate) struct Service {
    /// Closing it ends the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Serves a socket on a thread of this name. `answer` returns the answer to a client, if there
    /// is one. If the socket cannot be created, the thread logs the error and retries.
    ///
    /// # Errors
    ///
    /// From the system, if there is no thread.
    pub(super) fn start(
        socket: &Path,
        name: &str,
        limits: ClientLimits,
        answer: impl FnMut() -> Option<Answer> + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let mut bound = Bound::new(socket);
        bound.check();
        let server = SocketServer::new(bound, stopped, limits, answer);
        let thread = threads::spawn(name, move || server.run())?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A thread that has panicked does not serve clients any more either.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
