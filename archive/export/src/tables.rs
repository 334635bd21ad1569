//! Archives as tables: Parquet, CSV or JSON Lines in folders that other engines read.
//!
//! In: the steps of a host's [walk](crate::walk). Out: files
//! `TABLE/host=HOST/date=YYYY-MM-DD/part-ARCHIVE-N.parquet`, as `docs/engines/parquet.md`
//! defines them. Memory is bounded by a budget for rows, whatever the length of the archives.
//!
//! ```text
//! step --> host: which table, row and column --> table: rows in memory
//!                                                   \--> writer: row groups --> file
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `naming` | names of tables and columns |
//! | `batch` | columns and keys of rows in memory |
//! | `table` | the rows of a table, and the file that they go to |
//! | `host` | from steps to rows |
//! | `writer` | Parquet |
//! | `text` | CSV and JSON Lines |
//! | `file` | files that only appear when they are complete |

mod batch;
mod file;
mod host;
mod naming;
mod table;
mod text;
mod writer;

use std::collections::BTreeMap;
use std::path::PathBuf;

use hashbrown::HashMap;
use pcp_archive::{Error, Result, Timestamp};

use crate::selection::MetricSelection;
use crate::tree::Host;
use crate::walk::{LeftOutCounts, Start, Walk, nanos};
use host::HostTables;
use naming::ColumnNames;

/// The format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Apache Parquet files.
    Parquet,
    /// Comma-separated values with a header.
    Csv,
    /// One JSON object per line.
    JsonLines,
}

impl Format {
    const fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::JsonLines => "jsonl",
        }
    }
}

/// Options of an export.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory of the tables, created if it is missing.
    pub directory: PathBuf,
    /// The format of the files.
    pub format: Format,
    /// Whether to write one table with a row for each value, instead of a table for each instance
    /// domain.
    pub is_narrow: bool,
    /// The metrics and instances.
    pub selection: MetricSelection,
    /// The first time; `None` for all.
    pub start: Option<Timestamp>,
    /// The last time; `None` for all.
    pub finish: Option<Timestamp>,
}

/// Counts of what was written to a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of files.
    pub files: u64,
    /// The number of rows.
    pub rows: u64,
    /// Values that are not null, without the columns of times, instances and labels.
    pub values: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// A file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct WriteError {
    /// The file or directory.
    pub path: PathBuf,
    /// The error of the system.
    pub source: std::io::Error,
}

/// Writes the tables of hosts, one host after the other.
#[derive(Debug)]
pub struct Exporter {
    options: Options,
    totals: BTreeMap<String, Totals>,
    /// The names of columns by table, the same in the files of all hosts.
    names: HashMap<String, ColumnNames>,
    left_out: LeftOutCounts,
    rounded: u64,
}

impl Exporter {
    /// Creates an exporter; nothing is written yet.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            totals: BTreeMap::new(),
            names: HashMap::new(),
            left_out: LeftOutCounts::default(),
            rounded: 0,
        }
    }

    /// Returns the totals by the names of tables.
    pub const fn totals(&self) -> &BTreeMap<String, Totals> {
        &self.totals
    }

    /// Returns counts of values that are in no table.
    pub const fn left_out(&self) -> LeftOutCounts {
        self.left_out
    }

    /// Returns the number of integers beyond 2^53 that narrow tables have as the nearest double.
    pub const fn rounded(&self) -> u64 {
        self.rounded
    }

    /// Writes the tables of a host, and returns false if some of it cannot be read. `report` gets
    /// each reason.
    ///
    /// # Errors
    ///
    /// [`WriteError`] if a file cannot be written. The files that are complete stay.
    pub fn write_host(
        &mut self,
        host: &Host,
        report: &mut dyn FnMut(&Error),
    ) -> std::result::Result<bool, WriteError> {
        let start = self.options.start.map_or(Start::First, Start::Time);
        let mut walk = match Walk::new(host.archives.clone(), start) {
            Ok(walk) => walk.select(&self.options.selection),
            Err(error) => {
                report(&error);
                return Ok(false);
            }
        };
        let finish = self.options.finish.map_or(i64::MAX, nanos);
        let first = self.options.start.map_or(i64::MIN, nanos);
        let mut tables = HostTables::new(self, &host.name);
        let mut errors = Errors::default();
        loop {
            match walk.next() {
                Ok(Some(step)) if step.timestamp > finish => break,
                Ok(Some(step)) => {
                    errors.in_a_row = 0;
                    tables.take(&step, first)?;
                    continue;
                }
                Ok(None) => break,
                Err(error) => report(&error),
            }
            if errors.is_last(host.archives.bases()) {
                break;
            }
            if walk.recover().is_none() {
                break;
            }
        }
        tables.finish()?;
        self.left_out = added(self.left_out, walk.counts());
        Ok(errors.all == 0)
    }
}

/// Counts of the errors of a walk.
#[derive(Debug, Default)]
struct Errors {
    all: u64,
    in_a_row: usize,
}

impl Errors {
    /// Counts an error, and returns whether to give up: the archives cannot be listed, or there are
    /// more errors in a row than archives.
    fn is_last(&mut self, bases: Result<Vec<PathBuf>>) -> bool {
        self.all += 1;
        self.in_a_row += 1;
        bases.map_or(true, |bases| self.in_a_row > bases.len() + 1)
    }
}

fn added(one: LeftOutCounts, other: LeftOutCounts) -> LeftOutCounts {
    LeftOutCounts {
        strings: one.strings + other.strings,
        events: one.events + other.events,
        opaque: one.opaque + other.opaque,
        unknown: one.unknown + other.unknown,
        damaged: one.damaged + other.damaged,
    }
}

#[cfg(test)]
mod tests;
