//! `weir push`: runs to a server for several.

#[cfg(feature = "serve")]
mod client;
#[cfg(feature = "serve")]
mod send;

use super::stored::Database;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_store::{Selector, Visibility};

const LONG_ABOUT: &str = "\
Push runs to a server (`weir serve --allow-push`) of which you have a token. What is pushed is the bundle that `weir export \
--bundle` writes; the server verifies it as `weir import` does, and a run that it acknowledges is kept.

Pushing is saying yes to the server's licence for results, which is printed. A new run is seen by your account alone unless \
--public or --unlisted says otherwise; pushed again with one of the three it changes that, and without one stays as it is.

A run that is there already is not sent again, so a push that was cut off is simply begun again. A server that is away or busy is \
asked again for a while.

The token comes from --token-file, which nobody else may read, or from the environment variable WEIR_TOKEN.

Exit codes: 0 all are there; 1 the server could not be reached, or failed; 2 one was refused, the others are there.";

const EXAMPLES: &str = "\
Examples:
  The last run, for everybody:
    weir push https://weir.example @last --public --token-file ~/.config/weir/token
  Two runs, seen by whoever is given the address:
    WEIR_TOKEN=weir_0123 weir push https://weir.example otter heron --unlisted
  A bundle, signed by who measured it:
    weir push https://weir.example otter.weir --token-file token";

/// Push runs to a server
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("visibility").args(["public", "unlisted", "private"])))]
pub(crate) struct Args {
    /// The server, such as `https://weir.example`
    #[arg(value_name = "URL")]
    url: String,
    /// The runs: names, beginnings of names, numbers, @last, @last~1, or bundles
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<Selector>,
    /// Everybody may see them
    #[arg(long)]
    public: bool,
    /// Whoever has the address may see them; they are in no list
    #[arg(long)]
    unlisted: bool,
    /// Your account alone may see them
    #[arg(long)]
    private: bool,
    /// A file with the token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Sign the bundles with this private key (PEM)
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
    /// Certificates of the authority that signed the server's (PEM), in place of the usual ones
    #[arg(long, value_name = "FILE")]
    ca_cert: Option<PathBuf>,
    /// Send the token to another machine over http, where everybody on the way can read it
    #[arg(long)]
    allow_http: bool,
    /// Print JSON; `weir schema pushed` describes it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: Database,
}

impl Args {
    /// Who is to see the runs, where that was said.
    #[cfg_attr(not(feature = "serve"), expect(dead_code, reason = "only what pushes asks"))]
    fn visibility(&self) -> Option<Visibility> {
        let said = [
            (self.public, Visibility::Public),
            (self.unlisted, Visibility::Unlisted),
            (self.private, Visibility::Private),
        ];
        said.into_iter().find(|(said, _)| *said).map(|(_, visibility)| visibility)
    }
}

/// What `weir push --json` prints.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document {
    /// Version of this form.
    schema: u32,
    /// The server.
    server: String,
    /// The licence under which runs are pushed there.
    licence: String,
    /// The runs, in the order in which they were named.
    runs: Vec<Pushed>,
}

/// What became of a run.
#[derive(Serialize, JsonSchema)]
struct Pushed {
    /// Its name here.
    run: String,
    /// Its identity.
    uuid: String,
    /// Its name on the server, a number behind it where another run has the name; nothing where it was refused.
    name: Option<String>,
    /// `added`, `known`, `older`, `continued`, or `refused`.
    became: String,
    /// Its page on the server; nothing where it was refused.
    page: Option<String>,
    /// Who may see it; nothing where it was refused.
    visibility: Option<Visibility>,
    /// Why it was refused.
    error: Option<String>,
}

#[cfg(not(feature = "serve"))]
pub(crate) fn run(_: Args) -> anyhow::Result<ExitCode> {
    Err(super::without_server("`weir push`"))
}

#[cfg(feature = "serve")]
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    send::run(&args)
}
