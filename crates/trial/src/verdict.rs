//! The verdict on a trial: whether its numbers may be believed, and why not.
//!
//! [`judge`] is pure: it reads what the trial kept, so stored trials can be judged again. Findings
//! carry one of three weights. A *note* is for the reader. *Invalid* means that the tester or the
//! machine spoilt the trial: it is run again, and stays out of every ranking if it stays so. *Wrong*
//! means that the DUT did what its network function must not do: its rate is the rate of something
//! else, and is not ranked either. Loss is a note that says where packets
//! were lost: it is what throughput searches look for.

mod packets;
mod stated;

pub use stated::stated;

use crate::{DirectionCounts, Side, TrialResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Nanos, Pps, Ratio};

/// How much a finding says about a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// Worth knowing; the numbers hold.
    Note,
    /// The tester or the machine spoilt the trial.
    Invalid,
    /// The DUT did wrong.
    Wrong,
}

/// The name of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The tester was too late, or had no buffer, for some of the load.
    Unsent,
    /// The trial took longer than asked for.
    Stretched,
    /// Two clocks disagree about the trial's length.
    ClockJump,
    /// The hypervisor gave the tester's core to others.
    TesterStolen,
    /// The kernel gave the tester's core to others.
    TesterPreempted,
    /// The hypervisor gave the DUT's core to others.
    DutStolen,
    /// The kernel gave the DUT's core to others.
    DutPreempted,
    /// The DUT had more of its cores than it was to have.
    NotHeld,
    /// The counters of tester and DUT contradict each other.
    CountersDisagree,
    /// What was sent, refused and unsent is not what the schedule comes to.
    CountsDoNotAddUp,
    /// The schedule does not come to load times duration.
    LoadNotOffered,
    /// Packets left the tester long after they were due.
    LateSent,
    /// The tester did not look at its receive rings for some time.
    Deaf,
    /// So many windows were left out that the rest says little.
    MostlyLeftOut,
    /// Packets came before the time in their stamps.
    NegativeDelay,
    /// Neighbours on the wire sent frames of their own.
    WireChatter,
    /// The DUT printed a flood of lines.
    Chatter,
    /// The DUT has started other processes.
    Forked,
    /// The DUT was still learning flows: its rate is not yet its own.
    Unsettled,
    /// Nothing at all came back.
    Silent,
    /// Packets did not come back.
    Lost,
    /// Packets came more than once.
    Duplicated,
    /// Packets were overtaken by later ones.
    Reordered,
    /// Packets of an earlier trial came during this one.
    Late,
    /// Packets came that the tester never sent.
    Foreign,
    /// Packets came damaged or changed.
    Damaged,
    /// Packets were lost with nothing between the tester's ports (self-check only).
    LostAlone,
    /// Packets came out that are not what the network function must produce.
    WrongPackets,
    /// Some flows got less than half of what others got.
    Starved,
    /// One direction lost packets, and the other next to none.
    OneSided,
}

impl Code {
    /// Its name, as stored and printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unsent => "unsent",
            Self::Stretched => "stretched",
            Self::ClockJump => "clock-jump",
            Self::TesterStolen => "tester-stolen",
            Self::TesterPreempted => "tester-preempted",
            Self::DutStolen => "dut-stolen",
            Self::DutPreempted => "dut-preempted",
            Self::NotHeld => "not-held",
            Self::CountersDisagree => "counters-disagree",
            Self::CountsDoNotAddUp => "counts-do-not-add-up",
            Self::LoadNotOffered => "load-not-offered",
            Self::LateSent => "late-sent",
            Self::Deaf => "deaf",
            Self::MostlyLeftOut => "mostly-left-out",
            Self::NegativeDelay => "negative-delay",
            Self::WireChatter => "wire-chatter",
            Self::Chatter => "chatter",
            Self::Forked => "forked",
            Self::Unsettled => "unsettled",
            Self::Silent => "silent",
            Self::Lost => "lost",
            Self::Duplicated => "duplicated",
            Self::Reordered => "reordered",
            Self::Late => "late",
            Self::Damaged => "damaged",
            Self::Foreign => "foreign",
            Self::LostAlone => "lost-alone",
            Self::WrongPackets => "wrong-packets",
            Self::Starved => "starved",
            Self::OneSided => "one-sided",
        }
    }
}

