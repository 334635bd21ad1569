//! Text of unknown origin for people: terminals, logs, tables, images.
//!
//! In: names, texts and values of files that anybody may have written, in any encoding.
//! Out: text in which nothing moves the cursor, begins a line or changes the order of
//! other text. What is not printed as itself is printed as its bytes, each as `\xHH`, so
//! that texts that differ look different and a name can be typed as it was printed. A pipe
//! gets what a terminal gets, since most of it is shown on a terminal later.
//!
//! `char::escape_debug` does not do: it doubles backslashes, and escapes quotes and
//! combining characters, which names in many languages have.
//!
//! | text | function |
//! |---|---|
//! | a name or a value | [`line()`], [`bytes`] |
//! | a file's name | [`path`] |
//! | output of many lines, as a last check | [`lines`] |
//! | JSON | [`json`] |

use std::borrow::Cow;
use std::path::Path;

/// Returns true if a character is printed as itself.
///
/// These are not: control characters (C0, DEL, C1), line and paragraph separators
/// (U+2028, U+2029), marks, embeddings, overrides and isolates of the bidirectional
/// algorithm (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+206F; Unicode
/// Standard Annex 9), and U+FFFE and U+FFFF, which XML forbids.
pub const fn is_printable(character: char) -> bool {
    !matches!(
        character,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{206f}'
            | '\u{fffe}'
            | '\u{ffff}'
    )
}

/// Returns a text in one line: every character that is not [printable](is_printable) as its bytes
/// in UTF-8, each as `\xHH`.
///
/// ```
/// use pcp_types::printable;
///
/// assert_eq!(printable::line("two\nlines \u{1b}[2J"), r"two\x0alines \x1b[2J");
/// assert_eq!(printable::line("\u{202e}gnp.exe"), r"\xe2\x80\xaegnp.exe");
/// assert_eq!(printable::line("Gr\u{fc}n"), "Gr\u{fc}n");
/// ```
pub fn line(text: &str) -> Cow<'_, str> {
    replace(text, |_, _| false, push_bytes)
}

/// Escapes bytes for one line: UTF-8 as [`line()`] does, every other byte as `\xHH`, and a
/// backslash that would read as such a byte as `\x5c`.
///
/// ```
/// use pcp_types::printable;
///
/// assert_eq!(printable::bytes(b"caf\xe9"), r"caf\xe9");
/// assert_eq!(printable::bytes(br"C:\xe9"), r"C:\x5cxe9");
/// ```
pub fn bytes(bytes: &[u8]) -> Cow<'_, str> {
    match escape(bytes) {
        Cow::Borrowed(text) => line(text),
        Cow::Owned(text) => Cow::Owned(line(&text).into_owned()),
    }
}

/// Returns the name of a file in one line, as [`bytes`].
pub fn path(path: &Path) -> Cow<'_, str> {
    bytes(path.as_os_str().as_encoded_bytes())
}

/// Lines of text: as [`line()`] and [`bytes`], but line feeds, also after a carriage return,
/// and tabs stay.
///
/// ```
/// use pcp_types::printable;
///
/// assert_eq!(&*printable::lines(b"a\tb\r\n\x1b[2J\x9b\n"), b"a\tb\r\n\\x1b[2J\\x9b\n");
/// ```
pub fn lines(text: &[u8]) -> Cow<'_, [u8]> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let stays = |character, rest: &str| {
        matches!(character, '\n' | '\t') || (character == '\r' && rest.starts_with("\r\n"))
    };
    if let Ok(valid) = std::str::from_utf8(text) {
        return match replace(valid, stays, push_bytes) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(replaced) => Cow::Owned(replaced.into_bytes()),
        };
    }
    let mut replaced = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        replaced.push_str(&replace(chunk.valid(), stays, push_bytes));
        chunk.invalid().iter().for_each(|byte| push_byte(&mut replaced, *byte));
    }
    Cow::Owned(replaced.into_bytes())
}

/// Returns true if text is lines of ASCII without anything that [`lines`] replaces.
fn is_plain(text: &[u8]) -> bool {
    // Without an early return these are a few instructions for many bytes.
    let all = text
        .iter()
        .fold(true, |all, byte| all & matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~'));
    all && text.split(|byte| *byte == b'\r').skip(1).all(|rest| rest.starts_with(b"\n"))
}

/// Escapes characters in JSON that are not [printable](is_printable) as `\uHHHH`: a parser reads
/// the same strings. Line feeds stay, which are between the values.
///
/// ```
/// use pcp_types::printable;
///
/// assert_eq!(printable::json("[\"\u{9b}\u{202e}\"]\n"), "[\"\\u009b\\u202e\"]\n");
/// ```
pub fn json(text: &str) -> Cow<'_, str> {
    replace(text, |character, _| character == '\n', push_json_escape)
}

fn push_json_escape(out: &mut String, character: char) {
    let code = u32::from(character);
    out.push_str("\\u");
    for shift in [12, 8, 4, 0] {
        out.push(digit_of((code >> shift) as u8 & 15));
    }
}

/// Returns the text for some bytes, without loss: UTF-8 is itself, every other byte is `\xHH`,
/// and a backslash that would read as such a byte is `\x5c`. Control characters stay.
pub fn escape(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.contains(&b'\\') || next_escape(bytes).is_none() => Cow::Borrowed(text),
        _ => Cow::Owned(escaped(bytes)),
    }
}

