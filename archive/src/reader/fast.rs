//! Makes reading faster, and nothing else. Skip it at first: every answer is the same without it.
//!
//! | module | saves | used by |
//! |---|---|---|
//! | [`record_shape`] | checking a record that repeats the layout of an earlier one | reader, check |
//! | [`record_run`] | parsing records of one shape one by one | scan |
//! | [`excerpt`] | reading what is between the wanted values of such records | scan |
//! | [`copy_plan`] | finding the values in records of one shape | scan |
//! | [`seek_cache`] | searching again for a time near the last one | reader |
//! | [`sequence_map`] | hashing keys that come in the same order again | check |

pub(crate) mod copy_plan;
pub(crate) mod excerpt;
pub(crate) mod record_run;
pub(crate) mod record_shape;
pub(crate) mod seek_cache;
pub(crate) mod sequence_map;

pub(crate) use copy_plan::{CopyPlan, CopyStep, ValueForm};
pub(crate) use excerpt::{Excerpt, ReadCost};
pub(crate) use record_run::{RecordRun, RunFinder};
pub(crate) use record_shape::RecordShapes;
pub(crate) use seek_cache::SeekCache;
pub(crate) use sequence_map::SequenceMap;
