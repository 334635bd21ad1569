//! HTTP on a loopback address or a unix socket, to which any program of the machine can connect,
//! so that no client can block the others.
//!
//! | limit | |
//! |---|---|
//! | open connections | 128; the one idle longest (at least 50 ms) is closed for a new one |
//! | time to receive a header, and of an idle connection | 10 s |
//! | size of a header | 16 KiB, 64 fields |
//! | time for a peer to read 1 MiB of an answer, or all of it | 30 s |
//! | lifetime of a connection | 10 min, of which the first 5 accept new requests |
//!
//! A connection is idle unless a complete request is being answered: the caller says so with
//! [`ConnectionPlace::busy`], and [`GuardedBody`] keeps the guard until the peer has read the answer.
//! Request bodies and authorization are the caller's responsibility.

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod body;
mod limit;
mod listener;
mod socket;

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{sleep, timeout};

pub use body::GuardedBody;
use limit::Limit;
pub use limit::{Busy, ConnectionPlace};
pub use listener::Listener;
use socket::Socket;

/// Limit on open connections.
pub const MAX_CONNECTIONS: usize = 128;
/// Time to receive a header, which also limits how long a connection may be idle.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_HEADER: usize = 16 << 10;
const MAX_FIELDS: usize = 64;
/// Time for which a connection accepts requests, and again the time for its last answer.
const CONNECTION_TIME: Duration = Duration::from_secs(300);
/// Delay before the next attempt after a connection could not be accepted.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum time between two messages about connections that cannot be accepted.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(60);

/// Answers requests for as long as the process lives. `warn` is called with a line of text if
/// connections cannot be accepted.
///
/// Must be spawned as a task: the future of `block_on` is polled before all tasks, and would starve
/// them while peers keep connecting.
pub async fn serve<A, F, B>(listener: Listener, answer: A, warn: fn(&str))
where
    A: Fn(Request<Incoming>, Arc<ConnectionPlace>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let limit = Limit::new(MAX_CONNECTIONS);
    let mut failures = Failures::default();
    loop {
        let begun = match &listener {
            Listener::Tcp(listener) => {
                let accepted = listener.accept().await.map(|(stream, _)| stream);
                begin(accepted, &limit, answer.clone()).await
            }
            Listener::Unix(listener) => {
                let accepted = listener.accept().await.map(|(stream, _)| stream);
                begin(accepted, &limit, answer.clone()).await
            }
        };
        // An aborted connection costs nothing; other errors mean that no descriptors are left.
        if let Err(error) = begun
            && error.kind() != io::ErrorKind::ConnectionAborted
        {
            if let Some(line) = failures.line(Instant::now(), &error) {
                warn(&line);
            }
            limit.close_idle();
            sleep(RETRY_INTERVAL).await;
        }
    }
}

/// Serves a connection as soon as it has a place, or closes it if all connections are busy.
async fn begin<S, A, F, B>(accepted: io::Result<S>, limit: &Arc<Limit>, answer: A) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn(Request<Incoming>, Arc<ConnectionPlace>) -> F + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let stream = accepted?;
    let Some(place) = limit.place().await else { return Ok(()) };
    let kept = Arc::clone(&place);
    let service = service_fn(move |request| {
        let answered = answer(request, Arc::clone(&kept));
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER)
        .max_headers(MAX_FIELDS)
        .serve_connection(TokioIo::new(Socket::new(stream, Arc::clone(&place))), service);
    let task = tokio::spawn(async move {
        let mut connection = pin!(connection);
        // Errors are the peer's fault: it disconnected, was too slow, or did not send HTTP.
        if timeout(CONNECTION_TIME, connection.as_mut()).await.is_err() {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(CONNECTION_TIME, connection).await;
        }
    });
    place.set_task(task.abort_handle());
    Ok(())
}

/// Connections that could not be accepted.
#[derive(Debug, Default)]
struct Failures {
    printed: Option<Instant>,
    /// Failures since the last message.
    since: u64,
}

impl Failures {
    /// Adds a failure and returns the line to print, if any: at once for the first failure, then
    /// once a minute with their number.
    fn line(&mut self, now: Instant, error: &io::Error) -> Option<String> {
        self.since += 1;
        if self.printed.is_some_and(|at| now.duration_since(at) < MESSAGE_INTERVAL) {
            return None;
        }
        self.printed = Some(now);
        Some(match std::mem::take(&mut self.since) {
            1 => format!("cannot accept a connection: {error}"),
            count => format!("cannot accept connections: {error} ({count} times)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_to_accept_are_printed_once_a_minute() {
        let mut failures = Failures::default();
        let start = Instant::now();
        let error = io::Error::other("no descriptors");
        let mut lines = Vec::new();
        for tenth in 0..1_300 {
            lines.extend(failures.line(start + RETRY_INTERVAL * tenth, &error));
        }
        assert_eq!(
            lines,
            [
                "cannot accept a connection: no descriptors",
                "cannot accept connections: no descriptors (600 times)",
                "cannot accept connections: no descriptors (600 times)",
            ]
        );
    }
}
