//! The facade's names and labels as names of metrics and instances.

use metrics::Key;

/// The longest name, which leaves room for what is appended to it.
const LONGEST: usize = 200;

/// A metric's name: letters, digits, `_` and single dots; it starts with a letter.
pub(crate) fn metric(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
    let name: String = name.chars().map(legal).collect();
    let parts: Vec<&str> = name.split('.').filter(|part| !part.is_empty()).collect();
    let mut name = parts.join(".");
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name.insert_str(0, "m_");
    }
    name.truncate(LONGEST);
    if name.ends_with('.') {
        name.pop();
    }
    name
}

/// The instance of a metric's labels, `key=value` by `key=value`, sorted, with
/// commas between them; `None` without labels. A comma, an equals sign or a
/// backslash in a label has a backslash before it, so that no two sets of labels
/// have the same name; of a long one the end is replaced by a checksum.
pub(crate) fn instance(key: &Key) -> Option<String> {
    let pair = |label: &metrics::Label| format!("{}={}", plain(label.key()), plain(label.value()));
    let mut pairs: Vec<String> = key.labels().map(pair).collect();
    if pairs.is_empty() {
        return None;
    }
    pairs.sort_unstable();
    let mut name = pairs.join(",");
    if name.len() > LONGEST {
        let checksum = format!("~{:016x}", key.get_hash());
        name = cut(&name, LONGEST - checksum.len()).to_owned() + &checksum;
    }
    Some(name)
}

/// A label's name: a letter, then letters, digits and `_`.
pub(crate) fn label(key: &str) -> String {
    metric(key).replace('.', "_")
}

/// As much of a text as a help text may have, and without NUL.
pub(crate) fn help(text: &str) -> String {
    cut(&text.replace('\0', " "), 255).to_owned()
}

fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, ',' | '=' | '\\') {
            plain.push('\\');
        }
        plain.push(if c == '\0' { ' ' } else { c });
    }
    plain
}

/// The start of a text, at most `most` bytes, cut between characters.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(labels: &[(&'static str, &'static str)]) -> Option<String> {
        let labels: Vec<_> =
            labels.iter().map(|(key, value)| metrics::Label::new(*key, *value)).collect();
        instance(&Key::from_parts("name", labels))
    }

    #[test]
    fn names_become_legal() {
        for (given, made) in [
            ("http.requests_total", "http.requests_total"),
            ("a::b-c", "a__b_c"),
            ("2xx", "m_2xx"),
            (".a..b.", "a.b"),
            ("", "m_"),
            ("caf\u{e9}", "caf_"),
        ] {
            assert_eq!(metric(given), made);
        }
        assert_eq!(metric(&"x".repeat(300)).len(), LONGEST);
        assert_eq!(label("http.status-code"), "http_status_code");
    }

    #[test]
    fn labels_are_sorted_and_distinguished() {
        assert_eq!(named(&[]), None);
        assert_eq!(named(&[("path", "/a"), ("code", "200")]).unwrap(), "code=200,path=/a");
        assert_eq!(named(&[("a", "1,b=2")]).unwrap(), r"a=1\,b\=2");
        assert_ne!(named(&[("a", "1,b=2")]), named(&[("a", "1"), ("b", "2")]));
    }

    #[test]
    fn a_long_instance_is_cut_and_still_its_own() {
        let name = |end| {
            let value = "\u{e9}".repeat(150) + end;
            instance(&Key::from_parts("n", vec![metrics::Label::new("k", value)])).unwrap()
        };
        assert!(name("1").len() <= LONGEST && name("1").starts_with("k=\u{e9}"));
        assert_ne!(name("1"), name("2"));
    }
}
