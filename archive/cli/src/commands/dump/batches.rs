//! Prints records on several threads, in their order.
//!
//! Formatting takes several times as long as reading. So one thread reads records
//! into batches and writes the text that the others make of them.

use pcp_archive::internal::parallel::{self, Jobs};
use pcp_archive::raw::RecordBatch;

use super::Dump;
use super::records::{Cache, Options, print_record, print_reversed};
use crate::Failure;
use crate::text::Output;
use crate::walk::Walk;

/// Bytes of a full batch.
const BATCH: usize = 128 * 1024;
/// Reading pauses while more bytes of records than this wait for their text.
const MAX_PENDING: usize = 2 * 1024 * 1024;

/// Consecutive records and their text.
#[derive(Default)]
struct Batch {
    records: RecordBatch,
    text: Vec<u8>,
}

/// A batch with its text, which ends early after a failure.
type PrintedBatch = (Batch, Result<(), Failure>);

/// The state of a thread between batches.
struct Printer<'a> {
    dump: Dump<'a>,
    options: &'a Options<'a>,
    cache: Cache<'a>,
}

impl Printer<'_> {
    fn print(&mut self, mut batch: Batch) -> PrintedBatch {
        self.dump.out.text = std::mem::take(&mut batch.text);
        let result = batch.records.records().try_for_each(|record| {
            print_record(&mut self.dump, self.options, &mut self.cache, &record)
        });
        batch.text = std::mem::take(&mut self.dump.out.text);
        (batch, result)
    }
}

/// Prints the records of the window.
pub(super) fn print(dump: &mut Dump<'_>, options: &Options<'_>) -> Result<(), Failure> {
    let mut outputs: Vec<Output> = Vec::new();
    outputs.resize_with(parallel::threads(), Output::detached);
    let printers = outputs.iter_mut().map(|out| Printer {
        dump: Dump {
            archive: dump.archive,
            zone: dump.zone.clone(),
            dates: dump.dates,
            labelled: dump.labelled.clone(),
            is_raw: dump.is_raw,
            out,
        },
        options,
        cache: Cache::default(),
    });
    let printers: Vec<Printer<'_>> = printers.collect();
    parallel::in_order(printers, Printer::print, |jobs| {
        Feeder { jobs, pending: 0, spare: Vec::new() }.feed(dump, options)
    })
}

/// Hands out batches and writes their text.
struct Feeder<'j, 'w> {
    jobs: &'j mut Jobs<'w, Batch, PrintedBatch>,
    /// Bytes of the records in all batches that are handed out.
    pending: usize,
    /// Batches whose memory is used again.
    spare: Vec<Batch>,
}

impl Feeder<'_, '_> {
    fn feed(mut self, dump: &mut Dump<'_>, options: &Options<'_>) -> Result<(), Failure> {
        let mut records = Walk::new(dump.archive, options.window, options.reverse)?;
        let mut has_start = !options.reverse;
        let mut batch = Batch::default();
        let read = loop {
            let record = match records.next() {
                Ok(Some(record)) => record,
                Ok(None) => break records.finish(),
                Err(failure) => match records.skip_damage(failure) {
                    Ok(()) => continue,
                    Err(failure) => break Err(failure),
                },
            };
            if !has_start && options.shows(&record) {
                print_reversed(dump, record.timestamp());
                has_start = true;
            }
            batch.records.push(&record);
            if batch.records.size() >= BATCH {
                self.hand_out(batch);
                while self.pending > MAX_PENDING && self.write_next(dump)? {}
                batch = self.spare.pop().unwrap_or_default();
            }
        };
        self.hand_out(batch);
        while self.write_next(dump)? {}
        read
    }

    fn hand_out(&mut self, batch: Batch) {
        self.pending += batch.records.size();
        self.jobs.push(batch);
    }

    /// Writes the text of the first batch that is handed out; false without one.
    fn write_next(&mut self, dump: &mut Dump<'_>) -> Result<bool, Failure> {
        let Some((mut batch, printed)) = self.jobs.pop() else { return Ok(false) };
        self.pending -= batch.records.size();
        dump.out.write_after(&mut batch.text)?;
        batch.records.clear();
        batch.text.clear();
        self.spare.push(batch);
        printed.map(|()| true)
    }
}
