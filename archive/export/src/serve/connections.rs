//! Connections: where they come from, and what each may cost.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixSocket};
use tokio::time::{sleep, timeout};

use super::limit::Limit;
use super::service::Service;
use super::socket::Socket;
use crate::open_files;
use crate::text::warn;

/// The most connections, where the system permits as many open files.
const CONNECTIONS: usize = 4_000;
/// Open files that are no connections.
const OTHER_FILES: u64 = 100;
/// How many connections the kernel keeps until they are accepted, where the system permits it.
const BACKLOG: u32 = 4_096;
/// How long a header may take, and a connection be idle.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// How long a connection may last.
const CONNECTION_TIME: Duration = Duration::from_secs(600);
/// Bytes of a header.
const HEADER_BYTES: usize = 1 << 16;
/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// The least time between two log lines about connections that cannot be accepted.
const REPEAT: Duration = Duration::from_secs(60);

/// Where connections come from.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens on an address, and says on which.
    pub(super) fn tcp(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // As all servers do: else the address is taken for a minute after the last one ended.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        warn(&format_args!("listening on http://{}", listener.local_addr()?));
        Ok(Self::Tcp(listener))
    }

    /// Listens on a socket; one that nobody listens on any more is replaced.
    pub(super) fn unix(path: &Path) -> io::Result<Self> {
        let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        let refuses = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if is_socket && std::os::unix::net::UnixStream::connect(path).is_err_and(refuses) {
            fs::remove_file(path)?;
        }
        let socket = UnixSocket::new_stream()?;
        socket.bind(path)?;
        let listener = socket.listen(BACKLOG)?;
        warn(&format_args!("listening on {}", path.display()));
        Ok(Self::Unix(listener))
    }
}

/// Answers requests for as long as the process lives. This has to be a task of the runtime:
/// what `block_on` waits for goes before all tasks, and would leave them no time while peers
/// connect one after the other.
pub(super) async fn serve(listener: Listener, service: Arc<Service>) {
    let limit = Limit::new(most_connections());
    let mut failures = Failures::default();
    loop {
        let begun = match &listener {
            Listener::Tcp(listener) => {
                let accepted = listener.accept().await.map(|(stream, _)| stream);
                begin(accepted, &limit, &service).await
            }
            Listener::Unix(listener) => {
                let accepted = listener.accept().await.map(|(stream, _)| stream);
                begin(accepted, &limit, &service).await
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
async fn begin<S>(
    accepted: io::Result<S>,
    limit: &Arc<Limit>,
    service: &Arc<Service>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = accepted?;
    let Some(place) = limit.place().await else { return Ok(()) };
    let (service, kept) = (Arc::clone(service), Arc::clone(&place));
    let answer = service_fn(move |request| {
        let (service, place) = (Arc::clone(&service), Arc::clone(&kept));
        async move { service.answer(request, &place).await }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(Socket::new(stream, Arc::clone(&place))), answer);
    let task = tokio::spawn(async move {
        // Errors are the peer's: it went away, was too slow, or sent no HTTP.
        let _ = timeout(CONNECTION_TIME, connection).await;
    });
    place.is_served_by(task.abort_handle());
    Ok(())
}

/// How many connections there can be, after as many open files as possible are permitted.
fn most_connections() -> usize {
    let files = open_files::permit(CONNECTIONS as u64 + OTHER_FILES);
    let connections = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(CONNECTIONS);
    connections.clamp(1, CONNECTIONS)
}

/// Connections that could not be accepted.
#[derive(Debug, Default)]
struct Failures {
    /// When the last line was printed.
    printed: Option<Instant>,
    /// How many there were since.
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
