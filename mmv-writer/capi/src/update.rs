//! Counting, by a value that was looked up before (`mmv_inc_value(3)` and its
//! like). Nothing is done if the map or the value is null.
//!
//! All functions: [safety](crate#safety).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::slice;

use mmv_writer::handle::Number;

use crate::abi::{AtomValue, Map};
use crate::value::{Atom, Value};

/// Adds one.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_inc(map: Map, value: *mut AtomValue) {
    // SAFETY: the caller's promise.
    if let Some(value) = unsafe { Value::from_raw(map, value) } {
        value.increment();
    }
}

/// Adds a number, converted to the metric's type.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_inc_value(map: Map, value: *mut AtomValue, amount: f64) {
    // SAFETY: the caller's promise.
    if let Some(value) = unsafe { Value::from_raw(map, value) } {
        value.add(amount);
    }
}

/// Adds a number of the metric's type.
///
/// # Safety
///
/// See [the crate](crate#safety); `amount` is null or leads to such a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_inc_atomvalue(
    map: Map,
    value: *mut AtomValue,
    amount: *const AtomValue,
) {
    // SAFETY: the caller's promise.
    let Some(value) = (unsafe { Value::from_raw(map, value) }) else { return };
    if amount.is_null() || value.is_text() {
        return;
    }
    let word = if value.is_narrow() {
        // SAFETY: not null, so four bytes are there; of any alignment.
        unsafe { amount.cast::<u32>().read_unaligned() }.to_cell()
    } else {
        // SAFETY: not null, so eight bytes are there; of any alignment.
        unsafe { amount.cast::<u64>().read_unaligned() }
    };
    value.add(Atom(word));
}

/// Adds a number as [`mmv_inc_atomvalue`] does, with another pointer type.
///
/// # Safety
///
/// See [`mmv_inc_atomvalue`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_add(map: Map, value: *mut AtomValue, amount: *const c_void) {
    // SAFETY: the caller's promise.
    unsafe { mmv_inc_atomvalue(map, value, amount.cast()) }
}

/// Sets a number, converted to the metric's type.
///
/// # Safety
///
/// See [the crate](crate#safety).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_set_value(map: Map, value: *mut AtomValue, number: f64) {
    // SAFETY: the caller's promise.
    if let Some(value) = unsafe { Value::from_raw(map, value) } {
        value.set(number);
    }
}

/// Sets a number of the metric's type, with all eight bytes of `number`: all ones mean "no
/// value" in a file that has the SENTINEL flag. For a text metric, sets the text at the address
/// that `number` holds.
///
/// # Safety
///
/// See [the crate](crate#safety); `number` is null or leads to a `pmAtomValue`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_set_atomvalue(
    map: Map,
    value: *mut AtomValue,
    number: *const AtomValue,
) {
    // SAFETY: the caller's promise.
    let Some(value) = (unsafe { Value::from_raw(map, value) }) else { return };
    if number.is_null() {
        return;
    }
    if !value.is_text() {
        // SAFETY: not null, so a `pmAtomValue` is there. C may have set a part of
        // it only; the others are bytes in memory that only C knows.
        return value.set_word(unsafe { number.cast::<u64>().read_unaligned() });
    }
    // SAFETY: of a text, the member `cp` is set.
    let text = unsafe { number.cast::<*const c_char>().read_unaligned() };
    if !text.is_null() {
        // SAFETY: not null, so it ends in a NUL.
        value.set_text(unsafe { CStr::from_ptr(text) }.to_bytes());
    }
}

/// Sets a value as [`mmv_set_atomvalue`] does, with another pointer type.
///
/// # Safety
///
/// See [`mmv_set_atomvalue`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_set(map: Map, value: *mut AtomValue, number: *const c_void) {
    // SAFETY: the caller's promise.
    unsafe { mmv_set_atomvalue(map, value, number.cast()) }
}

/// Sets a text of `size` bytes, at most 254; ignores a longer one.
///
/// # Safety
///
/// See [the crate](crate#safety); `text` is null or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmv_set_string(
    map: Map,
    value: *mut AtomValue,
    text: *const c_char,
    size: c_int,
) {
    // SAFETY: the caller's promise.
    let Some(value) = (unsafe { Value::from_raw(map, value) }) else { return };
    let Ok(size) = usize::try_from(size) else { return };
    if !text.is_null() {
        // SAFETY: not null, so it has that many bytes.
        value.set_text(unsafe { slice::from_raw_parts(text.cast(), size) });
    }
}
