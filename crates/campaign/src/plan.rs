//! Plans: what a campaign measures, as a TOML file.
//!
//! A plan names axes (network functions, devices, wirings, traces, sizes, directions, huge pages);
//! [`Plan::expand`] makes every combination of them a point, the axis written first in the file
//! varying slowest. At each point the plan's methods run, each a file of `crate::methods`.
//!
//! Reading is pure: what devices and wirings there are, and whether a file exists, the
//! caller says ([`Known`]); what traces there are, `weir-traffic`. A mistake is reported with file, line and column, the line itself, what
//! may be written there and what was probably meant ([`PlanError`]); mistakes of meaning are
//! reported all at once. The format is `file`'s types; [`schema`] is made of them.

mod bound;
mod builtin;
pub(crate) mod check;
pub(crate) mod file;
mod goal;
mod graph;
mod guests;
mod machine;
mod members;
mod placement;
mod recover;
pub(crate) mod text;
mod wirings;

pub use builtin::{Builtin, builtin, builtins};
pub use goal::goal;
pub use machine::Machine;
pub use text::HugePages;
pub use wirings::{ExternalPlan, MemifPlan, Server, VethPlan, VhostEnd, VhostPlan};

use crate::methods::Assumed;
pub use crate::methods::{CurvePlan, MrrPlan, OfPlanned, Planned, ThroughputPlan};
use check::Checker;
use placement::Placements;
use std::fmt;
use std::path::Path;
pub use weir_diagnostic::{FileError as PlanError, Place};
use weir_dut::wiring::{Nic, WiringKind};
use weir_methods::Remaining;
use weir_simulated::{SimulatedDut, SimulatedParts};
use weir_traffic::Shape;
use weir_traffic::trace::{Sizes, TraceName};
use weir_trial::{FlowFile, FlowFileError, Nf, Placement};
use weir_units::{LineRate, Nanos, Ratio};

/// What this build and machine have, for the names in a plan.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    /// Devices under test.
    pub duts: Vec<&'a str>,
    /// Whether a device comes in the variant that stands behind `:` in its name; the mistake where not.
    pub check_variant: fn(&str) -> Result<(), String>,
    /// Wirings.
    pub wirings: Vec<&'a str>,
    /// Of the wirings, those without a tester at the wire: only the forwarded rate is measured there.
    pub mrr_only: Vec<&'a str>,
    /// Whether a capture file exists.
    pub is_file: fn(&Path) -> bool,
    /// Reads a file of flows.
    pub flows: fn(&Path) -> Result<FlowFile, FlowFileError>,
}

impl Known<'static> {
    /// The adapters and wirings of this build, and the files of this machine.
    pub fn here() -> Self {
        Self {
            duts: weir_dut::names(),
            check_variant: weir_dut::check_variant,
            wirings: WiringKind::ALL.map(WiringKind::name).to_vec(),
            mrr_only: vec![WiringKind::Fed.name()],
            is_file: Path::is_file,
            flows: FlowFile::read,
        }
    }
}

/// How far the seeds of neighbouring points of a simulated device lie apart: 2^64 over the golden ratio.
const SEEDS_APART: u64 = 0x9E37_79B9_7F4A_7C15;

/// Set-up and drain time that is assumed of a trial before one has been measured.
pub const ASSUMED_OVERHEAD: Nanos = Nanos(Nanos::PER_SECOND / 4);

