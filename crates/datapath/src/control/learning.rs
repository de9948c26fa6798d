//! What `NORMAL` learns: addresses by VLAN, with a bound, a share for each port, and an end for those that are silent.
//!
//! What: workers tell of packets whose source is not known where they came in (`actions/punts.rs` has the queue, which
//! ports share fairly). This table learns them, and makes of many at once the next tables (`model/addresses.rs`), with
//! what changed in the journal. An address that moves is at its new port at once; one that nobody saw for the ageing time
//! (IEEE 802.1Q, section 8.8.3) goes; in a full table the port with most addresses gives up the one of its own that
//! was silent longest. So a port where addresses are made up pushes out its own.
//!
//! How: when an address was seen is counted by its megaflows, and known here once workers have flushed their counters. So
//! each port's addresses stand in the order of what was known last; one whose turn comes is looked at, and goes to the
//! place that it has now. Who wants to be exact has counters flushed before.
//!
//! Cost: some microseconds an address that comes, moves or goes. Threads: the control thread.

use crate::control::datapath::Datapath;
use crate::model::addresses::{Addresses, Learned, Name, Sighting};
use crate::model::entries::Touched;
use crate::model::requests::ControlError;
use crate::worker::command::Command;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use weir_flow::Seed;
use weir_openflow::PortNo;
use weir_units::Nanos;

/// Sightings that are dealt with in one go. With a look each 10 ms, 51,200 a second.
const SIGHTINGS: usize = 512;

/// Addresses whose age is looked at in one go.
const LOOKS: usize = 1 << 14;

/// Counters are flushed for a full table this often, at most.
const FLUSHES: Nanos = Nanos(Nanos::PER_SECOND);

/// How addresses are learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearningConfig {
    /// An address of which no packet came for so long is forgotten.
    pub ageing: Duration,
    /// Addresses that are known at a time, at most.
    pub most: usize,
}

impl Default for LearningConfig {
    /// As Open vSwitch has it: 300 seconds, 8,192 addresses.
    fn default() -> Self {
        Self { ageing: Duration::from_secs(300), most: 8192 }
    }
}

/// An address that was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnedAddress {
    /// Its VLAN; 0 for packets without a tag.
    pub vlan: u16,
    /// The Ethernet address.
    pub address: [u8; 6],
    /// The port where its packets came in.
    pub port: PortNo,
    /// How long ago the last of them did.
    pub age: Duration,
}

/// What happened to addresses since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LearningCounts {
    /// Addresses that came.
    pub learned: u64,
    /// Addresses that went to another port.
    pub moved: u64,
    /// Addresses that were silent for too long.
    pub expired: u64,
    /// Addresses that made room for others.
    pub evicted: u64,
}

/// An address here.
#[derive(Debug)]
struct Place {
    learned: Arc<Learned>,
    /// When it was seen last, as far as its place among those of its port says.
    ranked: Nanos,
}

/// All that was learned.
#[derive(Debug)]
pub(crate) struct Learning {
    config: LearningConfig,
    addresses: Addresses,
    known: HashMap<Name, Place>,
    /// The addresses of each port, those that were silent longest first.
    ports: BTreeMap<PortNo, BTreeSet<(Nanos, Name)>>,
    counts: LearningCounts,
    /// Changes that no tables have yet.
    owed: Vec<Touched>,
    flushed: Nanos,
}

impl Learning {
    pub(super) fn new(seed: Seed) -> Self {
        Self {
            config: LearningConfig::default(),
            addresses: Addresses::new(seed),
            known: HashMap::new(),
            ports: BTreeMap::new(),
            counts: LearningCounts::default(),
            owed: Vec::new(),
            flushed: Nanos(0),
        }
    }

    /// An address was seen at a port.
    fn see(&mut self, Sighting { name, port }: Sighting, now: Nanos) {
        match self.known.get(&name).map(|place| place.learned.port) {
            Some(before) if before == port => return,
            Some(_) => {
                self.take_out(name);
                self.counts.moved += 1;
            }
            None => {
                while self.known.len() >= self.config.most && self.evict() {}
                self.counts.learned += 1;
            }
        }
        let learned = Arc::new(Learned { name, port, counts: Arc::default(), since: now });
        self.addresses.put(learned.clone());
        self.known.insert(name, Place { learned, ranked: now });
        self.ports.entry(port).or_default().insert((now, name));
        self.owed.extend(name.touched());
    }

