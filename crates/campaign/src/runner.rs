//! A campaign: a plan being run, point by point.
//!
//! At each point: build the traffic, wire up the rig, run the plan's methods, keep the results, take
//! the rig down. A point that fails is kept with its error and the campaign goes on; Ctrl-C and a
//! store that cannot write end it. Everything runs on the caller's thread but the trials themselves.

mod checks;
mod pair;
mod told;

pub use told::{CampaignError, PointOutcome, Tally, Watcher};

use crate::cores::Seats;
use crate::environment::free_huge_pages;
use crate::limit;
use crate::methods::Methods;
use crate::packets::{self, Extent};
use crate::plan::{HugePages, Machine, MrrPlan, Plan, PointSpec, ThroughputPlan};
use crate::purse::Purse;
use crate::record::{Recorder, Relay, TrialNotes, now_ms};
use crate::rig::{Choice, Flags, Rig, RigError, RigSetup, Wirings};
use crate::traffic::Traffic;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::atomic::Ordering;
use weir_dpdk::{Eal, EalConfig, EalError, Memory, Pool};
use weir_dut::wiring::{VethDriver, WiringKind};
use weir_dut::{Adapter, DutError, Kind, adapter};
use weir_store::{OpenPoint, Outcome, RunId, Store, StoreError};
use weir_traffic::Shape;
use weir_traffic::trace::Sizes;
use weir_trial::run::{PointKey, RunState};
use weir_trial::{CoreUse, NodeUse, PacketCheck};
use weir_units::{FrameSize, Ratio};

/// Free huge pages (of 2 MiB) that make `huge_pages = "auto"` take them: the lab's and a DUT's share.
pub(crate) const ENOUGH_HUGE_PAGES: u64 = 800;

/// A plan being run.
pub struct Campaign<'a> {
    plan: &'a Plan,
    store: &'a mut Store,
    run: RunId,
    /// Places of the points that are measured already.
    done: BTreeSet<u32>,
    flags: Flags,
    /// Who sits where where nothing is said.
    usual: Seats,
    /// Who sits where, by what a plan says of cores and by the DUT's forwarding processes.
    seats: BTreeMap<Seating, Seats>,
    wirings: Wirings,
    /// What searches for a device's best settings found, by the point's place: its other starts have the same.
    choices: BTreeMap<u32, Choice>,
    /// What all checks of a point's packets came to so far, by its place.
    checks: BTreeMap<u32, PacketCheck>,
    rigs: u32,
    /// What had to be connected, and was told.
    told: Vec<String>,
    /// Time of the searches still to come; nothing where none is searched for.
    purse: Option<Purse>,
}

impl<'a> Campaign<'a> {
    /// A campaign into a run of the store; `done` are the points it need not measure again.
    pub fn new(
        plan: &'a Plan,
        store: &'a mut Store,
        run: RunId,
        done: BTreeSet<u32>,
        flags: Flags,
    ) -> Result<Self, CampaignError> {
        let machine = Machine::here();
        let usual = Seats::of(&machine.cores, plan.tester_cores, 1)?;
        // Where the machine has too few, the point is unsupported.
        let seats =
            plan.expand().into_iter().filter_map(|point| Some((seated(&point), point.seats(&machine).ok()?)));
        let seats = seats.collect();
        Ok(Self {
            plan,
            store,
            run,
            done,
            flags,
            usual,
            seats,
            wirings: plan.wirings(),
            choices: BTreeMap::new(),
            checks: BTreeMap::new(),
            rigs: 0,
            told: Vec::new(),
            purse: None,
        })
    }

