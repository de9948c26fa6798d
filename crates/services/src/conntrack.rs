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
//! `ct_mark`, `ct_label` and the original tuple. `crates/conntrack` says what it makes of a
//! packet.
//!
//! Cost and threads: the tracker's; `benches/conntrack.rs` has it in cycles.

use crate::pace::{Pace, Step};
use crate::{
    Burst, ConfigError, Group, GroupConfig, Memo, OwnerTable, Registration, Service, Share, Slot, Verdict,
    one_number,
};
use arrayvec::ArrayVec;
use serde_json::Value;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_conntrack::{
    Attended, Event, Judgement, LOOKS_PAID, Look, Owners, Packet, Settings, TenantShare, Tick, Tracker,
    command, ct,
};
use weir_flow::{Key, Layout, Pairs, Seed, Splice};
use weir_openflow::Tracking;
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

/// The kind's word in the registry.
pub(crate) const CONNTRACK: Registration = Registration {
    kind: "conntrack",
    about: "tracks connections: allows what belongs to one, and what the argument lets open one",
    rewrites: &Tracking::FIELDS,
    coalesces: true,
    by_flow: true,
    members: &[],
    arguments: one_number,
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

    fn owners(&self) -> Option<Arc<dyn OwnerTable>> {
        self.owners.clone().map(|owners| owners as Arc<dyn OwnerTable>)
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

impl OwnerTable for Owners {
    fn prepare(&self) {
        Self::prepare(self);
    }

    fn of(&self, frame: &[u8], layout: Layout, key: &Key) -> Option<usize> {
        Self::of(self, &Packet { frame, layout, key })
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
            *memo = Self::noted(tracker, look, judgement, *memo);
        }
    }

    /// What is to be noted with a packet's megaflow, which had another note: its connection, if the packet's own
    /// tuple leads there; otherwise nothing any more, for what changes is not worth noting.
    #[cold]
    fn noted(tracker: &Tracker, look: &Look, judgement: &Judgement, before: Memo) -> Memo {
        match judgement.place {
            Some(place) if before == Memo::BLANK && tracker.is_at(place, look) => Memo::of(place.at),
            None if before == Memo::BLANK => Memo::BLANK,
            _ => Memo::NOWHERE,
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
            self.tracker.write(&Judgement::UNTRACKED, 0, slot.key);
            return;
        }
        self.tracker.write(&judgement, asked.zone, slot.key);
        if judgement.state & ct::NEW != 0 && judgement.place.is_none() {
            let look = &self.looks[at];
            self.tracker.write_without(look, &judgement, asked.zone, self.now, slot.key);
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

impl From<TenantShare> for Share {
    fn from(share: TenantShare) -> Self {
        let TenantShare { tenant, connections, half_open, fragments, evicted } = share;
        let counters = [
            ("connections", connections.into()),
            ("half-open", half_open.into()),
            ("fragments", fragments.into()),
            ("evicted", evicted),
        ];
        let counters = counters.map(|(name, count)| (name.to_owned(), count)).to_vec();
        Self { zone: tenant.zone, port: tenant.port, counters }
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
                self.tracker.write(&judgement, zone(slot), slot.key);
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

    fn command(&mut self, word: &str, argument: &Value) -> Result<Value, String> {
        command((&mut self.tracker, self.worker), self.now, word, argument)
    }

    fn memory(&self) -> usize {
        self.tracker.memory()
    }
}
