//! A pack that somebody made: its files, its bundles, its figures, and then its numbers, measured again.

use super::again::{self, Measured};
use super::folder::{BUNDLE, COMPARE, Head, MANIFEST, Manifest, PACK_VERSION, RERUN, is_drawn, of_run};
use super::inputs::stays_below;
use super::{sums, text};
use crate::cmd::BadUse;
use crate::cmd::layout::{BAD, GOOD, paint};
use crate::cmd::rescore::plan_of;
use crate::cmd::stored::open_bundle;
use crate::cmd::verify::unexplained;
use std::path::Path;
use std::process::ExitCode;
use weir_trial::run::Run;
use weir_units::Ratio;

/// How a pack is checked.
pub(super) struct How {
    /// Nothing is measured.
    pub(super) files: bool,
    /// Fewer and shorter trials.
    pub(super) short: bool,
    /// How much worse the numbers may be.
    pub(super) bound: Option<Ratio>,
}

/// What was found so far.
#[derive(Default)]
struct Found {
    faults: usize,
}

impl Found {
    /// Says what holds, or what of it does not.
    fn say(&mut self, what: &str, holds: &str, faults: &[String]) -> anyhow::Result<()> {
        self.faults += faults.len();
        if faults.is_empty() {
            super::super::print(&format!("{}  {what}: {holds}\n", paint(GOOD, "holds")))?;
        }
        for fault in faults {
            super::super::print(&format!("{}  {what}: {fault}\n", paint(BAD, "WRONG")))?;
        }
        Ok(())
    }
}

/// A run of the pack, read.
pub(super) struct Known {
    pub(super) head: Head,
    pub(super) run: Run,
}

/// Checks a pack, and says what of it agrees.
pub(super) fn check(folder: &Path, how: &How) -> anyhow::Result<ExitCode> {
    let place = |why: String| BadUse::new(format!("{}: {why}", folder.display()));
    let (wrong, files) = sums::wrong(folder)
        .map_err(|why| place(format!("{why}; a pack of `weir pack` has checksums of all its files")))?;
    let manifest = manifest(folder).map_err(place)?;
    let mut found = Found::default();
    found.say("files", &format!("{files}, all as SHA256SUMS says"), &wrong)?;
    if !wrong.is_empty() {
        super::super::print("\nNothing more is looked at: what was changed by hand is no pack any more.\n")?;
        return Ok(ExitCode::FAILURE);
    }
    let mut known = Vec::new();
    for head in manifest.runs {
        known.push(bundle(folder, head, &mut found)?);
    }
    figures(folder, &known, &manifest.weir, &mut found)?;
    if found.faults > 0 || how.files {
        return Ok(end(&found));
    }
    scripts(folder).map_err(place)?;
    let measured = again::measure(folder, &known, how)?;
    numbers(&measured, &mut found)?;
    Ok(end(&found))
}

fn end(found: &Found) -> ExitCode {
    if found.faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn manifest(folder: &Path) -> Result<Manifest, String> {
    let text =
        std::fs::read_to_string(folder.join(MANIFEST)).map_err(|error| format!("{MANIFEST}: {error}"))?;
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("{MANIFEST}: {error}"))?;
    let version = value.get("pack").and_then(serde_json::Value::as_u64);
    match version {
        Some(version) if version > u64::from(PACK_VERSION) => {
            return Err(format!(
                "{MANIFEST}: pack version {version}, and this Weir knows {PACK_VERSION}; take a newer one"
            ));
        }
        Some(_) => {}
        None => return Err(format!("{MANIFEST} states no version (`pack`)")),
    }
    let manifest: Manifest = serde_json::from_value(value).map_err(|error| format!("{MANIFEST}: {error}"))?;
    let is_folder = |head: &Head| {
        stays_below(Path::new(&head.folder))
            && head.folder.strip_prefix("runs/").is_some_and(|name| !name.is_empty() && !name.contains('/'))
    };
    match manifest.runs.iter().find(|head| !is_folder(head)) {
        Some(head) => Err(format!("{MANIFEST}: {:?} is no folder of a run", head.folder)),
        None if manifest.runs.is_empty() => Err(format!("{MANIFEST} names no run")),
        None => Ok(manifest),
    }
}

/// Reads a run's bundle and derives its results again.
fn bundle(folder: &Path, head: Head, found: &mut Found) -> anyhow::Result<Known> {
    let bundle = open_bundle(&folder.join(&head.folder).join(BUNDLE))?;
    let mut faults = unexplained(&bundle.run)?;
    if (&bundle.address, &bundle.run.uuid) != (&head.address, &head.uuid) {
        faults.push(format!("its address is {}, and {MANIFEST} says {}", bundle.address, head.address));
    }
    let trials: usize = bundle.run.points.iter().map(|point| point.trials.len()).sum();
    let signed = bundle.signed.map_or("not signed".to_owned(), |(_, key)| format!("signed with {key}"));
    let holds = format!(
        "{} parts, all as hashed; {signed}; {trials} trials and what follows from them",
        bundle.parts
    );
    found.say(&head.folder, &holds, &faults)?;
    Ok(Known { head, run: bundle.run })
}

/// Writes everything that follows from the runs again, and compares it with the files. What another Weir drew may look
/// otherwise: then it is said, and is no fault.
fn figures(folder: &Path, known: &[Known], weir: &str, found: &mut Found) -> anyhow::Result<()> {
    let (mut same, mut other, mut faults) = (0, 0, Vec::new());
    for Known { head, run } in known {
        for (name, bytes) in of_run(run, &plan_of(run)?) {
            let place = format!("{}/{name}", head.folder);
            let there = std::fs::read(folder.join(&place)).ok();
            match there {
                Some(there) if there == bytes => same += 1,
                _ if is_drawn(&name) && weir != crate::cmd::WEIR => other += 1,
                Some(_) => faults.push(format!("{place} is not what its run gives")),
                None => faults.push(format!("{place} is missing")),
            }
        }
    }
    let others = match other {
        0 => String::new(),
        other => {
            format!("; {other} look otherwise when {} makes them, and were made by {weir}", crate::cmd::WEIR)
        }
    };
    let holds = format!("{same} made again from the bundles, the same to the byte{others}");
    found.say("plans, environments, figures", &holds, &faults)
}

/// Whether the scripts are those that this Weir writes: nobody else's are run.
fn scripts(folder: &Path) -> Result<(), String> {
    for (name, ours) in [(RERUN, text::RERUN), (COMPARE, text::COMPARE)] {
        if std::fs::read_to_string(folder.join(name)).ok().as_deref() != Some(ours) {
            return Err(format!(
                "{name} is not what this Weir writes, and is not run: read it, and start it yourself; --files checks the rest"
            ));
        }
    }
    Ok(())
}

/// Says how the numbers agree.
fn numbers(measured: &[Measured], found: &mut Found) -> anyhow::Result<()> {
    for one in measured {
        super::super::print(&format!("\n{}\n", one.agreement))?;
        for line in &one.lines {
            super::super::print(&format!("  {line}\n"))?;
        }
        found.faults += one.faults;
    }
    Ok(())
}
