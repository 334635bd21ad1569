//! Listening sockets.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixSocket};

/// Connections that the kernel queues until they are accepted, as far as `somaxconn` permits.
const BACKLOG: u32 = 4_096;

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A socket in the file system.
    Unix(UnixListener),
}

impl Listener {
    /// Listens on an address. Must be called within a runtime.
    ///
    /// # Errors
    ///
    /// Those of the system calls.
    pub fn tcp(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // Without it the address stays in use for a minute after the last server ended.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG).map(Self::Tcp)
    }

    /// Listens on a socket, replacing a stale one that refuses connections. Must be called within a
    /// runtime.
    ///
    /// # Errors
    ///
    /// Those of the system calls.
    pub fn unix(path: &Path) -> io::Result<Self> {
        let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        if is_socket
            && let Err(error) = std::os::unix::net::UnixStream::connect(path)
            && error.kind() == io::ErrorKind::ConnectionRefused
        {
            fs::remove_file(path)?;
        }
        let socket = UnixSocket::new_stream()?;
        socket.bind(path)?;
        socket.listen(BACKLOG).map(Self::Unix)
    }

    /// Returns the address that a TCP listener is bound to.
    ///
    /// # Errors
    ///
    /// Those of the system call; always for a unix socket.
    pub fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            Self::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}
