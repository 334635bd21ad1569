//! The file format that Performance Co-Pilot's programs publish metrics in: MMV,
//! memory-mapped values.
//!
//! The writer of a file fills it once, or appends to it, and changes values in
//! place; any process reads them at any moment. This crate reads files that any
//! program wrote, and defines the bytes for the crates that write them: use
//! `mmv-writer` to instrument a program.
//!
//! | module | what |
//! |---|---|
//! | [`layout`] | every byte of the format, as structs with checked sizes |
//! | [`content`] | the content of a file that is written at once, and its bytes |
//! | [`view`] | the metadata of a foreign file, each byte checked |
//! | [`mapping`] | the values of a foreign file, mapped and guarded against truncation |
//! | [`growth`] | files that grow, and which old metadata stays valid |
//! | [`directory`] | where files are, by PCP's rule and for users without privileges |
//! | [`mod@file`] | a file of one's own: hidden until it is complete, then renamed |
//!
//! `unsafe` is in [`mapping`] and [`mapping::guard`] alone.

#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]
// MMV files have the byte order of their host.
#![cfg_attr(not(test), warn(clippy::big_endian_bytes, clippy::little_endian_bytes))]

#[forbid(unsafe_code)]
pub mod content;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/directory.rs")]
#[forbid(unsafe_code)]
pub mod directory;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere/file.rs")]
#[forbid(unsafe_code)]
pub mod file;
#[forbid(unsafe_code)]
pub mod growth;
#[forbid(unsafe_code)]
pub mod layout;
#[cfg(target_os = "linux")]
pub mod mapping;
#[cfg(target_os = "linux")]
#[forbid(unsafe_code)]
pub mod view;

pub use directory::{DEFAULT_TMP_DIR, mmv_directory};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
