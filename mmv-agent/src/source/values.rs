//! One pass over a file's values: from the mapping into private memory.
//!
//! Values are copied first and encoded only after the checks that follow the
//! pass, so nothing unverified ever reaches a record: a truncated file reads as zeros
//! without a signal, and a generation may change halfway.

use mmv_format::mapping::ReadMapping;

use super::value_plan::ElapsedOffsets;
use super::{Allowance, TEXT_BYTES, ValuePlan};

/// Limit on readings of an interval timer that is opened or closed during the read;
/// after that the last reading counts.
const ELAPSED_TRIES: usize = 8;

/// Number of timers or strings after which a pass can be stopped: each may be on two pages.
const ENTRIES_PER_CHECK: usize = 8;

/// Returns whether a pass may read the entry of this number.
fn goes_on(number: usize, allowance: &Allowance) -> bool {
    let is_check = number % ENTRIES_PER_CHECK == ENTRIES_PER_CHECK - 1;
    !is_check || allowance.is_left()
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ReadOptions {
    /// Time since 1970 in microseconds, for timers that run.
    pub micros: i64,
    /// True if some cells mean "no value".
    pub sentinel: bool,
}

/// The values of one file after the last pass.
#[derive(Debug, Default)]
pub(crate) struct Values {
    /// One word for each value of the plan that is not a string: integers, floats and doubles as in
    /// the cell, timers in microseconds.
    words: Vec<u64>,
    /// True for each word that is a value; empty if all are.
    present: Vec<bool>,
    texts: Vec<Text>,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Text {
    start: usize,
    len: usize,
    present: bool,
}

impl Text {
    /// Returns the properties that the layout of a record depends on.
    fn shape(&self) -> (bool, usize) {
        (self.present, padded(self.len))
    }
}

impl Values {
    /// Creates an empty set of the values of `plan`.
    pub(crate) fn new(plan: &ValuePlan) -> Self {
        Self {
            words: vec![0; plan.wide().end],
            texts: vec![Text { start: 0, len: 0, present: false }; plan.texts().len()],
            ..Self::default()
        }
    }

    /// Creates a set of present values with these words.
    #[cfg(test)]
    pub(crate) fn of_words(words: &[u64]) -> Self {
        Self { words: words.to_vec(), ..Self::default() }
    }

    /// Reads every value, unless the allowance is exceeded before.
    ///
    /// Returns true if the record needs another shape than after the last pass: a value has come
    /// or gone, or a string has another padded length. Returns false, with nothing read, if the
    /// plan does not belong to this mapping.
    pub(super) fn read(
        &mut self,
        plan: &ValuePlan,
        from: &ReadMapping,
        options: ReadOptions,
        allowance: &Allowance,
    ) -> bool {
        let ReadOptions { micros, sentinel } = options;
        let timers = plan.elapsed_values().start;
        let Some(cells) = self.words.get_mut(..timers) else { return false };
        if !from.load_while(&plan.cells, cells, || allowance.is_left()) {
            return false;
        }
        let mut reshaped = false;
        if sentinel {
            reshaped |= self.note_absent(plan, timers);
        }
        for (index, elapsed) in plan.elapsed_values().zip(&plan.elapsed) {
            if !goes_on(index, allowance) {
                return reshaped;
            }
            let (value, open) = read_elapsed(from, *elapsed);
            if sentinel {
                reshaped |= self.note(index, value != u64::MAX);
            }
            // An interval that was opened after `micros` has not begun by then.
            let since = if open < 0 { micros.saturating_add(open).max(0) } else { 0 };
            self.words[index] = value.wrapping_add(since.cast_unsigned());
        }
        self.bytes.clear();
        for (number, &at) in plan.strings.iter().enumerate() {
            if !goes_on(number, allowance) {
                return reshaped;
            }
            reshaped |= self.read_text(number, from, at, sentinel);
        }
        reshaped
    }

    /// Reads every value of a file that has grown, as [`read`](Self::read) does. After that
    /// `others` calls its argument with the index of each value that belongs to another
    /// instance or to none; these become absent.
    pub(super) fn read_grown(
        &mut self,
        plan: &ValuePlan,
        from: &ReadMapping,
        options: ReadOptions,
        others: impl FnOnce(&mut dyn FnMut(usize)),
        allowance: &Allowance,
    ) -> bool {
        let words = self.present.clone();
        let texts: Vec<_> = self.texts.iter().map(Text::shape).collect();
        // Values that were absent may be there again.
        self.present.fill(true);
        self.read(plan, from, options, allowance);
        others(&mut |index| match index.checked_sub(self.words.len()) {
            None => {
                self.note(index, false);
            }
            Some(number) => {
                if let Some(text) = self.texts.get_mut(number) {
                    text.present = false;
                }
            }
        });
        let same_words = if words.is_empty() {
            self.present.iter().all(|present| *present)
        } else {
            words == self.present
        };
        !(same_words && self.texts.iter().map(Text::shape).eq(texts))
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns true if there is a value `index` of the plan, a string or not.
    pub(crate) fn is_present(&self, index: usize) -> bool {
        match index.checked_sub(self.words.len()) {
            None => self.present.get(index).copied().unwrap_or(true),
            Some(number) => self.texts.get(number).is_some_and(|text| text.present),
        }
    }

    /// Returns the string that is value `index` of the plan, without its NUL.
    pub(crate) fn text(&self, index: usize) -> &[u8] {
        index
            .checked_sub(self.words.len())
            .and_then(|number| self.texts.get(number))
            .and_then(|text| self.bytes.get(text.start..text.start + text.len))
            .unwrap_or_default()
    }

    fn note_absent(&mut self, plan: &ValuePlan, until: usize) -> bool {
        let mut reshaped = false;
        for index in 0..until {
            reshaped |= self.note(index, !plan.is_sentinel(index, self.words[index]));
        }
        reshaped
    }

    fn note(&mut self, index: usize, present: bool) -> bool {
        if self.present.is_empty() {
            self.present = vec![true; self.words.len()];
        }
        let was = std::mem::replace(&mut self.present[index], present);
        was != present
    }

    /// Copies a string and cuts it at its NUL. It may be written concurrently, so no length in the
    /// mapping can be trusted.
    fn read_text(&mut self, number: usize, from: &ReadMapping, at: usize, sentinel: bool) -> bool {
        let mut entry = [0u8; TEXT_BYTES];
        let copied = from.copy_out(at, &mut entry);
        // A full entry has no NUL: as in pmdammv, its last byte is dropped.
        let end = entry.iter().position(|&byte| byte == 0).unwrap_or(TEXT_BYTES - 1);
        let present = copied && !(sentinel && end == 0);
        let text = Text { start: self.bytes.len(), len: end, present };
        self.bytes.extend_from_slice(&entry[..end]);
        let was = std::mem::replace(&mut self.texts[number], text);
        was.shape() != text.shape()
    }
}

/// Returns the bytes of a string, its NUL and its padding in a record.
fn padded(len: usize) -> usize {
    (len + 1).next_multiple_of(4)
}

/// Reads a consistent pair of a timer's words: closing an interval changes the value first and the
/// other word second.
fn read_elapsed(from: &ReadMapping, at: ElapsedOffsets) -> (u64, i64) {
    let load = |at| from.load_u64(at).unwrap_or(0);
    let mut open = load(at.extra);
    for _ in 0..ELAPSED_TRIES {
        let value = load(at.cell);
        let again = load(at.extra);
        if again == open && load(at.cell) == value {
            return (value, open.cast_signed());
        }
        open = again;
    }
    (load(at.cell), open.cast_signed())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;

    use mmv_format::layout::{Header, SectionKind, TocEntry};
    use mmv_format::view::Contents;
    use mmv_writer::{Counter, Registry, Text};
    use zerocopy::{FromBytes, IntoBytes};

    use super::*;

    /// A file with the counter "busy" turned into a timer, whose two words are
    /// `value` and `open`, and the string "text".
    fn timer_file(value: u64, open: i64) -> (tempfile::TempDir, File) {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::builder("f").sealed().directory(dir.path()).build().unwrap();
        let _busy: Counter<u64> = registry.counter("busy").build().unwrap();
        let text: Text = registry.text("text").build().unwrap();
        registry.publish().unwrap();
        text.set("words");
        let mut bytes = fs::read(registry.path()).unwrap();
        let toc = |bytes: &[u8], kind: SectionKind| {
            let entries = bytes[Header::BYTES..].chunks_exact(TocEntry::BYTES);
            let mut entries = entries.map(|entry| TocEntry::read_from_bytes(entry).unwrap());
            entries.find(|entry| entry.kind == kind.code()).unwrap().offset as usize
        };
        let kind_at = toc(&bytes, SectionKind::Metrics) + 68;
        bytes[kind_at..kind_at + 4].copy_from_slice(9i32.as_bytes());
        let value_at = toc(&bytes, SectionKind::Values);
        bytes[value_at..value_at + 8].copy_from_slice(value.as_bytes());
        bytes[value_at + 8..value_at + 16].copy_from_slice(open.as_bytes());
        let path = dir.path().join("timer");
        fs::write(&path, &bytes).unwrap();
        (dir, File::options().read(true).write(true).open(path).unwrap())
    }

    fn read(file: &File, micros: i64, sentinel: bool) -> (Values, ValuePlan, ReadMapping) {
        let bytes = fs::read(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file)));
        let contents = Contents::parse(&bytes.unwrap()).unwrap();
        let mapping = ReadMapping::map(file).unwrap();
        let plan = ValuePlan::resolve(&contents, mapping.len()).unwrap();
        let mut values = Values::new(&plan);
        assert!(values.read(
            &plan,
            &mapping,
            ReadOptions { micros, sentinel },
            &Allowance::unlimited()
        ));
        (values, plan, mapping)
    }

    #[test]
    fn a_timer_counts_its_open_interval_up_to_now() {
        let (_dir, file) = timer_file(100, -1_000_000);
        let (values, ..) = read(&file, 1_000_250, false);
        assert_eq!(values.words(), [350]);
        let (_dir, file) = timer_file(100, 0);
        let (values, ..) = read(&file, 1_000_250, false);
        assert_eq!(values.words(), [100]);
    }

    #[test]
    fn interval_opened_after_timestamp_counts_zero() {
        let (_dir, file) = timer_file(100, -1_000_000);
        let (values, ..) = read(&file, 999_950, false);
        assert_eq!(values.words(), [100]);
    }

    #[test]
    fn a_timer_of_all_ones_is_no_value_with_the_flag_only() {
        let (_dir, file) = timer_file(u64::MAX, 0);
        assert!(read(&file, 0, false).0.is_present(0));
        assert!(!read(&file, 0, true).0.is_present(0));
    }

    #[test]
    fn strings_end_at_their_nul_or_before_the_last_byte() {
        let (_dir, file) = timer_file(0, 0);
        let (mut values, plan, mapping) = read(&file, 0, false);
        assert_eq!(values.text(1), b"words");
        assert!(
            !values.read(
                &plan,
                &mapping,
                ReadOptions { micros: 0, sentinel: false },
                &Allowance::unlimited()
            ),
            "nothing has changed"
        );
        file.write_all_at(&[b'x'; TEXT_BYTES], plan.strings[0] as u64).unwrap();
        assert!(
            values.read(
                &plan,
                &mapping,
                ReadOptions { micros: 0, sentinel: false },
                &Allowance::unlimited()
            ),
            "its length has changed"
        );
        assert_eq!(values.text(1), [b'x'; TEXT_BYTES - 1]);
    }

    #[test]
    fn only_another_padded_length_needs_another_shape() {
        let (_dir, file) = timer_file(0, 0);
        let (mut values, plan, mapping) = read(&file, 0, false);
        let at = plan.strings[0] as u64;
        for (text, reshaped) in
            [(&b"sevens\0"[..], false), (b"seven77\0", false), (b"eight888\0", true)]
        {
            file.write_all_at(text, at).unwrap();
            assert_eq!(
                values.read(
                    &plan,
                    &mapping,
                    ReadOptions { micros: 0, sentinel: false },
                    &Allowance::unlimited()
                ),
                reshaped,
                "{text:?}"
            );
        }
    }
}
