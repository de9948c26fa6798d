//! The scripts of a pack run on a copy of it, and what they measured compared with what is packed.
//!
//! The place is clean of the user: an empty folder, an empty home, no database and no variables but those named in
//! [`KEPT`]. It is the same machine, with the devices that are installed on it.

use super::check::{How, Known};
use super::folder::{AGAIN, COMPARE, RERUN};
use crate::cmd::{BadUse, store_error};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use weir_methods::compare::{Better, Comparison, Method, Row, Side, Verdict, compare};
use weir_store::{Selector, Store};
use weir_trial::run::Run;
use weir_units::{Nanos, Ratio};

/// Variables that are kept, beside those that begin with `WEIR_`: where programs, built devices and shared libraries are.
const KEPT: [&str; 5] = ["PATH", "TMPDIR", "LANG", "LD_LIBRARY_PATH", "RUST_BACKTRACE"];
/// Most rows that are told one by one.
const TOLD: usize = 20;
/// Most reasons that are told why something cannot be told.
const REASONS: usize = 5;

/// What measuring a run again came to.
pub(super) struct Measured {
    /// In a line.
    pub(super) agreement: String,
    /// What does not agree, each in a line.
    pub(super) lines: Vec<String>,
    /// How many of them are failures.
    pub(super) faults: usize,
}

/// Runs both scripts on a copy, and compares.
pub(super) fn measure(folder: &Path, known: &[Known], how: &How) -> anyhow::Result<Vec<Measured>> {
    let place = tempfile::Builder::new().prefix("weir-pack-").tempdir()?;
    let (pack, home) = (place.path().join("pack"), place.path().join("home"));
    std::fs::create_dir(&home)?;
    copy(folder, &pack)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = interrupted.clone();
    // The scripts hear Ctrl-C too, and end by themselves; then the place is cleared.
    ctrlc::set_handler(move || flag.store(true, Ordering::SeqCst))?;
    let clean = Clean { pack: &pack, home: &home };
    let options: &[&str] = if how.short { &["--short"] } else { &[] };
    let rerun = clean.script(RERUN, options)?;
    if interrupted.load(Ordering::SeqCst) {
        return Err(BadUse::new("interrupted; nothing of it is kept").into());
    }
    if !matches!(rerun, Some(0 | 1)) {
        return Err(anyhow::anyhow!("{RERUN} failed, {}; what it said stands above", code(rerun)));
    }
    let compared = clean.script(COMPARE, &[])?;
    if compared != Some(0) {
        return Err(anyhow::anyhow!("{COMPARE} failed, {}; what it said stands above", code(compared)));
    }
    known.iter().map(|known| one(known, &pack, how.bound)).collect()
}

fn code(code: Option<i32>) -> String {
    code.map_or("by a signal".to_owned(), |code| format!("exit code {code}"))
}

/// A copy of a pack and a home for it.
struct Clean<'a> {
    pack: &'a Path,
    home: &'a Path,
}

impl Clean<'_> {
    /// Runs a script to its end, and says how long it took. Its output is kept back unless it fails.
    fn script(&self, name: &str, options: &[&str]) -> anyhow::Result<Option<i32>> {
        let begun = Instant::now();
        let output = Command::new("sh")
            .arg(self.pack.join(name))
            .args(options)
            .current_dir(self.pack)
            .env_clear()
            .envs(self.variables()?)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| BadUse::new(format!("sh, which runs the scripts: {error}")))?;
        let took = Nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let line = [&[name], options].concat().join(" ");
        let fine = matches!(output.status.code(), Some(0 | 1));
        if !fine {
            crate::cmd::print(&String::from_utf8_lossy(&output.stdout))?;
        }
        crate::cmd::print(&format!("ran    {line}: {}, {took}\n", code(output.status.code())))?;
        Ok(output.status.code())
    }

    fn variables(&self) -> anyhow::Result<Vec<(OsString, OsString)>> {
        let is_kept = |name: &OsString| {
            name.to_str().is_some_and(|name| KEPT.contains(&name) || name.starts_with("WEIR_"))
        };
        let mut variables: Vec<_> = std::env::vars_os().filter(|(name, _)| is_kept(name)).collect();
        // Devices that were built on this machine lie in the cache.
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache").into_os_string());
        if let Some(cache) = std::env::var_os("XDG_CACHE_HOME").or(home) {
            variables.push(("XDG_CACHE_HOME".into(), cache));
        }
        variables.push(("HOME".into(), self.home.into()));
        variables.push(("WEIR".into(), std::env::current_exe()?.into()));
        Ok(variables)
    }
}

