//! Bodies of answers that are sent while they are made.
//!
//! A thread makes pieces and waits until the connection has taken them: memory stays small. A
//! peer that takes too little loses its connection, which ends the thread. An answer that is not
//! finished ends its connection, so that nobody takes it for a whole one.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::limit::Busy;

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

/// A thread's turn to read archives.
pub(super) type Permit = Arc<OwnedSemaphorePermit>;

/// What an answer has until it is sent, or given up.
#[derive(Debug)]
struct Held {
    _busy: Busy,
    _permit: Option<Permit>,
}

/// A piece that the connection has not sent yet.
struct Unsent {
    piece: Bytes,
    _held: Arc<Held>,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

/// The body of an answer. Its connection is busy, and the permit is held, until the last piece
/// is sent: a connection takes a body long before the peer does.
#[derive(Debug)]
pub(super) struct Sent {
    body: BoxBody<Bytes, Cut>,
    held: Arc<Held>,
}

impl Sent {
    pub(super) fn new(body: BoxBody<Bytes, Cut>, busy: Busy, permit: Option<Permit>) -> Self {
        Self { body, held: Arc::new(Held { _busy: busy, _permit: permit }) }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let held = Arc::clone(&self.held);
        let unsent = |piece| Bytes::from_owner(Unsent { piece, _held: held });
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

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};
    use tokio::runtime::Builder;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::serve::limit::Limit;

    #[test]
    fn a_permit_is_held_until_the_answer_is_sent() {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let permits = Arc::new(Semaphore::new(1));
            let permit = Arc::new(Arc::clone(&permits).acquire_owned().await.unwrap());
            let place = Limit::new(1).place().await.unwrap();
            let body = Full::new(Bytes::from_static(b"samples")).map_err(|never| match never {});
            let mut sent = Sent::new(body.boxed(), place.busy(), Some(permit));
            let piece = sent.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(sent.is_end_stream());
            // What the connection does with a piece that its peer takes in parts.
            drop(sent);
            let (taken, left) = (piece.slice(..3), piece.slice(3..));
            drop((piece, taken));
            assert_eq!(permits.available_permits(), 0);
            drop(left);
            assert_eq!(permits.available_permits(), 1);
        });
    }
}
