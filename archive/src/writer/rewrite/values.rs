//! Changes of the values of a metric.

use std::fmt;

use pcp_types::Conversion;

use super::indoms::NewNumbers;
use super::replacement::Replacement;
use crate::error::rules::RulePosition;
use crate::{ByteText, InstanceId, MetricDesc, OwnedValue, Units, ValueType};

/// The value of all instances that stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pick {
    First,
    Last,
    Min,
    Max,
    Sum,
    Average,
    /// `None`: of an instance that the domain never had.
    Instance(Option<InstanceId>),
}

/// The change of a metric's values.
#[derive(Debug)]
pub(in crate::writer) struct ValueChange {
    pub(in crate::writer) old: MetricDesc,
    /// The metric in errors.
    pub(super) name: String,
    /// The clause in errors of values that do not fit.
    pub(super) at: Option<RulePosition>,
    pub(super) pick: Option<Pick>,
    /// The instance of a value that had none.
    pub(super) instance: Option<InstanceId>,
    pub(super) loses_instances: bool,
    pub(super) replacements: Vec<Replacement>,
    pub(super) scaling: Option<ScaleChange>,
    pub(super) new_type: ValueType,
}

/// A value that the new type or unit of its metric cannot have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::writer) struct Unconvertible {
    pub(in crate::writer) name: String,
    pub(in crate::writer) value: String,
    pub(in crate::writer) value_type: ValueType,
    pub(in crate::writer) rule: String,
}

type InstanceValue<V> = (Option<InstanceId>, V);

impl ValueChange {
    pub(super) fn is_nothing(&self) -> bool {
        self.pick.is_none()
            && self.instance.is_none()
            && !self.loses_instances
            && self.replacements.is_empty()
            && self.scaling.is_none()
            && self.new_type == self.old.value_type
    }

    /// Returns values of one record as they become: first one of them is picked and texts are
    /// replaced, then instances get their numbers, then numbers get their scale and their type.
    pub(in crate::writer) fn apply(
        &self,
        values: Vec<InstanceValue<OwnedValue>>,
        new_numbers: Option<&NewNumbers>,
    ) -> Result<Vec<InstanceValue<OwnedValue>>, Unconvertible> {
        let picked = match self.pick {
            None => values,
            Some(pick) => self.pick(pick, values)?.into_iter().collect(),
        };
        let mut changed = Vec::with_capacity(picked.len());
        for (instance, value) in picked {
            let instance = if self.loses_instances { None } else { instance.or(self.instance) };
            let Ok(instance) = renumbered(instance, new_numbers) else { continue };
            changed.push((instance, self.convert(self.replace(value))?));
        }
        Ok(changed)
    }

    fn pick(
        &self,
        pick: Pick,
        mut values: Vec<InstanceValue<OwnedValue>>,
    ) -> Result<Option<InstanceValue<OwnedValue>>, Unconvertible> {
        let at = match pick {
            Pick::First => 0,
            Pick::Last => values.len().saturating_sub(1),
            Pick::Min => extreme(&values, |one, best| one < best),
            Pick::Max => extreme(&values, |one, best| one > best),
            Pick::Instance(id) => {
                let at = values.iter().position(|(own, _)| own.is_some() && *own == id);
                let Some(at) = at else { return Ok(None) };
                at
            }
            Pick::Sum | Pick::Average => return self.total(pick, &values),
        };
        Ok((at < values.len()).then(|| values.swap_remove(at)))
    }

    /// Returns the sum or average of all values, as a value of the first instance.
    fn total(
        &self,
        pick: Pick,
        values: &[InstanceValue<OwnedValue>],
    ) -> Result<Option<InstanceValue<OwnedValue>>, Unconvertible> {
        let Some((instance, _)) = values.first() else { return Ok(None) };
        let mut numbers = values.iter().filter_map(|(_, value)| Number::new(value));
        let Some(mut total) = numbers.next() else { return Ok(None) };
        for number in numbers {
            total = total.plus(number);
        }
        if pick == Pick::Average {
            total = total.divided(values.len());
        }
        let value = total.to_type(self.old.value_type);
        let value = value.ok_or_else(|| self.unconvertible(&total, self.old.value_type))?;
        Ok(Some((*instance, value)))
    }

    fn replace(&self, value: OwnedValue) -> OwnedValue {
        let OwnedValue::String(bytes) = &value else { return value };
        let mut changed: Option<String> = None;
        for replacement in &self.replacements {
            let text = match &changed {
                Some(text) => replacement.apply(text),
                None => replacement.apply(&ByteText::escape(bytes)),
            };
            changed = text.or(changed);
        }
        match changed {
            Some(text) => OwnedValue::String(ByteText::unescape(&text).into_owned()),
            None => value,
        }
    }

