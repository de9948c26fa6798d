//! The ledger as a report, flow entries with their counters, and what is due by the clock.

use crate::control::datapath::Datapath;
use crate::control::tables::{Draft, groups_of, meters_of};
use crate::model::entries::Entry;
use crate::model::requests::{ControlError, Event, FlowStats, FlowSum, Removal};
use crate::stats::report::{PortReport, Report, ServiceReport, StuckReport, TableReport, WorkerReport};
use crate::worker::command::{Command, Snapshot};
use crate::worker::thread::PATIENCE;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use weir_dpdk::MarkError;
use weir_openflow::{Flow, GroupStats, MeterStats, Select};
use weir_units::Nanos;

/// What a worker told, and where it is if it told that earlier.
pub(super) type Told = (Snapshot, Option<StuckReport>);

impl Datapath {
    /// The ledger, as of now. Of a worker that does not answer it says where that is, and what it told
    /// last.
    ///
    /// # Errors
    /// A worker that has ended.
    pub fn report(&mut self) -> Result<Report, ControlError> {
        let told = self.told(Command::Sync)?;
        Ok(self.with_tables(&told))
    }

    /// The same without its tables, whose counts are those of all megaflows: so it comes at once, whatever their
    /// number.
    ///
    /// # Errors
    /// A worker that has ended.
    pub fn report_without_tables(&mut self) -> Result<Report, ControlError> {
        let told = self.told(Command::Tell)?;
        Ok(self.report_of(&told))
    }

    /// What each worker tells, or told last and where it is instead.
    fn told(&mut self, question: fn(Sender<Snapshot>) -> Command) -> Result<Vec<Told>, ControlError> {
        let asked: Vec<_> = self
            .workers
            .iter()
            .map(|worker| {
                // The queue of one that takes no commands would only fill.
                (!self.hangs(worker)).then(|| {
                    let (answer, answers) = channel();
                    worker.send(question(answer));
                    answers
                })
            })
            .collect();
        let mut told = Vec::with_capacity(asked.len());
        for ((answers, worker), last) in asked.into_iter().zip(&self.workers).zip(&mut self.last) {
            match answers.map(|answers| answers.recv_timeout(PATIENCE)) {
                Some(Ok(snapshot)) => {
                    last.clone_from(&snapshot);
                    told.push((snapshot, None));
                }
                Some(Err(RecvTimeoutError::Disconnected)) => return Err(worker.ended()),
                Some(Err(RecvTimeoutError::Timeout)) | None => {
                    let inside = worker.inside(self.clock);
                    let time = inside.map_or(PATIENCE, |(_, time)| time.max(PATIENCE));
                    let service = inside.map(|(service, _)| service.to_owned());
                    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                    told.push((last.clone(), Some(StuckReport { service, ns })));
                }
            }
        }
        Ok(told)
    }

    /// The ledger with its tables, of what workers told behind a flush.
    pub(super) fn with_tables(&self, told: &[Told]) -> Report {
        Report { tables: self.table_reports(), ..self.report_of(told) }
    }

    /// The same without its tables, which it does not look at: it takes the same time whatever is in them.
    pub(super) fn report_of(&self, told: &[Told]) -> Report {
        let workers = told.iter().zip(&self.workers).map(|((snapshot, stuck), worker)| {
            let counters = &snapshot.counters;
            WorkerReport {
                worker: worker.number,
                core: worker.core,
                thread: worker.thread,
                received: counters.received,
                injected: counters.injected,
                copied: counters.copied,
                sent: counters.sent,
                dropped: counters.drops().map(|(reason, packets)| (reason.into(), packets)).collect(),
                to_controller: counters.to_controller,
                handed_over: counters.handed_over,
                taken_over: counters.taken_over,
                // A worker answers between two bursts, when its hands are empty.
                held: 0,
                bursts: counters.bursts,
                busy_cycles: counters.busy_cycles,
                steps: counters.steps(),
                caches: counters.caches.clone(),
                stuck: stuck.clone(),
                waiting: counters.waiting.clone(),
                hints: counters.hints.clone(),
            }
        });
        let services = self.services.iter().map(|(number, known)| ServiceReport {
            name: known.name.clone(),
            kind: known.kind,
            instances: told
                .iter()
                .filter_map(|(one, _)| one.services.get(usize::from(*number) - 1)?.clone())
                .collect(),
        });
        Report {
            uptime_ns: self.now().0,
            generation: self.pipeline.generation,
            poll: self.config.poll,
            tcam: self.config.tcam,
            workers: workers.collect(),
            ports: self.port_reports(told),
            services: services.collect(),
            tables: Vec::new(),
        }
    }

