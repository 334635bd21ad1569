//! A connection whose reader has to go on reading.
//!
//! The bytes of a connection for hyper. Writing fails if the other end has not taken
//! [`PROGRESS`] bytes, or all there are, within [`PATIENCE`]: a reader that stops, or takes a
//! byte now and then, holds no answer in memory for long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Read, ReadBufCursor, Sleep, Timer, Write};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time;

/// How long a client may take to read [`PROGRESS`] bytes.
const PATIENCE: Duration = Duration::from_secs(10);
/// The bytes that a client has to read within [`PATIENCE`].
const PROGRESS: usize = 64 << 10;
/// The bytes that are read at once.
const READ: usize = 4096;

/// The bytes of a connection.
#[derive(Debug)]
pub(super) struct Stream {
    inner: TcpStream,
    patience: Duration,
    /// When the patience ends, while the other end does not take what there is.
    deadline: Option<Pin<Box<time::Sleep>>>,
    /// The bytes that it took since.
    taken: usize,
}

impl Stream {
    pub(super) const fn new(inner: TcpStream) -> Self {
        Self { inner, patience: PATIENCE, deadline: None, taken: 0 }
    }

    /// What the system said to writing, unless the reader takes too long.
    fn watched(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = written {
            self.taken += count;
            if self.taken >= PROGRESS {
                (self.deadline, self.taken) = (None, 0);
            }
        }
        let patience = self.patience;
        if written.is_pending() {
            let deadline = self.deadline.get_or_insert_with(|| Box::pin(time::sleep(patience)));
            ready!(deadline.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        written
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0; READ];
        let room = bytes.get_mut(..to.remaining().min(READ)).unwrap_or_default();
        let mut read = ReadBuf::new(room);
        ready!(Pin::new(&mut self.inner).poll_read(context, &mut read))?;
        to.put_slice(read.filled());
        Poll::Ready(Ok(()))
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.watched(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes when it has written all there is.
        (self.deadline, self.taken) = (None, 0);
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
        self.watched(context, written)
    }
}

/// tokio's clock for hyper.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock;

/// One sleep of it.
struct Slept(Pin<Box<time::Sleep>>);

impl Future for Slept {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(context)
    }
}

impl Sleep for Slept {}

impl Timer for Clock {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Slept(Box::pin(time::sleep(duration))))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Slept(Box::pin(time::sleep_until(deadline.into()))))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{Ipv4Addr, TcpListener, TcpStream as Blocking};
    use std::thread;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(300);
    const SIZE: usize = 64 << 20;

    /// Writes much to a reader; how much it took, and the error if there was one.
    fn write_to(read: impl FnOnce(Blocking) + Send + 'static) -> (usize, Option<io::ErrorKind>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let reader = Blocking::connect(listener.local_addr().unwrap()).unwrap();
        let (writer, _) = listener.accept().unwrap();
        writer.set_nonblocking(true).unwrap();
        let reading = thread::spawn(move || read(reader));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let written = runtime.block_on(async {
            let inner = TcpStream::from_std(writer).unwrap();
            let mut stream = Stream { patience: PATIENCE, ..Stream::new(inner) };
            let bytes = vec![0; 256 << 10];
            let mut written = 0;
            while written < SIZE {
                let wrote = std::future::poll_fn(|context| {
                    Pin::new(&mut stream).poll_write(context, &bytes)
                });
                match wrote.await {
                    Ok(count) => written += count,
                    Err(error) => return (written, Some(error.kind())),
                }
            }
            (written, None)
        });
        reading.join().unwrap();
        written
    }

    #[test]
    fn a_reader_that_takes_too_little_is_left() {
        let begin = Instant::now();
        let stops = write_to(|reader| {
            thread::sleep(PATIENCE * 4);
            drop(reader);
        });
        assert_eq!(stops.1, Some(io::ErrorKind::TimedOut));
        assert!(stops.0 < SIZE && begin.elapsed() < PATIENCE * 20);
        let trickle = write_to(|mut reader| {
            let mut bytes = [0; 64];
            for _ in 0..40 {
                thread::sleep(PATIENCE / 10);
                let _ = reader.read(&mut bytes);
            }
        });
        assert_eq!(trickle.1, Some(io::ErrorKind::TimedOut));
    }

    #[test]
    fn a_slow_reader_that_goes_on_is_served() {
        let slow = write_to(|mut reader| {
            let mut bytes = vec![0; 1 << 20];
            let mut read = 0;
            while read < SIZE {
                thread::sleep(PATIENCE / 50);
                read += reader.read(&mut bytes).unwrap();
            }
        });
        assert_eq!(slow, (slow.0, None));
        assert!(slow.0 >= SIZE);
    }
}
