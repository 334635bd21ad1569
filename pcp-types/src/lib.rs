//! The vocabulary of Performance Co-Pilot's PMAPI.
//!
//! What `<pcp/pmapi.h>` defines and both file formats (MMV and the archive) use:
//! identifiers, value types, semantics, units, timestamps, intervals, error
//! codes, and the rules for names and labels. The crate reads and writes no file
//! and knows no byte order.
//!
//! | item | PCP's word | range |
//! |---|---|---|
//! | [`Pmid`] | `pmID` | domain 0..=511, cluster 0..=4095, item 0..=1023 |
//! | [`InDom`] | `pmInDom` | domain 0..=511, serial 0..=4 194 303 |
//! | [`InstanceId`] | internal instance identifier | 0..=2 147 483 647 |
//! | [`InstanceNumbers`] | | numbers of instances from their names |
//! | [`ValueType`] | `PM_TYPE_*` | -1..=10 |
//! | [`Semantics`] | `PM_SEM_*` | 1, 3, 4 |
//! | [`Units`] | `pmUnits` | one 32-bit word |
//! | [`Timestamp`] | `struct timespec` | seconds since 1970 UTC, nanoseconds |
//! | [`parse_interval`] | `pmParseInterval` | lengths of time as text |
//! | [`parse_size`] | | numbers of bytes as text |
//! | [`NameSpace`] | PMNS | names of metrics, each a leaf or a branch |
//! | [`names`] | | syntax of names of metrics and labels, patterns |
//! | [`json`] | | values of labels |
//! | [`printable`] | | text of unknown origin for people |
//! | [`scaled`] | | numbers with units of their size, for people |
//! | [`ErrorCode`] | `PM_ERR_*` | negative 32-bit integers |
//!
//! "No instance domain" and "no instance" are `None`, never a magic -1.

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used)]

mod decimal;
mod error_code;
mod indom;
mod instance_number;
mod interval;
pub mod json;
mod name_space;
pub mod names;
mod pmid;
pub mod printable;
pub mod scaled;
mod semantics;
mod size;
mod timestamp;
mod units;
mod value_type;

pub use error_code::ErrorCode;
pub use indom::{InDom, InstanceId};
pub use instance_number::{InstanceNumbers, hash_of_name};
pub use interval::{format_interval, parse_interval};
pub use name_space::{NameConflict, NameSpace};
pub use pmid::Pmid;
pub use semantics::Semantics;
pub use size::parse_size;
pub use timestamp::Timestamp;
pub use units::{CombinedUnits, Conversion, ExtraUnit, ParsedUnits, SpaceScale, TimeScale, Units};
pub use value_type::ValueType;

/// A number or a text that is not a value of the requested type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the message of each variant")]
pub enum Error {
    /// A part of a [`Pmid`] or [`InDom`] is larger than its bit field: "domain",
    /// "cluster", "item" or "serial".
    PartTooLarge { part: &'static str, found: u32, max: u32 },
    /// Not a PMID or indom in dotted notation, or not units: `what` is "pmid",
    /// "indom" or "units".
    Syntax { what: &'static str, text: String },
    /// Not a sum of numbers with units of time.
    Interval(String),
    /// Not a number of bytes, or one out of range.
    Size(String),
    /// A `PM_TYPE_*` code that does not exist.
    UnknownType(i32),
    /// A `PM_SEM_*` code that does not exist.
    UnknownSemantics(i32),
    /// A nanosecond count outside 0..=999 999 999.
    Nanoseconds(i64),
    /// A negative instance number.
    NegativeInstance(i32),
    /// A units string names something that is not a unit (`PM_ERR_CONV`).
    UnknownUnit(String),
    /// A units string with more than one `/`, or a dimension twice on one side.
    RepeatedDimension(String),
    /// A power that does not fit the four bits of a dimension.
    PowerOutOfRange(i32),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PartTooLarge { part, found, max } => {
                write!(f, "{part} {found}, expected at most {max}")
            }
            Self::Syntax { what, text } => write!(f, "\"{text}\" is not a {what}"),
            Self::Interval(text) => {
                write!(f, "\"{text}\" is not an interval such as 10, 250ms, 1h30m or \"2 days 3\"")
            }
            Self::Size(text) => write!(
                f,
                "\"{text}\" is not a size such as 500kB, 64MB, 1.5GB or 512KiB, from 1B to 1000000TB"
            ),
            Self::UnknownType(code) => write!(f, "{code} is not a metric type (-1 to 10)"),
            Self::UnknownSemantics(code) => write!(f, "{code} is not a semantics (1, 3 or 4)"),
            Self::Nanoseconds(n) => write!(f, "{n} nanoseconds, expected 0 to 999999999"),
            Self::NegativeInstance(id) => write!(f, "instance number {id} is negative"),
            Self::UnknownUnit(word) => write!(
                f,
                "\"{word}\" is not a unit; units are byte, Kbyte, Mbyte to Ybyte, nanosec, \
                 microsec, millisec, sec, min, hour and count, as in \"Mbyte / sec\""
            ),
            Self::RepeatedDimension(text) => {
                write!(f, "\"{text}\" names a dimension twice on one side")
            }
            Self::PowerOutOfRange(power) => {
                write!(f, "power {power}, expected -8 to 7")
            }
        }
    }
}

impl std::error::Error for Error {}
