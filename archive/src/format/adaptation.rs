//! Values of one archive as those of a timeline of several.
//!
//! A metric can have another type or other units in one archive than in the next. In a timeline it
//! has one descriptor, and values of archives that have another one are converted when they are
//! read: integers and floating-point numbers to a type that holds both, and units by their factor.
//! Event arrays stay as they are: values of a metric that has had arrays of both types are of
//! either type, and `event::widened` makes those of the longer one where they are kept.
//! Where that is not possible the archive's values of the metric are left out.

use hashbrown::HashMap;
use pcp_types::{Conversion, Units};

use crate::{MetricDesc, Pmid, Value, ValueType};

/// The change of an archive's values of a metric to those of the timeline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Adaptation {
    /// They are numbers that are converted.
    Converted(NumberConversion),
    /// They are not read.
    LeftOut,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NumberConversion {
    /// The type in the archive.
    pub(crate) own: ValueType,
    /// The type in the timeline.
    pub(crate) target: ValueType,
    /// Set if the units differ; then the target is a double.
    units: Option<Conversion>,
}

/// The metrics of an archive whose values are not those of the timeline as they are.
pub(crate) type Adaptations = HashMap<Pmid, Adaptation>;

impl NumberConversion {
    pub(crate) fn apply<'v>(&self, value: Value<'v>) -> Option<Value<'v>> {
        if self.target == ValueType::HighresEvent {
            return Some(value);
        }
        if self.target == ValueType::Double {
            let number = value.as_f64()?;
            let number = self.units.map_or(number, |units| units.apply(number));
            return Some(Value::Double(number));
        }
        let number: i128 = match value {
            Value::I32(number) => number.into(),
            Value::U32(number) => number.into(),
            Value::I64(number) => number.into(),
            Value::U64(number) => number.into(),
            _ => return None,
        };
        match self.target {
            ValueType::I64 => number.try_into().ok().map(Value::I64),
            ValueType::U64 => number.try_into().ok().map(Value::U64),
            ValueType::I32 => number.try_into().ok().map(Value::I32),
            ValueType::U32 => number.try_into().ok().map(Value::U32),
            _ => None,
        }
    }
}

/// Returns a descriptor to whose values those of all these can be converted; `None` if there is
/// none. Its units are those of the last one.
pub(crate) fn common_desc(descs: &[MetricDesc]) -> Option<MetricDesc> {
    let last = *descs.last()?;
    let mut common = last;
    let mut is_scaled = false;
    for desc in descs {
        let is_alike = desc.semantics == last.semantics
            && desc.indom == last.indom
            && desc.units.conversion_to(last.units).is_some();
        if !is_alike {
            return None;
        }
        common.value_type = wider(common.value_type, desc.value_type)?;
        is_scaled |= units_conversion(desc.units, last.units).is_some();
    }
    if is_scaled {
        if !common.value_type.is_numeric() {
            return None;
        }
        common.value_type = ValueType::Double;
    }
    Some(common)
}

/// Returns the change that turns values of a descriptor into those of a timeline's; `None` if
/// there is nothing to change.
pub(crate) fn adaptation(own: &MetricDesc, timeline: &MetricDesc) -> Option<Adaptation> {
    if own == timeline {
        return None;
    }
    if common_desc(&[*own, *timeline]) != Some(*timeline) {
        return Some(Adaptation::LeftOut);
    }
    let units = units_conversion(own.units, timeline.units);
    let own = own.value_type;
    let target = timeline.value_type;
    Some(Adaptation::Converted(NumberConversion { own, target, units }))
}

/// Returns the conversion from one unit to another; `None` if numbers stay as they are.
fn units_conversion(own: Units, target: Units) -> Option<Conversion> {
    let conversion = own.conversion_to(target)?;
    let is_identity = conversion == Conversion::times(1.0);
    (!is_identity).then_some(conversion)
}

/// Returns the narrowest type that holds the numbers or events of both; `None` if there is none.
fn wider(one: ValueType, other: ValueType) -> Option<ValueType> {
    use ValueType::{Double, Event, Float, HighresEvent, I32, I64, U32, U64};
    let wider = match (one, other) {
        _ if one == other && (one.is_numeric() || one.is_event()) => one,
        (Event | HighresEvent, Event | HighresEvent) => HighresEvent,
        (I32 | I64, I32 | I64 | U32) | (U32, I32 | I64) => I64,
        (U32 | U64, U32 | U64) => U64,
        (I32 | I64 | U32 | U64 | Float | Double, I32 | I64 | U32 | U64 | Float | Double) => Double,
        _ => return None,
    };
    Some(wider)
}
