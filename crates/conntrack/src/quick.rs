//! What nearly all packets are: an ACK within its window, or a datagram, of a connection that was
//! answered long ago.
//!
//! Why: [`Tracker::judge_closely`] has every case of six kinds of packets and thirteen states before it,
//! and what it keeps for the rare ones costs the common one half of its time. Here the connection that
//! [`Tracker::approach`] found is verified, and where it and the packet are plain, what [`Tracker::judge_closely`]
//! would do is done. Where anything is out of the ordinary nothing was changed, and that decides.
//! The tests hold both against each other.
//!
//! Cost: with [`Tracker::approach`] and all, see `benches/conntrack.rs`. Threads: none.

use super::entry::{FLIPPED, HALF_OPEN, HELPED, RELATED, REPLIED, State};
use super::packet::{Kind, Look, Packet};
use super::reason::Event;
use super::segment::Plain;
use super::tracker::{Judgement, Tracker, ct};
use super::tuple::{TCP, UDP};
use super::wheel::Tick;

/// Whether a datagram's length is one that the packet has.
#[inline(always)]
fn is_whole_datagram(bytes: &[u8]) -> bool {
    bytes.first_chunk::<8>().is_some_and(|header| {
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        length >= 8 && length <= bytes.len()
    })
}

impl Tracker {
    /// Judges a plain packet of a plain connection; none, with nothing changed, if either is not.
    #[inline(always)]
    pub(super) fn quick(&mut self, packet: &Packet<'_>, look: &Look, now: Tick) -> Option<Judgement> {
        let may_be = self.may_be_quick && !packet.is_first_fragment();
        if !may_be || !matches!(look.kind, Kind::Tcp | Kind::Udp) || !self.entries.verify(look.at, &look.key)
        {
            return None;
        }
        self.pass_quickly(packet, look.at, look.key.flipped, now)
    }

    /// The same of a packet that was not looked at, where its connection may be at this place: which way round
    /// its tuple is shows by that connection's, and nothing has to be hashed.
    #[inline(always)]
    pub fn quick_at(&mut self, packet: &Packet<'_>, at: u32, zone: u16, now: Tick) -> Option<Judgement> {
        if !self.may_be_quick || !packet.is_whole_v4() {
            return None;
        }
        let ports = (packet.key.protocol(), packet.key.ports());
        let flipped = self.entries.is_of(at, packet.key.addresses(), ports, zone)?;
        self.pass_quickly(packet, at, flipped, now)
    }

