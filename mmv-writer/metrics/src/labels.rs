//! The labels of a key.

use std::fmt;

use metrics::{Key, Label};
use mmv_writer::Labels;

/// The labels of a key, sorted: they are the same in whatever order a program states them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct KeyLabels(Vec<Label>);

impl KeyLabels {
    /// Returns the labels of a key; `None` if it has none.
    pub(crate) fn new(key: &Key) -> Option<Self> {
        let mut labels: Vec<Label> = key.labels().cloned().collect();
        labels.sort_unstable();
        if labels.is_empty() { None } else { Some(Self(labels)) }
    }
}

impl Labels for KeyLabels {
    fn visit<'l>(&'l self, visit: &mut dyn FnMut(&'l str, &dyn fmt::Display)) {
        for label in &self.0 {
            visit(label.key(), &label.value());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_the_same_in_any_order() {
        let key = |labels: [(&'static str, &'static str); 2]| {
            let labels = labels.map(|(name, value)| Label::new(name, value));
            KeyLabels::new(&Key::from_parts("requests", labels.to_vec()))
        };
        let sorted = key([("code", "200"), ("path", "/a")]);
        assert_eq!(sorted, key([("path", "/a"), ("code", "200")]));
        assert_ne!(sorted, key([("path", "/a"), ("code", "404")]));
        assert_eq!(KeyLabels::new(&Key::from_name("requests")), None);
    }
}
