//! Notifies systemd (`sd_notify(3)`, `Type=notify`).

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;
use std::time::Duration;

pub(crate) fn ready() {
    notify("READY=1");
}

/// Tells systemd that the configuration is being reloaded, until [`ready`] is called.
pub(crate) fn reloading() {
    // systemd compares it with its own clock (`Type=notify-reload`).
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
}

/// Sets the status line that systemd shows.
pub(crate) fn status(text: &str) {
    notify(&format!("STATUS={text}"));
}

pub(crate) fn alive() {
    notify("WATCHDOG=1");
}

/// Returns the interval at which systemd expects [`alive`], half of the time after which it would
/// restart the agent; `None` if it does not watch the agent.
pub(crate) fn watchdog() -> Option<Duration> {
    let for_us = env::var("WATCHDOG_PID").map_or(true, |pid| pid == process::id().to_string());
    let micros: u64 = env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    (for_us && micros > 0).then(|| Duration::from_micros(micros) / 2)
}

/// Tells systemd that the agent is about to end.
pub(crate) fn stopping() {
    notify("STOPPING=1");
}

/// Sends a state line if there is a service manager.
fn notify(state: &str) {
    if let Some(address) = env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send(&address, state)
    {
        tracing::warn!(%error, state, "sd_notify failed");
    }
}

fn send(address: &OsString, state: &str) -> io::Result<()> {
    let bytes = address.as_bytes();
    // A leading @ is systemd's way to write an abstract socket's NUL.
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_line_arrives_at_a_socket_in_the_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        send(&path.into_os_string(), "READY=1").unwrap();
        let mut buffer = [0; 16];
        let len = socket.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"READY=1");
    }

    #[test]
    fn a_state_line_arrives_at_an_abstract_socket() {
        let name = format!("mmv-agent-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        send(&OsString::from(format!("@{name}")), "STOPPING=1").unwrap();
        let mut buffer = [0; 16];
        let len = socket.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"STOPPING=1");
    }
}
