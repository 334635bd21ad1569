//! The names of metrics: pmdammv's rule, and what a name space allows.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use pcp_types::{NameConflict, Pmid};

/// Why a metric cannot have the name that the rule gives it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    /// The complete name has another character than letters, digits, `_` and
    /// `.`, or does not begin with a letter.
    #[error(
        "the name \"{name}\" has byte 0x{byte:02x} at {at}, which no metric name may have there"
    )]
    Character {
        /// The complete name, unreadable bytes replaced.
        name: String,
        /// The byte that does not belong.
        byte: u8,
        /// Where it stands in the complete name.
        at: usize,
    },
    /// A part between two dots is empty.
    #[error("the name \"{name}\" has an empty part at {at}")]
    EmptyPart {
        /// The complete name.
        name: String,
        /// Where the part should stand.
        at: usize,
    },
    /// Another metric has the name.
    #[error("the name \"{name}\" belongs to {holder} already")]
    Taken {
        /// The complete name.
        name: String,
        /// The metric that has it.
        holder: Pmid,
    },
    /// Another metric's name goes on where this one ends, or the reverse: a
    /// name space cannot have both.
    #[error("the name \"{name}\" cannot stand beside \"{other}\"")]
    LeafAndFolder {
        /// The complete name.
        name: String,
        /// The name it collides with.
        other: String,
    },
}

/// The complete name of a metric: `mmv.<file>.<metric>`, or `mmv.<metric>`
/// in a file with the NOPREFIX flag (`src/pmdas/mmv/src/mmv.c`).
///
/// # Errors
///
/// [`NameError::Character`] and [`NameError::EmptyPart`]; a file called
/// `my-app` loses all its metrics by this rule, unless it has the flag.
pub(crate) fn complete_name(
    file: &OsStr,
    no_prefix: bool,
    metric: &str,
) -> Result<String, NameError> {
    let mut name = Vec::with_capacity(b"mmv..".len() + file.len() + metric.len());
    name.extend_from_slice(b"mmv.");
    if !no_prefix {
        name.extend_from_slice(file.as_bytes());
        name.push(b'.');
    }
    name.extend_from_slice(metric.as_bytes());
    let lossy = || String::from_utf8_lossy(&name).into_owned();
    let mut part_start = 0;
    for (at, &byte) in name.iter().enumerate() {
        match byte {
            b'.' if at == part_start => return Err(NameError::EmptyPart { name: lossy(), at }),
            b'.' => part_start = at + 1,
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => {}
            _ => return Err(NameError::Character { name: lossy(), byte, at }),
        }
    }
    if part_start == name.len() {
        return Err(NameError::EmptyPart { name: lossy(), at: part_start });
    }
    // All of it is ASCII: there is nothing to lose.
    Ok(String::from_utf8(name).unwrap_or_default())
}

impl NameError {
    /// A name that cannot be had because of others.
    pub(crate) fn of(name: &str, conflict: NameConflict) -> Self {
        let name = name.to_owned();
        match conflict {
            NameConflict::Taken { holder } => Self::Taken { name, holder },
            NameConflict::LeafAndFolder { other } => Self::LeafAndFolder { name, other },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_part_of_the_name_unless_the_flag_says_otherwise() {
        let file = OsStr::new("acme");
        assert_eq!(complete_name(file, false, "a.b").unwrap(), "mmv.acme.a.b");
        assert_eq!(complete_name(file, true, "a.b").unwrap(), "mmv.a.b");
    }

    #[test]
    fn a_bad_file_name_spoils_the_complete_name_only_with_prefix() {
        let file = OsStr::new("my-app");
        assert!(matches!(
            complete_name(file, false, "a"),
            Err(NameError::Character { byte: b'-', at: 6, .. })
        ));
        assert!(complete_name(file, true, "a").is_ok());
        let bytes = OsStr::from_bytes(b"\xff");
        assert!(complete_name(bytes, false, "a").is_err());
    }

    #[test]
    fn empty_parts_are_refused_wherever_they_stand() {
        for metric in ["", "a..b", ".a", "a."] {
            let result = complete_name(OsStr::new("f"), false, metric);
            assert!(matches!(result, Err(NameError::EmptyPart { .. })), "{metric}");
        }
    }
}
