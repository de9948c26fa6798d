//! The verdict on a trial's packets: what became of them, and what the DUT's counters say about it.

use super::{Bench, Code, Weight, limits};
use crate::DirectionCounts;
use weir_units::Ratio;

impl Bench<'_> {
    /// What the DUT says it received and sent, against what the tester sent and received. A DUT
    /// may count less than was offered (lost before it); never more, and never send less than came.
    pub(super) fn counters(&mut self, total: &DirectionCounts) {
        let Some(dut) = &self.result.dut else { return };
        if self.result.directions.is_empty() {
            return;
        }
        let slack = |packets: u64| limits::COUNTERS_LEAST.max((packets as f64 * limits::COUNTERS.0) as u64);
        let (sent, back) = self.beside();
        let sent = total.sent + sent;
        if dut.received > sent + slack(sent) {
            let says = format!("the DUT counted {} packets in, the tester sent {sent}", dut.received);
            self.find(Code::CountersDisagree, Weight::Invalid, says);
        }
        // A device that sends packets twice may count them; what it still held it counted in before.
        let extra = total.duplicated + total.late;
        if dut.sent > dut.received + extra + slack(dut.received) {
            let (sent, received) = (dut.sent, dut.received);
            let says = format!("the DUT counted {sent} packets out, and only {received} in");
            self.find(Code::CountersDisagree, Weight::Invalid, says);
        }
        let came = total.received + total.duplicated + total.late + total.foreign + total.damaged + back;
        if dut.sent + slack(came) < came {
            let says = format!("the DUT counted {} packets out, {came} came to the tester", dut.sent);
            self.find(Code::CountersDisagree, Weight::Invalid, says);
        }
    }

    /// Packets sent and received beside the schedule.
    fn beside(&self) -> (u64, u64) {
        self.result.account.as_ref().map_or((0, 0), |account| account.beside)
    }

    /// Where packets were lost, as far as the DUT's own counters tell.
    fn place_of_loss(&self, total: &DirectionCounts) -> String {
        let Some(dut) = self.result.dut.as_ref().filter(|dut| dut.received > 0 || dut.sent > 0) else {
            return String::new();
        };
        let (sent, back) = self.beside();
        let before = (total.sent + sent).saturating_sub(dut.received);
        let within = dut.received.saturating_sub(dut.sent);
        let after = dut.sent.saturating_sub(total.received + back);
        let refused = total.refused;
        format!(
            ": {refused} refused by its full ring, {before} on the way to it, {within} within, {after} on the way back"
        )
    }

    pub(super) fn packets(&mut self, total: &DirectionCounts) {
        let of = |count: u64| format!("{count} of {} packets", total.intended);
        let lost = (total.sent + total.refused).saturating_sub(total.received);
        // A device that hangs with a full ring takes nothing more: what it refused counts, too.
        let offered = total.sent + total.refused;
        if offered >= limits::SILENT && total.received + total.damaged == 0 {
            let says = format!("nothing came back of {offered} packets offered");
            self.find(Code::Silent, Weight::Wrong, says);
        } else if lost > 0 {
            let counted = self.result.counted().lost();
            let among = match &self.result.windows {
                Some(windows) if windows.left_out > 0 => {
                    format!(", {counted} of them in the windows that count")
                }
                _ => String::new(),
            };
            let says = format!("{} were lost{}{among}", of(lost), self.place_of_loss(total));
            self.find(Code::Lost, Weight::Note, says);
        }
        self.shares();
        if total.duplicated > 0 {
            self.find(
                Code::Duplicated,
                Weight::Wrong,
                format!("{} came more than once", of(total.duplicated)),
            );
        }
        if total.reordered > 0 {
            let says = format!("{} were overtaken by later ones", of(total.reordered));
            self.find(Code::Reordered, Weight::Note, says);
        }
        if total.late > 0 {
            let much = total.late as f64 > total.intended as f64 * limits::LATE.0;
            let weight = if much { Weight::Invalid } else { Weight::Note };
            let says = format!("{} packets of an earlier trial came during this one", total.late);
            self.find(Code::Late, weight, says);
        }
        if total.foreign > 0 {
            self.find(
                Code::Foreign,
                Weight::Wrong,
                format!("{} packets came that nobody sent", total.foreign),
            );
        }
        if total.damaged > 0 {
            let says = format!("{} came damaged or changed: they are not what must come", of(total.damaged));
            self.find(Code::Damaged, Weight::Wrong, says);
        }
        if let Some(check) = self.result.packets.as_ref().filter(|check| !check.is_right()) {
            let mut says: Vec<String> = Vec::new();
            for wrong in &check.wrong {
                let (fault, count, example) = (wrong.fault, wrong.count, &wrong.example);
                says.push(format!("{fault}: {count} of {} compared, for one {example}", check.compared));
            }
            self.find(Code::WrongPackets, Weight::Wrong, says.join("; "));
        }
    }

    /// Whether loss is shared alike by the directions, and what comes back by the flows.
    fn shares(&mut self) {
        let windows = self.result.windows.as_ref().map(|windows| windows.counts.as_slice());
        let of_windows = windows.filter(|counts| counts.iter().all(|one| one.intended() > 0));
        let lost: Vec<(u64, u64)> = match of_windows {
            Some(counts) => counts.iter().map(|one| (one.lost(), one.intended())).collect(),
            None => self.result.directions.iter().map(|one| (one.lost(), one.intended)).collect(),
        };
        if let [a, b] = lost[..] {
            let ratio = |(lost, intended): (u64, u64)| lost as f64 / intended.max(1) as f64;
            let (worse, other, which) = if ratio(a) > ratio(b) { (a, b, 0) } else { (b, a, 1) };
            if worse.0 >= limits::ONE_SIDED_LEAST && ratio(worse) > limits::ONE_SIDED * ratio(other) {
                let [worse, other] = [worse, other].map(|one| Ratio(ratio(one)));
                let says = format!("direction {which} alone lost {worse}, the other {other}");
                self.find(Code::OneSided, Weight::Note, says);
            }
        }
        let shares = self.result.account.as_ref().and_then(|account| account.shares.clone());
        if let Some(shares) = shares.filter(|shares| shares.starved > 0) {
            let says = format!(
                "{} of {} frames of the trace came back less than half as often as most ({} times), for one {}",
                shares.starved, shares.frames, shares.median, shares.example
            );
            self.find(Code::Starved, Weight::Note, says);
        }
    }
}
