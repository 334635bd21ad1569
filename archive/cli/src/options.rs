//! Options that several subcommands share.

pub(crate) mod archives;
pub(crate) mod display;
pub(crate) mod histograms;
pub(crate) mod new_archive;
pub(crate) mod progress;
pub(crate) mod sides;

pub(crate) use archives::{ArchiveArgument, warn_of_unreadable};
pub(crate) use display::{DisplayOptions, FormatOptions};
pub(crate) use histograms::{GapOptions, QuantileOptions};
pub(crate) use new_archive::{OutputOptions, base_names, total_size, warn_of_unnameable};
pub(crate) use progress::ProgressOptions;
pub(crate) use sides::{Parts, SidesArgument};
