//! The tester's account of its own time, for a point.

use weir_trial::run::Point;
use weir_trial::{Latency, PointAccount};
use weir_units::Nanos;

/// Lines about the tester; none where it did not send.
pub(super) fn lines(point: &Point) -> Vec<String> {
    let Some(account) = PointAccount::of(point) else { return Vec::new() };
    let mut own = Vec::new();
    if let Some(late) = &account.sent_late {
        own.push(format!(
            "sent late p50 {}, p99 {}, max {}",
            late.percentiles[0], late.percentiles[2], late.max
        ));
    }
    if let Some(gaps) = &account.poll_gaps {
        own.push(format!("polled every {} (p99), max {}", gaps.percentiles[2], gaps.max));
    }
    if account.left_out > 0 {
        let (left_out, windows, (tester, dut)) = (account.left_out, account.windows, account.taken);
        let of_dut = if dut > Nanos(0) { format!(", of the device's {dut}") } else { String::new() };
        own.push(format!(
            "{left_out} of {windows} windows left out: {tester} of the tester's time taken{of_dut}"
        ));
    }
    if let Some(delay) = &account.paused_delay {
        own.push(format!("{} packets on their way in a pause, not in the latency", delay.count));
    }
    let mut lines = vec![format!("tester   {}", own.join(" · "))];
    let delay = |(direction, delay): (usize, &Option<Latency>)| {
        let delay = delay.as_ref()?;
        Some(format!("direction {direction}: p50 {}, p99 {}", delay.percentiles[0], delay.percentiles[2]))
    };
    let delays: Vec<String> = account.delays.iter().enumerate().filter_map(delay).collect();
    if !delays.is_empty() {
        lines.push(format!("delay    {}", delays.join(" · ")));
    }
    lines
}
