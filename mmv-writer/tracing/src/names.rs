//! Names of metrics for names of spans.

use std::fmt::Write;

/// The longest name that a span gives a metric.
const MAX: usize = 200;

/// The metric's name for a span; `None` if it would be too long. Different spans have
/// different names.
pub(crate) fn metric_name(span: &str) -> Option<String> {
    let mut name = String::from("span.");
    let bytes = span.as_bytes();
    let mut illegal = false;
    for (at, byte) in bytes.iter().copied().enumerate() {
        let next = bytes.get(at + 1).copied();
        let is_legal = match byte {
            // Not the start of what would look like an escape.
            b'_' => next != Some(b'x'),
            b'.' => at > 0 && next.is_some_and(|next| next != b'.'),
            _ => byte.is_ascii_alphanumeric(),
        };
        if is_legal == illegal {
            name.push_str(if illegal { "_" } else { "_x" });
            illegal = !is_legal;
        }
        if is_legal {
            name.push(byte.into());
        } else {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
    }
    if illegal {
        name.push('_');
    }
    if bytes.is_empty() {
        name.push_str("_x_");
    }
    (name.len() <= MAX).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_legal_name_stays_and_another_is_escaped() {
        for (span, name) in [
            ("order", "span.order"),
            ("http.request_2", "span.http.request_2"),
            ("2nd", "span.2nd"),
            ("read file", "span.read_x20_file"),
            ("Shop::open", "span.Shop_x3a3a_open"),
            ("_x20_", "span._x5f_x20_"),
            (".a", "span._x2e_a"),
            ("a.", "span.a_x2e_"),
            ("a..b", "span.a_x2e_.b"),
            ("", "span._x_"),
            ("\u{e9}", "span._xc3a9_"),
        ] {
            assert_eq!(metric_name(span).as_deref(), Some(name), "{span}");
        }
        assert_eq!(metric_name(&"x".repeat(196)), None);
    }

    #[test]
    fn no_two_names_become_one_and_all_are_legal() {
        let alphabet = ['a', '_', 'x', '2', '0', '.', ' '];
        let mut names = vec![String::new()];
        let mut all = HashSet::new();
        for _ in 0..5 {
            names =
                names.iter().flat_map(|name| alphabet.map(|one| format!("{name}{one}"))).collect();
            for span in &names {
                let name = metric_name(span).expect("it is short");
                let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                let is_part = |part: &str| !part.is_empty() && part.bytes().all(legal);
                assert!(name.split('.').all(is_part), "{span:?}: {name}");
                assert!(all.insert(name), "{span:?}");
            }
        }
    }
}
