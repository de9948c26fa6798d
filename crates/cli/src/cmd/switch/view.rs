//! The ledger for people: ports, the sum and whether it comes out, where cycles and losses are.

use crate::cmd::cells::length;
use crate::cmd::layout::{BAD, GOOD, STRONG, paint, table};
use std::collections::BTreeMap;
use weir_switch::Stats;
use weir_switch::stats::counters::{self, Counter, Kind, Section, Unit};
use weir_switch::stats::{InstanceStats, PortReport, ServiceStats, TableReport, WorkerReport};
use weir_units::{Nanos, Pps};

/// Cells that the longest bar has.
const BAR: f64 = 24.0;

/// How counts are shown: as they are, or as rates over so many seconds.
#[derive(Clone, Copy)]
struct Counts {
    seconds: Option<f64>,
}

impl Counts {
    fn show(self, count: u64) -> String {
        match self.seconds {
            None => grouped(count),
            Some(seconds) => Pps(count as f64 / seconds).to_string(),
        }
    }

    /// A counter's number: of packets, of something else, or a state.
    fn of<T>(self, counter: &Counter<T>, count: u64) -> String {
        match (counter.kind, counter.unit) {
            (_, Unit::Bytes) => bytes(count),
            (Kind::Gauge | Kind::Total, _) => grouped(count),
            (Kind::Counter, Unit::Packets | Unit::Lookups) => self.show(count),
            (Kind::Counter, _) => self.show_times(count),
        }
    }

    /// The same of what is no packet.
    fn show_times(self, count: u64) -> String {
        match self.seconds {
            None => grouped(count),
            Some(seconds) => format!("{:.1}/s", count as f64 / seconds),
        }
    }
}

/// Digits in groups of three.
pub(super) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

fn bytes(count: u64) -> String {
    let count = count as f64;
    match count {
        _ if count < 1024.0 => format!("{count} B"),
        _ if count < 1024.0 * 1024.0 => format!("{:.1} KiB", count / 1024.0),
        _ => format!("{:.1} MiB", count / 1024.0 / 1024.0),
    }
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1} %", part as f64 / whole as f64 * 100.0) }
}

fn ratio(cycles: u64, packets: u64) -> String {
    if packets == 0 { "-".to_owned() } else { format!("{:.1}", cycles as f64 / packets as f64) }
}

/// Everything: counted since the start, or as rates since an earlier reading.
pub(super) fn render(now: &Stats, before: Option<&Stats>) -> String {
    let since = before.map_or_else(|| now.clone(), |before| now.since(before));
    let seconds = before.map(|_| (since.uptime_ns as f64 * 1e-9).max(1e-3));
    let counts = Counts { seconds };
    let up = length(Nanos(now.uptime_ns));
    let mut out = format!(
        "{} · up {up} · generation {} of the tables · poll {}\n",
        now.version, now.generation, now.poll
    );
    let mut section = |title: &str, body: String| {
        if !body.is_empty() {
            out.push_str(&format!("\n{}\n{body}", paint(STRONG, title)));
        }
    };
    section("Trouble", trouble(&now.workers));
    section("Ports", ports(&since.ports, counts));
    section("Packets", packets(now, &since, counts));
    section("Drops", drops(&since, counts));
    section("Caches", caches(&since.workers, counts));
    section("Hints", hints(&since, counts));
    section("Cycles per packet, by step", steps(&since.workers));
    section("Services", services(&since.services, counts));
    section("Tables", tables(&since.tables, counts));
    out
}

/// Workers that do not answer.
fn trouble(workers: &[WorkerReport]) -> String {
    let line = |worker: &WorkerReport| {
        let stuck = worker.stuck.as_ref()?;
        let time = length(Nanos(stuck.ns));
        let what = match &stuck.service {
            Some(service) => {
                format!("has been inside of service {service} for {time} and does not come back")
            }
            None => format!("has not answered for {time}, in no service: its core may be taken away"),
        };
        let line = format!("worker {} on core {} {what}", worker.worker, worker.core);
        Some(format!("{}; what it counted is of the time before\n", paint(BAD, &line)))
    };
    workers.iter().filter_map(line).collect()
}

