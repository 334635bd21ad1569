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
//! | discrete | a metric whose value holds until it is changed: a configuration, a text |
//! | units | what the number counts: powers and scales of bytes, seconds and events ([`Units`]) |
//! | instance domain | the set of things that a metric has a value for: the disks, the queues |
//! | instance | one of them: a name, and a number that follows from it |
//! | singular metric | one with a single value and no instance domain |
//! | label | a name and a JSON value that describe a file, a domain, an instance or a metric |
//! | cluster, item | the file's and the metric's part of a metric's identifier (PMID) |
//!
//! # Example
//!
//! ```
//! use mmv_writer::{Counter, Family, Labels, Metrics, Registry};
//!
//! #[derive(Labels, Clone, PartialEq, Eq, Hash)]
//! struct Route {
//!     endpoint: &'static str,
//!     code: u16,
//! }
//!
//! #[derive(Metrics)]
//! struct Shop {
//!     /// Orders taken since the start.
//!     #[metric(unit = "count")]
//!     orders: Counter,
//!     /// Requests answered.
//!     #[metric(unit = "count")]
//!     requests: Family<Route, Counter>,
//! }
//!
//! # fn main() -> Result<(), mmv_writer::Error> {
//! # let directory = tempfile::tempdir().unwrap();
//! # /*
//! let registry = Registry::new("shop")?; // readers see its file from here on
//! # */
//! # let registry = Registry::builder("shop").directory(directory.path()).build()?;
//! let shop = Shop::register(&registry)?;
//!
//! shop.orders.inc(); // one atomic instruction; clone handles into threads
//! shop.requests.get(&Route { endpoint: "/cart", code: 200 }).inc();
//! # Ok(())
//! # }
//! ```
//!
//! The file is removed when the registry, its families and all handles are gone, or by
//! [`Registry::withdraw`]; [the table there](Registry#when-the-file-goes) has the other cases.
//!
//! # In a library, in an application
//!
//! A library takes a [`&Registry`](Registry), or handles, and uses `Counter::noop()` and the
//! like where it gets none. The application makes the registry. Registration can fail, with an
//! [`Error`] that names the metric, label or file; a handle never fails.
//!
//! | handle | semantics | methods | threads |
//! |---|---|---|---|
//! | [`Counter`] | counter | `add`, `inc`, `value` | shared: `Clone`, `&self` |
//! | [`OwnedCounter`] | counter | the same | one writer: `&mut self` |
//! | [`Gauge`] | instant | `set`, `add`, `sub`, `inc`, `dec`, `set_max`, `guard`, `value` | shared |
//! | [`OwnedGauge`] | instant | the same except `guard` | one writer |
//! | [`Discrete`] | discrete | `set`, `value` | shared |
//! | [`Text`] | discrete | `set` | shared |
//! | [`Optional`] of a gauge, a discrete value or a text | theirs | `set`, `clear`, and `value` except of a text | shared |
//! | [`Timer`] | counter | `start`, `time`, `add`, `value` | shared |
//! | [`Histogram`] | counter | `record`, `record_many`, `record_duration`, `start`, `time`, `count`, `sum` | shared |
//! | [`OwnedHistogram`] | counter | the same except `record_many` and `start` | one writer |
//!
//! | operation | instructions |
//! |---|---|
//! | `set`, `value` | one store, one load |
//! | `add` on a shared handle, 64-bit integers | one atomic add |
//! | `add` on a shared handle, other types | a compare-exchange loop |
//! | `set_max` | one load, and a compare-exchange loop if the value is larger |
//! | `add` on an owned handle, or on a [striped](MetricBuilder::build_striped) counter | load, add, store |
//!
//! Handles stay valid when the file is withdrawn; no reader sees them then.
//!
//! [`Registry::counter`] makes a `Counter<u64>` and [`Registry::gauge`] a `Gauge<f64>`. Another
//! type is asked for by name: `registry.metric::<Gauge<i32>>("depth")`. What is registered by its
//! builder need not be a field of a struct:
//!
//! ```
//! # use mmv_writer::{Family, Gauge, Labels, Registry, Units};
//! # #[derive(Labels, Clone, PartialEq, Eq, Hash)]
//! # struct Route { endpoint: &'static str, code: u16 }
//! # fn main() -> Result<(), mmv_writer::Error> {
//! # let directory = tempfile::tempdir().unwrap();
//! # let registry = Registry::builder("shop").directory(directory.path()).build()?;
//! let orders = registry.counter("orders").units(Units::count()).help("Orders taken.").build()?;
//! let requests: Family<Route> = registry.counter("requests").max_series(100).build_family()?;
//! let depth = registry.metric::<Gauge<i32>>("depth").build()?;
//! # let _ = (orders, requests, depth);
//! # Ok(())
//! # }
//! ```
//!
//! # Labels, cardinality
//!
//! A [`Family`] has a series, or a histogram, for each set of labels that is used, up to a limit:
//! see [cardinality](Family#cardinality). What ends, as a connection does, takes its series with it
//! by [`Family::scoped`].
//!
//! # Structs of metrics
//!
//! `#[derive(Metrics)]` (feature `derive`, on by default) makes a struct of handles one
//! that registers itself, with names, help texts and units from its fields: see
//! [`Metrics`].
//!
//! # Statics
//!
//! A counter, gauge, timer or histogram in a `static` is used from anywhere, without passing a
//! handle around. (A family has to be registered: keep it in a struct, or in a `static OnceLock`.)
//!
//! ```
//! use mmv_writer::{Counter, Histogram, Registry, Units};
//!
//! static REQUESTS: Counter = Counter::new("requests").units(Units::count());
//! static LATENCY: Histogram = Histogram::new("latency").units(Units::microseconds());
//!
//! fn answer() {
//!     let _timing = LATENCY.start();
//!     REQUESTS.inc();
//! }
//!
//! # fn main() -> Result<(), mmv_writer::Error> {
//! # let directory = tempfile::tempdir().unwrap();
//! answer(); // is counted, too
//! # /*
//! let registry = Registry::new("shop")?;
//! # */
//! # let registry = Registry::builder("shop").directory(directory.path()).build()?;
//! answer();
//! assert_eq!((REQUESTS.value(), LATENCY.count()), (2, 2));
//! # Ok(())
//! # }
//! ```
//!
//! No code runs before `main`. Such a metric is registered
//!
//! * in the first registry that the program makes: when that is made if the metric was used
//!   before, else at its first use. One that is never used is not there, so libraries
//!   can have as many as they like. When that registry is withdrawn, the next one that is
//!   made takes those that are not registered yet;
//! * or by [`Registry::register_static`], in any registry.
//!
//! It stays in its first registry, and does not keep its file: that is withdrawn with the
//! registry and the other handles. If it cannot be registered at its first use, one line
//! on standard error gives the reason, and it counts without readers.
//!
//! What is counted before is not lost: it is in the registered metric from the start. Such an
//! update takes a lock; after registration it is that of any handle, after two loads. After a
//! fork, statics of the child count for the child alone, as other handles.
//!
//! # All metrics known at the start
//!
//! [`RegistryBuilder::sealed`] makes a file as small as its content, which
//! [`Registry::publish`] publishes when everything is registered.
//!
//! # Metrics of PCP
//!
//! PCP's own metrics share instance domains, and state the numbers of domains, metrics and
//! instances. The module [`pcp`] has what programs that do the same need, as extensions of the
//! types here.
//!
//! # More than one file
//!
//! Readers take 1023 metrics, 255 labels and 2047 domains from one file. What does
//! not fit goes into overflow files, `app.2` after `app` and so on, which are published
//! and withdrawn with the first. Metrics have the same complete names there. See
//! [`pcp::RegistryBuilderExt::overflow_cluster`] for their PMIDs.
//!
//! # What a reader may see
//!
//! A value is never torn: it is loaded and stored in one piece. Two values are
//! not of the same instant. A text that is read while it changes may be a mixture,
//! but ends in a NUL. A file is complete or absent: it is filled under a hidden name
//! and renamed.
//!
//! # When no file can be made
//!
//! By default that is an error. A [lenient](RegistryBuilder::lenient) registry
//! continues without a file and prints the reason once: an application need not
//! fail because of its metrics.
//!
//! Elsewhere than on Linux there are no files. The crate builds there, a registry is made as
//! always and is never [published](Registry::is_published), and its handles count for the program
//! alone, so that a library may depend on it everywhere. In wasm no time passes.
//!
//! # Several processes of one application
//!
//! Each makes a file of its own with [`RegistryBuilder::per_process`]. The process
//! is the instance; metric names are the same in all and contain no number.
//!
//! A name without that belongs to one process at a time: to publish one that another running
//! process has is [`Error::Running`], unless the registry may
//! [replace](RegistryBuilder::replace_running) it.
//!
//! # Fork
//!
//! In a forked child all handles stay valid and count for the child alone, which no
//! reader sees: a private copy replaces the mapping before `fork` returns in the child,
//! also for children that other libraries fork. (Should the system refuse the copy, as it
//! may when a process has too many mappings, the child counts in its parent's file.) The
//! files stay the parent's: to register in an inherited registry is
//! [`Error::Forked`], and what a child drops is not withdrawn.
//! [`Registry::is_inherited`] distinguishes the parent's from the child's own; handles do not
//! have such a method.
//!
//! A child that publishes makes a registry of its own with [`Registry::after_fork`], registers
//! its metrics there and counts with the new handles. The lock of an inherited registry may be
//! held by a thread that the child does not have: do not use the registry in the child except
//! for `is_inherited` and `after_fork`, and do not drop it (`std::mem::forget`) where other
//! threads registered metrics at the time of the fork.
//!
//! # What this crate is not
//!
//! It logs nothing, except for the one line of a lenient registry, and serves
//! nothing. It starts no thread, except for one that sleeps up to 100 ms to announce
//! a burst of changes. It needs no installation of PCP and no
//! privileges: without them files go into a directory of the user, where an agent of the
//! same user looks for them ([`pcp::MmvDirectory`]).
//!
//! # Read the modules in this order
//!
//! `mapping` (memory shared with readers) -> `label`, `error` -> `identity`, `published`,
//! `overflow` (the files of a registry) -> `metric` (the handles) -> `registration` (names, numbers
//! and their checks) -> `capacity`, `options` (what a program chooses) -> `live` (files that grow)
//! -> `registry` (a registry of files that grow or are sealed) -> `builder` (what a program
//! registers) -> `family` (series by labels and by names) -> `derived`, `statics` (structs of
//! metrics, metrics in statics) -> `pcp` (options for PCP's users). `mmv_format::layout` has the
//! bytes of the format.

