//! Updates of one value: adding to it, setting it.
//!
//! A double becomes an integer as in C. Where C's standard leaves it open, a
//! negative number added to an unsigned metric subtracts, as gcc has it on 64-bit
//! machines; any other number out of range becomes the nearest one of the type
//! (for unsigned ones of 32 bits: of 64 bits, whose lower half counts).

#![warn(clippy::arithmetic_side_effects)]

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mmv_format::layout::{STRING_BYTES, TYPE_ELAPSED};
use mmv_writer::handle::Number;
use pcp_types::ValueType;

use crate::abi::{AtomValue, Map};
use crate::metadata::{MappedValue, Metadata, TEXT_WORDS};

const TYPE_I32: i32 = ValueType::I32.code();
const TYPE_U32: i32 = ValueType::U32.code();
const TYPE_I64: i32 = ValueType::I64.code();
const TYPE_U64: i32 = ValueType::U64.code();
const TYPE_FLOAT: i32 = ValueType::Float.code();
const TYPE_DOUBLE: i32 = ValueType::Double.code();
pub(crate) const TYPE_STRING: i32 = ValueType::String.code();

/// Limit on texts in bytes, as in libpcp_mmv; longer ones are ignored.
const LONGEST_TEXT: usize = STRING_BYTES - 2;

/// A value of a map, and its type.
pub(crate) struct Value<'call> {
    metadata: Metadata,
    entry: &'call MappedValue,
    type_code: i32,
}

/// A number in all types that a metric can have.
pub(crate) trait Amount: Copy {
    fn i32(self) -> i32;
    fn u32(self) -> u32;
    fn i64(self) -> i64;
    fn u64(self) -> u64;
    fn f32(self) -> f32;
    fn f64(self) -> f64;
    /// Returns whether the number begins an interval of elapsed time.
    fn is_start(self) -> bool {
        self.i64() < 0
    }
}

impl Value<'_> {
    /// Returns a value of a map; `None` if either pointer is null.
    ///
    /// # Safety
    ///
    /// The caller's promise; the result is used during the call only.
    #[inline]
    pub(crate) unsafe fn from_raw(map: Map, value: *mut AtomValue) -> Option<Self> {
        // SAFETY: the caller's promise.
        let metadata = unsafe { Metadata::from_raw(map) }?;
        // SAFETY: the caller's promise.
        let entry = unsafe { MappedValue::from_raw(value) }?;
        Some(Self { metadata, entry, type_code: metadata.type_code(entry) })
    }

    /// Returns whether a number of the metric's type has only four bytes.
    pub(crate) fn is_narrow(&self) -> bool {
        matches!(self.type_code, TYPE_I32 | TYPE_U32 | TYPE_FLOAT)
    }

    pub(crate) fn is_text(&self) -> bool {
        self.type_code == TYPE_STRING
    }

    /// Adds a number. For elapsed time a negative number is minus the start of an interval, any
    /// other its end, or a duration if there was no start.
    #[inline]
    pub(crate) fn add(&self, amount: impl Amount) {
        let MappedValue { cell, extra, .. } = self.entry;
        match self.type_code {
            TYPE_I32 => add_to(cell, amount.i32()),
            TYPE_U32 => add_to(cell, amount.u32()),
            TYPE_I64 => _ = cell.fetch_add(amount.i64().cast_unsigned(), Ordering::Relaxed),
            TYPE_U64 => _ = cell.fetch_add(amount.u64(), Ordering::Relaxed),
            TYPE_FLOAT => add_to(cell, amount.f32()),
            TYPE_DOUBLE => add_to(cell, amount.f64()),
            TYPE_ELAPSED if amount.is_start() => extra.store(amount.i64(), Ordering::Relaxed),
            TYPE_ELAPSED => self.close(extra.swap(0, Ordering::Relaxed), amount.i64()),
            _ => {}
        }
    }

    /// Adds one. For elapsed time whose cell is negative, one is added to `extra`, as in
    /// libpcp_mmv.
    #[inline]
    pub(crate) fn increment(&self) {
        let MappedValue { cell, extra, .. } = self.entry;
        // Most counters; a jump through a table would cost half as much again.
        if matches!(self.type_code, TYPE_I64 | TYPE_U64) {
            cell.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if self.type_code == TYPE_ELAPSED && cell.load(Ordering::Relaxed).cast_signed() < 0 {
            extra.fetch_add(1, Ordering::Relaxed);
        } else {
            self.add(1.0);
        }
    }

    /// Ends an interval at `now`, in microseconds since 1970. An elapsed time
    /// without a running interval does not change.
    pub(crate) fn end_interval(&self, now: f64) {
        if self.type_code != TYPE_ELAPSED {
            return self.add(now);
        }
        let started = self.entry.extra.swap(0, Ordering::Relaxed);
        if started != 0 {
            self.close(started, now.i64());
        }
    }

    fn close(&self, started: i64, ended: i64) {
        let elapsed = started.wrapping_add(ended).cast_unsigned();
        self.entry.cell.fetch_add(elapsed, Ordering::Relaxed);
    }

    /// Sets a number. Does nothing to a text.
    pub(crate) fn set(&self, number: f64) {
        let word = match self.type_code {
            TYPE_I32 => number.i32().to_cell(),
            TYPE_U32 => number.u32().to_cell(),
            TYPE_I64 | TYPE_ELAPSED => number.i64().to_cell(),
            TYPE_U64 => number.u64().to_cell(),
            TYPE_FLOAT => number.f32().to_cell(),
            TYPE_DOUBLE => number.to_cell(),
            _ => return,
        };
        self.set_word(word);
    }

    /// Sets all eight bytes, and ends a running interval without counting it.
    pub(crate) fn set_word(&self, word: u64) {
        if self.type_code == TYPE_ELAPSED {
            self.entry.extra.store(0, Ordering::Relaxed);
        }
        self.entry.cell.store(word, Ordering::Relaxed);
    }

    /// Sets a text. Does nothing if the value is a number or the new text is too
    /// long.
    pub(crate) fn set_text(&self, text: &[u8]) {
        if !self.is_text() || text.len() > LONGEST_TEXT {
            return;
        }
        let mut bytes = [0; STRING_BYTES];
        for (to, from) in bytes.iter_mut().zip(text) {
            *to = *from;
        }
        let (words, _) = bytes.as_chunks();
        let extra = self.entry.extra.load(Ordering::Relaxed);
        let there: &[AtomicU64; TEXT_WORDS] = self.metadata.text(extra);
        alone(|| {
            for (to, from) in there.iter().zip(words) {
                to.store(u64::from_ne_bytes(*from), Ordering::Relaxed);
            }
            // Cosmetic: readers take the text from its entry.
            self.entry.cell.store((text.len() as u32).to_cell(), Ordering::Relaxed);
        });
    }
}

