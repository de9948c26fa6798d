//! `weir dut`: which devices there are, and what each can be.

use super::layout::table;
use clap::Subcommand;
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;
use weir_dut::wiring::WiringKind;
use weir_dut::{ADAPTERS, Adapter};
use weir_trial::{FlowFile, Nf};

/// Version of the JSON that `weir dut list --json` prints.
const SCHEMA_VERSION: u32 = 1;

/// The devices under test that Weir can start
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the devices: version found on this machine, wirings, network functions
    ///
    /// What a device cannot be is left out of its row; `weir bench` reports such a point as not
    /// supported, with the reason. A device that is not installed says how to install it.
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// What `weir dut list --json` prints.
#[derive(Serialize, JsonSchema)]
pub(super) struct Duts {
    /// Version of this document's form.
    schema: u32,
    /// The devices.
    duts: Vec<Row>,
}

/// A device in a row.
#[derive(Serialize, JsonSchema)]
struct Row {
    /// The name people type.
    name: &'static str,
    /// What it is.
    about: &'static str,
    /// Version found on this machine.
    version: Option<String>,
    /// Why there is none.
    missing: Option<String>,
    /// How it can be reached.
    wirings: Vec<&'static str>,
    /// What it can be.
    nfs: Vec<&'static str>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Action::List { json } = args.action;
    let rows: Vec<Row> = ADAPTERS.iter().map(|adapter| row(*adapter)).collect();
    if json {
        let document = Duts { schema: SCHEMA_VERSION, duts: rows };
        super::print(&format!("{}\n", serde_json::to_string_pretty(&document)?))?;
    } else {
        super::print(&listed(&rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The smallest function of each kind that has something to do, to ask an adapter about the kind.
fn kinds() -> Vec<Nf> {
    let flows = FlowFile::of("FILE", "FILE", "in_port=1,actions=output:2\n".to_owned());
    let kinds = [
        Nf::L2Fwd,
        Nf::L3Fwd { routes: 2 },
        Nf::Firewall { rules: 2 },
        Nf::Exposed { fields: 1 },
        Nf::L2 { stations: 2 },
        Nf::L2Nfpa { addresses: 1 },
        Nf::PipelineA { entries: Nf::LEAST_PIPELINE_ENTRIES },
        Nf::PipelineAFew { entries: Nf::LEAST_PIPELINE_ENTRIES },
        Nf::PipelineB { entries: Nf::LEAST_PIPELINE_ENTRIES },
        Nf::PipelineC { entries: Nf::LEAST_PIPELINE_ENTRIES },
        Nf::PipelineD { noops: 1 },
        Nf::Nat { addresses: 1 },
    ];
    kinds.into_iter().chain(flows.map(Nf::Flows)).collect()
}

fn row(adapter: &dyn Adapter) -> Row {
    let version = adapter.version();
    let nfs = kinds().into_iter().filter(|nf| adapter.supports(*nf).is_ok()).map(|nf| nf.kind().name());
    Row {
        name: adapter.name(),
        about: adapter.about(),
        missing: version.as_ref().err().map(ToString::to_string),
        version: version.ok(),
        wirings: adapter.wirings().iter().map(|wiring: &WiringKind| wiring.name()).collect(),
        nfs: nfs.collect(),
    }
}

/// The devices, what is missing of one in a line below the table.
fn listed(rows: &[Row]) -> String {
    let cells = |row: &Row| {
        let wirings = if row.wirings.is_empty() { "none".to_owned() } else { row.wirings.join(", ") };
        let version = row.version.clone().unwrap_or_else(|| "not installed".to_owned());
        vec![row.name.to_owned(), version, wirings, row.nfs.join(", "), row.about.to_owned()]
    };
    let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let mut text = table(&["name", "version", "wirings", "network functions", "about"], &[], &cells);
    for (name, missing) in rows.iter().filter_map(|row| Some((row.name, row.missing.as_ref()?))) {
        text += &format!("\n{name}: {missing}\n");
    }
    text
}
