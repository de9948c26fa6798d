//! What the site takes from the command line: the same words, files and stores.

use super::Args;
use crate::cmd::import::{admitted, left_unexplained};
use crate::cmd::stored::read_bundle;
use crate::cmd::thresholds::Thresholds;
use crate::cmd::{BadUse, WEIR, cells, export, store_error};
use std::io::BufRead;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use weir_campaign::plan::{self, Known, Plan};
use weir_methods::history::Series;
use weir_report::{Ratios, Trend};
use weir_serve::{
    Admitted, Checked, Options, OwnCertificate, PlanText, Program, Pushes, Runs, ServeError, Server, Stop,
};
use weir_store::bundle::{self, Seal, Signature};
use weir_store::{Origin, Store, server_of};
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

    fn ratios(&self, runs: &[Run]) -> Vec<Ratios> {
        crate::cmd::compare::ratios(runs)
    }

    fn admit(&self, bundle: &mut dyn BufRead) -> Result<Admitted, String> {
        let bundle = read_bundle(bundle)?;
        let (origin, differences) = admitted(&bundle).map_err(|error| error.to_string())?;
        if let Some(what) = left_unexplained(&differences) {
            return Err(format!("{what}; `weir verify` lists what differs"));
        }
        Ok(Admitted { run: bundle.run, origin, bytes: bundle.bytes })
    }

    fn trend(&self, series: &Series) -> Trend {
        crate::cmd::history::plot::trend(series)
    }

    fn made(&self, svg: &str, ending: &str) -> Result<Vec<u8>, String> {
        crate::cmd::plot::made(svg, ending).map_err(|error| error.to_string())
    }

    fn plan_schema(&self) -> serde_json::Value {
        plan::schema()
    }

    fn plans(&self) -> Vec<PlanText> {
        let text = |plan: &plan::Builtin| PlanText {
            name: plan.name.to_owned(),
            about: plan.about.to_owned(),
            text: plan.text.to_owned(),
        };
        plan::builtins().iter().map(text).collect()
    }

    fn check(&self, text: &str, folder: &Path) -> Checked {
        let file = folder.join("plan.toml");
        // The folder is one of ours, and says nothing to a reader.
        let said = |text: String| text.replace(&format!("{}/", folder.display()), "");
        match Plan::parse(text, &file, &Known::here()) {
            Ok(plan) => {
                let text = said(crate::cmd::plan::summary(&plan, &file, false));
                Checked { good: true, text, places: Vec::new() }
            }
            Err(error) => {
                let place = |place: weir_diagnostic::Place| (place.line, said(place.message));
                let places = error.places().into_iter().map(place).collect();
                Checked { good: false, text: said(error.to_string()), places }
            }
        }
    }

    fn db_flag(&self) -> String {
        self.db_flag.clone()
    }
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let program = CommandLine { db_flag: shown_flag(&args) };
    let path = args.database.named().map(ToOwned::to_owned);
    let open = Arc::new(move || Store::open_existing(path.as_deref()));
    let runs = if args.allow_runs { Some(runs(&args)?) } else { None };
    let pushes = pushes(&args)?;
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(OwnCertificate::load(certificate, key).map_err(BadUse::new)?),
        _ => None,
    };
    let is_secure = tls.is_some() || args.behind_proxy;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let proxied = args.behind_proxy;
    let options = Options { hosts: args.host, runs, pushes, tls, proxied, ..Options::default() };
    let server = Server::bind(&args.listen, options, open, Arc::new(program)).map_err(said)?;
    let stop = Stop::default();
    let stopped = stop.clone();
    ctrlc::set_handler(move || stopped.now())?;
    let address = server.address();
    crate::cmd::print(&format!("serving {WEIR} on {scheme}://{address} until Ctrl-C\n"))?;
    if let Some(token) = server.token() {
        let token = if args.token_file.is_some() { "the one in the file" } else { token };
        crate::cmd::print(&format!("measuring is allowed at {scheme}://{address}/start; token: {token}\n"))?;
    }
    if args.allow_push {
        crate::cmd::print(&format!(
            "runs are pushed by: weir push {scheme}://{address} RUN; `weir account add` makes tokens\n"
        ))?;
    }
    if !address.ip().is_loopback() && !is_secure {
        let whom = if args.allow_push {
            "whoever reaches this machine can read what is not private"
        } else {
            "whoever reaches this machine can read the store"
        };
        eprintln!("note: {whom}; there is no encryption");
    }
    server.run(&stop).map_err(said)?;
    Ok(ExitCode::SUCCESS)
}

/// ` --db DATABASE` for commands that pages suggest. Where a database is on a server, or the pages are for others, its address is
/// nothing to tell who reads them.
fn shown_flag(args: &Args) -> String {
    let is_told = !args.allow_push && !args.behind_proxy && args.tls_cert.is_none();
    match args.database.named() {
        Some(named) if is_told && server_of(named).is_none() => args.database.flag(),
        None if is_told => args.database.flag(),
        _ => " --db DATABASE".to_owned(),
    }
}

/// How runs are pushed, where they may be.
fn pushes(args: &Args) -> anyhow::Result<Option<Pushes>> {
    if !args.allow_push {
        return Ok(None);
    }
    let licence = args.licence.clone().unwrap_or_else(|| weir_serve::LICENCE.to_owned());
    let is_good =
        !licence.trim().is_empty() && licence.len() <= 200 && !licence.chars().any(char::is_control);
    if !is_good {
        return Err(BadUse::new("--licence: a licence is named in a line of 200 letters at most").into());
    }
    Ok(Some(Pushes { licence, bundle_bytes: args.bundle_bytes }))
}

/// What measures from the page: this program, into the same database.
fn runs(args: &Args) -> anyhow::Result<Runs> {
    let database = args.database.named().map(|named| match server_of(named) {
        Some(_) => Ok(named.to_owned()),
        None => std::path::absolute(named),
    });
    let database = database.transpose()?;
    let token = args.token_file.as_ref().map(|path| {
        let wrong =
            |why: &dyn std::fmt::Display| BadUse::new(format!("--token-file {}: {why}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let token = text.trim().to_owned();
        let is_good = token.len() >= 16 && token.chars().all(|letter| letter.is_ascii_graphic());
        if is_good { Ok(token) } else { Err(wrong(&"a token is 16 letters or more, in one word")) }
    });
    Ok(Runs {
        program: std::env::current_exe()?,
        database: database.into_iter().flat_map(|path| ["--db".into(), path.into_os_string()]).collect(),
        token: token.transpose()?,
    })
}

fn said(error: ServeError) -> anyhow::Error {
    match error {
        ServeError::Store(error) => store_error(error),
        error @ ServeError::Listen { .. } => BadUse::new(error).into(),
        error @ ServeError::Start(_) => error.into(),
    }
}
