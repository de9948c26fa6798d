//! Tables of runs as Parquet files, for pandas, polars, DuckDB and others.
//!
//! A crate of its own, as the library behind it takes longer to build than what everybody needs: only a `weir` with the
//! feature `parquet` has it. Every column is optional, texts are UTF-8, whole numbers 64 bits, pages compressed with
//! Snappy. The file says in its metadata (`weir.runs`) which runs it holds. Cost: a table stands in memory, as it did before.

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;
use weir_columns::{Cell, Column, Kind, Table};

/// Rows that stand together in a file: readers take such a group at once.
const GROUP: usize = 65_536;

/// A table as a Parquet file. `runs` names what it holds, for its metadata.
///
/// # Errors
///
/// Where the library refuses the table; none of Weir's is refused.
pub fn parquet(table: &Table, runs: &str) -> Result<Vec<u8>> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by("weir".to_owned())
        .set_key_value_metadata(Some(vec![KeyValue::new("weir.runs".to_owned(), runs.to_owned())]))
        .build();
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, schema(table)?, Arc::new(properties))?;
    for rows in table.rows.chunks(GROUP) {
        let mut group = file.next_row_group()?;
        let mut place = 0;
        while let Some(mut column) = group.next_column()? {
            write(&mut column, table.columns[place].kind, rows, place)?;
            column.close()?;
            place += 1;
        }
        group.close()?;
    }
    file.close()?;
    Ok(bytes)
}

fn schema(table: &Table) -> Result<TypePtr> {
    let fields = table.columns.iter().map(field).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Type::group_type_builder(table.name).with_fields(fields).build()?))
}

fn field(column: &Column) -> Result<TypePtr> {
    let physical = match column.kind {
        Kind::Text => Physical::BYTE_ARRAY,
        Kind::Integer => Physical::INT64,
        Kind::Number => Physical::DOUBLE,
        Kind::Truth => Physical::BOOLEAN,
    };
    let logical = (column.kind == Kind::Text).then_some(LogicalType::String);
    let field = Type::primitive_type_builder(&column.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()?;
    Ok(Arc::new(field))
}

/// Writes a column's cells of some rows.
fn write(
    column: &mut SerializedColumnWriter<'_>,
    kind: Kind,
    rows: &[Vec<Option<Cell>>],
    place: usize,
) -> Result<()> {
    let cells = || rows.iter().map(move |row| row[place].as_ref());
    match kind {
        Kind::Text => values::<ByteArrayType>(column, cells(), |cell| match cell {
            Cell::Text(text) => Some(ByteArray::from(text.as_str())),
            _ => None,
        }),
        Kind::Integer => values::<Int64Type>(column, cells(), |cell| match cell {
            Cell::Integer(number) => Some(*number),
            _ => None,
        }),
        Kind::Number => values::<DoubleType>(column, cells(), |cell| match cell {
            Cell::Number(number) => Some(*number),
            _ => None,
        }),
        Kind::Truth => values::<BoolType>(column, cells(), |cell| match cell {
            Cell::Truth(truth) => Some(*truth),
            _ => None,
        }),
    }
}

/// Values and where there are none: a level of 1 for a value, of 0 for none.
fn values<'c, T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = Option<&'c Cell>>,
    value: fn(&Cell) -> Option<T::T>,
) -> Result<()> {
    let (mut found, mut levels) = (Vec::new(), Vec::new());
    for cell in cells {
        let value = cell.and_then(value);
        levels.push(i16::from(value.is_some()));
        found.extend(value);
    }
    column.typed::<T>().write_batch(&found, Some(&levels), None)?;
    Ok(())
}
