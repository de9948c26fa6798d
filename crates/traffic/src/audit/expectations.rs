//! What an audited device must send: every packet of its traces, as the function leaves it.
//!
//! Each expected frame is known by a hash of its bytes, so that a look at a packet costs two hashes; a frame
//! that is none of them is compared with what its flow must be, to name what is wrong with it. How often each
//! came tells whether some packets are left out.
//!
//! Where connections have other client ports in each lap ([`PortTurns`]), nobody knows of which lap a packet is. Then frames are known by
//! what they are once the client's port is taken out of them and out of their checksum; a port that is no client's is not taken out.

use crate::trace::FrameTable;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher as _};
use weir_trial::compare::{compare, describe, is_router_report, note};
use weir_trial::expected::{PAIR, Reason, flow};
use weir_trial::{Expected, Fault, Oracle, PacketCheck};
use weir_wire::lap::PortTurns;
use weir_wire::table::FiveTuple;

/// Share of a packet's due that may be missing, and laps besides: the first and the last are looked at in part.
const SHORT: f64 = 0.01;
const PART_LAPS: f64 = 2.0;
/// Fewest laps that tell whether a packet is left out.
const LAPS: f64 = 4.0;
/// Wrong packets after which no more are compared by name, only counted.
const NAMED: u64 = 1_000;
/// Shortest frame in memory, in bytes.
const SHORTEST: u64 = 60;

/// What must come out.
#[derive(Debug, Default)]
pub struct Expectations {
    /// By port and bytes, the place in `outputs`.
    by_bytes: FxHashMap<(u8, u64), u32>,
    outputs: Vec<Output>,
    by_flow: FxHashMap<FiveTuple, (Expected, u32)>,
    /// Why a packet that nothing is known of may be right all the same.
    open: Option<String>,
    passes_reports: bool,
    /// By the port that a packet leaves by, how the client ports of its trace change.
    turns: [Option<PortTurns>; PAIR as usize],
}

/// Packets that must come out and cannot be told apart.
#[derive(Debug)]
struct Output {
    /// How many of a lap they are.
    times: u32,
    /// One of them, as it was sent.
    example: Box<[u8]>,
}

/// How often each came.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Seen(Vec<u64>);

impl Seen {
    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, count)| *sum += count);
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

