//! The content of a file, in memory of our own.

use std::ffi::{CStr, c_char};

use mmv_format::content;
use nix::errno::Errno;

/// All registrations, in their order; domains without their labels.
pub(crate) type Content = content::Content<Vec<u8>>;
/// An instance domain.
pub(crate) type IndomContent = content::IndomContent<Vec<u8>>;
/// A metric as the caller states it; for its domain see [`is_singular`].
pub(crate) type MetricContent = content::MetricContent<Vec<u8>>;
/// The one-line and the long help text.
pub(crate) type Help = content::Help<Vec<u8>>;

/// Returns whether a metric with this serial has one value and no domain.
pub(crate) fn is_singular(serial: u32) -> bool {
    serial == 0 || serial == u32::MAX
}

/// Copies both help texts, each of which may be null.
///
/// # Safety
///
/// The caller's promise on texts.
pub(crate) unsafe fn help(short: *const c_char, long: *const c_char) -> Help {
    // SAFETY: the caller's promise.
    let short = unsafe { text(short) };
    // SAFETY: the caller's promise.
    let long = unsafe { text(long) };
    Help { short: short.map(bytes), long: long.map(bytes) }
}

fn bytes(text: &CStr) -> Vec<u8> {
    text.to_bytes().to_vec()
}

/// Returns a text of the caller's; `None` for a null pointer.
///
/// # Safety
///
/// The caller's promise on texts; the result is used during the call only.
pub(crate) unsafe fn text<'call>(text: *const c_char) -> Option<&'call CStr> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, so it ends in a NUL by the caller's promise, and stays as
    // it is during the call.
    Some(unsafe { CStr::from_ptr(text) })
}

/// Copies a name of the caller's.
///
/// # Safety
///
/// See [`text`].
///
/// # Errors
///
/// `EFAULT` for a null pointer.
pub(crate) unsafe fn name(name: *const c_char) -> Result<Vec<u8>, Errno> {
    // SAFETY: the caller's promise.
    unsafe { text(name) }.map(bytes).ok_or(Errno::EFAULT)
}

/// Copies the name inside a field, which may lack a NUL.
pub(crate) fn inline_name(field: &[c_char]) -> Vec<u8> {
    field.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect()
}
