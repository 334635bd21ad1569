//! `mmv-export push` in front of a receiver that does everything that receivers do wrong.

mod receiver;

#[path = "../shared/archives.rs"]
mod archives;
mod own_metrics;
mod rules;
mod sender;
mod tls;
