//! `conntrack`: lets packets pass that belong to a connection, and tells the tables what it knows.
//!
//! This is SoftFlow's connection tracker (the paper's section 4.1). The argument's bits:
//!
//! | bits | meaning |
//! |---|---|
//! | 0 | the packet may open a connection (an ACL allowed it); otherwise only what belongs to one passes |
//! | 16 to 31 | zone: connections of different zones know nothing of each other |
//!
//! It writes `sf_metadata` 1 for a packet that is allowed and 0 for one that the tables should drop, and
//! lets its verdict be coalesced. For tables written like OVS's, it also fills `ct_state`, `ct_zone`,
//! `ct_mark`, `ct_label` and the original tuple. What it makes of a packet:
//!
//! - TCP, UDP, ICMP requests and replies, SCTP and other protocols are tracked (`tcp.rs` has the rules
//!   for TCP); ICMP errors are related to the connection of the packet that they quote.
//! - ARP, neighbour discovery and multicast listener discovery always pass untracked: the network does
//!   not work without. Anything else that is not IP passes as the argument's bit 0 says.
//! - Later fragments follow their first one (`fragments.rs`).
//! - What FTP and TFTP announce is related to their connection, if `ct` says so (`helper/`).
//!
//! Cost: an established IPv4 packet touches one line of the index and one of the connection, both
//! fetched ahead over the burst; `benches/conntrack.rs` has it in cycles. Nothing is locked, and nothing
//! allocated once the instance is built: its tables are reserved for their largest size and filled as
//! connections come. Threads: one instance a worker; both directions of a connection must come to the
//! same one.

mod connection;
mod dump;
mod entry;
mod fragments;
mod helper;
mod index;
mod lifetime;
mod memory;
mod nat;
mod owners;
mod pace;
mod packet;
mod pieces;
mod quick;
mod reason;
mod rewrite;
mod segment;
mod settings;
mod shares;
mod tcp;
mod tracker;
mod tracking;
mod tuple;
mod wheel;

pub use connection::{Connection, TenantShare};
pub use entry::{Place, State};
pub use helper::Helper;
pub use owners::Owners;
pub use packet::{Look, Packet};
pub use reason::{Counters, Event, Reason};
pub use settings::{Checksums, EarlyFragments, Settings, Timeouts};
pub use shares::Tenant;
pub use tracker::{Judgement, Tracker, ct};
pub use tracking::Tracking;
pub use tuple::Tuple;
pub use wheel::Tick;

use crate::{
    Burst, ConfigError, Group, GroupConfig, Memo, Pairs, Registration, Service, Share, Slot, Splice, Verdict,
};
use arrayvec::ArrayVec;
use lifetime::LOOKS_PAID;
use pace::{Pace, Step};
use serde_json::Value;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tracking::{Attended, own_tuple};
use weir_flow::{Field, Key, Seed};
use weir_packet::{BURST, DropReason};
use weir_units::Nanos;

/// Argument: the packet may open a connection.
const COMMIT: u32 = 1;

/// Argument: bits to the right of the zone.
const ZONE_SHIFT: u32 = 16;

/// Seconds for which a pair of addresses without a connection stays with its worker at least.
const LEAST_IDLE: u32 = 60;

/// Zones and ports whose shares are told, of each worker.
const SHARES: usize = 16;

/// Packets looked at before the first of them is judged.
const AHEAD: usize = 32;

/// What the tracker says of a packet.
pub const STATE: [Field; 11] = [
    Field::CtState,
    Field::CtZone,
    Field::CtMark,
    Field::CtLabel,
    Field::CtNwSrc,
    Field::CtNwDst,
    Field::CtNwProto,
    Field::CtTpSrc,
    Field::CtTpDst,
    Field::CtIpv6Src,
    Field::CtIpv6Dst,
];

