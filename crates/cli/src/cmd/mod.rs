//! The subcommands. Each file holds an `Args` with its help and a `run`.

mod account;
mod advise;
mod backup;
mod bench;
mod cells;
mod compare;
mod completions;
mod doctor;
mod dut;
#[cfg(test)]
mod examples;
mod export;
mod figures;
mod history;
mod import;
mod layout;
mod man;
mod nf;
mod pack;
mod papers;
mod perf;
mod plan;
mod plot;
mod port_helper;
mod push;
mod repeats;
mod report;
mod rescore;
mod restore;
mod runs;
mod schema;
mod serve;
mod show;
mod shown;
mod stored;
mod switch;
mod thresholds;
mod trace;
mod verify;

pub(crate) use layout::{print, print_file};
pub(crate) use shown::shown;

use clap::Subcommand;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use weir_report::PageOptions;
use weir_trial::run::Run;

/// A mistake of the caller, not of the measurement: exit code 2.
///
/// Return it as `Err(BadUse::new("what is wrong, where, and how to mend it").into())`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadUse(String);

impl BadUse {
    /// A mistake, said in full.
    pub(crate) fn new(message: impl ToString) -> Self {
        Self(message.to_string())
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Bench(Box<bench::Args>),
    Runs(runs::Args),
    Show(show::Args),
    Compare(compare::Args),
    History(history::Args),
    Advise(advise::Args),
    Perf(perf::Args),
    Rescore(rescore::Args),
    Verify(verify::Args),
    Report(report::Args),
    Plot(plot::Args),
    Export(export::Args),
    Import(import::Args),
    Push(push::Args),
    Pack(pack::Args),
    Serve(serve::Args),
    Account(account::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Figures(figures::Args),
    Plan(plan::Args),
    Papers(papers::Args),
    Trace(trace::Args),
    Dut(dut::Args),
    Doctor(doctor::Args),
    Nf(nf::Args),
    Switch(Box<switch::Args>),
    #[command(hide = true)]
    PortHelper(port_helper::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// Runs one subcommand.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Bench(args) => bench::run(*args),
        Command::Runs(args) => runs::run(args),
        Command::Show(args) => show::run(args),
        Command::Compare(args) => compare::run(args),
        Command::History(args) => history::run(args),
        Command::Advise(args) => advise::run(args),
        Command::Perf(args) => perf::run(args),
        Command::Rescore(args) => rescore::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Report(args) => report::run(args),
        Command::Plot(args) => plot::run(args),
        Command::Export(args) => export::run(args),
        Command::Import(args) => import::run(args),
        Command::Push(args) => push::run(args),
        Command::Pack(args) => pack::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Account(args) => account::run(args),
        Command::Backup(args) => backup::run(args),
        Command::Restore(args) => restore::run(args),
        Command::Figures(args) => figures::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Papers(args) => papers::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Dut(args) => dut::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Nf(args) => nf::run(args),
        Command::Switch(args) => switch::run(*args),
        Command::PortHelper(args) => port_helper::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
    }
}

/// What stands with every run about who measured it.
pub(crate) const WEIR: &str = concat!("weir ", env!("CARGO_PKG_VERSION"), " (", env!("WEIR_COMMIT"), ")");

/// The environment that stands with every run begun here.
pub(crate) fn environment() -> BTreeMap<String, String> {
    let mut environment = weir_campaign::environment::capture();
    environment.insert("weir.version".to_owned(), WEIR.to_owned());
    environment
}

/// Writes runs as one self-contained page.
pub(crate) fn write_page(runs: &[Run], path: &Path) -> anyhow::Result<()> {
    let options = PageOptions {
        made_ms: Some(weir_campaign::now_ms()),
        ratios: compare::ratios(runs),
        ..PageOptions::default()
    };
    let page = weir_report::render(runs, &options);
    std::fs::write(path, page).map_err(|error| {
        BadUse::new(format!("page {}: {error}; name another with -o", path.display())).into()
    })
}

/// What a build says that only measures.
#[cfg(not(feature = "serve"))]
pub(crate) fn without_server(what: &str) -> anyhow::Error {
    let says = format!(
        "this weir was built without {what} (as `./x bench` builds it); `./x build` builds one with all of it"
    );
    BadUse::new(says).into()
}

/// A store's error, with the exit code it deserves.
pub(crate) fn store_error(error: weir_store::StoreError) -> anyhow::Error {
    if error.is_bad_use() { BadUse::new(error).into() } else { error.into() }
}
