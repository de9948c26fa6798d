//! `weir man`: the manual pages, from the same definitions as the help.

use super::BadUse;
use clap::CommandFactory as _;
use clap_mangen::Man;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  Read one:
    weir man bench | man -l -
  Install all of them for this user:
    weir man --output ~/.local/share/man/man1";

/// Print a manual page, or write all of them into a folder
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The subcommand whose page to print, for example `plan check` [default: the program's own page]
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    command: Vec<String>,
    /// Write the pages of all subcommands into this folder, which is made where it is not there
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut program = crate::Cli::command();
    program.build();
    if let Some(folder) = &args.output {
        let refused = |error: std::io::Error| {
            BadUse::new(format!("manual pages into {}: {error}; name another folder", folder.display()))
        };
        std::fs::create_dir_all(folder).map_err(refused)?;
        clap_mangen::generate_to(program, folder).map_err(refused)?;
        super::print(&format!("manual pages written to {}\n", folder.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = &program;
    for name in &args.command {
        command = command.find_subcommand(name).ok_or_else(|| {
            BadUse::new(format!("no page for `{}`; `weir --help` lists the commands", args.command.join(" ")))
        })?;
    }
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    super::print(&String::from_utf8(page)?)?;
    Ok(ExitCode::SUCCESS)
}
