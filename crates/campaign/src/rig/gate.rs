//! The gate of the `fed` wiring: when a device has learnt its flows, and may be measured.
//!
//! Pure: readings in, an answer out. A device is settled when, over the last looks, it has had each packet several times (once,
//! where each lap has connections of its own), its rate is steady, and next to nothing goes to its slow path. One that says how many
//! flows it holds ([`Learning`]) is watched for longer, at least three of its own rounds: the flows must not
//! grow, none may be refused, and its limit must neither bind nor move. Of one that does not say so, a window a third as long will
//! do if rate and slow path are three times as still. Two steady states in which packets go to the slow path for
//! good are admitted too: a device whose limit is as high as it may ever be, and stays there, refuses flows; and one
//! that forgets flows before their next packet comes holds about as many all the time, far below its limit.

use std::time::Duration;
use weir_dut::Learning;

/// Rates of the two halves of a window that are as good as equal: of a short one; and of a long one, in which a neighbour
/// may have had the core for a while.
const STEADY: f64 = 0.03;
const NOISY: f64 = 0.1;
/// Why a device that was just started is not settled.
const BRIEFLY: &str = "it has not been watched for long enough";
/// Share of the packets that may still go to the slow path: they are what fills the caches.
pub(super) const LEARNING: f64 = 1e-3;
/// How often it must have had each packet: a device that makes nothing of a flow's first packet looks settled
/// while the first round of a long trace lasts, and has then learnt nothing.
const ROUNDS: u64 = 3;
/// The same where the connections of each round are new ones: what it learnt of one round's is of no use in the next.
const ROUNDS_OF_NEW: u64 = 1;
/// Growth of the flows within the window that is as good as none.
const GROWTH: f64 = 0.01;
/// A limit that is at least so many times the flows does not bind them.
const ROOM: f64 = 1.1;
/// Time between two looks at a device that says how many flows it holds, and at one that does not.
const LOOK: Duration = Duration::from_millis(200);
const GLANCE: Duration = Duration::from_millis(50);
/// The windows of a device that says nothing of its flows, and the least ones of a device that does: where its
/// limit is far from its flows, and where it may come to bind them.
/// What is demanded of the briefest, a third as long as the brief one, is so many times as strict: what drifts passes neither sooner.
const BRIEFEST: Duration = Duration::from_millis(140);
const STRICT: f64 = 3.0;
const BRIEF: Duration = Duration::from_millis(390);
const ROOMY: Duration = Duration::from_millis(790);
const LONG: Duration = Duration::from_millis(1_900);
/// A limit that is so many times the flows is far from them.
const FAR: u64 = 4;
/// The window of a device that sends some packets to its slow path all the time: two of the 10 s after which Open vSwitch
/// forgets a flow that had no packet.
const STILL: Duration = Duration::from_secs(20);
/// Shares of the packets that go to the slow path, in the two halves of that window, that are as good as equal.
const SAME_SHARE: f64 = 0.1;
/// Rounds of its own that the window of a learning device holds.
const OWN_ROUNDS: u32 = 3;

/// A reading of a device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Since the gate was closed.
    pub(super) at: Duration,
    pub(super) received: u64,
    pub(super) sent: u64,
    /// Packets that went to its slow path; nothing where it has none.
    pub(super) upcalls: Option<u64>,
    pub(super) learning: Option<Learning>,
}

impl Seen {
    /// Whether it is of a device that has no slow path, and so nothing to learn.
    fn learns_nothing(&self) -> bool {
        self.learning.is_none() && self.upcalls.is_none()
    }
}

/// The gate.
#[derive(Debug)]
pub(super) struct Gate {
    /// Packets of its traces.
    packets: u64,
    /// How often each must have come.
    rounds: u64,
    /// Whether its rate must be steady.
    steady: bool,
    seen: Vec<Seen>,
}

impl Gate {
    /// A closed gate, for a device with so many packets in its traces, whose connections are new in each round or not.
    pub(super) fn new(packets: u32, are_new: bool) -> Self {
        let rounds = if are_new { ROUNDS_OF_NEW } else { ROUNDS };
        Self { packets: u64::from(packets), rounds, steady: true, seen: Vec::new() }
    }

    /// The same for an audit, whose rate is that of the lab's sink and need not be steady: the device must have learnt.
    pub(super) fn of_audit(packets: u32, are_new: bool) -> Self {
        Self { steady: false, ..Self::new(packets, are_new) }
    }

