//! Files of Apache Parquet, written by the low-level writer without Arrow.
//!
//! Each batch is a row group. Integers are delta-packed, strings have a dictionary, doubles are
//! plain (Spark reads no other encoding of them), and all are compressed by zstd. There are
//! statistics for row groups but no index of pages, which would take more memory than it is worth.

use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};

use super::batch::{Batch, CellType, Cells, Column, LabelColumn, RowKey, Shape};
use super::file::NewFile;

/// The field `created_by` of files.
const CREATED_BY: &str = concat!("mmv-export version ", env!("CARGO_PKG_VERSION"));

#[derive(Debug)]
pub(super) struct ParquetFile {
    writer: SerializedFileWriter<NewFile>,
    /// Levels of a column without nulls, for the longest batch so far.
    ones: Vec<i16>,
}

impl ParquetFile {
    /// Creates a file with the columns of a shape and of metrics, and `about` in its metadata.
    ///
    /// # Errors
    ///
    /// I/O errors, and those of the crate `parquet` for an invalid schema.
    pub(super) fn create(
        directory: &Path,
        name: &str,
        shape: Shape,
        labels: &[LabelColumn],
        columns: &[&Column],
        about: &[(&'static str, String)],
    ) -> io::Result<Self> {
        let schema = schema(shape, labels, columns).map_err(io_error)?;
        let properties = Arc::new(properties(labels, columns, about));
        let file = NewFile::create(directory, name)?;
        let writer = SerializedFileWriter::new(file, schema, properties).map_err(io_error)?;
        Ok(Self { writer, ones: Vec::new() })
    }

    /// Writes a row group.
    ///
    /// # Errors
    ///
    /// I/O errors.
    pub(super) fn write(&mut self, batch: &Batch<'_>) -> io::Result<()> {
        let rows = batch.times.len();
        if self.ones.len() < rows {
            self.ones.resize(rows, 1);
        }
        let ones = self.ones.get(..rows).unwrap_or_default();
        let mut group = self.writer.next_row_group().map_err(io_error)?;
        write_group(&mut group, batch, ones).map_err(io_error)?;
        group.close().map_err(io_error)?;
        Ok(())
    }

    /// Completes the file, and returns its size.
    ///
    /// # Errors
    ///
    /// I/O errors.
    pub(super) fn finish(self) -> io::Result<u64> {
        // `into_inner` writes the end of the file.
        self.writer.into_inner().map_err(io_error)?.finish()
    }
}

type Group<'g> = SerializedRowGroupWriter<'g, NewFile>;

/// Writes the columns of a row group, in the order of the [schema].
fn write_group(group: &mut Group<'_>, batch: &Batch<'_>, ones: &[i16]) -> Result<(), ParquetError> {
    let micros: Vec<i64> = batch.times.iter().map(|nanos| nanos.div_euclid(1_000)).collect();
    column::<Int64Type>(group, &micros, None)?;
    column::<Int64Type>(group, batch.times, None)?;
    column::<BoolType>(group, batch.begins, None)?;
    strings(group, batch, false, |key| Some(&key.hostname))?;
    if batch.shape.has_name {
        strings(group, batch, false, |key| key.name.as_ref())?;
    }
    if batch.shape.has_instances {
        let instances: Vec<Option<i32>> = of_rows(batch, |key| key.instance).collect();
        let levels: Vec<i16> = instances.iter().map(|id| i16::from(id.is_some())).collect();
        let ids: Vec<i32> = instances.into_iter().flatten().collect();
        column::<Int32Type>(group, &ids, Some(&levels))?;
        strings(group, batch, true, |key| key.instance_name.as_ref())?;
    }
    for label in batch.labels {
        strings(group, batch, true, |key| key.label(&label.label))?;
    }
    if batch.shape.has_bounds {
        bounds(group, batch, |(lower, _)| Some(lower))?;
        bounds(group, batch, |(_, upper)| upper)?;
    }
    for of_metric in batch.columns {
        let levels = if of_metric.levels.is_empty() { ones } else { &of_metric.levels };
        match &of_metric.cells {
            Cells::Integers(cells) => {
                cells_of::<Int64Type>(group, cells, &of_metric.levels, levels)?;
            }
            Cells::Doubles(cells) => {
                cells_of::<DoubleType>(group, cells, &of_metric.levels, levels)?;
            }
        }
    }
    Ok(())
}

/// Writes a column of metrics, whose cells may be null.
fn cells_of<T: DataType>(
    group: &mut Group<'_>,
    cells: &[T::T],
    own_levels: &[i16],
    levels: &[i16],
) -> Result<(), ParquetError> {
    if own_levels.is_empty() {
        return column::<T>(group, cells, Some(levels));
    }
    let there = cells.iter().zip(levels).filter(|(_, level)| **level == 1);
    let there: Vec<T::T> = there.map(|(cell, _)| cell.clone()).collect();
    column::<T>(group, &there, Some(levels))
}

fn column<T: DataType>(
    group: &mut Group<'_>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let Some(mut writer) = group.next_column()? else {
        return Err(ParquetError::General("the schema has too few columns".into()));
    };
    writer.typed::<T>().write_batch(values, levels, None)?;
    writer.close()
}

/// Returns a part of the key of each row.
fn of_rows<'b, V>(
    batch: &'b Batch<'_>,
    of: impl Fn(&'b RowKey) -> Option<V>,
) -> impl Iterator<Item = Option<V>> {
    batch.key_of_row.iter().map(move |key| batch.keys.get(*key as usize).and_then(&of))
}

/// Writes a bound of the bucket of each row.
fn bounds(
    group: &mut Group<'_>,
    batch: &Batch<'_>,
    bound: impl Fn((f64, Option<f64>)) -> Option<f64>,
) -> Result<(), ParquetError> {
    let bounds: Vec<Option<f64>> = of_rows(batch, |key| key.bounds.and_then(&bound)).collect();
    let levels: Vec<i16> = bounds.iter().map(|bound| i16::from(bound.is_some())).collect();
    let bounds: Vec<f64> = bounds.into_iter().flatten().collect();
    column::<DoubleType>(group, &bounds, Some(&levels))
}

/// Writes a column of strings, which are parts of keys.
fn strings(
    group: &mut Group<'_>,
    batch: &Batch<'_>,
    may_be_null: bool,
    of: impl Fn(&RowKey) -> Option<&Arc<str>>,
) -> Result<(), ParquetError> {
    let of_keys: Vec<Option<ByteArray>> =
        batch.keys.iter().map(|key| of(key).map(|text| ByteArray::from(&**text))).collect();
    let mut values = Vec::new();
    let mut levels = Vec::with_capacity(batch.key_of_row.len());
    for key in batch.key_of_row {
        let value = of_keys.get(*key as usize).and_then(Option::as_ref);
        levels.push(i16::from(value.is_some()));
        values.extend(value.cloned());
    }
    column::<ByteArrayType>(group, &values, may_be_null.then_some(levels.as_slice()))
}

/// Returns the schema of a file, as `docs/engines/parquet.md` defines it.
fn schema(
    shape: Shape,
    labels: &[LabelColumn],
    columns: &[&Column],
) -> Result<TypePtr, ParquetError> {
    let micros = LogicalType::timestamp(true, TimeUnit::MICROS);
    let mut fields = vec![
        field("timestamp", Physical::INT64, Repetition::REQUIRED, Some(micros))?,
        field("timestamp_ns", Physical::INT64, Repetition::REQUIRED, None)?,
        field("begins", Physical::BOOLEAN, Repetition::REQUIRED, None)?,
        string("hostname", Repetition::REQUIRED)?,
    ];
    if shape.has_name {
        fields.push(string("name", Repetition::REQUIRED)?);
    }
    if shape.has_instances {
        fields.push(field("instid", Physical::INT32, Repetition::OPTIONAL, None)?);
        fields.push(string("instname", Repetition::OPTIONAL)?);
    }
    for label in labels {
        fields.push(string(&label.column, Repetition::OPTIONAL)?);
    }
    if shape.has_bounds {
        fields.push(field("lower", Physical::DOUBLE, Repetition::OPTIONAL, None)?);
        fields.push(field("upper", Physical::DOUBLE, Repetition::OPTIONAL, None)?);
    }
    for column in columns {
        let (physical, logical) = match column.cell_type {
            CellType::I64 => (Physical::INT64, None),
            CellType::U64 => (Physical::INT64, Some(LogicalType::integer(64, false))),
            CellType::F64 => (Physical::DOUBLE, None),
        };
        fields.push(field(&column.name, physical, Repetition::OPTIONAL, logical)?);
    }
    Ok(Arc::new(Type::group_type_builder("table").with_fields(fields).build()?))
}

fn string(name: &str, repetition: Repetition) -> Result<TypePtr, ParquetError> {
    field(name, Physical::BYTE_ARRAY, repetition, Some(LogicalType::String))
}

fn field(
    name: &str,
    physical: Physical,
    repetition: Repetition,
    logical: Option<LogicalType>,
) -> Result<TypePtr, ParquetError> {
    let builder = Type::primitive_type_builder(name, physical);
    Ok(Arc::new(builder.with_repetition(repetition).with_logical_type(logical).build()?))
}

fn properties(
    labels: &[LabelColumn],
    columns: &[&Column],
    about: &[(&'static str, String)],
) -> WriterProperties {
    let of_file = about.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
    let of_columns = columns.iter().map(|column| {
        KeyValue::new(format!("pcp.column.{}", column.name), column.about.to_string())
    });
    let mut builder = WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_compression(Compression::ZSTD(parquet::basic::ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(of_file.chain(of_columns).collect()));
    let labels = labels.iter().map(|label| label.column.as_str());
    for name in ["hostname", "name", "instname"].into_iter().chain(labels) {
        let path = ColumnPath::new(vec![name.to_owned()]);
        builder = builder.set_column_dictionary_enabled(path, true);
    }
    let integers = columns.iter().filter(|column| column.cell_type != CellType::F64);
    let integers = integers.map(|column| column.name.as_str());
    for name in ["timestamp", "timestamp_ns", "instid"].into_iter().chain(integers) {
        let path = ColumnPath::new(vec![name.to_owned()]);
        builder = builder.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    builder.build()
}

fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(source) => io::Error::other(source),
        },
        other => io::Error::other(other),
    }
}