/// Ports, a row each.
fn ports(ports: &[PortReport], counts: Counts) -> String {
    if ports.is_empty() {
        return "none; `weir switch ctl add-port NAME SPEC` adds one\n".to_owned();
    }
    let columns = || counters::PORT.iter().filter(|counter| counter.section == Section::Row);
    let rows: Vec<Vec<String>> = ports
        .iter()
        .map(|port| {
            let link = if port.link_up { "up" } else { "down" };
            let mut row = vec![port.number.to_string(), port.name.clone(), link.to_owned()];
            row.extend(columns().map(|counter| counts.of(counter, (counter.get)(port))));
            row.push(port.spec.clone());
            row
        })
        .collect();
    let faults = ports.iter().filter_map(|port| {
        let done = port.faults.iter().filter(|(_, count)| **count > 0);
        let done: Vec<String> = done.map(|(fault, count)| format!("{fault} {}", grouped(*count))).collect();
        let whose = if weir_switch::apart::is_apart(&port.spec) { "its helpers" } else { "on purpose" };
        (!done.is_empty()).then(|| format!("  {}, {whose}: {}\n", port.name, done.join(" · ")))
    });
    let troubles = ports.iter().filter(|port| !port.trouble.is_empty());
    let troubles =
        troubles.map(|port| format!("  {}: {}\n", port.name, port.trouble.replace('\n', "\n    ")));
    let crowded = ports.iter().filter(|port| port.evicted > 0).map(|port| {
        let (evicted, left) = (counts.show_times(port.evicted), grouped(port.megaflows));
        format!("  {}: {evicted} of its megaflows made room for others; it has {left}\n", port.name)
    });
    let headings: Vec<&str> = ["no", "name", "link"]
        .into_iter()
        .chain(columns().map(|counter| counter.words))
        .chain(["opened by"])
        .collect();
    let right: Vec<usize> = std::iter::once(0).chain(3..headings.len() - 1).collect();
    table(&headings, &right, &rows) + &faults.chain(troubles).chain(crowded).collect::<String>()
}

/// The sum, a column a worker.
fn packets(now: &Stats, since: &Stats, counts: Counts) -> String {
    let workers = &since.workers;
    let mut rows: Vec<Vec<String>> = Vec::new();
    let counted = |counter: &Counter<WorkerReport>, sign: &str, always: bool| {
        let total: u64 = workers.iter().map(counter.get).sum();
        (always || total > 0).then(|| {
            let cells = workers.iter().map(|w| counts.of(counter, (counter.get)(w)));
            row(&format!("{sign} {}", counter.words), cells, counts.of(counter, total))
        })
    };
    for (place, counter) in counters::of(Section::Came).enumerate() {
        rows.extend(counted(counter, if place == 0 { " " } else { "+" }, place == 0));
    }
    for (place, counter) in counters::of(Section::Went).enumerate() {
        let is_state = counter.kind == Kind::Gauge;
        rows.extend(counted(counter, if place == 0 { "=" } else { "+" }, place == 0 || is_state));
        if place == 0 {
            let dropped = workers.iter().map(WorkerReport::dropped);
            let cells = dropped.clone().map(|count| counts.show(count));
            rows.push(row("+ dropped", cells, counts.show(dropped.sum())));
        }
    }
    let right = now.workers.iter().all(WorkerReport::balances);
    let verdict = |worker: &WorkerReport| {
        let off = worker.came() as i128 - worker.went() as i128;
        if off == 0 { "exact".to_owned() } else { format!("off by {off}") }
    };
    rows.push(row(
        "the sum is",
        now.workers.iter().map(verdict),
        if right { "exact" } else { "WRONG" }.to_owned(),
    ));
    let whole = |of: fn(&WorkerReport) -> u64| -> u64 { workers.iter().map(of).sum() };
    let (busy, received, bursts) = (whole(|w| w.busy_cycles), whole(|w| w.received), whole(|w| w.bursts));
    let cycles = workers.iter().map(|w| ratio(w.busy_cycles, w.received));
    rows.push(row("cycles/packet", cycles, ratio(busy, received)));
    rows.push(row(
        "packets/burst",
        workers.iter().map(|w| ratio(w.received, w.bursts)),
        ratio(received, bursts),
    ));
    let ticks = since.uptime_ns as f64 * 1e-9 * now.tsc_hz;
    let load = |cycles: u64, workers: f64| {
        if ticks == 0.0 {
            "-".to_owned()
        } else {
            format!("{:.1} %", cycles as f64 / ticks / workers * 100.0)
        }
    };
    let all = load(busy, workers.len().max(1) as f64);
    rows.push(row("busy", workers.iter().map(|w| load(w.busy_cycles, 1.0)), all));
    waiting(&mut rows, since, counts);
    let text = by_worker(workers, &rows);
    let (colour, word) = if right { (GOOD, "exact") } else { (BAD, "WRONG") };
    text.replacen(&format!(" {word}\n"), &format!(" {}\n", paint(colour, word)), 1)
}

