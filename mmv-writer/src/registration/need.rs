//! The number of entries of each section that a registration adds to a file.

use mmv_format::layout::SectionKind;
use pcp_types::ValueType;

use super::record::{IndomRecord, MetricSpec};

/// Numbers of entries that a registration needs, or upper bounds of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Need {
    pub(crate) metrics: usize,
    pub(crate) indoms: usize,
    pub(crate) instances: usize,
    pub(crate) values: usize,
    pub(crate) strings: usize,
    pub(crate) labels: usize,
    /// True for a metric that gets values later.
    pub(crate) family: bool,
    /// The values that such a metric must be able to get, whatever else the file gets.
    pub(crate) promise: Promise,
}

/// Numbers of entries that a file keeps for instances that a metric may get later.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Promise {
    instances: usize,
    values: usize,
    strings: usize,
}

impl Promise {
    /// Returns the room for this many instances with a value each.
    pub(crate) fn of_instances(shape: ValueShape, count: usize) -> Self {
        let of_value = Need::of_values(shape, 1);
        // A name, and perhaps a text.
        let strings = 2 + of_value.strings;
        Self { instances: count, values: count * of_value.values, strings: count * strings }
    }

    /// Returns the sum of two promises.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            instances: self.instances + other.instances,
            values: self.values + other.values,
            strings: self.strings + other.strings,
        }
    }

    /// Returns what is left of a promise when this part of it is kept.
    pub(crate) fn without(self, kept: Self) -> Self {
        Self {
            instances: self.instances.saturating_sub(kept.instances),
            values: self.values.saturating_sub(kept.values),
            strings: self.strings.saturating_sub(kept.strings),
        }
    }

    /// Returns the number of entries of a section.
    pub(crate) fn entries(self, kind: SectionKind) -> usize {
        match kind {
            SectionKind::Indoms | SectionKind::Instances => self.instances,
            SectionKind::Values => self.values,
            SectionKind::Strings => self.strings,
            SectionKind::Metrics | SectionKind::Labels => 0,
        }
    }
}

impl Need {
    pub(crate) fn of_indom(instances: usize, labels: usize) -> Self {
        // Two help texts; a name for each instance, and perhaps a text.
        let strings = 2 + 2 * instances;
        Self { indoms: 1, instances, strings, labels, ..Self::default() }
    }

    pub(crate) fn of_metric(spec: &MetricSpec, values: usize) -> Self {
        let shape = ValueShape::new(spec);
        let of_values = Self::of_values(shape, values);
        // Name and two help texts.
        let strings = 3 + of_values.strings;
        Self { metrics: 1, labels: spec.labels.len(), strings, ..of_values }
    }

    pub(crate) fn of_values(shape: ValueShape, count: usize) -> Self {
        // An isolated value takes a cache line; the first may also fill up the one before.
        let values = if shape.isolated && count > 0 { 2 * count + 1 } else { count };
        Self { values, strings: if shape.is_text { count } else { 0 }, ..Self::default() }
    }

    /// Returns the sum of two needs.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            metrics: self.metrics + other.metrics,
            indoms: self.indoms + other.indoms,
            instances: self.instances + other.instances,
            values: self.values + other.values,
            strings: self.strings + other.strings,
            labels: self.labels + other.labels,
            family: self.family || other.family,
            promise: self.promise.plus(other.promise),
        }
    }

    pub(crate) fn entries(&self, kind: SectionKind) -> usize {
        match kind {
            // A live file has an entry for each instance as well.
            SectionKind::Indoms => self.indoms + self.instances,
            SectionKind::Instances => self.instances,
            SectionKind::Metrics => self.metrics,
            SectionKind::Values => self.values,
            SectionKind::Strings => self.strings,
            SectionKind::Labels => self.labels,
        }
    }

    /// Returns the number of entries of a section once the promise is kept.
    pub(crate) fn entries_with_promise(&self, kind: SectionKind) -> usize {
        self.entries(kind) + self.promise.entries(kind)
    }
}

impl IndomRecord {
    /// Returns the need of a file that does not have the domain yet.
    pub(super) fn need(&self) -> Need {
        Need::of_indom(self.members.len(), self.labels.len() + self.instance_labels.len())
    }
}

/// The properties of a metric's values that decide how a file stores them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValueShape {
    pub(crate) is_text: bool,
    /// True if a value may be absent, as it is at first.
    pub(crate) optional: bool,
    /// True if each value has a cache line of its own.
    pub(crate) isolated: bool,
}

/// Number of value entries in a cache line.
const VALUES_PER_LINE: usize = 2;

impl ValueShape {
    pub(crate) fn new(spec: &MetricSpec) -> Self {
        Self {
            is_text: spec.type_code == ValueType::String.code(),
            optional: spec.optional,
            isolated: spec.isolated,
        }
    }

    /// Returns the distance between two values, in entries.
    pub(crate) fn step(self) -> usize {
        if self.isolated { VALUES_PER_LINE } else { 1 }
    }
}
