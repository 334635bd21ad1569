//! Names of metrics for names of spans.

/// Limit on the bytes of a metric's name that comes from a span's.
const MAX: usize = 200;

/// Returns the metric's name for a span; `None` if it would be too long. Each run of characters
/// that a metric name cannot have becomes one `_`, so that spans whose names differ in these
/// alone are one metric.
pub(crate) fn metric_name(span: &str) -> Option<String> {
    let mut name = String::from("span.");
    let mut is_replacing = false;
    let mut is_part_empty = true;
    for byte in span.bytes() {
        let is_dot = byte == b'.' && !is_part_empty;
        if byte.is_ascii_alphanumeric() || byte == b'_' || is_dot {
            name.push(byte.into());
            is_replacing = false;
            is_part_empty = is_dot;
        } else if !is_replacing {
            name.push('_');
            is_replacing = true;
            is_part_empty = false;
        }
    }
    if is_part_empty {
        // An empty name, or a dot at the end.
        name.push('_');
    }
    (name.len() <= MAX).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legal_name_stays_and_other_characters_become_underscores() {
        for (span, name) in [
            ("order", "span.order"),
            ("http.request_2", "span.http.request_2"),
            ("2nd", "span.2nd"),
            ("request cart", "span.request_cart"),
            ("Shop::open", "span.Shop_open"),
            (".a", "span._a"),
            ("a.", "span.a._"),
            ("a..b", "span.a._b"),
            ("", "span._"),
            ("\u{e9}", "span._"),
        ] {
            assert_eq!(metric_name(span).as_deref(), Some(name), "{span}");
        }
        assert_eq!(metric_name(&"x".repeat(196)), None);
    }

    #[test]
    fn all_names_are_legal() {
        let alphabet = ['a', '_', 'x', '2', '.', ' '];
        let mut names = vec![String::new()];
        for _ in 0..5 {
            names =
                names.iter().flat_map(|name| alphabet.map(|one| format!("{name}{one}"))).collect();
            for span in &names {
                let name = metric_name(span).expect("it is short");
                for part in name.split('.') {
                    let mut bytes = part.bytes();
                    let is_legal = bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                    assert!(is_legal && !part.is_empty(), "{span:?}: {name}");
                }
            }
        }
    }
}
