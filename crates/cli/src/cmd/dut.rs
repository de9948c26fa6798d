//! `weir dut`: which devices there are, and what each can be.

use clap::Subcommand;
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;
use weir_dut::wiring::WiringKind;
use weir_dut::{ADAPTERS, Adapter, SIMULATED};
use weir_trial::{Nf, NfKind};

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
    let rows: Vec<Row> = ADAPTERS.iter().map(|adapter| row(*adapter)).chain([simulated()]).collect();
    if json {
        let document = Duts { schema: SCHEMA_VERSION, duts: rows };
        super::print(&format!("{}\n", serde_json::to_string_pretty(&document)?))?;
    } else {
        super::print(&table(&rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The smallest function of each kind, to ask an adapter about the kind.
const KINDS: [Nf; 3] = [Nf::L2Fwd, Nf::L3Fwd { routes: 2 }, Nf::Firewall { rules: 2 }];

fn row(adapter: &dyn Adapter) -> Row {
    let version = adapter.version();
    let nfs = KINDS.into_iter().filter(|nf| adapter.supports(*nf).is_ok()).map(|nf| nf.kind().name());
    Row {
        name: adapter.name(),
        about: adapter.about(),
        missing: version.as_ref().err().map(ToString::to_string),
        version: version.ok(),
        wirings: adapter.wirings().iter().map(|wiring: &WiringKind| wiring.name()).collect(),
        nfs: nfs.collect(),
    }
}

fn simulated() -> Row {
    Row {
        name: SIMULATED,
        about: "arithmetic of known capacity, queue, noise and loss; no packets",
        version: Some(format!("weir {}", env!("CARGO_PKG_VERSION"))),
        missing: None,
        wirings: Vec::new(),
        nfs: NfKind::ALL.map(NfKind::name).to_vec(),
    }
}

fn table(rows: &[Row]) -> String {
    let version = |row: &Row| row.version.clone().unwrap_or_else(|| "not installed".to_owned());
    let width = rows.iter().map(|row| version(row).chars().count()).max().unwrap_or(0);
    let mut text =
        format!("{:<10} {:<width$} {:<28} {:<22} about\n", "name", "version", "wirings", "network functions");
    for row in rows {
        let wirings = if row.wirings.is_empty() { "none".to_owned() } else { row.wirings.join(", ") };
        let (version, nfs) = (version(row), row.nfs.join(", "));
        text += &format!("{:<10} {version:<width$} {wirings:<28} {nfs:<22} {}\n", row.name, row.about);
        if let Some(missing) = &row.missing {
            text += &format!("{:<10} {missing}\n", "");
        }
    }
    text
}
