//! A metric's descriptor: metadata record of type 1.
//!
//! | + | bytes | field | ours |
//! |---|---|---|---|
//! | 0 | 4 | length | |
//! | 4 | 4 | 1 | |
//! | 8 | 4 | PMID | `pmid` |
//! | 12 | 4 | type | `value_type` |
//! | 16 | 4 | instance domain, 0xffffffff if singular | `indom` |
//! | 20 | 4 | semantics | `semantics` |
//! | 24 | 4 | units | `units` |
//! | 28 | 4 | number of names, at least 1 | |
//! | 32 | 4 + n | per name: length, bytes without NUL or padding | |
//! | .. | 4 | length | |
//!
//! **Source**: LOGARCHIVE(5), "pmDesc" (which puts the number of names at a
//! wrong offset); `src/libpcp/src/logmeta.c`.

use pcp_types::names::check_metric_name;
use zerocopy::big_endian::{I32, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::bytes::count;
use super::{Bytes, NULL, RecordType, frame};
use crate::{
    ByteText, DescDifference, EncodeError, InDom, Pmid, RecordError, Semantics, Units, ValueType,
};

/// PCP's readers have a fixed buffer for a name and its NUL.
pub(crate) const MAX_NAME: usize = 4095;

/// The descriptor of a metric's values (`pmDesc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MetricDesc {
    /// The number that records have for it.
    pub pmid: Pmid,
    /// The type of its values.
    pub value_type: ValueType,
    /// The domain of its instances; `None` if it has exactly one value.
    pub indom: Option<InDom>,
    /// The meaning of the values over time.
    pub semantics: Semantics,
    /// Their dimension and scale.
    pub units: Units,
}

impl MetricDesc {
    /// Returns the first field in which the descriptor differs from an expected one of the same
    /// metric, in the order in which PCP compares them.
    pub fn difference(&self, expected: &Self) -> Option<DescDifference> {
        if self.value_type != expected.value_type {
            Some(DescDifference::new("type", self.value_type, expected.value_type))
        } else if self.semantics != expected.semantics {
            Some(DescDifference::new("semantics", self.semantics, expected.semantics))
        } else if self.indom != expected.indom {
            let found = indom_text(self.indom);
            Some(DescDifference::new("instance domain", found, indom_text(expected.indom)))
        } else if self.units != expected.units {
            let found = units_text(self.units);
            Some(DescDifference::new("units", found, units_text(expected.units)))
        } else {
            None
        }
    }
}

fn indom_text(indom: Option<InDom>) -> String {
    indom.map_or_else(|| "none".to_owned(), |indom| indom.to_string())
}

fn units_text(units: Units) -> String {
    let text = units.to_string();
    if text.is_empty() { "none".to_owned() } else { format!("\"{text}\"") }
}

/// A descriptor record; the names are borrowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DescRecord<'a> {
    pub(crate) desc: MetricDesc,
    pub(crate) names: Vec<&'a [u8]>,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct DescLayout {
    pmid: U32,
    value_type: I32,
    indom: U32,
    semantics: I32,
    units: U32,
    name_count: I32,
}

const _: () = assert!(size_of::<DescLayout>() == 24 && align_of::<DescLayout>() == 1);

/// Parses what follows the type word.
///
/// # Errors
///
/// [`RecordError::Field`] for an unknown type or semantics and for no names,
/// and what lengths can be wrong with.
pub(crate) fn parse<'a>(body: &mut Bytes<'a>) -> Result<DescRecord<'a>, RecordError> {
    let layout: &DescLayout = body.take("descriptor")?;
    let value_type = parse_type(layout.value_type.get())?;
    let desc = MetricDesc {
        pmid: Pmid::from_raw(layout.pmid.get()),
        value_type,
        indom: InDom::from_raw(layout.indom.get()),
        semantics: parse_semantics(value_type, layout.semantics.get())?,
        units: Units::from_raw(layout.units.get()),
    };
    let name_count = count("number of names", layout.name_count.get())?;
    if name_count == 0 {
        return Err(RecordError::Field { field: "number of names", found: 0 });
    }
    let mut names = Vec::with_capacity((name_count as usize).min(body.len() / 4));
    for _ in 0..name_count {
        let len = count("name length", body.take::<I32>("name length")?.get())?;
        names.push(body.slice("name", u64::from(len))?);
    }
    Ok(DescRecord { desc, names })
}

fn parse_type(code: i32) -> Result<ValueType, RecordError> {
    ValueType::from_code(code)
        .map_err(|_| RecordError::Field { field: "type", found: i64::from(code) })
}

/// Metrics that their agent does not support may have 0, and never a value:
/// there it means nothing and is read as instant.
fn parse_semantics(value_type: ValueType, code: i32) -> Result<Semantics, RecordError> {
    if value_type == ValueType::NoSupport && code == 0 {
        return Ok(Semantics::Instant);
    }
    Semantics::from_code(code)
        .map_err(|_| RecordError::Field { field: "semantics", found: i64::from(code) })
}

