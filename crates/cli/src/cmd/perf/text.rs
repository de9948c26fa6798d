//! The table of speed for a terminal, and as Markdown for docs/performance.md.

use super::super::layout::table;
use super::super::stored::when;
use std::fmt::Write as _;
use weir_campaign::perf::{Measured, Pair, Perf, ROWS, Reached, Row, Side, Unit, regressions};

/// What a remark about an audit says.
const AUDITED: &str = ": audited: ";

/// Columns of the table.
const HEADINGS: [&str; 8] = ["row", "work", "weir", "cycles", "beside", "there", "ratio (95 %)", "target"];

/// What the parentheses in the table are.
const LEGEND: &str = "Behind a rate: the least and the greatest trial, which is no interval. Behind a ratio: its 95 % confidence \
                      interval over the starts. Of a peer in several variants the better one decides.";

/// Steps of a profile that take less than this share of a packet's cycles are summed up.
const SMALL: f64 = 0.01;

/// Facts of the machine that stand with the Markdown; the table's own document has all.
const FACTS: [&str; 13] = [
    "cpu.model",
    "cpu.cores",
    "cpu.caches",
    "cpu.smt",
    "clock.tsc-frequency",
    "virtual.hypervisor",
    "memory.huge-pages.2M.total",
    "os.release",
    "dpdk.version",
    "build.profile",
    "build.target-cpu",
    "build.rustc",
    "weir.version",
];

/// A table whose numbers stand to the right.
pub(super) fn plain(headings: &[&str], rows: &[Vec<String>]) -> String {
    table(headings, &[2, 3, 4, 5], rows)
}

/// The rows without figures.
pub(super) fn list(rows: &[Row]) -> String {
    let cells = |row: &Row| {
        let Measured { target, .. } = Measured::unavailable(row, "");
        let quick = if row.quick { "quick" } else { "" };
        vec![
            row.id.to_owned(),
            row.work.to_owned(),
            target.map_or_else(String::new, |target| target.says),
            quick.into(),
        ]
    };
    table(&["row", "work", "target", ""], &[], &rows.iter().map(cells).collect::<Vec<_>>())
}

/// A number with its unit.
fn amount(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Pps if value >= 1e7 => format!("{:.1} Mpps", value / 1e6),
        Unit::Pps => format!("{:.3} Mpps", value / 1e6),
        Unit::Bps => format!("{:.1} Gb/s", value / 1e9),
        Unit::Ns if value >= 1e4 => format!("{:.1} µs", value / 1e3),
        Unit::Ns => format!("{value:.0} ns"),
    }
}

fn cycles(side: &Side) -> String {
    side.cycles_per_packet.map_or_else(|| "–".to_owned(), |cycles| format!("{cycles:.0}"))
}

fn rate(side: &Side) -> String {
    format!(
        "{} ({} to {})",
        amount(side.median, side.unit),
        bare(side.min, side.unit),
        bare(side.max, side.unit)
    )
}

