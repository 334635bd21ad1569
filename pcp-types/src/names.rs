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

/// Returns the names of the labels after which all of some instances are called, such as
/// `path, code` of `path=/cart,code=200` and `path=/,code=503`; `None` if they differ.
pub fn common_labels<'n>(titles: impl Iterator<Item = &'n str>) -> Option<String> {
    let mut common: Option<Vec<&str>> = None;
    for title in titles {
        let names: Vec<&str> = labels(title)?.into_iter().map(|(name, _)| name).collect();
        if common.get_or_insert_with(|| names.clone()) != &names {
            return None;
        }
    }
    common.map(|names| names.join(", "))
}

/// Returns the values alone of an instance that is called after labels: `/cart,200` of
/// `path=/cart,code=200`.
#[must_use]
pub fn label_values(title: &str) -> Option<String> {
    let values: Vec<&str> = labels(title)?.into_iter().map(|(_, value)| value).collect();
    Some(values.join(","))
}

/// Returns the names and values of the labels after which an instance is called.
fn labels(title: &str) -> Option<Vec<(&str, &str)>> {
    let mut labels = Vec::new();
    for pair in title.split(',') {
        let (name, value) = pair.split_once('=')?;
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() || value.is_empty() || !is_name {
            return None;
        }
        labels.push((name, value));
    }
    Some(labels)
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
    fn instances_with_the_same_labels_are_called_after_their_values() {
        let common = |titles: &[&str]| common_labels(titles.iter().copied());
        let names = common(&["path=/a,code=200", "path=/b=1,code=503"]);
        assert_eq!(names.as_deref(), Some("path, code"));
        assert_eq!(common(&["path=/a"]).as_deref(), Some("path"));
        assert_eq!(label_values("path=/b=1,code=503").as_deref(), Some("/b=1,503"));
        assert_eq!(common(&["path=/a", "path=/b,code=200"]), None);
        assert_eq!(common(&["code=200,path=/a", "path=/b,code=200"]), None);
        for title in ["sda", "path=/a,b", "path=", "a.b=c", "=c", ""] {
            assert_eq!((common(&["path=/a", title]), label_values(title)), (None, None), "{title}");
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
