//! Values by name (`mmv_lookup_value_desc(3)`).

use std::ffi::c_char;
use std::ptr;

use nix::libc::strcmp;

use crate::abi::{AtomValue, Map};
use crate::metadata::{MappedValue, Metadata};

/// Returns the value of a metric and, unless that is singular, of an instance.
///
/// Returns null if there is no such value, or no metric is named, or no instance where one is
/// needed. Scans all values: keep the result.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_lookup_value_desc(
    map: Map,
    metric: *const c_char,
    instance: *const c_char,
) -> *mut AtomValue {
    if metric.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    let Some(metadata) = (unsafe { Metadata::from_raw(map) }) else { return ptr::null_mut() };
    // The values of a metric stand together: its name is compared once.
    let mut previous: Option<(&MappedValue, bool)> = None;
    for entry in metadata.values() {
        let known = previous.filter(|(other, _)| Metadata::is_same_metric(entry, other));
        let matches = match known {
            Some((_, matches)) => matches,
            // SAFETY: the file's names end in a NUL, so does the caller's.
            None => unsafe { strcmp(metadata.metric_name(entry), metric) == 0 },
        };
        previous = Some((entry, matches));
        if !matches {
            continue;
        }
        if metadata.is_singular(entry) {
            return entry.as_value();
        }
        if instance.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: as above; the metric is not singular, so there is an instance.
        if unsafe { strcmp(metadata.instance_name(entry), instance) } == 0 {
            return entry.as_value();
        }
    }
    ptr::null_mut()
}