/// The kind's word in the registry.
pub(crate) const CONNTRACK: Registration = Registration {
    kind: "conntrack",
    about: "tracks connections: allows what belongs to one, and what the argument lets open one",
    rewrites: &STATE,
    coalesces: true,
    by_flow: true,
    schema: || schemars::schema_for!(Settings).into(),
    build,
};

fn build(config: &GroupConfig<'_>) -> Result<Arc<dyn Group>, ConfigError> {
    let settings = Settings::read(config.settings)
        .map_err(|reason| ConfigError { service: config.name.to_owned(), reason })?;
    let seed = Seed::new(config.seed);
    let owners = (config.workers > 1).then(|| Arc::new(Owners::new(seed)));
    let pairs = (config.workers > 1).then(|| Arc::new(Pairs::new(config.workers, seed)));
    Ok(Arc::new(Conntrack { settings, seed, owners, pairs, instances: AtomicU64::new(0) }))
}

/// A configured tracker. Its instances share nothing but what they were told, and who has which translated
/// connection.
#[derive(Debug)]
struct Conntrack {
    settings: Settings,
    seed: Seed,
    owners: Option<Arc<Owners>>,
    pairs: Option<Arc<Pairs>>,
    /// Instances that were built: each draws numbers of its own.
    instances: AtomicU64,
}

impl Group for Conntrack {
    fn instance(&self, worker: usize) -> Box<dyn Service> {
        let mut tracker = Tracker::new(self.settings.clone(), self.seed, Tick(0));
        tracker.draw_from(self.instances.fetch_add(1, Ordering::Relaxed));
        if let Some(owners) = &self.owners {
            owners.clear(worker);
            tracker.share(owners.clone(), worker);
        }
        if let Some(pairs) = &self.pairs {
            pairs.clear(worker);
            tracker.hold_pairs(pairs.clone(), worker);
        }
        let looks = [Look::default(); AHEAD];
        let (splices, now, pace) = (ArrayVec::new(), Tick(0), Pace::default());
        Box::new(Instance { tracker, worker, looks, splices, now, pace })
    }

    fn owners(&self) -> Option<Arc<Owners>> {
        self.owners.clone()
    }

    fn pairs(&self) -> Option<Arc<Pairs>> {
        self.pairs.clone()
    }