    /// Takes a reading in; whether the device is settled, and why not where it is not.
    pub(super) fn look(&mut self, now: Seen) -> Result<Settled, String> {
        self.seen.push(now);
        let first = self.seen[0];
        let wanted = self.rounds * self.packets;
        let had = now.received.saturating_sub(first.received);
        if had < wanted {
            let times = if self.rounds == 1 { "once".to_owned() } else { format!("{} times", self.rounds) };
            return Err(format!("it has had {had} packets, and each is to come {times} ({wanted})"));
        }
        match now.learning {
            // Nothing to learn, and no rate to wait for.
            None if !self.steady && now.learns_nothing() => Ok(Settled::HoldsItsFlows),
            Some(learning) => self.look_at_flows(now.at, learning),
            None => self.look_at_rate(now.at),
        }
    }

    /// For a device that says how many flows it holds.
    fn look_at_flows(&self, now: Duration, says: Learning) -> Result<Settled, String> {
        let least = match self.steady {
            false => BRIEF,
            true if says.flows.saturating_mul(FAR) <= says.limit => ROOMY,
            true => LONG,
        };
        let span = least.max(Duration::from_nanos(says.round.0) * OWN_ROUNDS);
        let window = self.window(now, span).ok_or(BRIEFLY)?;
        self.steady(window, NOISY)?;
        let settled = learning(window).and_then(|settled| {
            if settled == Settled::HoldsItsFlows {
                few_upcalls(window, LEARNING)?;
            }
            Ok(settled)
        });
        settled.or_else(|why| {
            let long = self.window(now, span.max(STILL)).ok_or(why)?;
            self.steady(long, NOISY)?;
            forgets_as_it_learns(long)?;
            steady_slow_path(long).map(|()| Settled::SlowForGood)
        })
    }

    /// For one that says nothing: its rate and its slow path must do; where they are restless, for longer.
    fn look_at_rate(&self, now: Duration) -> Result<Settled, String> {
        let is_settled = |span, strict| {
            let window = self.window(now, span).ok_or(BRIEFLY)?;
            self.steady(window, STEADY / strict).and_then(|()| few_upcalls(window, LEARNING / strict))
        };
        let Err(why) = is_settled(BRIEFEST, STRICT).or_else(|_| is_settled(BRIEF, 1.0)) else {
            return Ok(Settled::HoldsItsFlows);
        };
        let long = self.window(now, STILL).ok_or(why)?;
        self.steady(long, NOISY)?;
        match few_upcalls(long, LEARNING) {
            Ok(()) => Ok(Settled::HoldsItsFlows),
            Err(_) => steady_slow_path(long).map(|()| Settled::SlowForGood),
        }
    }

    /// When to look next, after the last look.
    pub(super) fn next_look(&self) -> Duration {
        if self.seen.last().is_some_and(|seen| seen.learning.is_none()) { GLANCE } else { LOOK }
    }

    fn steady(&self, window: &[Seen], tolerance: f64) -> Result<(), String> {
        if self.steady { steady(window, tolerance) } else { Ok(()) }
    }

    /// The readings of the last `span`, the one before it included; nothing where there are no such yet.
    fn window(&self, now: Duration, span: Duration) -> Option<&[Seen]> {
        let start = self.seen.iter().rposition(|seen| now.saturating_sub(seen.at) >= span)?;
        Some(&self.seen[start..]).filter(|window| window.len() > 2)
    }
}

/// How a settled device holds its flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// It holds all that it wants, or does not say.
    HoldsItsFlows,
    /// Some packets go to its slow path, and always will: its limit is the highest it may have, and binds; it forgets
    /// as many flows as it learns; or it says nothing of its flows, and nothing has changed for long.
    SlowForGood,
}

fn rate(of: &[Seen]) -> f64 {
    let (first, last) = (of[0], of[of.len() - 1]);
    last.sent.saturating_sub(first.sent) as f64 / (last.at - first.at).as_secs_f64().max(1e-9)
}

fn steady(window: &[Seen], tolerance: f64) -> Result<(), String> {
    let middle = window.len() / 2;
    let (before, after) = (rate(&window[..=middle]), rate(&window[middle..]));
    if (after - before).abs() <= tolerance * before {
        return Ok(());
    }
    Err(format!("its rate went from {:.3} to {:.3} Mpps", before / 1e6, after / 1e6))
}

/// Packets of a stretch of time that went to the slow path, and all that were received.
fn slow_path(of: &[Seen]) -> (u64, u64) {
    let (first, last) = (of[0], of[of.len() - 1]);
    let upcalls = |seen: Seen| seen.upcalls.unwrap_or(0);
    (upcalls(last).saturating_sub(upcalls(first)), last.received.saturating_sub(first.received))
}

