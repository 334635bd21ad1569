//! `mmv-export serve` and `push` in front of real engines: Prometheus and VictoriaMetrics as Debian
//! packages them, which `ci/engines` fetches.
//!
//! Each test prints the versions that it ran with.

#[path = "../shared/archives.rs"]
mod archives;
mod engine;
mod prometheus;
mod push;
#[path = "../push/receiver.rs"]
mod receiver;
mod rotel;
#[path = "../push/sender.rs"]
mod sender;
#[path = "../shared/server.rs"]
mod server;
mod victoriametrics;