    fn idle_seconds(&self) -> u32 {
        // Fragmented packets; connections hold their pairs.
        self.settings.timeouts.fragment.max(LEAST_IDLE)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A worker's tracker.
#[derive(Debug)]
struct Instance {
    tracker: Tracker,
    worker: usize,
    looks: [Look; AHEAD],
    /// What helpers have replaced in packets of the last burst.
    splices: ArrayVec<Splice, BURST>,
    /// The time of the last burst or tick.
    now: Tick,
    pace: Pace,
}

fn packet<'s>(slot: &'s Slot<'_>) -> Packet<'s> {
    Packet { frame: slot.frame, layout: slot.layout, key: slot.key }
}

/// The zone that a packet's connection is in.
#[inline]
fn zone(slot: &Slot<'_>) -> u16 {
    slot.tracking.map_or((slot.argument >> ZONE_SHIFT) as u16, |asked| asked.zone)
}

impl Instance {
    /// Has what the packets that come next need fetched, and looks at those whose connection nobody has a note of.
    /// Returns how many.
    fn look_ahead(&mut self, slots: &[Slot<'_>]) -> usize {
        let Self { tracker, looks, .. } = self;
        let (mut count, mut blank) = (0, false);
        for (look, slot) in looks.iter_mut().zip(slots) {
            match slot.memo.number() {
                Some(at) => tracker.expect_at(at),
                None => {
                    blank = true;
                    packet(slot).look_into(look, zone(slot), tracker.seed());
                    tracker.expect(look);
                }
            }
            count += 1;
        }
        if blank {
            let unknown = looks.iter_mut().zip(slots).filter(|(_, slot)| slot.memo.number().is_none());
            unknown.for_each(|(look, _)| tracker.approach(look));
        }
        count
    }

    /// Looks at a packet whose connection somebody has a note of.
    fn look_at_noted(&mut self, slot: &Slot<'_>, at: usize) {
        if let Some(place) = slot.memo.number() {
            let look = &mut self.looks[at];
            packet(slot).look_into(look, zone(slot), self.tracker.seed());
            look.at = place;
        }
    }

    /// Judges the packet at this place.
    #[inline(always)]
    fn judge(&mut self, slot: &mut Slot<'_>, at: usize) -> Judgement {
        if let Some(place) = slot.memo.number()
            && let Some(judgement) = self.tracker.quick_at(&packet(slot), place, zone(slot), self.now)
        {
            return judgement;
        }
        self.look_at_noted(slot, at);
        let (look, commit) = (&self.looks[at], slot.argument & COMMIT != 0);
        let judgement = self.tracker.judge(&packet(slot), look, commit, self.now);
        Self::note(&self.tracker, look, &judgement, &mut slot.memo);
        judgement
    }

    /// Notes which connection a packet is of, where its megaflow can hold that and it is not there yet.
    #[inline(always)]
    fn note(tracker: &Tracker, look: &Look, judgement: &Judgement, memo: &mut Memo) {
        let noted = judgement.place.is_some_and(|place| *memo == Memo::of(place.at));
        if !noted && *memo != Memo::NOWHERE {
            *memo = tracker.noted(look, judgement, *memo);
        }
    }

    /// Does what OpenFlow's `ct` asks for the packet that was looked at at this place.
    fn attend(&mut self, slot: &mut Slot<'_>, asked: &Tracking, at: usize) {
        self.look_at_noted(slot, at);
        let look = &self.looks[at];
        let Attended { judgement, turn, drop, helped } =
            self.tracker.attend(&packet(slot), look, asked, self.now);
        Self::note(&self.tracker, look, &judgement, &mut slot.memo);
        if let Some(reason) = drop {
            slot.verdict = Verdict::Drop(reason.drop_reason());
            return;
        }
        if helped {
            self.help(slot, &judgement, turn.is_some());
        }
        if let Some(turn) = turn {
            turn.apply(slot.frame, slot.layout, slot.key);
        }
        if asked.forgets {
            write(&self.tracker, &Judgement::UNTRACKED, 0, slot.key);
            return;
        }
        write(&self.tracker, &judgement, asked.zone, slot.key);
        if judgement.state & ct::NEW != 0 && judgement.place.is_none() {
            self.write_without(slot.key, at, &judgement, asked.zone);
        }
    }

    /// Writes what is known of a packet whose connection is not kept: its own tuple, or what its connection
    /// would have of the one that announced it.
    fn write_without(&mut self, key: &mut Key, at: usize, judgement: &Judgement, zone: u16) {
        let look = &self.looks[at];
        let related = judgement.state & ct::REL != 0;
        let control = if related { self.tracker.control_of(look, self.now) } else { None };
        if control.is_some() {
            write(&self.tracker, &Judgement { place: control, ..*judgement }, zone, key);
        } else if let Some(tuple) = own_tuple(look) {
            write_tuple(key, tuple.as_words());
        }
    }

    /// Has the connection's helper read a packet.
    #[cold]
    fn help(&mut self, slot: &mut Slot<'_>, judgement: &Judgement, turned: bool) {
        let Some(place) = judgement.place else { return };
        let side = usize::from(judgement.state & ct::RPL != 0);
        let help = self.tracker.help(&packet(slot), (place, side), turned, self.now);
        help.renumber(slot.frame, slot.layout);
        if let Some(splice) = help.splice {
            slot.splice = Some(self.splices.len() as u8);
            if self.splices.try_push(splice).is_err() {
                slot.verdict = Verdict::Drop(DropReason::NoRoom);
            }
        }
    }
}

impl Instance {
    /// Ends what is over: for what this burst made, and when it is time.
    #[inline]
    fn sweep(&mut self, now: Nanos, made: u64) {
        for _ in 0..made {
            self.tracker.sweep_some(self.now, LOOKS_PAID);
        }
        if self.pace.is_due(now) {
            self.sweep_a_step();
        }
    }

    #[cold]
    fn sweep_a_step(&mut self) {
        let step = Step::begin();
        self.tracker.sweep(self.now, || step.has_time());
    }
}

impl Service for Instance {
    fn process(&mut self, burst: &mut Burst<'_, '_>) {
        self.now = Tick::of(burst.now);
        self.splices.clear();
        let made = self.tracker.counters().of(Event::Created);
        while burst.taken() < burst.len() {
            let count = self.look_ahead(&burst.peek()[burst.taken()..]);
            for at in 0..count {
                let Some(slot) = burst.next() else { return };
                slot.coalesce = true;
                if let Some(asked) = slot.tracking {
                    self.attend(slot, asked, at);
                    continue;
                }
                let judgement = self.judge(slot, at);
                slot.metadata = u32::from(judgement.refused.is_none());
                write(&self.tracker, &judgement, zone(slot), slot.key);
            }
        }
        self.sweep(burst.now, self.tracker.counters().of(Event::Created) - made);
    }

    fn splice(&self, number: u8) -> Option<&Splice> {
        self.splices.get(usize::from(number))
    }

    fn tick(&mut self, now: Nanos) {
        self.now = Tick::of(now);
        self.sweep_a_step();
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let gauges = [
            ("connections", u64::from(self.tracker.connections())),
            ("half-open", u64::from(self.tracker.half_open())),
            ("nat-tried", self.tracker.tried()),
        ];
        gauges.into_iter().chain(self.tracker.counters().all()).collect()
    }

    fn shares(&self) -> Vec<Share> {
        self.tracker.shares().into_iter().take(SHARES).map(Share::from).collect()
    }

    fn command(&mut self, command: &str, argument: &Value) -> Result<Value, String> {
        dump::command((&mut self.tracker, self.worker), self.now, command, argument)
    }

    fn memory(&self) -> usize {
        self.tracker.memory()
    }
}

/// Places of a key's words, as `weir_flow` lays them out, and the bits of `ct_state` and `ct_zone`.
mod words {
    pub(super) const STATE: usize = 4;
    pub(super) const STATE_SHIFT: u32 = 32;
    pub(super) const ZONE: usize = 5;
    pub(super) const MARK: usize = 16;
    pub(super) const LABEL: [usize; 2] = [17, 18];
    pub(super) const ADDRESSES: usize = 31;
    pub(super) const PORTS: usize = 32;
    pub(super) const ADDRESSES6: usize = 33;
    /// All that hold nothing but the original tuple and the label.
    pub(super) const ALL: [usize; 8] = [17, 18, 31, 32, 33, 34, 35, 36];
}

/// Writes what is known of a packet's connection into its key.
#[inline(always)]
pub(crate) fn write(tracker: &Tracker, judgement: &Judgement, zone: u16, key: &mut Key) {
    const OURS: u64 = {
        let mut bits = 1 << words::MARK;
        let mut at = 0;
        while at < words::ALL.len() {
            bits |= 1 << words::ALL[at];
            at += 1;
        }
        bits
    };
    key.set_bits(words::STATE, u64::from(judgement.state) << words::STATE_SHIFT, 0xff << words::STATE_SHIFT);
    key.set_bits(words::ZONE, u64::from(if judgement.state == 0 { 0 } else { zone }), 0xffff);
    if key.present() & OURS != 0 {
        clear(key);
    }
    let Some(place) = judgement.place else { return };
    write_tuple(key, tracker.original(place));
    if let Some((mark, label)) = tracker.marks(place) {
        key.set_bits(words::MARK, u64::from(mark), 0xffff_ffff);
        key.set_word(words::LABEL[0], (label >> 64) as u64);
        key.set_word(words::LABEL[1], label as u64);
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