    fn convert(&self, value: OwnedValue) -> Result<OwnedValue, Unconvertible> {
        if self.scaling.is_none() && self.new_type == self.old.value_type {
            return Ok(value);
        }
        let Some(number) = Number::new(&value) else { return Ok(value) };
        let scaled = self.scaling.map_or(number, |scaling| scaling.apply(number));
        // A number has to fit its old type, too, as in pmlogrewrite.
        let value = scaled.to_type(self.old.value_type).and_then(|scaled| {
            if self.new_type == self.old.value_type {
                return Some(scaled);
            }
            Number::new(&scaled)?.to_type(self.new_type)
        });
        value.ok_or_else(|| self.unconvertible(&scaled, self.new_type))
    }

    fn unconvertible(&self, value: &Number, value_type: ValueType) -> Unconvertible {
        Unconvertible {
            name: self.name.clone(),
            value: value.to_string(),
            value_type,
            rule: self.at.as_ref().map(ToString::to_string).unwrap_or_default(),
        }
    }
}

/// An instance that rules delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::writer) struct DeletedInstance;

/// Returns the new number of an instance.
pub(in crate::writer) fn renumbered(
    instance: Option<InstanceId>,
    new_numbers: Option<&NewNumbers>,
) -> Result<Option<InstanceId>, DeletedInstance> {
    match instance.and_then(|old| new_numbers?.get(&old)) {
        None => Ok(instance),
        Some(Some(new)) => Ok(Some(*new)),
        Some(None) => Err(DeletedInstance),
    }
}

/// Returns the place of the first value that is better than all others.
fn extreme(
    values: &[InstanceValue<OwnedValue>],
    is_better: impl Fn(&Number, &Number) -> bool,
) -> usize {
    let mut best: Option<(usize, Number)> = None;
    for (at, (_, value)) in values.iter().enumerate() {
        let Some(number) = Number::new(value) else { continue };
        if best.as_ref().is_none_or(|(_, best)| is_better(&number, best)) {
            best = Some((at, number));
        }
    }
    best.map_or(0, |(at, _)| at)
}

/// The change of a scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ScaleChange {
    /// Factor and divisor of integers.
    ratio: Option<(i128, i128)>,
    conversion: Conversion,
}

impl ScaleChange {
    /// Returns the scaling between two units; `None` if they measure different things.
    pub(super) fn new(old: Units, new: Units) -> Option<Self> {
        let conversion = old.conversion_to(new)?;
        let ratio = old.ratio_to(new).map(|(above, below)| (above.into(), below.into()));
        Some(Self { ratio, conversion })
    }

    /// Returns a number in the new unit; integers are rounded.
    fn apply(self, number: Number) -> Number {
        match (number, self.ratio) {
            (Number::Integer(number), Some((above, below))) => {
                let product = number.saturating_mul(above).saturating_add(below / 2);
                Number::Integer(product / below)
            }
            (Number::Integer(number), None) => {
                Number::Integer((self.conversion.apply(number as f64) + 0.5).floor() as i128)
            }
            (Number::Float(number), Some((above, below))) => {
                Number::Float(number * (above as f32 / below as f32))
            }
            (Number::Float(number), None) => {
                Number::Float(self.conversion.apply(f64::from(number)) as f32)
            }
            (Number::Double(number), Some((above, below))) => {
                Number::Double(number * (above as f64 / below as f64))
            }
            (Number::Double(number), None) => Number::Double(self.conversion.apply(number)),
        }
    }
}

/// A number of any type.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum Number {
    Integer(i128),
    Float(f32),
    Double(f64),
}

impl Number {
    fn new(value: &OwnedValue) -> Option<Self> {
        match *value {
            OwnedValue::I32(number) => Some(Self::Integer(number.into())),
            OwnedValue::U32(number) => Some(Self::Integer(number.into())),
            OwnedValue::I64(number) => Some(Self::Integer(number.into())),
            OwnedValue::U64(number) => Some(Self::Integer(number.into())),
            OwnedValue::Float(number) => Some(Self::Float(number)),
            OwnedValue::Double(number) => Some(Self::Double(number)),
            _ => None,
        }
    }

