//! The rows' runs: each plan in a `weir bench` of its own, each service in a `weir switch bench`.
//!
//! DPDK takes its memory once a process, and what a row leaves behind must not reach the next one.

use super::super::store_error;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weir_campaign::Cores;
use weir_campaign::perf::{Effort, Measured, PlannedRun, Row, judge, judge_service};
use weir_campaign::plan::HugePages;
use weir_store::{Selector, Store};
use weir_trial::run::Run;

/// What all rows have in common.
pub(super) struct Runs<'a> {
    pub(super) db: &'a Path,
    /// For plans, and what is kept of them.
    pub(super) folder: &'a Path,
    pub(super) name: &'a str,
    pub(super) effort: Effort,
    pub(super) huge_pages: HugePages,
    pub(super) base: Option<&'a str>,
    /// The peers that are wanted; all where none is named.
    pub(super) peers: &'a [String],
}

/// What `weir switch bench --json` prints, as far as it is needed.
#[derive(Deserialize)]
struct Benched {
    payload: u16,
    tsc_hz: f64,
    #[serde(default)]
    dropped: u64,
    cycles: Vec<f64>,
}

impl Runs<'_> {
    /// Measures a row; what keeps it from being measured becomes a remark of it.
    pub(super) fn measure(&self, row: &Row) -> anyhow::Result<Measured> {
        if let Some(why) = row.obstacle(self.huge_pages) {
            return Ok(Measured::unavailable(row, why));
        }
        if let Some(arguments) = row.service().filter(|_| self.base.is_none()) {
            return self.service(row, &arguments);
        }
        let plans = row.plans(self.effort, self.huge_pages, self.base);
        if plans.is_empty() {
            return Ok(Measured::unavailable(row, "it compares no two builds"));
        }
        let wanted: Vec<String> = self.peers.iter().map(|peer| format!("{}.{peer}", row.id)).collect();
        let plans = plans.into_iter().filter(|plan| wanted.is_empty() || wanted.contains(&plan.suffix));
        let mut plans = plans.peekable();
        if plans.peek().is_none() {
            return Ok(Measured::unavailable(row, "none of its peers is among --peers"));
        }
        let mut runs = Vec::new();
        let mut failures = Vec::new();
        for plan in plans {
            match self.bench(&plan)? {
                Ok(run) => runs.push(run),
                Err(why) => failures.push(why),
            }
        }
        let mut measured = judge(row, &runs);
        measured.remarks.extend(failures);
        Ok(measured)
    }

    /// Runs one plan to its end, and loads what it stored.
    pub(super) fn bench(&self, plan: &PlannedRun) -> anyhow::Result<Result<Run, String>> {
        let name = format!("{}.{}", self.name, plan.suffix.replace(':', "-"));
        let file = self.folder.join(format!("{name}.toml"));
        std::fs::write(&file, &plan.text)?;
        let mut command = Command::new(program()?);
        command.arg("bench").arg(&file).args(["--name", &name]).arg("--db").arg(self.db);
        // Its progress is ours; its table is told by the row.
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
        let _ = std::fs::remove_file(&file); // its text is in the run
        if status.code() == Some(2) {
            return Ok(Err(format!("{name}: weir bench refused its plan")));
        }
        let store = Store::open_existing(Some(self.db)).map_err(store_error)?;
        let selector: Selector = name.parse()?;
        Ok(match store.find(&selector).and_then(|run| store.load(run)) {
            Ok(run) => Ok(run),
            Err(error) => Err(format!("{name}: {error}")),
        })
    }

    /// Runs a service's benchmark in several processes, one after the other, on the forwarding core.
    fn service(&self, row: &Row, arguments: &[String]) -> anyhow::Result<Measured> {
        let core = Cores::assign(&weir_cpu::allowed_cores()).map(|cores| cores.dut);
        let core = match core {
            Ok(core) => core,
            Err(error) => return Ok(Measured::unavailable(row, error.to_string())),
        };
        let (mut rounds, mut last) = (Vec::new(), None);
        for _ in 0..self.effort.repeats {
            let mut command = Command::new("taskset");
            command.args(["-c", &core.to_string()]).arg(program()?).args(arguments);
            let output = match command.stdin(Stdio::null()).output() {
                Ok(output) => output,
                Err(error) => {
                    return Ok(Measured::unavailable(row, format!("taskset: {error}; install util-linux")));
                }
            };
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Ok(Measured::unavailable(row, said));
            }
            let benched: Benched = serde_json::from_slice(&output.stdout)?;
            if benched.dropped > 0 {
                let why =
                    format!("the service dropped {} packets, so the time says nothing", benched.dropped);
                return Ok(Measured::unavailable(row, why));
            }
            rounds.push(benched.cycles.clone());
            last = Some(benched);
        }
        Ok(match last {
            Some(Benched { tsc_hz, payload, .. }) => judge_service(row, &rounds, tsc_hz, payload),
            None => Measured::unavailable(row, "nothing was asked for"),
        })
    }
}

/// The program that is running.
fn program() -> std::io::Result<PathBuf> {
    std::env::current_exe()
}