    /// Measures the points that are not done. DPDK takes its memory once per process, so a plan with
    /// and without huge pages is measured by two, and each rig over AF_XDP is the last of its own: [`Tally::left`] points are for the next one.
    pub fn run(&mut self, watcher: &mut dyn Watcher) -> Result<Tally, CampaignError> {
        let points = self.plan.expand();
        // Of two points measured in turns, one alone is no comparison.
        let halves =
            points.iter().filter(|p| p.in_turns_with.is_some_and(|other| !self.done.contains(&other)));
        let halves: Vec<u32> = halves.map(|point| point.index).collect();
        self.done.retain(|place| !halves.contains(place));
        let todo: Vec<&PointSpec> = points.iter().filter(|point| !self.done.contains(&point.index)).collect();
        let mut tally = self.before(&points)?;
        let Some(first) = todo.first() else {
            self.store.end_run(self.run, RunState::Finished, now_ms())?;
            return Ok(tally);
        };
        let huge_pages = wants_huge_pages(first.huge_pages);
        let (mut now, mut later): (Vec<_>, Vec<_>) =
            todo.into_iter().partition(|point| wants_huge_pages(point.huge_pages) == huge_pages);
        if let Some(first) = now.iter().position(|point| self.keeps_its_memory(point)) {
            later.extend(now.split_off(first + 1));
        }
        tally.left = later.len() as u32;
        let searched =
            now.iter().filter(|point| !point.mrr_only && unsupported(point).is_none()).count() as u64;
        let searches = searched * u64::from(self.plan.repeats.max(1));
        self.purse =
            self.plan.method::<ThroughputPlan>().map(|throughput| Purse::new(throughput.budget, searches));
        let rigs = if self.plan.against.is_some() { 2 } else { 1 };
        let size = (rigs, self.plan.most_links());
        let eal = start_eal(huge_pages, size, self.wirings.nic.lab_has_pci())?;
        let whole = (points.len() as u32, huge_pages);
        for together in in_turns(&now) {
            let interrupted = self.flags.interrupted.load(Ordering::Relaxed);
            let outcomes = match together {
                _ if interrupted => None,
                [a, b] => self.pair(eal, [*a, *b], whole, watcher)?.map(Vec::from),
                alone => self.alone(eal, alone, whole, watcher)?,
            };
            let Some(outcomes) = outcomes else {
                tally.interrupted = true;
                break;
            };
            for outcome in outcomes {
                match outcome {
                    PointOutcome::Measured { .. } => tally.measured += 1,
                    PointOutcome::Unsupported(_) => tally.unsupported += 1,
                    PointOutcome::Failed(_) => tally.failed += 1,
                }
            }
        }
        if tally.interrupted {
            self.store.end_run(self.run, RunState::Interrupted, now_ms())?;
        } else if tally.left == 0 {
            self.store.end_run(self.run, RunState::Finished, now_ms())?;
        }
        Ok(tally)
    }

    /// Whether the packet buffers of a point's rig stay taken when it is gone. DPDK's AF_XDP driver does
    /// not give back those that it lent to the kernel, so a process has one such rig, its last.
    fn keeps_its_memory(&self, point: &PointSpec) -> bool {
        point.wiring == WiringKind::Veth.name()
            && self.wirings.veth.driver == VethDriver::AfXdp
            && unsupported(point).is_none()
    }

    /// What the points that are done came to.
    fn before(&self, points: &[PointSpec]) -> Result<Tally, StoreError> {
        let progress = self.store.progress(self.run)?;
        let is_unsupported = |place: &u32| points.get(*place as usize).and_then(unsupported).is_some();
        let failed = progress.failed.iter().copied().filter(|place| self.done.contains(place));
        let (unsupported, failed): (Vec<u32>, Vec<u32>) = failed.partition(is_unsupported);
        Ok(Tally {
            measured: progress.finished.iter().filter(|place| self.done.contains(place)).count() as u32,
            unsupported: unsupported.len() as u32,
            failed: failed.len() as u32,
            ..Tally::default()
        })
    }

    /// Measures one point and keeps what came of it; nothing when Ctrl-C ended it.
    fn point(
        &mut self,
        eal: &'static Eal,
        spec: &PointSpec,
        (total, huge_pages): (u32, bool),
        watcher: &mut dyn Watcher,
    ) -> Result<Option<PointOutcome>, CampaignError> {
        let traffic = build_traffic(self.plan, spec);
        let key = self.key(spec, traffic.as_ref().ok(), huge_pages);
        watcher.point(spec.index + 1, total, &key);
        let point = self.store.add_point(self.run, spec.index, &key)?;
        let mut version = None;
        let measured = match (traffic, unsupported(spec)) {
            (_, Some(reason)) => Ok(PointOutcome::Unsupported(reason)),
            (Err(error), None) => Err(error),
            (Ok(traffic), None) => {
                self.measure(eal, spec, &traffic, (&key, huge_pages), (point, &mut version), watcher)
            }
        };
        let outcome = match measured {
            Ok(outcome) => outcome,
            Err(CampaignError::Rig(error)) if error.is_interrupt() => return Ok(None),
            Err(error @ CampaignError::Store(_)) => return Err(error),
            Err(error) => PointOutcome::Failed(error.to_string()),
        };
        let (results, error) = match &outcome {
            PointOutcome::Measured { results, .. } => (results.as_slice(), None),
            PointOutcome::Unsupported(reason) | PointOutcome::Failed(reason) => {
                (&[][..], Some(reason.as_str()))
            }
        };
        let dut_version = version.as_deref();
        self.store.finish_point(point, Outcome { dut_version, error, results })?;
        watcher.done(&key, &outcome);
        Ok(Some(outcome))
    }

