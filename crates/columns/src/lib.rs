//! Runs as tables of typed columns, for notebooks and spreadsheets: a row a run, a point, a fact, a trial.
//!
//! - [`tables`]: the four tables, which refer to each other by `run_uuid` and `point`.
//! - [`trials_alone`]: trials with what their points are in every row, for a reader that wants one table.
//! - [`Table::csv`] writes RFC 4180; the crate `weir-parquet` writes Parquet from the same.
//!
//! Each column is said once, with its unit in its name, its type and how a row comes by it (`columns`). Cost: a cell is a
//! few dozen bytes, and a trial has some fifty of them.

mod columns;

use columns::At;
use weir_trial::run::Run;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// A whole number that a reader of doubles keeps, below 2^53 in what was measured.
    Integer,
    /// A double.
    Number,
    /// True or false.
    Truth,
}

/// What a cell holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Of a column of [`Kind::Text`].
    Text(String),
    /// Of a column of [`Kind::Integer`].
    Integer(i64),
    /// Of a column of [`Kind::Number`].
    Number(f64),
    /// Of a column of [`Kind::Truth`].
    Truth(bool),
}

/// The head of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, with the unit at its end where it has one.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its name: `runs`, `points`, `environment`, `trials`.
    pub name: &'static str,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows: as many cells as columns, nothing where there is no value.
    pub rows: Vec<Vec<Option<Cell>>>,
}

/// The tables of some runs: `runs`, `points`, `environment` (a row a fact) and `trials`.
pub fn tables(runs: &[Run]) -> Vec<Table> {
    let mut environment = Table {
        name: "environment",
        columns: ["run_uuid", "segment", "fact", "value"]
            .map(|name| Column {
                name: name.to_owned(),
                kind: if name == "segment" { Kind::Integer } else { Kind::Text },
            })
            .to_vec(),
        rows: Vec::new(),
    };
    for run in runs {
        let segments =
            std::iter::once(&run.environment).chain(run.sessions.iter().map(|one| &one.environment));
        for (segment, facts) in (0..).zip(segments) {
            environment.rows.extend(facts.iter().map(|(fact, value)| {
                let text = |text: &String| Some(Cell::Text(text.clone()));
                vec![text(&run.uuid), Some(Cell::Integer(segment)), text(fact), text(value)]
            }));
        }
    }
    let at = |run| At { run, point: None, trial: None };
    let of_runs = filled("runs", columns::run(), runs.iter().map(at));
    let points = filled("points", [columns::run_key(), columns::point()].concat_all(), points_of(runs));
    let trials = runs.iter().flat_map(|run| {
        run.points.iter().flat_map(move |point| {
            point.trials.iter().map(move |trial| At { run, point: Some(point), trial: Some(trial) })
        })
    });
    let keys = [columns::run_key(), columns::point_key(), columns::trial()].concat_all();
    vec![of_runs, points, environment, filled("trials", keys, trials)]
}

/// The trials of a run with what its points are beside each. A point without trials has one row.
pub fn trials_alone(run: &Run) -> Table {
    let rows = run.points.iter().flat_map(|point| {
        let none = point.trials.is_empty().then_some(None);
        let trials = point.trials.iter().map(Some).chain(none);
        trials.map(move |trial| At { run, point: Some(point), trial })
    });
    filled("trials", [columns::about(), columns::trial()].concat_all(), rows)
}

fn points_of(runs: &[Run]) -> impl Iterator<Item = At<'_>> {
    runs.iter()
        .flat_map(|run| run.points.iter().map(move |point| At { run, point: Some(point), trial: None }))
}

fn filled<'a>(name: &'static str, columns: Vec<columns::Made>, rows: impl Iterator<Item = At<'a>>) -> Table {
    let rows = rows.map(|at| columns.iter().map(|column| (column.get)(&at)).collect()).collect();
    let columns = columns.into_iter().map(|made| Column { name: made.name, kind: made.kind }).collect();
    Table { name, columns, rows }
}

/// Lists of columns behind each other.
trait ConcatAll {
    fn concat_all(self) -> Vec<columns::Made>;
}

impl<const N: usize> ConcatAll for [Vec<columns::Made>; N] {
    fn concat_all(self) -> Vec<columns::Made> {
        self.into_iter().flatten().collect()
    }
}

impl Cell {
    /// As CSV has it.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Integer(number) => number.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Truth(truth) => truth.to_string(),
        }
    }

    /// What kind of column it is of.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Text(_) => Kind::Text,
            Self::Integer(_) => Kind::Integer,
            Self::Number(_) => Kind::Number,
            Self::Truth(_) => Kind::Truth,
        }
    }
}

impl Table {
    /// It as CSV: RFC 4180, the header first, UTF-8; a cell without a value is empty.
    pub fn csv(&self) -> Vec<u8> {
        let mut lines = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
        let head = lines.write_record(self.columns.iter().map(|column| column.name.as_str()));
        let rows = self.rows.iter().try_for_each(|row| {
            lines.write_record(row.iter().map(|cell| cell.as_ref().map(Cell::text).unwrap_or_default()))
        });
        // All rows are as long as the header, and memory takes every byte.
        head.and(rows).expect("rows have the header's length");
        lines.into_inner().expect("memory takes every byte")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        serde_json::from_str(include_str!("../../../docs/runs/readme.json")).unwrap()
    }

    #[test]
    fn every_row_is_as_wide_as_its_table_and_every_cell_of_its_columns_kind() {
        let mut resumed = run();
        resumed.sessions.push(weir_trial::run::Session {
            started_ms: 1,
            weir: "weir".to_owned(),
            environment: [("kernel.release".to_owned(), "6.2".to_owned())].into(),
        });
        let runs = [run(), resumed];
        let mut all = tables(&runs);
        assert_eq!(
            all.iter().map(|table| table.name).collect::<Vec<_>>(),
            ["runs", "points", "environment", "trials"]
        );
        let rows: Vec<usize> = all.iter().map(|table| table.rows.len()).collect();
        assert_eq!((rows[0], rows[1], rows[3]), (2, 6, 30));
        assert_eq!(rows[2], 2 * runs[0].environment.len() + 1);
        all.push(trials_alone(&runs[0]));
        for table in &all {
            let names: std::collections::BTreeSet<_> =
                table.columns.iter().map(|column| &column.name).collect();
            assert_eq!(names.len(), table.columns.len(), "{}: a name stands twice", table.name);
            for row in &table.rows {
                assert_eq!(row.len(), table.columns.len(), "{}", table.name);
                for (cell, column) in row.iter().zip(&table.columns) {
                    assert!(cell.as_ref().is_none_or(|cell| cell.kind() == column.kind), "{}", column.name);
                }
            }
        }
    }

    #[test]
    fn text_that_csv_would_take_for_its_own_comes_back() {
        let mut run = run();
        let text = "a, \"b\"\r\nc;\u{1b}[2J";
        run.name = text.to_owned();
        let table = &tables(std::slice::from_ref(&run))[0];
        let bytes = table.csv();
        let mut read = csv::Reader::from_reader(bytes.as_slice());
        let place = read.headers().unwrap().iter().position(|name| name == "run").unwrap();
        assert_eq!(&read.records().next().unwrap().unwrap()[place], text);
    }
}
