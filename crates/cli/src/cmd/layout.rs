//! What every command prints: tables that fit the width they are given, words in colour, and the way out.
//!
//! The width is the terminal's, or `COLUMNS` where there is none; into a pipe or a file rows are as long
//! as they are. Colour goes to terminals, and follows `NO_COLOR`, `CLICOLOR` and `CLICOLOR_FORCE`.

use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use std::io::Write as _;

/// Columns between two cells.
const GAP: u16 = 2;
/// The least width that tables are fitted into: below it words would be cut into letters.
const LEAST_WIDTH: u16 = 40;

/// Something that works.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Something that does not.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Something to beware of.
pub(crate) const BEWARE: Style = AnsiColor::Yellow.on_default().bold();
/// Something that leads.
pub(crate) const STRONG: Style = Style::new().bold();

/// Writes to standard output, in colour where that is wanted. A reader that has seen enough (`| head`)
/// is no error.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    match anstream::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(std::io::Error::new(error.kind(), format!("standard output: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// A word in a style; [`print()`] leaves the style out where it is not wanted.
pub(crate) fn paint(style: Style, word: &str) -> String {
    format!("{style}{word}{style:#}")
}

/// How wide the output may be; nothing where it may be as wide as it is.
pub(crate) fn width() -> Option<u16> {
    let terminal = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0);
    let asked = || std::env::var("COLUMNS").ok()?.trim().parse().ok();
    terminal.or_else(asked).filter(|width| *width > 0).map(|width: u16| width.max(LEAST_WIDTH))
}

/// Rows under their headings. `right` names the columns of numbers.
pub(crate) fn table(headings: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    fitted(headings, right, rows, width())
}

/// [`table`] in a width.
fn fitted(headings: &[&str], right: &[usize], rows: &[Vec<String>], width: Option<u16>) -> String {
    let mut table = bare(width);
    table.set_header(headings);
    for row in rows {
        table.add_row(row);
    }
    align(&mut table, right);
    trimmed(&table)
}

/// The rows of a table that grows while it is printed: columns as wide as they are told, but for the last.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    widths: Vec<u16>,
    right: Vec<usize>,
    width: Option<u16>,
}

impl Rows {
    /// Columns of these widths, and one more for the rest of the line.
    pub(crate) fn new(widths: Vec<u16>, right: &[usize]) -> Self {
        Self { widths, right: right.to_vec(), width: width() }
    }

    /// One row; `lines` stand below each other in the last column.
    pub(crate) fn row(&self, cells: &[&str], lines: &[String]) -> String {
        let mut table = bare(self.width);
        let mut cells: Vec<String> = cells.iter().map(|cell| (*cell).to_owned()).collect();
        cells.push(lines.join("\n"));
        table.add_row(cells);
        align(&mut table, &self.right);
        for (place, width) in self.widths.iter().enumerate() {
            if let Some(column) = table.column_mut(place) {
                column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width + GAP)));
            }
        }
        trimmed(&table)
    }
}

/// A table without lines, fitted into a width where there is one.
fn bare(width: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    match width {
        Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    table
}

fn align(table: &mut Table, right: &[usize]) {
    let last = table.column_count().saturating_sub(1);
    for place in 0..table.column_count() {
        if let Some(column) = table.column_mut(place) {
            column.set_padding((0, if place == last { 0 } else { GAP }));
            if right.contains(&place) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
}

/// The table's lines without the blanks at their ends.
fn trimmed(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> [Vec<String>; 2] {
        [["µs", "7"], ["packets", "1234"]].map(|row| row.map(str::to_owned).to_vec())
    }

    #[test]
    fn columns_align_whatever_their_letters() {
        let text = fitted(&["unit", "n"], &[1], &rows(), None);
        assert_eq!(text, "unit        n\nµs          7\npackets  1234\n");
    }

    #[test]
    fn a_table_fits_its_width_and_no_word_is_lost() {
        let said = "the tester was too late for 202854 of 1174814 packets, and nobody knows why";
        let rows = [vec!["l3fwd:10".to_owned(), "64 B".to_owned(), said.to_owned()]];
        let wide = fitted(&["NF", "size", "results"], &[1], &rows, None);
        assert_eq!(wide.lines().count(), 2, "without a width a row is a line: {wide}");
        for width in [40, 60, 80] {
            let text = fitted(&["NF", "size", "results"], &[1], &rows, Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{width}: {text}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let mut found = words(&text);
            for word in words(&wide) {
                let place = found.iter().position(|other| *other == word);
                found.remove(place.unwrap_or_else(|| panic!("{word} is lost at {width}: {text}")));
            }
        }
    }

    #[test]
    fn rows_printed_one_by_one_stand_under_each_other() {
        let rows = Rows { widths: vec![6, 4], right: vec![1], width: Some(48) };
        let first = rows.row(&["l2fwd", "64"], &["ndr 3.8 Mpps".to_owned(), "pdr 3.9 Mpps".to_owned()]);
        assert_eq!(first, "l2fwd     64  ndr 3.8 Mpps\n              pdr 3.9 Mpps\n");
        let long = rows.row(&["nf", "1500"], &["word ".repeat(12).trim().to_owned()]);
        assert!(long.lines().count() > 1 && long.lines().all(|line| line.chars().count() <= 48), "{long}");
        assert!(long.lines().skip(1).all(|line| line.starts_with(&" ".repeat(14))), "{long}");
    }
}
