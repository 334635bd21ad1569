//! Instrument a program with metrics in memory-mapped files of Performance
//! Co-Pilot's MMV format.

mod json;
pub mod layout;
pub mod mapping;
mod names;
pub mod view;
