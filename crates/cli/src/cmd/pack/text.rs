//! What is written for people: the README of a pack, the environments, and the two scripts.
//!
//! The scripts hold nothing of the runs, so they are the same in every pack of one Weir, and a changed one is known.

use super::folder::{self, Packed};
use super::short;
use crate::cmd::stored::when;
use std::fmt::Write as _;
use weir_trial::run::Run;
use weir_units::Nanos;

/// Measures everything again.
pub(super) const RERUN: &str = r#"#!/bin/sh
# Measures every run of this pack again, each into a database of its own: again/NAME.db, with its page beside it.
# Run it in an isolated lab only: RFC 6815 keeps tests of this kind off production networks.
# WEIR names the program, where it is not in PATH. Exit code: 0 every point was measured; 1 some could not be; 2 bad use.
set -u
cd "$(dirname "$0")" || exit 2
WEIR=${WEIR:-weir}
plan=plan.toml
case "${1-}" in
    "") ;;
    --short) plan=short.toml ;;
    *) echo "usage: ./rerun.sh [--short]" >&2; exit 2 ;;
esac
mkdir -p again || exit 2
worst=0
for run in runs/*/; do
    name=$(basename "$run")
    echo "== $name"
    "$WEIR" bench "$run$plan" --db "again/$name.db" -o "again/$name.html"
    code=$?
    [ "$code" -le "$worst" ] || worst=$code
done
exit "$worst"
"#;

/// Compares.
pub(super) const COMPARE: &str = r#"#!/bin/sh
# Compares every run of this pack with what rerun.sh measured last. Options go to `weir compare`: --bound 5%, --markdown.
# WEIR names the program, where it is not in PATH. Exit code: 0 compared; 1 a bound is broken; 2 bad use.
set -u
cd "$(dirname "$0")" || exit 2
WEIR=${WEIR:-weir}
worst=0
for run in runs/*/; do
    name=$(basename "$run")
    echo "== $name"
    if [ ! -f "again/$name.db" ]; then
        echo "it was not measured again; run ./rerun.sh" >&2
        worst=2
        continue
    fi
    "$WEIR" compare "${run}run.weir" @last --db "again/$name.db" "$@"
    code=$?
    [ "$code" -le "$worst" ] || worst=$code
done
exit "$worst"
"#;

/// The facts of the machine, of every time that the run was taken up.
pub(super) fn environment(run: &Run) -> String {
    let facts = |facts: &std::collections::BTreeMap<String, String>| {
        facts.iter().map(|(name, value)| format!("{name} = {}\n", one_line(value))).collect::<String>()
    };
    let mut text = format!("# begun {} by {}\n", when(run.started_ms), one_line(&run.weir));
    text.push_str(&facts(&run.environment));
    for session in &run.sessions {
        let (when, weir) = (when(session.started_ms), one_line(&session.weir));
        let _ = write!(text, "\n# taken up again {when} by {weir}\n{}", facts(&session.environment));
    }
    text
}

/// A text without ends of lines and other control characters.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A text as a cell of a table in Markdown.
fn cell(text: &str) -> String {
    one_line(text).replace('|', "\\|").replace('<', "&lt;")
}

/// The README.
pub(super) fn readme(packed: &[Packed]) -> String {
    let mut text = String::from("# What was measured, and how to measure it again\n\n");
    let count = match packed.len() {
        1 => "one measurement".to_owned(),
        several => format!("{several} measurements"),
    };
    let _ = writeln!(
        text,
        "This folder holds {count} of software dataplanes by Weir: plans, every trial, the machines, the figures, and \
         two scripts. Made by {}.\n",
        crate::cmd::WEIR
    );
    text.push_str(&table(packed));
    text.push_str(&contents());
    text.push_str(&again(packed));
    text.push_str(&not_in_it(packed));
    text
}

fn table(packed: &[Packed]) -> String {
    let mut text = String::from(
        "| folder | measured | by | machine | functions | devices | points | trials |\n|---|---|---|---|---|---|---:|---:|\n",
    );
    for one in packed {
        let run = &one.run;
        let each = |of: &dyn Fn(&weir_trial::run::Point) -> String| {
            let mut found: Vec<String> = Vec::new();
            for value in run.points.iter().map(of) {
                if !found.contains(&value) {
                    found.push(value);
                }
            }
            cell(&found.join(", "))
        };
        let fact = |name: &str| run.environment.get(name).map_or("not told", String::as_str);
        let trials: usize = run.points.iter().map(|point| point.trials.len()).sum();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} | {} | {trials} |",
            one.head.folder,
            when(run.started_ms),
            cell(&run.weir),
            cell(fact("cpu.model")),
            each(&|point| point.key.nf.to_string()),
            each(&|point| point.key.device()),
            run.points.len(),
        );
    }
    text.push_str("\nBundles, by their addresses (a hash of everything in them):\n\n");
    for one in packed {
        let _ = writeln!(
            text,
            "- `{}/{}`: `{}`, run `{}`",
            one.head.folder,
            folder::BUNDLE,
            one.head.address,
            cell(&one.run.uuid)
        );
    }
    text.push('\n');
    text
}

