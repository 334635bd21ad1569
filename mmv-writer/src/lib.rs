//! Instrument a program with metrics in memory-mapped files of Performance
//! Co-Pilot's MMV format.

mod directory;
mod error;
mod json;
mod label;
pub mod layout;
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
pub use metric::{Counter, Discrete, Gauge, Instances, OwnedCounter, OwnedGauge, Text};
pub use pcp_types::{InstanceId, Semantics, Units, ValueType};
pub use publish::Published;
pub use registry::{Indom, IndomBuilder, MetricBuilder, Registry, RegistryBuilder};
