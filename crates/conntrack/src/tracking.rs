//! What OpenFlow's `ct` asks of the tracker for a packet, and how it is done (`ovs-actions(7)`).
//!
//! Where `softflow:conntrack` says of a packet whether it is allowed, `ct` only tells what it is: a packet
//! that belongs to no connection is `+new` and goes on, and a connection is kept if the flow entry says
//! `commit`. As in Open vSwitch:
//!
//! - a packet that was tracked in this zone before is not judged again: it commits, is marked and
//!   translated by what was found then; but where it was rewritten since, so that it is another connection's, it
//!   is a packet of that;
//! - `force` replaces a connection that began the other way round;
//! - addresses are translated if the action has `nat` and the connection was made with a range;
//! - mark and label belong to connections that are kept;
//! - a helper is given to the connection that this packet begins, and reads what its sides say (`helper/`).
//!
//! Unlike Open vSwitch's userspace datapath, and like Linux's: a connection is `+est` once it was answered,
//! and not by a third packet of the same side; a packet that would need a connection for which there is no
//! room, or no translation, is dropped with a reason instead of passing as `+new` or `+inv`.
//!
//! Cost: beside the judgement a few cycles; translations see `nat.rs` and `rewrite.rs`. Threads: none.

use super::entry::{HELPED, TRANSLATED};
use super::key::words;
use super::packet::{Look, Packet};
use super::reason::{Event, Reason};
use super::rewrite::Turn;
use super::tracker::{Judgement, Tracker, ct};
use super::tuple::{IndexKey, Tuple};
use super::wheel::Tick;
use weir_flow::Key;
use weir_openflow::Tracking;

/// What came of it.
#[derive(Debug)]
pub struct Attended {
    /// What the packet is.
    pub judgement: Judgement,
    /// How its addresses change.
    pub turn: Option<Turn>,
    /// Why the packet ends here.
    pub drop: Option<Reason>,
    /// Whether its connection has a helper that is to read it.
    pub helped: bool,
}

/// `ct_state` of a packet as its key has it, if it was tracked in this zone and found valid.
fn state_before(key: &Key, zone: u16) -> Option<u8> {
    let state = (key.word(words::STATE) >> words::STATE_SHIFT) as u8;
    let valid = state & (ct::TRK | ct::INV) == ct::TRK && key.word(words::ZONE) as u16 == zone;
    valid.then_some(state)
}

impl Tracker {
    /// Does what `ct` asks for a packet that was looked at.
    #[inline]
    pub fn attend(&mut self, packet: &Packet<'_>, look: &Look, asked: &Tracking, now: Tick) -> Attended {
        let before = state_before(packet.key, asked.zone);
        if asked.force {
            self.replace(look, now);
        }
        let created = self.counters.of(Event::Created);
        let mut judgement = match before {
            Some(state) => self.recall(packet, look, state, asked.commit, now),
            None => self.judge(packet, look, asked.commit, now),
        };
        if judgement.state == 0 {
            judgement.state = ct::TRK | ct::INV;
        }
        let full = judgement.refused.filter(|reason| reason.is_limit());
        let mut attended = Attended { judgement, turn: None, drop: full, helped: false };
        let Some(place) = judgement.place.filter(|_| full.is_none()) else { return attended };
        let is_new = self.counters.of(Event::Created) != created;
        if let Some(helper) = asked.helper.filter(|_| is_new)
            && let Err(reason) = self.assign(place, helper, look)
        {
            self.remove(place.at);
            self.counters.refuse(reason);
            attended.drop = Some(reason);
            return attended;
        }
        if let Some(nat) = &asked.nat {
            if is_new && !self.arrange(place, nat, now) {
                self.remove(place.at);
                self.counters.refuse(Reason::NatExhausted);
                attended.drop = Some(Reason::NatExhausted);
                return attended;
            }
            if judgement.state & (ct::SNAT | ct::DNAT) == 0 {
                attended.turn = self.turn(place, judgement.state, look);
                let turned = attended.turn.as_ref();
                attended.judgement.state |= turned.map_or(0, Turn::state);
            }
        }
        if is_new && asked.nat.is_none() && self.counters.of(Event::Translated) > 0 && !self.is_alone(place) {
            self.remove(place.at);
            self.counters.refuse(Reason::NatExhausted);
            attended.drop = Some(Reason::NatExhausted);
            return attended;
        }
        if asked.commit {
            if asked.mark.1 != 0 {
                self.set_mark(place, asked.mark.0, asked.mark.1);
            }
            if asked.label.1 != 0 {
                self.set_label(place, asked.label.0, asked.label.1);
            }
        }
        let flags = self.entries.hot(place.at).flags;
        // Where it is translated, only with its addresses; otherwise once.
        let read = attended.turn.is_some() || before.is_none() && flags & TRANSLATED == 0;
        attended.helped = flags & HELPED != 0 && read && look.is_flow();
        attended
    }