/// A plan that makes sense.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// The TOML it was read from.
    pub source: String,
    /// Network functions.
    pub nfs: Vec<Nf>,
    /// Where they run.
    pub(crate) placements: Placements,
    /// Devices under test.
    pub duts: Vec<String>,
    /// The device of each function of a chain that has one of its own, by its place.
    pub(crate) own_duts: Vec<Option<String>>,
    /// The device that the only one of [`Self::duts`] is measured against, in turns.
    pub against: Option<String>,
    /// Wirings.
    pub wirings: Vec<String>,
    /// Traces.
    pub traces: Vec<TraceChoice>,
    /// Packet sizes.
    pub sizes: Vec<Sizes>,
    /// Directions with traffic: 1 or 2.
    pub directions: Vec<u8>,
    /// Huge pages.
    pub huge_pages: Vec<HugePages>,
    /// Line rate that results are compared with, per direction.
    pub line_rate: LineRate,
    /// How packets are spread over time.
    pub shape: Shape,
    /// Share of the packets that are stamped.
    pub stamped: Ratio,
    /// Whether what the tester itself can do over each wiring is measured first.
    pub self_check: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// Cores of the tester.
    pub tester_cores: u32,
    /// How often every point is measured.
    pub repeats: u32,
    /// Whether starts go on until an effect is seen (`against` only).
    pub until: Option<Until>,
    /// What is measured at every point, in that order.
    pub methods: Vec<Planned>,
    /// Numbers of the simulated device.
    pub simulated: SimulatedDut,
    /// What a packet takes of each part of the simulated device, in its variant `parts`.
    pub simulated_parts: SimulatedParts,
    /// The wiring `vhost`.
    pub vhost: VhostPlan,
    /// The wiring `memif`.
    pub memif: MemifPlan,
    /// The wiring `veth`.
    pub veth: VethPlan,
    /// The wiring `nic`; without ports unless the plan has it.
    pub nic: Nic,
    /// The device `external`.
    pub external: ExternalPlan,
    /// Whether packets are compared with what the network function must make of them.
    pub check: bool,
    /// The axes in the order of the file.
    order: Vec<Axis>,
    /// Names of [`Known::mrr_only`].
    mrr_only: Vec<String>,
}

/// How long two devices measured in turns are started anew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Until {
    /// The effect that is to be seen, as a share.
    pub effect: Ratio,
    /// The most time of a point.
    pub time: Nanos,
}

/// What is sent, for each direction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceChoice {
    /// From the first port to the second.
    pub first: TraceName,
    /// From the second port to the first.
    pub second: TraceName,
}

/// One combination of the axes.
#[derive(Clone, Debug, PartialEq)]
pub struct PointSpec {
    /// Place in the plan's order, from 0.
    pub index: u32,
    /// Network function.
    pub nf: Nf,
    /// Where its parts run.
    pub placement: Placement,
    /// Device under test.
    pub dut: String,
    /// Place of the point that it is measured in turns with.
    pub in_turns_with: Option<u32>,
    /// Wiring.
    pub wiring: String,
    /// Trace.
    pub trace: TraceChoice,
    /// Packet size.
    pub size: Sizes,
    /// Directions with traffic of each bundle.
    pub directions: u8,
    /// Huge pages.
    pub huge_pages: HugePages,
    /// Whether the wiring allows the forwarded rate only, neither throughput nor latency.
    pub mrr_only: bool,
    /// Cores of the tester.
    pub tester_cores: u32,
}

/// How many axes a plan has.
const AXES: usize = Axis::HugePages as usize + 1;

/// The axes of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axis {
    Nf,
    Deployment,
    Host,
    Copies,
    Split,
    Vnics,
    Bundles,
    Queues,
    Cores,
    Vcpus,
    Memory,
    Accel,
    Frequency,
    Offloads,
    Node,
    Server,
    Dut,
    Wiring,
    Trace,
    Size,
    Directions,
    HugePages,
}

impl TraceChoice {
    /// Whether both directions' traces come in these sizes.
    pub fn comes_in(&self, sizes: Sizes) -> bool {
        comes_in(&self.first, sizes) && comes_in(&self.second, sizes)
    }
}

/// Whether a trace comes in these sizes. Captures and T1 have sizes of their own, T2 has one.
fn comes_in(trace: &TraceName, sizes: Sizes) -> bool {
    match (trace, trace.default_sizes()) {
        (TraceName::T2 | TraceName::Gateway { stripped: true, .. } | TraceName::Tcp(_), own) => sizes == own,
        (_, Sizes::Recorded) => sizes == Sizes::Recorded,
        (TraceName::Vxlan(_), _) => matches!(sizes, Sizes::Fixed(size) if size >= TraceName::LEAST_TUNNELED),
        _ => sizes != Sizes::Recorded,
    }
}

