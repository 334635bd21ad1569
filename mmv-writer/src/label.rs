//! Labels as a program states them.

use pcp_types::json;

/// A name and a value, attached to a file, a domain, an instance or a metric.
///
/// ```
/// use mmv_writer::Label;
///
/// let tier = Label::new("tier", 2);
/// let owner = Label::new("owner", "team blue").optional();
/// let limits = Label::json("limits", "{\"soft\":10,\"hard\":null}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Label {
    pub(crate) name: String,
    pub(crate) json_value: String,
    pub(crate) optional: bool,
}

impl Label {
    /// Makes a label with a string, a number or a boolean. The name is a letter, then letters,
    /// digits and `_`; name and value as JSON take at most 243 bytes.
    pub fn new(name: impl Into<String>, value: impl Into<LabelValue>) -> Self {
        Self { name: name.into(), json_value: value.into().0, optional: false }
    }

    /// Makes a label with any JSON value, as text: `null`, arrays and objects too.
    pub fn json(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), json_value: value.into(), optional: false }
    }

    /// Marks the label as one that describes but does not identify.
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Returns `{"name":value}`, unchecked.
    pub(crate) fn text(&self) -> String {
        format!("{{\"{}\":{}}}", self.name, self.json_value)
    }
}

/// A label's value, as JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelValue(String);

impl From<&str> for LabelValue {
    fn from(text: &str) -> Self {
        Self(json::quoted(text))
    }
}

impl From<String> for LabelValue {
    fn from(text: String) -> Self {
        Self(json::quoted(&text))
    }
}

impl From<bool> for LabelValue {
    fn from(value: bool) -> Self {
        Self(value.to_string())
    }
}

impl From<i32> for LabelValue {
    fn from(value: i32) -> Self {
        Self(value.to_string())
    }
}

impl From<i64> for LabelValue {
    fn from(value: i64) -> Self {
        Self(value.to_string())
    }
}

impl From<u64> for LabelValue {
    fn from(value: u64) -> Self {
        Self(value.to_string())
    }
}

/// JSON has no NaN and no infinity: they become `null`.
impl From<f64> for LabelValue {
    fn from(value: f64) -> Self {
        Self(if value.is_finite() { format!("{value:?}") } else { "null".to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_becomes_json() {
        for (label, text) in [
            (Label::new("a", "x\"y"), "{\"a\":\"x\\\"y\"}"),
            (Label::new("a", true), "{\"a\":true}"),
            (Label::new("a", -3), "{\"a\":-3}"),
            (Label::new("a", u64::MAX), "{\"a\":18446744073709551615}"),
            (Label::new("a", 1.0), "{\"a\":1.0}"),
            (Label::new("a", 1e300), "{\"a\":1e300}"),
            (Label::new("a", f64::NAN), "{\"a\":null}"),
            (Label::json("a", "[1,2]"), "{\"a\":[1,2]}"),
        ] {
            assert_eq!(label.text(), text);
            assert!(json::single_pair(text).is_some());
        }
    }
}
