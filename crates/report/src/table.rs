//! Tables: the numbers behind a plot, as HTML and as CSV in base units.

use crate::around::Around;
use crate::exhibit::Form;
use crate::units::{self, RateUnit};
use maud::{Markup, html};

/// The heading of a column of warnings.
const NOTE: &str = "Note";

/// A table with its name and its columns.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// Unique in its page, and the name of the CSV file.
    pub(crate) id: String,
    /// What it holds.
    pub(crate) caption: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
}

/// A column's heading.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// As read on the page, with its unit (but for rates, which add theirs).
    pub(crate) head: &'static str,
    /// As read in the CSV, with its base unit.
    pub(crate) csv: &'static str,
    pub(crate) kind: Kind,
}

/// How a column is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Number,
    /// In the unit the reader chose.
    Rate,
}

/// One row.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Cell>,
    /// Whether the reader must be warned of it.
    pub(crate) suspect: bool,
}

/// One cell.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Text(String),
    /// As shown, and as exported.
    Number(String, f64),
    Rate {
        pps: f64,
        mean_frame_bytes: f64,
    },
    /// A rate that is no result, but is known all the same: shown, and not exported as if it were one.
    Estimate {
        pps: f64,
        mean_frame_bytes: f64,
    },
    None,
}

impl Cell {
    /// A count of packets.
    pub(crate) fn count(value: u64) -> Self {
        Self::Number(units::count(value), value as f64)
    }

    /// A share in per cent, exported as a ratio.
    pub(crate) fn percent(share: f64) -> Self {
        Self::Number(units::percent(share), share)
    }

    /// A rate, where there is one.
    pub(crate) fn rate(pps: Option<weir_units::Pps>, mean_frame_bytes: f64) -> Self {
        pps.map_or(Self::None, |pps| Self::Rate { pps: pps.0, mean_frame_bytes })
    }

    /// A rate, or where there is none what is known instead.
    pub(crate) fn rate_or(
        pps: Option<weir_units::Pps>,
        estimate: Option<weir_units::Pps>,
        mean_frame_bytes: f64,
    ) -> Self {
        match (pps, estimate) {
            (None, Some(estimate)) => Self::Estimate { pps: estimate.0, mean_frame_bytes },
            (pps, _) => Self::rate(pps, mean_frame_bytes),
        }
    }

    /// A time, exported in nanoseconds.
    pub(crate) fn time(time: weir_units::Nanos) -> Self {
        Self::Number(time.to_string().replace(' ', "\u{a0}"), time.0 as f64)
    }

    /// As read, rates in this unit.
    fn text(&self, unit: RateUnit) -> String {
        match self {
            Self::Text(text) | Self::Number(text, _) => text.clone(),
            Self::Rate { pps, mean_frame_bytes } => unit.number(*pps, *mean_frame_bytes),
            Self::Estimate { pps, mean_frame_bytes } => format!("≈ {}", unit.number(*pps, *mean_frame_bytes)),
            Self::None => "–".to_owned(),
        }
    }

    fn csv(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(_, value) | Self::Rate { pps: value, .. } if value.is_finite() => value.to_string(),
            Self::Number(..) | Self::Rate { .. } | Self::Estimate { .. } | Self::None => String::new(),
        }
    }
}

impl Column {
    /// Its heading, rates in this unit.
    fn text(&self, unit: RateUnit) -> String {
        if self.kind == Kind::Rate { format!("{}, {}", self.head, unit.label) } else { self.head.to_owned() }
    }
}

/// Text with the letters that LaTeX reads as commands written out.
pub(crate) fn latex(text: &str) -> String {
    let letter = |letter: char| match letter {
        '\\' => "\\textbackslash{}".to_owned(),
        '~' => "\\textasciitilde{}".to_owned(),
        '^' => "\\textasciicircum{}".to_owned(),
        '<' => "\\textless{}".to_owned(),
        '>' => "\\textgreater{}".to_owned(),
        '–' => "--".to_owned(),
        '≈' => "$\\approx$".to_owned(),
        '±' => "$\\pm$".to_owned(),
        '·' => "$\\cdot$".to_owned(),
        'µ' => "\\textmu{}".to_owned(),
        '\u{a0}' => "~".to_owned(),
        '−' => "$-$".to_owned(),
        '×' => "$\\times$".to_owned(),
        '→' => "$\\rightarrow$".to_owned(),
        '≥' => "$\\geq$".to_owned(),
        '≤' => "$\\leq$".to_owned(),
        '\u{202f}' => "\\,".to_owned(),
        letter if letter.is_control() => " ".to_owned(),
        '&' | '%' | '$' | '#' | '_' | '{' | '}' => format!("\\{letter}"),
        other => other.to_string(),
    };
    text.chars().map(letter).collect()
}