impl fmt::Display for TraceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.second {
            self.first.fmt(f)
        } else {
            f.pad(&format!("{}|{}", self.first, self.second))
        }
    }
}

impl Plan {
    /// Reads and checks a plan. `file` is where it came from: it stands in the errors, gives a plan
    /// without a name its name, and its folder is where relative paths start.
    pub fn parse(text: &str, file: &Path, known: &Known<'_>) -> Result<Self, PlanError> {
        let error = |found| PlanError::new(file.display().to_string(), text, found);
        let read = recover::read(text);
        let mut checker = Checker::new(known, file.parent().unwrap_or(Path::new("")), read.whole());
        let (before, mut found) = (read.before, read.found);
        let Some(content) = read.file else { return Err(error(found)) };
        let name = file.file_stem().map_or("plan".into(), |stem| stem.to_string_lossy());
        let plan = checker.plan(content, &name, text);
        let of_text = checker.found.into_iter().filter(|mistake| mistake.span.start >= before);
        found.extend(of_text.map(|mut mistake| {
            mistake.span = mistake.span.start - before..mistake.span.end - before;
            mistake
        }));
        if found.is_empty() {
            found.extend(plan.too_many());
        }
        if found.is_empty() { Ok(plan) } else { Err(error(found)) }
    }

    /// Every point, in the order of the file. A trace is combined with the sizes it comes in:
    /// captures with `recorded` only, most other traces with all others. Points measured in turns
    /// stand beside each other.
    pub fn expand(&self) -> Vec<PointSpec> {
        let lengths: Vec<usize> = self.order.iter().map(|axis| self.length(*axis)).collect();
        let total: usize = lengths.iter().product();
        let mut points = Vec::new();
        for number in 0..total {
            let mut place = [0; AXES];
            let mut rest = number;
            for (axis, length) in self.order.iter().zip(&lengths).rev() {
                place[*axis as usize] = rest % length;
                rest /= length;
            }
            let at = |axis: Axis| place[axis as usize];
            let (trace, size) = (&self.traces[at(Axis::Trace)], self.sizes[at(Axis::Size)]);
            if !trace.comes_in(size) {
                continue;
            }
            let Some(placement) = self.placements.at(&place) else { continue };
            let wiring = &self.wirings[at(Axis::Wiring)];
            let index = points.len() as u32;
            let nf = self.nfs[at(Axis::Nf)];
            let point = PointSpec {
                index,
                nf,
                placement,
                dut: members::placed(nf, &self.own_duts, &self.duts[at(Axis::Dut)]),
                in_turns_with: self.against.as_ref().map(|_| index + 1),
                wiring: wiring.clone(),
                trace: trace.clone(),
                size,
                directions: self.directions[at(Axis::Directions)],
                huge_pages: self.huge_pages[at(Axis::HugePages)],
                mrr_only: self.mrr_only.contains(wiring),
                tester_cores: self.tester_cores,
            };
            let rival = self.against.as_deref().map(|dut| PointSpec {
                index: index + 1,
                dut: members::placed(nf, &self.own_duts, dut),
                in_turns_with: Some(index),
                ..point.clone()
            });
            points.extend([point].into_iter().chain(rival));
        }
        points
    }

    fn length(&self, axis: Axis) -> usize {
        match axis {
            Axis::Nf => self.nfs.len(),
            Axis::Deployment => self.placements.deployments.len(),
            Axis::Host => self.placements.hosts.len(),
            Axis::Copies => self.placements.copies.len(),
            Axis::Split => self.placements.splits.len(),
            Axis::Vnics => self.placements.vnics.len(),
            Axis::Bundles => self.placements.bundles.len(),
            Axis::Queues => self.placements.queues.len(),
            Axis::Cores => self.placements.cores.len(),
            Axis::Vcpus => self.placements.guests.vcpus.len(),
            Axis::Memory => self.placements.guests.memory.len(),
            Axis::Accel => self.placements.guests.accel.len(),
            Axis::Frequency => self.placements.frequencies.len(),
            Axis::Offloads => self.placements.offloads.len(),
            Axis::Node => self.placements.nodes.len(),
            Axis::Server => self.placements.servers.len(),
            Axis::Dut => self.duts.len(),
            Axis::Wiring => self.wirings.len(),
            Axis::Trace => self.traces.len(),
            Axis::Size => self.sizes.len(),
            Axis::Directions => self.directions.len(),
            Axis::HugePages => self.huge_pages.len(),
        }
    }

