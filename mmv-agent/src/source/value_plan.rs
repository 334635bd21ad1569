//! The location and type of each value of a file.
//!
//! Input: the private copy of the file's metadata. Output: the plan of a pass (see
//! [`values`](super::values)).
//!
//! Invariant: after the plan was made, nothing in the mapping is used as an offset, a
//! count or a length.
//!
//! Values are sorted by how they are encoded, so that each class is one range
//! of indexes:
//!
//! | range | types | in the record |
//! |---|---|---|
//! | [`ValuePlan::narrow`] | 32, U32, FLOAT | 4 bytes |
//! | [`ValuePlan::wide`] | 64, U64, DOUBLE, elapsed | 8 bytes |
//! | [`ValuePlan::texts`] | STRING | bytes and a NUL |

#![allow(clippy::host_endian_bytes, reason = "MMV values have the byte order of their host")]

use std::ops::Range;

use mmv_format::growth::CellOwners;
use mmv_format::mapping::CellPlan;
use mmv_format::view::{Contents, MetricKind, ValueLocation};
use pcp_types::{InstanceId, ValueType};

/// The metric and instance of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Index of the metric in the file's metadata.
    pub metric: usize,
    /// `None` for a singular metric.
    pub instance: Option<InstanceId>,
}

/// Encodings of values, in the order of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Integer32,
    Float,
    Integer64,
    Double,
    Elapsed,
    Text,
}

/// The location of an interval timer's value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ElapsedOffsets {
    /// Offset of the accumulated microseconds.
    pub cell: usize,
    /// Offset of the word that is negative while the interval is open.
    pub extra: usize,
}

#[derive(Debug, Default)]
pub(crate) struct ValuePlan {
    pub(crate) cells: CellPlan,
    pub(crate) elapsed: Vec<ElapsedOffsets>,
    pub(crate) strings: Vec<usize>,
    /// Metric and instance of each value, by index.
    pub(crate) keys: Vec<Key>,
    /// Metric and instance of each value in the file, if the file grows.
    pub(crate) owners: Option<CellOwners>,
    ends: [usize; 6],
}

impl ValuePlan {
    /// Resolves the plan for a mapping of `len` bytes; `None` if a value lies outside of it, since
    /// the file was changed after its metadata was read.
    pub(crate) fn resolve(contents: &Contents, len: usize) -> Option<Self> {
        let mut entries: Vec<(Class, Key, &ValueLocation)> = contents
            .values
            .iter()
            .filter_map(|entry| {
                let metric = contents.metrics.get(entry.metric)?;
                let key = Key { metric: entry.metric, instance: entry.instance };
                Some((class(metric.kind)?, key, entry))
            })
            .collect();
        entries.sort_by_key(|(class, ..)| *class);

        let mut plan = Self::default();
        for class in [
            Class::Integer32,
            Class::Float,
            Class::Integer64,
            Class::Double,
            Class::Elapsed,
            Class::Text,
        ] {
            plan.ends[class as usize] = entries.partition_point(|entry| entry.0 <= class);
        }
        plan.keys = entries.iter().map(|(_, key, _)| *key).collect();
        plan.owners = match contents.growing {
            Some(_) => CellOwners::new(entries.iter().map(|(.., entry)| entry.owner())),
            None => None,
        };
        let cells = entries.iter().take(plan.ends[Class::Double as usize]);
        plan.cells = CellPlan::new(cells.map(|(.., entry)| entry.cell), len)?;
        for (class, _, entry) in &entries {
            match class {
                Class::Elapsed => plan.elapsed.push(ElapsedOffsets {
                    cell: inside(entry.cell, 8, len)?,
                    extra: inside(entry.extra, 8, len)?,
                }),
                Class::Text => plan.strings.push(inside(entry.string?, TEXT_BYTES, len)?),
                _ => {}
            }
        }
        Some(plan)
    }

    /// Returns the number of values, present or not.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the indexes of the values of four bytes.
    pub(crate) fn narrow(&self) -> Range<usize> {
        0..self.ends[Class::Float as usize]
    }

    /// Returns the indexes of the values of eight bytes.
    pub(crate) fn wide(&self) -> Range<usize> {
        self.narrow().end..self.ends[Class::Elapsed as usize]
    }

    pub(crate) fn texts(&self) -> Range<usize> {
        self.wide().end..self.len()
    }

