//! Bodies of answers that are sent while they are made.
//!
//! A thread makes pieces and waits until the connection has taken them: memory stays small. A
//! peer that takes too little loses its connection, which ends the thread. An answer that is not
//! finished ends its connection, so that nobody takes it for a whole one.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

/// Pieces that wait for the connection.
const PIECES: usize = 4;

/// The client has disconnected.
#[derive(Debug)]
pub(super) struct Closed;

/// An answer ends before it is whole.
#[derive(Debug, thiserror::Error)]
#[error("the answer is not whole")]
pub(super) struct Cut;

/// Where a thread that may wait puts the pieces of an answer; the last item is `None`.
#[derive(Debug)]
pub(super) struct Sink(mpsc::Sender<Option<Bytes>>);

impl Sink {
    /// Sends a piece; waits until there is room for it.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the connection is.
    pub(super) fn send(&self, piece: Bytes) -> Result<(), Closed> {
        self.put(Some(piece))
    }

    /// The answer is whole.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub(super) fn finish(self) -> Result<(), Closed> {
        self.put(None)
    }

    fn put(&self, item: Option<Bytes>) -> Result<(), Closed> {
        self.0.blocking_send(item).map_err(|_| Closed)
    }
}

/// The body that has the pieces.
#[derive(Debug)]
pub(super) struct Pieces(mpsc::Receiver<Option<Bytes>>);

/// The two ends of an answer.
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