/// A text in a comment of LaTeX, which ends with its line.
pub(crate) fn comment(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Shorthand for a heading.
pub(crate) const fn column(head: &'static str, csv: &'static str, kind: Kind) -> Column {
    Column { head, csv, kind }
}

impl Table {
    /// Rows up to which a table stands open.
    const OPEN_ROWS: usize = 16;

    /// The table, folded where it is long, with a link to its CSV.
    pub(crate) fn html(&self, around: &Around<'_>) -> Markup {
        let once = self.said_once();
        let left_out = once.map(|(place, _)| place).or_else(|| self.says_nothing());
        let shown = |place: usize| Some(place) != left_out;
        html! {
            details class="table" open[self.rows.len() <= Self::OPEN_ROWS] {
                summary { "Table: " (self.caption) " (" (self.rows.len()) @if self.rows.len() == 1 { " row" } @else { " rows" } ")" }
                a class="csv" download=(format!("{}.csv", self.id)) href=(self.link()) { "CSV" }
                div class="scroll" tabindex="0" role="region" aria-label=(self.caption) {
                    table id=(self.id) {
                        caption { (self.caption) }
                        thead { tr { @for (_, column) in self.columns.iter().enumerate().filter(|(place, _)| shown(*place)) { (head(column)) } } }
                        tbody { @for row in &self.rows { (self.row(row, left_out)) } }
                    }
                }
                @if let Some((_, note)) = once { p class="warning" { "Every row: " (note) } }
                (around.under(&self.id, &Form::OF_TABLES))
            }
        }
    }

    /// The note that stands in every one of several rows, and in which column: it is said once, below them.
    fn said_once(&self) -> Option<(usize, &str)> {
        let place = self.columns.iter().position(|column| column.head == NOTE)?;
        let note = |row: &'_ Row| match row.cells.get(place) {
            Some(Cell::Text(text)) if !text.is_empty() => Some(text.clone()),
            _ => None,
        };
        let first = note(self.rows.first()?)?;
        let same = self.rows.len() > 1 && self.rows.iter().all(|row| note(row).as_ref() == Some(&first));
        match &self.rows[0].cells[place] {
            Cell::Text(text) if same => Some((place, text)),
            _ => None,
        }
    }

    /// The column of warnings, where there is none.
    fn says_nothing(&self) -> Option<usize> {
        let place = self.columns.iter().position(|column| column.head == NOTE)?;
        let is_empty = |row: &Row| matches!(row.cells.get(place), Some(Cell::Text(text)) if text.is_empty());
        self.rows.iter().all(is_empty).then_some(place)
    }

    /// A row, but for one column.
    fn row(&self, row: &Row, but: Option<usize>) -> Markup {
        html! {
            tr class=[row.suspect.then_some("suspect")] {
                @for (_, (cell, column)) in row.cells.iter().zip(&self.columns).enumerate().filter(|(place, _)| Some(*place) != but) {
                    td class=[(column.kind != Kind::Text).then_some("n")] {
                        @match cell {
                            Cell::Text(text) => (text),
                            Cell::Number(text, _) => (text),
                            Cell::Rate { pps, mean_frame_bytes } => (units::rate(*pps, *mean_frame_bytes, false)),
                            Cell::Estimate { pps, mean_frame_bytes } => span class="estimate" title="an estimate, no result" {
                                "≈\u{a0}" (units::rate(*pps, *mean_frame_bytes, false))
                            },
                            Cell::None => "–",
                        }
                    }
                }
            }
        }
    }

    /// The table in base units (RFC 4180).
    pub(crate) fn csv(&self) -> String {
        let mut lines = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
        let head = self.columns.iter().map(|column| column.csv.to_owned()).collect();
        let rows = self.rows.iter().map(|row| row.cells.iter().map(Cell::csv).collect());
        for record in std::iter::once::<Vec<String>>(head).chain(rows) {
            lines.write_record(record).expect("memory takes every line, and all rows are of one length");
        }
        String::from_utf8(lines.into_inner().expect("memory takes all")).expect("text stays text")
    }

    /// The table as Markdown, in the unit of rates that reads best, with what it was made from.
    pub(crate) fn markdown(&self, provenance: &str) -> String {
        let unit = self.unit();
        let escaped = |text: String| text.replace('|', "\\|").replace('\n', " ");
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.columns.iter().map(|column| escaped(column.text(unit))).collect());
        let rule = |column: &Column| if column.kind == Kind::Text { "---" } else { "---:" }.to_owned();
        text.push_str(&line(self.columns.iter().map(rule).collect()));
        for row in &self.rows {
            text.push_str(&line(row.cells.iter().map(|cell| escaped(cell.text(unit))).collect()));
        }
        crate::shown(format!("{text}\n{}. From {provenance}.\n", self.caption))
    }

    /// The table as LaTeX, for the package booktabs.
    pub(crate) fn latex(&self, provenance: &str) -> String {
        let unit = self.unit();
        let line = |cells: Vec<String>| format!("    {} \\\\\n", cells.join(" & "));
        let columns: String =
            self.columns.iter().map(|column| if column.kind == Kind::Text { 'l' } else { 'r' }).collect();
        let heads = line(self.columns.iter().map(|column| latex(&column.text(unit))).collect());
        let rows: String = self
            .rows
            .iter()
            .map(|row| line(row.cells.iter().map(|cell| latex(&cell.text(unit))).collect()))
            .collect();
        format!(
            "% {}. From {provenance}.\n\\begin{{tabular}}{{{columns}}}\n    \\toprule\n{heads}    \\midrule\n{rows}    \\bottomrule\n\\end{{tabular}}\n",
            comment(&self.caption),
            provenance = comment(provenance),
        )
    }

    /// The unit of rates in which its greatest reads best.
    fn unit(&self) -> RateUnit {
        let rates = self.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| match cell {
            Cell::Rate { pps, .. } | Cell::Estimate { pps, .. } => Some(*pps),
            _ => None,
        });
        let key = RateUnit::fitting(rates.fold(0.0, f64::max));
        *units::RATE_UNITS.iter().find(|unit| unit.key == key).expect("the unit that fits is one of them")
    }

    /// The CSV as a `data:` address (RFC 2397).
    fn link(&self) -> String {
        let mut link = String::from("data:text/csv;charset=utf-8,");
        for byte in self.csv().bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b',' | b':' => {
                    link.push(char::from(byte))
                }
                byte => link.push_str(&format!("%{byte:02X}")),
            }
        }
        link
    }
}