    /// The simulated device as it is at a point. One that is made of parts draws its noise anew at each.
    pub(crate) fn simulated_at(&self, point: &PointSpec) -> SimulatedDut {
        if !weir_dut::is_made_of_parts(&point.dut) {
            return self.simulated;
        }
        let capacity = self.simulated_parts.capacity(point.nf, &point.placement);
        let seed = self.simulated.seed.wrapping_add(u64::from(point.index).wrapping_mul(SEEDS_APART));
        SimulatedDut { capacity, seed, ..self.simulated }
    }

    /// What it asks of one method, by what that method's plan is; nothing where it does not ask for it.
    pub fn method<P: OfPlanned>(&self) -> Option<&P> {
        self.methods.iter().find_map(P::of)
    }

    /// The methods that a point is measured by.
    pub(crate) fn measured_at(&self, point: &PointSpec) -> impl Iterator<Item = &Planned> {
        let mrr_only = point.mrr_only;
        self.methods.iter().filter(move |planned| !(mrr_only && planned.needs_tester()))
    }

    /// Most pairs of the tester's ports of any point, those of several queues once for each.
    pub(crate) fn most_links(&self) -> u32 {
        self.expand().iter().map(|point| point.placement.links()).max().unwrap_or(1)
    }

    /// What the whole plan will take, if every trial has so much set-up and drain time and no
    /// search meets a surprise. Starting the devices comes on top.
    pub fn estimate(&self, overhead: Nanos) -> Remaining {
        let (line, search) = (self.line_rate.max_pps(check::SMALLEST), self.method::<ThroughputPlan>());
        let max_load = search.and_then(|search| search.max_load).unwrap_or(line);
        let (searched, stamped) = (search.is_some(), self.stamped);
        let assumed = Assumed { line, max_load, searched, stamped, overhead };
        let mut total = Remaining::default();
        for (planned, points) in self.points_of_methods() {
            let Some(part) = planned.estimate(&assumed) else { continue };
            let times = points * u64::from(self.repeats);
            total.trials = total.trials.saturating_add(part.trials.saturating_mul(times as u32));
            total.time = Nanos(total.time.0.saturating_add(part.time.0.saturating_mul(times)));
        }
        total
    }

    /// Every method, and how many points it measures.
    fn points_of_methods(&self) -> impl Iterator<Item = (&Planned, u64)> {
        let points = self.expand();
        let (all, tested) = (points.len(), points.iter().filter(|point| !point.mrr_only).count());
        self.methods
            .iter()
            .map(move |planned| (planned, if planned.needs_tester() { tested } else { all } as u64))
    }

    /// The most time the whole plan's trials can take: as [`Self::estimate`], every search using
    /// its whole budget.
    pub fn longest(&self, overhead: Nanos) -> Nanos {
        let budget = |(planned, points): (&Planned, u64)| {
            let times = points.saturating_mul(u64::from(self.repeats));
            Some(planned.budget()?.0.saturating_mul(times))
        };
        let searching = self.points_of_methods().filter_map(budget).fold(0, u64::saturating_add);
        let methods = self.methods.iter().filter(|planned| planned.budget().is_none()).cloned().collect();
        let without = Self { methods, ..self.clone() };
        Nanos(without.estimate(overhead).time.0.saturating_add(searching))
    }

    /// What a reader of the plan's results must be told.
    pub fn warnings(&self) -> Vec<String> {
        self.methods.iter().flat_map(Planned::warnings).collect()
    }
}

/// The JSON Schema of plan files.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(file::PlanFile).to_value();
    weir_diagnostic::without_null(&mut schema);
    schema
}