    /// An address is not known any more.
    fn forget(&mut self, name: Name) {
        if self.take_out(name).is_some() {
            self.addresses.remove(name);
            self.owed.extend(name.touched());
        }
    }

    /// Takes it out of the lists here.
    fn take_out(&mut self, name: Name) -> Option<Place> {
        let place = self.known.remove(&name)?;
        let port = place.learned.port;
        if let Some(of_port) = self.ports.get_mut(&port) {
            of_port.remove(&(place.ranked, name));
            if of_port.is_empty() {
                self.ports.remove(&port);
            }
        }
        Some(place)
    }

    /// Has an address stand where it was seen last; when that was.
    fn rank(&mut self, name: Name) -> Nanos {
        let Some(place) = self.known.get_mut(&name) else { return Nanos(0) };
        let seen = place.learned.seen();
        if let Some(of_port) = self.ports.get_mut(&place.learned.port) {
            of_port.remove(&(place.ranked, name));
            of_port.insert((seen, name));
        }
        place.ranked = seen;
        seen
    }

    /// Makes room: of the port that has most, the address that was silent longest. Whether there was one.
    fn evict(&mut self) -> bool {
        let Some((port, count)) =
            self.ports.iter().map(|(port, all)| (*port, all.len())).max_by_key(|(_, count)| *count)
        else {
            return false;
        };
        // Each whose turn comes in vain moves back behind all that are looked at here.
        for _ in 0..=count {
            let Some(&(ranked, name)) = self.ports.get(&port).and_then(|all| all.first()) else {
                return false;
            };
            if self.rank(name) <= ranked {
                self.counts.evicted += 1;
                self.forget(name);
                return true;
            }
        }
        false
    }

    /// When the first address may have been silent for too long.
    fn due(&self) -> Option<Nanos> {
        let first = self.ports.values().filter_map(|all| all.first()).map(|(ranked, _)| *ranked).min()?;
        Some(Nanos(first.0 + self.ageing()))
    }

    fn ageing(&self) -> u64 {
        u64::try_from(self.config.ageing.as_nanos()).unwrap_or(u64::MAX / 2)
    }

    /// Forgets those that were silent for too long.
    fn expire(&mut self, now: Nanos) {
        let since = now.0.saturating_sub(self.ageing());
        let ports: Vec<PortNo> = self.ports.keys().copied().collect();
        let mut looks = LOOKS;
        for port in ports {
            while let Some(&(ranked, name)) = self.ports.get(&port).and_then(|all| all.first())
                && ranked.0 <= since
                && looks > 0
            {
                looks -= 1;
                if self.rank(name).0 <= since {
                    self.counts.expired += 1;
                    self.forget(name);
                }
            }
        }
    }

    /// Forgets those that are meant; how many.
    fn forget_where(&mut self, is_meant: impl Fn(&Learned) -> bool) -> usize {
        let all = self.known.values().filter(|place| is_meant(&place.learned));
        let names: Vec<Name> = all.map(|place| place.learned.name).collect();
        names.iter().for_each(|name| self.forget(*name));
        names.len()
    }

    fn configure(&mut self, config: LearningConfig) {
        self.config = config;
        while self.known.len() > config.most && self.evict() {}
    }
}

impl Datapath {
    /// Whether packets may be forwarded by what is learned: somebody is to call [`Datapath::learn`] often, so that
    /// addresses are learned soon.
    pub fn learns(&self) -> bool {
        self.pipeline.learns
    }

    /// Says for how long addresses are known, and how many.
    ///
    /// # Errors
    /// A worker that does not answer.
    pub fn set_learning(&mut self, config: LearningConfig) -> Result<(), ControlError> {
        self.learning.configure(config);
        self.publish_addresses()
    }

