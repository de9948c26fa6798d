//! `weir completions`: what a shell must know to complete the commands of this program.

use clap::CommandFactory as _;
use clap_complete::Shell;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  For this user's bash, from the next shell on:
    weir completions bash > ~/.local/share/bash-completion/completions/weir
  For zsh, into a folder of its $fpath:
    weir completions zsh > ~/.zfunc/_weir
  For fish:
    weir completions fish > ~/.config/fish/completions/weir.fish";

/// Print what a shell must know to complete the commands of this program
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "weir", &mut script);
    super::print(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}