    fn port_reports(&self, told: &[Told]) -> Vec<PortReport> {
        let of = |(number, held): (weir_openflow::PortNo, &crate::control::ports::Held)| {
            let mut report = PortReport {
                number: number.0,
                name: held.spec.name.clone(),
                spec: held.spec.spec.clone(),
                link_up: held.open.link_up(),
                missed: held.open.stats().missed,
                faults: held.open.faults().into_iter().map(|(fault, count)| (fault.into(), count)).collect(),
                trouble: held.open.trouble().unwrap_or_default(),
                hints: match &held.marks {
                    None => String::new(),
                    Some(Ok(())) => "flow rules".to_owned(),
                    Some(Err(error)) => format!("emulated: {}", error.reason),
                },
                ..PortReport::default()
            };
            let counts = told.iter().filter_map(|(one, _)| one.counters.ports.get(usize::from(held.place)));
            for counts in counts {
                report.received += counts.received;
                report.received_bytes += counts.received_bytes;
                report.sent += counts.sent;
                report.sent_bytes += counts.sent_bytes;
                report.send_dropped += counts.send_dropped;
                report.megaflows += counts.megaflows;
                report.evicted += counts.evicted;
            }
            report
        };
        self.ports.iter().map(of).collect()
    }

    fn table_reports(&self) -> Vec<TableReport> {
        #[cfg(test)]
        tests::TABLES_READ.set(tests::TABLES_READ.get() + 1);
        let tables = self.pipeline.tables.iter().zip(self.pipeline.table_counts.iter()).zip(0..);
        tables
            .map(|((table, counts), number)| TableReport {
                table: number,
                entries: table.len() as u64,
                lookups: counts.lookups.load(Relaxed),
                matched: counts.matched.load(Relaxed),
                structure: if table.is_empty() { String::new() } else { table.structure() },
                masks: table.masks() as u64,
                memory: if table.is_empty() { 0 } else { table.memory() as u64 },
            })
            .filter(|report| report.entries > 0 || report.lookups > 0)
            .collect()
    }

    /// The flow entries with their counters, exact as of now, by table and falling priority.
    ///
    /// # Errors
    /// A worker that does not answer.
    pub fn flows(&mut self) -> Result<Vec<FlowStats>, ControlError> {
        self.flows_of(&Select::default())
    }

    /// The same of those that are meant.
    ///
    /// # Errors
    /// A worker that does not answer.
    pub fn flows_of(&mut self, select: &Select) -> Result<Vec<FlowStats>, ControlError> {
        self.ask(Command::Sync)?;
        let now = self.now();
        let mut flows: Vec<FlowStats> = self.meant(select).map(|entry| stats(entry, now)).collect();
        flows.sort_by_key(|stats| (stats.flow.table, std::cmp::Reverse(stats.flow.priority)));
        Ok(flows)
    }

    /// The entries that are meant, and what they counted, together.
    ///
    /// # Errors
    /// A worker that does not answer.
    pub fn sum_of(&mut self, select: &Select) -> Result<FlowSum, ControlError> {
        self.ask(Command::Sync)?;
        Ok(self.meant(select).fold(FlowSum::default(), |sum, entry| {
            let (packets, bytes) = entry.counts().read();
            FlowSum { flows: sum.flows + 1, packets: sum.packets + packets, bytes: sum.bytes + bytes }
        }))
    }

