use std::collections::HashMap;

use super::*;

fn key(labels: &[(&'static str, &'static str)]) -> Key {
    let labels: Vec<_> =
        labels.iter().map(|(key, value)| metrics::Label::new(*key, *value)).collect();
    Key::from_parts("name", labels)
}

fn named(labels: &[(&'static str, &'static str)]) -> Option<String> {
    instance(&key(labels))
}

#[test]
fn names_become_legal() {
    for (given, made) in [
        ("http.requests_total", "http.requests_total"),
        ("a b", "a_x20_b"),
        ("a-b", "a_x2d_b"),
        ("a_b", "a_b"),
        ("a::b-c", "a_x3a3a_b_x2d_c"),
        ("2xx", "x32_xx"),
        ("_private", "x5f_private"),
        (".a..b.", "x2e_a._x2e_b_x2e_"),
        ("", "x_"),
        ("caf\u{e9}", "caf_xc3a9_"),
        ("a_x2d_b", "a_x5f_x2d_b"),
        ("zoom_x10", "zoom_x10"),
        ("position_x", "position_x"),
        ("grouped_by", "grouped_x5f_by"),
    ] {
        assert_eq!(metric(given, false), made);
    }
    assert_eq!(metric("http.requests", true), "http.requests_by");
    assert_eq!(metric("zoom_x10", true), "zoom_x5f_x10_by");
    assert_eq!(flat("http.requests", false), "http_x2e_requests");
    assert_eq!(flat("http", true), "http_x2e__by");
}

#[test]
fn long_names_are_cut_and_still_their_own() {
    let name = |end| metric(&format!("y{}{end}", "x.".repeat(150)), false);
    assert_eq!(name("a").len(), LONGEST - 1);
    assert_ne!(name("a"), name("b"));
    assert_ne!(metric(&"x".repeat(LONGEST), false), metric(&"x".repeat(LONGEST + 1), false));
}

/// Decodes the name in the file: the facade's name, and whether it had labels.
fn decoded(name: &str) -> (Vec<u8>, bool) {
    let text = name.as_bytes();
    let mut bytes = Vec::new();
    let mut at = 0;
    let mut is_by = false;
    let escape = |from: usize| {
        let digits = text.get(from + 1..).unwrap_or_default();
        let count =
            digits.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).count();
        let is_one = text.get(from) == Some(&b'x')
            && count >= 2
            && count.is_multiple_of(2)
            && digits.get(count) == Some(&b'_');
        is_one.then_some(count)
    };
    while at < text.len() {
        let from = if at == 0 { 0 } else { at + 1 };
        match escape(from).filter(|_| at == 0 || text[at] == b'_') {
            Some(count) => {
                let digits = &name[from + 1..from + 1 + count];
                bytes.extend(
                    (0..count)
                        .step_by(2)
                        .map(|digit| u8::from_str_radix(&digits[digit..digit + 2], 16).unwrap()),
                );
                at = from + count + 2;
            }
            None if &name[at..] == BY => {
                is_by = true;
                break;
            }
            None => {
                bytes.push(text[at]);
                at += 1;
            }
        }
    }
    (bytes, is_by)
}

#[test]
fn no_two_names_become_one_and_each_is_legal() {
    const PARTS: [&str; 14] =
        ["a", "_", "x", "5f", "2d", ".", "-", " ", "by", "_by", "_x2d_", "\u{e9}", "7", "_x10"];
    let mut made: HashMap<String, (String, bool)> = HashMap::new();
    let mut seed = 1_u64;
    for _ in 0..200_000 {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let count = 1 + (seed >> 8) % 6;
        let name: String = (0..count)
            .map(|part| PARTS[(seed >> (16 + 4 * part)) as usize % PARTS.len()])
            .collect();
        let has_labels = seed.is_multiple_of(2);
        let legal = metric(&name, has_labels);
        assert!(legal.starts_with(|c: char| c.is_ascii_alphabetic()), "{name:?}: {legal}");
        assert!(legal.split('.').all(|part| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        }));
        assert_eq!(decoded(&legal), (name.clone().into_bytes(), has_labels), "{legal}");
        let given = (name, has_labels);
        let first = made.entry(legal).or_insert_with(|| given.clone());
        assert_eq!(*first, given);
    }
}

#[test]
fn labels_are_sorted_and_distinguished() {
    assert_eq!(named(&[]), None);
    assert_eq!(named(&[("path", "/a"), ("code", "200")]).unwrap(), "code=200,path=/a");
    assert_eq!(named(&[("a", "1,b=2")]).unwrap(), r"a=1\,b\=2");
    assert_ne!(named(&[("a", "1,b=2")]), named(&[("a", "1"), ("b", "2")]));
    assert_ne!(named(&[("a", "\0")]), named(&[("a", " ")]));
    assert_ne!(named(&[("a", "\0")]), named(&[("a", "\\0")]));
}

#[test]
fn labels_of_one_instance_have_names_of_their_own() {
    assert_eq!(labels(&key(&[("http.status-code", "1"), ("9", "2")])), ["http_status_code", "m_9"]);
    assert_eq!(
        labels(&key(&[("a-b", "1"), ("a_b", "2"), ("a.b", "3")])),
        ["a_x2d_b", "a_b", "a_x2e_b"]
    );
}

#[test]
fn a_long_instance_is_cut_and_still_its_own_in_any_order() {
    let long = "\u{e9}".repeat(150);
    let name = |end, turned| {
        let mut labels =
            vec![metrics::Label::new("k", long.clone() + end), metrics::Label::new("l", "1")];
        if turned {
            labels.reverse();
        }
        instance(&Key::from_parts("n", labels)).unwrap()
    };
    assert!(name("1", false).len() <= LONGEST && name("1", false).starts_with("k=\u{e9}"));
    assert_ne!(name("1", false), name("2", false));
    assert_eq!(name("1", false), name("1", true));
}
