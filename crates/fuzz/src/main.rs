//! `weir-fuzz`: the fuzz targets by hand. `docs/fuzzing.md` is the page.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use weir_cpu::CountingAllocator;
use weir_fuzz::{Effort, TARGETS, Target, corpus, go, one};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const USAGE: &str = "usage: weir-fuzz COMMAND
  list                        the targets
  run NAME|all [SECONDS [SEED]]  the corpus, and inputs changed at random for so long (10) from a seed (1)
  repeat NAME FILE            one input, in a file; `-` behind NAME and a line of the corpus does it too
  keep NAME FILE WHY          puts an input that found something into the corpus, with what was wrong
  unpack NAME FOLDER          writes the corpus as files, for libFuzzer
  pack NAME FOLDER            keeps of a folder's inputs what there is room for";

fn named(name: &str) -> Result<&'static Target, String> {
    weir_fuzz::target(name).ok_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        format!("there is no target `{name}`; there are {}", names.join(", "))
    })
}

fn number(text: Option<&String>, otherwise: u64, what: &str) -> Result<u64, String> {
    let Some(text) = text else { return Ok(otherwise) };
    text.parse().map_err(|_| format!("{what} is a whole number, not `{text}`"))
}

fn run(names: &str, seconds: u64, seed: u64) -> Result<(), String> {
    let chosen: Vec<&'static Target> =
        if names == "all" { TARGETS.iter().collect() } else { vec![named(names)?] };
    let effort = Effort { seed, inputs: u64::MAX, time: Duration::from_secs(seconds) };
    let mut failed = 0;
    for target in chosen {
        match go(target, effort) {
            Ok(account) => println!("{:24} {account}", target.name),
            Err(failure) => {
                println!("{failure}");
                failed += 1;
            }
        }
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} targets found something (seed {seed})")) }
}

fn repeat(target: &'static Target, input: &[u8]) -> Result<(), String> {
    let (outcome, spent) = one(target, input).map_err(|failure| failure.to_string())?;
    println!("{}: {} bytes, {spent}, outcome {:016x}", target.name, input.len(), outcome.0);
    Ok(())
}

fn keep(target: &Target, input: &[u8], why: &str) -> Result<(), String> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("corpus/{}.txt", target.name));
    let before = std::fs::read_to_string(&file).unwrap_or_default();
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = format!("# {why}\n{}\n{before}", corpus::line(input));
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
}

fn read(path: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{path}: {error}"))
}

fn command(words: &[String]) -> Result<(), String> {
    let word = |at: usize| words.get(at).map(String::as_str).ok_or_else(|| USAGE.to_owned());
    match word(0)? {
        "list" => {
            for target in TARGETS {
                println!("{:24} {}", target.name, target.about);
            }
            Ok(())
        }
        "run" => run(word(1)?, number(words.get(2), 10, "SECONDS")?, number(words.get(3), 1, "SEED")?),
        "repeat" if word(2)? == "-" => repeat(named(word(1)?)?, &corpus::input(word(3)?)?),
        "repeat" => repeat(named(word(1)?)?, &read(word(2)?)?),
        "keep" => keep(named(word(1)?)?, &read(word(2)?)?, word(3)?),
        "unpack" => {
            let count = corpus::unpack(named(word(1)?)?, Path::new(word(2)?))?;
            println!("{count} inputs in {}", word(2)?);
            Ok(())
        }
        "pack" => {
            let count = corpus::pack(named(word(1)?)?, Path::new(word(2)?))?;
            println!("{count} inputs are kept of {}", word(1)?);
            Ok(())
        }
        other => Err(format!("no command `{other}`\n{USAGE}")),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match command(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("weir-fuzz: {why}");
            ExitCode::FAILURE
        }
    }
}
