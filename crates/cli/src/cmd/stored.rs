//! What the readers of the store share: where it is, which run is meant, instants and tables.

use super::store_error;
use std::path::{Path, PathBuf};
use weir_store::{Selector, Store};
use weir_trial::run::Run;

/// Where runs are kept.
#[derive(clap::Args)]
pub(crate) struct Database {
    /// The database [default: weir/weir.db in $XDG_DATA_HOME, else in ~/.local/share]
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
}

impl Database {
    /// Opens the store to read.
    pub(crate) fn open(&self) -> anyhow::Result<Store> {
        Store::open_existing(self.db.as_deref()).map_err(store_error)
    }

    /// The run that is meant, whole.
    pub(crate) fn load(&self, selector: &Selector) -> anyhow::Result<Run> {
        let store = self.open()?;
        let run = store.find(selector).map_err(store_error)?;
        store.load(run).map_err(store_error)
    }

    /// `--db FILE` again, for a command that is suggested.
    pub(crate) fn flag(&self) -> String {
        db_flag(self.db.as_deref())
    }
}

/// `--db FILE` for a command that is suggested; nothing for the database that is meant without it.
pub(crate) fn db_flag(db: Option<&Path>) -> String {
    db.map_or_else(String::new, |path| format!(" --db {}", quoted(&path.to_string_lossy())))
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@~".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// `2026-11-21 12:05 UTC` for milliseconds since 1970.
pub(crate) fn when(ms: i64) -> String {
    let minute = ms.div_euclid(60_000).rem_euclid(24 * 60);
    format!("{} {:02}:{:02} UTC", weir_store::date(ms), minute / 60, minute % 60)
}

/// `2026-11-21 12:05:09 UTC` for milliseconds since 1970.
pub(crate) fn clock(ms: i64) -> String {
    let second = ms.div_euclid(1000).rem_euclid(24 * 3600);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{} {hour:02}:{minute:02}:{second:02} UTC", weir_store::date(ms))
}

/// Rows under their headings, columns two spaces apart. `right` names the columns of numbers.
pub(crate) fn table(headings: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([headings[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            if right.contains(&column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    std::iter::once(line(headings.to_vec()))
        .chain(rows.iter().map(|row| line(row.iter().map(String::as_str).collect())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_said_in_universal_time() {
        assert_eq!(when(1_795_219_200_000 + 12 * 3_600_000 + 5 * 60_000 + 59_999), "2026-11-21 12:05 UTC");
        assert_eq!(when(-1), "1969-12-31 23:59 UTC");
        assert_eq!(clock(1_795_219_200_000 + 12 * 3_600_000 + 9_999), "2026-11-21 12:00:09 UTC");
    }

    #[test]
    fn columns_align_whatever_their_letters() {
        let rows = [vec!["µs".to_owned(), "7".to_owned()], vec!["packets".to_owned(), "1234".to_owned()]];
        let text = table(&["unit", "n"], &[1], &rows);
        assert_eq!(text, "unit        n\nµs          7\npackets  1234\n");
    }

    #[test]
    fn suggested_paths_can_be_pasted() {
        let flag = |path: &str| Database { db: Some(path.into()) }.flag();
        assert_eq!(flag("/tmp/a.db"), " --db /tmp/a.db");
        assert_eq!(flag("/tmp/it's a.db"), r" --db '/tmp/it'\''s a.db'");
        assert_eq!(Database { db: None }.flag(), "");
    }
}
