//! Names and texts of an archive, which are bytes, as text that loses none.
//!
//! In: bytes in any encoding, as PCP stores names, help texts and host names. Out:
//! a [`ByteText`], and the same bytes again.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use pcp_types::printable;

/// Bytes as text: UTF-8 is itself, and every other byte is `\xHH`, with two lower-case
/// hexadecimal digits.
///
/// A backslash is `\x5c` where it would read as such a byte, and itself elsewhere. Two
/// texts are equal if and only if their bytes are.
///
/// | bytes | text |
/// |---|---|
/// | `sda` | `sda` |
/// | `caf`, 0xe9 | `caf\xe9` |
/// | `C:\new` | `C:\new` |
/// | `C:\xe9` | `C:\x5cxe9` |
///
/// Names that the library takes and returns as `&str` are such texts.
///
/// It dereferences to this text, so that names compare with and are found by string
/// literals. Conversions from strings take every character as itself.
///
/// ```
/// use pcp_archive::ByteText;
///
/// let name = ByteText::from_bytes(b"caf\xe9");
/// assert_eq!(name, r"caf\xe9");
/// assert_eq!(*name.to_bytes(), *b"caf\xe9");
/// assert_eq!(*ByteText::from(r"C:\xe9").to_bytes(), *br"C:\xe9");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteText(Arc<str>);

impl ByteText {
    /// Returns the text for some bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(Arc::from(Self::escape(bytes)))
    }

    /// Returns the text that somebody typed in the form in which texts are printed: each `\xHH`
    /// is a byte.
    pub fn from_escaped(text: &str) -> Self {
        Self::from_bytes(&Self::unescape(text))
    }

    /// Returns the bytes that the text stands for.
    pub fn to_bytes(&self) -> Cow<'_, [u8]> {
        Self::unescape(&self.0)
    }

    /// Returns the text, in which `\xHH` stands for a byte that is not UTF-8.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text for some bytes, copied only if any of them is escaped.
    pub fn escape(bytes: &[u8]) -> Cow<'_, str> {
        printable::escape(bytes)
    }

    /// Returns the bytes of a text, in which each `\xHH` is one.
    pub fn unescape(text: &str) -> Cow<'_, [u8]> {
        printable::unescape(text)
    }

    /// Wraps a text that [`escape`](Self::escape) has returned.
    pub(crate) fn wrap_escaped(text: &str) -> Self {
        Self(Arc::from(text))
    }

    /// Returns the text for one line of a message: control characters and others that are not
    /// [printable](printable::is_printable) are escaped as bytes.
    pub fn without_controls(text: &str) -> Cow<'_, str> {
        printable::line(text)
    }
}

impl Default for ByteText {
    fn default() -> Self {
        Self(Arc::from(""))
    }
}

impl Deref for ByteText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ByteText {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for ByteText {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ByteText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ByteText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<&str> for ByteText {
    fn from(text: &str) -> Self {
        Self::from_bytes(text.as_bytes())
    }
}

impl From<&String> for ByteText {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<String> for ByteText {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<Arc<str>> for ByteText {
    fn from(text: Arc<str>) -> Self {
        match Self::escape(text.as_bytes()) {
            Cow::Borrowed(_) => Self(text),
            Cow::Owned(escaped) => Self(escaped.into()),
        }
    }
}

impl From<&Self> for ByteText {
    fn from(text: &Self) -> Self {
        text.clone()
    }
}

impl From<ByteText> for Arc<str> {
    fn from(text: ByteText) -> Self {
        text.0
    }
}

impl PartialEq<str> for ByteText {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for ByteText {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl PartialEq<ByteText> for str {
    fn eq(&self, other: &ByteText) -> bool {
        *self == *other.0
    }
}

impl PartialEq<ByteText> for &str {
    fn eq(&self, other: &ByteText) -> bool {
        **self == *other.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_is_not_utf_8_or_reads_as_a_byte_is_escaped() {
        for (bytes, text) in [
            (b"sda".as_slice(), "sda"),
            ("caf\u{e9} \u{1f600}".as_bytes(), "caf\u{e9} \u{1f600}"),
            (b"caf\xe9", r"caf\xe9"),
            (b"\xff\x00\n", "\\xff\0\n"),
            (br"C:\new\x", r"C:\new\x"),
            (br"C:\xe9", r"C:\x5cxe9"),
            (br"\\xe9", r"\\x5cxe9"),
            (br"\xE9 \x5", r"\xE9 \x5"),
            (b"\\\xe9", r"\\xe9"),
            (b"\\xe\xe9", r"\xe\xe9"),
            (b"\\x\xe9\xa0", r"\x\xe9\xa0"),
            (b"\xf0\x9f\x98", r"\xf0\x9f\x98"),
        ] {
            let found = ByteText::from_bytes(bytes);
            assert_eq!(found, text);
            assert_eq!(*found.to_bytes(), *bytes, "{text}");
        }
    }

    #[test]
    fn a_string_keeps_its_characters_and_a_typed_text_has_bytes() {
        assert_eq!(*ByteText::from(r"\xe9").to_bytes(), *br"\xe9");
        assert_eq!(*ByteText::from(Arc::<str>::from(r"\xe9")).to_bytes(), *br"\xe9");
        assert_eq!(*ByteText::from_escaped(r"\xe9\x41").to_bytes(), *b"\xe9A");
        assert_eq!(ByteText::from_escaped(r"\xe9\x41"), r"\xe9A");
    }

    #[test]
    fn one_line_has_no_control_characters_and_the_same_bytes() {
        let line = ByteText::without_controls("a\tb\n\u{9b}\0");
        assert_eq!(line, r"a\x09b\x0a\xc2\x9b\x00");
        assert_eq!(*ByteText::unescape(&line), *"a\tb\n\u{9b}\0".as_bytes());
    }

    proptest! {
        /// forall bytes near the rule: the text gives them back, and no others
        #[test]
        fn bytes_come_back(bytes in proptest::collection::vec(
            prop_oneof![Just(b'\\'), Just(b'x'), Just(b'5'), Just(b'c'), Just(b'f'), any::<u8>()],
            0..12,
        )) {
            let text = ByteText::from_bytes(&bytes);
            prop_assert_eq!(&*text.to_bytes(), &*bytes);
            prop_assert_eq!(&ByteText::from_escaped(&text), &text);
            let line = ByteText::without_controls(&text);
            prop_assert_eq!(&*ByteText::unescape(&line), &*bytes);
        }
    }
}