    /// Learns addresses of packets that came since the last call, as many as one is to deal with at once; the rest
    /// stays for the next call, or for [`Datapath::tick`]. Returns how many packets told of one.
    ///
    /// # Errors
    /// A worker that does not answer; what was learned takes effect with the next call.
    pub fn learn(&mut self) -> Result<usize, ControlError> {
        let seen: Vec<Sighting> = self.sightings.take(SIGHTINGS).collect();
        let now = self.now();
        let is_full = self.learning.known.len() + seen.len() > self.learning.config.most;
        if is_full && now.0.saturating_sub(self.learning.flushed.0) >= FLUSHES.0 {
            self.learning.flushed = now;
            self.ask(Command::Sync)?;
        }
        for sighting in &seen {
            // A port that has gone meanwhile has no addresses.
            if self.pipeline.ports.contains_key(&sighting.port) {
                self.learning.see(*sighting, now);
            }
        }
        self.publish_addresses()?;
        Ok(seen.len())
    }

    /// Forgets addresses that were silent for too long.
    pub(super) fn age_addresses(&mut self) -> Result<(), ControlError> {
        if self.learning.due().is_none_or(|due| due > self.now()) {
            return Ok(());
        }
        self.ask(Command::Sync)?;
        self.learning.expire(self.now());
        self.publish_addresses()
    }

    /// Addresses of ports that are not there go with them.
    pub(super) fn forget_closed_ports(&mut self) -> Addresses {
        let ports = self.ports.infos();
        self.learning.forget_where(|learned| !ports.contains_key(&learned.port));
        self.learning.addresses.clone()
    }

    /// What was learned, by VLAN and address, as old as it is now.
    ///
    /// # Errors
    /// A worker that does not answer.
    pub fn learned(&mut self) -> Result<Vec<LearnedAddress>, ControlError> {
        self.ask(Command::Sync)?;
        let now = self.now();
        let mut all: Vec<&Arc<Learned>> = self.learning.known.values().map(|place| &place.learned).collect();
        all.sort_by_key(|learned| learned.name);
        let one = |learned: &Arc<Learned>| {
            let [_, _, address @ ..] = learned.name.address.to_be_bytes();
            let age = Duration::from_nanos(now.0.saturating_sub(learned.seen().0));
            LearnedAddress { vlan: learned.name.vlan, address, port: learned.port, age }
        };
        Ok(all.into_iter().map(one).collect())
    }

    /// What happened to addresses since the start, and how they are learned.
    pub fn learning(&self) -> (LearningConfig, LearningCounts) {
        (self.learning.config, self.learning.counts)
    }

    /// Forgets addresses: those of a VLAN, of a port, or all. Returns how many.
    ///
    /// # Errors
    /// A worker that does not answer; they are forgotten with the next call.
    pub fn forget_learned(&mut self, vlan: Option<u16>, port: Option<PortNo>) -> Result<usize, ControlError> {
        let is_meant = |learned: &Learned| {
            vlan.is_none_or(|vlan| vlan == learned.name.vlan) && port.is_none_or(|port| port == learned.port)
        };
        let forgotten = self.learning.forget_where(is_meant);
        self.publish_addresses()?;
        Ok(forgotten)
    }