    fn meant(&self, select: &Select) -> impl Iterator<Item = &Arc<Entry>> {
        let all = self.pipeline.tables.iter_used().flat_map(|table| table.iter());
        all.map(|rule| &rule.value).filter(|entry| select.is_meant(&entry.flow))
    }

    /// The groups with their counters, exact as of now.
    ///
    /// # Errors
    /// A worker that does not answer.
    pub fn groups(&mut self) -> Result<Vec<GroupStats>, ControlError> {
        self.ask(Command::Sync)?;
        let (now, uses) = (self.now(), uses(self.pipeline.flows(), groups_of));
        let of = |entry: &Arc<crate::model::entries::GroupEntry>| {
            let (packets, bytes) = entry.counts.read();
            let buckets = entry.buckets.iter().map(|bucket| bucket.read()).collect();
            let flows = uses.get(&entry.group.id).copied().unwrap_or(0);
            let age = since(now, entry.created);
            GroupStats { group: entry.group.clone(), packets, bytes, buckets, age, flows }
        };
        Ok(self.pipeline.groups.values().map(of).collect())
    }

    /// The meters with their counters.
    pub fn meters(&self) -> Vec<MeterStats> {
        let (now, uses) = (self.now(), uses(self.pipeline.flows(), meters_of));
        let of = |entry: &Arc<crate::model::entries::MeterEntry>| MeterStats {
            meter: entry.meter.clone(),
            packets: entry.state.packets.load(Relaxed),
            bytes: entry.state.bytes.load(Relaxed),
            bands: entry.state.bands(),
            age: since(now, entry.created),
            flows: uses.get(&entry.meter.id).copied().unwrap_or(0),
        };
        self.pipeline.meters.values().map(of).collect()
    }

    /// Does what is due (timeouts, links), and returns what happened since the last call. To be called
    /// several times a second.
    ///
    /// # Errors
    /// A worker that does not answer.
    pub fn tick(&mut self) -> Result<Vec<Event>, ControlError> {
        if let Some(worker) = self.workers.iter().find(|worker| self.hangs(worker)) {
            return Err(worker.silent());
        }
        let changed = self.ports.look();
        if !changed.is_empty() {
            self.ports_changed()?;
            self.events.extend(changed.into_iter().map(|(port, up)| Event::Link(port, up)));
        }
        if self.taps.iter().any(|tap| tap.is_abandoned()) {
            self.tell_taps();
        }
        let Self { installer, ports, .. } = self;
        installer.work(|place, spec, mask, mark| match ports.at(place) {
            Some(held) => held.open.mark_rule(spec, mask, mark),
            None => Err(MarkError { port: format!("at place {place}"), reason: "it was closed".to_owned() }),
        });
        self.expire()?;
        self.learn()?;
        self.age_addresses()?;
        self.settle()?;
        self.watch_services()?;
        self.events.extend(self.punts.take_all().map(Event::PacketIn));
        Ok(std::mem::take(&mut self.events))
    }

    /// Removes the entries whose time is over.
    fn expire(&mut self) -> Result<(), ControlError> {
        if !self.expiry.is_due(self.now()) {
            return Ok(());
        }
        self.ask(Command::Sync)?;
        let now = self.now();
        let over = self.expiry.over(now, |entry| self.pipeline.holds(entry));
        if over.is_empty() {
            return Ok(());
        }
        let mut draft = Draft::new((*self.pipeline).clone(), now);
        for (entry, _) in &over {
            draft.remove(entry);
        }
        let Draft { pipeline: mut next, touched, .. } = draft;
        next.advance(touched);
        self.publish(next)?;
        self.tell_removed(over);
        Ok(())
    }

