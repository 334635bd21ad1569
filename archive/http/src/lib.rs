//! HTTP on a loopback address or a unix socket, where any program of the machine can connect:
//! no peer holds up others.
//!
//! | limit | |
//! |---|---|
//! | open connections | 128; the one that is idle longest, and for 50 ms, is closed for a new one |
//! | time until a header is whole, and of an idle connection | 10 s |
//! | a header | 16 KiB, 64 fields |
//! | time in which a peer takes 1 MiB of an answer, or all of it | 30 s |
//! | time of a connection | 10 min, and new requests for the first 5 |
//!
//! A connection is idle while no whole request of it is answered: the caller says with
//! [`ConnectionPlace::busy`] when one is, and [`Sent`] keeps that up until the peer has taken the answer.
//! The body of a request, and who may ask, are the caller's business.

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

pub use body::Sent;
use limit::Limit;
pub use limit::{Busy, ConnectionPlace};
pub use listener::Listener;
use socket::Socket;

/// Limit on open connections.
pub const MAX_CONNECTIONS: usize = 128;
/// Time until a header is whole, and of an idle connection.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// Bytes of a header.
const MAX_HEADER: usize = 16 << 10;
/// Fields of a header.
const MAX_FIELDS: usize = 64;
/// Time after which a connection takes no more requests, and the time for the last answer.
const CONNECTION_TIME: Duration = Duration::from_secs(300);
/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// Time between two messages about connections that cannot be accepted.
const REPEAT: Duration = Duration::from_secs(60);

/// Answers requests for as long as the process lives. `warn` is called with a line of text if
/// connections cannot be accepted.
///
/// Has to be a task of the runtime: what `block_on` waits for goes before all tasks, and would
/// leave them no time while peers connect one after the other.
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
        // A peer that is gone already costs nothing; else there are no descriptors left.
        if let Err(error) = begun
            && error.kind() != io::ErrorKind::ConnectionAborted
        {
            if let Some(line) = failures.line(Instant::now(), &error) {
                warn(&line);
            }
            limit.close_idle();
            sleep(PAUSE).await;
        }
    }
}

/// Serves a connection as soon as there is a place for it, or closes it if all are busy.
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
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(MAX_HEADER)
        .max_headers(MAX_FIELDS)
        .serve_connection(TokioIo::new(Socket::new(stream, Arc::clone(&place))), service);
    let task = tokio::spawn(async move {
        let mut connection = pin!(connection);
        // Errors are the peer's: it went away, was too slow, or sent no HTTP.
        if timeout(CONNECTION_TIME, connection.as_mut()).await.is_err() {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(CONNECTION_TIME, connection).await;
        }
    });
    place.is_served_by(task.abort_handle());
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
    /// What is to be printed about one more of them: the first one at once, then their number
    /// once a minute.
    fn line(&mut self, now: Instant, error: &io::Error) -> Option<String> {
        self.since += 1;
        if self.printed.is_some_and(|at| now.duration_since(at) < REPEAT) {
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
    fn connections_that_cannot_be_accepted_are_a_line_a_minute() {
        let (mut failures, start) = (Failures::default(), Instant::now());
        let error = io::Error::other("no descriptors");
        let mut lines = Vec::new();
        for tenth in 0..1_300 {
            lines.extend(failures.line(start + PAUSE * tenth, &error));
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
