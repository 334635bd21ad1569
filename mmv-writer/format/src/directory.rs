//! The choice of the directory for MMV files.
//!
//! [`mmv_directory`] is PCP's rule, for interfaces that promise it. [`MmvDirectory::choose`]
//! is ours, for programs and agents that must work without privileges as well: it returns
//! the same directory in each process of a user, in any order of their start.

mod choice;
mod pcp;
mod process;
mod user;

pub use choice::{MmvDirectory, Reason};
pub use pcp::{DEFAULT_TMP_DIR, mmv_directory};
pub use user::{SYSTEM_ARCHIVES, UserDirectories};
