//! Bodies of answers that are sent while they are made.
//!
//! A thread makes pieces and waits until the connection has taken them: memory stays small, and
//! a peer that takes nothing for a while loses its answer, not the thread. An answer that is
//! not finished ends its connection, so that nobody takes it for a whole one.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::limit::Busy;

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

/// A piece that the connection has not sent yet.
struct Unsent {
    piece: Bytes,
    _busy: Arc<Busy>,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

/// The body of an answer. Its connection is busy until the last piece is sent: a connection
/// takes a body long before the peer does.
#[derive(Debug)]
pub(super) struct Sent {
    body: BoxBody<Bytes, Cut>,
    busy: Arc<Busy>,
}

impl Sent {
    pub(super) fn new(body: BoxBody<Bytes, Cut>, busy: Busy) -> Self {
        Self { body, busy: Arc::new(busy) }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let busy = Arc::clone(&self.busy);
        let unsent = |piece| Bytes::from_owner(Unsent { piece, _busy: busy });
        let frame = Pin::new(&mut self.body).poll_frame(context);
        frame.map_ok(|frame| frame.map_data(unsent))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
