//! Records printed by several threads, in their order.
//!
//! Making text takes several times as long as reading. So one thread reads,
//! gathers records in batches and writes what the others make of them:
//!
//! ```text
//! read  batch 1  batch 2  batch 3   ..
//!          |        |        |
//!       thread a thread b thread a
//!          |        |        |
//! write text 1   text 2   text 3    ..
//! ```

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::super::failure::Failure;
use super::super::output::Output;
use super::Dump;
use super::records::{Knowledge, Options, print_record, print_reversed};
use super::walk::Walk;
use crate::Record;
use crate::format::layout::Layouts;

/// More threads than this wait for the one that reads.
const MAX_THREADS: usize = 8;
/// A batch ends with the record that makes it so many bytes large.
const BATCH: usize = 128 * 1024;
/// No more is read while so many bytes of records wait to be printed.
const MAX_WAITING: usize = 2 * 1024 * 1024;

/// Records that follow each other, and the text that they become.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    records: Vec<Place>,
    text: Vec<u8>,
}

/// Where a record is, and how many bytes it has.
struct Place {
    volume: u32,
    offset: u64,
    len: usize,
}

/// A batch to print, and who waits for it.
struct Job {
    batch: Batch,
    done: Sender<Printed>,
}

/// A batch with its text, which ends early if printing failed.
type Printed = (Batch, Result<(), Failure>);

impl Batch {
    fn push(&mut self, record: &Record<'_>) {
        let (volume, offset, len) = (record.volume(), record.offset(), record.size());
        self.bytes.extend_from_slice(record.bytes());
        self.records.push(Place { volume, offset, len });
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        self.text.clear();
    }
}

/// Prints the records of the window.
pub(super) fn print(dump: &mut Dump<'_>, options: &Options<'_>) -> Result<(), Failure> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    let (jobs, taken) = mpsc::channel();
    let taken = Mutex::new(taken);
    let (archive, dates) = (dump.archive, dump.dates);
    thread::scope(|scope| {
        for _ in 0..threads {
            let (taken, zone) = (&taken, dump.zone.clone());
            scope.spawn(move || {
                let mut out = Output::unwritten();
                let mut dump = Dump { archive, zone, dates, out: &mut out };
                let mut printer = Printer::default();
                while let Some(job) = next(taken) {
                    let mut batch = job.batch;
                    dump.out.text = std::mem::take(&mut batch.text);
                    let result = printer.print(&mut dump, options, &batch);
                    batch.text = std::mem::take(&mut dump.out.text);
                    // Nobody waits if writing has failed.
                    let _ = job.done.send((batch, result));
                }
            });
        }
        // Dropped with the last batch: the threads end.
        Feeder { jobs, waiting: VecDeque::new(), bytes: 0, spare: Vec::new() }.feed(dump, options)
    })
}

fn next(taken: &Mutex<Receiver<Job>>) -> Option<Job> {
    taken.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// What a thread knows from batch to batch.
#[derive(Default)]
struct Printer<'a> {
    knowledge: Knowledge<'a>,
    layouts: Layouts,
}

impl<'a> Printer<'a> {
    fn print(
        &mut self,
        dump: &mut Dump<'a>,
        options: &Options<'_>,
        batch: &Batch,
    ) -> Result<(), Failure> {
        let version = dump.archive.version();
        let mut rest = batch.bytes.as_slice();
        for &Place { volume, offset, len } in &batch.records {
            let (bytes, behind) = rest.split_at_checked(len).unwrap_or_default();
            rest = behind;
            let record = Record::parse_like(version, bytes, volume, offset, &mut self.layouts);
            // It was whole when it was read.
            let Ok(record) = record else { continue };
            print_record(dump, options, &mut self.knowledge, &record)?;
        }
        Ok(())
    }
}

/// Hands out batches, and writes their text in their order.
struct Feeder {
    jobs: Sender<Job>,
    /// How many bytes each batch has, and where it comes back.
    waiting: VecDeque<(usize, Receiver<Printed>)>,
    /// In all of them.
    bytes: usize,
    /// Batches whose memory is used again.
    spare: Vec<Batch>,
}

impl Feeder {
    fn feed(mut self, dump: &mut Dump<'_>, options: &Options<'_>) -> Result<(), Failure> {
        let mut records = Walk::new(dump.archive, options.window, options.reverse)?;
        let mut is_told = !options.reverse;
        let mut batch = Batch::default();
        let read = loop {
            let record = match records.next() {
                Ok(Some(record)) => record,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            if !is_told && options.shows(&record) {
                print_reversed(dump, record.timestamp());
                is_told = true;
            }
            batch.push(&record);
            if batch.bytes.len() >= BATCH {
                self.hand_out(batch);
                while self.bytes > MAX_WAITING {
                    self.write_next(dump)?;
                }
                batch = self.spare.pop().unwrap_or_default();
            }
        };
        self.hand_out(batch);
        while !self.waiting.is_empty() {
            self.write_next(dump)?;
        }
        read
    }

    fn hand_out(&mut self, batch: Batch) {
        let (done, back) = mpsc::channel();
        self.bytes += batch.bytes.len();
        self.waiting.push_back((batch.bytes.len(), back));
        // The threads take jobs until they are dropped with this.
        let _ = self.jobs.send(Job { batch, done });
    }

    /// Writes the text of the batch handed out first.
    fn write_next(&mut self, dump: &mut Dump<'_>) -> Result<(), Failure> {
        let Some((bytes, back)) = self.waiting.pop_front() else { return Ok(()) };
        self.bytes -= bytes;
        // A thread that panics ends the scope with its panic.
        let Ok((mut batch, printed)) = back.recv() else { return Ok(()) };
        dump.out.write_behind(&mut batch.text)?;
        batch.clear();
        self.spare.push(batch);
        printed
    }
}
