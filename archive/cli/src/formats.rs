//! Samples as a table, CSV or JSON Lines.
//!
//! [`Writer`] takes samples in the order of their times and writes them in one
//! format; a window is converted to text by several threads.

pub(crate) mod csv;
pub(crate) mod jsonl;
pub(crate) mod table;

use std::time::Duration;

use clap::ValueEnum;
use pcp_archive::replay::{self, Replay, Sample};
use pcp_archive::{Metadata, Timestamp};

use crate::Failure;
use crate::columns::Column;
use crate::text::Output;
use crate::time::Zone;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One line per time, one column per instance
    Table,
    /// Comma-separated values (RFC 4180), times in RFC 3339
    Csv,
    /// One JSON object per value
    Jsonl,
}

/// The columns and the options of a report.
pub(crate) struct Report<'a> {
    pub(crate) metadata: &'a Metadata,
    /// The PMIDs as text, by metric.
    pub(crate) pmids: Vec<String>,
    pub(crate) columns: Vec<Column>,
    pub(crate) zone: Zone,
    /// Decimal places of the seconds of times in a table.
    pub(crate) places: usize,
    /// Decimal places of floating-point numbers, if given.
    pub(crate) precision: Option<usize>,
    pub(crate) width: usize,
    /// The text in the title of a table for people: the date of all times, which the rows lack, or
    /// nothing. `None` for a table of exact numbers with whole names.
    pub(crate) title: Option<String>,
    /// The lines of a table that has room for no more; panels beyond are left out.
    pub(crate) max_lines: Option<usize>,
    /// Events, which are printed between the rows of a table.
    pub(crate) events: Vec<(Timestamp, String)>,
}

impl Report<'_> {
    fn time_text(&self, zone: &Zone, at: Timestamp) -> String {
        let has_date = self.title.as_ref().is_none_or(String::is_empty);
        table::time_text(zone, at, self.places, has_date)
    }
}

pub(crate) struct Writer<'a> {
    out: Output,
    report: Report<'a>,
    /// The rows of a table that are not written yet.
    blocks: Option<table::Blocks>,
    format: Format,
    values: u64,
}

/// The result of writing a report.
pub(crate) struct WriteSummary {
    pub(crate) values: u64,
    /// The places of the columns for which there was no room.
    pub(crate) left_out: Vec<usize>,
}

/// Samples as text, or as the rows of a table.
struct FormattedSamples {
    text: Vec<u8>,
    values: u64,
    rows: Vec<table::Row>,
}

impl FormattedSamples {
    fn new<'r>(
        report: &Report<'r>,
        zone: &Zone,
        format: Format,
        samples: impl Iterator<Item = Sample<'r>>,
    ) -> Result<Self, Failure> {
        let mut out = Output::detached();
        let mut rows = Vec::new();
        let values = match format {
            Format::Csv => csv::write(&mut out, report, zone, samples)?,
            Format::Jsonl => jsonl::write(&mut out, report, samples)?,
            Format::Table => {
                rows = samples.map(|sample| table::row(report, zone, &sample)).collect();
                0
            }
        };
        Ok(Self { text: out.text, values, rows })
    }
}

impl<'a> Writer<'a> {
    /// Begins the output: CSV has a header.
    pub(crate) fn begin(report: Report<'a>, format: Format) -> Self {
        let mut out = Output::new();
        if format == Format::Csv {
            csv::write_header(&mut out, &report);
        }
        let blocks = (format == Format::Table).then(|| table::Blocks::new(&report));
        Self { out, report, blocks, format, values: 0 }
    }

    /// Writes samples; returns their number.
    pub(crate) fn write<'r>(
        &mut self,
        samples: impl Iterator<Item = Sample<'r>>,
    ) -> Result<usize, Failure>
    where
        'a: 'r,
    {
        let mut count = 0;
        let samples = samples.inspect(|_| count += 1);
        let out = &mut self.out;
        let report = &self.report;
        self.values += match (self.format, &mut self.blocks) {
            (Format::Csv, _) => csv::write(out, report, &report.zone, samples)?,
            (_, Some(blocks)) => blocks.write(out, report, samples)?,
            (_, None) => jsonl::write(out, report, samples)?,
        };
        Ok(count)
    }

    /// Writes the samples of a window, `step` apart, formatted by several threads.
    /// `sample` returns the one at a time.
    pub(crate) fn write_window(
        &mut self,
        window: &mut replay::Window<'_>,
        step: Duration,
        sample: impl for<'r> Fn(&'r Replay<'_>, Timestamp) -> Option<Sample<'r>> + Sync,
    ) -> Result<(), Failure> {
        let Self { out, report, blocks, format, values } = self;
        let report = &*report;
        let format = *format;
        window.for_each(
            |replay, span| {
                let samples =
                    replay::times(span, step).filter_map(|timestamp| sample(replay, timestamp));
                // Each thread is at another time, of which its own zone keeps the offset.
                FormattedSamples::new(report, &report.zone.clone(), format, samples)
            },
            |mut formatted| {
                *values += formatted.values;
                for row in formatted.rows {
                    if let Some(blocks) = blocks {
                        *values += blocks.push(out, row)?;
                    }
                }
                out.write_after(&mut formatted.text)
            },
        )
    }

    /// Writes the remaining rows.
    pub(crate) fn finish(mut self) -> Result<WriteSummary, Failure> {
        let mut left_out = Vec::new();
        if let Some(blocks) = self.blocks {
            left_out = blocks.finish(&mut self.out)?;
        }
        self.out.finish()?;
        Ok(WriteSummary { values: self.values, left_out })
    }
}
