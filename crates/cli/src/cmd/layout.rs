//! What every command prints: tables that fit the width they are given, words in colour, and the way out.
//!
//! The width is the terminal's, or `COLUMNS` where there is none; into a pipe or a file rows are as long
//! as they are. Colour goes to terminals, and follows `NO_COLOR`, `CLICOLOR` and `CLICOLOR_FORCE`.

use super::shown::shown;
use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use std::io::{IsTerminal as _, Write};

/// Columns between two cells.
const GAP: u16 = 2;
/// The least width that tables are fitted into: below it words would be cut into letters.
const LEAST_WIDTH: u16 = 40;

/// The least width of the last column, which holds sentences: with less, they stand below their row.
const LEAST_LAST: usize = 30;
/// How far they are moved in there.
const INDENT: usize = 4;

/// Something that works.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Something that does not.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Something to beware of.
pub(crate) const BEWARE: Style = AnsiColor::Yellow.on_default().bold();
/// Something that leads.
pub(crate) const STRONG: Style = Style::new().bold();

/// Every style of this program.
pub(crate) const STYLES: [Style; 4] = [GOOD, BAD, BEWARE, STRONG];

/// Writes to standard output, in colour where that is wanted, and nothing that a terminal would obey ([`shown`]). A reader
/// that has seen enough (`| head`) is no error.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    written(anstream::stdout().lock(), &shown(text))
}

/// Writes a file's text to standard output as it is, but to a terminal as [`print()`] does.
pub(crate) fn print_file(text: &str) -> std::io::Result<()> {
    if std::io::stdout().is_terminal() { print(text) } else { written(std::io::stdout().lock(), text) }
}

fn written(mut output: impl Write, text: &str) -> std::io::Result<()> {
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
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
    let headings: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
    let all: Vec<&[String]> =
        std::iter::once(headings.as_slice()).chain(rows.iter().map(Vec::as_slice)).collect();
    if let Some(text) = width.and_then(|width| stacked(&all, right, usize::from(width))) {
        return text;
    }
    let mut table = bare(width);
    table.set_header(headings);
    for row in rows {
        table.add_row(row);
    }
    align(&mut table, right);
    trimmed(&table)
}

/// Rows with their last cells below them, where those would have too little room beside the others; nothing where
/// they have enough, or where the others do not fit by themselves.
fn stacked(rows: &[&[String]], right: &[usize], width: usize) -> Option<String> {
    let last = rows.first()?.len().checked_sub(1).filter(|last| *last > 0)?;
    let longest = |place: usize| {
        let lines = rows.iter().filter_map(|row| row.get(place)).flat_map(|cell| cell.lines());
        lines.map(|line| line.chars().count()).max().unwrap_or(0)
    };
    let before = (0..last).map(|place| longest(place) + usize::from(GAP)).sum::<usize>();
    let is_plain = rows.iter().all(|row| row[..last.min(row.len())].iter().all(|cell| !cell.contains('\n')));
    let is_narrow = before + longest(last).min(LEAST_LAST) > width;
    if !is_narrow || !is_plain || before > width + usize::from(GAP) {
        return None;
    }
    let mut table = bare(None);
    for row in rows {
        table.add_row(&row[..last]);
    }
    align(&mut table, right);
    let lines: Vec<String> = table.lines().collect();
    // A row that goes on with the one above it has nothing but its last cell.
    let text = lines.iter().zip(rows).map(|(line, row)| {
        let lead = Some(format!("{}\n", line.trim_end())).filter(|lead| !lead.trim().is_empty());
        let below = row.get(last).map(|cell| below(cell, width)).unwrap_or_default();
        lead.unwrap_or_default() + &below
    });
    Some(text.collect())
}

/// A cell that stands below its row.
fn below(cell: &str, width: usize) -> String {
    let mut table = bare(Some(u16::try_from(width - INDENT).unwrap_or(u16::MAX)));
    table.add_row([cell]);
    align(&mut table, &[]);
    let lines = table.lines().map(|line| format!("{:INDENT$}{}\n", "", line.trim_end()));
    lines.filter(|line| !line.trim().is_empty()).collect()
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
        let before: usize = self.widths.iter().map(|width| usize::from(width + GAP)).sum();
        let is_narrow = self.width.is_some_and(|width| before + LEAST_LAST > usize::from(width));
        let (width, beside) = if is_narrow { (None, String::new()) } else { (self.width, lines.join("\n")) };
        let mut table = bare(width);
        let mut cells: Vec<String> = cells.iter().map(|cell| (*cell).to_owned()).collect();
        cells.push(beside);
        table.add_row(cells);
        align(&mut table, &self.right);
        for (place, width) in self.widths.iter().enumerate() {
            if let Some(column) = table.column_mut(place) {
                column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width + GAP)));
            }
        }
        let row = trimmed(&table);
        match self.width.filter(|_| is_narrow) {
            Some(width) => row + &below(&lines.join("\n"), usize::from(width)),
            None => row,
        }
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

    #[test]
    fn where_sentences_would_have_no_room_beside_their_row_they_stand_below_it() {
        let lead = ["l3fwd:10", "ovs-dpdk#2", "vhost", "flows:10000", "64 B"];
        let said = "mrr  18.96 Mpps\nlimited by: the device (its packets come from inside: no tester is at the wire)";
        let row: Vec<String> = lead.iter().chain([&said]).map(|cell| (*cell).to_owned()).collect();
        let headings = ["NF", "DUT", "wiring", "trace", "size", "results"];
        let more: Vec<String> = ["", "", "", "", "", "p50 2 µs"].map(str::to_owned).to_vec();
        let text = fitted(&headings, &[], &[row.clone(), more], Some(60));
        assert!(text.ends_with("\n    p50 2 µs\n") && !text.contains("\n\n"), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1].trim(), "results", "{text}");
        assert_eq!(lines[2].split_whitespace().collect::<Vec<_>>()[..3], ["l3fwd:10", "ovs-dpdk#2", "vhost"]);
        assert_eq!(lines[3], "    mrr  18.96 Mpps", "{text}");
        assert!(lines.len() <= 7 && lines.iter().all(|line| line.chars().count() <= 60), "{text}");
        assert_eq!(
            fitted(&headings, &[], &[row], Some(80)).lines().next().unwrap().matches("results").count(),
            1
        );

        let rows = Rows { widths: vec![10, 10, 6, 11, 5], right: vec![], width: Some(60) };
        let grown = rows.row(&lead, &said.lines().map(str::to_owned).collect::<Vec<_>>());
        assert!(grown.lines().nth(1).unwrap().starts_with("    mrr"), "{grown}");
        assert!(grown.lines().all(|line| line.chars().count() <= 60), "{grown}");
    }
}
