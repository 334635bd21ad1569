//! Descriptors of metrics as text.

use pcp_archive::{MetricDesc, Units, ValueType};

/// Returns the two lines that `pmPrintDesc(3)` prints.
pub(crate) fn descriptor(desc: &MetricDesc) -> String {
    if desc.value_type == ValueType::NoSupport {
        return format!("    Data Type: {}\n", desc.value_type);
    }
    let indom = match desc.indom {
        Some(indom) => format!("{indom} 0x{:x}", indom.raw()),
        None => "PM_INDOM_NULL 0xffffffff".to_owned(),
    };
    let units = units(desc.units);
    format!(
        "    Data Type: {}  InDom: {indom}\n    Semantics: {}  Units: {units}\n",
        desc.value_type, desc.semantics
    )
}

/// Units as text; "none" without a dimension, as in PCP's tools.
pub(crate) fn units(units: Units) -> String {
    let text = units.to_string();
    if text.is_empty() { "none".to_owned() } else { text }
}

pub(crate) fn type_name(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::NoSupport => "nosupport",
        ValueType::I32 => "32",
        ValueType::U32 => "u32",
        ValueType::I64 => "64",
        ValueType::U64 => "u64",
        ValueType::Float => "float",
        ValueType::Double => "double",
        ValueType::String => "string",
        ValueType::Aggregate => "aggregate",
        ValueType::AggregateStatic => "aggregate_static",
        ValueType::Event => "event",
        ValueType::HighresEvent => "highres_event",
    }
}
