//! `mmv-export serve` and `push` in front of real engines: Prometheus and VictoriaMetrics as Debian
//! packages them, which `ci/engines` fetches, and rotel.
//!
//! Each test prints the versions that it ran with.

mod engine;
mod native;
mod prometheus;
mod push;
mod rotel;
mod victoriametrics;