/// A number in its unit, without it.
fn bare(value: f64, unit: Unit) -> String {
    let text = amount(value, unit);
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn ratio(pair: &Pair) -> String {
    match (pair.ratio, pair.interval) {
        (Some(ratio), Some((low, high))) => format!("{ratio:.2} ({low:.2} to {high:.2})"),
        (Some(ratio), None) => format!("{ratio:.2}"),
        _ => "–".to_owned(),
    }
}

fn verdict(target: &Reached) -> String {
    let word = match (target.reached, target.sure) {
        (None, _) => "not measured",
        (Some(true), true) => "reached",
        (Some(true), false) => "reached, not surely",
        (Some(false), true) => "MISSED",
        (Some(false), false) => "missed, not surely",
    };
    format!("{}: {word}", target.says)
}

/// A measured row's lines of cells: one a pair.
fn lines(measured: &Measured) -> Vec<Vec<String>> {
    let target = |place: usize| match (&measured.target, place) {
        (Some(target), 0) => verdict(target),
        _ => String::new(),
    };
    let mut lines: Vec<Vec<String>> = measured
        .pairs
        .iter()
        .enumerate()
        .map(|(place, pair)| {
            let first = |text: &str| if place == 0 { text.to_owned() } else { String::new() };
            let (beside, there) = pair.other.as_ref().map_or_else(
                || (String::new(), String::new()),
                |other| (device(&other.name), format!("{}, {} cycles", rate(other), cycles(other))),
            );
            vec![
                first(&measured.row),
                first(&measured.work),
                rate(&pair.weir),
                cycles(&pair.weir),
                beside,
                there,
                ratio(pair),
                target(place),
            ]
        })
        .collect();
    if let (Some(quoted), Some(first)) = (&measured.quoted, measured.pairs.first()) {
        let times = match quoted.unit {
            Unit::Ns => quoted.value / first.weir.median,
            _ => first.weir.median / quoted.value,
        };
        let mut line = vec![String::new(); HEADINGS.len()];
        line[4] = "quoted".to_owned();
        line[5] = amount(quoted.value, quoted.unit);
        line[6] = format!("{times:.2}");
        lines.push(line);
    }
    if lines.is_empty() {
        let mut line = vec![String::new(); HEADINGS.len()];
        (line[0], line[1]) = (measured.row.clone(), measured.work.clone());
        line[2] = "–".to_owned();
        line[7] = target(0);
        lines.push(line);
    }
    lines
}

/// A device's name without the folders of a program.
fn device(name: &str) -> String {
    match name.split_once("at=") {
        Some((head, _)) => format!("{head}base"),
        None => name.to_owned(),
    }
}

/// A line or two about a row just measured.
pub(super) fn progress(measured: &Measured) -> String {
    let pairs = measured.pairs.iter().map(|pair| {
        let other = pair.other.as_ref().map_or_else(String::new, |other| {
            format!(", {} {}", device(&other.name), amount(other.median, other.unit))
        });
        format!("  weir {}{other}: {}", amount(pair.weir.median, pair.weir.unit), ratio(pair))
    });
    let target = measured.target.iter().map(|target| format!("  {}", verdict(target)));
    let remarks = measured.remarks.iter().map(|remark| format!("  {remark}"));
    pairs.chain(target).chain(remarks).collect::<Vec<_>>().join("\n")
}

/// The rows of all tables, in the order of `--list`.
fn ordered(tables: &[Perf]) -> Vec<&Measured> {
    let mut rows: Vec<&Measured> = tables.iter().flat_map(|table| &table.rows).collect();
    rows.sort_by_key(|measured| ROWS.iter().position(|row| row.id == measured.row));
    rows
}

fn cells(tables: &[Perf]) -> Vec<Vec<String>> {
    ordered(tables).into_iter().flat_map(lines).collect()
}

/// What stands below the table: remarks, sources of quoted figures, and for a base what is slower.
fn notes(tables: &[Perf]) -> Vec<String> {
    let mut notes = Vec::new();
    for row in ordered(tables) {
        notes.extend(row.remarks.iter().map(|remark| format!("{}: {remark}", row.row)));
        notes.extend(row.quoted.iter().map(|quoted| format!("{}: quoted: {}", row.row, quoted.what)));
    }
    for perf in tables.iter().filter(|table| table.base.is_some()) {
        notes.push(sight(perf));
        notes.extend(against_base(perf));
    }
    notes
}

/// What is slower than the base, and which rows say nothing of it.
fn against_base(perf: &Perf) -> Vec<String> {
    let names = |rows: &[&Measured]| rows.iter().map(|row| row.row.clone()).collect::<Vec<_>>().join(", ");
    let is_compared = |row: &&Measured| row.pairs.first().is_some_and(|pair| pair.chance.is_some());
    let (compared, others): (Vec<_>, Vec<_>) = perf.rows.iter().partition(is_compared);
    let slower = regressions(&perf.rows);
    let mut said = Vec::new();
    if !others.is_empty() {
        said.push(format!("NOT compared with the base: {}", names(&others)));
    }
    if !slower.is_empty() {
        said.push(format!("SLOWER than the base, beyond chance: {}", names(&slower)));
    } else if !compared.is_empty() {
        said.push("no row that was compared is slower than the base beyond chance".to_owned());
    }
    said
}

/// The smallest effect that each row could see.
fn sight(perf: &Perf) -> String {
    let of = |row: &Measured| {
        let visible = row.pairs.first().and_then(|pair| pair.visible);
        visible.map_or_else(
            || format!("{} none (it is not ranked)", row.row),
            |share| format!("{} {:.1} %", row.row, share * 100.0),
        )
    };
    let rows: Vec<String> = perf.rows.iter().map(of).collect();
    format!("smallest effect seen in four of five repetitions: {}", rows.join(", "))
}

/// Where the cycles go, a row a line: the steps by their cost.
fn profiles(tables: &[Perf]) -> Vec<Vec<String>> {
    let line = |row: &Measured| {
        let whole: f64 = row.profile.iter().map(|step| step.cycles_per_packet).sum();
        let (great, small): (Vec<_>, Vec<_>) =
            row.profile.iter().partition(|step| step.cycles_per_packet >= SMALL * whole);
        let mut steps: Vec<String> =
            great.iter().map(|step| format!("{} {:.1}", step.step, step.cycles_per_packet)).collect();
        let rest: f64 = small.iter().map(|step| step.cycles_per_packet).sum();
        if rest > 0.0 {
            steps.push(format!("the rest {rest:.1}"));
        }
        vec![row.row.clone(), format!("{whole:.0}"), steps.join(" · ")]
    };
    ordered(tables).into_iter().filter(|row| !row.profile.is_empty()).map(line).collect()
}

/// When, of what and how much: a line a table, with its rows where there are several.
fn headings(tables: &[Perf]) -> Vec<String> {
    let of = |perf: &Perf| {
        let rows: Vec<&str> = perf.rows.iter().map(|row| row.row.as_str()).collect();
        let of_rows = if tables.len() > 1 { format!(": {}", rows.join(", ")) } else { String::new() };
        heading(perf) + &of_rows
    };
    tables.iter().filter(|table| tables.len() == 1 || !table.rows.is_empty()).map(of).collect()
}

fn heading(perf: &Perf) -> String {
    let effort = perf.effort;
    format!(
        "{}: {}, {}; {} starts of each side{}, {} trials of {} at each, in turns",
        perf.name,
        perf.weir,
        when(perf.started_ms),
        effort.repeats,
        effort.until.map_or_else(String::new, |until| format!(
            " or more, until {} % would be seen or {} are over",
            f64::from(until.permille) / 10.0,
            until.time
        )),
        effort.trials,
        effort.duration,
    )
}

pub(super) fn terminal(tables: &[Perf]) -> String {
    let mut text = format!("{}\n\n", headings(tables).join("\n"));
    text += &table(&HEADINGS, &[3], &cells(tables));
    let profiles = profiles(tables);
    if !profiles.is_empty() {
        text += "\nWhere Weir's cycles go, a packet (the switch's ledger, from a sample of bursts)\n";
        text += &table(&["row", "cycles", "steps"], &[1], &profiles);
    }
    let _ = writeln!(text, "\n{LEGEND}");
    for note in notes(tables) {
        let _ = writeln!(text, "{note}");
    }
    text
}

pub(super) fn markdown(tables: &[Perf]) -> String {
    let mut text = match headings(tables).as_slice() {
        [one] => format!("Measured: {one}.\n\n"),
        several => {
            format!("Measured:\n\n{}\n", several.iter().map(|one| format!("- {one}\n")).collect::<String>())
        }
    };
    markdown_table(&mut text, &HEADINGS, &cells(tables));
    let _ = writeln!(text, "\n{LEGEND}\n");
    let (audits, notes): (Vec<String>, Vec<String>) =
        notes(tables).into_iter().partition(|note| note.contains(AUDITED));
    list_of(&mut text, &notes);
    if !audits.is_empty() {
        let _ = writeln!(text, "\n<details><summary>What the audits counted: {}</summary>\n", audits.len());
        list_of(&mut text, &audits);
        text += "\n</details>\n";
    }
    text += "\n### Where the cycles go\n\nTSC cycles a packet by step, from the switch's own ledger \
             (a sample of the bursts); services count in `services`.\n\n";
    markdown_table(&mut text, &["row", "sum", "steps"], &profiles(tables));
    text += "\n### Environment\n\n";
    markdown_table(&mut text, &["fact", "value"], &facts(tables));
    let _ = writeln!(text, "\nPeers: {}.", peers(tables).join("; "));
    text
}

fn list_of(text: &mut String, notes: &[String]) {
    for note in notes {
        let _ = writeln!(*text, "- {note}");
    }
}

/// Facts of the machine; where tables differ in one, all its values, the oldest table's first.
fn facts(tables: &[Perf]) -> Vec<Vec<String>> {
    let of = |name: &&str| {
        let mut values: Vec<&str> = Vec::new();
        for value in tables.iter().filter_map(|table| table.environment.get(*name)) {
            if !values.contains(&value.as_str()) {
                values.push(value);
            }
        }
        (!values.is_empty()).then(|| vec![format!("`{name}`"), values.join("; ")])
    };
    FACTS.iter().filter_map(of).collect()
}

/// Devices that are not Weir's switch, with their versions.
fn peers(tables: &[Perf]) -> Vec<String> {
    let pairs = ordered(tables).into_iter().flat_map(|row| &row.pairs);
    let mut versions: Vec<String> = pairs
        .filter_map(|pair| pair.other.as_ref())
        .filter(|other| other.version.as_deref().is_some_and(|version| !version.starts_with("weir ")))
        .filter_map(|other| Some(format!("{}: {}", other.name, other.version.as_deref()?.split(';').next()?)))
        .collect();
    versions.sort_unstable();
    versions.dedup();
    versions
}

fn markdown_table(text: &mut String, headings: &[&str], rows: &[Vec<String>]) {
    let line = |cells: Vec<&str>| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    *text += &line(headings.to_vec());
    *text += &line(vec!["---"; headings.len()]);
    for row in rows {
        *text += &line(row.iter().map(String::as_str).collect());
    }
}
