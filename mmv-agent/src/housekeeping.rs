//! Work that may wait for a disk or take long, on a thread of its own.
//!
//! Input: tasks from the sampler, the loader and the archive writer. Output: the state file;
//! repaired, compressed, reduced and deleted archives; removed files of dead processes.
//!
//! Invariant: the archive that is being written is never touched.

mod archive_directory;
mod background;
mod owner_recovery;
mod repair;
mod retention;
mod retention_clock;
mod span;
mod state_file;
mod thread;

pub(crate) use owner_recovery::recover_owners;
pub(crate) use state_file::{
    FileProducer, KnownFile, LoaderState, LoggedToday, PrologueIds, Store,
};
pub(crate) use thread::{Housekeeper, HousekeepingRules, LatestLoaderState, Task};