/// Appends a descriptor record. The syntax of the names is not checked.
///
/// # Errors
///
/// [`EncodeError::NoName`], [`EncodeError::TooLarge`] for a name that PCP
/// cannot read.
pub(crate) fn encode(
    desc: &MetricDesc,
    names: &[ByteText],
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    if names.is_empty() {
        return Err(EncodeError::NoName { pmid: desc.pmid });
    }
    let layout = DescLayout {
        pmid: desc.pmid.raw().into(),
        value_type: desc.value_type.code().into(),
        indom: desc.indom.map_or(NULL, InDom::raw).into(),
        semantics: desc.semantics.code().into(),
        units: desc.units.raw().into(),
        name_count: (names.len() as i32).into(),
    };
    frame::encode(out, |out| {
        RecordType::Desc.encode(out);
        out.extend(layout.as_bytes());
        for name in names {
            let bytes = name.to_bytes();
            check_len(&bytes)?;
            out.extend((bytes.len() as u32).to_be_bytes());
            out.extend(&*bytes);
        }
        Ok(())
    })
}

/// Checks that a name fits into the buffers of PCP's readers.
///
/// # Errors
///
/// [`EncodeError::TooLarge`].
pub(crate) fn check_len(name: &[u8]) -> Result<(), EncodeError> {
    EncodeError::check_size("metric name", name.len(), MAX_NAME)
}

/// Checks that a name can be stored and found again.
///
/// # Errors
///
/// [`EncodeError::TooLarge`], [`EncodeError::MetricName`].
pub(crate) fn check_name(name: &str) -> Result<(), EncodeError> {
    check_len(name.as_bytes())?;
    check_metric_name(name.as_bytes()).map_err(|error| EncodeError::MetricName {
        name: name.to_owned(),
        at: error.position() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::metadata_record::test_support::{body, every_bit_flipped, hex};

    const EXAMPLE: &str = "0000002e 00000001 64000401 00000001 ffffffff 00000001 1f023000 \
                           00000001 00000006 6d792e753332 0000002e";

    fn example() -> MetricDesc {
        MetricDesc {
            pmid: Pmid::from_raw(0x6400_0401),
            value_type: ValueType::U32,
            indom: None,
            semantics: Semantics::Counter,
            units: Units::from_raw(0x1f02_3000),
        }
    }

    #[test]
    fn bytes_both_ways() {
        let mut out = Vec::new();
        encode(&example(), &["my.u32".into()], &mut out).unwrap();
        assert_eq!(out, hex(EXAMPLE));
        let bytes = hex(EXAMPLE);
        let record = parse(&mut body(&bytes)).unwrap();
        assert_eq!(record, DescRecord { desc: example(), names: vec![b"my.u32"] });
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
            assert!(parse(&mut body(&bytes)) != Ok(expected.clone()));
        }
    }

    #[test]
    fn bad_numbers_of_names_are_refused() {
        for (names, expected) in [
            (0i32, RecordError::Field { field: "number of names", found: 0 }),
            (-1, RecordError::Negative { field: "number of names", found: -1 }),
            (i32::MAX, RecordError::Truncated { field: "name length", needed: 4, left: 0 }),
        ] {
            let mut bytes = hex(EXAMPLE);
            bytes[28..32].copy_from_slice(&names.to_be_bytes());
            assert_eq!(parse(&mut body(&bytes)), Err(expected));
        }
    }

    #[test]
    fn unknown_types_and_semantics_are_refused() {
        for (at, field, found) in [(12, "type", 11), (20, "semantics", 2)] {
            let mut bytes = hex(EXAMPLE);
            bytes[at + 3] = found as u8;
            assert_eq!(parse(&mut body(&bytes)), Err(RecordError::Field { field, found }));
        }
    }

    #[test]
    fn an_unsupported_metric_may_be_without_semantics() {
        let mut bytes = hex(EXAMPLE);
        bytes[12..16].fill(0xff);
        bytes[23] = 0;
        assert!(parse(&mut body(&bytes)).is_ok());
        bytes[23] = 2;
        assert!(parse(&mut body(&bytes)).is_err());
    }

    #[test]
    fn a_bad_name_is_refused_with_the_place_of_its_fault() {
        assert_eq!(check_name("mmv.2nd._x"), Ok(()));
        for (name, at) in [("1a", 0), ("a..b", 2), ("a.", 2)] {
            let expected = EncodeError::MetricName { name: name.to_owned(), at };
            assert_eq!(check_name(name), Err(expected));
        }
    }

    #[test]
    fn a_metric_needs_a_name_and_a_name_that_pcp_can_hold() {
        assert!(matches!(
            encode(&example(), &[], &mut Vec::new()),
            Err(EncodeError::NoName { .. })
        ));
        assert!(encode(&example(), &["x".repeat(4095).into()], &mut Vec::new()).is_ok());
        assert!(encode(&example(), &["x".repeat(4096).into()], &mut Vec::new()).is_err());
    }
}