/// How workers that give their cores back waited.
fn waiting(rows: &mut Vec<Vec<String>>, since: &Stats, counts: Counts) {
    let workers = &since.workers;
    let slept =
        |ns: u64, workers: f64| format!("{:.1} %", ns as f64 / since.uptime_ns as f64 / workers * 100.0);
    let total: u64 = workers.iter().map(|w| w.waiting.slept_ns).sum();
    if total > 0 && since.uptime_ns > 0 {
        let all = slept(total, workers.len().max(1) as f64);
        rows.push(row("asleep", workers.iter().map(|w| slept(w.waiting.slept_ns, 1.0)), all));
    }
    // The time is above, as a share of all time.
    rows.extend(happened(
        counters::of(Section::Waiting).filter(|c| c.unit != Unit::Nanoseconds),
        workers,
        counts,
    ));
}

/// Rows of these numbers: of what is counted only what occurred, and every state.
fn happened(
    of: impl Iterator<Item = &'static Counter<WorkerReport>>,
    workers: &[WorkerReport],
    counts: Counts,
) -> Vec<Vec<String>> {
    of.filter_map(|counter| {
        let total: u64 = workers.iter().map(counter.get).sum();
        (counter.kind == Kind::Gauge || total > 0).then(|| {
            let cells = workers.iter().map(|w| counts.of(counter, (counter.get)(w)));
            row(counter.words, cells, counts.of(counter, total))
        })
    })
    .collect()
}

/// These numbers as shares of their sum, below that.
fn shares_of(sum: &str, section: Section, workers: &[WorkerReport], counts: Counts) -> Vec<Vec<String>> {
    let whole = |w: &WorkerReport| -> u64 { counters::of(section).map(|counter| (counter.get)(w)).sum() };
    let all: u64 = workers.iter().map(whole).sum();
    let mut rows = vec![row(sum, workers.iter().map(|w| counts.show(whole(w))), counts.show(all))];
    for counter in counters::of(section) {
        let total = workers.iter().map(counter.get).sum();
        let cells = workers.iter().map(|w| share((counter.get)(w), whole(w)));
        rows.push(row(counter.words, cells, share(total, all)));
    }
    rows
}

fn row(name: &str, cells: impl Iterator<Item = String>, total: String) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(cells).chain([total]).collect()
}

/// Rows with a column a worker and one for all; with one worker, that column is enough.
fn by_worker(workers: &[WorkerReport], rows: &[Vec<String>]) -> String {
    let headings: Vec<String> = std::iter::once(String::new())
        .chain(workers.iter().map(|worker| format!("core {}", worker.core)))
        .chain(["all".to_owned()])
        .collect();
    let one = workers.len() == 1;
    let shown = |cells: &[String]| -> Vec<String> {
        let skip = |place: usize| one && place == 1;
        cells.iter().enumerate().filter(|(place, _)| !skip(*place)).map(|(_, cell)| cell.clone()).collect()
    };
    let mut headings = shown(&headings);
    if let (true, Some(last), Some(worker)) = (one, headings.last_mut(), workers.first()) {
        *last = format!("core {}", worker.core);
    }
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let right: Vec<usize> = (1..headings.len()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| shown(row)).collect();
    table(&headings, &right, &rows)
}

