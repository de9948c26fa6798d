//! Back-to-back frames (RFC 9004): the longest bursts and the buffers they speak of, as a table.

use super::{Part, slug};
use crate::digest::Digest;
use crate::table::{Cell, Kind, Row, Table, column};
use crate::units::number;
use maud::html;
use weir_trial::Nf;
use weir_trial::run::{BackToBackResult, PointResult};

/// The whole section; nothing where no burst was measured.
pub(crate) fn parts(digest: &Digest<'_>) -> Vec<Part> {
    let tables: Vec<_> = digest.functions().into_iter().filter_map(|nf| table(digest, nf)).collect();
    if tables.is_empty() {
        return Vec::new();
    }
    let text = html! {
            p {
                "The longest burst at the line rate that came through whole (RFC 9004). The device forwards while the \
                 burst comes in: the implied time is that of the mean burst, the corrected one, the buffer, is without what \
                 left meanwhile, implied × (1 − throughput ∕ line rate). Before each burst nothing was sent for the rest \
                 that the plan states. A burst counts if the tester sent it back to back by its own account; where \
                 it never did, the note calls the lengths an estimate."
            }
    };
    std::iter::once(Part::Text(text)).chain(tables.into_iter().map(Part::Table)).collect()
}

fn table(digest: &Digest<'_>, nf: Nf) -> Option<Table> {
    let mut rows = Vec::new();
    for entry in digest.of(nf) {
        for result in &entry.point.results {
            let PointResult::BackToBack(found) = result else { continue };
            let BackToBackResult {
                line,
                throughput,
                goal,
                bursts,
                implied,
                corrected,
                step,
                invalid,
                sending,
                ..
            } = found;
            let burst = |pick: fn(&weir_trial::run::Bursts) -> f64, decimals: usize| {
                bursts.as_ref().map_or(Cell::None, |bursts| {
                    let value = pick(bursts);
                    Cell::Number(number(value, decimals), value)
                })
            };
            let estimate = sending.as_ref().and_then(weir_trial::run::BurstSending::estimate);
            let time = |time: &Option<weir_units::Nanos>| time.map_or(Cell::None, Cell::time);
            rows.push(Row {
                cells: vec![
                    Cell::Text(entry.size()),
                    Cell::Text(digest.subjects[entry.subject].clone()),
                    burst(|bursts| bursts.mean, 1),
                    burst(|bursts| bursts.min as f64, 0),
                    burst(|bursts| bursts.max as f64, 0),
                    burst(|bursts| bursts.deviation, 1),
                    burst(|bursts| bursts.frames.len() as f64, 0),
                    Cell::count(*step),
                    time(implied),
                    time(corrected),
                    Cell::rate(Some(*line), entry.bytes()),
                    Cell::rate(*throughput, entry.bytes()),
                    Cell::Text(match (invalid, &estimate, found.uncorrected()) {
                        (Some(why), ..) => format!("not valid: {why}"),
                        (None, Some(why), _) => format!("an estimate, limited by the tester: {why}"),
                        (None, None, Some(why)) => why,
                        (None, None, None) => format!("corrected by {goal}"),
                    }),
                ],
                suspect: invalid.is_some() || estimate.is_some(),
            });
        }
    }
    (!rows.is_empty()).then(|| Table {
        id: format!("bursts-{}-table", slug(&nf.to_string())),
        caption: format!("{nf}: longest whole bursts in frames over all directions, and buffers"),
        columns: vec![
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Mean", "mean_frames", Kind::Number),
            column("Least", "least_frames", Kind::Number),
            column("Greatest", "greatest_frames", Kind::Number),
            column("Deviation", "deviation_frames", Kind::Number),
            column("Searches", "searches", Kind::Number),
            column("Step", "step_frames", Kind::Number),
            column("Implied", "implied_ns", Kind::Number),
            column("Buffer (corrected)", "corrected_ns", Kind::Number),
            column("Line", "line_pps", Kind::Rate),
            column("Throughput", "throughput_pps", Kind::Rate),
            column("Note", "note", Kind::Text),
        ],
        rows,
    })
}
