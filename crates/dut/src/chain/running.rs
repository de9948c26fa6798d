//! A chain or a graph at work: its processes, counted and stopped as one device.

use super::graph;
use super::paths::Places;
use super::stages::{self, Counted};
use crate::folder::Folder;
use crate::process::Process;
use crate::{Counters, DutError, RunningDut};
use std::time::{Duration, Instant};
use weir_trial::{Conduct, StageReading};
use weir_units::Nanos;

/// How much later than those that it takes along a killed process may be found dead: the kernel closes its connections
/// first, and then takes its memory apart.
const LATE: Duration = Duration::from_millis(300);
/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// One process of a chain.
pub(super) struct Member {
    pub(super) dut: Box<dyn RunningDut>,
    /// `nf 2 l3fwd:10`, or the host's name.
    pub(super) name: String,
    pub(super) is_host: bool,
    /// Whether it goes on while the others end, and answers those that take leave of its ports.
    pub(super) answers: bool,
    /// Where its files lie; it goes after the process.
    pub(super) folder: Option<Folder>,
}

pub(super) struct Running {
    /// The host first, then the functions from the chain's port 0 on, copy by copy.
    pub(super) members: Vec<Member>,
    rows: Rows,
    /// Processes that stand around the functions: nobody's children.
    pub(super) wrapped: bool,
    /// How long the end of a killed process is waited for.
    late: Duration,
    description: String,
}

/// How the processes stand behind one another.
pub(super) enum Rows {
    /// As a chain.
    Chain(Places),
    /// As a graph: the devices that each of the tester's pairs of ports leads through.
    Graph(Vec<Vec<graph::Passage>>),
}

impl Rows {
    fn stages(&self, processes: &[Counted<'_>]) -> Vec<StageReading> {
        match self {
            Self::Chain(places) => stages::stages(processes, *places),
            Self::Graph(rows) => graph::stages(processes, rows),
        }
    }
}

impl Running {
    /// Nobody yet.
    pub(super) fn new(rows: Rows, wrapped: bool) -> Self {
        Self { members: Vec::new(), rows, wrapped, late: LATE, description: String::new() }
    }

    /// All of them, started: with what each says of itself.
    pub(super) fn described(mut self) -> Box<dyn RunningDut> {
        let each = self.members.iter().map(|one| format!("{}: {}", one.name, one.dut.description()));
        self.description = each.collect::<Vec<_>>().join(" | ");
        Box::new(self)
    }

    /// Why something failed: where a wait for one process was given up, or it ended with an error, and another had
    /// ended before or was killed, that one's end. A process that was killed is its own cause.
    pub(super) fn cause(&mut self, error: DutError) -> DutError {
        if error.is_kill() { error } else { self.killed_soon().or_else(|| self.end()).unwrap_or(error) }
    }

    /// The end that explains those of all others: of one that was killed, or else of the first to end. One that dies takes
    /// others along, which may be found dead before it.
    fn end(&mut self) -> Option<DutError> {
        let at = |member: &Member| member.dut.processes().into_iter().filter_map(Process::ended_at).min();
        let mut ends = Vec::new();
        for member in &mut self.members {
            let Some(at) = at(member) else { continue };
            let Some(error) = member.dut.ended() else { continue };
            ends.push((!error.is_kill(), at, error.within(member.name.clone())));
        }
        ends.into_iter().min_by_key(|(is_own, at, _)| (*is_own, *at)).map(|(.., error)| error)
    }