#![warn(clippy::unwrap_used)]
// MMV files have the byte order of their host.
#![cfg_attr(not(test), warn(clippy::big_endian_bytes, clippy::little_endian_bytes))]

#[forbid(unsafe_code)]
mod builder;
#[forbid(unsafe_code)]
mod capacity;
#[doc(hidden)]
#[forbid(unsafe_code)]
pub mod derived;
#[forbid(unsafe_code)]
mod error;
#[forbid(unsafe_code)]
mod family;
#[forbid(unsafe_code)]
mod identity;
#[forbid(unsafe_code)]
mod label;
#[forbid(unsafe_code)]
mod live;
mod mapping;
#[forbid(unsafe_code)]
mod metric;
#[forbid(unsafe_code)]
mod options;
#[forbid(unsafe_code)]
mod overflow;
#[forbid(unsafe_code)]
pub mod pcp;
#[forbid(unsafe_code)]
mod published;
#[forbid(unsafe_code)]
mod registration;
#[forbid(unsafe_code)]
mod registry;
#[forbid(unsafe_code)]
mod statics;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere.rs")]
#[forbid(unsafe_code)]
mod system;
#[cfg(test)]
#[forbid(unsafe_code)]
mod test_support;

pub use builder::{HistogramBuilder, MetricBuilder};
pub use derived::Metrics;
pub use error::Error;
pub use family::{Family, Labels};
pub use label::{Label, LabelValue};
pub use metric::{
    Buckets, Counter, Discrete, Gauge, Histogram, Optional, OwnedCounter, OwnedGauge,
    OwnedHistogram, Text, Timer,
};
#[cfg(feature = "derive")]
pub use mmv_derive::{Labels, Metrics};
pub use options::RegistryBuilder;
pub use pcp_types::Units;
pub use published::warn;
pub use registry::Registry;

/// Values that end something when they are dropped. Methods of handles return them.
pub mod guard {
    pub use crate::family::ScopedHandle;
    pub use crate::metric::{GaugeGuard, Interval, Timing};
}

/// The kinds of handles and of numbers, for code that is generic over them.
pub mod handle {
    pub use crate::family::SeriesHandle;
    pub use crate::metric::{Handle, Measured, Number};
    pub use crate::statics::InStatic;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
