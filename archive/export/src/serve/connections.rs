//! Connections, and limits on how many there are and what they cost.
//!
//! A connection on which no request is being answered is idle: it may never have sent one, or
//! send one slowly. Where there are too many connections the idle one that is open longest is
//! closed, so that peers that open connections and say nothing harm only each other.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::service::Service;
use crate::open_files;
use crate::text::warn;

/// The most connections, where the system permits as many open files.
const CONNECTIONS: usize = 4_000;
/// Open files that are no connections.
const OTHER_FILES: u64 = 100;
/// How long a header may take, and a connection be idle.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// How long a connection may last.
const CONNECTION_TIME: Duration = Duration::from_secs(600);
/// Bytes of a header.
const HEADER_BYTES: usize = 1 << 16;

/// Where connections come from.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens on an address, and says on which.
    pub(super) async fn tcp(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
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
        let listener = UnixListener::bind(path)?;
        warn(&format_args!("listening on {}", path.display()));
        Ok(Self::Unix(listener))
    }
}

/// A connection.
#[derive(Debug)]
struct Open {
    task: JoinHandle<()>,
    is_busy: Arc<AtomicBool>,
}

/// Answers requests for as long as the process lives.
pub(super) async fn serve(listener: Listener, service: Arc<Service>) {
    let most = most_connections();
    let mut open: VecDeque<Open> = VecDeque::new();
    loop {
        let accepted = match &listener {
            Listener::Tcp(listener) => {
                listener.accept().await.map(|(stream, _)| begin(TokioIo::new(stream), &service))
            }
            Listener::Unix(listener) => {
                listener.accept().await.map(|(stream, _)| begin(TokioIo::new(stream), &service))
            }
        };
        match accepted {
            Ok(one) => open.push_back(one),
            Err(error) => {
                // There are no descriptors left, or the peer is gone already.
                warn(&format_args!("cannot accept a connection: {error}"));
                make_room(&mut open);
                sleep(Duration::from_millis(100)).await;
            }
        }
        if open.len() > most {
            make_room(&mut open);
        }
    }
}

/// Forgets connections that are closed; if there are none, closes the oldest idle one, or else
/// the newest.
fn make_room(open: &mut VecDeque<Open>) {
    let before = open.len();
    open.retain(|one| !one.task.is_finished());
    if open.len() < before {
        return;
    }
    let idle = open.iter().position(|one| !one.is_busy.load(Ordering::Relaxed));
    let closed = open.remove(idle.unwrap_or(before.saturating_sub(1)));
    if let Some(closed) = closed {
        closed.task.abort();
    }
}

fn begin<S>(stream: TokioIo<S>, service: &Arc<Service>) -> Open
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let is_busy = Arc::new(AtomicBool::new(false));
    let (service, busy) = (Arc::clone(service), Arc::clone(&is_busy));
    let answer = service_fn(move |request| {
        let (service, busy) = (Arc::clone(&service), Arc::clone(&busy));
        async move { service.answer(request, busy).await }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(stream, answer);
    let task = tokio::spawn(async move {
        // Errors are the peer's: it went away, was too slow, or sent no HTTP.
        let _ = timeout(CONNECTION_TIME, connection).await;
    });
    Open { task, is_busy }
}

/// How many connections there can be, after as many open files as possible are permitted.
fn most_connections() -> usize {
    let files = open_files::permit(CONNECTIONS as u64 + OTHER_FILES);
    let connections = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(CONNECTIONS);
    connections.clamp(1, CONNECTIONS)
}
