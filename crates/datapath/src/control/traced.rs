//! What a trace says, in words and as data: the steps of a packet's way, why each bit matters, and the cycles of both.

use crate::slowpath::explain::{Reason, Story};
use crate::slowpath::laps::{Cycles, Measured, clock_cycles};
use crate::stats::report::{Report, StepReport};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use weir_openflow::Names;

/// What becomes of a packet, and what it takes to find that out. All cycles are of the TSC.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Traced {
    /// In words, a line a step.
    pub steps: String,
    /// The TSC's frequency in hertz; 0 where nothing was measured.
    pub tsc_hz: f64,
    /// Cycles from one reading of the TSC to the next: they are in what each task took.
    pub clock_cycles: u64,
    /// The stages of the packet's way.
    pub stages: Vec<TracedStage>,
    /// Services that the packet meets, which a trace does not run: what workers measured.
    pub services: Vec<TracedService>,
    /// Steps of all packets so far, as workers measured them in a sample of the bursts.
    pub workers: Vec<StepReport>,
}

/// A stage: one walk through the tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TracedStage {
    /// How often it was walked, the first time included; 0 where nothing was measured.
    pub walks: usize,
    /// Of the whole walk.
    pub cycles: Cycles,
    /// What it consists of, in order.
    pub tasks: Vec<TracedTask>,
    /// Which bits of the packet it looked at, and why.
    pub reasons: Vec<TracedReason>,
}

/// A task of a walk.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TracedTask {
    /// `begin`, `lookup`, `action`, `instructions`, `copy`, `end of copy`, `action set` or `end`.
    pub task: &'static str,
    /// What happened in it, in words.
    pub steps: Vec<String>,
    /// What it took.
    pub cycles: Cycles,
}

/// Why bits of a field matter.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TracedReason {
    /// The field.
    pub field: &'static str,
    /// Its bits, in hexadecimal.
    pub bits: String,
    /// Why.
    pub why: String,
    /// The tasks that were the first to look at them, by their place.
    pub tasks: Vec<usize>,
    /// Median cycles of those tasks together.
    pub cycles: u64,
}

/// A service on the packet's way, as workers measured it over all packets that came to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TracedService {
    /// What flows call it by.
    pub name: String,
    /// Packets that came to it so far.
    pub packets: u64,
    /// Cycles that it took for them.
    pub cycles: u64,
    /// The most cycles a packet that a burst took.
    pub worst_cycles: u64,
}

/// A trace that is being told.
pub(super) struct Telling<'a> {
    traced: Traced,
    names: &'a Names,
    /// What workers told; none where nothing is to be measured.
    pub(super) report: Option<&'a Report>,
    /// Why bits of the megaflow at hand matter, a line each, without and with cycles.
    reasons: Vec<(String, String)>,
}

impl<'a> Telling<'a> {
    pub(super) fn new(names: &'a Names, report: Option<&'a Report>) -> Self {
        Self { traced: Traced::default(), names, report, reasons: Vec::new() }
    }

    /// Says a line.
    pub(super) fn say(&mut self, line: &str) {
        self.traced.steps.push_str(line);
        self.traced.steps.push('\n');
    }

    /// Says how it is measured.
    pub(super) fn begin(&mut self, tsc_hz: f64) {
        if self.report.is_some() {
            (self.traced.tsc_hz, self.traced.clock_cycles) = (tsc_hz, clock_cycles());
            self.say(&format!(
                "cycles: of the TSC, {:.2} GHz, on the control thread: the median of walks behind the first, and the first, \
                 which found the caches as they were; in each, {} for reading the counter",
                tsc_hz / 1e9,
                self.traced.clock_cycles
            ));
        }
    }

