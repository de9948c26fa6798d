//! What a person sees while a campaign runs: a row a point, and a line of progress below.
//!
//! Nothing is printed while a trial runs: the watcher is called between trials only, and the
//! progress line has no ticker.

use super::super::cells::{cell, size};
use super::super::layout::Rows;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_campaign::plan::{ASSUMED_OVERHEAD, Plan};
use weir_campaign::{PointOutcome, Tally, Watcher};
use weir_methods::{GoalBounds, Next};
use weir_trial::run::{PointKey, Purpose};
use weir_trial::{Latency, SelfCheck, TrialResult};
use weir_units::{Nanos, Pps};

/// Columns before the results: network function, device, wiring, trace, size.
const COLUMNS: usize = 5;
/// Progress is kept in thousandths of the expected time.
const WHOLE: u64 = 1000;

/// Somebody at a terminal, or a pipe.
pub(super) struct Live {
    quiet: bool,
    bar: ProgressBar,
    points: u32,
    /// Expected time of a point, until some were measured.
    expected: Duration,
    started: Instant,
    done: u32,
    label: String,
    bounds: String,
    /// Latency trials of the point in hand by number, whose percentiles its row shows.
    latencies: BTreeMap<u32, Latency>,
    warnings: Vec<String>,
    /// The table, a row a point.
    rows: Rows,
}

impl Live {
    pub(super) fn new(plan: &Plan, quiet: bool) -> Self {
        let points = plan.expand().len() as u32;
        let estimate = plan.estimate(ASSUMED_OVERHEAD).time.duration();
        let bar = ProgressBar::with_draw_target(Some(WHOLE), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {msg}") {
            bar.set_style(style);
        }
        Self {
            quiet,
            bar,
            points,
            expected: estimate / points.max(1),
            started: Instant::now(),
            done: 0,
            label: String::new(),
            bounds: String::new(),
            latencies: BTreeMap::new(),
            warnings: plan.warnings(),
            rows: columns(plan),
        }
    }

    pub(super) fn begin(&mut self, name: &str, resumed: bool) {
        let what = if resumed { "going on with run" } else { "run" };
        let minutes = (self.expected * self.points).as_secs().div_ceil(60);
        self.say(&format!("{what} {name}: {} points, about {minutes} min", self.points));
        self.say("");
        self.row(["NF", "DUT", "wiring", "trace", "size"], &["results".to_owned()]);
    }

    /// Takes the progress line away.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// What the whole run came to, and where it is; `again` names the run in commands. A reader that has seen enough is no error.
    pub(super) fn summary(&self, tally: &Tally, again: &str, page: &Path, db: &Path) -> std::io::Result<()> {
        let mut text = format!("\n{} in {}\n", super::verdict(tally), Nanos::from(self.started.elapsed()));
        for warning in &self.warnings {
            let _ = writeln!(text, "note: {warning}");
        }
        let _ = writeln!(text, "database  {}\npage      {}\n", db.display(), page.display());
        let _ = if tally.interrupted {
            writeln!(text, "Go on with: weir bench --resume {again}")
        } else {
            writeln!(text, "Next: weir show {again}")
        };
        crate::cmd::print(&text)
    }

    /// A row of the table.
    fn row(&self, cells: [&str; COLUMNS], results: &[String]) {
        self.say(self.rows.row(&cells, results).trim_end());
    }

    /// Lines above the progress line. A reader that has seen enough is no error.
    fn say(&self, line: &str) {
        if !self.quiet {
            self.bar.suspend(|| {
                let _ = crate::cmd::print(&format!("{line}\n"));
            });
        }
    }

    fn show(&self, remaining: Nanos, doing: &str) {
        let left = remaining.duration()
            + self.per_point() * (self.points - self.done.min(self.points)).saturating_sub(1);
        let elapsed = self.started.elapsed();
        let share = elapsed.as_secs_f64() / (elapsed + left).as_secs_f64().max(f64::MIN_POSITIVE);
        self.bar.set_position((share * WHOLE as f64) as u64);
        let (label, bounds) = (&self.label, &self.bounds);
        self.bar.set_message(format!("{label} · {doing}{bounds} · {} s left", left.as_secs()));
    }

