//! From what a plan file says to what a campaign does: names, ranges, and whether it makes sense
//! together. All mistakes of one plan are reported at once. Here the axes, in [`crate::methods`] the
//! methods, in `values` what both share.

mod ports;
mod simulated;
mod values;

use super::file::{PlanFile, UntilTable};
use super::guests::GuestAxes;
use super::placement::PlacementAxes;
use super::text::{HugePages, List, SizesText, Text};
use super::{Axis, Known, Plan, Planned, TraceChoice, Until};
use crate::methods::{self, GoalTable, MrrPlan, OfPlanned as _, check_goals};
use simulated::{parts, simulated};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use weir_diagnostic::Diagnostic;
use weir_dut::wiring::WiringKind;
use weir_traffic::Shape;
use weir_traffic::trace::catalogue::ENTRIES;
use weir_traffic::trace::{Sizes, TraceError, TraceName, TraceSpec};
use weir_trial::{Chain, Nf, NfKind};
use weir_units::{FrameSize, LineRate, Ratio};

pub(crate) type Span = Range<usize>;

/// Most repeats of a plan.
const MAX_REPEATS: u32 = 100;

/// A value with its place.
pub(super) type Placed<T> = (Span, T);

/// Checks one plan and collects what is wrong with it.
pub(crate) struct Checker<'a> {
    known: &'a Known<'a>,
    /// Folder that relative capture paths start from.
    base: &'a Path,
    /// Whether the whole file could be read: else what one key says about another is not judged.
    pub(crate) whole: bool,
    /// How packets are spread over time.
    pub(crate) shape: Shape,
    /// Tables of goals.
    pub(crate) goals: BTreeMap<Spanned<String>, GoalTable>,
    /// Whether the forwarded rate is measured, of which loads may be shares.
    pub(crate) has_mrr: bool,
    /// Goals that the search has, once it was checked.
    pub(crate) searched: Vec<String>,
    pub(crate) found: Vec<Diagnostic>,
}

impl<'a> Checker<'a> {
    pub(super) fn new(known: &'a Known<'a>, base: &'a Path, whole: bool) -> Self {
        let (goals, searched, found) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { known, base, whole, shape: Shape::default(), goals, has_mrr: false, searched, found }
    }

    pub(crate) fn refuse(&mut self, span: &Span, message: impl Into<String>) {
        self.found.push(Diagnostic::new(span.clone(), message));
    }