impl Expectations {
    /// Of a function that gets these laps, one a direction. A device that does something else with packets
    /// without a route is not held to them (`deviates`).
    pub fn new<'a>(
        oracle: &Oracle,
        laps: impl Iterator<Item = &'a FrameTable>,
        deviates: Option<&str>,
    ) -> Self {
        let mut all = Self { passes_reports: oracle.nf().is_router(), ..Self::default() };
        for (port, lap) in (0..).zip(laps) {
            for (index, times) in times_of(lap).into_iter().enumerate().filter(|(_, times)| *times > 0) {
                let frame = lap.distinct_frame(index).to_vec();
                match oracle.expected(port, &frame) {
                    Expected::Drop(Reason::NoRoute) if deviates.is_some() => {
                        all.open = deviates.map(str::to_owned);
                    }
                    Expected::Drop(_) => {}
                    Expected::Translated { .. } => {
                        all.open = Some("a device chooses addresses and ports of its own".to_owned());
                    }
                    Expected::Open => {
                        all.open = Some("what becomes of some packets is not described".to_owned());
                    }
                    expected => all.expect(expected, (&frame, times), lap.turns()),
                }
            }
        }
        all
    }

    fn expect(&mut self, mut expected: Expected, (sent, times): (&[u8], u32), turns: Option<&PortTurns>) {
        if let Some(turns) = turns {
            match &mut expected {
                Expected::Forward { port, frame } => {
                    self.take_port_out(*port, turns, std::slice::from_mut(frame))
                }
                Expected::OneOf { port, frames } => self.take_port_out(*port, turns, frames),
                Expected::Translated { .. } | Expected::Drop(_) | Expected::Open => {}
            }
        }
        let (port, frames) = match &expected {
            Expected::Forward { port, frame } => (*port, std::slice::from_ref(frame)),
            Expected::OneOf { port, frames } => (*port, frames.as_slice()),
            Expected::Translated { .. } | Expected::Drop(_) | Expected::Open => return,
        };
        let Some(first) = frames.first() else { return };
        let next = self.outputs.len() as u32;
        let index = *self.by_bytes.entry((port, hash(first))).or_insert(next);
        if index == next {
            self.outputs.push(Output { times: 0, example: sent.into() });
        }
        self.outputs[index as usize].times += times;
        for frame in frames {
            self.by_bytes.entry((port, hash(frame))).or_insert(index);
            if let Some(flow) = flow(frame) {
                self.by_flow.entry(flow).or_insert_with(|| (expected.clone(), index));
            }
        }
    }

    /// What leaves by a port has the client's port taken out, from now on and in these frames.
    fn take_port_out(&mut self, port: u8, turns: &PortTurns, frames: &mut [Vec<u8>]) {
        self.turns[usize::from(port % PAIR)] = Some(*turns);
        frames.iter_mut().for_each(|frame| take_port_out(turns, frame));
    }

    /// Bytes of the shortest frame that may come.
    pub(super) fn shortest(&self) -> u64 {
        SHORTEST
    }

    pub(super) fn nothing_seen(&self) -> Seen {
        Seen(vec![0; self.outputs.len()])
    }

    /// Looks at a frame that left by a port.
    pub(super) fn look(&self, port: u8, frame: &[u8], seen: &mut Seen, check: &mut PacketCheck) {
        check.compared += 1;
        let mut known = Cow::Borrowed(frame);
        if let Some(turns) = &self.turns[usize::from(port % PAIR)] {
            take_port_out(turns, known.to_mut());
        }
        let frame = &*known;
        if let Some(index) = self.by_bytes.get(&(port, hash(frame))) {
            seen.0[*index as usize] += 1;
            return;
        }
        let wrong: u64 = check.wrong.iter().map(|wrong| wrong.count).sum();
        if wrong >= NAMED {
            return check.note(Fault::Header, String::new);
        }
        match flow(frame).and_then(|flow| self.by_flow.get(&flow)) {
            Some((expected, index)) => {
                let faults = compare(expected, frame, port);
                // Padding alone may differ.
                seen.0[*index as usize] += u64::from(faults.is_empty());
                note(check, faults);
            }
            None if self.open.is_some() || (self.passes_reports && is_router_report(frame)) => {
                check.compared -= 1
            }
            None => check.note(Fault::Foreign, || format!("{}, by port {port}", describe(frame))),
        }
    }

    /// Names the packets that came less often than they were due.
    pub(super) fn starved(&self, seen: &Seen, check: &mut PacketCheck) {
        let due: u64 = self.outputs.iter().map(|output| u64::from(output.times)).sum();
        let laps = seen.0.iter().sum::<u64>() as f64 / due.max(1) as f64;
        if let Some(why) = &self.open {
            check.remark(format!("packets that nothing is known of were passed over: {why}"));
        }
        if laps == 0.0 {
            return;
        }
        if laps < LAPS {
            return check.remark(format!(
                "each packet came {laps:.1} times: too seldom to tell whether some are left out"
            ));
        }
        for (output, count) in self.outputs.iter().zip(&seen.0) {
            let least = (laps * (1.0 - SHORT) - PART_LAPS) * f64::from(output.times);
            if (*count as f64) < least {
                let example = || {
                    format!(
                        "{}: came {count} times where {:.0} were due",
                        describe(&output.example),
                        laps * f64::from(output.times)
                    )
                };
                check.note(Fault::Missing, example);
            }
        }
    }
}

/// How often each distinct frame of a lap stands in it.
fn times_of(lap: &FrameTable) -> Vec<u32> {
    let mut times = vec![u32::from(lap.order().is_none()); lap.distinct()];
    lap.order().into_iter().flatten().for_each(|index| times[*index as usize] += 1);
    times
}

