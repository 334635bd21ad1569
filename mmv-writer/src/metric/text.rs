//! Values that are texts.

use std::sync::{Arc, Mutex, PoisonError};

use pcp_types::{Semantics, ValueType};

use super::{Handle, ValueSlot, sealed};
use crate::mapping::{Cell, Segment};
use mmv_format::layout::STRING_BYTES;

const WORDS: usize = STRING_BYTES / 8;

/// A text of at most 255 bytes, shared between threads.
///
/// Setting it takes a lock against other writers. Readers take none: one that
/// reads while the text changes may see words of the old and of the new one,
/// but always a NUL at its end.
#[derive(Debug, Clone)]
#[must_use]
pub struct Text {
    cell: Cell,
    slot: Arc<SharedText>,
}

impl Text {
    /// Makes a text that no reader sees.
    pub fn noop() -> Self {
        Self { cell: Cell::private(), slot: Arc::default() }
    }

    /// Replaces the text, cut at a NUL and to at most 255 bytes of whole characters.
    pub fn set(&self, text: &str) {
        let text = fitting(text);
        self.slot.set(text);
        // Cosmetic, as libpcp_mmv has it: readers take the text from its entry.
        self.cell.store(text.len() as u64);
    }
}

/// Returns the longest prefix of `text` that a string entry holds.
fn fitting(text: &str) -> &str {
    let text = text.split('\0').next().unwrap_or_default();
    let mut end = text.len().min(STRING_BYTES - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// A text, staged here until its file is published and has an entry for it.
#[derive(Debug, Default)]
pub(crate) struct SharedText(Mutex<TextState>);

#[derive(Debug, Default)]
struct TextState {
    words: [u64; WORDS],
    home: Option<(Arc<Segment>, usize)>,
}

impl SharedText {
    /// Replaces the text, cut to fit.
    pub(crate) fn set(&self, text: &str) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.words = words_of(text);
        state.write();
    }

    /// Moves the text to its string entry at offset `at` of a segment, which later changes also go
    /// to. Returns `false` if no entry can be there.
    pub(crate) fn place(&self, segment: &Arc<Segment>, at: usize) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.home = Some((Arc::clone(segment), at));
        state.write()
    }

    /// Keeps the text and later changes here until it has another place.
    pub(crate) fn displace(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).home = None;
    }
}

impl TextState {
    /// Copies the words to the entry, first to last. The entry's last byte is
    /// NUL in every text, hence at every moment.
    fn write(&self) -> bool {
        self.home.as_ref().is_none_or(|(segment, at)| segment.copy_in(*at, self.words.into_iter()))
    }
}

fn words_of(text: &str) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(text.as_bytes().chunks(8)) {
        let mut padded = [0; 8];
        for (to, from) in padded.iter_mut().zip(bytes) {
            *to = *from;
        }
        *word = u64::from_ne_bytes(padded);
    }
    words
}

impl Handle for Text {}

impl sealed::Handle for Text {
    const TYPE_CODE: i32 = ValueType::String.code();
    const SEMANTICS: Semantics = Semantics::Discrete;
    const IS_MEASURED: bool = false;

    fn from_slot(slot: ValueSlot) -> Self {
        Self { cell: slot.cell, slot: slot.text.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_a_nul_and_between_characters() {
        assert_eq!(fitting("abc"), "abc");
        assert_eq!(fitting("ab\0c"), "ab");
        let long = "x".repeat(254) + "\u{e9}";
        assert_eq!(fitting(&long), "x".repeat(254));
        assert_eq!(fitting(&"x".repeat(300)).len(), 255);
    }

    #[test]
    fn a_text_set_before_it_has_a_place_arrives_there() {
        let text = Text::noop();
        text.set("early");
        let segment = Arc::new(Segment::private(2 * WORDS));
        assert!(text.slot.place(&segment, STRING_BYTES));
        let first = |at: usize| segment.cell(at).unwrap().load().to_ne_bytes();
        assert_eq!(&first(STRING_BYTES), b"early\0\0\0");
        text.set("later");
        assert_eq!(&first(STRING_BYTES), b"later\0\0\0");
        assert_eq!(first(0), [0; 8]);
        assert!(!text.slot.place(&segment, STRING_BYTES + 8));
    }
}
