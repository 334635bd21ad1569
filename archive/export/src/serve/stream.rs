//! Bodies of answers that are sent while they are produced.
//!
//! A thread produces pieces and waits until the connection accepts them, which bounds memory. A
//! peer that reads too slowly loses its connection, which ends the thread. An unfinished answer
//! closes its connection, so that clients do not mistake it for a complete one.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

/// Limit on the pieces that wait for the connection.
const PIECES: usize = 4;

/// The client has disconnected.
#[derive(Debug)]
pub(super) struct Disconnected;

/// The error of an answer that ends early.
#[derive(Debug, thiserror::Error)]
#[error("the answer is incomplete")]
pub(super) struct Cut;

/// The sending end of an answer, for blocking threads. The last item is `None`.
#[derive(Debug)]
pub(super) struct Sink(mpsc::Sender<Option<Bytes>>);

impl Sink {
    /// Sends a piece, waiting until there is room for it.
    ///
    /// # Errors
    ///
    /// [`Disconnected`] if the client has disconnected.
    pub(super) fn send(&self, piece: Bytes) -> Result<(), Disconnected> {
        self.put(Some(piece))
    }

    /// Marks the answer as complete.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub(super) fn finish(self) -> Result<(), Disconnected> {
        self.put(None)
    }

    fn put(&self, item: Option<Bytes>) -> Result<(), Disconnected> {
        self.0.blocking_send(item).map_err(|_| Disconnected)
    }
}

/// The body of an answer, which receives the pieces.
#[derive(Debug)]
pub(super) struct Pieces(mpsc::Receiver<Option<Bytes>>);

/// Creates the two ends of an answer.
pub(super) fn stream() -> (Sink, Pieces) {
    let (sender, receiver) = mpsc::channel(PIECES);
    (Sink(sender), Pieces(receiver))
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