/// Takes the client's port out of a frame and out of its checksum, if it is one.
fn take_port_out(turns: &PortTurns, frame: &mut [u8]) {
    if let Some(port) = turns.port(frame).filter(|port| turns.is_client(*port)) {
        // A frame too short for a checksum stays as it is, and is none that was sent.
        let _ = turns.put(frame, port, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceSpec;
    use weir_trial::Nf;

    fn expectations(nf: &str, trace: &str) -> (Expectations, Vec<Vec<u8>>) {
        let nf: Nf = nf.parse().unwrap();
        let oracle = Oracle::new(nf);
        let lap = TraceSpec::parse(trace).unwrap().build_table().unwrap();
        let out = |place: usize| match oracle.expected(0, &lap.frame(place).to_vec()) {
            Expected::Forward { frame, .. } => frame,
            other => panic!("{other:?}"),
        };
        let outputs = (0..lap.len()).map(out).collect();
        (Expectations::new(&oracle, std::iter::once(&lap), None), outputs)
    }

    /// What a device's packets come to that sends this lap a hundred times.
    fn audit(nf: &str, trace: &str, device: impl Fn(usize, &[u8]) -> Option<Vec<u8>>) -> PacketCheck {
        let (expectations, outputs) = expectations(nf, trace);
        let (mut seen, mut check) = (expectations.nothing_seen(), PacketCheck::default());
        for lap in 0..100 {
            for (place, frame) in outputs.iter().enumerate() {
                if let Some(frame) = device(lap * outputs.len() + place, frame) {
                    expectations.look(1, &frame, &mut seen, &mut check);
                }
            }
        }
        expectations.starved(&seen, &mut check);
        check
    }

    fn faults(check: &PacketCheck) -> Vec<(Fault, u64)> {
        check.wrong.iter().map(|wrong| (wrong.fault, wrong.count)).collect()
    }

    #[test]
    fn a_device_that_does_right_has_every_packet_compared_and_nothing_found() {
        for (nf, trace) in [("l2fwd", "flows:100"), ("l3fwd:10", "flows:100"), ("firewall:10", "flows:100")] {
            let check = audit(nf, trace, |_, frame| Some(frame.to_vec()));
            assert_eq!(
                (check.compared, check.is_right(), &check.remark),
                (10_000, true, &None),
                "{nf}: {check}"
            );
        }
    }

    /// The packets of some laps of a trace over pipeline A, as it lets them out by the far port.
    fn laps_of(trace: &str, laps: u64) -> (Expectations, Vec<Vec<u8>>) {
        let nf: Nf = "pipeline-a:40".parse().unwrap();
        let lap = TraceSpec::parse(trace).unwrap().build_table().unwrap();
        let all = (0..laps).flat_map(|number| (0..lap.len()).map(move |place| (place, number)));
        let frames = all.map(|(place, number)| lap.made(place, number).0).collect();
        (Expectations::new(&Oracle::new(nf).opened(), std::iter::once(&lap), None), frames)
    }

    #[test]
    fn packets_are_known_whichever_ports_their_lap_has_and_a_wrong_one_is_named() {
        let (expectations, frames) = laps_of("t2:40:1000", 5);
        let judge = |frames: &[Vec<u8>]| {
            let (mut seen, mut check) = (expectations.nothing_seen(), PacketCheck::default());
            frames.iter().for_each(|frame| expectations.look(1, frame, &mut seen, &mut check));
            expectations.starved(&seen, &mut check);
            check
        };
        let right = judge(&frames);
        assert_eq!(
            (right.is_right(), right.compared, &right.remark),
            (true, frames.len() as u64, &None),
            "{right}"
        );
        let mut wrong = frames.clone();
        let place = wrong.len() / 2;
        wrong[place][35] ^= 1; // a client's port, without its checksum
        assert!(!judge(&wrong).is_right(), "{:02x?}", wrong[place]);
        let without: Vec<Vec<u8>> =
            frames.iter().filter(|frame| frame[30..34] != frames[0][30..34]).cloned().collect();
        assert!(faults(&judge(&without)).iter().any(|(fault, _)| *fault == Fault::Missing));
    }

    #[test]
    fn each_fault_that_hides_from_counters_is_named() {
        // One packet in ten thousand with its TTL not lowered.
        let ttl = audit("l3fwd:10", "flows:100", |number, frame| {
            let mut frame = frame.to_vec();
            if number == 5_000 {
                frame[22] += 1;
            }
            Some(frame)
        });
        assert!(faults(&ttl).contains(&(Fault::Ttl, 1)), "{ttl}");
        // One flow of a hundred loses one packet in twenty, and nobody else any.
        let starved = audit("l2fwd", "flows:100", |number, frame| {
            (number % 100 != 7 || number / 100 % 20 != 0).then(|| frame.to_vec())
        });
        assert_eq!(faults(&starved), [(Fault::Missing, 1)], "{starved}");
        let foreign = audit("l2fwd", "flows:100", |number, frame| {
            Some(if number == 9 { vec![0xab; 60] } else { frame.to_vec() })
        });
        assert_eq!(faults(&foreign), [(Fault::Foreign, 1)], "{foreign}");
        let swapped = audit("l2fwd", "flows:100", |number, frame| {
            let mut frame = frame.to_vec();
            if number == 77 {
                frame.swap(44, 46); // two bytes that keep the sum
            }
            Some(frame)
        });
        assert_eq!(faults(&swapped), [(Fault::Payload, 1)], "{swapped}");
    }

    #[test]
    fn too_few_laps_tell_nothing_of_starved_flows_and_say_so() {
        let (expectations, outputs) = expectations("l2fwd", "flows:100");
        let (mut seen, mut check) = (expectations.nothing_seen(), PacketCheck::default());
        outputs[..50].iter().for_each(|frame| expectations.look(1, frame, &mut seen, &mut check));
        expectations.starved(&seen, &mut check);
        assert!(check.is_right() && check.remark.unwrap().contains("too seldom"));
    }
}
