//! The socket of a connection, which fails if the peer reads too slowly.
//!
//! Writing fails if the peer has not read [`MIN_PROGRESS`] bytes, or all there are, after
//! [`WRITE_TIMEOUT`] of waiting: a peer that stops, or reads a byte now and then, does not keep an
//! answer in memory for long. Time in which there is nothing to send does not count.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::limit::ConnectionPlace;

/// Time a peer may take to read [`MIN_PROGRESS`] bytes.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that a peer must read within [`WRITE_TIMEOUT`]: 35 kB a second.
const MIN_PROGRESS: usize = 1 << 20;

/// A socket with the connection's place and write timeout.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    inner: S,
    timeout: Duration,
    /// Bytes that the peer has read of the current [`MIN_PROGRESS`].
    taken: usize,
    waited: Duration,
    /// The start of the current wait, and its timer.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    /// Dropped after the socket.
    _place: Arc<ConnectionPlace>,
}

impl<S> Socket<S> {
    pub(crate) const fn new(inner: S, place: Arc<ConnectionPlace>) -> Self {
        Self {
            inner,
            timeout: WRITE_TIMEOUT,
            taken: 0,
            waited: Duration::ZERO,
            waiting: None,
            _place: place,
        }
    }

    /// Returns the result of a write, or an error if the peer has read too little.
    fn check_progress(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(count)) => {
                if let Some((since, _)) = self.waiting.take() {
                    self.waited += since.elapsed();
                }
                self.taken += count;
                if self.taken >= MIN_PROGRESS {
                    self.taken = 0;
                    self.waited = Duration::ZERO;
                }
                written
            }
            Poll::Ready(Err(_)) => written,
            Poll::Pending => {
                let left = self.timeout.saturating_sub(self.waited);
                let (_, timer) =
                    self.waiting.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(left))));
                ready!(timer.as_mut().poll(context));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, to)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.check_progress(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, parts);
        self.check_progress(context, written)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Read as _;
    use std::os::unix::net::UnixStream as Blocking;
    use std::thread;

    use tokio::net::UnixStream;

    use super::*;
    use crate::limit::Limit;

    /// So long that it contains few of the times for which a busy machine delays a thread.
    const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
    const SIZE: usize = 5 * MIN_PROGRESS;

    /// Writes [`SIZE`] bytes to a peer, and returns the time that took and the result.
    fn write_to(read: impl FnOnce(Blocking) + Send + 'static) -> (Duration, io::Result<()>) {
        let (writer, reader) = Blocking::pair().unwrap();
        writer.set_nonblocking(true).unwrap();
        let reading = thread::spawn(move || read(reader));
        let begun = Instant::now();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let written = runtime.block_on(async {
            let inner = UnixStream::from_std(writer).unwrap();
            let place = Limit::new(1).place().await.unwrap();
            let mut socket = Socket { timeout: WRITE_TIMEOUT, ..Socket::new(inner, place) };
            let bytes = vec![0; MIN_PROGRESS];
            let mut written = 0;
            while written < SIZE {
                let write =
                    |context: &mut Context<'_>| Pin::new(&mut socket).poll_write(context, &bytes);
                written += poll_fn(write).await?;
            }
            Ok(())
        });
        let took = begun.elapsed();
        reading.join().unwrap();
        (took, written)
    }

    fn has_timed_out(written: &(Duration, io::Result<()>)) -> bool {
        let kind = written.1.as_ref().map_err(io::Error::kind);
        kind == Err(io::ErrorKind::TimedOut) && written.0 < WRITE_TIMEOUT * 10
    }

    #[test]
    fn a_peer_that_reads_nothing_or_little_times_out() {
        let stops = write_to(|reader| {
            thread::sleep(WRITE_TIMEOUT * 2);
            drop(reader);
        });
        assert!(has_timed_out(&stops), "{stops:?}");
        let trickles = write_to(|mut reader| {
            // A tenth of what it should.
            let mut bytes = vec![0; MIN_PROGRESS / 100];
            while reader.read(&mut bytes).is_ok_and(|count| count > 0) {
                thread::sleep(WRITE_TIMEOUT / 10);
            }
        });
        assert!(has_timed_out(&trickles), "{trickles:?}");
    }

    #[test]
    fn a_slow_peer_that_goes_on_gets_all() {
        let slow = write_to(|mut reader| {
            // Three times as much as it has to.
            let mut bytes = vec![0; MIN_PROGRESS / 4];
            while reader.read_exact(&mut bytes).is_ok() {
                thread::sleep(WRITE_TIMEOUT / 12);
            }
        });
        assert!(slow.1.is_ok() && slow.0 > WRITE_TIMEOUT, "{slow:?}");
    }
}
