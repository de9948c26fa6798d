//! `weir import`: runs of other machines, from bundles into the store.

use super::stored::{Database, open_bundle};
use super::thresholds::Thresholds;
use super::verify::unexplained;
use super::{BadUse, store_error};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_store::bundle::{Bundle, PublicKey};
use weir_store::{Imported, Origin, Store};

const LONG_ABOUT: &str = "\
Take the runs of bundles (`weir export --bundle`) into the store, which is made where there is none.

A bundle is taken whole or not at all. It is refused if the hash of a part differs from its manifest, \
if its signature does not hold, if its results do not follow from its trials (`weir verify FILE` lists \
what differs), and if a newer Weir wrote something into it that this one would drop.

Runs are told apart by their identity. One that is here already is left alone; one that was taken up \
again since is brought up to date. A run whose name is taken gets a number behind it: \
`2026-11-21-otter-3f9a-2`.

Exit codes: 0 all are in the store; 2 one was refused, the others are in.";

const EXAMPLES: &str = "\
Examples:
  Compare with another machine:
    weir import theirs.weir && weir compare @last~1 @last
  Only what the lab signed:
    weir import --trust lab.pub *.weir";

/// Take runs of other machines into the store
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Bundles
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Take only what is signed with the private key to this public one (of `openssl pkey -pubout`); repeatable
    #[arg(long, value_name = "KEY")]
    trust: Vec<PathBuf>,
    /// Take also what does not follow from its trials; how much that is stays with the run
    #[arg(long)]
    accept_differences: bool,
    #[command(flatten)]
    database: Database,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let trusted: Vec<PublicKey> =
        args.trust.iter().map(|path| PublicKey::read(path).map_err(BadUse::new)).collect::<Result<_, _>>()?;
    let mut store = args.database.open_or_make()?;
    let flag = args.database.flag();
    let (mut last, mut refused) = (None, 0);
    for path in &args.files {
        let taken = take(&mut store, path, &trusted, args.accept_differences);
        match taken {
            Ok(Taken { name, says }) => {
                super::print(&says)?;
                last = Some(name);
            }
            Err(error) if error.is::<BadUse>() => {
                eprintln!("error: {}", super::shown(&format!("{error:#}")));
                refused += 1;
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(name) = last {
        super::print(&format!("\nNext: weir show {name}{flag}\n"))?;
    }
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// A run that is in the store.
struct Taken {
    name: String,
    says: String,
}

fn take(
    store: &mut Store,
    path: &Path,
    trusted: &[PublicKey],
    accept_differences: bool,
) -> anyhow::Result<Taken> {
    let bundle = open_bundle(path)?;
    let wrong = |why: String| BadUse::new(format!("{}: {why}", path.display()));
    is_trusted(&bundle, trusted).map_err(wrong)?;
    let (origin, differences) = admitted(&bundle).map_err(|error| wrong(error.to_string()))?;
    if let Some(what) = left_unexplained(&differences).filter(|_| !accept_differences) {
        return Err(wrong(format!(
            "{what}; `weir verify {}` lists what differs, --accept-differences takes it all the same",
            path.display()
        ))
        .into());
    }
    let imported = store.import(&bundle.run, &origin).map_err(store_error)?;
    let name = store.run_name(imported.run()).map_err(store_error)?;
    let says = says(&bundle, &imported, &name, differences.len());
    Ok(Taken { name, says })
}

/// What a store keeps of where a bundle's run came from, and what of the run does not follow from its trials.
pub(super) fn admitted(bundle: &Bundle) -> anyhow::Result<(Origin, Vec<String>)> {
    let differences = unexplained(&bundle.run)?;
    let signature =
        bundle.signed.as_ref().map(|(signature, _)| serde_json::to_string(signature)).transpose()?;
    let origin = Origin {
        name: bundle.run.name.clone(),
        address: bundle.address.clone(),
        signature,
        imported_ms: weir_campaign::now_ms(),
        differences: differences.len() as u32,
    };
    Ok((origin, differences))
}

/// Why a run is not taken, where something does not follow from its trials.
pub(super) fn left_unexplained(differences: &[String]) -> Option<String> {
    let more = match differences.len() {
        0 => return None,
        1 => String::new(),
        several => format!(", and {} more", several - 1),
    };
    Some(format!("what does not follow from its trials is not taken: {}{more}", differences[0]))
}

fn is_trusted(bundle: &Bundle, trusted: &[PublicKey]) -> Result<(), String> {
    if trusted.is_empty() {
        return Ok(());
    }
    match &bundle.signed {
        None => Err("it is not signed, and --trust asks for a signature".to_owned()),
        Some((_, key)) if trusted.contains(key) => Ok(()),
        Some((_, key)) => Err(format!("it is signed with {key}, which no --trust names")),
    }
}

fn says(bundle: &Bundle, imported: &Imported, name: &str, differences: usize) -> String {
    let run = &bundle.run;
    let trials: usize = run.points.iter().map(|point| point.trials.len()).sum();
    let what = match imported {
        Imported::Added(_) => "imported",
        Imported::Continued(_) => "brought up to date",
        Imported::Known(_) => "already here",
        Imported::Older(_) => "already here, and further than this bundle",
    };
    let called = if run.name == name { name.to_owned() } else { format!("{} as {name}", run.name) };
    let mut text =
        format!("{what}: {called}, {} points, {trials} trials\n  {}\n", run.points.len(), bundle.address);
    match &bundle.signed {
        Some((_, key)) => text.push_str(&format!("  signed with {key}\n")),
        None => text.push_str("  not signed\n"),
    }
    if differences > 0 {
        text.push_str(&format!("  {differences} differences from what its trials say\n"));
    }
    if serde_json::from_value::<Thresholds>(bundle.thresholds.clone()).ok() != Some(Thresholds::of(run)) {
        text.push_str("  judged by thresholds that this weir has otherwise; they stand in thresholds.json\n");
    }
    text
}
