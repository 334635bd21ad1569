//! Which value of which source is where in a record.
//!
//! Records, values logged on change and the samples of the flight recorder are made from
//! such a shape. It changes when the sources or their metadata do.

use pcp_types::{InstanceId, Pmid, ValueType};

/// Where the values of one metric come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueSetShape {
    /// The metric.
    pub pmid: Pmid,
    /// The type of its values.
    pub value_type: ValueType,
    /// The sources that have the metric, with or without values.
    pub owners: Vec<usize>,
    /// Its values, by instance.
    pub places: Vec<Place>,
}

/// Where one value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The instance; `None` for a singular metric.
    pub instance: Option<InstanceId>,
    /// The index of the source.
    pub source: usize,
    /// The index of the value in the source's plan.
    pub value: usize,
}

/// All value sets of a record, in their order.
pub(crate) type RecordShape = Vec<ValueSetShape>;
