//! Bodies of answers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// A piece that the connection has not sent yet, and the value that it keeps alive.
struct UnsentPiece<H> {
    piece: Bytes,
    _held: Arc<H>,
}

impl<H> AsRef<[u8]> for UnsentPiece<H> {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

/// A body that keeps a value, such as [`Busy`](crate::Busy), alive until its last piece is sent:
/// hyper buffers a body long before the peer reads it.
#[derive(Debug)]
pub struct GuardedBody<B, H> {
    body: B,
    held: Arc<H>,
}

impl<B, H> GuardedBody<B, H> {
    /// Keeps `held` alive until the body is sent or dropped.
    pub fn new(body: B, held: H) -> Self {
        Self { body, held: Arc::new(held) }
    }
}

impl<B, H> Body for GuardedBody<B, H>
where
    B: Body<Data = Bytes> + Unpin,
    H: Send + Sync + 'static,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let held = Arc::clone(&self.held);
        let frame = Pin::new(&mut self.body).poll_frame(context);
        frame.map_ok(|frame| {
            frame.map_data(|piece| Bytes::from_owner(UnsentPiece { piece, _held: held }))
        })
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

    use super::*;

    #[test]
    fn held_value_lives_until_the_answer_is_sent() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let held = Arc::new(());
            let mut sent =
                GuardedBody::new(Full::new(Bytes::from_static(b"samples")), Arc::clone(&held));
            let piece = sent.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(sent.is_end_stream());
            // What the connection does with a piece that its peer takes in parts.
            drop(sent);
            let taken = piece.slice(..3);
            let left = piece.slice(3..);
            drop((piece, taken));
            assert_eq!(Arc::strong_count(&held), 2);
            drop(left);
            assert_eq!(Arc::strong_count(&held), 1);
        });
    }
}