fn steady_slow_path(window: &[Seen]) -> Result<(), String> {
    let middle = window.len() / 2;
    let share = |(upcalls, received): (u64, u64)| upcalls as f64 / received.max(1) as f64;
    let [before, after] = [&window[..=middle], &window[middle..]].map(|half| share(slow_path(half)));
    if (after - before).abs() <= SAME_SHARE * before {
        return Ok(());
    }
    Err(format!("{:.2} % of its packets went to its slow path, then {:.2} %", before * 100.0, after * 100.0))
}

fn few_upcalls(window: &[Seen], most: f64) -> Result<(), String> {
    let (upcalls, received) = slow_path(window);
    if upcalls as f64 <= most * received as f64 {
        return Ok(());
    }
    Err(format!("{upcalls} of {received} packets went to its slow path"))
}

fn learning(window: &[Seen]) -> Result<Settled, String> {
    let found: Vec<Learning> = window.iter().filter_map(|seen| seen.learning).collect();
    let [first, .., last] = found.as_slice() else { return Ok(Settled::HoldsItsFlows) };
    let flows = found.iter().map(|learning| learning.flows);
    let (least, most) = (flows.clone().min().unwrap_or(0), flows.max().unwrap_or(0));
    let limit = found.iter().map(|learning| learning.limit).min().unwrap_or(0);
    let is_still = found.iter().all(|learning| learning.limit == last.limit);
    if is_still && last.limit >= last.most && (most as f64) * ROOM > limit as f64 {
        return Ok(Settled::SlowForGood);
    }
    if (most as f64) * ROOM > limit as f64 {
        return Err(format!("it holds {most} flows where its limit is {limit} of {}", last.most));
    }
    if (most - least) as f64 > GROWTH * most as f64 {
        return Err(format!("its flows went from {least} to {most}"));
    }
    match last.refused.saturating_sub(first.refused) {
        0 => Ok(Settled::HoldsItsFlows),
        refused => Err(format!("{refused} flows found no place")),
    }
}

