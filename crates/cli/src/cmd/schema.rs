//! `weir schema`: the JSON Schemas of what the readers print.

use serde_json::Value;
use std::collections::BTreeMap;
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
    /// Accounts of a server: `weir account list --json`
    Accounts,
    /// Runs that were pushed: `weir push --json`
    Pushed,
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
        Name::Switch => return document(&weir_switch::config::schema()),
        Name::Bundle => return document(&bundle()),
        Name::SwitchStats => schemars::schema_for!(weir_switch::Stats),
        Name::SwitchBench => schemars::schema_for!(weir_switch::bench::Benched),
        Name::SwitchControl => schemars::schema_for!(weir_switch::Request),
        Name::Run => schemars::schema_for!(Run),
        Name::Pack => schemars::schema_for!(super::pack::Manifest),
        Name::Runs => schemars::schema_for!(super::runs::Runs),
        Name::Compare => schemars::schema_for!(weir_methods::compare::Comparison),
        Name::History => schemars::schema_for!(weir_methods::history::Document),
        Name::Accounts => return accounts(),
        Name::Pushed => schemars::schema_for!(super::push::Document),
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

/// A form that only a build with the server has types for.
#[cfg(feature = "serve")]
fn accounts() -> anyhow::Result<ExitCode> {
    document(&schemars::schema_for!(super::account::Accounts).to_value())
}

#[cfg(not(feature = "serve"))]
fn accounts() -> anyhow::Result<ExitCode> {
    Err(super::without_server("accounts"))
}

fn document(schema: &Value) -> anyhow::Result<ExitCode> {
    super::print(&format!("{schema:#}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Where a schema's own types stand, and those of a run.
const OWN: &str = "#/$defs/";
const RUNS: &str = "run.schema.json#/$defs/";

/// The documents of a bundle. Types that a run has, too, are referred to in its schema, which lies beside this one.
fn bundle() -> Value {
    let (run, mut bundle) = (
        schemars::schema_for!(Run).to_value(),
        schemars::schema_for!(super::thresholds::Documents).to_value(),
    );
    let types = |schema: &Value| -> BTreeMap<String, Value> {
        let found = schema["$defs"].as_object().into_iter().flatten();
        found.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let of_run = types(&run);
    let mut shared = types(&bundle);
    shared.retain(|name, value| of_run.get(name) == Some(value));
    // A type can stand in the run's schema only with everything that it is made of.
    loop {
        let before = shared.len();
        let names: Vec<String> = shared.keys().cloned().collect();
        shared.retain(|_, value| references(value).iter().all(|name| names.contains(name)));
        if shared.len() == before {
            break;
        }
    }
    if let Some(own) = bundle["$defs"].as_object_mut() {
        own.retain(|name, _| !shared.contains_key(name));
    }
    refer(&mut bundle, &|name| shared.contains_key(name));
    bundle
}

/// The names of the types that a schema refers to.
fn references(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(fields) => {
            let own = fields.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix(OWN));
            own.map(str::to_owned).into_iter().chain(fields.values().flat_map(references)).collect()
        }
        Value::Array(values) => values.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

/// Makes references to the shared types lead to the run's schema.
fn refer(schema: &mut Value, is_shared: &dyn Fn(&str) -> bool) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(path)) = fields.get_mut("$ref")
                && let Some(name) = path.strip_prefix(OWN)
                && is_shared(name)
            {
                *path = format!("{RUNS}{name}");
            }
            fields.values_mut().for_each(|value| refer(value, is_shared));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| refer(value, is_shared)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_bundle_shares_with_a_run_stands_in_the_runs_schema_alone() {
        let (run, bundle) = (schemars::schema_for!(Run).to_value(), bundle());
        assert!(references(&bundle).iter().all(|name| bundle["$defs"].get(name).is_some()));
        let text = bundle.to_string();
        let mut referred = 0;
        for path in text.split(RUNS).skip(1) {
            let name = path.split('"').next().unwrap();
            assert!(run["$defs"].get(name).is_some(), "{name} is not in the run's schema");
            referred += 1;
        }
        assert!(referred > 5 && text.len() < run.to_string().len() / 4, "{referred} {}", text.len());
    }
}
