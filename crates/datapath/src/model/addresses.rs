//! Where addresses are, as `NORMAL` forwards by them: what sources of packets told, by VLAN.
//!
//! What: a snapshot, a part of [`Pipeline`](crate::model::pipeline::Pipeline). Translations look addresses up in it, and
//! no worker writes it. A packet whose source is not there, or elsewhere, is a [`Sighting`], which the control thread
//! learns from (`control/learning.rs`); the tables that follow have the address.
//!
//! Why so: a megaflow that `NORMAL` made depends on two addresses, its source's and its destination's. A change of an
//! address is noted in the journal like a change of a flow entry, of a table in which no entry can be ([`TABLE`]) and
//! which all such megaflows have visited. So those of other addresses stay, several workers share what was learned
//! without a lock, and nothing is done per packet. When an address was seen last is counted by the megaflows of its
//! packets, and flushed to [`Learned`] with their other counters.
//!
//! Cost: a lookup is one hash probe; a change copies some pointers. Threads: as `Arc`.

use crate::model::counts::Counts;
use crate::model::entries::Touched;
use std::sync::Arc;
use weir_classifier::Table;
use weir_flow::{Field, Key, Match, Seed};
use weir_openflow::{PortNo, TableId};
use weir_units::Nanos;

/// What the journal names where addresses change. No flow entry is in a table of this number.
pub(crate) const TABLE: TableId = TableId(255);

const _: () = assert!(TABLE.0 > TableId::LAST.0, "it is no table of flow entries");

/// Bits of a tag that are its VLAN; a packet without a tag has none set.
const VLAN: u128 = 0x0fff;

/// An address in a VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name {
    /// 0 for packets without a tag.
    pub(crate) vlan: u16,
    /// 48 bits.
    pub(crate) address: u64,
}

impl Name {
    /// As a match of destinations.
    fn to(self) -> Match {
        self.of(Field::EthDst)
    }

    fn of(self, field: Field) -> Match {
        let mut matching = Match::any();
        matching.demand(field, self.address.into(), u128::MAX);
        matching.demand(Field::VlanTci, self.vlan.into(), VLAN);
        matching
    }

    /// What a change of it may concern: packets that it sends, and those that are sent to it.
    pub(crate) fn touched(self) -> [Touched; 2] {
        [Field::EthDst, Field::EthSrc].map(|field| Touched::Packets(TABLE, self.of(field)))
    }
}

/// Where an address is.
#[derive(Debug)]
pub(crate) struct Learned {
    pub(crate) name: Name,
    pub(crate) port: PortNo,
    /// Packets that it sent, and when the last came: of megaflows, with their other counters.
    pub(crate) counts: Arc<Counts>,
    /// When it was learned, or moved.
    pub(crate) since: Nanos,
}

impl Learned {
    /// When it was last seen, as far as counters were flushed.
    pub(crate) fn seen(&self) -> Nanos {
        self.counts.used().max(self.since)
    }
}

/// A packet with a source that is not known where it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sighting {
    pub(crate) name: Name,
    pub(crate) port: PortNo,
}

/// All that were learned.
#[derive(Clone, Debug)]
pub(crate) struct Addresses(Table<Arc<Learned>>);

impl Addresses {
    /// None yet.
    pub(crate) fn new(seed: Seed) -> Self {
        Self(Table::new(seed))
    }

    /// Where an address is, if that was learned.
    pub(crate) fn find(&self, name: Name) -> Option<&Arc<Learned>> {
        let mut key = Key::new();
        Field::EthDst.set(&mut key, name.address.into());
        Field::VlanTci.set(&mut key, name.vlan.into());
        self.0.find(&key).map(|rule| &rule.value)
    }

    /// It is there from now on.
    pub(crate) fn put(&mut self, learned: Arc<Learned>) {
        self.0.insert(learned.name.to(), 0, learned);
    }

    /// Nobody knows any more.
    pub(crate) fn remove(&mut self, name: Name) {
        self.0.remove(&name.to(), 0);
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(vlan: u16, address: u64, port: u32) -> Arc<Learned> {
        let name = Name { vlan, address };
        Arc::new(Learned { name, port: PortNo(port), counts: Arc::default(), since: Nanos(7) })
    }

    #[test]
    fn an_address_is_found_in_its_own_vlan_where_it_was_put_last() {
        let mut all = Addresses::new(Seed::new(1));
        all.put(learned(0, 0x0200_0000_0001, 1));
        let before = all.clone();
        all.put(learned(5, 0x0200_0000_0001, 2));
        all.put(learned(0, 0x0200_0000_0001, 3));
        let port =
            |all: &Addresses, vlan, address| all.find(Name { vlan, address }).map(|found| found.port.0);
        assert_eq!(port(&all, 0, 0x0200_0000_0001), Some(3));
        assert_eq!(port(&all, 5, 0x0200_0000_0001), Some(2));
        assert_eq!(port(&all, 4, 0x0200_0000_0001), None);
        assert_eq!(port(&before, 0, 0x0200_0000_0001), Some(1), "older tables are what they were");
        all.remove(Name { vlan: 0, address: 0x0200_0000_0001 });
        assert_eq!((all.len(), port(&all, 0, 0x0200_0000_0001)), (1, None));
    }

    #[test]
    fn a_change_concerns_packets_to_an_address_and_from_it_in_its_vlan() {
        let name = Name { vlan: 5, address: 0x0200_0000_0001 };
        let [to, from] = name.touched();
        let concerns = |touched: &Touched, field: Field, tci: u128| {
            let Touched::Packets(TABLE, matching) = touched else { return false };
            let mut key = Key::new();
            field.set(&mut key, name.address.into());
            Field::VlanTci.set(&mut key, tci);
            matching.matches(&key)
        };
        assert!(concerns(&to, Field::EthDst, 0x1005) && concerns(&from, Field::EthSrc, 0xf005));
        assert!(!concerns(&to, Field::EthSrc, 0x1005) && !concerns(&to, Field::EthDst, 0x1006));
        assert_eq!(
            Name { vlan: 0, ..name }.touched().map(|one| concerns(&one, Field::EthDst, 0)),
            [true, false]
        );
    }
}