/// Adds to a number of a type without an atomic instruction for that.
#[inline]
fn add_to<T: Number>(cell: &AtomicU64, amount: T) {
    let _ = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
        Some(T::from_cell(word).plus(amount).to_cell())
    });
}

/// Runs `write` while no other thread of this process writes a text.
///
/// It waits for some microseconds only, and then continues: the other
/// may be the very thread that a signal handler has interrupted, or one that was
/// left over from a fork, and neither may hang.
fn alone(write: impl FnOnce()) {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    const MAX_ATTEMPTS: u32 = 10_000;
    let taken = (0..MAX_ATTEMPTS).any(|_| {
        let taken = !TAKEN.swap(true, Ordering::Acquire);
        if !taken {
            spin_loop();
        }
        taken
    });
    write();
    if taken {
        TAKEN.store(false, Ordering::Release);
    }
}

impl Amount for f64 {
    fn i32(self) -> i32 {
        self as i32
    }
    fn u32(self) -> u32 {
        self as i64 as u32
    }
    fn i64(self) -> i64 {
        self as i64
    }
    fn u64(self) -> u64 {
        if self < 0.0 { (self as i64).cast_unsigned() } else { self as u64 }
    }
    fn f32(self) -> f32 {
        self as f32
    }
    fn f64(self) -> f64 {
        self
    }
    fn is_start(self) -> bool {
        // Also where it is zero as an integer.
        self < 0.0
    }
}

/// A `pmAtomValue`, of which each type reads the bytes that it needs.
#[derive(Clone, Copy)]
pub(crate) struct Atom(pub(crate) u64);

impl Amount for Atom {
    fn i32(self) -> i32 {
        i32::from_cell(self.0)
    }
    fn u32(self) -> u32 {
        u32::from_cell(self.0)
    }
    fn i64(self) -> i64 {
        i64::from_cell(self.0)
    }
    fn u64(self) -> u64 {
        self.0
    }
    fn f32(self) -> f32 {
        f32::from_cell(self.0)
    }
    fn f64(self) -> f64 {
        f64::from_cell(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_become_integers_as_in_c() {
        assert_eq!((-1.0).u32(), u32::MAX);
        assert_eq!((-1.0).u64(), u64::MAX);
        assert_eq!((1.8e19).u64(), 18_000_000_000_000_000_000);
        assert_eq!((-2.9).i32(), -2);
        assert_eq!((4e9).u32(), 4_000_000_000);
        assert_eq!(f64::NAN.i64(), 0);
    }

    #[test]
    fn an_atom_is_read_by_the_type() {
        let word = u64::from_ne_bytes([1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!((Atom(word).i32(), Atom(word).u32(), Atom(word).u64()), (1, 1, word));
        assert_eq!(Atom(0.5f32.to_cell()).f32().to_bits(), 0.5f32.to_bits());
    }

    #[test]
    fn a_writer_whose_lock_is_never_freed_does_not_hang() {
        let mut inner = false;
        alone(|| alone(|| inner = true));
        assert!(inner);
    }
}
