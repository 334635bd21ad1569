//! Finds MMV files and tracks their states.
//!
//! Input: listings of the MMV directory and the states of processes. Output: the files to open, to
//! close and to remove.
//!
//! Invariant: a file that cannot be harvested waits in the file table for its next try and never
//! affects another file.

mod control_group;
pub(crate) mod descriptor_budget;
pub(crate) mod directory;
mod file_name;
mod file_table;
mod listing;
mod liveness;
mod lock_table;
mod producer;
pub(crate) mod removal;
mod restarts;
mod watcher;

pub(crate) use control_group::ControlGroup;
pub(crate) use file_name::FileName;
pub(crate) use file_table::{Change, FileId, FileState};
pub(crate) use listing::DirectoryLimits;
pub(crate) use liveness::{Process, may_be_elsewhere};
pub(crate) use lock_table::LockTable;
pub(crate) use producer::Producer;
pub(crate) use removal::{DeadFile, Removal, RemovalOutcome, RemovalRefusal};
pub(crate) use restarts::Restarts;
pub(crate) use watcher::Watcher;
