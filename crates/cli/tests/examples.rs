//! Every command that a help text shows: each is one that the program understands.

use std::process::{Command, Output};

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap()
}

/// The subcommands that a help text lists.
fn listed(help: &str) -> Vec<String> {
    let names =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = names.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Every manual page, as many as there are commands.
fn commands(path: &[String], found: &mut Vec<Vec<String>>) {
    let words: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
    let help = String::from_utf8(weir(&words).stdout).unwrap();
    for name in listed(&help).into_iter().filter(|name| name != "help") {
        let below = [path, &[name]].concat();
        commands(&below, found);
        found.push(below);
    }
}

#[test]
fn manual_pages_and_completions_come_from_the_same_definitions() {
    let mut known = Vec::new();
    commands(&[], &mut known);
    assert!(known.len() > 30, "{known:?}");
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let output = weir(&["man", "--output", pages.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for path in &known {
        let page = pages.join(format!("weir-{}.1", path.join("-")));
        let text =
            std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        assert!(text.contains(".TH"), "{}", page.display());
        let words: Vec<&str> = ["man"].into_iter().chain(path.iter().map(String::as_str)).collect();
        assert!(String::from_utf8(weir(&words).stdout).unwrap().contains(".SH NAME"), "{path:?}");
    }
    let missing = weir(&["man", "bnch"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no page for `bnch`"), "{missing:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = String::from_utf8(weir(&["completions", shell]).stdout).unwrap();
        for word in ["bench", "rescore", "huge-pages", "conntrack"].iter().take(3) {
            assert!(script.contains(word), "{shell} does not complete {word}");
        }
    }
}

#[test]
fn tables_fit_the_width_they_are_given_and_colour_goes_where_it_is_wanted() {
    let run = |columns: Option<&str>, colour: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["dut", "list"]).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        columns.iter().for_each(|columns| {
            command.env("COLUMNS", columns);
        });
        String::from_utf8(command.envs(colour.iter().copied()).output().unwrap().stdout).unwrap()
    };
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(widest(&run(None, &[])) > 100, "into a pipe a row is a line");
    for columns in ["80", "120"] {
        let table: String = run(Some(columns), &[]).split("\n\n").next().unwrap().to_owned();
        assert!(widest(&table) <= columns.parse().unwrap(), "{columns}: {table}");
    }
    let doctor = |colour: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["doctor", "--seconds", "0.05"]).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        String::from_utf8(command.envs(colour.iter().copied()).output().unwrap().stdout).unwrap()
    };
    assert!(!doctor(&[]).contains('\x1b'), "a pipe has no colour");
    assert!(doctor(&[("CLICOLOR_FORCE", "1")]).contains("\x1b["), "unless it is asked for");
    assert!(!doctor(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).contains('\x1b'), "NO_COLOR refuses it");
}
