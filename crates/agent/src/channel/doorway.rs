//! Who is let in: how many connections, and whose end makes room for others.
//!
//! TCP, TLS and Unix sockets have slots of their own, so that a flood at one leaves the others open. Where all
//! slots of a kind are taken, a connection that has not said hello yet makes room: first one that said nothing
//! at all, of the address that has most of them, the oldest of these. Where all have said hello, an address that
//! has more than half of the slots gives one to an address that has none.
//!
//! Why so: without certificates nobody can be told from anybody else, but a tool says hello as soon as it is
//! connected, and an attacker's silent connections then only push out each other.

use super::listener::Origin;
use crate::ConnectionId;
use std::collections::BTreeMap;

/// What slots are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Tcp,
    Tls,
    Unix,
}

/// What is looked at of a connection that was accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guest {
    /// Connections are numbered as they come.
    pub(super) connection: ConnectionId,
    pub(super) kind: Kind,
    pub(super) from: Origin,
    /// Whether it said hello.
    pub(super) greeted: bool,
    /// Whether it said anything.
    pub(super) heard: bool,
}

/// What becomes of somebody who wants in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Enter,
    /// It comes in when this one has gone, for this reason.
    InPlaceOf(ConnectionId, &'static str),
    Refused,
}

/// Whether another connection of this kind and origin comes in where there are `most` slots.
pub(super) fn admit(guests: &[Guest], kind: Kind, from: Origin, most: usize) -> Verdict {
    let same: Vec<&Guest> = guests.iter().filter(|guest| guest.kind == kind).collect();
    if same.len() < most {
        return Verdict::Enter;
    }
    let mut silent: BTreeMap<Origin, usize> = BTreeMap::new();
    let mut all: BTreeMap<Origin, usize> = BTreeMap::new();
    for guest in &same {
        *all.entry(guest.from).or_default() += 1;
        *silent.entry(guest.from).or_default() += usize::from(!guest.greeted);
    }
    let waiting = same.iter().filter(|guest| !guest.greeted);
    let first = waiting.max_by_key(|guest| {
        (!guest.heard, silent.get(&guest.from).copied(), std::cmp::Reverse(guest.connection))
    });
    if let Some(guest) = first {
        return Verdict::InPlaceOf(guest.connection, "it said no hello before all slots were wanted");
    }
    let crowd = all.iter().find(|(_, count)| **count > most / 2).map(|(origin, _)| *origin);
    let of_crowd = same.iter().filter(|guest| Some(guest.from) == crowd).map(|guest| guest.connection);
    match of_crowd.max() {
        Some(last) if !all.contains_key(&from) => {
            Verdict::InPlaceOf(last, "its address had more than half of the slots, and another had none")
        }
        _ => Verdict::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> Origin {
        Origin::Address([192, 0, 2, last].into())
    }

    fn guest(number: u64, last: u8, greeted: bool, heard: bool) -> Guest {
        let connection = ConnectionId(number);
        Guest { connection, kind: Kind::Tcp, from: from(last), greeted, heard }
    }

    #[test]
    fn kinds_of_sockets_do_not_share_slots() {
        let guests: Vec<Guest> = (1..=4).map(|number| guest(number, 1, true, true)).collect();
        assert_eq!(admit(&guests, Kind::Tcp, from(1), 4), Verdict::Refused);
        assert_eq!(admit(&guests, Kind::Tcp, from(1), 5), Verdict::Enter);
        for kind in [Kind::Tls, Kind::Unix] {
            assert_eq!(admit(&guests, kind, from(1), 4), Verdict::Enter);
        }
    }

    #[test]
    fn the_oldest_silent_one_of_the_address_that_has_most_makes_room() {
        let gone = |guests: &[Guest]| match admit(guests, Kind::Tcp, from(9), guests.len()) {
            Verdict::InPlaceOf(connection, _) => connection.0,
            other => panic!("{other:?}"),
        };
        let crowd = [guest(1, 1, false, false), guest(2, 2, false, false), guest(3, 2, false, false)];
        assert_eq!(gone(&crowd), 2, "an address with one silent connection keeps it");
        let begun = [guest(1, 1, false, true), guest(2, 1, false, false), guest(3, 1, true, true)];
        assert_eq!(gone(&begun), 2, "one that has begun its hello stays longer");
        assert_eq!(gone(&[begun[0], begun[2]]), 1);
    }

    #[test]
    fn an_address_with_more_than_half_gives_one_slot_to_an_address_without() {
        let open = |number, last| guest(number, last, true, true);
        let crowd = [open(1, 1), open(2, 1), open(3, 1), open(4, 2)];
        let words = "its address had more than half of the slots, and another had none";
        let asked = |last| admit(&crowd, Kind::Tcp, from(last), 4);
        assert_eq!(asked(3), Verdict::InPlaceOf(ConnectionId(3), words));
        assert_eq!((asked(1), asked(2)), (Verdict::Refused, Verdict::Refused));
        let even = [open(1, 1), open(2, 1), open(3, 2), open(4, 2)];
        assert_eq!(admit(&even, Kind::Tcp, from(3), 4), Verdict::Refused);
    }
}