/// One thing to know about a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Its name.
    pub code: Code,
    /// How much it says.
    pub weight: Weight,
    /// The sentence, with its numbers.
    pub says: String,
}

/// The verdict on a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Verdict {
    /// What was found, gravest first; empty when nothing was.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// Whether the trial may be ranked.
    pub fn is_valid(&self) -> bool {
        self.worst().is_none_or(|weight| weight == Weight::Note)
    }

    /// The gravest weight.
    pub fn worst(&self) -> Option<Weight> {
        self.findings.iter().map(|finding| finding.weight).max()
    }

    /// Whether another attempt may end better: the machine was at fault, not the DUT.
    pub fn is_worth_repeating(&self) -> bool {
        self.worst() == Some(Weight::Invalid)
    }

    /// Whether something beside its load spoilt the trial, so that it says nothing about that load. A
    /// tester that is too late with a load, and is disturbed by nothing, says that it cannot offer it.
    pub fn is_disturbed(&self) -> bool {
        let of_load = [Code::Unsent, Code::LateSent];
        let disturbs =
            |finding: &Finding| finding.weight == Weight::Invalid && !of_load.contains(&finding.code);
        self.findings.iter().any(disturbs)
    }

    /// Whether a finding of this name is there.
    pub fn has(&self, code: Code) -> bool {
        self.findings.iter().any(|finding| finding.code == code)
    }
}

/// Where a disturbance becomes too much. One home for the numbers, quoted in `docs/truth.md`.
pub mod limits {
    use weir_units::{Nanos, Ratio};

    /// Unsent packets that are forgiven, of those that count: far below the width of any search's answer.
    pub const UNSENT: Ratio = Ratio(0.001);

    /// Whether so few packets were unsent that the load was offered all the same.
    pub fn forgives(counted: &crate::windows::WindowCounts) -> bool {
        counted.unsent as f64 <= UNSENT.0 * counted.intended() as f64
    }

    /// Packets sent late in a row: what is sent so late at once is an eighth of a device's ring of 1,024.
    pub const LATE_SENT_PACKETS: f64 = 128.0;
    /// Their time at the load of the trial, within these bounds, is late.
    pub const LATE_SENT: (Nanos, Nanos) = (Nanos(5_000), Nanos(250_000));
    /// Late packets, of those that count, that make a trial invalid; and those that are worth a note.
    pub const LATE_SENT_SHARES: (Ratio, Ratio) = (Ratio(0.1), Ratio(0.01));

    /// How long after they were due packets are late, at this load of one direction.
    pub fn late_sent(load: weir_units::Pps) -> Nanos {
        let time = Nanos((LATE_SENT_PACKETS / load.0.max(1e-3) * 1e9) as u64);
        time.clamp(LATE_SENT.0, LATE_SENT.1)
    }

