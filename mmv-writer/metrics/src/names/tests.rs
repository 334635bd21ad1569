use std::collections::HashMap;

use super::*;

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