fn drops(since: &Stats, counts: Counts) -> String {
    let came: u64 = since.workers.iter().map(WorkerReport::came).sum();
    let mut drops: Vec<(&str, u64)> = since.drops().into_iter().filter(|(_, packets)| *packets > 0).collect();
    drops.sort_by_key(|(_, packets)| std::cmp::Reverse(*packets));
    if drops.is_empty() {
        return String::new();
    }
    let row = |(reason, packets): &(&str, u64)| {
        let about = weir_switch::drop_reason(reason).unwrap_or_default();
        vec![(*reason).to_owned(), counts.show(*packets), share(*packets, came), about.to_owned()]
    };
    table(&["reason", "packets", "share", "meaning"], &[1, 2], &drops.iter().map(row).collect::<Vec<_>>())
}

fn caches(workers: &[WorkerReport], counts: Counts) -> String {
    let mut rows = shares_of("lookups", Section::Lookups, workers, counts);
    rows.extend(happened(counters::of(Section::Caches), workers, counts));
    by_worker(workers, &rows)
}

/// What the hints of the ports were worth; nothing where no port gives any.
fn hints(since: &Stats, counts: Counts) -> String {
    let Some(tcam) = &since.tcam else { return String::new() };
    let workers = &since.workers;
    let mut rows = shares_of("packets", Section::Hinted, workers, counts);
    // The cycles are below, by packet.
    rows.extend(happened(counters::of(Section::Hints).filter(|c| c.unit != Unit::Cycles), workers, counts));
    let all = workers.iter().map(|w| w.hints.packets()).sum();
    let emulated = workers.iter().map(|w| w.hints.emulated_cycles);
    let each = workers.iter().map(|w| ratio(w.hints.emulated_cycles, w.hints.packets()));
    rows.push(row("cycles of emulation", each, ratio(emulated.sum(), all)));
    let mut out = format!("a table in front of each queue: {tcam}\n");
    for port in since.ports.iter().filter(|port| !port.hints.is_empty()) {
        out.push_str(&format!("  {}: {}\n", port.name, port.hints));
    }
    out + &by_worker(workers, &rows)
}

/// Steps over all workers, with a bar each.
fn steps(workers: &[WorkerReport]) -> String {
    let mut steps: Vec<(&str, u64, u64)> = Vec::new();
    for step in workers.iter().flat_map(|worker| &worker.steps) {
        match steps.iter_mut().find(|(name, ..)| *name == step.step) {
            Some((_, packets, cycles)) => {
                *packets += step.packets;
                *cycles += step.cycles;
            }
            None => steps.push((&step.step, step.packets, step.cycles)),
        }
    }
    steps.retain(|(_, packets, _)| *packets > 0);
    let each = |step: &(&str, u64, u64)| step.2 as f64 / step.1 as f64;
    let most = steps.iter().map(each).fold(0.0, f64::max);
    if most == 0.0 {
        return String::new();
    }
    let row = |step: &(&str, u64, u64)| {
        let bar = "█".repeat((each(step) / most * BAR).round() as usize);
        vec![step.0.to_owned(), ratio(step.2, step.1), bar]
    };
    table(&["step", "cycles", ""], &[1], &steps.iter().map(row).collect::<Vec<_>>())
}