/// Copies a folder, whose files are plain as its checksums say; what was measured there before stays behind.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true if entry.file_name() == AGAIN => {}
            true => copy(&entry.path(), &target)?,
            false => std::fs::copy(entry.path(), target).map(|_| ())?,
        }
    }
    Ok(())
}

/// Compares a run with what was measured of it.
fn one(known: &Known, pack: &Path, bound: Option<Ratio>) -> anyhow::Result<Measured> {
    let name = known.head.folder.trim_start_matches("runs/");
    let database = pack.join(AGAIN).join(format!("{name}.db"));
    let store = Store::open_existing(Some(&database)).map_err(store_error)?;
    let run = store.find(&Selector::Last(0)).map_err(store_error)?;
    let again = store.load(run).map_err(store_error)?;
    Ok(agreement(name, &known.run, &again, bound))
}

fn agreement(name: &str, packed: &Run, again: &Run, bound: Option<Ratio>) -> Measured {
    let side = |run| Side { run, dut: None };
    let comparison = compare(side(packed), side(again), bound);
    let count = |is: &dyn Fn(&Row) -> bool| comparison.rows.iter().filter(|row| is(row)).count();
    let agree = count(&|row| agrees(row) == Some(true));
    let differ: Vec<&Row> = comparison.rows.iter().filter(|row| agrees(row) == Some(false)).collect();
    let untold = comparison.rows.len() - agree - differ.len();
    let mut text =
        format!("{name}: of {} quantities {agree} agree, {} differ", comparison.rows.len(), differ.len());
    if untold > 0 {
        text.push_str(&format!(", {untold} cannot be told"));
    }
    let explains = comparison.environment.iter().filter(|difference| difference.explains).count();
    let facts = comparison.environment.len();
    text.push_str(&format!("; {facts} facts of the environment differ, {explains} of which can explain it"));
    let mut lines = untold_why(&comparison);
    lines.extend(differ.iter().take(TOLD).map(|row| told(row)));
    let more = differ.len().saturating_sub(TOLD);
    lines.extend((more > 0).then(|| format!("and {more} more")));
    let mut faults = 0;
    for alone in comparison.only_a.iter().filter(|alone| alone.failed_in_b) {
        lines.push(format!("{} {}: {}", alone.key.nf, alone.key.device(), alone.why));
        faults += 1;
    }
    if bound.is_some() && !comparison.is_decided() {
        lines.push(
            "the bound could be judged nowhere: too few numbers, or none that may be ranked".to_owned(),
        );
        faults += 1;
    }
    for row in broken(&comparison) {
        lines.push(format!("worse than the bound: {}", told(row)));
        faults += 1;
    }
    Measured { agreement: text, lines, faults }
}

/// Why some quantities cannot be told, and how many each time.
fn untold_why(comparison: &Comparison) -> Vec<String> {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for row in comparison.rows.iter().filter(|row| agrees(row).is_none()) {
        let why = match &row.verdict {
            Verdict::Unknown(why) => format!("{why}, scatter unknown"),
            Verdict::NotRanked(why) => format!("not ranked: {why}"),
            Verdict::A | Verdict::B | Verdict::Equal | Verdict::Chance => continue,
        };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, count)) => *count += 1,
            None => reasons.push((why, 1)),
        }
    }
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = reasons.len().saturating_sub(REASONS);
    let lines =
        reasons.into_iter().take(REASONS).map(|(why, count)| format!("{count} cannot be told: {why}"));
    lines.chain((more > 0).then(|| format!("and {more} more reasons"))).collect()
}

