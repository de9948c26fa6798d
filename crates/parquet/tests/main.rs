//! Parquet files of Weir, read back by the library's reader.

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use weir_columns::{Cell, Column, Kind, Table, tables};
use weir_trial::run::Run;

fn run() -> Run {
    serde_json::from_str(include_str!("../../../docs/runs/flows.json")).unwrap()
}

/// A cell as the reader gives it.
fn field(cell: Option<&Cell>) -> Field {
    match cell {
        None => Field::Null,
        Some(Cell::Text(text)) => Field::Str(text.clone()),
        Some(Cell::Integer(number)) => Field::Long(*number),
        Some(Cell::Number(number)) => Field::Double(*number),
        Some(Cell::Truth(truth)) => Field::Bool(*truth),
    }
}

fn is_read_back(table: &Table) {
    let bytes = weir_parquet::parquet(table, "some runs").unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let metadata = reader.metadata().file_metadata();
    assert_eq!(metadata.num_rows() as usize, table.rows.len(), "{}", table.name);
    let pairs = metadata.key_value_metadata().unwrap();
    assert!(pairs.iter().any(|pair| pair.key == "weir.runs" && pair.value.as_deref() == Some("some runs")));
    let mut rows = table.rows.iter();
    for (read, row) in reader.get_row_iter(None).unwrap().zip(rows.by_ref()) {
        for ((name, value), (cell, column)) in
            read.unwrap().get_column_iter().zip(row.iter().zip(&table.columns))
        {
            assert_eq!((name, value), (&column.name, &field(cell.as_ref())), "{}", table.name);
        }
    }
    assert!(rows.next().is_none());
}

#[test]
fn every_table_of_a_run_is_read_back_cell_by_cell() {
    let all = tables(&[run()]);
    assert!(all.iter().all(|table| !table.rows.is_empty()));
    all.iter().for_each(is_read_back);
}

#[test]
fn tables_without_rows_with_gaps_and_larger_than_a_group_are_read_back() {
    let columns = || {
        let column = |name: &str, kind| Column { name: name.to_owned(), kind };
        vec![column("n", Kind::Integer), column("text", Kind::Text)]
    };
    is_read_back(&Table { name: "empty", columns: columns(), rows: Vec::new() });
    let row = |n: i64| {
        vec![(n % 3 != 0).then_some(Cell::Integer(n)), (n % 5 != 0).then(|| Cell::Text(format!("µ{n}")))]
    };
    is_read_back(&Table { name: "large", columns: columns(), rows: (0..70_000).map(row).collect() });
}
