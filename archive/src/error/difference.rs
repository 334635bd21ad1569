//! Differences of descriptors.

use std::fmt;

/// A field in which a descriptor differs from the expected one. Prints as
/// `semantics from counter to instant`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DescDifference {
    /// "type", "semantics", "instance domain" or "units".
    pub field: &'static str,
    /// The field of the descriptor that was found, as text.
    pub found: String,
    /// The field of the expected descriptor, as text.
    pub expected: String,
}

impl DescDifference {
    pub(crate) fn new(
        field: &'static str,
        found: impl fmt::Display,
        expected: impl fmt::Display,
    ) -> Self {
        Self { field, found: found.to_string(), expected: expected.to_string() }
    }
}

impl fmt::Display for DescDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, found, expected } = self;
        write!(f, "{field} from {expected} to {found}")
    }
}
