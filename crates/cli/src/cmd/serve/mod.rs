//! `weir serve`: the store as a web page.

#[cfg(feature = "serve")]
mod site;

use super::stored::Database;
use std::process::ExitCode;

const LONG_ABOUT: &str = "\
Serve the store as a web page: runs with filters, search and sorting in the address; each run's page; each point with every \
trial; comparisons with environments first and no winner inside the noise; every plot as SVG and PGF and every table as \
Markdown, CSV and LaTeX, at an address of its own.

Pages need no scripts and ask nothing of any network. The server listens on this machine alone unless --listen says \
otherwise, answers to addresses, to `localhost` and to the names of --host, and only reads. Where others are to reach it, give it a \
certificate (--tls-cert, --tls-key), or put a TLS proxy in front (--behind-proxy). There is no password for readers.

With --allow-runs it also measures: a form made from the schema of plans, checked as it is filled in, one measurement at a \
time, with its lines as they come. That takes the token that is printed when the server starts. A measurement is a `weir bench` \
of the server's user, which may read captures and flow tables by their paths.

With --allow-push it takes runs from accounts (`weir push`, `weir account`), each public, unlisted or private. What anybody sees of \
a database with private runs is the same with and without it.

Ctrl-C or SIGTERM ends it when the answers under way are sent.";

const EXAMPLES: &str = "\
Examples:
  The runs of this machine, on http://127.0.0.1:8080:
    weir serve
  Another database, on any free port:
    weir serve --db results.db --listen 127.0.0.1:0
  Measuring from the page:
    weir serve --allow-runs
  For several labs, behind a TLS proxy, from PostgreSQL:
    weir serve --allow-push --behind-proxy --host weir.example --db postgres://weir@/weir
  The same by itself, with a certificate of its own:
    weir serve --allow-push --listen 0.0.0.0:8443 --tls-cert fullchain.pem --tls-key key.pem --host weir.example --db weir.db
  In a trusted lab's network, by the machine's name:
    weir serve --listen 0.0.0.0:8080 --host lab.example";

/// Serve the store as a web page: runs, points, comparisons, figures
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: String,
    /// A name under which the server may be asked for, beside `localhost` and addresses; may be repeated
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Let whoever has the token measure on this machine from the page
    #[arg(long)]
    allow_runs: bool,
    /// A file with the token, at least 16 letters; without it a random one is made and printed
    #[arg(long, value_name = "FILE", requires = "allow_runs")]
    token_file: Option<std::path::PathBuf>,
    /// Take runs from those who have a token (`weir account add`)
    #[arg(long)]
    allow_push: bool,
    /// The licence under which runs are pushed, an address at its end [default: CC BY 4.0,
    /// `https://creativecommons.org/licenses/by/4.0/`]
    #[arg(long, value_name = "TEXT", requires = "allow_push")]
    licence: Option<String>,
    /// Most bytes of a bundle that is pushed
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = super::account::bytes)]
    bundle_bytes: u64,
    /// A TLS proxy stands in front: browsers are told so, and what it says in X-Forwarded-For is believed
    #[arg(long)]
    behind_proxy: bool,
    /// The server's certificate, those of authorities between behind it (PEM): it speaks TLS alone then. A renewed one is taken up by
    /// itself
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "behind_proxy")]
    tls_cert: Option<std::path::PathBuf>,
    /// The private key of the certificate (PEM), without a pass phrase
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<std::path::PathBuf>,
    #[command(flatten)]
    database: Database,
}

#[cfg(feature = "serve")]
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    site::run(args)
}

/// A build that only measures.
#[cfg(not(feature = "serve"))]
pub(crate) fn run(_: Args) -> anyhow::Result<ExitCode> {
    let says = "this weir was built without the web page (as `./x bench` builds it); `./x build` builds one with it, and \
                `weir report RUN` writes a run's page into a file";
    Err(super::BadUse::new(says).into())
}
