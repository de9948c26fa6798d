//! Tests: every command that a help text, README.md or docs/measuring.md shows is one that this program
//! understands, and the plans among them are plans.

use super::{Command, bench};
use crate::Cli;
use clap::{CommandFactory as _, Parser as _};
use std::path::Path;
use weir_campaign::plan::{ASSUMED_OVERHEAD, Known, Plan};
use weir_units::Nanos;
use weir_wire::pcap::{CaptureWriter, Format};

const README: &str = include_str!("../../../../README.md");
const MEASURING: &str = include_str!("../../../../docs/measuring.md");

/// The words of a command as a shell splits them; nothing where quotes do not close.
fn words(command: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in command.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            Some(_) => word.get_or_insert_default().push(letter),
            None if letter == '\'' || letter == '"' => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// The calls of this program in a line of a shell, each in words.
fn calls(line: &str) -> Vec<Vec<String>> {
    let line = line.trim().trim_start_matches("$ ");
    let Some(words) = words(line) else { return Vec::new() };
    let ends = |word: &&String| ["&&", "|", ";", ">", "||"].contains(&word.as_str());
    let mut calls = Vec::new();
    for part in words.split(|word| ends(&word)) {
        let skip = usize::from(part.first().is_some_and(|word| word == "sudo"));
        let mut part: Vec<String> = part[skip..].to_vec();
        // `weir bench; ...`: the semicolon clings to its word.
        if let Some(at) = part.iter().position(|word| word.ends_with(';')) {
            part.truncate(at + 1);
            part[at].pop();
        }
        if part.first().is_some_and(|word| word == "weir") && part.len() > 1 {
            calls.push(part);
        }
    }
    calls
}

/// Whether a call stands for many: `RUN`, `…`.
fn is_pattern(call: &[String]) -> bool {
    let capital =
        |word: &String| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    call.iter().any(|word| word.contains('…') || word.contains("...") || capital(word))
}

fn understood(call: &[String]) -> Result<Cli, String> {
    Cli::try_parse_from(call).or_else(|error| match error.kind() {
        clap::error::ErrorKind::DisplayHelp | clap::error::ErrorKind::DisplayVersion => {
            Cli::try_parse_from(["weir", "runs"]).map_err(|error| error.to_string())
        }
        _ => Err(format!("{}: {error}", call.join(" "))),
    })
}

/// Every example of a command and of all below it.
fn examples(command: &clap::Command, found: &mut Vec<Vec<String>>) {
    let text = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let text = text.replace("\\\n", " "); // a call goes on in the next line
    // Examples stand below their description, indented further.
    found.extend(text.lines().filter(|line| line.starts_with("    ")).flat_map(calls));
    command.get_subcommands().for_each(|below| examples(below, found));
}

fn all_examples() -> Vec<Vec<String>> {
    let mut found = Vec::new();
    examples(&Cli::command(), &mut found);
    found
}

#[test]
fn every_example_of_every_help_text_is_understood() {
    let all = all_examples();
    assert!(all.len() > 40, "{}", all.len());
    let wrong: Vec<String> = all.iter().filter_map(|call| understood(call).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_example_of_bench_has_a_plan_that_can_be_run() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine.toml");
    std::fs::write(&mine, plan_of_page().0).unwrap();
    let [flows, capture] = ["site.flows", "site.pcap"].map(|name| folder.path().join(name));
    std::fs::write(&flows, "priority=10,udp,actions=output:2\n").unwrap();
    let mut writer = CaptureWriter::new(std::fs::File::create(&capture).unwrap(), Format::Pcap).unwrap();
    writer.write(Nanos(0), &[0; 60]).unwrap();
    writer.finish().unwrap();
    let of_bench = all_examples().into_iter().filter(|call| call[1] == "bench");
    let mut planned = 0;
    for call in of_bench.filter(|call| !call.contains(&"--resume".to_owned())) {
        let own = |word: &String| match word.as_str() {
            "mine.toml" | "again.toml" => mine.display().to_string(),
            "site.flows" => flows.display().to_string(),
            "site.pcap" => capture.display().to_string(),
            _ => word.clone(),
        };
        let call: Vec<String> = call.iter().map(own).collect();
        let Command::Bench(args) = understood(&call).unwrap().command else { panic!("{call:?}") };
        let plan = bench::read(&args).unwrap_or_else(|error| panic!("{}: {error}", call.join(" "))).0;
        assert!(!plan.expand().is_empty(), "{call:?} has no point");
        planned += 1;
    }
    assert!(planned >= 4, "{planned}");
}

/// The plan that docs/measuring.md shows, and the words behind it.
fn plan_of_page() -> (&'static str, &'static str) {
    let (_, rest) = MEASURING.split_once("```toml\n").expect("docs/measuring.md shows a plan");
    rest.split_once("```\n").expect("its end")
}

#[test]
fn the_plan_of_the_page_takes_the_time_that_the_page_says() {
    let (text, behind) = plan_of_page();
    let plan =
        Plan::parse(text, Path::new("mine.toml"), &Known::here()).unwrap_or_else(|error| panic!("{error}"));
    let minutes = |word: &str| -> f64 {
        let (_, rest) = behind
            .split_once(word)
            .unwrap_or_else(|| panic!("docs/measuring.md says {word:?} behind its plan"));
        rest.split_whitespace().next().unwrap().parse().unwrap()
    };
    let (about, most) = (minutes("about"), minutes("at most"));
    let expected = plan.estimate(ASSUMED_OVERHEAD).time.seconds() / 60.0;
    let longest = plan.longest(ASSUMED_OVERHEAD).seconds() / 60.0;
    assert!(
        (expected - about).abs() <= 1.0 + about * 0.1,
        "docs/measuring.md says {about} min, the plan {expected:.1}"
    );
    assert!(
        longest <= most && longest * 1.2 >= most,
        "docs/measuring.md says at most {most} min, the plan {longest:.1}"
    );
    assert!(most <= 60.0, "a sample that nobody waits for");
}

/// The calls of this program that a page shows, in blocks and in its sentences.
fn commands_of(page: &str) -> Vec<Vec<String>> {
    let fenced = page.split("```").skip(1).step_by(2).flat_map(str::lines);
    let outside: String = page.split("```").step_by(2).collect();
    let spans: Vec<String> =
        outside.split('`').skip(1).step_by(2).map(|span| span.replace('\n', " ")).collect();
    let lines = fenced.map(|line| line.split(" #").next().unwrap_or(line).trim_end_matches('\\').to_owned());
    lines.chain(spans).flat_map(|line| calls(&line)).collect()
}

#[test]
fn every_command_in_readme_and_measuring_is_understood() {
    let all: Vec<Vec<String>> = [README, MEASURING].into_iter().flat_map(commands_of).collect();
    let concrete: Vec<&Vec<String>> = all.iter().filter(|call| !is_pattern(call)).collect();
    assert!(concrete.len() > 12, "{concrete:?}");
    // A part of a command is shown, too: `weir switch` needs its ports on the next line.
    let parts = ["weir switch --flows", "weir switch --listen", "weir trace info"];
    let whole =
        |call: &&&Vec<String>| !parts.iter().any(|part| call.join(" ").starts_with(part)) && !call.is_empty();
    let names_only = |call: &[String]| call.len() == 2 || (call.len() == 3 && !call[2].starts_with('-'));
    let wrong: Vec<String> = concrete
        .iter()
        .filter(whole)
        .filter_map(|call| match Cli::try_parse_from(call.iter()) {
            Ok(_) => None,
            Err(error) if names_only(call) && error.kind() != clap::error::ErrorKind::InvalidSubcommand => {
                None
            }
            Err(error) => Some(format!("{}: {error}", call.join(" "))),
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
