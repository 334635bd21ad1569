//! Instrument a program with metrics in memory-mapped files of Performance
//! Co-Pilot's MMV format.
//!
//! A program registers metrics, gets typed handles, and counts at the price of a
//! memory access; any process can read the values from the file at any moment.
//! `mmv-agent` logs them into an archive, and so do PCP's own programs.
//!
//! # Vocabulary
//!
//! | word | meaning |
//! |---|---|
//! | metric | a named, typed quantity: `acme.products.count` |
//! | counter | a metric that only grows; what matters is its rate |
//! | gauge | a metric that goes up and down; what matters is its value now (PCP: "instantaneous") |
//! | discrete | a metric that holds until it is changed: a configuration, a text |
//! | units | what the number counts: powers and scales of bytes, seconds and events ([`Units`]) |
//! | instance domain | the set of things that a metric has a value for: the disks, the queues |
//! | instance | one of them: a number and a name |
//! | singular metric | one with a single value and no instance domain |
//! | label | a name and a JSON value that describe a file, a domain, an instance or a metric |
//! | cluster, item | the file's and the metric's part of a metric's identifier (PMID) |
//!
//! # Example
//!
//! ```
//! use mmv_writer::{Counter, Instances, Registry, Units};
//!
//! # fn main() -> Result<(), mmv_writer::Error> {
//! # let directory = tempfile::tempdir().unwrap();
//! let registry = Registry::builder("acme").directory(directory.path()).cluster(321).build()?;
//! let total: Counter<u64> = registry
//!     .counter("products.total")
//!     .units(Units::count())
//!     .help("products made by the factory")
//!     .build()?;
//! let products = registry.indom("products").names(["anvils", "rockets"]).build()?;
//! let made: Instances<Counter<u64>> =
//!     registry.counter("products.count").units(Units::count()).build_instances(&products)?;
//! let published = registry.publish()?; // from here on readers see it
//!
//! if let Some(rockets) = made.by_name("rockets") {
//!     rockets.inc(); // one atomic instruction; clone handles into threads
//! }
//! total.inc();
//! drop(published); // withdraws the file
//! # Ok(())
//! # }
//! ```
//!
//! # In a library, in an application
//!
//! A library takes handles, and has `Counter::noop()` and its like where it is
//! given none. The application owns the [`Registry`] and keeps the [`Published`]
//! file until it ends. All that can fail fails at registration or publication,
//! with an [`Error`] that names the offender; a handle never does.
//!
//! # Metrics and instances at run time
//!
//! A [`Registry`] is described, then published, and stays as it is. Where
//! instances come and go (connections, tenants, paths), use a [`LiveRegistry`]:
//! it is published from the start and grows.
//!
//! # More than one file
//!
//! Readers take 1023 metrics, 255 labels and 2047 domains from one file. What does
//! not fit goes into further files, `app.2` behind `app` and so on, which come and go
//! with the first. Metrics have the same complete names there. See
//! [`RegistryBuilder::further_cluster`] for their PMIDs.
//!
//! # What a reader may see
//!
//! Each value is whole: it is loaded and stored in one piece. Two values are
//! not of the same instant. A text that is read while it changes may be a mixture,
//! but ends in a NUL. A file is complete or not there: it is filled under a
//! hidden name and renamed.
//!
//! # When no file can be made
//!
//! By default that is an error. A [lenient](RegistryBuilder::lenient) registry
//! goes on unseen, and says so once: an application need not fail because of its
//! metrics.
//!
//! # Several processes of one application
//!
//! Each makes a file of its own by [`RegistryBuilder::per_process`]. The process
//! is the instance; metric names are the same in all and carry no number.
//!
//! # Fork
//!
//! In a forked child all handles stay valid and count for the child alone, where
//! nobody reads: a private copy takes the place of the mapping. The files stay the
//! parent's. A child that wants to be seen makes a registry of its own, under
//! another name.
//!
//! # What this crate is not
//!
//! It logs nothing (but for the one line of a lenient registry) and serves
//! nothing. It starts no thread, but for one that
//! sleeps up to 100 ms to tell readers of a burst of changes in a
//! [`LiveRegistry`]. It needs no PCP, but a directory to write to.
//!
//! # Read the modules in this order
//!
//! [`layout`] (every byte of the format) -> [`view`] (a foreign file, checked) ->
//! [`mapping`] (the only unsafe code) -> [`metric`] (the handles) -> `registry`
//! (names, numbers and their checks) -> `plan` (from registrations to bytes) ->
//! `publish` (the file's life) -> `live` (files that grow) -> [`image`] (files
//! that others lay out).

mod directory;
mod error;
pub mod image;
mod json;
mod label;
pub mod layout;
mod live;
pub mod mapping;
pub mod metric;
mod names;
mod plan;
mod publish;
mod registry;
pub mod view;

pub use directory::{DEFAULT_TMP_DIR, mmv_directory};
pub use error::Error;
pub use label::{Label, LabelValue};
pub use live::{Family, LiveBuilder, LiveIndom, LiveIndomBuilder, LiveRegistry, StatedIndom};
pub use metric::{
    Buckets, Counter, Discrete, Elapsed, Gauge, Histogram, Instances, Interval, Optional,
    OwnedCounter, OwnedGauge, OwnedHistogram, Stripe, Striped, Text, Timer, Timing,
};
pub use pcp_types::{InstanceId, Semantics, Units, ValueType};
pub use publish::Published;
pub use registry::{
    BucketIndom, Indom, IndomBuilder, MetricBuilder, Registrar, Registry, RegistryBuilder,
};