fn contents() -> String {
    format!(
        "## What is in it\n\n\
         | file | what |\n|---|---|\n\
         | `{bundle}` in each folder | the run: plan, every trial with its histograms, environment, configurations of the \
         devices, verdicts, hashes. `weir verify`, `show`, `compare` and `import` read it; without Weir, `tar xzf` |\n\
         | `{plan}`, `{short}` | what was measured, and the same cut down |\n\
         | `{environment}` | the machine: CPU, kernel, DPDK, settings |\n\
         | `page.html` | all results and plots on a page that opens offline |\n\
         | `figures/` | the same plots and tables one by one ({forms}) |\n\
         | `{rerun}`, `{compare}` | the scripts below |\n\
         | `{manifest}`, `SHA256SUMS` | what the pack is, for programs; checksums (`sha256sum -c SHA256SUMS`) |\n\n",
        bundle = folder::BUNDLE,
        plan = folder::PLAN,
        short = folder::SHORT,
        environment = folder::ENVIRONMENT,
        forms = folder::forms(),
        rerun = folder::RERUN,
        compare = folder::COMPARE,
        manifest = folder::MANIFEST,
    )
}

fn again(packed: &[Packed]) -> String {
    let all = |plan: fn(&Packed) -> Nanos| -> String {
        let total = packed.iter().map(plan).fold(0_u64, |sum, time| sum.saturating_add(time.0));
        minutes(Nanos(total))
    };
    format!(
        "## Measuring it again\n\n\
         **Run it in an isolated lab only.** RFC 6815 keeps benchmarks of this kind off production networks: they load \
         a device to the end of what it can do, and whatever shares links, cores or memory with it suffers.\n\n\
         You need Weir (`weir --version`; the versions that measured stand above) and the devices: `weir plan check \
         {first}/{plan}` says what of them is not there. `weir doctor` says what on the machine spoils results.\n\n\
         ```sh\n\
         weir pack --check . --short   # everything below in one: files, bundles, figures, {cut} of measuring, comparison\n\
         ./rerun.sh                    # measures all of it again: {whole}\n\
         ./rerun.sh --short            # or cut down: {cut}\n\
         ./compare.sh                  # with what is packed: environments first, then ratios with their intervals\n\
         ./compare.sh --bound 5%       # fails where it is worse than that beyond chance\n\
         ```\n\n\
         Cut down means: {what}. Times are estimates; starting the devices comes on top. `WEIR=/path/to/weir` names the program where it is not in \
         `PATH`.\n\n\
         On another machine the numbers are other ones. What should agree is what a text concludes from them: ratios \
         between devices, and the shape of a plot. `weir compare FILE/DEVICE FILE/OTHER` gives such a ratio, of the \
         packed run and of the new one.\n",
        first = packed.first().map_or("", |one| one.head.folder.as_str()),
        plan = folder::PLAN,
        whole = all(|one| Packed::takes(&one.plan)),
        cut = all(Packed::takes_short),
        what = short::WHAT,
    )
}

/// A time as a reader plans with it.
fn minutes(time: Nanos) -> String {
    let seconds = time.seconds().ceil();
    if seconds < 90.0 {
        format!("about {seconds} s")
    } else {
        format!("about {:.0} min", (seconds / 60.0).ceil())
    }
}

fn not_in_it(packed: &[Packed]) -> String {
    let mut text = String::new();
    for one in packed {
        for input in one.head.inputs.iter().filter(|input| !input.packed) {
            let _ = writeln!(
                text,
                "- `{}`, which `{}/{}` names: {}.",
                cell(&input.path),
                one.head.folder,
                folder::PLAN,
                input.why
            );
        }
    }
    if text.is_empty() {
        return "\n## What is not in it\n\nThe devices' programs. Their versions stand with each point.\n"
            .to_owned();
    }
    format!(
        "\n## What is not in it\n\nThe devices' programs. Their versions stand with each point. And:\n\n{text}"
    )
}
