//! Labels, as a registry takes them: a name, a text, and the kind of JSON value
//! that the text has.

use std::ffi::{CStr, c_int};

use mmv_format::layout::{
    LABEL_BYTES, LABEL_CLUSTER, LABEL_INDOM, LABEL_INSTANCES, LABEL_ITEM, LABEL_OPTIONAL,
    LabelEntry, nul_padded,
};
use nix::errno::Errno;
use pcp_types::json::{has_unique_keys, is_value};
use pcp_types::names::is_label_name;

/// The object that a label describes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject {
    /// All metrics of the file, by its cluster.
    File(u32),
    /// A domain, by its serial.
    Indom(u32),
    /// A metric, by its item.
    Metric(u32),
    /// An instance, by its domain's serial and its own number.
    Instance(u32, i32),
}

impl Subject {
    /// Returns class bit, identity and instance of a label's entry.
    fn fields(self) -> (u32, u32, i32) {
        match self {
            Self::File(cluster) => (LABEL_CLUSTER, cluster, -1),
            Self::Indom(serial) => (LABEL_INDOM, serial, -1),
            Self::Metric(item) => (LABEL_ITEM, item, -1),
            Self::Instance(serial, instance) => (LABEL_INSTANCES, serial, instance),
        }
    }
}

/// Makes a label's entry.
///
/// # Errors
///
/// `E2BIG` if it does not fit; `EINVAL` for a bad name, a value that is no JSON or not of
/// the given kind (`MMV_*_TYPE`), or a map with a key twice.
pub(crate) fn entry(
    subject: Subject,
    name: &CStr,
    value: &CStr,
    kind: u32,
    optional: c_int,
) -> Result<LabelEntry, Errno> {
    let name = name.to_bytes();
    let value = value.to_bytes();
    // Before all else, and without the NUL, as libpcp_mmv has it: braces, quotes, colon.
    if name.len() + value.len() + 5 > LABEL_BYTES {
        return Err(Errno::E2BIG);
    }
    let value = if kind == NULL { b"null" } else { value };
    let is_named = str::from_utf8(name).is_ok_and(is_label_name);
    if !is_named || !looks_like(kind, value) || !is_value(value) || !has_unique_keys(value) {
        return Err(Errno::EINVAL);
    }
    let label = [b"{\"", name, b"\":", value, b"}"].concat();
    let (class, identity, instance) = subject.fields();
    let flags = if optional == 0 { class } else { class | LABEL_OPTIONAL };
    let json = nul_padded::<LABEL_BYTES>(&label).ok_or(Errno::E2BIG)?;
    Ok(LabelEntry { flags, identity, instance, json })
}

/// Code of `MMV_NULL_TYPE`, for which any text becomes `null`.
const NULL: u32 = 4;

/// Returns whether a value's first and last character are those of its kind.
fn looks_like(kind: u32, value: &[u8]) -> bool {
    let enclosed = |open, close| {
        value.len() >= 2 && value.first() == Some(&open) && value.last() == Some(&close)
    };
    match kind {
        1 => enclosed(b'"', b'"'),
        2 => {
            let first = value.trim_ascii_start().first();
            first.is_some_and(|first| *first == b'-' || first.is_ascii_digit())
                && value.last().is_some_and(u8::is_ascii_digit)
        }
        3 => matches!(value, b"true" | b"false"),
        NULL => true,
        5 => enclosed(b'[', b']'),
        6 => enclosed(b'{', b'}'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kind: u32, value: &CStr) -> Result<String, Errno> {
        let entry = entry(Subject::Metric(7), c"zone", value, kind, 0)?;
        let json = CStr::from_bytes_until_nul(&entry.json).unwrap();
        Ok(json.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_value_must_be_json_of_its_kind() {
        for (kind, value) in
            [(1, c"\"b\""), (2, c"-1.5e3"), (3, c"true"), (5, c"[1,2]"), (6, c"{\"a\":1}")]
        {
            assert_eq!(
                text(kind, value).unwrap(),
                format!("{{\"zone\":{}}}", value.to_str().unwrap())
            );
            let others = (0..8).filter(|other| *other != kind && *other != 4);
            for other in others {
                assert_eq!(text(other, value), Err(Errno::EINVAL), "{value:?} as {other}");
            }
        }
        assert_eq!(text(4, c"anything \xff").unwrap(), "{\"zone\":null}");
        assert_eq!(text(2, c" \t\n1").unwrap(), "{\"zone\": \t\n1}");
        for (kind, value) in [
            (1, c"\""),
            (1, c"\"a\"b\""),
            (2, c"0x10"),
            (2, c"1 "),
            (5, c"[1,]"),
            (2, c"\x0c1"),
            (2, c" "),
            (6, c"{\"a\":1,\"a\":2}"),
        ] {
            assert_eq!(text(kind, value), Err(Errno::EINVAL), "{value:?}");
        }
    }

    #[test]
    fn the_bytes_of_a_string_are_kept() {
        let entry = entry(Subject::Metric(7), c"zone", c"\"\xff\"", 1, 0).unwrap();
        assert!(entry.json.starts_with(b"{\"zone\":\"\xff\"}\0"));
    }

    #[test]
    fn names_and_lengths_are_checked() {
        let with = |name: &CStr| entry(Subject::File(1), name, c"1", 2, 0).map(|_| ());
        assert_eq!(with(c"a_2"), Ok(()));
        for bad in [c"", c"2", c"_a", c"a.b", c"\xff"] {
            assert_eq!(with(bad), Err(Errno::EINVAL), "{bad:?}");
        }
        // `{"name":1}` and a NUL in 244 bytes.
        let name = |bytes: usize| std::ffi::CString::new("n".repeat(bytes)).unwrap();
        assert_eq!(with(&name(237)), Ok(()));
        assert_eq!(with(&name(238)), Err(Errno::E2BIG));
        // A value that does not matter may have what fits without the NUL.
        let with = |value: &CStr| entry(Subject::File(1), c"n", value, 4, 0).map(|_| ());
        assert_eq!((with(&name(238)), with(&name(239))), (Ok(()), Err(Errno::E2BIG)));
        // The value is short, but what stands for it does not fit.
        assert_eq!(entry(Subject::File(1), &name(238), c"", 4, 0).map(|_| ()), Err(Errno::E2BIG));
    }

    #[test]
    fn the_fields_state_what_a_label_describes() {
        let fields = |subject, optional| {
            let entry = entry(subject, c"a", c"", 4, optional).unwrap();
            (entry.flags, entry.identity, entry.instance)
        };
        assert_eq!(fields(Subject::File(321), 0), (8, 321, -1));
        assert_eq!(fields(Subject::Indom(7), 1), (0x84, 7, -1));
        assert_eq!(fields(Subject::Metric(9), 2), (0x90, 9, -1));
        assert_eq!(fields(Subject::Instance(7, 3), 0), (32, 7, 3));
    }
}