    /// Time in pauses of the tester that is no news, of the trial; where no window can be left out it is all
    /// that is forgiven.
    pub const DEAF: Ratio = Ratio(0.01);
    /// The least share of a trial that must be kept.
    pub const KEPT: Ratio = Ratio(0.25);
    /// Elapsed time beyond the duration.
    pub const STRETCHED: Ratio = Ratio(0.10);
    /// Time stolen by the hypervisor, of the trial; and at least two of the kernel's ticks.
    pub const STOLEN: Ratio = Ratio(0.02);
    /// Two ticks of `/proc/stat`.
    pub const STOLEN_LEAST: Nanos = Nanos(20_000_000);
    /// Time the tester's thread waited for its core, of the trial.
    pub const TESTER_WAITED: Ratio = Ratio(0.05);
    /// Time the DUT's threads waited for their core, of the trial.
    pub const DUT_WAITED: Ratio = Ratio(0.02);
    /// And at least so long: what a burst of some microseconds cannot tell from its own start.
    pub const WAITED_LEAST: Nanos = Nanos(1_000_000);
    /// A DUT that is held back has so many times its share at most.
    pub const HELD: f64 = 1.1;
    /// Disagreement of two clocks: this much of the trial, and [`CLOCK_LEAST`].
    pub const CLOCK: Ratio = Ratio(0.001);
    /// Disagreement of two clocks that reading them one after the other explains.
    pub const CLOCK_LEAST: Nanos = Nanos(2_000_000);
    /// Disagreement of counters, of the packets counted; and at least [`COUNTERS_LEAST`].
    pub const COUNTERS: Ratio = Ratio(1e-6);
    /// Two bursts, one a direction: a DUT that loses its core between handing a burst over and counting
    /// it counts that burst in the trial after. A port's own chatter is within it, too.
    pub const COUNTERS_LEAST: u64 = 64;
    /// Lines a second that a DUT may print.
    pub const LINES_A_SECOND: f64 = 100.0;
    /// Packets offered from which on silence is no accident.
    pub const SILENT: u64 = 100;
    /// Packets of an earlier trial, of this trial's.
    pub const LATE: Ratio = Ratio(1e-4);
    /// One direction alone loses where its loss ratio is so many times the other's,
    pub const ONE_SIDED: f64 = 10.0;
    /// and so many of its packets are lost.
    pub const ONE_SIDED_LEAST: u64 = 100;
}

/// Judges a trial by what it kept.
pub fn judge(result: &TrialResult) -> Verdict {
    let mut bench = Bench { result, findings: Vec::new() };
    let total = result.total();
    // Causes before effects: of findings of one weight the first is the one people are told.
    bench.clocks();
    bench.cores();
    bench.held();
    bench.conduct();
    bench.account();
    bench.settled();
    bench.load(&total);
    bench.counters(&total);
    bench.packets(&total);
    let mut findings = bench.findings;
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.weight));
    Verdict { findings }
}

struct Bench<'a> {
    result: &'a TrialResult,
    findings: Vec<Finding>,
}

