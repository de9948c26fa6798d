//! What the site takes from the command line: the same words, files and stores.

use super::Args;
use crate::cmd::thresholds::Thresholds;
use crate::cmd::{BadUse, WEIR, cells, export, store_error};
use std::process::ExitCode;
use std::sync::Arc;
use weir_serve::{Options, Program, ServeError, Server, Stop};
use weir_store::bundle::{self, Seal, Signature};
use weir_store::{Origin, Store};
use weir_trial::run::{Point, PointResult, Run};

/// The command line, for the pages.
struct CommandLine {
    db_flag: String,
}

impl Program for CommandLine {
    fn version(&self) -> String {
        WEIR.to_owned()
    }

    fn verdict(&self, point: &Point, result: &PointResult) -> String {
        let latency = |trial: u32| point.trial(trial)?.result.latency.as_ref();
        cells::cell(&point.key, result, &latency)
    }

    fn csv(&self, run: &Run) -> Result<String, String> {
        export::csv(run).map_err(|error| error.to_string())
    }

    fn bundle(&self, mut run: Run, origin: Option<Origin>) -> Result<Vec<u8>, String> {
        let thresholds = serde_json::to_value(Thresholds::of(&run)).map_err(|error| error.to_string())?;
        let mut kept: Option<Signature> = None;
        if let Some(origin) = origin {
            kept = origin.signature.and_then(|text| serde_json::from_str(&text).ok());
            run.name = origin.name;
        }
        let seal = kept.as_ref().map_or(Seal::None, Seal::Kept);
        bundle::write(&run, &thresholds, seal).map(|written| written.bytes).map_err(|error| error.to_string())
    }

    fn db_flag(&self) -> String {
        self.db_flag.clone()
    }
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let program = CommandLine { db_flag: args.database.flag() };
    let path = args.database.named().map(ToOwned::to_owned);
    let open = Arc::new(move || Store::open_existing(path.as_deref()));
    let options = Options { hosts: args.host, ..Options::default() };
    let server = Server::bind(&args.listen, options, open, Arc::new(program)).map_err(said)?;
    let stop = Stop::default();
    let stopped = stop.clone();
    ctrlc::set_handler(move || stopped.now())?;
    let address = server.address();
    crate::cmd::print(&format!("serving {WEIR} on http://{address} until Ctrl-C\n"))?;
    if !address.ip().is_loopback() {
        eprintln!(
            "note: whoever reaches this machine can read the store; there is no encryption and no password"
        );
    }
    server.run(&stop).map_err(said)?;
    Ok(ExitCode::SUCCESS)
}

fn said(error: ServeError) -> anyhow::Error {
    match error {
        ServeError::Store(error) => store_error(error),
        error @ ServeError::Listen { .. } => BadUse::new(error).into(),
        error @ ServeError::Start(_) => error.into(),
    }
}
