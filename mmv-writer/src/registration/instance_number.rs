//! Numbers that follow from names, besides those of instances: serials of domains and items of
//! metrics; and the error of a name without a number.

use mmv_format::layout::{MAX_ITEM, MAX_SERIAL};
use pcp_types::hash_of_name;

use crate::Error;

/// Returns the serial of a domain that follows from a text.
pub(crate) fn serial_of(text: &str) -> u32 {
    1 + hash_of_name(text).cast_unsigned() % MAX_SERIAL
}

/// Returns the item that follows from the name of a metric.
pub(super) fn item_of(name: &str) -> u32 {
    1 + hash_of_name(name).cast_unsigned() % MAX_ITEM
}

/// Makes the error for a name for which no number is free.
pub(crate) fn numbers_used_up(name: &str) -> Error {
    Error::full("instance numbers", u8::MAX.into(), name)
}
