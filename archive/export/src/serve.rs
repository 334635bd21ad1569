//! `mmv-export serve`: archives for Prometheus and all that reads its protocols.
//!
//! | path | answer |
//! |---|---|
//! | `/api/v1/read` | remote read: the samples of any series in any span of time |
//! | `/metrics` | the newest value of each series, as text or `OpenMetrics` |
//!
//! Read only, on a loopback address or a unix socket. One thread handles all connections, and a
//! bounded number of others reads archives.
//!
//! [`mmv_http`] limits what connections cost. Other attacks of a client and their effect:
//!
//! | client | effect |
//! |---|---|
//! | sends a body slowly | its connection is closed after ten seconds |
//! | sends a large body, or one that grows when decompressed | status 413 or 400 |
//! | is a browser with a page whose name resolves to this machine | status 403 |
//! | asks for much data | status 413 above `--max-samples`; few answers are read or sent at a time |
//! | disconnects | reading stops |

mod exposition;
mod matcher;
mod messages;
mod newest;
mod read;
mod select;
mod service;
mod stream;
mod xor;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use mmv_http::Listener;
use tokio::runtime::Builder;

use crate::Failure;
use crate::options::SourceOptions;
use crate::text::warn;
use newest::Newest;
use service::Service;

const READER_THREADS: usize = 4;

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  Answer Prometheus' remote reads and scrapes on http://127.0.0.1:9465:
    mmv-export serve @
  Print the newest values as Prometheus scrapes them:
    curl http://127.0.0.1:9465/metrics
  Serve some of the hosts, on another port:
    mmv-export serve --listen 127.0.0.1:9466 /srv/archives --host 'web*'
  Serve on a socket, for a proxy with authentication:
    mmv-export serve --socket /run/mmv-export/socket @";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ServeCommand {
    #[command(flatten)]
    source: SourceOptions,

    /// Loopback address to listen on; port 0 for any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9465", value_parser = loopback)]
    listen: SocketAddr,

    /// Unix socket to listen on, instead of an address
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    socket: Option<PathBuf>,

    /// Maximum samples per answer; each takes 16 bytes of memory, or twice that without chunks
    #[arg(long, value_name = "COUNT", default_value_t = 5_000_000)]
    max_samples: usize,
}

/// Parses an address that only this machine reaches.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| "not an address such as 127.0.0.1:9465".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("not a loopback address: put a proxy with authentication in front of it".to_owned())
    }
}

impl ServeCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        // Reports options that select no host, and missing paths, at the start.
        self.source.hosts()?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(READER_THREADS)
            .build()
            .map_err(Failure::Serve)?;
        runtime.block_on(async {
            let listener = self.listen().map_err(Failure::Serve)?;
            let newest = Newest::follow(self.source.clone())?;
            let is_tcp = self.socket.is_none();
            let service =
                Service::new(self.source.clone(), newest, self.max_samples, READER_THREADS, is_tcp);
            let service = Arc::new(service);
            let serving = mmv_http::serve(
                listener,
                move |request, place| {
                    let service = Arc::clone(&service);
                    async move { service.answer(request, &place).await }
                },
                |line| warn(&line),
            );
            tokio::spawn(serving).await.map_err(|error| Failure::Serve(error.into()))
        })
    }

    /// Opens the listening socket and prints its address.
    fn listen(&self) -> io::Result<Listener> {
        if let Some(path) = &self.socket {
            let listener = Listener::unix(path)?;
            warn(&format_args!("listening on {}", path.display()));
            return Ok(listener);
        }
        let listener = Listener::tcp(self.listen)?;
        warn(&format_args!("listening on http://{}", listener.address()?));
        Ok(listener)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_served() {
        assert!(loopback("127.0.0.1:9465").is_ok());
        assert!(loopback("[::1]:0").is_ok());
        for text in ["0.0.0.0:9465", "192.0.2.1:9465", "[::]:1", "localhost", "127.0.0.1"] {
            assert!(loopback(text).is_err(), "{text}");
        }
    }
}