/// Returns the bytes of a text, in which each `\xHH` is one.
pub fn unescape(text: &str) -> Cow<'_, [u8]> {
    let mut rest = text.as_bytes();
    let mut bytes = Vec::new();
    while let Some((at, byte)) = next_escape(rest) {
        bytes.extend_from_slice(rest.get(..at).unwrap_or_default());
        bytes.push(byte);
        rest = rest.get(at + ESCAPE_LEN..).unwrap_or_default();
    }
    if bytes.is_empty() {
        return Cow::Borrowed(rest);
    }
    bytes.extend_from_slice(rest);
    Cow::Owned(bytes)
}

/// Replaces what is not printable and does not stay. `stays` gets the text from the
/// character on as well.
fn replace(
    text: &str,
    stays: impl Fn(char, &str) -> bool,
    push: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    let is_replaced = |at: usize, character: char| {
        !is_printable(character) && !stays(character, text.get(at..).unwrap_or_default())
    };
    let Some((first, _)) = text.char_indices().find(|(at, c)| is_replaced(*at, *c)) else {
        return Cow::Borrowed(text);
    };
    let mut out = String::with_capacity(text.len() + 4 * ESCAPE_LEN);
    out.push_str(text.get(..first).unwrap_or_default());
    for (at, character) in text.char_indices().skip_while(|(at, _)| *at < first) {
        if is_replaced(at, character) {
            push(&mut out, character);
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

/// Length of `\xHH`, in bytes.
const ESCAPE_LEN: usize = 4;

/// Returns the first `\xHH`: where it begins, and its byte.
fn next_escape(bytes: &[u8]) -> Option<(usize, u8)> {
    bytes.windows(ESCAPE_LEN).enumerate().find_map(|(at, window)| match *window {
        [b'\\', b'x', high, low] => Some((at, digit(high)? << 4 | digit(low)?)),
        _ => None,
    })
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + ESCAPE_LEN);
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some((at, _)) = next_escape(rest.as_bytes()) {
            text.push_str(rest.get(..at).unwrap_or_default());
            push_byte(&mut text, b'\\');
            rest = rest.get(at + 1..).unwrap_or_default();
        }
        text.push_str(rest);
        chunk.invalid().iter().for_each(|byte| push_byte(&mut text, *byte));
    }
    text
}

fn push_bytes(text: &mut String, character: char) {
    let mut utf8 = [0; 4];
    character.encode_utf8(&mut utf8).bytes().for_each(|byte| push_byte(text, byte));
}

fn push_byte(text: &mut String, byte: u8) {
    text.extend(['\\', 'x', digit_of(byte >> 4), digit_of(byte & 15)]);
}

fn digit_of(four_bits: u8) -> char {
    char::from_digit(u32::from(four_bits), 16).unwrap_or('0')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn controls_separators_and_bidirectional_marks_are_their_bytes() {
        let hidden = ('\0'..='\u{1f}')
            .chain('\u{7f}'..='\u{9f}')
            .chain("\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}".chars())
            .chain('\u{202a}'..='\u{202e}')
            .chain('\u{2066}'..='\u{2069}');
        for character in hidden {
            let text = format!("a{character}b");
            let shown = line(&text);
            assert!(shown.starts_with("a\\x") && shown.is_ascii(), "{character:?}: {shown}");
            assert_eq!(*unescape(&shown), *text.as_bytes());
        }
        for text in ["", "sda", "Gr\u{fc}n \u{1f600} \u{5e9}\u{5dc}\u{5d5}\u{5dd} \u{200d}"] {
            assert!(matches!(line(text), Cow::Borrowed(same) if same == text));
            assert!(matches!(lines(text.as_bytes()), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn plain_lines_are_not_copied() {
        for text in ["", "a,b\n", "a,b\r\nc\td\r\n", "\r\n\r\n"] {
            assert!(matches!(lines(text.as_bytes()), Cow::Borrowed(_)), "{text:?}");
        }
    }

    #[test]
    fn lines_keep_their_ends_and_tabs_only() {
        for (text, expected) in [
            (b"a\r\nb\rc\n".as_slice(), "a\r\nb\\x0dc\n"),
            (b"\xc2\x9b0m\t\x9b0m", "\\xc2\\x9b0m\t\\x9b0m"),
            ("\u{2028}x".as_bytes(), r"\xe2\x80\xa8x"),
            (b"\x00\x7f", r"\x00\x7f"),
            (b"a\r\n\r", "a\r\n\\x0d"),
            (b"\r\r\n", "\\x0d\r\n"),
        ] {
            assert_eq!(String::from_utf8(lines(text).into_owned()).unwrap(), expected);
        }
    }

    #[test]
    fn names_of_files_need_not_be_utf_8() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt as _;

        let name = OsStr::from_bytes(b"/tmp/a\xff\n\x1b[2J");
        assert_eq!(path(Path::new(name)), r"/tmp/a\xff\x0a\x1b[2J");
    }

    proptest! {
        /// forall strings: JSON with printable characters alone reads as the same string
        #[test]
        fn json_stays_exact(text in any::<String>()) {
            let exact = serde_json::to_string(&text).unwrap();
            let shown = json(&exact);
            prop_assert!(shown.chars().all(is_printable));
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }

        /// forall bytes: one line of printable characters, from which the bytes come back
        #[test]
        fn bytes_come_back(found in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..20),
            any::<String>().prop_map(String::into_bytes),
        ]) {
            let shown = bytes(&found);
            prop_assert!(shown.chars().all(is_printable));
            prop_assert_eq!(&*unescape(&shown), &*found);
            let several = lines(&found);
            let several = std::str::from_utf8(&several).unwrap();
            prop_assert!(several.chars().all(|c| is_printable(c) || "\r\n\t".contains(c)));
        }
    }
}
