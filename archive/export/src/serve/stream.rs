//! Bodies of answers that are sent while they are made.
//!
//! A thread makes pieces and waits until the connection has taken them: memory stays small, and
//! a peer that takes nothing for a while loses its answer, not the thread. An answer that is
//! not finished ends its connection, so that nobody takes it for a whole one.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Pieces that wait for the connection.
const PIECES: usize = 4;
/// How long a peer may take nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// Nobody takes the answer.
#[derive(Debug)]
pub(super) struct Closed;

/// An answer ends before it is whole.
#[derive(Debug, thiserror::Error)]
#[error("the answer is not whole")]
pub(super) struct Cut;

/// Where a thread puts the pieces of an answer.
#[derive(Debug)]
pub(super) struct Sink {
    /// The last item is `None`.
    sender: mpsc::Sender<Option<Bytes>>,
    runtime: Handle,
}

impl Sink {
    /// Sends a piece; waits until there is room for it.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the connection is, or takes nothing for half a minute.
    pub(super) fn send(&mut self, piece: Bytes) -> Result<(), Closed> {
        self.put(Some(piece))
    }

    /// The answer is whole.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub(super) fn finish(mut self) -> Result<(), Closed> {
        self.put(None)
    }

    fn put(&mut self, item: Option<Bytes>) -> Result<(), Closed> {
        let sent = self.runtime.block_on(async { timeout(PATIENCE, self.sender.send(item)).await });
        if matches!(sent, Ok(Ok(()))) { Ok(()) } else { Err(Closed) }
    }
}

/// The body that has the pieces.
#[derive(Debug)]
pub(super) struct Pieces(mpsc::Receiver<Option<Bytes>>);

/// The two ends of an answer.
pub(super) fn stream(runtime: Handle) -> (Sink, Pieces) {
    let (sender, receiver) = mpsc::channel(PIECES);
    (Sink { sender, runtime }, Pieces(receiver))
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        self.0.poll_recv(context).map(|item| match item {
            Some(Some(piece)) => Some(Ok(Frame::data(piece))),
            Some(None) => None,
            None => Some(Err(Cut)),
        })
    }
}

/// A request is being answered, until this is dropped.
#[derive(Debug)]
pub(super) struct Guard(Arc<AtomicBool>);

impl Guard {
    pub(super) fn new(is_busy: Arc<AtomicBool>) -> Self {
        is_busy.store(true, Ordering::Relaxed);
        Self(is_busy)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The body of an answer, whose connection is busy as long as it is sent.
#[derive(Debug)]
pub(super) struct Busy {
    pub(super) body: BoxBody<Bytes, Cut>,
    pub(super) _guard: Guard,
}

impl Body for Busy {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
