//! Tests of `mmv-export`, as one program.

#[path = "shared/archives.rs"]
mod archives;
#[path = "shared/server.rs"]
mod server;

mod command;
#[cfg(all(feature = "push", feature = "serve"))]
mod engines;
#[cfg(feature = "push")]
mod push;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "parquet")]
mod tables;