    fn key(&self, spec: &PointSpec, traffic: Option<&Traffic>, huge_pages: bool) -> PointKey {
        let computed = weir_dut::kind(&spec.dut) == Kind::Arithmetic;
        PointKey {
            nf: spec.nf,
            dut: spec.dut.clone(),
            placement: spec.placement.clone(),
            wiring: if computed { weir_dut::split(&spec.dut).0.to_owned() } else { spec.wiring.clone() },
            trace: spec.trace.to_string(),
            size: spec.size.to_string(),
            mean_frame_bytes: traffic.map_or(f64::from(FrameSize::MIN.bytes()), Traffic::mean_frame_bytes),
            directions: spec.directions,
            huge_pages: huge_pages && !computed,
            line_rate: self.plan.line_rate,
        }
    }

    fn measure(
        &mut self,
        eal: &'static Eal,
        spec: &PointSpec,
        traffic: &Traffic,
        (key, huge_pages): (&PointKey, bool),
        (point, version): (OpenPoint, &mut Option<String>),
        watcher: &mut dyn Watcher,
    ) -> Result<PointOutcome, CampaignError> {
        self.keep_traffic(point, traffic)?;
        check_shape(self.plan, traffic)?;
        // What is not installed is told before the wiring is looked at.
        for device in spec.programs() {
            let started = |adapter: &&dyn Adapter| !adapter.already_runs(weir_dut::split(device).1);
            if let Some(adapter) = adapter(device).filter(started) {
                adapter.version().map_err(RigError::Dut)?;
            }
        }
        let check = self.self_check(eal, spec, traffic, (key, huge_pages), watcher)?;
        if let Some(told) = self.setup(spec, traffic, huge_pages)?.to_connect()
            && !self.told.contains(&told)
        {
            watcher.waits(&spec.wiring, &told);
            self.told.push(told);
        }
        let flags = self.flags.clone();
        let mut last = None;
        let mut sequence = point.next_sequence;
        let mut results = Vec::new();
        let mut remarks = Vec::new();
        let mut tried = Vec::new();
        for repeat in 0..self.plan.repeats.max(1) {
            let extent = Extent::of_repeat(repeat, self.plan.check);
            let (mut rig, checked) =
                self.rig(eal, spec, (traffic, huge_pages), (&flags, extent), last.take(), watcher)?;
            *version = Some(rig.description());
            self.store.set_configuration(point, &rig.configuration())?;
            remarks.extend(rig.fast().filter(|_| repeat == 0));
            remarks.extend(self.keep_check(point, checked)?);
            let done = results.len();
            let mut methods = Methods {
                plan: self.plan,
                spec,
                key,
                purse: self.purse.as_mut(),
                ceiling: check.as_ref().map(|check| check.ceiling),
                results: &mut results,
                remarks: &mut remarks,
            };
            let mut notes = TrialNotes::default();
            let mut recorder = Recorder {
                rig: &mut rig,
                store: self.store,
                point,
                sequence: &mut sequence,
                notes: &mut notes,
            };
            methods.run(&mut recorder, &mut Relay(watcher))?;
            tried.push((done..results.len(), notes.take_tried()));
            remarks.extend(notes.remarks());
            last = Some(rig);
        }
        last.map_or(Ok(()), Rig::take_down)?;
        let check = self.check_again(eal, spec, traffic, (key, huge_pages), (check, &results), watcher)?;
        for (part, trials) in tried {
            limit::assign(&mut results[part], self.evidence(spec, key, check.as_ref(), &trials));
        }
        Ok(PointOutcome::Measured { results, remarks })
    }

