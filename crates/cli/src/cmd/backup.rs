//! `weir backup`: everything in a store, in one file.

use super::stored::Database;
use std::path::PathBuf;
use std::process::ExitCode;

const LONG_ABOUT: &str = "\
Write everything in a store into one file: runs with every trial, accounts, and who may see what. It is taken at one moment, \
while others go on reading and writing, and is whole or not there.

The file is a store itself (SQLite), whatever the store was: `weir show --db FILE` reads it, and `weir restore` puts it into \
a database, on a file or a server. It has the hashes of tokens: keep it as you keep the store.";

const EXAMPLES: &str = "\
Examples:
  Each night:
    weir backup -o /backup/weir-2026-11-27.db --db postgres://weir@/weir
  Back again, into an empty database:
    weir restore /backup/weir-2026-11-27.db --db postgres://weir@/new";

/// Write everything in a store into one file
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file, which must not be there yet
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    database: Database,
}

#[cfg(not(feature = "serve"))]
pub(crate) fn run(_: Args) -> anyhow::Result<ExitCode> {
    Err(super::without_server("backups"))
}

#[cfg(feature = "serve")]
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    use super::{BadUse, store_error};
    use weir_store::Store;

    let path = &args.output;
    let refused = |why: &dyn std::fmt::Display| BadUse::new(format!("backup {}: {why}", path.display()));
    if path.exists() {
        return Err(refused(&"it is there already; name another file").into());
    }
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(std::path::Path::new("."));
    let store = args.database.open()?;
    // Beside its place, so that it appears there whole.
    let unfinished = tempfile::Builder::new()
        .prefix(".weir-backup-")
        .tempdir_in(folder)
        .map_err(|error| refused(&error))?;
    let file = unfinished.path().join("weir.db");
    let mut copy = Store::open(Some(&file)).map_err(store_error)?;
    let copied = store.copy_into(&mut copy).map_err(store_error)?;
    drop(copy);
    // It has the hashes of tokens.
    let mine = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, mine).map_err(|error| refused(&error))?;
    let synced = std::fs::File::open(&file).and_then(|file| file.sync_all());
    let placed = synced
        .and_then(|()| std::fs::hard_link(&file, path))
        .and_then(|()| std::fs::File::open(folder)?.sync_all());
    placed.map_err(|error| refused(&error))?;
    super::print(&format!(
        "{}: {} runs, {} trials, {} accounts\n\nNext, to have it back: weir restore {} --db NEW\n",
        path.display(),
        copied.runs,
        copied.trials,
        copied.accounts,
        path.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}
