//! A plan's files of flows: kept with the run, and the same when it goes on; and what two devices made of them.
//!
//! A run's facts name each file and the hash of its bytes; a copy of the bytes lies beside the database's file,
//! or in the working folder where the database is on a server, in `flows/HASH`.

use crate::cmd::BadUse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use weir_campaign::plan::Plan;
use weir_methods::compare::{Comparison, Row, Side, Verdict, compare};
use weir_trial::run::{Point, Run};
use weir_trial::{FlowFile, Nf};

/// The fact that names the plan's files of flows, each with the hash of its bytes.
const FACT: &str = "plan.flows";

/// The files of a plan, each once: chains of several lengths have the same.
fn files(plan: &Plan) -> impl Iterator<Item = FlowFile> {
    let mut found: Vec<FlowFile> = Vec::new();
    for nf in plan.nfs.iter().flat_map(|nf| nf.members()) {
        if let Nf::Flows(file) = nf
            && !found.contains(&file)
        {
            found.push(file);
        }
    }
    found.into_iter()
}

fn named(plan: &Plan) -> String {
    files(plan).map(|file| file.to_string()).collect::<Vec<_>>().join(", ")
}

/// Keeps a plan's files with a run that begins, as copies in a folder, each by its hash.
pub(super) fn keep(
    plan: &Plan,
    copies: &Path,
    environment: &mut BTreeMap<String, String>,
) -> Result<(), BadUse> {
    for (file, text) in files(plan).filter_map(|file| Some((file, file.source()?))) {
        let path = copies.join(file.hash());
        std::fs::create_dir_all(copies).and_then(|()| std::fs::write(&path, text)).map_err(|error| {
            BadUse::new(format!(
                "{}: {error}; the run keeps a copy of {} there: make the folder writable, or name another \
                 database with --db",
                path.display(),
                file.name()
            ))
        })?;
        environment.insert(FACT.to_owned(), named(plan));
    }
    Ok(())
}

/// Refuses to go on with other flows than the run was begun with.
pub(super) fn same(stored: &Run, plan: &Plan, copies: &Path) -> Result<(), BadUse> {
    let (then, now) = (stored.environment.get(FACT).map_or("", String::as_str), named(plan));
    if then == now {
        return Ok(());
    }
    Err(BadUse::new(format!(
        "run {} was begun with the flows {then}, and the files are {now} now; put the old ones back (copies lie in \
         {}, by their hashes), or begin a run of its own",
        stored.name,
        copies.display()
    )))
}

/// What two devices made of the same flows: whether they gave the same verdicts, and which is faster by how
/// much. Empty for other functions.
pub(super) fn answer(run: &Run, a: &str, b: &str) -> String {
    let points: Vec<&Point> =
        run.points.iter().filter(|point| matches!(point.key.nf, Nf::Flows(_))).collect();
    let comparison = compare(Side { run, dut: Some(a) }, Side { run, dut: Some(b) }, None);
    let mut text = String::new();
    for pair in points.chunk_by(|one, next| one.index / 2 == next.index / 2) {
        let [one, other] = pair else { continue };
        let _ = writeln!(text, "{} over {}, trace {}:", one.key.nf, one.key.wiring, one.key.trace);
        for point in pair {
            let _ = writeln!(text, "  {}: {}", point.key.dut, verdicts(point));
        }
        let _ = writeln!(text, "  {}", together(one, other));
        for row in of(&comparison, one) {
            let _ = writeln!(text, "  {}", faster(row, a, b));
        }
    }
    text
}

/// What comparing a device's packets with the flows' meaning came to.
fn verdicts(point: &Point) -> String {
    match (&point.packets, &point.error) {
        (Some(check), _) => format!("every packet against what the flows say: {check}"),
        (None, Some(error)) => format!("not measured: {error}"),
        (None, None) => {
            "no packet was compared: it was not come to, or the plan says `check = false`".to_owned()
        }
    }
}

fn together(one: &Point, other: &Point) -> String {
    let right = |point: &Point| {
        point.packets.as_ref().map(|check| (check.compared > 0 && check.is_right(), check.remark.is_some()))
    };
    match (right(one), right(other)) {
        (Some((true, false)), Some((true, false))) => "the same verdict on every packet: yes".to_owned(),
        (Some((true, _)), Some((true, _))) => {
            "the same verdict on every packet that was compared: yes; in parentheses what was not".to_owned()
        }
        (Some(_), Some(_)) => "the same verdict on every packet: no".to_owned(),
        _ => "the same verdict on every packet: not known".to_owned(),
    }
}

/// The rates of a point.
fn of<'a>(comparison: &'a Comparison, point: &'a Point) -> impl Iterator<Item = &'a Row> {
    comparison.rows.iter().filter(|row| {
        let key = &row.key;
        (key.nf, &key.wiring, &key.trace, &key.size, key.directions)
            == (point.key.nf, &point.key.wiring, &point.key.trace, &point.key.size, point.key.directions)
    })
}

/// Which device is faster, by how much.
fn faster(row: &Row, a: &str, b: &str) -> String {
    let what = &row.quantity;
    let (Some(ratio), Some(interval)) = (row.ratio, row.interval) else {
        return format!("{what}: too few trials to say which is faster");
    };
    let (low, high) = (interval.low, interval.high);
    match row.verdict {
        Verdict::A => format!(
            "{what}: {a} has {:.2} times {b}'s (95 % interval {:.2} to {:.2})",
            1.0 / ratio,
            1.0 / high,
            1.0 / low
        ),
        Verdict::B => {
            format!("{what}: {b} has {ratio:.2} times {a}'s (95 % interval {low:.2} to {high:.2})")
        }
        _ => {
            format!("{what}: no winner, {b} has {ratio:.2} times {a}'s (95 % interval {low:.2} to {high:.2})")
        }
    }
}
