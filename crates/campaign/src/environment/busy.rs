//! Who else is at work. CPU time of every process, read twice; the kernel counts it in ticks of
//! 10 ms, so a sample of 100 ms tells shares to 10 %.

use super::facts::Facts;
use super::source::Source;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Ticks a second in `/proc` (`USER_HZ`; 100 on x86-64).
const TICKS: f64 = 100.0;
/// How many are named among the facts.
const NAMED: usize = 5;
/// Share of a core from which a process is named.
const WORTH_NAMING: f64 = 0.1;

/// Another process at work.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbour {
    /// Its number.
    pub process: usize,
    /// Its name, as the kernel keeps it.
    pub name: String,
    /// Share of one core: 1.0 is a whole core.
    pub share: f64,
    /// Whether it is a thread of the kernel's, which nobody can halt.
    pub kernel: bool,
}

/// Samples this machine for a while. Busiest first; this process is left out.
pub fn neighbours(during: Duration) -> Vec<Neighbour> {
    Watch::begin(&Source::here()).end(&Source::here(), during)
}

/// A sample that has begun: what is done meanwhile is not waited for again.
pub(super) struct Watch {
    began: Instant,
    before: Usage,
}

impl Watch {
    pub(super) fn begin(source: &Source) -> Self {
        Self { began: Instant::now(), before: ticks(source) }
    }

    /// Ends it when it has lasted so long.
    fn end(self, source: &Source, during: Duration) -> Vec<Neighbour> {
        std::thread::sleep(during.saturating_sub(self.began.elapsed()));
        let after = ticks(source);
        compare(&self.before, &after, self.began.elapsed())
    }
}

type Usage = BTreeMap<usize, Process>;

struct Process {
    name: String,
    ticks: u64,
    kernel: bool,
}

/// The parent of the kernel's threads.
const KTHREADD: &str = "2";

fn compare(before: &Usage, after: &Usage, elapsed: Duration) -> Vec<Neighbour> {
    let mut busy: Vec<Neighbour> = after
        .iter()
        .filter(|(process, _)| **process != std::process::id() as usize)
        .filter_map(|(&process, now)| {
            // A process that began meanwhile has all its ticks from meanwhile.
            let used = now.ticks.saturating_sub(before.get(&process).map_or(0, |then| then.ticks));
            let share = used as f64 / TICKS / elapsed.as_secs_f64();
            (used > 0).then(|| Neighbour { process, name: now.name.clone(), share, kernel: now.kernel })
        })
        .collect();
    busy.sort_by(|a, b| b.share.total_cmp(&a.share));
    busy
}

/// User and system ticks of every process (`proc_pid_stat(5)`, fields 14 and 15; its parent is field 4).
fn ticks(source: &Source) -> Usage {
    let read = |process: usize| {
        let stat = source.read(&format!("proc/{process}/stat"))?;
        // The name stands in brackets and may hold anything, brackets too.
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let kernel = fields.nth(1)? == KTHREADD;
        let mut fields = fields.skip(9);
        let user: u64 = fields.next()?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        Some((process, Process { name: name.to_owned(), ticks: user + system, kernel }))
    };
    source.numbered("proc", "").into_iter().filter_map(read).collect()
}

/// `watch` is one of this machine; there is none of another.
pub(super) fn read(source: &Source, watch: Option<Watch>, during: Duration, facts: &mut Facts) {
    facts.put("load.average", source.read("proc/loadavg"));
    let Some(watch) = watch else { return };
    let busy = watch.end(source, during);
    let named: Vec<String> = busy
        .iter()
        .filter(|neighbour| neighbour.share >= WORTH_NAMING)
        .take(NAMED)
        .map(|neighbour| format!("{} {:.0} %", neighbour.name, 100.0 * neighbour.share))
        .collect();
    facts.put("load.busiest", Some(if named.is_empty() { "none".to_owned() } else { named.join(", ") }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_ticks_of_the_time_between_and_the_busiest_comes_first() {
        let usage = |list: &[(usize, &str, u64)]| -> Usage {
            list.iter()
                .map(|&(process, name, ticks)| {
                    (process, Process { name: name.to_owned(), ticks, kernel: false })
                })
                .collect()
        };
        let own = std::process::id() as usize;
        let before = usage(&[(1, "idle", 5), (7, "half", 100), (own, "me", 0)]);
        let after = usage(&[(1, "idle", 5), (7, "half", 150), (9, "new", 100), (own, "me", 100)]);
        let found = compare(&before, &after, Duration::from_secs(1));
        let told: Vec<(&str, f64)> = found.iter().map(|n| (n.name.as_str(), n.share)).collect();
        assert_eq!(told, [("new", 1.0), ("half", 0.5)]);
    }

    #[test]
    fn a_busy_child_is_seen() {
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let began = Instant::now();
        // It is seen by the ticks of 10 ms that it had, and has them when the system lets it.
        let seen = loop {
            let seen = neighbours(Duration::from_millis(400));
            let child = seen.iter().find(|other| other.process == child.id() as usize).cloned();
            if child.is_some() || began.elapsed() > Duration::from_secs(20) {
                break child;
            }
        };
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen.as_ref().is_some_and(|seen| seen.name == "sh" && seen.share > 0.0), "{seen:?}");
    }
}
