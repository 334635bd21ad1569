//! Prints what the numbers of archives take as columns of the codec pco: for each archive one line,
//! of bytes and of values.
//!
//! Each series, which is a metric and an instance, is one column of its type, and the times of all
//! records are one column of nanoseconds. Texts and aggregates are left out. This is a distance to
//! look at: a file that programs append to cannot have such columns.

use std::collections::BTreeMap;
use std::process::ExitCode;

use pco::ChunkConfig;
use pco::standalone::simple_compress;
use pcp_archive::{Archive, InstanceId, Pmid, Value};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The values of one series, in the order of time.
enum Column {
    I32(Vec<i32>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    U64(Vec<u64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
}

impl Column {
    /// Returns an empty column for values like this one, if it is a number.
    fn for_value(value: &Value<'_>) -> Option<Self> {
        Some(match value {
            Value::I32(_) => Self::I32(Vec::new()),
            Value::U32(_) => Self::U32(Vec::new()),
            Value::I64(_) => Self::I64(Vec::new()),
            Value::U64(_) => Self::U64(Vec::new()),
            Value::Float(_) => Self::Float(Vec::new()),
            Value::Double(_) => Self::Double(Vec::new()),
            _ => return None,
        })
    }

    fn push(&mut self, value: &Value<'_>) {
        match (self, value) {
            (Self::I32(column), Value::I32(value)) => column.push(*value),
            (Self::U32(column), Value::U32(value)) => column.push(*value),
            (Self::I64(column), Value::I64(value)) => column.push(*value),
            (Self::U64(column), Value::U64(value)) => column.push(*value),
            (Self::Float(column), Value::Float(value)) => column.push(*value),
            (Self::Double(column), Value::Double(value)) => column.push(*value),
            // All values of a metric have its type.
            _ => {}
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::I32(column) => column.len(),
            Self::U32(column) => column.len(),
            Self::I64(column) => column.len(),
            Self::U64(column) => column.len(),
            Self::Float(column) => column.len(),
            Self::Double(column) => column.len(),
        }
    }

    fn compressed(&self) -> Result<usize> {
        let config = ChunkConfig::default();
        let bytes = match self {
            Self::I32(column) => simple_compress(column, &config),
            Self::U32(column) => simple_compress(column, &config),
            Self::I64(column) => simple_compress(column, &config),
            Self::U64(column) => simple_compress(column, &config),
            Self::Float(column) => simple_compress(column, &config),
            Self::Double(column) => simple_compress(column, &config),
        };
        Ok(bytes?.len())
    }
}

fn measure(base: &str) -> Result<(usize, usize)> {
    let archive = Archive::open_tolerant(base)?;
    let mut times = Vec::new();
    let mut columns: BTreeMap<(Pmid, Option<InstanceId>), Column> = BTreeMap::new();
    let mut records = archive.records()?;
    while let Some(record) = records.next()? {
        times.push(i64::try_from(record.timestamp().as_nanos())?);
        for set in record.value_sets() {
            let Some(metric) = archive.metadata().metric(set.pmid()) else { continue };
            for pair in set.values(metric.desc.value_type) {
                let (instance, value) = pair?;
                let Some(empty) = Column::for_value(&value) else { continue };
                columns.entry((set.pmid(), instance)).or_insert(empty).push(&value);
            }
        }
    }
    let mut bytes = Column::I64(times).compressed()?;
    let mut values = 0;
    for column in columns.values() {
        bytes += column.compressed()?;
        values += column.len();
    }
    Ok((bytes, values))
}

fn main() -> ExitCode {
    for base in std::env::args().skip(1) {
        match measure(&base) {
            Ok((bytes, values)) => println!("{bytes} {values}"),
            Err(error) => {
                eprintln!("bench-codec: {base}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