    /// A packet of TCP or UDP over IPv4 or IPv6 of the connection at this place.
    #[inline(always)]
    fn pass_quickly(&mut self, packet: &Packet<'_>, at: u32, flipped: bool, now: Tick) -> Option<Judgement> {
        let hot = self.entries.hot_mut(at);
        if hot.flags & (REPLIED | HALF_OPEN | HELPED | RELATED) != REPLIED || hot.deadline.reached(now) {
            return None;
        }
        let side = usize::from(flipped != (hot.flags & FLIPPED != 0));
        let bytes = packet.transport().ok()?;
        let length = match packet.protocol() {
            TCP => {
                let segment = Plain::read(bytes)?;
                if !(hot.tcp.is_plain() && hot.tcp.step_plain(side, &segment)) {
                    return None;
                }
                let length = self.timeouts[State::Established as usize];
                if hot.tcp.waits() { length.min(self.unacknowledged) } else { length }
            }
            UDP if hot.tcp.state == State::UdpMultiple && is_whole_datagram(bytes) => {
                self.timeouts[State::UdpMultiple as usize]
            }
            _ => return None,
        };
        let (deadline, place) = (now.after(length), hot.place(at));
        if hot.deadline != deadline {
            hot.deadline = deadline;
        }
        if !hot.due().reached(deadline) {
            self.wheel.hasten(&mut self.entries, at, deadline);
        }
        self.counters.count(Event::Established);
        let state = ct::TRK | ct::EST | if side == 1 { ct::RPL } else { 0 };
        Some(Judgement { state, place: Some(place), refused: None })
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::flag::{ACK, FIN, RST, SYN, URG};
    use super::super::settings::Settings;
    use super::super::wheel::NONE;
    use super::*;
    use proptest::prelude::*;
    use weir_flow::{Field, Key, Layout, Seed};

    /// A packet of one of two connections, near what their windows allow.
    #[derive(Clone, Copy, Debug)]
    struct Step {
        udp: bool,
        side: usize,
        flags: u8,
        /// From where its side is, and from where the other is.
        seq: i32,
        ack: i32,
        length: u16,
        window: u16,
        /// What is cut off or added in the header's length field.
        header: i8,
        fragment: bool,
        ticks: u32,
    }

    fn step() -> impl Strategy<Value = Step> {
        let flags = prop_oneof![80 => Just(ACK), 9 => Just(ACK | 0x08), 1 => Just(FIN | ACK), 1 => Just(SYN),
            1 => Just(RST), 1 => Just(ACK | URG), 1 => any::<u8>()];
        let near = || prop_oneof![12 => Just(0), 4 => -80..80, 1 => -70_000..70_000, 1 => any::<i32>()];
        let rare = |value: i8| prop_oneof![30 => Just(0), 1 => Just(value)];
        let ticks = prop_oneof![20 => 0..60_u32, 1 => 0..30_000_u32];
        (
            any::<bool>(),
            0..2_usize,
            flags,
            near(),
            near(),
            0..1400_u16,
            any::<u16>(),
            rare(-4),
            rare(1),
            ticks,
        )
            .prop_map(|(udp, side, flags, seq, ack, length, window, header, fragment, ticks)| Step {
                udp,
                side,
                flags,
                seq,
                ack,
                length,
                window,
                header,
                fragment: fragment != 0,
                ticks,
            })
    }

    /// What each side sent last.
    struct Peers([u32; 2]);

    impl Peers {
        fn frame(&mut self, step: &Step) -> (Vec<u8>, Key, Layout) {
            let (header, protocol) = if step.udp { (8, 17) } else { (20, 6) };
            let mut frame = vec![0_u8; 34 + header + usize::from(step.length)];
            let body = &mut frame[34..];
            if step.udp {
                let length = (8 + step.length).wrapping_add_signed(step.header.into());
                body[4..6].copy_from_slice(&length.to_be_bytes());
            } else {
                let seq = self.0[step.side].wrapping_add_signed(step.seq);
                let ack = self.0[1 - step.side].wrapping_add_signed(step.ack);
                body[4..8].copy_from_slice(&seq.to_be_bytes());
                body[8..12].copy_from_slice(&ack.to_be_bytes());
                (body[12], body[13]) = (((20 + step.header) as u8 / 4) << 4, step.flags);
                body[14..16].copy_from_slice(&step.window.to_be_bytes());
                let unit = u32::from(step.flags & (SYN | FIN) != 0);
                if step.seq == 0 {
                    self.0[step.side] = seq.wrapping_add(u32::from(step.length) + unit);
                }
            }
            let mut key = Key::new();
            let ends = [(Field::NwSrc, Field::TcpSrc), (Field::NwDst, Field::TcpDst)];
            let (from, to) = (ends[step.side], ends[1 - step.side]);
            for ((address, port), number) in [(from, 1), (to, 2)] {
                address.set(&mut key, 0x0a00_0000 + number);
                port.set(&mut key, 1000 + number);
            }
            Field::EthType.set(&mut key, 0x0800);
            Field::NwProto.set(&mut key, protocol);
            Field::NwFrag.set(&mut key, u128::from(step.fragment));
            let end = frame.len() as u16;
            (frame, key, Layout { network: 14, transport: 34, end, ..Layout::default() })
        }
    }

    fn opening(udp: bool) -> Vec<Step> {
        let step = |side, flags| Step {
            udp,
            side,
            flags,
            seq: 0,
            ack: 0,
            length: 0,
            window: 9000,
            header: 0,
            fragment: false,
            ticks: 0,
        };
        vec![step(0, SYN), step(1, SYN | ACK), step(0, ACK)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        #[cfg_attr(miri, ignore = "takes minutes under Miri")]
        fn the_quick_way_leads_where_the_long_way_does(
            steps in proptest::collection::vec(step(), 1..150),
            noted in any::<bool>(),
        ) {
            let settings = Settings { checksums: super::super::Checksums::None, ..Settings::default() };
            let mut now = Tick(7);
            let [mut short, mut long] = [0; 2].map(|_| Tracker::new(settings.clone(), Seed::new(3), now));
            let mut peers = Peers([100, 0xffff_fff0]);
            let mut quick = 0;
            for step in opening(false).into_iter().chain(opening(true)).chain(steps) {
                now = now.after(step.ticks);
                let (frame, key, layout) = peers.frame(&step);
                let packet = Packet { frame: &frame, layout, key: &key };
                let mut look = packet.look(0, Seed::new(3));
                let expected = long.judge_closely(packet, &look, true, now);
                short.approach(&mut look);
                let found = if noted && look.at != NONE {
                    short.quick_at(&packet, look.at, 0, now)
                } else {
                    short.quick(&packet, &look, now)
                };
                quick += usize::from(found.is_some());
                let found = found.unwrap_or_else(|| short.judge_closely(packet, &look, true, now));
                prop_assert_eq!(found, expected);
                prop_assert!(short.counters().all().eq(long.counters().all()));
                let of = |tracker: &Tracker| -> Vec<_> {
                    let all = tracker.all(0).map(|(at, _)| format!("{:?}", tracker.entries.hot(at)));
                    all.collect()
                };
                prop_assert_eq!(of(&short), of(&long));
            }
            prop_assert!(quick > 0, "the answered connections' next packets at least");
        }
    }
}