    /// The rig of one repeat. Each repeat starts its device anew, so that what differs from start to
    /// start (where its memory lies, for one) shows in the spread; a simulated one goes on.
    fn rig(
        &mut self,
        eal: &'static Eal,
        spec: &PointSpec,
        (traffic, huge_pages): (&Traffic, bool),
        (flags, extent): (&Flags, Extent),
        last: Option<Rig>,
        watcher: &mut dyn Watcher,
    ) -> Result<(Rig, Option<PacketCheck>), CampaignError> {
        match last {
            Some(rig @ Rig::Simulated(_)) => return Ok((rig, None)),
            Some(rig) => rig.take_down()?,
            None if weir_dut::kind(&spec.dut) == Kind::Arithmetic => {
                return Ok((Rig::simulated(self.plan.simulated_at(spec)), None));
            }
            None => {}
        }
        self.rigs += 1;
        let setup = self.setup(spec, traffic, huge_pages)?;
        let (mut rig, checked) = packets::wire_up(eal, &setup, self.rigs, flags, extent)?;
        rig.settle(&mut |why| watcher.settles(why))?;
        if let Some(choice) = rig.choice() {
            self.choices.insert(spec.index, choice.clone());
        }
        let whole = checked.map(|checked| {
            let whole = self.checks.entry(spec.index).or_default();
            whole.merge(checked);
            whole.clone()
        });
        Ok((rig, whole))
    }

    /// Keeps what an untimed pass came to, and returns what a reader must be told of it. Wrong packets
    /// are the end of the point: a rate of something else than its function is no rate.
    fn keep_check(
        &mut self,
        point: OpenPoint,
        checked: Option<PacketCheck>,
    ) -> Result<Option<String>, CampaignError> {
        let Some(checked) = checked else { return Ok(None) };
        self.store.set_packets(point, &checked)?;
        if !checked.is_right() {
            return Err(CampaignError::WrongPackets(checked.to_string()));
        }
        Ok((checked.compared == 0).then(|| format!("no packet was compared: {checked}")))
    }

    /// Keeps what a point sends.
    fn keep_traffic(&mut self, point: OpenPoint, traffic: &Traffic) -> Result<(), CampaignError> {
        let hashes: Vec<String> = traffic.hashes().iter().map(ToString::to_string).collect();
        Ok(self.store.set_traffic(point, &hashes, traffic.seed())?)
    }

    fn setup<'t>(
        &'t self,
        spec: &'t PointSpec,
        traffic: &'t Traffic,
        huge_pages: bool,
    ) -> Result<RigSetup<'t>, CampaignError> {
        let choice = self.choices.get(&spec.index);
        let seats = self.seats.get(&seated(spec)).unwrap_or(&self.usual);
        let unknown = |what: &str| CampaignError::Point(format!("no {what} of that name in this build"));
        Ok(RigSetup {
            adapter: adapter(&spec.dut).ok_or_else(|| unknown("device"))?,
            device: &spec.dut,
            variant: choice.map_or(weir_dut::split(&spec.dut).1, |choice| &choice.variant),
            choice,
            nf: spec.nf,
            wiring: spec.wiring.parse().map_err(CampaignError::Point)?,
            wirings: &self.wirings,
            traffic,
            shape: self.plan.shape,
            stamp_every: stamp_every(self.plan.stamped),
            huge_pages,
            cores: seats.cores,
            testers: &seats.testers,
            seats,
            placement: &spec.placement,
            there: spec.cores_there(),
            from_start: self.plan.method::<MrrPlan>().filter(|mrr| mrr.from_start).map(|mrr| mrr.duration),
        })
    }
}

/// Node, cores and forwarding processes.
type Seating = (Option<NodeUse>, CoreUse, usize);

/// What the seats of a point depend on.
fn seated(spec: &PointSpec) -> Seating {
    (spec.placement.node, spec.placement.cores.clone(), spec.processes())
}

