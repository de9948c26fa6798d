//! Which sides can be compared at all.

use super::Side;
use std::collections::BTreeSet;
use weir_trial::run::Run;

/// Whether both are one run, by their identity: numbers are of one database, and files have none.
pub fn same_run(a: &Run, b: &Run) -> bool {
    if a.uuid.is_empty() || b.uuid.is_empty() { a.id == b.id } else { a.uuid == b.uuid }
}

/// Why two sides cannot be compared, and how to mend it; nothing where they can.
pub fn fault(a: Side<'_>, b: Side<'_>) -> Option<String> {
    let devices = |run: &Run| run.points.iter().map(|point| point.key.dut.clone()).collect::<BTreeSet<_>>();
    let both = [devices(a.run), devices(b.run)];
    // As they were placed: `nf at 50%`.
    let placed = |run: &Run| run.points.iter().map(|point| point.key.device()).collect::<BTreeSet<_>>();
    let listed = |devices: &BTreeSet<String>| devices.iter().cloned().collect::<Vec<_>>().join(", ");
    for (side, there) in [a, b].iter().zip(&both) {
        let (run, name) = (side.run, &side.run.name);
        match side.dut {
            Some(dut) if !there.contains(dut) && !placed(run).contains(dut) => {
                return Some(format!("run {name} has no device `{dut}`; it has {}", listed(&placed(run))));
            }
            None if (a.dut, b.dut) != (None, None) && there.len() > 1 => {
                let there = listed(there);
                return Some(format!(
                    "a device is named on one side only, and run {name} has several: {there}; write {name}/DEVICE"
                ));
            }
            _ => {}
        }
    }
    if !same_run(a.run, b.run) || a.dut != b.dut {
        return None;
    }
    let name = &a.run.name;
    let example = both[0].iter().take(2).map(|dut| format!("{name}/{dut}")).collect::<Vec<_>>();
    let cure = match example.as_slice() {
        [first, second] => format!("name two of its devices, {first} {second}, or another run"),
        _ => "name another run".to_owned(),
    };
    Some(format!("both sides are run {name}; {cure}"))
}
