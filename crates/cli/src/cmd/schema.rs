//! `weir schema`: the JSON Schemas of what the readers print.

use std::process::ExitCode;
use weir_trial::run::Run;

const LONG_ABOUT: &str = "\
Print the JSON Schema (draft 2020-12) of what a command prints with --json, or reads.

Each document carries its version in `schema`; it rises when a field changes meaning or goes away, \
not when one is added.";

/// Print the JSON Schema of what a command prints
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT)]
pub(crate) struct Args {
    /// Which document
    #[arg(value_name = "NAME")]
    name: Name,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Name {
    /// A whole run: `weir show --json` and `weir export --json`
    Run,
    /// The documents of a bundle: `weir export --bundle`
    Bundle,
    /// What a folder of `weir pack` is: its `pack.json`
    Pack,
    /// The list of runs: `weir runs --json`
    Runs,
    /// A comparison: `weir compare --json`
    Compare,
    /// A point over time: `weir history --json`
    History,
    /// The table of speed: `weir perf --json`
    Perf,
    /// Stored trials judged again: `weir rescore --json`
    Rescore,
    /// Advice and its checks: `weir advise --json`
    Advise,
    /// Results derived again: `weir verify --json`
    Verify,
    /// The devices: `weir dut list --json`
    Duts,
    /// What is the matter with this machine: `weir doctor --json`
    Doctor,
    /// A plan that was checked: `weir plan check --json`
    PlanCheck,
    /// The papers' figures: `weir papers --json`
    Papers,
    /// What a trace holds: `weir trace info --json`
    TraceInfo,
    /// The traces: `weir trace list --json`
    Traces,
    /// Configuration of the switch: `weir switch --config`, as TOML
    Switch,
    /// The switch's ledger: `weir switch stats --json`
    SwitchStats,
    /// A service by itself: `weir switch bench --json`
    SwitchBench,
    /// Requests to the switch's control socket
    SwitchControl,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let schema = match args.name {
        Name::Switch => {
            return super::print(&format!("{:#}\n", weir_switch::config::schema()))
                .map(|()| ExitCode::SUCCESS)
                .map_err(Into::into);
        }
        Name::SwitchStats => schemars::schema_for!(weir_switch::Stats),
        Name::SwitchBench => schemars::schema_for!(weir_switch::bench::Benched),
        Name::SwitchControl => schemars::schema_for!(weir_switch::Request),
        Name::Run => schemars::schema_for!(Run),
        Name::Bundle => schemars::schema_for!(super::thresholds::Documents),
        Name::Pack => schemars::schema_for!(super::pack::Manifest),
        Name::Runs => schemars::schema_for!(super::runs::Runs),
        Name::Compare => schemars::schema_for!(weir_methods::compare::Comparison),
        Name::History => schemars::schema_for!(weir_methods::history::Document),
        Name::Perf => schemars::schema_for!(weir_campaign::perf::Perf),
        Name::Rescore => schemars::schema_for!(super::rescore::Document),
        Name::Advise => schemars::schema_for!(super::advise::Document),
        Name::Verify => schemars::schema_for!(super::verify::Verified),
        Name::Duts => schemars::schema_for!(super::dut::Duts),
        Name::Doctor => schemars::schema_for!(super::doctor::Diagnosis),
        Name::PlanCheck => schemars::schema_for!(super::plan::Checked),
        Name::Papers => schemars::schema_for!(super::papers::Document),
        Name::TraceInfo => schemars::schema_for!(weir_traffic::trace::info::TraceInfo),
        Name::Traces => schemars::schema_for!(super::trace::Listing),
    };
    super::print(&format!("{}\n", serde_json::to_string_pretty(&schema)?))?;
    Ok(ExitCode::SUCCESS)
}