/// Why the DUT of a point cannot do what the point asks; nothing when it can.
fn unsupported(spec: &PointSpec) -> Option<String> {
    let never = spec.unheld().or_else(|| spec.too_many_cores()).or_else(|| spec.unoffloaded());
    if let Some(reason) = never {
        return Some(reason);
    }
    let adapter = adapter(&spec.dut).filter(|adapter| adapter.kind() != Kind::Arithmetic)?;
    let wiring: WiringKind = spec.wiring.parse().ok()?;
    if !spec.placement.is_inline() {
        return spec.unplaceable(wiring).or_else(|| spec.lacks(&Machine::here()));
    }
    if let Some(reason) = spec.many_devices() {
        return Some(reason);
    }
    if !adapter.wirings().contains(&wiring) {
        return Some(format!("{} cannot be reached by the `{wiring}` wiring", spec.dut));
    }
    if wiring != WiringKind::Fed && adapter.is_searched(weir_dut::split(&spec.dut).1) {
        return Some(format!(
            "{} is found by a search over `fed`; over `{wiring}`, name the settings that it found",
            spec.dut
        ));
    }
    if wiring != WiringKind::Fed && adapter.queues(weir_dut::split(&spec.dut).1) > 1 {
        return Some(format!(
            "{} has several workers: `fed` only; with a tester at the wire, `queues` and `cores` say how many there are",
            spec.dut
        ));
    }
    let opens = [&spec.trace.first, &spec.trace.second].iter().any(|trace| trace.opens_connections());
    if wiring == WiringKind::Fed
        && opens
        && let Err(reason) = adapter.makes_laps()
    {
        return Some(reason);
    }
    if let Some(reason) = spec.unserved(wiring).or_else(|| spec.unqueued(wiring)) {
        return Some(reason);
    }
    let dut = adapter.name();
    match adapter.supports(spec.nf) {
        Err(reason) => Some(DutError::Unsupported { dut, nf: spec.nf, reason }.to_string()),
        Ok(()) => spec.lacks(&Machine::here()),
    }
}

fn build_traffic(plan: &Plan, spec: &PointSpec) -> Result<Traffic, CampaignError> {
    let sizes = (spec.size != Sizes::Recorded).then_some(spec.size);
    let second = (spec.directions == 2).then(|| spec.trace.second.to_string());
    Traffic::build(spec.nf, &spec.trace.first.to_string(), second.as_deref(), sizes, plan.seed)
        .map_err(|error| CampaignError::Rig(error.into()))
}

/// Recorded gaps need a capture that has them, and leave nothing to search for.
fn check_shape(plan: &Plan, traffic: &Traffic) -> Result<(), CampaignError> {
    let refuse = |why: &str| Err(CampaignError::Point(format!("shape `recorded` {why}")));
    match plan.shape {
        Shape::Recorded if !traffic.has_gaps() => refuse("needs a capture file as the trace"),
        Shape::Recorded if plan.method::<ThroughputPlan>().is_some() => refuse(
            "sends at the capture's own rate, so there is no load to search for; leave out [throughput]",
        ),
        _ => Ok(()),
    }
}

/// A share of stamped packets as "every so many packets one".
fn stamp_every(share: Ratio) -> NonZeroU32 {
    NonZeroU32::new((1.0 / share.0.clamp(1e-6, 1.0)).round() as u32).unwrap_or(NonZeroU32::MIN)
}

fn wants_huge_pages(choice: HugePages) -> bool {
    match choice {
        HugePages::On => true,
        HugePages::Off => false,
        HugePages::Auto => free_huge_pages() >= ENOUGH_HUGE_PAGES,
    }
}

/// The points of a list in the order they are measured: two where they are measured in turns and
/// both can be.
fn in_turns<'a, 'b>(points: &'b [&'a PointSpec]) -> impl Iterator<Item = &'b [&'a PointSpec]> {
    points.chunk_by(|a, b| {
        a.in_turns_with == Some(b.index) && unsupported(a).is_none() && unsupported(b).is_none()
    })
}

/// Starts DPDK with room for the lab's packet buffers at any frame size, for so many rigs at once with so many pairs of
/// ports each.
fn start_eal(huge_pages: bool, (rigs, pairs): (u64, u32), pci: bool) -> Result<&'static Eal, EalError> {
    let pool = rigs * Pool::megabytes(crate::rig::lab_buffers(pairs), FrameSize::MAX.bytes());
    let megabytes = u32::try_from(pool + pool / 4).unwrap_or(u32::MAX);
    let memory = if huge_pages { Memory::Huge } else { Memory::Normal };
    Eal::init(EalConfig { memory, megabytes, pci })
}
