//! What is said in a connection, packet by packet, and what a function must make of each: asked of the oracle once, for
//! some hundred pairs of ends.

use super::frames::{BYTES, Ends, Own, Step, Template, blank};
use crate::trace::gateway;
use std::ops::RangeInclusive;
use weir_trial::expected::five_tuple;
use weir_trial::{CLIENT_PORTS, Expected, Nf, Oracle};
use weir_wire::table::FiveTuple;

/// Pairs of client and server. Connections beyond that differ in the client's port.
pub(super) const PAIRS: usize = 512;
/// Ports of a client.
const PORTS: u64 = (*CLIENT_PORTS.end() - *CLIENT_PORTS.start()) as u64 + 1;
/// Bits of the number of a connection that its first sequence number has, and those that are left to what it carries.
const NUMBER_BITS: u32 = 26;
const CARRIED_BITS: u32 = u32::BITS - NUMBER_BITS;
/// How far apart the first sequence numbers of both ends are.
const APART: u32 = 0x2000_0000;

/// The packets of connections through a function.
#[derive(Debug)]
pub struct Script {
    pairs: Vec<Pair>,
    /// Addresses that take the place of the clients', where the function translates.
    pool: Option<RangeInclusive<u32>>,
}

#[derive(Debug)]
struct Pair {
    ends: Ends,
    sent: [Template; Step::ALL.len()],
    /// By which port of the device each leaves, and how.
    comes: [(u8, Template); Step::ALL.len()],
}

/// A packet to be sent, or to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) template: &'a Template,
    pub(super) own: Own,
}

impl Script {
    /// For a function that tracks connections; the reason where it is none, or the lab cannot know its packets.
    pub fn of(nf: Nf, seed: u64) -> Result<Self, String> {
        let oracle = Oracle::new(nf);
        let flows = gateway::connections(nf, seed, PAIRS)?;
        let pairs = flows.iter().map(|flow| {
            let ends = Ends {
                macs: [flow.source_mac.0, flow.destination_mac.0],
                addresses: [flow.source, flow.destination],
                service: flow.destination_port,
            };
            Pair::of(&oracle, ends)
                .ok_or_else(|| format!("{nf} is not known to forward TCP from {}", flow.source))
        });
        let pool = nf.translates().map(|(first, last)| first.to_bits()..=last.to_bits());
        Ok(Self { pairs: pairs.collect::<Result<_, _>>()?, pool })
    }

    /// Connections until a five-tuple comes again.
    pub fn distinct(&self) -> u64 {
        self.pairs.len() as u64 * PORTS
    }

    pub(super) fn pool(&self) -> Option<&RangeInclusive<u32>> {
        self.pool.as_ref()
    }

    fn pair(&self, number: u64) -> &Pair {
        &self.pairs[(number % self.pairs.len() as u64) as usize]
    }

    /// Address and port of a connection's server.
    pub(super) fn server(&self, number: u64) -> (u32, u16) {
        let ends = &self.pair(number).ends;
        (ends.addresses[1].to_bits(), ends.service)
    }

    fn own(&self, number: u64, step: Step, held: bool) -> Own {
        let (sent, seen) = step.numbers(held);
        self.numbered(number, (step, sent, (step != Step::Syn).then_some(seen)))
    }

    /// What differs in a packet of a connection that stands so far: what it adds to its end's first sequence number, and to the
    /// other end's.
    fn numbered(&self, number: u64, (step, sent, seen): (Step, u32, Option<u32>)) -> Own {
        let first = (number << CARRIED_BITS) as u32;
        let (mine, theirs) = if step.from() == 0 {
            (first, first.wrapping_add(APART))
        } else {
            (first.wrapping_add(APART), first)
        };
        let port = (number / self.pairs.len() as u64) % PORTS;
        Own {
            port: CLIENT_PORTS.start() + port as u16,
            address: None,
            sequence: mine.wrapping_add(sent),
            acknowledgement: seen.map_or(0, |seen| theirs.wrapping_add(seen)),
        }
    }