fn services(services: &[ServiceStats], counts: Counts) -> String {
    let called =
        |service: &&ServiceStats| service.instances.iter().any(|i| i.packets > 0 || i.quarantine.is_some());
    let mut notes = String::new();
    let mut rows = Vec::new();
    for service in services.iter().filter(called) {
        let sum = |of: fn(&InstanceStats) -> u64| -> u64 { service.instances.iter().map(of).sum() };
        let worst = service.instances.iter().map(|i| i.worst_cycles).max().unwrap_or(0);
        let quarantine = service.instances.iter().find_map(|i| i.quarantine.as_deref());
        let state = quarantine.map_or_else(|| "well".to_owned(), |why| format!("QUARANTINE ({why})"));
        rows.push(vec![
            service.name.clone(),
            service.kind.clone(),
            counts.show(sum(|i| i.packets)),
            counts.show(sum(|i| i.dropped)),
            share(sum(|i| i.coalesced), sum(|i| i.packets)),
            ratio(sum(|i| i.cycles), sum(|i| i.packets)),
            grouped(worst),
            sum(|i| i.panics).to_string(),
            sum(|i| i.overruns).to_string(),
            bytes(sum(|i| i.memory)),
            state,
        ]);
        if let Some(panic) = service.instances.iter().find_map(|i| i.last_panic.as_deref()) {
            notes.push_str(&format!("  {}: last panic: {}\n", service.name, panic.replace('\n', " ")));
        }
        if quarantine.is_some() {
            notes.push_str(&format!("  let it out: weir switch ctl release {}\n", service.name));
        }
        notes.push_str(&counters(service));
        notes.push_str(&shares(service));
    }
    if rows.is_empty() {
        return String::new();
    }
    let headings = [
        "name",
        "kind",
        "packets",
        "dropped",
        "coalesced",
        "cycles",
        "worst",
        "panics",
        "overruns",
        "state of",
        "it is",
    ];
    table(&headings, &[2, 3, 4, 5, 6, 7, 8, 9], &rows) + &notes
}

/// Shares that are shown of a service.
const SHARES: usize = 8;

/// What a service counts itself, over all workers, zeros left out.
fn counters(service: &ServiceStats) -> String {
    let mut sums: Vec<(&str, u64)> = Vec::new();
    for (name, count) in service.instances.iter().flat_map(|instance| &instance.counters) {
        match sums.iter_mut().find(|(other, _)| other == name) {
            Some((_, sum)) => *sum += count,
            None => sums.push((name, *count)),
        }
    }
    let shown: Vec<String> = sums
        .iter()
        .filter(|(_, sum)| *sum > 0)
        .map(|(name, sum)| format!("{name} {}", grouped(*sum)))
        .collect();
    if shown.is_empty() { String::new() } else { format!("  {}: {}\n", service.name, shown.join(" · ")) }
}

/// Zones and ports that had to make room in a service's tables, over all workers: the greatest few.
fn shares(service: &ServiceStats) -> String {
    let mut sums: BTreeMap<(u16, u32), BTreeMap<&str, u64>> = BTreeMap::new();
    for share in service.instances.iter().flat_map(|instance| &instance.shares) {
        let of = sums.entry((share.zone, share.port)).or_default();
        share.counters.iter().for_each(|(name, count)| *of.entry(name).or_default() += count);
    }
    let mut tight: Vec<_> =
        sums.into_iter().filter(|(_, of)| of.get("evicted").is_some_and(|evicted| *evicted > 0)).collect();
    tight.sort_by_key(|(_, of)| std::cmp::Reverse(of["evicted"]));
    let line = |((zone, port), of): ((u16, u32), BTreeMap<&str, u64>)| {
        let shown: Vec<String> = of.iter().map(|(name, sum)| format!("{name} {}", grouped(*sum))).collect();
        format!("  {}: zone {zone}, port {port}: {}\n", service.name, shown.join(" · "))
    };
    tight.into_iter().take(SHARES).map(line).collect()
}