/// The rows that break the bound.
fn broken(comparison: &Comparison) -> impl Iterator<Item = &Row> {
    use weir_methods::compare::BoundVerdict::Broken;
    comparison.rows.iter().filter(|row| matches!(row.bound, Some(Broken(_))))
}

/// Whether both numbers are the same as far as can be told; nothing where it cannot. One search has bounds and no known
/// scatter: bounds that reach each other agree, and of others nothing can be said.
fn agrees(row: &Row) -> Option<bool> {
    let overlaps = row.interval.is_some_and(|interval| interval.low <= 1.0 && 1.0 <= interval.high);
    match row.verdict {
        Verdict::Equal | Verdict::Chance => Some(true),
        Verdict::A | Verdict::B => Some(false),
        Verdict::Unknown(_) => (row.method == Method::Bounds && overlaps).then_some(true),
        Verdict::NotRanked(_) => None,
    }
}

fn told(row: &Row) -> String {
    let key = &row.key;
    let ratio = row.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
    let interval = row.interval.map_or_else(String::new, |interval| {
        format!(" (95 % interval {:.3} to {:.3})", interval.low, interval.high)
    });
    let better = if row.better == Better::Higher { "higher" } else { "lower" };
    format!(
        "{} {} {} {} {}, {}: {ratio} of what is packed{interval}; {better} is better",
        key.nf,
        key.device(),
        key.wiring,
        key.trace,
        key.size,
        row.quantity
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trial::run::PointResult;

    /// A run with five trials at each of three devices, and the same with the first device's rates changed.
    fn runs(factor: f64) -> [Run; 2] {
        let text = include_str!("../../../../../docs/runs/readme.json");
        let packed = Run::from_json(text).unwrap();
        let mut again = Run { uuid: "another".to_owned(), ..packed.clone() };
        let PointResult::Mrr(result) = &mut again.points[0].results[0] else { panic!("it has rates") };
        result.rates.iter_mut().for_each(|rate| rate.0 *= factor);
        [packed, again]
    }

    #[test]
    fn what_agrees_is_counted_and_what_differs_is_named_with_its_ratio() {
        let [packed, again] = runs(1.0);
        let same = agreement("readme", &packed, &again, None);
        assert!(
            same.agreement.starts_with("readme: of 3 quantities 3 agree, 0 differ;"),
            "{}",
            same.agreement
        );
        assert!(same.lines.is_empty() && same.faults == 0);
        let [packed, again] = runs(0.5);
        let other = agreement("readme", &packed, &again, None);
        assert!(other.agreement.contains("2 agree, 1 differ"), "{}", other.agreement);
        assert!(
            other.lines[0].contains("l3fwd:10 weir fed") && other.lines[0].contains("0.500 of what"),
            "{:?}",
            other.lines
        );
        assert_eq!(other.faults, 0, "another machine may be slower");
        let bound = agreement("readme", &packed, &again, Some(Ratio(0.1)));
        assert_eq!(bound.faults, 1, "{:?}", bound.lines);
        let mut failed = again.clone();
        failed.points[1].error = Some("would not start".to_owned());
        let failed = agreement("readme", &packed, &failed, None);
        assert_eq!(failed.faults, 1);
        assert!(failed.lines.iter().any(|line| line.contains("would not start")), "{:?}", failed.lines);
    }

    #[test]
    fn a_copy_has_everything_but_what_was_measured_there() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::create_dir_all(from.join("runs/x")).unwrap();
        std::fs::create_dir_all(from.join(AGAIN)).unwrap();
        std::fs::write(from.join("runs/x/plan.toml"), "plan").unwrap();
        std::fs::write(from.join(AGAIN).join("x.db"), "old").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(std::fs::read_to_string(to.join("runs/x/plan.toml")).unwrap(), "plan");
        assert!(!to.join(AGAIN).exists());
    }
}
