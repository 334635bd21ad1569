//! Where connections come from.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixSocket};

/// How many connections the kernel keeps until they are accepted, where the system permits it.
const BACKLOG: u32 = 4_096;

/// Where connections come from.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A socket of the file system.
    Unix(UnixListener),
}

impl Listener {
    /// Listens on an address. Needs a runtime.
    ///
    /// # Errors
    ///
    /// From the system.
    pub fn tcp(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // As all servers do: else the address is taken for a minute after the last one ended.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG).map(Self::Tcp)
    }

    /// Listens on a socket; one that nobody listens on any more is replaced. Needs a runtime.
    ///
    /// # Errors
    ///
    /// From the system.
    pub fn unix(path: &Path) -> io::Result<Self> {
        let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        let refuses = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if is_socket && std::os::unix::net::UnixStream::connect(path).is_err_and(refuses) {
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
    /// From the system; for a unix socket always.
    pub fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            Self::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}
