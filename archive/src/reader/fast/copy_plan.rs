//! The places of the wanted values in the records of a shape, and their columns.
//!
//! In: a plan that the scan made of the first record of a shape, and a run of
//! records of that shape. Out: their values at the ends of the columns, as if each
//! record had been taken apart.

use super::RecordRun;
use crate::format::{number, value_block};
use crate::reader::column::Column;

/// The values to copy out of the records of a shape.
#[derive(Debug, Default)]
pub(crate) struct CopyPlan {
    pub(crate) steps: Vec<CopyStep>,
    /// The values of the metrics that are read, with those that are not
    /// copied: of other instances, and the second of an instance.
    pub(crate) values: usize,
    /// Bytes of all values that are not numbers.
    pub(crate) bytes: usize,
    /// The same values in excerpts of the records, if these are read faster.
    pub(crate) in_excerpt: Vec<CopyStep>,
}

/// A value: where in the record it is and in what form, and where its column
/// is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyStep {
    pub(crate) at: u32,
    pub(crate) form: ValueForm,
    pub(crate) metric: u32,
    pub(crate) place: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ValueForm {
    /// A number of four bytes.
    Word,
    /// A number of eight bytes.
    Long,
    /// This many bytes that are not numbers.
    Bytes(u32),
}

impl CopyPlan {
    /// Adds the values of the first `count` records of a run, column by column, to
    /// columns that are likely to have `likely_rows`.
    pub(crate) fn copy(
        &self,
        row: u32,
        run: &RecordRun<'_>,
        count: usize,
        columns: &mut [Vec<Column>],
        likely_rows: Option<usize>,
    ) {
        let rows = row..row + count as u32;
        let steps = if run.is_excerpt { &self.in_excerpt } else { &self.steps };
        for step in steps {
            let column = columns.get_mut(step.metric as usize);
            let Some(column) = column.and_then(|own| own.get_mut(step.place as usize)) else {
                continue;
            };
            if let Some(rows) = likely_rows {
                column.expect(rows);
            }
            let bytes = run.bytes.get(step.at as usize..);
            let stride = run.stride;
            let bytes = bytes.unwrap_or_default();
            match step.form {
                ValueForm::Word => gather(column.extend(rows.clone()), bytes, stride, number::word),
                ValueForm::Long => gather(column.extend(rows.clone()), bytes, stride, number::long),
                ValueForm::Bytes(len) => {
                    for (row, payload) in rows.clone().zip(bytes.chunks(stride)) {
                        let payload = payload.get(..len as usize).unwrap_or_default();
                        if let Some(value) = value_block::decode(column.value_type(), payload) {
                            column.push(row, value);
                        }
                    }
                }
            }
        }
    }
}

/// Reads numbers, the first of them at the start of `bytes`, the others
/// `stride` bytes apart. Not inlined: the loop needs all registers.
#[inline(never)]
fn gather(
    words: &mut [u64],
    mut bytes: &[u8],
    stride: usize,
    number: impl Fn(&[u8]) -> Option<u64>,
) {
    for word in words {
        *word = number(bytes).unwrap_or_default();
        bytes = bytes.get(stride..).unwrap_or_default();
    }
}
