//! The tester's own time: how late it sent, how often it polled, and what was left out.

use super::Part;
use crate::digest::{Digest, Entry};
use crate::table::{Cell, Kind, Row, Table, column};
use maud::html;
use weir_trial::verdict::Code;
use weir_trial::{Latency, PointAccount};

/// The section; nothing where no tester was at the wire.
pub(crate) fn parts(digest: &Digest<'_>) -> Vec<Part> {
    let entries = digest.functions().into_iter().flat_map(|nf| digest.of(nf));
    let accounts: Vec<_> =
        entries.filter_map(|entry| PointAccount::of(entry.point).map(|account| (entry, account))).collect();
    if accounts.is_empty() {
        return Vec::new();
    }
    let text = html! {
        p {
            "Of every trial the tester keeps how long after its time a packet was sent, and how long a receive ring "
            "was not polled. Windows of about a millisecond in which the machine took a core from the tester or, "
            "as far as it can be proved, from the device are left out of what counts. A packet that was on its way "
            "in a pause of the tester is not in the latency."
        }
    };
    vec![Part::Text(text), Part::Table(table(digest, &accounts))]
}

/// Whether a trial of the point was found late or deaf.
fn is_suspect(entry: &Entry<'_>) -> bool {
    let codes = [Code::LateSent, Code::Deaf, Code::MostlyLeftOut];
    entry.trials().any(|trial| !trial.verdict.is_valid() && codes.iter().any(|code| trial.verdict.has(*code)))
}

fn table(digest: &Digest<'_>, accounts: &[(Entry<'_>, PointAccount)]) -> Table {
    let at = |times: &Option<Latency>, place: usize| {
        times.as_ref().map_or(Cell::None, |times| Cell::time(times.percentiles[place]))
    };
    let most = |times: &Option<Latency>| times.as_ref().map_or(Cell::None, |times| Cell::time(times.max));
    let row = |(entry, account): &(Entry<'_>, PointAccount)| {
        let delay = |direction: usize| account.delays.get(direction).map_or(Cell::None, |delay| at(delay, 2));
        let share = account.left_out as f64 / account.windows.max(1) as f64;
        Row {
            cells: vec![
                Cell::Text(entry.point.key.nf.to_string()),
                Cell::Text(entry.size()),
                Cell::Text(digest.subjects[entry.subject].clone()),
                at(&account.sent_late, 0),
                at(&account.sent_late, 2),
                most(&account.sent_late),
                at(&account.poll_gaps, 2),
                most(&account.poll_gaps),
                if account.windows > 0 { Cell::percent(share) } else { Cell::None },
                Cell::time(account.taken.0),
                Cell::time(account.taken.1),
                Cell::count(account.paused_delay.as_ref().map_or(0, |delay| delay.count)),
                delay(0),
                delay(1),
            ],
            suspect: is_suspect(entry),
        }
    };
    Table {
        id: "own-time-table".to_owned(),
        caption: "The tester's own time, over the trials of each point".to_owned(),
        columns: vec![
            column("Function", "function", Kind::Text),
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Sent late, p50", "sent_late_p50_ns", Kind::Number),
            column("p99", "sent_late_p99_ns", Kind::Number),
            column("most", "sent_late_max_ns", Kind::Number),
            column("Polled every, p99", "poll_gap_p99_ns", Kind::Number),
            column("most", "poll_gap_max_ns", Kind::Number),
            column("Windows left out", "windows_left_out", Kind::Number),
            column("Taken from the tester", "tester_absent_ns", Kind::Number),
            column("from the device", "dut_absent_ns", Kind::Number),
            column("Packets in a pause", "paused_packets", Kind::Number),
            column("Delay p99, direction 0", "delay_0_p99_ns", Kind::Number),
            column("direction 1", "delay_1_p99_ns", Kind::Number),
        ],
        rows: accounts.iter().map(row).collect(),
    }
}