    /// A packet as it is sent. `public` is what stands for the client outside, where the function translates.
    #[inline]
    pub(super) fn sent(&self, (number, public): (u64, (u32, u16)), step: Step, held: bool) -> Packet<'_> {
        let own = self.own(number, step, held);
        let own = if step.from() == 1 { self.translated(own, public) } else { own };
        Packet { template: &self.pair(number).sent[step as usize], own }
    }

    /// A packet as it must come, and the port that it must leave the device by.
    #[inline]
    pub(super) fn comes(
        &self,
        (number, public): (u64, (u32, u16)),
        step: Step,
        held: bool,
    ) -> (u8, Packet<'_>) {
        let own = self.own(number, step, held);
        let own = if step.from() == 0 { self.translated(own, public) } else { own };
        let (port, template) = &self.pair(number).comes[step as usize];
        (*port, Packet { template, own })
    }

    /// A reset as it is sent, of a connection that stands so far.
    pub(super) fn reset(
        &self,
        (number, public): (u64, (u32, u16)),
        reset: (Step, u32, Option<u32>),
    ) -> Packet<'_> {
        let own = self.numbered(number, reset);
        let own = if reset.0.from() == 1 { self.translated(own, public) } else { own };
        Packet { template: &self.pair(number).sent[reset.0 as usize], own }
    }

    /// The same as it must come.
    pub(super) fn reset_comes(
        &self,
        (number, public): (u64, (u32, u16)),
        reset: (Step, u32, Option<u32>),
    ) -> (u8, Packet<'_>) {
        let own = self.numbered(number, reset);
        let own = if reset.0.from() == 0 { self.translated(own, public) } else { own };
        let (port, template) = &self.pair(number).comes[reset.0 as usize];
        (*port, Packet { template, own })
    }

    fn translated(&self, own: Own, (address, port): (u32, u16)) -> Own {
        match self.pool {
            Some(_) => Own { address: Some(address), port, ..own },
            None => own,
        }
    }
}

/// How far behind the connection of number `first` the one is that a number of the client's belongs to.
#[inline]
pub(super) fn place(first: u64, word: u32) -> usize {
    let mask = (1 << NUMBER_BITS) - 1;
    ((word >> CARRIED_BITS).wrapping_sub(first as u32) & mask) as usize
}

impl Pair {
    /// Asks the oracle about each packet; nothing where it leaves one open.
    fn of(oracle: &Oracle, ends: Ends) -> Option<Self> {
        let frames = Step::ALL.map(|step| (step, blank(step, &ends)));
        let sent = frames.map(|(step, frame)| Template::of(&frame, step.from() == 0));
        let comes = frames.map(|(step, frame)| match oracle.of_connection(step.from(), &frame) {
            Expected::Forward { port, frame } => {
                Template::of(&frame, step.from() == 0).map(|template| (port, template))
            }
            _ => None,
        });
        let whole = sent.iter().all(Option::is_some) && comes.iter().all(Option::is_some);
        whole.then(|| Self { ends, sent: sent.map(Option::unwrap), comes: comes.map(Option::unwrap) })
    }
}

/// Whether a connection can be opened from this end, by the oracle, and what the other end sends is let through only
/// because it belongs to one.
pub(crate) fn opens(oracle: &Oracle, ends: (FiveTuple, [[u8; 6]; 2])) -> bool {
    let (tuple, macs) = ends;
    let Some((port, service)) = tuple.ports else { return false };
    let ends = Ends { macs, addresses: [tuple.source, tuple.destination], service };
    let mut syn = [0; BYTES];
    let Some(template) = Template::of(&blank(Step::Syn, &ends), true) else { return false };
    template.write(Own { port, address: None, sequence: 0, acknowledgement: 0 }, &mut syn);
    let answer = FiveTuple {
        source: tuple.destination,
        destination: tuple.source,
        ports: Some((service, port)),
        ..tuple
    };
    let comes = matches!(oracle.expected(0, &syn), Expected::Forward { .. });
    comes && five_tuple(&syn) == Some(tuple) && !oracle.admits(&answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_found_by_the_numbers_of_each_of_its_packets() {
        let script = Script::of("pipeline-a:64".parse().unwrap(), 1).unwrap();
        for (number, held) in
            [(0, false), (70_000_000, false), (123_456, true), (u64::from(u32::MAX) * 3, true)]
        {
            let first = number - u64::from(number > 5) * 5;
            for step in Step::ALL {
                let own = script.own(number, step, held);
                let word = if step.from() == 0 { own.sequence } else { own.acknowledgement };
                assert_eq!(place(first, word) as u64, number - first, "{step:?} of {number}");
            }
        }
    }

    #[test]
    fn no_five_tuple_comes_twice_among_millions_of_connections() {
        let script = Script::of("pipeline-a".parse().unwrap(), 1).unwrap();
        assert_eq!(script.distinct(), 512 * 28_232);
        let mut seen = std::collections::HashSet::new();
        for number in (0..script.distinct()).step_by(97) {
            let Packet { template, own } = script.sent((number, (0, 0)), Step::Syn, false);
            assert!(seen.insert((template.client(), script.server(number), own.port)), "connection {number}");
        }
    }

    #[test]
    fn functions_without_connections_have_no_script() {
        for (nf, why) in [("l2fwd", "tracks no connections"), ("pipeline-c", "backend")] {
            let said = Script::of(nf.parse().unwrap(), 1).err().unwrap_or_default();
            assert!(said.contains(why), "{nf}: {said}");
        }
    }
}
