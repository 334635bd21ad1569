//! The rules for names of metrics and labels, and selectors of names.

mod pattern;

pub use pattern::{is_pattern, matches_pattern, selects};

/// The reason why a text cannot be a metric's name, with the position of the fault in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say it")]
pub enum MetricNameError {
    /// A byte that cannot stand at this position: only letters, digits and `_`
    /// between dots are legal, and the first byte is a letter.
    Byte { byte: u8, position: usize },
    /// Nothing between two dots, before the first or after the last.
    EmptyPart { position: usize },
}

impl MetricNameError {
    /// Returns the position of the fault in the name.
    #[must_use]
    pub const fn position(self) -> usize {
        match self {
            Self::Byte { position, .. } | Self::EmptyPart { position } => position,
        }
    }
}

/// Checks a metric's name (pmns(5)): parts of letters, digits and `_` with
/// single dots between them, the first byte a letter.
///
/// Parts after the first may begin with a digit or `_`, as in PCP's own
/// `mmv.cpu.0`. PCP's limit on the length belongs to the formats.
///
/// # Errors
///
/// The first fault.
pub fn check_metric_name(name: &[u8]) -> Result<(), MetricNameError> {
    let mut previous = b'.';
    for (position, &byte) in name.iter().enumerate() {
        match byte {
            b'.' if previous == b'.' => return Err(MetricNameError::EmptyPart { position }),
            b'.' | b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'_' if position > 0 => {}
            _ => return Err(MetricNameError::Byte { byte, position }),
        }
        previous = byte;
    }
    if previous == b'.' {
        return Err(MetricNameError::EmptyPart { position: name.len() });
    }
    Ok(())
}

/// Returns whether [`check_metric_name`] finds no fault.
#[must_use]
pub fn is_metric_name(name: &str) -> bool {
    check_metric_name(name.as_bytes()).is_ok()
}

/// Returns whether `name` can be a label's name: a letter, then letters, digits and `_`
/// (`src/libpcp/src/labels.c`).
#[must_use]
pub fn is_label_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns the label that is the only one of each of some instances, by their names.
pub fn common_label<'n>(titles: impl Iterator<Item = &'n str>) -> Option<String> {
    let mut common: Option<String> = None;
    for title in titles {
        let (label, _) = only_label(title)?;
        if common.get_or_insert_with(|| label.to_owned()) != label {
            return None;
        }
    }
    common
}

/// Returns the name and value of an instance that is called after one label, as `path=/cart`.
pub fn only_label(title: &str) -> Option<(&str, &str)> {
    let (name, value) = title.split_once('=')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_only = !name.is_empty() && name.chars().all(is_name) && !title.contains(',');
    is_only.then_some((name, value))
}

/// Returns the longest branch of the name space that has all of some names; empty if there is none.
pub fn common_branch<'n>(first: &'n str, others: impl Iterator<Item = &'n str>) -> &'n str {
    let mut branch = first.rsplit_once('.').map_or("", |(branch, _)| branch);
    for name in others {
        let is_in =
            |branch: &str| name.strip_prefix(branch).is_some_and(|rest| rest.starts_with('.'));
        while !branch.is_empty() && !is_in(branch) {
            branch = branch.rsplit_once('.').map_or("", |(branch, _)| branch);
        }
    }
    branch
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn metric_names_are_letters_digits_underscores_and_single_dots() {
        for name in ["a", "a.b", "A.b_2.C", "requests.count_2", "cpu.0", "mmv.2nd._x"] {
            assert!(is_metric_name(name), "{name}");
        }
    }

    #[test]
    fn the_first_fault_of_a_metric_name_is_reported() {
        use MetricNameError::{Byte, EmptyPart};
        for (name, fault) in [
            ("", EmptyPart { position: 0 }),
            (".", EmptyPart { position: 0 }),
            (".a", EmptyPart { position: 0 }),
            ("a.", EmptyPart { position: 2 }),
            ("a..b", EmptyPart { position: 2 }),
            ("1a", Byte { byte: b'1', position: 0 }),
            ("_a", Byte { byte: b'_', position: 0 }),
            ("a b", Byte { byte: b' ', position: 1 }),
            ("a-b", Byte { byte: b'-', position: 1 }),
            ("a/b", Byte { byte: b'/', position: 1 }),
            ("a\0", Byte { byte: 0, position: 1 }),
            ("a.\u{e9}", Byte { byte: 0xc3, position: 2 }),
        ] {
            assert_eq!(check_metric_name(name.as_bytes()), Err(fault), "{name:?}");
        }
    }

    #[test]
    fn label_names_have_no_dots() {
        assert!(is_label_name("zone_2"));
        for name in ["", "2", "_a", "a.b", "a-b", "\u{e9}"] {
            assert!(!is_label_name(name), "{name}");
        }
    }

    proptest! {
        /// forall names near the rule: legal if and only if each part is, and the first
        /// byte is a letter
        #[test]
        fn the_check_agrees_with_the_rule_part_by_part(name in "[a-cA1_. -]{0,8}") {
            let parts = name.split('.').all(|part| {
                !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            });
            let first = name.starts_with(|c: char| c.is_ascii_alphabetic());
            prop_assert_eq!(is_metric_name(&name), parts && first);
        }
    }
}
