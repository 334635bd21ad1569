//! The type word of the records of the `.meta` file: which types a version has.

use crate::{RecordError, Version};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordType {
    Desc = 1,
    IndomV2 = 2,
    LabelV2 = 3,
    Text = 4,
    Indom = 5,
    IndomDelta = 6,
    Label = 7,
}

impl RecordType {
    pub(super) fn parse(version: Version, found: u32) -> Result<Self, RecordError> {
        match (found, version) {
            (1, _) => Ok(Self::Desc),
            (2, Version::V2) => Ok(Self::IndomV2),
            (3, Version::V2) => Ok(Self::LabelV2),
            (4, _) => Ok(Self::Text),
            (5, Version::V3) => Ok(Self::Indom),
            (6, Version::V3) => Ok(Self::IndomDelta),
            (7, Version::V3) => Ok(Self::Label),
            _ => Err(RecordError::RecordType { found, version: version.number() }),
        }
    }

    /// Appends the type word.
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.extend((self as u32).to_be_bytes());
    }
}
