//! Counting by name: `lookup`, then `update`. Nothing is done if there is no such
//! value.
//!
//! All functions: [safety](crate#safety).

use std::ffi::{CStr, c_char, c_int};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::abi::{AtomValue, Map};
use crate::lookup::mmv_lookup_value_desc;
use crate::update::{mmv_inc_value, mmv_set_string, mmv_set_value};
use crate::value::Value;

/// Adds a number.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_add(
    map: Map,
    metric: *const c_char,
    instance: *const c_char,
    amount: f64,
) {
    // SAFETY: the caller's promise.
    let value = unsafe { mmv_lookup_value_desc(map, metric, instance) };
    // SAFETY: the caller's promise; the value is of this map.
    unsafe { mmv_inc_value(map, value, amount) }
}

/// Adds one.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_inc(map: Map, metric: *const c_char, instance: *const c_char) {
    // SAFETY: the caller's promise.
    unsafe { mmv_stats_add(map, metric, instance, 1.0) }
}

/// Adds a number to an instance or, if there is no such one, to another.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_add_fallback(
    map: Map,
    metric: *const c_char,
    instance: *const c_char,
    other: *const c_char,
    amount: f64,
) {
    // SAFETY: the caller's promise.
    let mut value = unsafe { mmv_lookup_value_desc(map, metric, instance) };
    if value.is_null() {
        // SAFETY: the caller's promise.
        value = unsafe { mmv_lookup_value_desc(map, metric, other) };
    }
    // SAFETY: the caller's promise; the value is of this map.
    unsafe { mmv_inc_value(map, value, amount) }
}

/// Adds one to an instance or, if there is no such one, to another.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_inc_fallback(
    map: Map,
    metric: *const c_char,
    instance: *const c_char,
    other: *const c_char,
) {
    // SAFETY: the caller's promise.
    unsafe { mmv_stats_add_fallback(map, metric, instance, other, 1.0) }
}

/// Sets a number.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_set(
    map: Map,
    metric: *const c_char,
    instance: *const c_char,
    number: f64,
) {
    // SAFETY: the caller's promise.
    let value = unsafe { mmv_lookup_value_desc(map, metric, instance) };
    // SAFETY: the caller's promise; the value is of this map.
    unsafe { mmv_set_value(map, value, number) }
}

/// Sets a text that ends in a NUL.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_set_string(
    map: Map,
    metric: *const c_char,
    instance: *const c_char,
    text: *const c_char,
) {
    if text.is_null() {
        return;
    }
    // SAFETY: not null, so it ends in a NUL.
    let size = unsafe { CStr::from_ptr(text) }.count_bytes();
    // SAFETY: the caller's promise; the text has this many bytes.
    unsafe { mmv_stats_set_strlen(map, metric, instance, text, size) }
}

/// Sets a text of `size` bytes.
///
/// # Safety
///
/// See [the crate](crate#safety); `text` is null or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_set_strlen(
    map: Map,
    metric: *const c_char,
    instance: *const c_char,
    text: *const c_char,
    size: usize,
) {
    // SAFETY: the caller's promise.
    let value = unsafe { mmv_lookup_value_desc(map, metric, instance) };
    let Ok(size) = c_int::try_from(size) else { return };
    // SAFETY: the caller's promise; the value is of this map.
    unsafe { mmv_set_string(map, value, text, size) }
}

/// Begins an interval of a value or, if that is null, of the value with these names. Returns the
/// value.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_interval_start(
    map: Map,
    value: *mut AtomValue,
    metric: *const c_char,
    instance: *const c_char,
) -> *mut AtomValue {
    let mut value = value;
    if value.is_null() {
        // SAFETY: the caller's promise.
        value = unsafe { mmv_lookup_value_desc(map, metric, instance) };
    }
    // SAFETY: the caller's promise; the value is of this map.
    unsafe { mmv_inc_value(map, value, -now()) }
    value
}

/// Ends an interval.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_stats_interval_end(map: Map, value: *mut AtomValue) {
    // SAFETY: the caller's promise.
    if let Some(value) = unsafe { Value::from_raw(map, value) } {
        value.end_interval(now());
    }
}

/// Returns the microseconds since 1970, a whole number.
fn now() -> f64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_epoch.as_micros() as f64
}
