//! File names in the state file.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Serialize};

/// A file name; text in JSON if it is UTF-8, else an array of bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "TextOrBytes", into = "TextOrBytes")]
pub(crate) struct FileName(pub(crate) OsString);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum TextOrBytes {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<TextOrBytes> for FileName {
    fn from(name: TextOrBytes) -> Self {
        Self(match name {
            TextOrBytes::Text(text) => text.into(),
            TextOrBytes::Bytes(bytes) => OsString::from_vec(bytes),
        })
    }
}

impl From<FileName> for TextOrBytes {
    fn from(FileName(name): FileName) -> Self {
        name.into_string().map_or_else(|name| Self::Bytes(name.as_bytes().to_vec()), Self::Text)
    }
}
