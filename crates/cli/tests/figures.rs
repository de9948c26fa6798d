//! The figures of this repository's documents: those that name a run are what it says.

use crate::lab::{told, weir};
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// All documents in which a figure names its run.
fn documents() -> Vec<String> {
    let named = |path: &Path| std::fs::read_to_string(path).is_ok_and(|text| text.contains("\n<!-- weir "));
    let of =
        |folder| std::fs::read_dir(format!("{ROOT}/{folder}")).unwrap().map(|entry| entry.unwrap().path());
    let docs = of("docs").chain(of("docs/tutorials")).filter(|path| path.is_file());
    let documents = docs.chain([format!("{ROOT}/README.md").into()]).filter(|path| named(path));
    documents.map(|path| path.strip_prefix(ROOT).unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn figures_that_name_a_run_are_what_it_says() {
    let documents = documents();
    assert!(!documents.is_empty(), "no document names a run");
    let output = weir().args(["figures", "--check"]).args(&documents).current_dir(ROOT).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
}

#[test]
fn a_figure_that_was_typed_is_found() {
    let document = "README.md";
    // A figure in the text: what `plot` writes is a file beside it.
    let text = std::fs::read_to_string(format!("{ROOT}/{document}")).unwrap();
    let (before, figure) = text.split_at(text.find("\n<!-- weir show ").unwrap() + 1);
    let digit = figure
        .find("Mpps")
        .and_then(|unit| figure[..unit].rfind(|letter: char| letter.is_ascii_digit()))
        .unwrap();
    let other = if figure[digit..].starts_with('7') { "8" } else { "7" };
    let typed = format!("{before}{}{other}{}", &figure[..digit], &figure[digit + 1..]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("typed.md");
    std::fs::write(&path, typed).unwrap();
    let output = weir().args(["figures", "--check"]).arg(&path).current_dir(ROOT).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("differs from `weir "), "{}", told(&output));
}

/// The ratios with intervals, `2.56 (2.10 to 3.11)`, in the cells of a row.
fn ratios(row: &str) -> Vec<&str> {
    let is_ratio = |cell: &&str| {
        let Some((ratio, interval)) = cell.split_once(" (") else { return false };
        let bounds = interval.strip_suffix(')').and_then(|bounds| bounds.split_once(" to "));
        let number = |text: &str| text.parse::<f64>().is_ok();
        number(ratio) && bounds.is_some_and(|(low, high)| number(low) && number(high))
    };
    row.split('|').map(str::trim).filter(is_ratio).collect()
}

/// The rows of Markdown's tables in `text`, each with the name in its first cell; where that is empty, the row
/// before has it.
fn named_rows(text: &str) -> Vec<(String, &str)> {
    let mut name = String::new();
    let rows = text.lines().filter(|line| line.starts_with('|'));
    rows.map(|row| {
        let first = row.split('|').nth(1).unwrap_or_default().trim().trim_matches('`');
        if !first.is_empty() {
            name = first.to_owned();
        }
        (name.clone(), row)
    })
    .collect()
}

#[test]
fn the_ratios_of_readme_are_those_of_the_run_that_it_names() {
    let readme = std::fs::read_to_string(format!("{ROOT}/README.md")).unwrap();
    let (_, rest) = readme.split_once("<!-- ratios of ").expect("README.md names the run of its ratios");
    let (run, rest) = rest.split_once(" -->").unwrap();
    let table = rest.split("\n\n").find(|part| part.trim_start().starts_with('|')).unwrap();
    let output = weir().args(["perf", "--stored", run, "--markdown"]).current_dir(ROOT).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    let measured = named_rows(&printed);
    let mut compared = 0;
    for (name, row) in named_rows(table) {
        for ratio in ratios(row) {
            let there = measured.iter().any(|(of, row)| *of == name && ratios(row).contains(&ratio));
            assert!(there, "{run} has no ratio {ratio} in its row {name}:\n{printed}");
            compared += 1;
        }
    }
    assert_eq!(compared, 5, "{table}");
}

/// The rates in README's sentence that starts with `start` are in the table `id` of `run`.
fn tells_rates_of(start: &str, run: &str, id: &str, count: usize) {
    let readme = std::fs::read_to_string(format!("{ROOT}/README.md")).unwrap();
    let (_, told) = readme.split_once(start).unwrap_or_else(|| panic!("README.md does not say {start:?}"));
    let (told, _) = told.split_once("(`weir bench").unwrap();
    let output = weir().args(["plot", run, "--id", id]).current_dir(ROOT).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    let has_point = |word: &&str| word.contains('.') && word.parse::<f64>().is_ok();
    let words = told.split(|letter: char| letter.is_whitespace() || ",;".contains(letter));
    let rates: Vec<&str> = words.filter(has_point).collect();
    assert_eq!(rates.len(), count, "{rates:?}");
    for rate in rates {
        let least = rate.parse::<f64>().unwrap();
        let is_told = |row: &str| {
            let last = row.trim_end_matches(" |").rsplit("| ").next();
            last.and_then(|cell| cell.parse::<f64>().ok())
                .is_some_and(|cell| (cell - least).abs() < least * 0.001)
        };
        assert!(table.lines().any(is_told), "{run} has no rate {rate}:\n{table}");
    }
}

#[test]
fn the_rates_that_readme_tells_of_its_plots_are_those_of_their_runs() {
    tells_rates_of("From 1 to 10,000 conversations", "docs/runs/flows.json", "sweep-flows-table", 5);
    tells_rates_of("Between 16 and 8,192 masks", "docs/runs/tse.json", "sweep-masks-table", 4);
}