    pub(crate) fn elapsed_values(&self) -> Range<usize> {
        self.ends[Class::Double as usize]..self.ends[Class::Elapsed as usize]
    }

    /// Returns true if the cell of value `index` means "no value" (the SENTINEL flag): all eight
    /// bytes ones in an integer or timer, any NaN in a float.
    pub(crate) fn is_sentinel(&self, index: usize, word: u64) -> bool {
        let class = self.ends.partition_point(|end| *end <= index);
        if class == Class::Float as usize {
            f32::from_bits(low_half(word)).is_nan()
        } else if class == Class::Double as usize {
            f64::from_bits(word).is_nan()
        } else {
            word == u64::MAX
        }
    }
}

/// Bytes of an entry in a file's strings section.
pub(crate) const TEXT_BYTES: usize = 256;

/// Returns the first four bytes of a cell, where 32-bit values are kept in either byte order.
pub(crate) fn low_half(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

fn class(kind: MetricKind) -> Option<Class> {
    match kind {
        MetricKind::Elapsed => Some(Class::Elapsed),
        MetricKind::String => Some(Class::Text),
        MetricKind::Numeric(ValueType::I32 | ValueType::U32) => Some(Class::Integer32),
        MetricKind::Numeric(ValueType::Float) => Some(Class::Float),
        MetricKind::Numeric(ValueType::I64 | ValueType::U64) => Some(Class::Integer64),
        MetricKind::Numeric(ValueType::Double) => Some(Class::Double),
        MetricKind::Numeric(_) => None,
    }
}

fn inside(offset: u64, bytes: usize, len: usize) -> Option<usize> {
    let at = usize::try_from(offset).ok()?;
    let end = at.checked_add(bytes)?;
    (end <= len).then_some(at)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use mmv_writer::{Counter, Gauge, Registry, Text};

    use super::*;

    /// A file with a metric of each class, not in the order of the classes.
    fn contents() -> (Contents, usize) {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::builder("f").sealed().directory(dir.path()).build().unwrap();
        let _text: Text = registry.text("text").build().unwrap();
        let _double: Gauge<f64> = registry.gauge("double").build().unwrap();
        let _wide: Counter<u64> = registry.counter("u64").build().unwrap();
        let _float: Gauge<f32> = registry.metric("float").build().unwrap();
        let _narrow: Gauge<i32> = registry.metric("i32").build().unwrap();
        registry.publish().unwrap();
        let bytes = fs::read(registry.path()).unwrap();
        (Contents::parse(&bytes).unwrap(), bytes.len())
    }

    #[test]
    fn values_are_sorted_by_how_they_are_encoded() {
        let (contents, len) = contents();
        let plan = ValuePlan::resolve(&contents, len).unwrap();
        let names: Vec<&str> =
            plan.keys.iter().map(|key| contents.metrics[key.metric].name.as_str()).collect();
        assert_eq!(names, ["i32", "float", "u64", "double", "text"]);
        assert_eq!((plan.narrow(), plan.wide(), plan.texts()), (0..2, 2..4, 4..5));
        assert_eq!((plan.len(), plan.cells.len(), plan.strings.len()), (5, 4, 1));
    }

    #[test]
    fn there_is_no_plan_for_a_mapping_that_ends_before_a_value() {
        let (mut contents, len) = contents();
        assert!(ValuePlan::resolve(&contents, len).is_some());
        for entry in &mut contents.values {
            entry.cell = len as u64 - 4;
        }
        assert!(ValuePlan::resolve(&contents, len).is_none());
    }

    #[test]
    fn a_cell_encodes_no_value_by_its_type() {
        let (contents, len) = contents();
        let plan = ValuePlan::resolve(&contents, len).unwrap();
        let narrow = 0;
        let float = 1;
        let wide = 2;
        let double = 3;
        assert!(plan.is_sentinel(narrow, u64::MAX));
        assert!(!plan.is_sentinel(narrow, u64::from(u32::MAX)));
        assert!(plan.is_sentinel(float, u64::from(f32::NAN.to_bits())));
        assert!(!plan.is_sentinel(float, u64::from(1f32.to_bits())));
        assert!(plan.is_sentinel(wide, u64::MAX));
        assert!(!plan.is_sentinel(wide, f64::NAN.to_bits()));
        assert!(plan.is_sentinel(double, f64::NAN.to_bits()));
    }
}