    /// Hands workers what changed.
    fn publish_addresses(&mut self) -> Result<(), ControlError> {
        if self.learning.owed.is_empty() {
            return Ok(());
        }
        let mut next = (*self.pipeline).clone();
        next.addresses = self.learning.addresses.clone();
        next.advance(self.learning.owed.clone());
        self.publish(next)?;
        self.learning.owed.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = Nanos::PER_SECOND;

    fn sighting(vlan: u16, address: u64, port: u32) -> Sighting {
        Sighting { name: Name { vlan, address }, port: PortNo(port) }
    }

    fn learning(most: usize) -> Learning {
        let mut learning = Learning::new(Seed::new(1));
        learning.configure(LearningConfig { most, ..LearningConfig::default() });
        learning
    }

    fn port(learning: &Learning, vlan: u16, address: u64) -> Option<u32> {
        learning.addresses.find(Name { vlan, address }).map(|learned| learned.port.0)
    }

    /// Both lists, and what lookups use, are of the same addresses.
    fn check(learning: &Learning) {
        let of_ports: usize = learning.ports.values().map(BTreeSet::len).sum();
        assert_eq!((learning.known.len(), of_ports), (learning.addresses.len(), learning.addresses.len()));
        for (name, place) in &learning.known {
            assert!(learning.ports[&place.learned.port].contains(&(place.ranked, *name)));
            assert!(Arc::ptr_eq(learning.addresses.find(*name).unwrap(), &place.learned));
        }
        assert!(learning.ports.values().all(|of_port| !of_port.is_empty()));
    }

    #[test]
    fn an_address_that_moves_is_at_its_new_port_and_its_megaflows_are_concerned() {
        let mut learning = learning(10);
        learning.see(sighting(0, 7, 1), Nanos(1));
        assert_eq!((port(&learning, 0, 7), learning.owed.len()), (Some(1), 2));
        learning.owed.clear();
        learning.see(sighting(0, 7, 1), Nanos(2));
        assert!(learning.owed.is_empty(), "that was known");
        learning.see(sighting(0, 7, 2), Nanos(3));
        assert_eq!((port(&learning, 0, 7), learning.owed.len()), (Some(2), 2));
        learning.see(sighting(9, 7, 3), Nanos(3));
        assert_eq!((port(&learning, 0, 7), port(&learning, 9, 7)), (Some(2), Some(3)));
        assert_eq!(learning.counts, LearningCounts { learned: 2, moved: 1, expired: 0, evicted: 0 });
        check(&learning);
    }

    #[test]
    fn a_port_where_addresses_are_made_up_pushes_out_its_own() {
        let mut learning = learning(1000);
        for number in 0..100 {
            learning.see(sighting(0, number, 1), Nanos(number));
        }
        for number in 0..20_000 {
            learning.see(sighting(0, 0x10_0000 + number, 2), Nanos(1000 + number));
        }
        assert!((0..100).all(|number| port(&learning, 0, number) == Some(1)));
        assert_eq!((learning.known.len(), learning.counts.evicted), (1000, 19_100));
        assert_eq!(port(&learning, 0, 0x10_0000 + 19_100), Some(2), "the newest stay");
        assert_eq!(port(&learning, 0, 0x10_0000 + 19_099), None);
        learning.see(sighting(0, 100, 1), Nanos(30_000));
        assert_eq!(port(&learning, 0, 100), Some(1), "there is room for who has few");
        check(&learning);
    }

    #[test]
    fn of_a_port_the_address_goes_that_was_silent_longest_and_not_the_oldest() {
        let mut learning = learning(3);
        for number in 0..3 {
            learning.see(sighting(0, number, 1), Nanos(number));
        }
        learning.known[&Name { vlan: 0, address: 0 }].learned.counts.add(1, 60, Nanos(50));
        learning.see(sighting(0, 3, 1), Nanos(60));
        assert_eq!([0, 1, 2, 3].map(|number| port(&learning, 0, number)), [Some(1), None, Some(1), Some(1)]);
        check(&learning);
    }

    #[test]
    fn an_address_is_forgotten_once_it_was_silent_for_the_ageing_time() {
        let mut learning = learning(10);
        learning.see(sighting(0, 1, 1), Nanos(SECOND));
        learning.see(sighting(0, 2, 2), Nanos(SECOND));
        assert_eq!(learning.due(), Some(Nanos(301 * SECOND)));
        learning.known[&Name { vlan: 0, address: 2 }].learned.counts.add(1, 60, Nanos(200 * SECOND));
        learning.expire(Nanos(300 * SECOND));
        assert_eq!(learning.known.len(), 2);
        learning.owed.clear();
        learning.expire(Nanos(301 * SECOND));
        assert_eq!((port(&learning, 0, 1), port(&learning, 0, 2)), (None, Some(2)));
        assert_eq!((learning.owed.len(), learning.due()), (2, Some(Nanos(500 * SECOND))));
        learning.expire(Nanos(500 * SECOND));
        assert_eq!((learning.known.len(), learning.counts.expired, learning.due()), (0, 2, None));
        check(&learning);
    }

    #[test]
    fn less_room_makes_some_go_and_what_is_meant_is_forgotten() {
        let mut learning = learning(100);
        for number in 0..60 {
            learning.see(sighting(number as u16 % 3, number, 1 + number as u32 % 2), Nanos(number));
        }
        assert_eq!(learning.forget_where(|learned| learned.name.vlan == 1), 20);
        learning.configure(LearningConfig { most: 10, ..LearningConfig::default() });
        assert_eq!((learning.known.len(), learning.counts.evicted), (10, 30));
        assert!(learning.ports.values().all(|of_port| of_port.len() == 5), "a share each");
        check(&learning);
        assert_eq!(learning.forget_where(|_| true), 10);
        check(&learning);
    }
}
