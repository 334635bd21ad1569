//! Samples in one of the formats.

use std::time::Duration;

use pcp_types::Timestamp;

use super::columns::Column;
use super::{Failure, Format, Output, csv, jsonl, table};
use crate::Metadata;
use crate::cli::zone::Zone;
use crate::replay::{self, Replay, Sample};

/// What the writers of all formats work on.
pub(super) struct Report<'a> {
    pub(super) metadata: &'a Metadata,
    /// By metric.
    pub(super) pmids: Vec<String>,
    pub(super) columns: Vec<Column>,
    pub(super) zone: Zone,
    /// Places of the second that times in a table have.
    pub(super) places: usize,
    /// Places of floating point numbers, if any are asked for.
    pub(super) precision: Option<usize>,
    pub(super) width: usize,
}

/// Writes samples in one of the formats.
pub(super) struct Writer<'a> {
    out: Output,
    report: Report<'a>,
    /// The lines of a table.
    blocks: Option<table::Blocks>,
    format: Format,
    values: u64,
}

/// Samples made into text, or the lines of a table.
struct Made {
    text: Vec<u8>,
    /// The number of values in the text.
    values: u64,
    rows: Vec<table::Row>,
}

impl Made {
    fn new<'r>(
        report: &Report<'r>,
        format: Format,
        samples: impl Iterator<Item = Sample<'r>>,
    ) -> Result<Self, Failure> {
        let (mut out, mut rows) = (Output::unwritten(), Vec::new());
        let values = match format {
            Format::Csv => csv::write(&mut out, report, samples)?,
            Format::Jsonl => jsonl::write(&mut out, report, samples)?,
            Format::Table => {
                rows = samples.map(|sample| table::row(report, &sample)).collect();
                0
            }
        };
        Ok(Self { text: out.text, values, rows })
    }
}

impl<'a> Writer<'a> {
    /// Begins with what stands in front of all samples.
    pub(super) fn begin(report: Report<'a>, format: Format) -> Self {
        let mut out = Output::new();
        if format == Format::Csv {
            csv::write_head(&mut out, &report);
        }
        let blocks = (format == Format::Table).then(|| table::Blocks::new(&report));
        Self { out, report, blocks, format, values: 0 }
    }

    /// Writes samples; returns how many there were.
    pub(super) fn write<'r>(
        &mut self,
        samples: impl Iterator<Item = Sample<'r>>,
    ) -> Result<usize, Failure>
    where
        'a: 'r,
    {
        let mut count = 0;
        let samples = samples.inspect(|_| count += 1);
        let (out, report) = (&mut self.out, &self.report);
        self.values += match (self.format, &mut self.blocks) {
            (Format::Csv, _) => csv::write(out, report, samples)?,
            (_, Some(blocks)) => blocks.write(out, report, samples)?,
            (_, None) => jsonl::write(out, report, samples)?,
        };
        Ok(count)
    }

    /// Writes the samples of a window, `step` apart, which several threads make
    /// into text. `sample` has that at a moment.
    pub(super) fn write_window(
        &mut self,
        window: &mut replay::Window<'_>,
        step: Duration,
        sample: impl for<'r> Fn(&'r Replay<'_>, Timestamp) -> Option<Sample<'r>> + Sync,
    ) -> Result<(), Failure> {
        let Self { out, report, blocks, format, values } = self;
        let (report, format) = (&*report, *format);
        let made = |replay: &Replay<'_>, span| {
            let samples = replay::times(span, step).filter_map(|at| sample(replay, at));
            Made::new(report, format, samples)
        };
        window.for_each(made, |mut made| {
            *values += made.values;
            for row in made.rows {
                if let Some(blocks) = blocks {
                    *values += blocks.push(out, row)?;
                }
            }
            out.write_behind(&mut made.text)
        })
    }

    /// Writes what is left; returns the number of values.
    pub(super) fn finish(mut self) -> Result<u64, Failure> {
        if let Some(blocks) = self.blocks {
            blocks.finish(&mut self.out)?;
        }
        self.out.finish()?;
        Ok(self.values)
    }
}