    /// Tells which entries went, and what they counted to the last.
    pub(super) fn tell_removed(&mut self, removed: Vec<(Arc<Entry>, Removal)>) {
        if removed.is_empty() {
            return;
        }
        // What came between the look and the removal counts too. They are gone already, so a worker that
        // does not answer only makes this less exact.
        let _ = self.ask(Command::Sync);
        let now = self.now();
        let told = removed.into_iter().map(|(entry, why)| Event::FlowRemoved(stats(&entry, now), why));
        self.events.extend(told);
    }

    fn watch_services(&mut self) -> Result<(), ControlError> {
        for (worker, (snapshot, _)) in self.told(Command::Tell)?.iter().enumerate() {
            for (number, report) in (1..).zip(&snapshot.services) {
                let Some(why) = report.as_ref().and_then(|report| report.quarantine) else { continue };
                if self.quarantined.insert((worker, number)) {
                    let name = self.names.service_name(number).unwrap_or_default().to_owned();
                    self.events.push(Event::Quarantined(name, format!("worker {worker}: {why:?}")));
                }
            }
        }
        Ok(())
    }
}

fn stats(entry: &Entry, now: Nanos) -> FlowStats {
    let (packets, bytes) = entry.counts().read();
    FlowStats {
        flow: entry.flow.clone(),
        packets,
        bytes,
        age: since(now, entry.created()),
        idle: since(now, entry.used()),
    }
}

/// By how many flow entries each group or meter is used.
fn uses<'a, T: Ord>(
    flows: impl Iterator<Item = &'a Flow>,
    of: impl Fn(&Flow) -> BTreeSet<T>,
) -> BTreeMap<T, usize> {
    let mut uses = BTreeMap::new();
    for used in flows.flat_map(of) {
        *uses.entry(used).or_default() += 1;
    }
    uses
}

fn since(now: Nanos, then: Nanos) -> Duration {
    Duration::from_nanos(now.0.saturating_sub(then.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::poll::PollMode;
    use crate::model::requests::{Change, Config};
    use std::cell::Cell;
    use weir_dpdk::{Eal, EalConfig, Memory};
    use weir_openflow::{Tables as _, parse_flows};
    use weir_units::FrameSize;

    thread_local! {
        /// How often this thread asked tables what they are like.
        pub(super) static TABLES_READ: Cell<u64> = const { Cell::new(0) };
    }

    #[test]
    fn only_who_asks_for_tables_has_them_looked_at() {
        let config = Config {
            cores: weir_cpu::allowed_cores().into_iter().take(1).collect(),
            buffers: 2048,
            max_frame: FrameSize::new(1522).unwrap(),
            room: Config::ROOM,
            services: BTreeMap::new(),
            coalescing: true,
            poll: PollMode::Yield,
            tcam: None,
            selection: crate::model::selection::Selection::Flow,
            experiment: crate::model::experiment::Experiment::default(),
            upcalls: Config::UPCALLS,
            seed: 1,
        };
        let memory = EalConfig { memory: Memory::Normal, megabytes: 512, pci: false };
        let mut datapath = Datapath::start(Eal::init(memory).unwrap(), config).unwrap();
        let flows = parse_flows("ip,actions=drop\ntable=3,actions=drop", datapath.names()).unwrap();
        datapath.apply(&flows.into_iter().map(Change::Flow).collect::<Vec<_>>()).unwrap();
        let looks = |datapath: &mut Datapath, ask: &dyn Fn(&mut Datapath) -> usize| {
            let before = TABLES_READ.get();
            let tables = ask(datapath);
            (TABLES_READ.get() - before, tables)
        };
        let asked = looks(&mut datapath, &|it| it.report().unwrap().tables.len());
        assert_eq!(asked, (1, 2));
        let asked = looks(&mut datapath, &|it| it.report_without_tables().unwrap().tables.len());
        assert_eq!(asked, (0, 0));
        assert_eq!(looks(&mut datapath, &|it| it.last_report().tables.len()), (0, 0));
        assert_eq!(
            looks(&mut datapath, &|it| it.port_counts().unwrap().len()),
            (0, 0),
            "a controller's question"
        );
        datapath.stop().unwrap();
    }
}
