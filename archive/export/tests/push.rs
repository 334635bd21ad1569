//! `mmv-export push` in front of a receiver that does everything that receivers do wrong.

mod own_metrics;
pub(crate) mod receiver;
mod rules;
pub(crate) mod sender;
mod tls;