    /// The end of one that was killed, if that is seen before long.
    fn killed_soon(&mut self) -> Option<DutError> {
        let until = Instant::now() + self.late;
        loop {
            if let Some(end) = self.end().filter(DutError::is_kill) {
                return Some(end);
            }
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl RunningDut for Running {
    fn description(&self) -> String {
        self.description.clone()
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let read =
            |member: &mut Member| member.dut.counters().map_err(|error| error.within(member.name.clone()));
        let counters: Result<Vec<Counters>, _> = self.members.iter_mut().map(read).collect();
        let counters = counters.map_err(|error| self.cause(error))?;
        let counted: Vec<Counted<'_>> = self
            .members
            .iter()
            .zip(&counters)
            .map(|(member, counters)| Counted { name: &member.name, is_host: member.is_host, counters })
            .collect();
        let stages = self.rows.stages(&counted);
        let Some(reading) = counters.first() else {
            return Err(DutError::Interrupted { dut: "chain" });
        };
        let (mut received, mut sent) = (0, 0);
        for bundle in stages.chunk_by(|one, next| one.bundle == next.bundle) {
            let (Some(first), Some(last)) = (bundle.first(), bundle.last()) else { continue };
            received += first.received[0] + last.received[1];
            sent += last.sent[0] + first.sent[1];
        }
        let cpu = Nanos(counters.iter().map(|one| one.cpu.0).sum());
        let mut whole = Counters::new(received, sent, cpu, reading.at);
        for (member, one) in self.members.iter().zip(&counters) {
            let named = |(name, count): (&String, &u64)| (format!("{}: {name}", member.name), *count);
            whole.details.extend(one.details.iter().map(named));
            whole.states.extend(one.states.iter().map(named));
        }
        Ok(Counters { stages, ..whole })
    }

    fn tap(&mut self, key: &str) -> Result<bool, DutError> {
        let mut tapped = false;
        for member in &mut self.members {
            match member.dut.tap(key).map_err(|error| error.within(member.name.clone())) {
                Ok(one) => tapped |= one,
                Err(error) => return Err(self.cause(error)),
            }
        }
        Ok(tapped)
    }

    fn threads(&self) -> Vec<(u32, u32)> {
        self.members.iter().flat_map(|member| member.dut.threads()).collect()
    }

    fn conduct(&self) -> Conduct {
        let all = self.members.iter().map(|member| member.dut.conduct());
        let sum = all.reduce(|sum, one| sum + one).unwrap_or_default();
        let wrapped =
            if self.wrapped { self.members.iter().filter(|one| !one.is_host).count() as u32 } else { 0 };
        Conduct { children: sum.children.saturating_sub(wrapped), ..sum }
    }

    fn processes(&self) -> Vec<&Process> {
        self.members.iter().flat_map(|member| member.dut.processes()).collect()
    }

    fn texts(&self) -> Vec<(String, String)> {
        let of = |member: &Member| {
            let texts = member.folder.as_ref().map(Folder::texts).unwrap_or_default();
            let name = member.name.clone();
            texts.into_iter().map(move |(file, text)| (format!("{name}: {file}"), text))
        };
        self.members.iter().flat_map(of).collect()
    }

    fn ended(&mut self) -> Option<DutError> {
        let end = self.end()?;
        Some(self.cause(end))
    }

    fn stop(mut self: Box<Self>) -> Result<(), DutError> {
        // Nobody is to poll what its neighbour takes away; but a function takes leave of its host's ports, which answers.
        self.processes().into_iter().for_each(Process::pause);
        let answering = self.members.iter().filter(|member| member.answers);
        answering.flat_map(|member| member.dut.processes()).for_each(Process::resume);
        let mut ends = Ok(());
        while let Some(member) = self.members.pop() {
            let stopped = member.dut.stop();
            ends = ends.and(stopped);
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// A shell at work.
    struct Shell(Process);

    impl RunningDut for Shell {
        fn description(&self) -> String {
            self.0.command().to_owned()
        }

        fn counters(&mut self) -> Result<Counters, DutError> {
            Ok(Counters::new(0, 0, Nanos(0), Instant::now()))
        }

        fn threads(&self) -> Vec<(u32, u32)> {
            Vec::new()
        }

        fn processes(&self) -> Vec<&Process> {
            vec![&self.0]
        }

        fn ended(&mut self) -> Option<DutError> {
            self.0.ended()
        }

        fn stop(self: Box<Self>) -> Result<(), DutError> {
            self.0.stop(&[]);
            Ok(())
        }
    }

    fn chain(scripts: &[&str]) -> Running {
        let mut running =
            Running::new(Rows::Chain(Places { functions: 1, copies: 1, pairs: 1, bundles: 1 }), false);
        for (place, script) in scripts.iter().enumerate() {
            let alarm = Arc::new(AtomicBool::new(false));
            let process = Process::start("nf", OsStr::new("sh"), &["-c", script], alarm).unwrap();
            let dut = Box::new(Shell(process));
            let name = format!("nf {place}");
            running.members.push(Member { dut, name, is_host: false, answers: false, folder: None });
        }
        running
    }

    /// What such a chain says of its end, once a member has one.
    fn told(running: &mut Running) -> String {
        let begin = Instant::now();
        loop {
            if let Some(end) = running.ended() {
                return end.to_string();
            }
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
    }

    #[test]
    fn one_that_is_killed_is_the_cause_also_where_its_end_is_seen_after_that_of_another() {
        // However late a shell on a busy machine comes to its end.
        let patient = |scripts| Running { late: Duration::from_secs(20), ..chain(scripts) };
        let error = told(&mut patient(&["exec sleep 1000", "exit 3", "sleep 0.1; kill -9 $$"]));
        assert!(error.contains("nf 2") && error.contains("signal: 9"), "{error}");
        // One whose connection with it broke while it was started is not among them yet.
        let broke = DutError::Interrupted { dut: "nf" };
        let error = patient(&["sleep 0.1; kill -9 $$"]).cause(broke).to_string();
        assert!(error.contains("nf 0") && error.contains("signal: 9"), "{error}");
    }

    #[test]
    fn where_none_was_killed_the_first_to_end_is_the_cause_or_what_failed() {
        let error = told(&mut chain(&["exec sleep 1000", "exit 3", "exec sleep 1000"]));
        assert!(error.contains("nf 1") && error.contains("exit status: 3"), "{error}");
        let broke = DutError::Interrupted { dut: "nf" };
        assert!(matches!(chain(&["exec sleep 1000"]).cause(broke), DutError::Interrupted { .. }));
    }
}
