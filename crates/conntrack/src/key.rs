//! What a packet's key says of its connection.

use super::packet::Look;
use super::tracker::{Judgement, Tracker, ct};
use super::tracking::own_tuple;
use super::wheel::Tick;
use weir_flow::Key;

/// Places of a key's words, as `weir_flow` lays them out, and the bits of `ct_state` and `ct_zone`.
pub(crate) mod words {
    pub(crate) const STATE: usize = 4;
    pub(crate) const STATE_SHIFT: u32 = 32;
    pub(crate) const ZONE: usize = 5;
    pub(crate) const MARK: usize = 16;
    pub(crate) const LABEL: [usize; 2] = [17, 18];
    pub(crate) const ADDRESSES: usize = 31;
    pub(crate) const PORTS: usize = 32;
    pub(crate) const ADDRESSES6: usize = 33;
    /// All that hold nothing but the original tuple and the label.
    pub(crate) const ALL: [usize; 8] = [17, 18, 31, 32, 33, 34, 35, 36];
}

impl Tracker {
    /// Writes what is known of a packet's connection into its key.
    #[inline(always)]
    pub fn write(&self, judgement: &Judgement, zone: u16, key: &mut Key) {
        const OURS: u64 = {
            let mut bits = 1 << words::MARK;
            let mut at = 0;
            while at < words::ALL.len() {
                bits |= 1 << words::ALL[at];
                at += 1;
            }
            bits
        };
        key.set_bits(
            words::STATE,
            u64::from(judgement.state) << words::STATE_SHIFT,
            0xff << words::STATE_SHIFT,
        );
        key.set_bits(words::ZONE, u64::from(if judgement.state == 0 { 0 } else { zone }), 0xffff);
        if key.present() & OURS != 0 {
            clear(key);
        }
        let Some(place) = judgement.place else { return };
        write_tuple(key, self.original(place));
        if let Some((mark, label)) = self.marks(place) {
            key.set_bits(words::MARK, u64::from(mark), 0xffff_ffff);
            key.set_word(words::LABEL[0], (label >> 64) as u64);
            key.set_word(words::LABEL[1], label as u64);
        }
    }

    /// Writes what is known of a packet whose connection is not kept: its own tuple, or what its connection
    /// would have of the one that announced it.
    pub fn write_without(&mut self, look: &Look, judgement: &Judgement, zone: u16, now: Tick, key: &mut Key) {
        let related = judgement.state & ct::REL != 0;
        let control = if related { self.control_of(look, now) } else { None };
        if control.is_some() {
            self.write(&Judgement { place: control, ..*judgement }, zone, key);
        } else if let Some(tuple) = own_tuple(look) {
            write_tuple(key, tuple.as_words());
        }
    }
}

/// Writes an original tuple: IPv4 addresses; protocol and ports; IPv6 addresses.
#[inline(always)]
fn write_tuple(key: &mut Key, (addresses, ports, v6): (u64, u64, Option<[u128; 2]>)) {
    key.set_word(words::PORTS, ports);
    match v6 {
        None => key.set_word(words::ADDRESSES, addresses),
        Some([source, destination]) => {
            let all = [source >> 64, source, destination >> 64, destination];
            for (at, word) in all.into_iter().enumerate() {
                key.set_word(words::ADDRESSES6 + at, word as u64);
            }
        }
    }
}

/// Takes out what an earlier tracking left.
#[cold]
fn clear(key: &mut Key) {
    for place in words::ALL {
        if key.present() & 1 << place != 0 {
            key.set_word(place, 0);
        }
    }
    if key.present() & 1 << words::MARK != 0 {
        key.set_bits(words::MARK, 0, 0xffff_ffff);
    }
}