    /// The plan, or what can be made of it when `found` is not empty.
    pub(super) fn plan(&mut self, mut file: PlanFile, name: &str, source: &str) -> Plan {
        let mut order: Vec<(usize, Axis)> = [
            (file.nf.as_ref().map(Spanned::span).or_else(|| of_chain(&file)), Axis::Nf),
            (file.deployment.as_ref().map(Spanned::span), Axis::Deployment),
            (file.host.as_ref().map(Spanned::span), Axis::Host),
            (file.copies.as_ref().map(Spanned::span), Axis::Copies),
            (file.split.as_ref().map(Spanned::span), Axis::Split),
            (file.vnics.as_ref().map(Spanned::span), Axis::Vnics),
            (file.bundles.as_ref().map(Spanned::span), Axis::Bundles),
            (file.queues.as_ref().map(Spanned::span), Axis::Queues),
            (file.cores.as_ref().map(Spanned::span), Axis::Cores),
            (file.vcpus.as_ref().map(Spanned::span), Axis::Vcpus),
            (file.memory.as_ref().map(Spanned::span), Axis::Memory),
            (file.accel.as_ref().map(Spanned::span), Axis::Accel),
            (file.frequency.as_ref().map(Spanned::span), Axis::Frequency),
            (file.offloads.as_ref().map(Spanned::span), Axis::Offloads),
            (file.node.as_ref().map(Spanned::span), Axis::Node),
            (file.server.as_ref().map(Spanned::span), Axis::Server),
            (file.dut.as_ref().map(Spanned::span), Axis::Dut),
            (file.wiring.as_ref().map(Spanned::span), Axis::Wiring),
            (Some(file.trace.span()), Axis::Trace),
            (Some(file.size.span()), Axis::Size),
            (file.directions.as_ref().map(Spanned::span), Axis::Directions),
            (file.huge_pages.as_ref().map(Spanned::span), Axis::HugePages),
        ]
        .into_iter()
        .map(|(span, axis)| (span.map_or(0, |span| span.start), axis))
        .collect();
        order.sort_by_key(|(start, _)| *start);

        let has_mrr = file.mrr.is_some();
        self.has_mrr = has_mrr;
        self.goals = std::mem::take(&mut file.goal);
        check_goals(self, file.throughput.as_ref());
        let asked = methods::asked(&mut file);
        let graph = self.graph(&mut file);
        let (nf_span, nfs, own_duts) = match &graph {
            Some((span, graph)) => (span.clone(), graph.nf().into_iter().collect(), Vec::new()),
            None => self.either(file.nf, file.chain, file.length),
        };
        let guests = GuestAxes { vcpus: file.vcpus, memory: file.memory, accel: file.accel };
        let frequency_span = file.frequency.as_ref().map(Spanned::span);
        let placements = self.placements(PlacementAxes {
            deployment: file.deployment,
            host: file.host,
            cores: file.cores,
            frequency: file.frequency,
            offloads: file.offloads,
            node: file.node,
            guests,
        });
        let placements = self.copies([file.copies, file.vnics], file.split, placements);
        let placements = self.bundles(file.bundles, placements);
        let placements = self.queues(file.queues, placements);
        let placements = self.servers(file.server, placements);
        let dut_span = file.dut.as_ref().map(Spanned::span);
        let mut duts = self.duts(file.dut);
        self.own_devices(dut_span.as_ref(), &duts, &own_duts);
        let graph = graph.map(|(_, graph)| graph);
        duts = graph.as_ref().map_or(duts, |graph| vec![graph.duts()]);
        let placements = placements.with_graph(graph);
        let against = file.against.map(|name| self.against(name, &duts));
        let until = file.until.map(|table| self.until(table, against.is_some() && has_mrr));
        let wiring_span = file.wiring.as_ref().map(Spanned::span);
        let wirings = self.wirings(file.wiring, has_mrr);
        let nic = self.nic(file.nic);
        if let Some(span) =
            wiring_span.filter(|_| self.whole && wirings.iter().any(|name| name == WiringKind::Nic.name()))
        {
            self.nic_has_ports(&span, &nic, &duts);
        }
        let traces = self.axis("trace", file.trace);
        let sizes: Vec<Placed<Sizes>> =
            self.axis("size", file.size).into_iter().map(|(span, SizesText(sizes))| (span, sizes)).collect();
        let traces = self.traces(traces, &sizes);
        self.suited(&nf_span, &nfs, &traces);
        let directions = self.directions(file.directions);
        let huge_pages = file.huge_pages.map(|list| self.axis("huge_pages", list));
        self.pages_to_share(&placements, huge_pages.as_deref().unwrap_or_default());

        if asked.is_empty() && self.whole {
            let others = "[latency], [latency_curve], [frame_loss] or [soak]";
            self.refuse(&nf_span, format!("the plan measures nothing; add [throughput], [mrr], {others}"));
        }
        self.shape = file.shape.map_or(Shape::default(), |text| text.0);
        let methods: Vec<Planned> = asked.into_iter().map(|check| check(self)).collect();
        if let Some(span) = frequency_span.filter(|_| placements.are_held() && methods.iter().any(from_start))
        {
            let why =
                "`from_start` counts a device from its first packet on, before the lab can hold it back";
            self.refuse(
                &span,
                format!("`frequency`: {why}; leave out the shares below 100%, or `from_start`"),
            );
        }
        let stamped = self.stamped(file.stamped, methods.iter().any(Planned::needs_stamps));
        let seed = file.seed.unwrap_or(TraceSpec::PLAN_SEED);
        Plan {
            name: file.name.map_or_else(|| name.to_owned(), |name| self.plan_name(name)),
            source: source.to_owned(),
            order: order.into_iter().map(|(_, axis)| axis).collect(),
            nfs,
            placements,
            duts,
            own_duts,
            against,
            wirings,
            traces,
            sizes: values(sizes),
            directions,
            huge_pages: huge_pages.map_or_else(|| vec![HugePages::Auto], values),
            shape: self.shape,
            line_rate: file.line_rate.map_or(LineRate::TEN_GIGABIT, |text| text.0),
            stamped,
            self_check: file.self_check.unwrap_or(true),
            seed,
            tester_cores: self.within("tester_cores", file.tester_cores, 1, crate::cores::MOST_TESTERS),
            repeats: self.within("repeats", file.repeats, 1, MAX_REPEATS),
            until,
            methods,
            simulated: simulated(&file.simulated, seed),
            simulated_parts: parts(file.simulated.parts.as_ref()),
            vhost: file.vhost,
            memif: file.memif,
            veth: file.veth,
            nic,
            external: self.external(file.external),
            check: file.check.unwrap_or(true),
            mrr_only: self.known.mrr_only.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn plan_name(&mut self, name: Spanned<String>) -> String {
        let span = name.span();
        let name = name.into_inner();
        if name.trim().is_empty() {
            self.refuse(&span, "the plan's name is empty; write one or leave the key out");
        }
        name
    }

    /// The values of an axis: at least one, none twice.
    pub(crate) fn axis<T: Display + Clone>(&mut self, key: &str, list: Spanned<List<T>>) -> Vec<Placed<T>> {
        let whole = list.span();
        let mut seen: Vec<String> = Vec::new();
        let mut axis = Vec::new();
        for (span, value) in list.into_inner().0 {
            let span = span.unwrap_or_else(|| whole.clone());
            let text = value.to_string();
            if seen.contains(&text) {
                self.refuse(&span, format!("`{key}`: {text} stands there twice"));
            }
            seen.push(text);
            axis.push((span, value));
        }
        if axis.is_empty() {
            self.refuse(&whole, format!("`{key}` is an empty list; give it at least one value"));
        }
        axis
    }

    /// The names of an axis, each one of the known ones.
    fn names(
        &mut self,
        key: &str,
        list: Option<Spanned<List<String>>>,
        known: &[&str],
        default: &str,
    ) -> Vec<String> {
        let Some(list) = list else { return vec![default.to_owned()] };
        let axis = self.axis(key, list);
        for (span, name) in &axis {
            if !known.contains(&name.as_str()) {
                self.found.push(Diagnostic::unknown(span.clone(), key, name, known));
            }
        }
        values(axis)
    }

    /// Devices, `NAME` or `NAME:VARIANT`.
    fn duts(&mut self, list: Option<Spanned<List<String>>>) -> Vec<String> {
        let Some(list) = list else { return vec!["nf".to_owned()] };
        let axis = self.axis("dut", list);
        for (span, device) in &axis {
            self.device("dut", span, device);
        }
        values(axis)
    }

    /// A device, `NAME` or `NAME:VARIANT`; whether there is one.
    fn device(&mut self, key: &str, span: &Span, devices: &str) -> bool {
        weir_dut::devices(devices).into_iter().all(|device| self.one_device(key, span, device))
    }

    pub(super) fn one_device(&mut self, key: &str, span: &Span, device: &str) -> bool {
        let name = weir_dut::split(device).0;
        let before = self.found.len();
        if !self.known.duts.contains(&name) {
            self.found.push(Diagnostic::unknown(span.clone(), key, name, &self.known.duts));
        } else if let Err(why) = (self.known.check_variant)(device) {
            self.refuse(span, format!("`{key}`: {why}"));
        }
        self.found.len() == before
    }

    /// The device that the plan's one device is measured against.
    fn against(&mut self, device: Spanned<String>, duts: &[String]) -> String {
        let (span, name) = (device.span(), device.into_inner());
        if !self.device("against", &span, &name) {
            return name;
        }
        if duts.len() > 1 {
            let why = "measures one device against another; write one `dut`, or leave `against` out";
            self.refuse(&span, format!("`against` {why}"));
        } else if duts.contains(&name) {
            self.refuse(&span, format!("`against`: {name} is the plan's `dut` itself; name another device"));
        }
        name
    }

    fn wirings(&mut self, list: Option<Spanned<List<String>>>, has_mrr: bool) -> Vec<String> {
        let places: Vec<Placed<String>> = list.iter().flat_map(placed).collect();
        for (span, name) in places {
            if !has_mrr && self.whole && self.known.mrr_only.contains(&name.as_str()) {
                let why = "has no tester at the wire and measures only the forwarded rate";
                self.refuse(&span, format!("`wiring`: {name} {why}; add a table [mrr] or leave it out"));
            }
        }
        self.names("wiring", list, &self.known.wirings, "vhost")
    }

    /// Network functions by name.
    pub(super) fn functions(&mut self, key: &str, axis: Vec<Placed<String>>) -> Vec<Nf> {
        let mut nfs = Vec::new();
        for (span, text) in axis {
            let parts = Chain::split(&text);
            if parts.iter().any(|part| part.starts_with(Nf::FLOWS)) {
                let members = parts.into_iter().filter_map(|part| self.member(key, &span, part));
                match members.collect::<Vec<Nf>>().as_slice() {
                    // What one of them lacks was said.
                    [] => {}
                    members => match Chain::of(members) {
                        Ok(nf) => nfs.push(nf),
                        Err(error) => self.refuse(&span, format!("`{key}`: {error}")),
                    },
                }
                continue;
            }
            match text.parse::<Nf>() {
                Ok(nf) => nfs.push(nf),
                Err(error) => {
                    let kind = text.split([':', Chain::SEPARATOR]).next().unwrap_or_default();
                    let names = NfKind::ALL.map(NfKind::name);
                    if names.contains(&kind) {
                        self.refuse(&span, format!("`{key}`: {error}"));
                    } else {
                        let mut unknown = Diagnostic::unknown(span, key, kind, &names);
                        unknown
                            .allowed
                            .push("NAME:N, N being its routes, rules, MAC addresses or services".to_owned());
                        self.found.push(unknown);
                    }
                }
            }
        }
        nfs
    }

    /// One function of a chain that has a flow table of a user's own, or that table alone.
    fn member(&mut self, key: &str, span: &Span, text: &str) -> Option<Nf> {
        let read = match text.strip_prefix(Nf::FLOWS) {
            Some(file) => {
                (self.known.flows)(&self.base.join(file)).map(Nf::Flows).map_err(|error| error.to_string())
            }
            None => text.parse().map_err(|error: weir_trial::ParseNfError| error.to_string()),
        };
        read.map_err(|error| self.refuse(span, format!("`{key}`: {error}"))).ok()
    }

    fn directions(&mut self, list: Option<Spanned<List<u8>>>) -> Vec<u8> {
        let Some(list) = list else { return vec![2] };
        let axis = self.axis("directions", list);
        for (span, directions) in &axis {
            if !(1..=2).contains(directions) {
                self.refuse(span, format!("`directions`: {directions} is not possible; write 1 or 2"));
            }
        }
        values(axis)
    }

    /// Traces, and whether each has a size it comes in and each size a trace.
    fn traces(&mut self, axis: Vec<Placed<String>>, sizes: &[Placed<Sizes>]) -> Vec<TraceChoice> {
        let mut traces = Vec::new();
        for (span, text) in axis {
            let (first, second) = match text.split_once('|') {
                Some((first, second)) => (self.trace(&span, first), self.trace(&span, second)),
                None => {
                    let both = self.trace(&span, &text);
                    (both.clone(), both)
                }
            };
            let (Some(first), Some(second)) = (first, second) else { continue };
            let own = match first.default_sizes() {
                Sizes::Fixed(size) => size.bytes().to_string(),
                word => format!("\"{word}\""),
            };
            let trace = TraceChoice { first, second };
            let apart = self.whole && sizes.iter().all(|(_, sizes)| !trace.comes_in(*sizes));
            if apart && trace.first.default_sizes() != trace.second.default_sizes() {
                let why = "the two directions come in no size together";
                self.refuse(&span, format!("`trace`: {text}: {why}"));
            } else if apart && !sizes.is_empty() {
                self.refuse(
                    &span,
                    format!("`trace`: {text} comes in none of the sizes; add {own} to `size`"),
                );
            }
            traces.push(trace);
        }
        for (span, sizes) in sizes {
            if self.whole && !traces.is_empty() && !traces.iter().any(|trace| trace.comes_in(*sizes)) {
                self.refuse(span, format!("`size`: no trace of the plan comes in {sizes}"));
            }
        }
        traces
    }

    /// Whether every function forwards every trace.
    fn suited(&mut self, span: &Span, nfs: &[Nf], traces: &[TraceChoice]) {
        let nfs = if self.whole { nfs } else { &[] };
        for (nf, trace) in nfs.iter().flat_map(|nf| traces.iter().map(move |trace| (nf, trace))) {
            if let Err(why) = trace.first.suits(*nf).and_then(|()| trace.second.suits(*nf)) {
                self.refuse(span, format!("`nf` and `trace`: {why}"));
            }
        }
    }

    fn trace(&mut self, span: &Span, text: &str) -> Option<TraceName> {
        match TraceName::parse(text) {
            Ok(TraceName::Capture(path)) => {
                let path = self.base.join(path);
                if !(self.known.is_file)(&path) {
                    self.refuse(span, format!("`trace`: there is no file {}", path.display()));
                }
                return Some(TraceName::Capture(path));
            }
            Ok(name) => return Some(name),
            Err(TraceError::UnknownName { name, .. }) => {
                let names: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
                let mut unknown = Diagnostic::unknown(span.clone(), "trace", &name, &names);
                unknown.allowed.push("the path of a .pcap or .pcapng file".to_owned());
                self.found.push(unknown);
            }
            Err(error) => self.refuse(span, format!("`trace`: {error}")),
        }
        None
    }

    fn stamped(&mut self, stamped: Option<Spanned<Text<Ratio>>>, has_latency: bool) -> Ratio {
        let Some(stamped) = stamped else { return Ratio(1.0) };
        let share = unit(&stamped);
        if share.0 == 0.0 && has_latency {
            self.refuse(&stamped.span(), "`stamped` is zero, and latency needs stamped packets");
        }
        share
    }

    fn until(&mut self, table: Spanned<UntilTable>, has_pairs: bool) -> Until {
        let span = table.span();
        let UntilTable { effect: Text(effect), time: Text(time) } = table.into_inner();
        if !has_pairs {
            self.refuse(
                &span,
                "[until] compares forwarded rates of two devices; add `against` and [mrr], or leave it out",
            );
        }
        if !(effect.0 > 0.0 && effect.0 < 1.0) || time.0 == 0 {
            self.refuse(
                &span,
                "[until]: write an effect between 0 and 100%, and a time, for example \"5%\" and \"5min\"",
            );
        }
        Until { effect, time }
    }
}

/// Whether a method counts from a device's first packet on.
fn from_start(planned: &Planned) -> bool {
    MrrPlan::of(planned).is_some_and(|mrr| mrr.from_start)
}

/// Where a chain stands in the file, or the list of its lengths.
fn of_chain(file: &PlanFile) -> Option<Span> {
    file.length.as_ref().map(Spanned::span).or_else(|| file.chain.as_ref().map(Spanned::span))
}

fn values<T>(axis: Vec<Placed<T>>) -> Vec<T> {
    axis.into_iter().map(|(_, value)| value).collect()
}

pub(crate) fn placed(list: &Spanned<List<String>>) -> Vec<Placed<String>> {
    let value =
        |(span, text): &(Option<Span>, String)| (span.clone().unwrap_or_else(|| list.span()), text.clone());
    list.as_ref().0.iter().map(value).collect()
}

pub(crate) fn unit<T: Copy>(text: &Spanned<Text<T>>) -> T {
    text.as_ref().0
}

/// Mean frame size, in bytes with FCS, that stands in where only a duration is estimated.
pub(super) const SMALLEST: f64 = FrameSize::MIN.bytes() as f64;
