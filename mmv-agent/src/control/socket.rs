//! What the sockets for status and captures have in common.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crossbeam::channel::{Sender, bounded};

use crate::sampling::Command;

/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers clients at a socket, one after the other, on a thread of this name until the
/// process ends.
///
/// # Errors
///
/// From the system.
pub(super) fn serve(
    socket: &Path,
    name: &str,
    mut answer: impl FnMut(UnixStream) + Send + 'static,
) -> io::Result<()> {
    let listener = listen(socket)?;
    let serve = move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => answer(stream),
                // Out of descriptors, perhaps; some may be free later.
                Err(_) => thread::sleep(PAUSE),
            }
        }
    };
    thread::Builder::new().name(name.into()).spawn(serve)?;
    Ok(())
}

/// A socket to which any process may connect.
fn listen(socket: &Path) -> io::Result<UnixListener> {
    if let Some(directory) = socket.parent() {
        fs::create_dir_all(directory)?;
    }
    // The lock on the archives ensures that no other agent listens there.
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    fs::set_permissions(socket, fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// The sampler thread's reply to a command; `None` if it has ended or takes too long.
pub(super) fn ask<T>(
    sampler: &Sender<Command>,
    command: impl FnOnce(Sender<T>) -> Command,
    timeout: Duration,
) -> Option<T> {
    let (reply, answer) = bounded(1);
    sampler.send(command(reply)).ok()?;
    answer.recv_timeout(timeout).ok()
}
