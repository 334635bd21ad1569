//! Metric names: pmdammv's rule, and the rules of a name space.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use pcp_types::names::{MetricNameError, check_metric_name};
use pcp_types::{NameConflict, Pmid};

/// The reason why a metric cannot have its complete name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    /// The name has a character other than letters, digits, `_` and `.`, or does not begin with a
    /// letter.
    #[error("the name \"{name}\" has byte 0x{byte:02x} at offset {at}, which is not allowed there")]
    Character {
        /// The complete name, unreadable bytes replaced.
        name: String,
        byte: u8,
        /// Position in the complete name.
        at: usize,
    },
    /// A part between two dots is empty.
    #[error("the name \"{name}\" has an empty part at offset {at}")]
    EmptyPart {
        name: String,
        /// Position of the part.
        at: usize,
    },
    #[error("the name \"{name}\" is already used by {holder}")]
    Taken {
        name: String,
        /// The metric with this name.
        holder: Pmid,
    },
    /// The name is a leaf and a part of another metric's name, or the reverse: a name space cannot
    /// have both.
    #[error("the name \"{name}\" cannot exist together with \"{other}\"")]
    LeafAndBranch {
        name: String,
        /// The conflicting name.
        other: String,
    },
}

/// Returns the complete name of a metric: `mmv.<file>.<metric>`, or `mmv.<metric>` in a file with
/// the NOPREFIX flag (`src/pmdas/mmv/src/mmv.c`).
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
    check_metric_name(&name).map_err(|error| {
        let name = String::from_utf8_lossy(&name).into_owned();
        match error {
            MetricNameError::Byte { byte, position: at } => NameError::Character { name, byte, at },
            MetricNameError::EmptyPart { position: at } => NameError::EmptyPart { name, at },
        }
    })?;
    // It is ASCII.
    Ok(String::from_utf8(name).unwrap_or_default())
}

impl NameError {
    /// Describes a conflict of a name with others.
    pub(crate) fn conflicting(name: &str, conflict: NameConflict) -> Self {
        let name = name.to_owned();
        match conflict {
            NameConflict::Taken { holder } => Self::Taken { name, holder },
            NameConflict::LeafAndBranch { other } => Self::LeafAndBranch { name, other },
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
