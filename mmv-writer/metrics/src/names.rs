//! The facade's names as names of metrics.
//!
//! A name in the file is a function of the facade's name and of whether it is used
//! with labels, never of what was used before. Two short names never become one: what
//! is not legal in a name is escaped, and so is what looks like an escape.

/// Limit on the bytes of a name, which leaves room for what is appended to it.
const LONGEST: usize = 200;

/// Suffix of the name of a metric with labels.
const BY: &str = "_by";

/// Returns a metric's name: letters, digits, `_` and single dots; it starts with a letter, and
/// ends with `_by` if it has labels.
pub(crate) fn metric(name: &str, has_labels: bool) -> String {
    shortened(escaped(name, has_labels, false), name) + label_suffix(has_labels)
}

/// Returns another name of the metric, without dots: for one whose name is the start of another's,
/// or the other way around.
pub(crate) fn flat(name: &str, has_labels: bool) -> String {
    let mut flat = escaped(name, true, true);
    if !name.contains('.') {
        flat += "_x2e_";
    }
    shortened(flat, name) + label_suffix(has_labels)
}

fn label_suffix(has_labels: bool) -> &'static str {
    if has_labels { BY } else { "" }
}

/// Escapes a name: each run of bytes that are not legal where they are becomes `_x`, their
/// hexadecimal digits and `_`, without the first `_` at the start of the name. With
/// `is_continued`, the name gets a suffix that starts with `_`.
fn escaped(name: &str, is_continued: bool, is_flat: bool) -> String {
    let bytes = legal_bytes(name, is_flat);
    let by = name.len().checked_sub(BY.len()).filter(|_| !is_continued && name.ends_with(BY));
    let mut made = String::with_capacity(name.len() + 8);
    let mut is_open = false;
    for (index, (byte, is_legal)) in bytes.iter().enumerate() {
        // What a reader of the name would take for an escape is none.
        let looks_escaped = match bytes.get(index..) {
            Some([(b'_', _), rest @ ..]) => starts_as_escape(rest, is_continued),
            Some(rest) => index == 0 && starts_as_escape(rest, is_continued),
            None => false,
        };
        let is_escaped = !is_legal || looks_escaped || by == Some(index);
        match (is_escaped, is_open) {
            (true, false) => made += if made.is_empty() { "x" } else { "_x" },
            (false, true) => made.push('_'),
            _ => {}
        }
        is_open = is_escaped;
        if is_escaped {
            for digit in [byte >> 4, byte & 15] {
                made.extend(char::from_digit(digit.into(), 16));
            }
        } else {
            made.push(char::from(*byte));
        }
    }
    if made.is_empty() {
        made += "x";
        is_open = true;
    }
    if is_open {
        made.push('_');
    }
    made
}

/// Returns the bytes of a name, and whether each is legal where it is.
fn legal_bytes(name: &str, is_flat: bool) -> Vec<(u8, bool)> {
    let last = name.len().saturating_sub(1);
    // At the start as after a dot.
    let mut is_after_dot = true;
    let bytes = name.bytes().enumerate().map(|(index, byte)| {
        let is_legal = match byte {
            b'.' => !is_flat && !is_after_dot && index < last,
            b'_' => index > 0,
            byte => byte.is_ascii_alphabetic() || (index > 0 && byte.is_ascii_digit()),
        };
        is_after_dot = is_legal && byte == b'.';
        (byte, is_legal)
    });
    bytes.collect()
}

/// Returns whether bytes would be the `x`, the digits and the last `_` of an escape.
fn starts_as_escape(bytes: &[(u8, bool)], is_continued: bool) -> bool {
    let Some(((b'x', _), digits)) = bytes.split_first() else { return false };
    let digits_only =
        digits.iter().take_while(|(byte, _)| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let count = digits_only.count();
    let ends = match digits.get(count) {
        Some((byte, is_legal)) => *byte == b'_' || !is_legal,
        None => is_continued,
    };
    count >= 2 && count.is_multiple_of(2) && ends
}

/// Replaces the end of a name that is too long with a checksum of `whole`.
fn shortened(mut made: String, whole: &str) -> String {
    if made.len() > LONGEST {
        let end = format!("_x{:016x}_", checksum(whole));
        made.truncate(LONGEST - end.len());
        made.truncate(made.trim_end_matches('.').len());
        made += &end;
    }
    made
}

/// Returns as much of a text as fits into a help text, without NUL.
pub(crate) fn help(text: &str) -> String {
    cut(&text.replace('\0', " "), 255).to_owned()
}

/// Returns the start of a text, at most `most` bytes, cut between characters.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

/// Returns the FNV-1a hash of a text, the same in every build.
fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
