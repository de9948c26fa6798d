//! Packets: whether what came out was what the network function must produce.

use super::Part;
use crate::digest::{Digest, Entry};
use crate::table::{Cell, Kind, Row, Table, column};
use maud::html;
use weir_trial::PacketCheck;

/// The section; nothing where no packet was compared.
pub(crate) fn parts(digest: &Digest<'_>) -> Vec<Part> {
    let checked: Vec<_> = digest
        .functions()
        .into_iter()
        .flat_map(|nf| digest.of(nf))
        .filter(|entry| entry.point.packets.is_some() || samples(entry).is_some())
        .collect();
    let wrong: Vec<_> = checked.iter().filter(|entry| is_wrong(entry)).collect();
    if checked.is_empty() {
        return Vec::new();
    }
    let text = html! {
            p {
                "Packets were compared with what the network function must make of them: those of an untimed pass "
                "before the first trial, where a packet that did not come was sent again before it was called "
                "missing, and a sample of every trial. The pass sends all packets of the trace; where it did not, the "
                "remark says how many it sent and why."
            }
            @if wrong.is_empty() {
                p { "No packet was wrong." }
            } @else {
                p { strong { "Wrong packets: the rates of these points are those of something else, and are not ranked." } }
                ul {
                    @for entry in &wrong {
                        @for check in entry.point.packets.iter().chain(&samples(entry)).filter(|check| !check.is_right()) {
                            li { (name(digest, entry)) ": " (check) }
                        }
                    }
                }
            }
    };
    vec![Part::Text(text), Part::Table(table(digest, &checked))]
}

fn name(digest: &Digest<'_>, entry: &Entry<'_>) -> String {
    format!("{} · {} · {}", entry.point.key.nf, digest.subjects[entry.subject], entry.size())
}

/// The samples of a point's trials together; nothing where no trial was sampled.
fn samples(entry: &Entry<'_>) -> Option<PacketCheck> {
    let mut sum = None;
    for sample in entry.trials().filter_map(|trial| trial.result.packets.clone()) {
        // Every trial of a point has the same remark: once is enough.
        let sample = PacketCheck { remark: None, ..sample };
        sum.get_or_insert_with(PacketCheck::default).merge(sample);
    }
    sum
}

fn is_wrong(entry: &Entry<'_>) -> bool {
    entry.point.packets.iter().chain(&samples(entry)).any(|check| !check.is_right())
}

fn table(digest: &Digest<'_>, entries: &[Entry<'_>]) -> Table {
    let faults = |check: &PacketCheck| check.wrong.iter().map(|wrong| wrong.count).sum::<u64>();
    let row = |entry: &Entry<'_>| {
        let (pass, samples) = (entry.point.packets.as_ref(), samples(entry));
        let count = |check: Option<&PacketCheck>, of: &dyn Fn(&PacketCheck) -> u64| {
            check.map_or(Cell::None, |check| Cell::count(of(check)))
        };
        let remark = pass.and_then(|check| check.remark.clone()).unwrap_or_default();
        Row {
            cells: vec![
                Cell::Text(entry.point.key.nf.to_string()),
                Cell::Text(entry.size()),
                Cell::Text(digest.subjects[entry.subject].clone()),
                count(pass, &|check| check.compared),
                count(pass, &faults),
                count(samples.as_ref(), &|check| check.compared),
                count(samples.as_ref(), &faults),
                Cell::Text(remark),
            ],
            suspect: is_wrong(entry),
        }
    };
    Table {
        id: "packets-table".to_owned(),
        caption: "Packets compared with what the function must produce".to_owned(),
        columns: vec![
            column("Function", "function", Kind::Text),
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Compared untimed", "untimed_compared", Kind::Number),
            column("Faults", "untimed_faults", Kind::Number),
            column("Compared in trials", "sampled_compared", Kind::Number),
            column("Faults in trials", "sampled_faults", Kind::Number),
            column("Not compared", "remark", Kind::Text),
        ],
        rows: entries.iter().map(row).collect(),
    }
}