    /// Tells a stage.
    pub(super) fn stage(&mut self, story: &Story, measured: Option<Measured>) {
        let measured = measured.unwrap_or_default();
        let number = self.traced.stages.len();
        match measured.walks {
            0 => self.say(&format!("stage {number}:")),
            walks => self.say(&format!("stage {number}: {}, of {walks} walks", in_words(&measured.whole))),
        }
        let cycles = |task: usize| measured.tasks.get(task).copied().unwrap_or_default();
        let tasks = story.tasks.iter().enumerate();
        let mut tasks: Vec<TracedTask> =
            tasks.map(|(at, task)| TracedTask { task, steps: Vec::new(), cycles: cycles(at) }).collect();
        let mut told = BTreeSet::new();
        for (task, line) in story.lines(self.names) {
            if measured.walks > 0 && told.insert(task) {
                self.say(&format!("{line}  [{}]", in_words(&cycles(task))));
            } else {
                self.say(&line);
            }
            if let Some(task) = tasks.get_mut(task) {
                task.steps.push(line.trim().to_owned());
            }
        }
        let reasons = story.reasons().into_iter().map(|reason| self.reason(reason, &measured)).collect();
        self.traced.stages.push(TracedStage {
            walks: measured.walks,
            cycles: measured.whole,
            tasks,
            reasons,
        });
    }

    fn reason(&mut self, reason: Reason, measured: &Measured) -> TracedReason {
        let Reason { field, bits, why, tasks } = reason;
        let cycles = tasks.iter().filter_map(|task| measured.tasks.get(*task)).map(|of| of.median).sum();
        let line = format!("  {field:<12} {bits:#x}: {why}");
        if !self.reasons.iter().any(|(known, _)| *known == line) {
            let cycles = if measured.walks == 0 { String::new() } else { format!("  [{cycles} cycles]") };
            self.reasons.push((line, cycles));
        }
        TracedReason { field, bits: format!("{bits:#x}"), why, tasks, cycles }
    }

    /// Says what workers measured of a service that the packet meets, behind the words that are said of it.
    pub(super) fn service(&mut self, name: &str, words: &str) {
        let Some(report) = self.report else { return self.say(words) };
        let instances = || report.services.iter().filter(|of| of.name == name).flat_map(|of| &of.instances);
        let packets = instances().map(|of| of.packets).sum();
        let cycles: u64 = instances().map(|of| of.cycles).sum();
        let worst_cycles = instances().map(|of| of.worst_cycles).max().unwrap_or(0);
        match cycles.checked_div(packets) {
            None => self.say(&format!("{words}  [no packet came to it yet]")),
            Some(each) => self.say(&format!(
                "{words}  [workers: {each} cycles a packet, of {packets} packets; {worst_cycles} in the worst burst]"
            )),
        }
        self.traced.services.push(TracedService { name: name.to_owned(), packets, cycles, worst_cycles });
    }

    /// Says why each bit of the megaflow at hand matters; the next one begins.
    pub(super) fn megaflow(&mut self) {
        self.say("bits that matter, and why:");
        for (line, cycles) in std::mem::take(&mut self.reasons) {
            self.say(&format!("{line}{cycles}"));
        }
    }

    /// Ends with what all packets cost the workers.
    pub(super) fn end(mut self) -> Traced {
        self.traced.workers = self.report.map(sum).unwrap_or_default();
        let mut line = String::new();
        for StepReport { step, packets, cycles } in &self.traced.workers {
            if let Some(each) = cycles.checked_div(*packets) {
                let _ = write!(line, "{}{step} {each}", if line.is_empty() { "" } else { ", " });
            }
        }
        if !line.is_empty() {
            self.say(&format!("workers, of all packets so far, cycles a packet by step: {line}"));
        }
        self.traced
    }
}

/// Steps of all workers together.
fn sum(report: &Report) -> Vec<StepReport> {
    let mut out: Vec<StepReport> = Vec::new();
    for step in report.workers.iter().flat_map(|worker| &worker.steps) {
        match out.iter_mut().find(|known| known.step == step.step) {
            Some(known) => {
                (known.packets, known.cycles) = (known.packets + step.packets, known.cycles + step.cycles)
            }
            None => out.push(step.clone()),
        }
    }
    out
}

fn in_words(cycles: &Cycles) -> String {
    format!("{} cycles, first {}", cycles.median, cycles.first)
}
