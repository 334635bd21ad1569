//! Which names PCP takes.

/// Whether a program may give a metric this name: as [`is_metric_name_part`]
/// says, and starting with a letter, so that it can also stand without a prefix
/// in every tool.
pub(crate) fn is_metric_name(name: &str) -> bool {
    let starts = name.bytes().next().is_some_and(|first| first.is_ascii_alphabetic());
    starts && is_metric_name_part(name)
}

/// Whether `name` can be the part of a metric's name that a file gives: letters,
/// digits, `_` and `.`, no component between dots empty.
///
/// pmdammv (`mmv.c`, `create_metric`) looks only at the complete name, which
/// always starts with `mmv.`.
pub(crate) fn is_metric_name_part(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.split('.').all(|part| !part.is_empty() && part.bytes().all(legal))
}

/// Whether `name` can be a label's name: a letter, then letters, digits, `_`.
pub(crate) fn is_label_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_names_are_letters_digits_underscores_and_single_dots() {
        for good in ["a", "a.b", "requests.count_2", "cpu.0"] {
            assert!(is_metric_name(good), "{good}");
        }
        for bad in ["", ".", "1a", "_a", "a.", ".a", "a..b", "a b", "a-b", "caf\u{e9}", "a/b"] {
            assert!(!is_metric_name(bad), "{bad}");
        }
    }

    #[test]
    fn behind_a_prefix_a_name_may_start_with_a_digit_or_an_underscore() {
        for good in ["a", "1a", "_a", "9.x", "2"] {
            assert!(is_metric_name_part(good), "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a..b", "a b", "a-b", "caf\u{e9}"] {
            assert!(!is_metric_name_part(bad), "{bad}");
        }
    }

    #[test]
    fn label_names_have_no_dots() {
        assert!(is_label_name("zone_2"));
        for bad in ["", "2", "_a", "a.b", "a-b", "\u{e9}"] {
            assert!(!is_label_name(bad), "{bad}");
        }
    }
}
