//! `weir restore`: a backup back into a database.

use super::stored::Database;
use std::path::PathBuf;
use std::process::ExitCode;

const LONG_ABOUT: &str = "\
Put a backup (`weir backup`) into a database that holds nothing yet: a file, which is made where it is not there, or an empty \
database on a server. All of it is there then, or nothing.

Any store in a file can be restored so, of this version or an older one: this is how a lab's file becomes a database on a server.";

const EXAMPLES: &str = "\
Examples:
  Into an empty database on a server:
    weir restore weir-2026-11-27.db --db postgres://weir@/weir";

/// Put a backup into an empty database
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    database: Database,
}

#[cfg(not(feature = "serve"))]
pub(crate) fn run(_: Args) -> anyhow::Result<ExitCode> {
    Err(super::without_server("backups"))
}

#[cfg(feature = "serve")]
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    use super::store_error;
    use weir_store::Store;

    if args.database.named().is_none() {
        return Err(super::BadUse::new(
            "name the database that it goes into with --db: it must hold nothing yet",
        )
        .into());
    }
    // A copy: the backup is not touched, and need not be of this version.
    let backup = Store::open_copy_of(&args.file).map_err(store_error)?;
    let mut store = args.database.open_or_make()?;
    let copied = backup.copy_into(&mut store).map_err(store_error)?;
    super::print(&format!(
        "restored {} runs, {} trials, {} accounts into {}\n\nNext: weir runs{}\n",
        copied.runs,
        copied.trials,
        copied.accounts,
        store.path().display(),
        args.database.flag()
    ))?;
    Ok(ExitCode::SUCCESS)
}
