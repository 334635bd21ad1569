//! The name of an instance from its labels.

use mmv_format::layout::STRING_BYTES;

/// Limit of the format on the bytes of a name.
pub(super) const MAX: usize = STRING_BYTES - 1;

/// The name of an instance: `method=GET,code=200`.
pub(super) struct InstanceName {
    bytes: [u8; MAX],
    len: usize,
    /// Limit on `len`, at most [`MAX`].
    limit: usize,
}

impl InstanceName {
    /// Returns the name of a set of labels and values; one longer than `limit` ends in a checksum.
    pub(super) fn new(pairs: &[(&str, String)], limit: usize) -> Self {
        let mut name = Self { bytes: [0; MAX], len: 0, limit: limit.min(MAX) };
        for (label, value) in pairs {
            if name.push_pair(label, value).is_none() {
                name.shorten(pairs);
                break;
            }
        }
        name
    }

    pub(super) fn as_str(&self) -> &str {
        self.bytes.get(..self.len).and_then(|name| str::from_utf8(name).ok()).unwrap_or_default()
    }

    /// Appends a label and its value; `None` if they do not fit.
    fn push_pair(&mut self, label: &str, value: &str) -> Option<()> {
        if self.len > 0 {
            self.push(b",")?;
        }
        self.push_escaped(label)?;
        self.push(b"=")?;
        self.push_escaped(value)
    }

    /// Appends a text with a backslash before special bytes; `None` if it does not fit.
    fn push_escaped(&mut self, text: &str) -> Option<()> {
        let mut rest = text.as_bytes();
        while let Some(at) = rest.iter().position(|byte| is_special(*byte)) {
            let (plain, special) = rest.split_at(at);
            let (special, after) = special.split_first()?;
            self.push(plain)?;
            self.push(&[b'\\', if *special == 0 { b'0' } else { *special }])?;
            rest = after;
        }
        self.push(rest)
    }

    /// Appends as many bytes as fit; `None` if not all do.
    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let room = self.bytes.get_mut(self.len..self.limit)?;
        room.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        self.len = self.limit.min(self.len + bytes.len());
        (bytes.len() <= room.len()).then_some(())
    }

    /// Replaces the end of the name with a checksum of all labels.
    #[cold]
    fn shorten(&mut self, pairs: &[(&str, String)]) {
        // FNV-1a, the same in every build, of all labels and their values with ends.
        let mut sum = 0xcbf2_9ce4_8422_2325_u64;
        let texts = pairs.iter().flat_map(|(label, value)| [*label, value.as_str()]);
        for byte in texts.flat_map(|text| text.bytes().chain([0xff])) {
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let sum = format!("~{sum:016x}");
        let keep = self.len.min(self.limit - sum.len());
        let valid = self.bytes.get(..keep).map(<[u8]>::utf8_chunks);
        let valid = valid.and_then(|mut chunks| chunks.next());
        self.len = valid.map_or(0, |chunk| chunk.valid().len());
        let fits = self.push(sum.as_bytes());
        debug_assert!(fits.is_some(), "a checksum");
    }
}

/// Returns the name of a label with `_` in place of what is not legal, and `m_` before it if it
/// does not begin with a letter.
pub(super) fn legal_label_name(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let mut made = String::from(if begins { "" } else { "m_" });
    made.extend(name.chars().map(legal));
    made
}

/// Returns whether a byte needs a backslash before it.
fn is_special(byte: u8) -> bool {
    matches!(byte, b',' | b'=' | b'\\' | 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(values: [&str; 2]) -> String {
        let [a, b] = values;
        InstanceName::new(&[("a", a.to_owned()), ("b", b.to_owned())], MAX).as_str().to_owned()
    }

    #[test]
    fn different_values_have_different_names() {
        assert_eq!(name(["GET", "200"]), "a=GET,b=200");
        assert_eq!(name(["", ""]), "a=,b=");
        assert_eq!(name(["1,b=2", "x\\"]), r"a=1\,b\=2,b=x\\");
        assert_ne!(name(["\0", ""]), name(["\\0", ""]));
        assert_ne!(name(["1,b=2", ""]), name(["1", "2,b="]));
    }

    #[test]
    fn a_label_name_of_any_characters_becomes_legal() {
        for (name, legal) in [
            ("endpoint", "endpoint"),
            ("http.method", "http_method"),
            ("2nd", "m_2nd"),
            ("_a", "m__a"),
            ("", "m_"),
        ] {
            assert_eq!(legal_label_name(name), legal);
        }
        let pair = ("a,b=c", "d".to_owned());
        assert_eq!(InstanceName::new(&[pair], MAX).as_str(), r"a\,b\=c=d");
    }

    #[test]
    fn a_long_name_is_cut_between_characters_and_still_its_own() {
        for length in 110..140 {
            let long = "\u{e9}".repeat(length);
            let one = name([&long, "1"]);
            let other = name([&long, "2"]);
            assert!(one.len() <= MAX && one.starts_with("a=\u{e9}"), "{length}");
            assert_ne!(one, other, "{length}");
            assert_ne!(name([&long, "12"]), name([&(long.clone() + "1"), "2"]));
        }
        assert_eq!(name([&"x".repeat(MAX - 6), "1"]).len(), MAX);
        assert!(!name([&"x".repeat(MAX - 6), "1"]).contains('~'));
        assert!(name([&"x".repeat(MAX - 5), "1"]).contains('~'));
    }
}