    fn per_point(&self) -> Duration {
        if self.done == 0 { self.expected } else { self.started.elapsed() / self.done }
    }
}

impl Watcher for Live {
    fn point(&mut self, number: u32, total: u32, key: &PointKey) {
        self.label = format!("{number}/{total} {} {} {} {}", key.nf, key.device(), key.wiring, size(key));
        self.bounds.clear();
        self.latencies.clear();
        self.show(self.expected.into(), "wiring up");
    }

    fn self_check(&mut self, check: &SelfCheck) {
        let floor = check.floor.as_ref().map_or_else(String::new, |floor| {
            format!(" · floor {} median, {} jitter", floor.percentiles[0], check.jitter().unwrap_or_default())
        });
        let mut lines = vec![format!("tester and wiring alone: {}{floor}", check.ceiling)];
        lines.extend(check.findings.iter().map(|finding| finding.says.clone()));
        self.row(["self-check", "", &check.wiring, "", &check.size], &lines);
    }

    fn waits(&mut self, wiring: &str, told: &str) {
        self.row(["to connect", "", wiring, "", ""], &[told.to_owned()]);
    }

    fn settles(&mut self, why: &str) {
        self.show(self.expected.into(), &format!("waiting for it: {why}"));
    }

    fn next(&mut self, next: &Next) {
        self.show(next.remaining.time, &next.purpose.doing(&next.spec));
    }

    fn trial(&mut self, sequence: u32, purpose: Purpose, result: &TrialResult) {
        if purpose == Purpose::Latency {
            self.latencies.extend(result.latency.clone().map(|latency| (sequence, latency)));
        }
    }

    fn bounds(&mut self, bounds: &GoalBounds<'_>) {
        let show = |bound: Option<Pps>| bound.map_or_else(|| "…".to_owned(), |rate| rate.to_string());
        self.bounds = format!(" · {} in [{}, {}]", bounds.goal, show(bounds.lower), show(bounds.upper));
    }

    fn done(&mut self, key: &PointKey, outcome: &PointOutcome) {
        self.done += 1;
        let (mut cells, remarks) = match outcome {
            PointOutcome::Measured { results, remarks } => {
                let latency = |trial: u32| self.latencies.get(&trial);
                let cells = results.iter().map(|result| cell(key, result, &latency));
                let repeats = super::super::repeats::lines(results);
                (cells.chain(repeats).collect::<Vec<_>>(), remarks.clone())
            }
            PointOutcome::Unsupported(reason) => (vec![format!("not supported: {reason}")], Vec::new()),
            PointOutcome::Failed(reason) => (vec![format!("FAILED: {reason}")], Vec::new()),
        };
        cells.extend(remarks);
        let about = [&key.nf.to_string(), &key.device(), &key.wiring, short(&key.trace), &size(key)];
        self.row(about, &cells);
    }
}

/// The columns before the results, as wide as the plan's names.
fn columns(plan: &Plan) -> Rows {
    let widest = |names: Vec<String>, heading: &str| {
        names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(heading.len()) as u16
    };
    let traces = plan.traces.iter().map(|trace| short(&trace.to_string()).to_owned());
    let sizes = plan.sizes.iter().map(|size| format!("{size} B"));
    let widths = vec![
        widest(plan.nfs.iter().map(ToString::to_string).collect(), "self-check"),
        widest(plan.expand().iter().map(|point| point.placement.of(&point.dut)).collect(), "DUT"),
        widest(
            plan.wirings.iter().map(ToString::to_string).chain(["simulated".to_owned()]).collect(),
            "wiring",
        ),
        widest(traces.collect(), "trace"),
        widest(sizes.collect(), "size"),
    ];
    Rows::new(widths, &[COLUMNS - 1])
}

/// The end of a long name: the file of a path.
fn short(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}