fn head(column: &Column) -> Markup {
    html! {
        th scope="col" class=[(column.kind != Kind::Text).then_some("n")] {
            (column.head)
            @if column.kind == Kind::Rate { ", " (units::rate_unit()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_csv_holds_base_units_and_quotes_what_it_must() {
        let table = Table {
            id: "t".into(),
            caption: "a table".into(),
            columns: vec![column("Name", "name", Kind::Text), column("Rate", "rate_pps", Kind::Rate)],
            rows: vec![Row {
                cells: vec![Cell::Text("a, \"b\"".into()), Cell::Rate { pps: 2.5e6, mean_frame_bytes: 64.0 }],
                suspect: false,
            }],
        };
        assert_eq!(table.csv(), "name,rate_pps\r\n\"a, \"\"b\"\"\",2500000\r\n");
        assert!(table.link().starts_with("data:text/csv;charset=utf-8,name,rate_pps%0D%0A%22a"));
    }

    #[test]
    fn a_warning_that_stands_in_every_row_is_said_once() {
        let table = |notes: &[&str]| Table {
            id: "t".into(),
            caption: "a table".into(),
            columns: vec![column("Frame", "frame", Kind::Text), column("Note", "note", Kind::Text)],
            rows: notes
                .iter()
                .map(|note| Row {
                    cells: vec![Cell::Text("64".into()), Cell::Text((*note).into())],
                    suspect: true,
                })
                .collect(),
        };
        let html = |notes: &[&str]| table(notes).html(&Around::default()).into_string();
        let all = html(&["late & lost"; 3]);
        assert!(all.contains("<p class=\"warning\">Every row: late &amp; lost</p>"), "{all}");
        assert_eq!(all.matches("late &amp; lost").count(), 1, "{all}");
        for notes in [&["late", "late", "lost"][..], &["late"], &["", ""], &[]] {
            assert!(!html(notes).contains("Every row"), "{notes:?}");
        }
        assert!(html(&["late", "lost"]).contains("<td>lost</td>"));
        assert_eq!(
            table(&["late"; 2]).csv(),
            "frame,note\r\n64,late\r\n64,late\r\n",
            "a program reads every row"
        );
    }

    #[test]
    fn markdown_and_latex_escape_what_they_would_read_as_their_own() {
        let cells =
            vec![Cell::Text("a|b_c & 5 %".into()), Cell::Estimate { pps: 2.5e6, mean_frame_bytes: 64.0 }];
        let table = Table {
            id: "t".into(),
            caption: "a table".into(),
            columns: vec![column("Name", "name", Kind::Text), column("Rate", "rate_pps", Kind::Rate)],
            rows: vec![Row { cells, suspect: false }],
        };
        let markdown = table.markdown("run otter");
        assert_eq!(
            markdown,
            "| Name | Rate, Mpps |\n| --- | ---: |\n| a\\|b_c & 5 % | ≈ 2.500 |\n\na table. From run otter.\n"
        );
        let latex = table.latex("run otter");
        assert!(latex.contains("    a|b\\_c \\& 5 \\% & $\\approx$ 2.500 \\\\\n"), "{latex}");
        // A text that ends the comment's line would be read as LaTeX.
        let hostile = table.latex("run otter\n\\input{/etc/passwd}\u{85}x\r\\write18{rm}");
        let first = hostile.lines().next().unwrap();
        assert!(
            first.starts_with("% ") && first.contains("input{/etc/passwd}") && first.contains("write18"),
            "{hostile}"
        );
        assert_eq!(hostile.matches("passwd").count(), 1, "{hostile}");
        assert!(latex.starts_with("% a table. From run otter.\n\\begin{tabular}{lr}\n"), "{latex}");
    }
}