    /// Adds a number of the same type.
    fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => Self::Integer(one.saturating_add(other)),
            (Self::Float(one), Self::Float(other)) => Self::Float(one + other),
            (Self::Double(one), Self::Double(other)) => Self::Double(one + other),
            (one, _) => one,
        }
    }

    /// Divides by a count; integers are rounded.
    fn divided(self, count: usize) -> Self {
        match self {
            Self::Integer(total) => Self::Integer((0.5 + total as f64 / count as f64) as i128),
            Self::Float(total) => Self::Float(total / count as f32),
            Self::Double(total) => Self::Double(total / count as f64),
        }
    }

    /// Returns the number as a value of a type; `None` if it does not fit.
    fn to_type(self, value_type: ValueType) -> Option<OwnedValue> {
        Some(match value_type {
            ValueType::I32 => OwnedValue::I32(self.integer(f64::from(i32::MAX))?.try_into().ok()?),
            ValueType::U32 => OwnedValue::U32(self.unsigned(f64::from(u32::MAX))?.try_into().ok()?),
            ValueType::I64 => OwnedValue::I64(self.integer(i64::MAX as f64)?.try_into().ok()?),
            ValueType::U64 => OwnedValue::U64(self.unsigned(u64::MAX as f64)?.try_into().ok()?),
            ValueType::Float => OwnedValue::Float(match self {
                Self::Integer(number) => number as f32,
                Self::Float(number) => number,
                Self::Double(number) => number as f32,
            }),
            ValueType::Double => OwnedValue::Double(match self {
                Self::Integer(number) => number as f64,
                Self::Float(number) => f64::from(number),
                Self::Double(number) => number,
            }),
            ValueType::String => OwnedValue::String(self.to_string().into_bytes()),
            _ => return None,
        })
    }

    /// Returns the integer part of a number that is not negative, as [`integer`](Self::integer).
    fn unsigned(self, largest: f64) -> Option<i128> {
        let is_negative = match self {
            Self::Integer(number) => number < 0,
            Self::Float(number) => number < 0.0,
            Self::Double(number) => number < 0.0,
        };
        if is_negative { None } else { self.integer(largest) }
    }

    /// Returns an integer, or the integer part of a number that is below the largest of a type.
    fn integer(self, largest: f64) -> Option<i128> {
        let number = match self {
            Self::Integer(number) => return Some(number),
            Self::Float(number) if number >= largest as f32 => return None,
            Self::Float(number) => f64::from(number),
            Self::Double(number) => number,
        };
        if number.is_nan() || number >= largest {
            return None;
        }
        Some(number as i128)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Float(number) => f.write_str(&sixteen_digits(f64::from(*number))),
            Self::Double(number) => f.write_str(&sixteen_digits(*number)),
        }
    }
}

/// Returns a number as `%.16g` of C prints it.
fn sixteen_digits(number: f64) -> String {
    if !number.is_finite() {
        return format!("{number}").to_lowercase();
    }
    let text = format!("{number:.15e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-4..16).contains(&exponent) {
        let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let fixed = format!("{number:.*}", (15 - exponent).unsigned_abs() as usize);
    if !fixed.contains('.') {
        return fixed;
    }
    fixed.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_sixteen_digits_of_c() {
        for (number, expected) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (-0.1, "-0.1"),
            (1.0 / 3.0, "0.3333333333333333"),
            (123_456_789_012_345_680.0, "1.234567890123457e+17"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (1e15, "1000000000000000"),
            (f64::INFINITY, "inf"),
            (f64::from(0.1f32), "0.1000000014901161"),
        ] {
            assert_eq!(sixteen_digits(number), expected);
        }
    }

    #[test]
    fn numbers_keep_their_value_in_another_type_or_are_refused() {
        let number = |value: OwnedValue| Number::new(&value).unwrap();
        for (value, value_type, expected) in [
            (OwnedValue::I32(-1), ValueType::U64, None),
            (OwnedValue::I32(-1), ValueType::I64, Some(OwnedValue::I64(-1))),
            (OwnedValue::U32(u32::MAX), ValueType::I32, None),
            (OwnedValue::U64(u64::MAX), ValueType::I64, None),
            (OwnedValue::I64(i64::MIN), ValueType::I32, None),
            (OwnedValue::U64(7), ValueType::U32, Some(OwnedValue::U32(7))),
            (OwnedValue::Double(2.9), ValueType::U32, Some(OwnedValue::U32(2))),
            (OwnedValue::Double(-2.9), ValueType::I32, Some(OwnedValue::I32(-2))),
            (OwnedValue::Double(-0.5), ValueType::U32, None),
            (OwnedValue::Double(-0.5), ValueType::I32, Some(OwnedValue::I32(0))),
            (OwnedValue::Double(f64::NAN), ValueType::I32, None),
            (OwnedValue::Double(2_147_483_647.0), ValueType::I32, None),
            (OwnedValue::Float(2_147_483_648.0), ValueType::I32, None),
            (OwnedValue::Double(0.1), ValueType::Float, Some(OwnedValue::Float(0.1))),
            (OwnedValue::U32(5), ValueType::String, Some(OwnedValue::String(b"5".to_vec()))),
            (OwnedValue::U32(5), ValueType::Aggregate, None),
        ] {
            assert_eq!(number(value.clone()).to_type(value_type), expected, "{value:?}");
        }
    }

    #[test]
    fn integers_are_scaled_exactly_and_rounded() {
        let scale = |from: &str, to: &str, number: i128| {
            let from: Units = from.parse().unwrap();
            let scaling = ScaleChange::new(from, to.parse().unwrap()).unwrap();
            scaling.apply(Number::Integer(number))
        };
        assert_eq!(scale("byte", "Kbyte", 1535), Number::Integer(1));
        assert_eq!(scale("byte", "Kbyte", 1536), Number::Integer(2));
        assert_eq!(scale("hour", "nanosec", 3), Number::Integer(10_800_000_000_000));
        assert_eq!(scale("Kbyte / sec", "Mbyte / min", 1024), Number::Integer(60));
        let largest = i128::from(u64::MAX);
        assert_eq!(scale("sec", "millisec", largest), Number::Integer(largest * 1000));
    }
}
