//! Event arrays: values that are several things that happened, each with its
//! own time and parameters.
//!
//! A metric of type [`ValueType::Event`] or
//! [`HighresEvent`](ValueType::HighresEvent) has such arrays as values:
//! all that happened from one sample to the next. [`EventArray::unpack`] reads
//! one in place, [`EventArrayBuilder`] makes one for
//! [`write_result`](crate::ArchiveWriter::write_result).
//!
//! ```
//! use pcp_archive::raw::event::{EventArray, EventArrayBuilder, EventFlags, FLAGS_PMID};
//! use pcp_archive::{Pmid, Timestamp, Value};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = Pmid::new(70, 1, 1)?;
//! let first = Timestamp::new(1_700_000_000, 500_000_000)?;
//! let mut builder = EventArrayBuilder::highres();
//! builder.record(first, EventFlags::POINT)?.parameter(path, Value::String(b"/index"))?;
//! // Three more happened, but their details were lost.
//! builder.missed(Timestamp::new(1_700_000_001, 0)?, 3)?;
//! let value = builder.finish();
//!
//! let array = EventArray::unpack(value.as_value())?;
//! assert_eq!((array.len(), array.missed()), (2, 3));
//! for record in array.records() {
//!     println!("{} {}", record.timestamp(), record.flags());
//! }
//! // As pmUnpackHighResEventRecords(3) gives it: flags first.
//! let record = array.records().next().ok_or("no record")?;
//! let values: Vec<_> = record.unpacked().collect();
//! assert_eq!(values, [(FLAGS_PMID, Value::U32(1)), (path, Value::String(b"/index"))]);
//! # Ok(())
//! # }
//! ```

pub use super::event_array::{
    EventArray, EventFlags, EventParameters, EventRecord, EventRecords, FLAGS_PMID, MISSED_PMID,
};
pub use super::event_builder::EventArrayBuilder;
use crate::{OwnedValue, Value, ValueType};

/// Returns an event array as one of a metric's type, if it is of the type with shorter times: in a
/// timeline of several archives the metric may have had that one in some of them. `None`: it need
/// not be converted. What cannot be unpacked becomes a value that cannot be, either.
pub(crate) fn widened(value: Value<'_>, value_type: ValueType) -> Option<OwnedValue> {
    let is_shorter = matches!(value, Value::Event(_)) && value_type == ValueType::HighresEvent;
    is_shorter.then(|| {
        let bytes = EventArray::unpack(value).ok().and_then(|array| array.to_highres().ok());
        OwnedValue::HighresEvent(bytes.unwrap_or_default())
    })
}