impl Bench<'_> {
    fn find(&mut self, code: Code, weight: Weight, says: String) {
        self.findings.push(Finding { code, weight, says });
    }

    fn share(&self, part: Nanos) -> Ratio {
        Ratio(part.seconds() / self.result.elapsed.seconds().max(1e-9))
    }

    /// What the tester says of its own time.
    fn account(&mut self) {
        let (result, pauses) = (self.result, self.result.health.pauses);
        let share = self.share(pauses.total);
        let left_out = result.windows.as_ref().map(|windows| (windows.left_out, windows.count));
        if pauses.count > 0 && share.0 > limits::DEAF.0 {
            let (weight, then) = match left_out {
                Some((left_out, count)) => {
                    (Weight::Note, format!("{left_out} of {count} windows are left out"))
                }
                None => (
                    Weight::Invalid,
                    "packets without stamps cannot be told by when they were sent".to_owned(),
                ),
            };
            let says = format!(
                "the tester neither sent nor received in {} pauses of {} in all ({share}), {} at most: {then}",
                pauses.count, pauses.total, pauses.longest
            );
            self.find(Code::Deaf, weight, says);
        }
        if let Some(windows) = &result.windows {
            let kept = Ratio(windows.kept.seconds() / result.spec.duration.seconds().max(1e-9));
            if kept.0 < limits::KEPT.0 {
                let says = format!(
                    "only {} of the trial ({kept}) are kept: the machine took the rest",
                    windows.kept
                );
                self.find(Code::MostlyLeftOut, Weight::Invalid, says);
            }
        }
        let Some(account) = &result.account else { return };
        self.late_sent(account);
        if account.negative_delays > 0 {
            let says = format!("{} packets came before the time in their stamps", account.negative_delays);
            self.find(Code::NegativeDelay, Weight::Invalid, says);
        }
        if account.wire_chatter > 0 {
            let says = format!(
                "chatter on the wire: {} frames that neighbours sent by themselves",
                account.wire_chatter
            );
            self.find(Code::WireChatter, Weight::Note, says);
        }
    }

    /// Packets that left long after they were due. What the machine made late is left out with its windows; the rest
    /// is the tester's.
    fn late_sent(&mut self, account: &crate::TesterAccount) {
        let result = self.result;
        let load = Pps(result.spec.load.0 / result.directions.len().max(1) as f64);
        let limit = limits::late_sent(load);
        let counted = result.counted();
        if let Some(late) = counted.late {
            let offered = counted.sent + counted.refused;
            let share = Ratio(late as f64 / offered.max(1) as f64);
            let (invalid, note) = limits::LATE_SENT_SHARES;
            if share.0 > note.0 {
                let weight = if share.0 > invalid.0 { Weight::Invalid } else { Weight::Note };
                let says = format!(
                    "{late} of {offered} packets ({share}) were sent over {limit} after they were due"
                );
                self.find(Code::LateSent, weight, says);
            }
            return;
        }
        let Some(late) = &account.sent_late else { return };
        let [_, p90, p99, ..] = late.percentiles;
        let found = [(Weight::Invalid, 10, p90), (Weight::Note, 1, p99)];
        if let Some((weight, percent, at)) = found.into_iter().find(|(_, _, at)| *at > limit) {
            let says = format!(
                "{percent} % of the packets were sent {at} or more after they were due ({limit} is late)"
            );
            self.find(Code::LateSent, weight, says);
        }
    }

    /// The load that was to be offered against what was.
    fn load(&mut self, total: &DirectionCounts) {
        if total.sent + total.refused + total.unsent != total.intended && !self.result.directions.is_empty() {
            let DirectionCounts { intended, sent, refused, unsent, .. } = total;
            let says = format!(
                "{sent} sent, {refused} refused and {unsent} unsent packets are not the {intended} of the schedule"
            );
            self.find(Code::CountsDoNotAddUp, Weight::Invalid, says);
        }
        let planned = self.result.account.as_ref().and_then(|account| account.planned);
        if let Some(planned) =
            planned.filter(|planned| planned.packets.abs_diff(total.intended) > planned.apart)
        {
            let (intended, packets) = (total.intended, planned.packets);
            let says = format!("the schedule had {intended} packets, load times duration are {packets}");
            self.find(Code::LoadNotOffered, Weight::Invalid, says);
        }
        // Only what counts: what a pause left unsent is left out with its windows.
        let counted = self.result.counted();
        if total.unsent > 0 {
            let weight = if limits::forgives(&counted) { Weight::Note } else { Weight::Invalid };
            let (unsent, intended) = match weight {
                Weight::Invalid => (counted.unsent, counted.intended()),
                _ => (total.unsent, total.intended),
            };
            let share = Ratio(unsent as f64 / intended.max(1) as f64);
            let says = format!("the tester was too late for {unsent} of {intended} packets ({share})");
            self.find(Code::Unsent, weight, says);
        }
        let beyond = Nanos(self.result.elapsed.0.saturating_sub(self.result.spec.duration.0));
        let stretch = Ratio(beyond.seconds() / self.result.spec.duration.seconds().max(1e-9));
        // A fed DUT is read when the system wakes the lab up, and its rate counts the whole time.
        if !self.result.directions.is_empty() && stretch.0 > limits::STRETCHED.0 {
            let says = format!("a trial of {} took {}", self.result.spec.duration, self.result.elapsed);
            self.find(Code::Stretched, Weight::Invalid, says);
        }
    }

    fn clocks(&mut self) {
        let Some(clocks) = self.result.health.clocks else { return };
        let apart = clocks.apart();
        let allowed = limits::CLOCK_LEAST.0.max((clocks.monotonic.0 as f64 * limits::CLOCK.0) as u64);
        if apart.0 > allowed {
            let says = format!(
                "the time stamp counter says {} where the kernel's clock says {}: one of them jumped",
                clocks.tsc, clocks.monotonic
            );
            self.find(Code::ClockJump, Weight::Invalid, says);
        }
    }

    fn cores(&mut self) {
        let (tester, dut) = (self.result.health.tester, self.result.health.dut);
        let sides = [
            (Side::Tester, tester, Code::TesterStolen, Code::TesterPreempted, limits::TESTER_WAITED),
            (Side::Dut, dut, Code::DutStolen, Code::DutPreempted, limits::DUT_WAITED),
        ];
        for (which, health, stolen, preempted, most_waited) in sides {
            let Some(health) = health else { continue };
            let side = if which == Side::Tester { "tester" } else { "DUT" };
            // Time whose windows are left out spoils nothing; what is not proved to lie there does.
            let proved = self.proved(which);
            let weight = |time: Nanos, most: Ratio| {
                let rest = self.share(Nanos(time.0.saturating_sub(proved.0)));
                if rest.0 > most.0 { Weight::Invalid } else { Weight::Note }
            };
            let of_stolen = weight(health.stolen, limits::STOLEN);
            let of_waited = weight(health.waited, most_waited);
            let core = health.core;
            let share = self.share(health.stolen);
            if share.0 > limits::STOLEN.0 && health.stolen.0 >= limits::STOLEN_LEAST.0 {
                let says = format!(
                    "the hypervisor took core {core} from the {side} for {} ({share})",
                    health.stolen
                );
                self.find(stolen, of_stolen, says);
            }
            let share = self.share(health.waited);
            if share.0 > most_waited.0 && health.waited.0 >= limits::WAITED_LEAST.0 {
                let says = format!(
                    "other threads had core {core} for {} ({share}) while the {side} waited for it, in {} turns",
                    health.waited, health.preempted
                );
                self.find(preempted, of_waited, says);
            }
        }
    }

    /// Whether a DUT that was to be held back was.
    fn held(&mut self) {
        let Some(held) = self.result.health.held else { return };
        let (asked, had) = (f64::from(held.percent) / 100.0, held.share());
        if had.0 > asked * limits::HELD {
            let says = format!(
                "the DUT's threads ran for {had} of their cores' time, and were to have {} %: they were not held back",
                held.percent
            );
            self.find(Code::NotHeld, Weight::Invalid, says);
        }
    }

    /// Time for which the machine is proved to have kept a side from its core. What other threads of the DUT
    /// ran may have been at its forwarding threads' expense, and is not the machine's.
    fn proved(&self, side: Side) -> Nanos {
        let absent = self.result.windows.as_ref().map_or(Nanos(0), |windows| windows.absences(side).total);
        match side {
            Side::Tester => absent,
            Side::Dut => Nanos(absent.0.saturating_sub(self.result.health.conduct.elsewhere.0)),
        }
    }

    /// What the DUT did beside forwarding. It is its own affair, and costs its own packets.
    fn conduct(&mut self) {
        let conduct = self.result.health.conduct;
        let rate = conduct.lines as f64 / self.result.elapsed.seconds().max(1e-9);
        if rate > limits::LINES_A_SECOND {
            let says =
                format!("the DUT printed {} lines meanwhile: it does more than forward", conduct.lines);
            self.find(Code::Chatter, Weight::Note, says);
        }
        if conduct.children > 0 {
            let says = format!(
                "the DUT has started {} other process(es), whose time on its cores nobody counts",
                conduct.children
            );
            self.find(Code::Forked, Weight::Note, says);
        }
    }

    /// A DUT that was measured before it had learnt its flows.
    fn settled(&mut self) {
        if let Some(why) = self.result.health.unsettled.clone() {
            self.find(Code::Unsettled, Weight::Invalid, format!("the DUT was not settled: {why}"));
        }
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
