//! What else the devices of a run counted, and what they held: `weir show --counts`.

use super::super::cells::size;
use super::super::layout::table;
use super::deciding;
use std::collections::BTreeMap;
use weir_trial::run::{Point, Run};

/// A count's sum over a point's trials, and what the last trial said.
#[derive(Default)]
struct Count {
    sum: u64,
    last: u64,
}

/// A row a count whose name has the text in it, of each point. Says so where there is none.
pub(super) fn text(run: &Run, named: &str) -> String {
    let rows: Vec<Vec<String>> = run.points.iter().flat_map(|point| rows(point, named)).collect();
    if rows.is_empty() {
        let what = if named.is_empty() { "nothing".to_owned() } else { format!("nothing named `{named}`") };
        return format!(
            "the devices of {} told {what} beside the packets they received and sent\n",
            run.name
        );
    }
    table(&["#", "NF", "DUT", "trace", "size", "what", "last trial", "a packet"], &[0, 4, 6, 7], &rows)
}

fn rows(point: &Point, named: &str) -> Vec<Vec<String>> {
    let (mut counts, mut received) = (BTreeMap::<&str, Count>::new(), 0_u64);
    for reading in deciding(point).filter_map(|trial| trial.result.dut.as_ref()) {
        received += reading.received;
        for (name, count) in reading.details.iter().filter(|(name, _)| name.contains(named)) {
            let of = counts.entry(name).or_default();
            (of.sum, of.last) = (of.sum.saturating_add(*count), *count);
        }
    }
    let key = &point.key;
    let about = [point.index.to_string(), key.nf.to_string(), key.device(), key.trace.clone(), size(key)];
    let row = |(place, (name, count)): (usize, (&str, Count))| {
        // A point's further counts stand under its first, without its name again.
        let about = about.iter().map(|cell| if place == 0 { cell.clone() } else { String::new() });
        let each = match received {
            0 => String::new(),
            received => format!("{:.4}", count.sum as f64 / received as f64),
        };
        about.chain([name.to_owned(), count.last.to_string(), each]).collect()
    };
    counts.into_iter().enumerate().map(row).collect()
}
