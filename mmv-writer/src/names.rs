//! Which names PCP takes.

/// Whether `name` can be a metric's name, or the part of it that a file gives:
/// letters, digits, `_` and `.`, starting with a letter, and no component
/// between dots empty.
///
/// pmdammv (`mmv.c`, `create_metric`) looks only at the complete name, so it
/// takes parts that start with a digit behind a prefix; such a name would be
/// lost as soon as the prefix goes.
pub(crate) fn is_metric_name(name: &str) -> bool {
    let starts = name.bytes().next().is_some_and(|first| first.is_ascii_alphabetic());
    // One pass, as programs may register many: a dot is legal behind anything else.
    let mut before = b'.';
    let mut legal = |byte: u8| {
        let is_dot = byte == b'.';
        let legal = byte.is_ascii_alphanumeric() || byte == b'_' || (is_dot && before != b'.');
        before = byte;
        legal
    };
    starts && name.bytes().all(&mut legal) && !name.ends_with('.')
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
    fn label_names_have_no_dots() {
        assert!(is_label_name("zone_2"));
        for bad in ["", "2", "_a", "a.b", "a-b", "\u{e9}"] {
            assert!(!is_label_name(bad), "{bad}");
        }
    }
}