fn tables(tables: &[TableReport], counts: Counts) -> String {
    if tables.is_empty() {
        return String::new();
    }
    let row = |table: &TableReport| {
        vec![
            table.table.to_string(),
            grouped(table.entries),
            counts.show(table.lookups),
            share(table.matched, table.lookups),
            grouped(table.masks),
            bytes(table.memory),
            table.structure.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = tables.iter().map(row).collect();
    let heads = ["table", "entries", "looked up", "matched", "masks", "memory", "structure"];
    table(&heads, &[0, 1, 2, 3, 4, 5], &rows)
}

/// Ports as they are.
pub(super) fn show(of: &[PortReport]) -> String {
    ports(of, Counts { seconds: None })
}

/// Tables as they are.
pub(super) fn dump_tables(of: &[TableReport]) -> String {
    tables(of, Counts { seconds: None })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use weir_switch::stats::{StepReport, StuckReport};

    pub(in super::super) fn stats() -> Stats {
        let worker = |worker: usize, received: u64| WorkerReport {
            worker,
            core: worker + 2,
            received,
            sent: received - 10,
            dropped: [("no-match".into(), 8)].into(),
            held: 2,
            bursts: received / 20,
            busy_cycles: received * 120,
            steps: vec![
                StepReport { step: "receive".into(), packets: 100, cycles: 1500 },
                StepReport { step: "lookup".into(), packets: 100, cycles: 4500 },
            ],
            ..WorkerReport::default()
        };
        let port = PortReport {
            number: 1,
            name: "left".to_owned(),
            received: 1_234_567,
            link_up: true,
            ..PortReport::default()
        };
        Stats {
            version: "weir 1".to_owned(),
            tsc_hz: 1e9,
            uptime_ns: 2_000_000_000,
            workers: vec![worker(0, 1000), worker(1, 500)],
            ports: vec![port],
            ..Stats::default()
        }
    }

    #[test]
    fn digits_are_grouped_in_threes() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1 000", "1 234 567"]);
    }

    /// Without styles.
    fn plain(stats: &Stats) -> String {
        anstream::adapter::strip_str(&render(stats, None)).to_string()
    }

    #[test]
    fn every_counter_of_a_worker_is_shown_under_its_words() {
        let mut stats = stats();
        stats.tcam = Some("64".to_owned());
        for worker in &mut stats.workers {
            counters::WORKER.iter().for_each(|counter| *(counter.slot)(worker) = 90);
        }
        let text = plain(&stats);
        for counter in counters::WORKER {
            let is_there = |line: &str| {
                let line = line.trim_start_matches(['=', '+', ' ']);
                line.strip_prefix(counter.words).is_some_and(|rest| rest.starts_with("  "))
            };
            assert!(text.lines().any(is_there), "{:?} of {} is not in\n{text}", counter.words, counter.name);
        }
    }

    #[test]
    fn the_sum_is_checked_and_every_loss_explained() {
        let text = plain(&stats());
        for part in [
            "1  left  up    1 234 567",
            "core 2  core 3    all",
            "  received      1 000     500  1 500",
            "the sum is      exact   exact  exact",
            "cycles/packet   120.0   120.0  120.0",
            "no-match       16  1.1 %  No flow entry matches",
            "lookup     45.0  ████████████████████████",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        assert!(
            !text.contains("injected") && !text.contains("Services"),
            "what is not there is left out\n{text}"
        );
        let mut wrong = stats();
        wrong.workers[1].sent -= 3;
        assert!(plain(&wrong).contains("off by 3  WRONG"), "{}", plain(&wrong));
    }

    #[test]
    fn a_worker_that_hangs_and_faults_on_purpose_are_told() {
        let mut stats = stats();
        stats.workers[1].stuck = Some(StuckReport { service: Some("fw".to_owned()), ns: 4_000_000_000 });
        stats.ports[0].faults = [("lost".into(), 1200), ("partial".into(), 0)].into();
        let text = render(&stats, None);
        for part in [
            "worker 1 on core 3 has been inside of service fw for",
            "and does not come back",
            "  left, on purpose: lost 1 200\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }

    #[test]
    fn between_two_readings_counts_are_rates() {
        let before = stats();
        let mut now = stats();
        now.uptime_ns += 500_000_000;
        now.workers[0].received += 1000;
        now.workers[0].sent += 1000;
        now.workers[0].waiting.sleeps += 50;
        (now.ports[0].evicted, now.ports[0].megaflows) = (20, 7);
        let text = render(&now, Some(&before));
        // What is no packet is no rate of packets.
        let sleeps = text.lines().find(|line| line.trim_start().starts_with("sleeps")).unwrap();
        let cells: Vec<&str> = sleeps.split_whitespace().collect();
        assert_eq!(cells, ["sleeps", "100.0/s", "0.0/s", "100.0/s"]);
        assert!(text.contains("left: 40.0/s of its megaflows made room for others; it has 7"), "{text}");
        assert!(text.contains("received     2.000 kpps   0 pps  2.000 kpps"), "{text}");
        assert!(text.contains("exact"), "{text}");
    }

    #[test]
    fn one_worker_needs_one_column() {
        let mut one = stats();
        one.workers.truncate(1);
        let text = render(&one, None);
        assert!(text.contains("core 2\n") && !text.contains("all\n"), "{text}");
    }
}
