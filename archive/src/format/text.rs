//! Help text: metadata record of type 4.
//!
//! | + | bytes | field | ours |
//! |---|---|---|---|
//! | 0 | 4 | length | |
//! | 4 | 4 | 4 | |
//! | 8 | 4 | 1 one line, 2 full; plus 4 metric, 8 instance domain | `kind`, `target` |
//! | 12 | 4 | PMID or instance domain | `target` |
//! | 16 | .. | text and a NUL | `text` |
//! | .. | 4 | length | |
//!
//! There is no time: a later record replaces an earlier one for the whole
//! archive.
//!
//! **Source**: LOGARCHIVE(5), "Help text"; `src/libpcp/src/logmeta.c`.

use zerocopy::big_endian::U32;

use super::bytes::before_nul;
use super::{Bytes, RecordType, frame, indom};
use crate::{ByteText, EncodeError, InDom, Pmid, RecordError};

const ONE_LINE: u32 = 1;
const FULL: u32 = 2;
const METRIC: u32 = 4;
const INDOM: u32 = 8;

/// The object that a help text describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextTarget {
    /// The metric with this number.
    Metric(Pmid),
    /// The instance domain with this number.
    InDom(InDom),
}

/// The length of a help text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextKind {
    /// One line (`PM_TEXT_ONELINE`).
    OneLine,
    /// As long as needed (`PM_TEXT_HELP`).
    Full,
}

/// A help text record; the text, without its NUL, is borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextRecord<'a> {
    pub(crate) target: TextTarget,
    pub(crate) kind: TextKind,
    pub(crate) text: &'a [u8],
}

/// Parses what follows the type word.
///
/// # Errors
///
/// [`RecordError::Field`] unless the kind word is 5, 6, 9 or 10,
/// [`RecordError::Unterminated`] without a NUL, [`RecordError::TrailingBytes`]
/// for bytes after it.
pub(crate) fn parse<'a>(body: &mut Bytes<'a>) -> Result<TextRecord<'a>, RecordError> {
    let word = body.take::<U32>("text kind")?.get();
    let raw = body.take::<U32>("text target")?.get();
    let unknown = RecordError::Field { field: "text kind", found: i64::from(word) };
    let kind = match word & (ONE_LINE | FULL) {
        ONE_LINE => TextKind::OneLine,
        FULL => TextKind::Full,
        _ => return Err(unknown),
    };
    let target = match word & !(ONE_LINE | FULL) {
        METRIC => TextTarget::Metric(Pmid::from_raw(raw)),
        INDOM => TextTarget::InDom(indom::parse_id(raw)?),
        _ => return Err(unknown),
    };
    let bytes = body.rest();
    let text = before_nul(bytes)
        .ok_or(RecordError::Unterminated { field: "text", len: bytes.len() as u64 })?;
    match bytes.len() - text.len() {
        1 => Ok(TextRecord { target, kind, text }),
        more => Err(RecordError::TrailingBytes { left: more as u64 - 1 }),
    }
}

/// Appends a help text record.
///
/// # Errors
///
/// [`EncodeError::Nul`] if the text contains one.
pub(crate) fn encode(
    target: TextTarget,
    kind: TextKind,
    text: &ByteText,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let text = text.to_bytes();
    EncodeError::check_nul("help text", &text)?;
    let kind = match kind {
        TextKind::OneLine => ONE_LINE,
        TextKind::Full => FULL,
    };
    let (target, raw) = match target {
        TextTarget::Metric(pmid) => (METRIC, pmid.raw()),
        TextTarget::InDom(indom) => (INDOM, indom.raw()),
    };
    frame::encode(out, |out| {
        RecordType::Text.encode(out);
        out.extend((kind | target).to_be_bytes());
        out.extend(raw.to_be_bytes());
        out.extend(&*text);
        out.push(0);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::metadata_record::test_support::{body, every_bit_flipped, hex};

    const EXAMPLE: &str = "0000001d 00000004 00000005 64000401 6f6e65206c696e6500 0000001d";
    const PMID: Pmid = Pmid::from_raw(0x6400_0401);

    #[test]
    fn bytes_both_ways() {
        let mut out = Vec::new();
        encode(TextTarget::Metric(PMID), TextKind::OneLine, &"one line".into(), &mut out).unwrap();
        let bytes = hex(EXAMPLE);
        assert_eq!(out, bytes);
        let record = parse(&mut body(&bytes)).unwrap();
        assert_eq!(
            record,
            TextRecord {
                target: TextTarget::Metric(PMID),
                kind: TextKind::OneLine,
                text: b"one line",
            }
        );
    }

    #[test]
    fn each_target_and_kind_has_its_word() {
        let indom = TextTarget::InDom(InDom::from_raw(5).unwrap());
        for (target, kind, word) in [
            (TextTarget::Metric(PMID), TextKind::Full, 6),
            (indom, TextKind::OneLine, 9),
            (indom, TextKind::Full, 10),
        ] {
            let mut out = Vec::new();
            encode(target, kind, &ByteText::default(), &mut out).unwrap();
            assert_eq!(out[11], word);
            let record = parse(&mut body(&out)).unwrap();
            assert_eq!((record.target, record.kind), (target, kind));
        }
    }

    #[test]
    fn other_kind_words_are_refused() {
        for word in [0u8, 1, 4, 7, 8, 12, 13, 21] {
            let mut bytes = hex(EXAMPLE);
            bytes[11] = word;
            let found = i64::from(word);
            let error = RecordError::Field { field: "text kind", found };
            assert_eq!(parse(&mut body(&bytes)), Err(error));
        }
    }

    #[test]
    fn every_truncation_is_refused() {
        let bytes = hex(EXAMPLE);
        let whole = body(&bytes).rest();
        for len in 0..whole.len() {
            assert!(parse(&mut Bytes::new(&whole[..len])).is_err(), "{len}");
        }
    }

    #[test]
    fn flipped_bits_never_panic_nor_pass_unseen() {
        let good = hex(EXAMPLE);
        let expected = parse(&mut body(&good)).unwrap();
        for bytes in every_bit_flipped(&good, 8..good.len() - 4) {
            assert!(parse(&mut body(&bytes)) != Ok(expected));
        }
    }

    #[test]
    fn a_nul_within_the_text_is_refused_both_ways() {
        let mut bytes = hex(EXAMPLE);
        bytes[18] = 0;
        assert_eq!(parse(&mut body(&bytes)), Err(RecordError::TrailingBytes { left: 6 }));
        let target = TextTarget::Metric(PMID);
        assert!(encode(target, TextKind::Full, &"a\0b".into(), &mut Vec::new()).is_err());
    }
}
