//! The content of a file, in memory of our own.

use std::ffi::{CStr, CString, c_char};

use mmv_format::layout::LabelEntry;
use nix::errno::Errno;

/// All registrations, in their order.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) indoms: Vec<Indom>,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) labels: Vec<LabelEntry>,
}

/// An instance domain, without its labels.
#[derive(Debug)]
pub(crate) struct Indom {
    pub(crate) serial: u32,
    pub(crate) help: Help,
    pub(crate) instances: Vec<(i32, CString)>,
}

/// A metric as the caller states it.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) name: CString,
    pub(crate) item: u32,
    pub(crate) type_code: i32,
    pub(crate) semantics: i32,
    pub(crate) units: u32,
    /// A domain's serial; see [`is_singular`].
    pub(crate) indom: u32,
    pub(crate) help: Help,
}

/// The one-line and the long help text.
#[derive(Debug, Default)]
pub(crate) struct Help {
    pub(crate) short: Option<CString>,
    pub(crate) long: Option<CString>,
}

/// Returns whether a metric with this serial has one value and no domain.
pub(crate) fn is_singular(serial: u32) -> bool {
    serial == 0 || serial == u32::MAX
}

impl Content {
    /// Returns the first domain with a serial.
    pub(crate) fn indom(&self, serial: u32) -> Option<&Indom> {
        self.indoms.iter().find(|indom| indom.serial == serial)
    }

    /// Returns the instances of a metric; `None` for a singular one.
    pub(crate) fn instances_of(&self, metric: &Metric) -> Option<&[(i32, CString)]> {
        if is_singular(metric.indom) {
            return None;
        }
        Some(self.indom(metric.indom).map_or(&[], |indom| &indom.instances))
    }
}

impl Help {
    /// Copies both texts, each of which may be null.
    ///
    /// # Safety
    ///
    /// The caller's promise on texts.
    pub(crate) unsafe fn copy(short: *const c_char, long: *const c_char) -> Self {
        // SAFETY: the caller's promise.
        let short = unsafe { text(short) };
        // SAFETY: the caller's promise.
        let long = unsafe { text(long) };
        Self { short: short.map(CStr::to_owned), long: long.map(CStr::to_owned) }
    }
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
pub(crate) unsafe fn name(name: *const c_char) -> Result<CString, Errno> {
    // SAFETY: the caller's promise.
    unsafe { text(name) }.map(CStr::to_owned).ok_or(Errno::EFAULT)
}

/// Copies the name inside a field, which may lack a NUL.
pub(crate) fn inline_name(field: &[c_char]) -> CString {
    let bytes = field.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0);
    CString::new(bytes.collect::<Vec<u8>>()).unwrap_or_default()
}