    /// A packet that was tracked before: what it was found to be holds, and nothing is counted again. One that was
    /// rewritten since is of another connection, and is judged as that.
    fn recall(&mut self, packet: &Packet<'_>, look: &Look, state: u8, commit: bool, now: Tick) -> Judgement {
        if !look.is_flow() {
            return Judgement { state, place: None, refused: None };
        }
        let side = usize::from(state & ct::RPL != 0);
        if let Some((at, found)) = self.find_again(&look.key, now) {
            let place = self.entries.place(at);
            if found == side && self.original(place) == words_of(packet.key) {
                return Judgement { state, place: Some(place), refused: None };
            }
            return self.judge(packet, look, commit, now);
        }
        if commit || !self.is_as_it_was(packet.key, look, now) {
            return self.judge(packet, look, commit, now);
        }
        Judgement { state, place: None, refused: None }
    }

    /// Whether a packet of no connection has the addresses and ports with which it was tracked.
    fn is_as_it_was(&mut self, key: &Key, look: &Look, now: Tick) -> bool {
        let before = words_of(key);
        own_tuple(look).is_some_and(|own| own.as_words() == before)
            || self.control_of(look, now).is_some_and(|control| self.original(control) == before)
    }

    /// Ends the connection of a packet that travels in the direction of its answers.
    fn replace(&mut self, look: &Look, now: Tick) {
        if look.is_flow()
            && let Some((at, 1)) = self.find(&look.key, now)
        {
            self.counters.count(Event::Reopened);
            self.remove(at);
        }
    }

    /// How the addresses of a packet of this direction change, if its connection is translated.
    fn turn(&self, place: super::Place, state: u8, look: &Look) -> Option<Turn> {
        let (original, reply) = self.ends(place)?;
        let answers = state & ct::RPL != 0;
        let (from, to) = if answers { (reply, original.reversed()) } else { (original, reply.reversed()) };
        Some(Turn::new(from, to, look.kind))
    }
}

/// The original tuple in a key, as `Tracker::original` tells it.
fn words_of(key: &Key) -> (u64, u64, Option<[u128; 2]>) {
    let wide = |at: usize| u128::from(key.word(at)) << 64 | u128::from(key.word(at + 1));
    let v6 = [wide(words::ADDRESSES6), wide(words::ADDRESSES6 + 2)];
    let is_v6 = key.word(words::ADDRESSES) == 0 && v6 != [0; 2];
    (key.word(words::ADDRESSES), key.word(words::PORTS), is_v6.then_some(v6))
}

/// The original tuple of a packet of no connection: its own.
pub(super) fn own_tuple(look: &Look) -> Option<Tuple> {
    let IndexKey { a, b, addresses, flipped, .. } = look.key;
    look.is_flow().then(|| IndexKey::tuple_of(a, b, addresses, flipped))
}