/// Of a device that forgets flows before their next packet comes: it holds as many as before, far below a limit that stays,
/// and refuses none.
fn forgets_as_it_learns(window: &[Seen]) -> Result<(), String> {
    let found: Vec<Learning> = window.iter().filter_map(|seen| seen.learning).collect();
    let [first, .., last] = found.as_slice() else { return Ok(()) };
    let mean =
        |part: &[Learning]| part.iter().map(|says| says.flows as f64).sum::<f64>() / part.len().max(1) as f64;
    let (early, late) = found.split_at(found.len() / 2);
    let (before, after) = (mean(early), mean(late));
    let most = found.iter().map(|says| says.flows).max().unwrap_or(0);
    let is_far = found.iter().all(|says| says.limit == last.limit && most.saturating_mul(FAR) <= says.limit);
    if !is_far {
        return Err(format!("it holds {most} flows where its limit is {} of {}", last.limit, last.most));
    }
    if (after - before).abs() > STEADY * before {
        return Err(format!("its flows went from {before:.0} to {after:.0}"));
    }
    match last.refused.saturating_sub(first.refused) {
        0 => Ok(()),
        refused => Err(format!("{refused} flows found no place")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Nanos;

    const TRACE: u32 = 20_000;

    /// Looks at a device until it is settled, for as long as so many looks take; when that was, or why it never was.
    fn settled(most: u32, device: impl Fn(f64) -> Seen) -> Result<f64, String> {
        passed(Gate::new(TRACE, false), most, device)
    }

    fn passed(mut gate: Gate, most: u32, device: impl Fn(f64) -> Seen) -> Result<f64, String> {
        let (mut at, mut why) = (Duration::ZERO, String::new());
        while at < LOOK * most {
            match gate.look(Seen { at, ..device(at.as_secs_f64()) }) {
                Ok(_) => return Ok(at.as_secs_f64()),
                Err(reason) => why = reason,
            }
            at += gate.next_look();
        }
        Err(why)
    }

    fn forwards(rate: f64, seconds: f64) -> Seen {
        let count = (rate * seconds) as u64;
        Seen { received: count, sent: count, ..Seen::default() }
    }

    #[test]
    fn a_device_that_says_nothing_of_flows_is_settled_sooner_the_steadier_its_rate_is() {
        let at = settled(10, |t| forwards(50e6, t)).unwrap();
        assert!((0.1..0.2).contains(&at), "{at}");
        // Two hundredths more and less, in turns of a fifth of a second.
        let wavers = |t: f64| 50e6 * t + 50e3 * (t * std::f64::consts::TAU * 5.0).sin();
        let at = settled(10, |t| Seen { sent: wavers(t) as u64, ..forwards(50e6, t) }).unwrap();
        assert!((0.3..0.5).contains(&at), "{at}");
    }

    #[test]
    fn a_slow_path_that_has_a_little_to_do_is_watched_for_longer_than_one_at_rest() {
        let upcalls = |each: f64| move |t: f64| Seen { upcalls: Some((each * t) as u64), ..forwards(1e6, t) };
        let at = |each, gate| passed(gate, 10, upcalls(each)).unwrap();
        let gates = [|| Gate::new(TRACE, false), || Gate::of_audit(TRACE, false)];
        for gate in gates {
            assert!((0.1..0.2).contains(&at(200.0, gate())), "{}", at(200.0, gate()));
            assert!((0.3..0.5).contains(&at(600.0, gate())), "{}", at(600.0, gate()));
            assert!(passed(gate(), 10, upcalls(2_000.0)).is_err());
        }
    }

    #[test]
    fn a_rate_that_rises_and_packets_that_are_yet_to_come_keep_the_gate_closed() {
        let rising = |t: f64| Seen { sent: (1e6 * t * t) as u64, ..forwards(5e6, t) };
        assert!(settled(20, rising).unwrap_err().contains("rate"));
        let slow = settled(20, |t| forwards(10e3, t)).unwrap_err();
        assert!(slow.contains("60000"), "{slow}");
    }

    #[test]
    fn where_each_round_has_connections_of_its_own_one_is_enough() {
        let slow = |t: f64| forwards(15e3, t);
        let at = passed(Gate::new(TRACE, true), 20, slow).unwrap();
        assert!((1.3..1.7).contains(&at), "{at}");
        assert!(passed(Gate::new(TRACE, true), 5, slow).unwrap_err().contains("once (20000)"));
        assert!(settled(20, slow).is_err());
    }

    #[test]
    fn an_audit_waits_for_what_is_learnt_and_for_no_steady_rate() {
        let audit = |most, device: &dyn Fn(f64) -> Seen| passed(Gate::of_audit(TRACE, false), most, device);
        let rising = |t: f64| Seen { sent: (1e6 * t * t) as u64, ..forwards(5e6, t) };
        let learns = |t: f64| Seen { upcalls: Some(0), ..rising(t) };
        assert!((0.1..0.2).contains(&audit(10, &learns).unwrap()));
        // One that has nothing to learn need only have had each packet.
        assert_eq!(audit(2, &rising).unwrap(), GLANCE.as_secs_f64());
        assert!(Gate::of_audit(TRACE, false).look(rising(0.0)).unwrap_err().contains("60000"));
        assert!(audit(20, &|t| forwards(10e3, t)).unwrap_err().contains("60000"), "each packet some times");
        let busy = |t: f64| Seen { upcalls: Some((2e4 * t) as u64), ..rising(t) };
        assert!(audit(20, &busy).unwrap_err().contains("slow path"));
    }

    #[test]
    fn a_slow_path_that_still_works_keeps_it_closed_until_that_is_seen_to_be_for_good() {
        let busy = |t: f64| Seen { upcalls: Some((2e3 * t) as u64), ..forwards(1e6, t) };
        assert!(settled(20, busy).unwrap_err().contains("slow path"));
        let at = settled(200, busy).unwrap();
        assert!((19.9..20.5).contains(&at), "{at}");
        let fewer = |t: f64| Seen { upcalls: Some((2e4 * t.sqrt()) as u64), ..forwards(1e6, t) };
        assert!(settled(200, fewer).unwrap_err().contains("slow path"));
    }

    /// Open vSwitch's own way: the limit rises by 1,000 a round until it no longer binds 34,000 flows.
    fn open_vswitch(t: f64) -> Seen {
        let limit = 10_000 + (t / 0.5) as u64 * 1_000;
        let flows = limit.min(34_000);
        let learning = Learning { flows, limit, most: 200_000, refused: 0, round: Nanos(100_000_000) };
        // Its rate is the same all the time, as it would be where the slow path is the limit.
        Seen { learning: Some(learning), ..forwards(1e6, t) }
    }

    #[test]
    fn a_rising_limit_is_waited_for_until_it_leaves_room() {
        let at = settled(200, open_vswitch).unwrap();
        assert!((12.0..18.0).contains(&at), "{at}: 34,000 flows and a tenth are allowed after 14 s");
        let early = settled(40, open_vswitch).unwrap_err();
        assert!(early.contains("limit"), "{early}");
    }

    #[test]
    fn flows_that_grow_or_are_refused_keep_it_closed() {
        let learning = Learning { flows: 1_000, limit: 10_000, most: 200_000, ..Learning::default() };
        let with = |learning, t| Seen { learning: Some(learning), ..forwards(1e6, t) };
        assert!(settled(30, |t| with(learning, t)).is_ok());
        let growing = |t: f64| with(Learning { flows: 1_000 + (100.0 * t) as u64, ..learning }, t);
        assert!(settled(30, growing).unwrap_err().contains("flows went"));
        let refusing = |t: f64| with(Learning { refused: (100.0 * t) as u64, ..learning }, t);
        assert!(settled(30, refusing).unwrap_err().contains("no place"));
    }

    /// Open vSwitch with more flows than it meets again within 10 s: it holds 11,000, up to 500 more or less in turns of 5 s.
    fn forgetful(t: f64) -> Seen {
        let flows = 11_000 + (500.0 * (t * std::f64::consts::TAU / 5.0).sin()) as i64;
        let learning = Learning { flows: flows as u64, limit: 200_000, most: 200_000, ..Learning::default() };
        Seen { learning: Some(learning), upcalls: Some((600.0 * t) as u64), ..forwards(8e3, t) }
    }

    #[test]
    fn a_device_that_forgets_as_it_learns_is_as_it_will_be_after_long() {
        let at = settled(300, forgetful).unwrap();
        assert!((19.9..22.0).contains(&at), "{at}: and each packet has come three times after 7.5 s");
        let changed = |change: fn(&mut Learning, f64)| {
            settled(200, |t| {
                let mut seen = forgetful(t);
                seen.learning.iter_mut().for_each(|says| change(says, t));
                seen
            })
        };
        let growing = changed(|says, t| says.flows += (600.0 * t) as u64).unwrap_err();
        assert!(growing.contains("flows went"), "{growing}");
        let near = changed(|says, _| says.limit = 40_000).unwrap_err();
        assert!(near.contains("limit"), "{near}");
        let moving = changed(|says, t| says.limit = 100_000 + t as u64).unwrap_err();
        assert!(moving.contains("limit"), "{moving}");
        let refusing = changed(|says, t| says.refused = t as u64).unwrap_err();
        assert!(refusing.contains("no place"), "{refusing}");
        let fewer = |t: f64| Seen { upcalls: Some((6e3 * t.sqrt()) as u64), ..forgetful(t) };
        assert!(settled(200, fewer).unwrap_err().contains("slow path"));
    }

    #[test]
    fn a_device_at_its_very_last_limit_is_as_it_will_be() {
        let full =
            Learning { flows: 200_000, limit: 200_000, most: 200_000, refused: 5, ..Learning::default() };
        let device =
            |t: f64| Seen { learning: Some(full), upcalls: Some((5e5 * t) as u64), ..forwards(1e6, t) };
        assert!(settled(30, device).is_ok(), "it sends what it has no flow for to its slow path for good");
        let backing_off = |t: f64| {
            let limit = if (t as u64).is_multiple_of(2) { 200_000 } else { 150_000 };
            Seen { learning: Some(Learning { limit, ..full }), ..device(t) }
        };
        assert!(settled(60, backing_off).is_err(), "a limit that moves is none to stay at");
    }

    #[test]
    fn a_limit_that_is_far_from_the_flows_is_watched_for_less_long_and_an_audit_for_least() {
        let holds = |flows| Learning { flows, limit: 10_000, most: 200_000, ..Learning::default() };
        let device = |flows| move |t| Seen { learning: Some(holds(flows)), ..forwards(1e6, t) };
        let after = |flows| settled(30, device(flows)).unwrap();
        assert!((0.7..0.9).contains(&after(2_500)), "{}", after(2_500));
        assert!((1.8..2.1).contains(&after(2_501)), "{}", after(2_501));
        let audit = passed(Gate::of_audit(TRACE, false), 30, device(2_501)).unwrap();
        assert!((0.3..0.5).contains(&audit), "{audit}");
    }

    #[test]
    fn a_slow_round_makes_the_window_longer() {
        let learning =
            Learning { flows: 9, limit: 10_000, most: 200_000, refused: 0, round: Nanos(2_000_000_000) };
        let at = settled(100, |t| Seen { learning: Some(learning), ..forwards(1e6, t) }).unwrap();
        assert!((5.9..6.5).contains(&at), "{at}: three rounds of 2 s");
    }
}
