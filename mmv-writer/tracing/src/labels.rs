//! The labels of a span: the values of its fields that the program chose.

use std::fmt::{self, Debug, Write as _};

use mmv_writer::Labels;
use tracing_core::Metadata;
use tracing_core::field::{Field, Visit};

/// The names and values of those fields of a span that are labels, in the order in which the
/// program named them. The value of a field that was not recorded yet is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct SpanLabels(Vec<(&'static str, String)>);

impl SpanLabels {
    /// Returns the chosen fields that a span has, without values.
    pub(crate) fn new(span: &'static Metadata<'static>, chosen: &[&'static str]) -> Self {
        let mut labels = Vec::new();
        for name in chosen {
            if span.fields().field(name).is_some() {
                labels.push((*name, String::new()));
            }
        }
        Self(labels)
    }

    /// Returns all chosen fields, without values.
    pub(crate) fn empty(chosen: &[&'static str]) -> Self {
        Self(chosen.iter().map(|name| (*name, String::new())).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn value_mut(&mut self, field: &Field) -> Option<&mut String> {
        let label = self.0.iter_mut().find(|(name, _)| *name == field.name());
        label.map(|(_, value)| value)
    }
}

impl Labels for SpanLabels {
    fn visit<'l>(&'l self, visit: &mut dyn FnMut(&'l str, &dyn fmt::Display)) {
        for (name, value) in &self.0 {
            visit(name, value);
        }
    }
}

/// Takes the values that a program records. Numbers and booleans are printed by
/// [`Visit::record_debug`], as are those that the program records with `%` and `?`.
impl Visit for SpanLabels {
    fn record_str(&mut self, field: &Field, text: &str) {
        if let Some(value) = self.value_mut(field) {
            text.clone_into(value);
        }
    }

    fn record_debug(&mut self, field: &Field, printed: &dyn Debug) {
        if let Some(value) = self.value_mut(field) {
            value.clear();
            // Only a `Debug` of the program can fail: then the label is what it wrote.
            let _ = write!(value, "{printed:?}");
        }
    }
}
