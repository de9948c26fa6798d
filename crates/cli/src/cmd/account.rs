//! `weir account`: who may push runs to a server.

use super::stored::Database;

const LONG_ABOUT: &str = "\
Make, list and close the accounts of a server that takes runs (`weir serve --allow-push`). They are in the database \
that it serves, and hold at once: nothing is started anew.

An account has a name, a quota, and tokens. A token is shown once, when it is made; the database keeps a hash of it. Whoever has \
it pushes runs with `weir push`, changes who may see them, and deletes them.";

const EXAMPLES: &str = "\
Examples:
  Somebody who may push a thousand runs, of 10 GiB in all:
    weir account add lab-north --db weir.db
  A second token, which sees the account's private runs and changes nothing:
    weir account token lab-north --scope read --db weir.db
  A token that was lost:
    weir account revoke lab-north --token 0123456789abcdef --db weir.db
  Nothing more from this account; what it pushed stays:
    weir account revoke lab-north --db weir.db";

/// Make, list and close accounts that push runs to a server
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make an account, and print its token: the only time that it is seen
    Add {
        /// Its name: letters, digits, `-`, `_` and `.`
        name: String,
        #[command(flatten)]
        quota: QuotaArgs,
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        database: Database,
    },
    /// Make another token of an account, and print it
    Token {
        /// Whose
        name: String,
        /// What it may do
        #[arg(long, value_enum, default_value = "push")]
        scope: ScopeName,
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        database: Database,
    },
    /// List accounts with their tokens, without secrets
    List {
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        database: Database,
    },
    /// Change what an account may push
    Quota {
        /// Whose
        name: String,
        #[command(flatten)]
        quota: QuotaArgs,
        #[command(flatten)]
        database: Database,
    },
    /// Close an account, or revoke one of its tokens; its runs stay
    Revoke {
        /// Whose
        name: String,
        /// The key of the token, as `weir account list` has it [default: the account with all its tokens]
        #[arg(long, value_name = "KEY")]
        token: Option<String>,
        #[command(flatten)]
        database: Database,
    },
}

#[derive(clap::Args)]
struct QuotaArgs {
    /// Bytes that its bundles may unpack to: `500MB`, `10GiB`
    #[arg(long, value_name = "BYTES", default_value = "10GiB", value_parser = bytes)]
    quota_bytes: u64,
    /// Runs that it may have
    #[arg(long, value_name = "RUNS", default_value = "1000")]
    quota_runs: u64,
}

#[derive(clap::Args)]
struct Output {
    /// Print JSON; `weir schema accounts` describes it
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ScopeName {
    /// Push runs, change who may see them, and delete them
    Push,
    /// See the account's runs
    Read,
}

/// What `weir account list --json` prints, and of a new token `weir account add --json` and `token --json`.
#[cfg(feature = "serve")]
#[derive(serde::Serialize, schemars::JsonSchema)]
pub(super) struct Accounts {
    /// Version of this form.
    schema: u32,
    /// The accounts; of a new token its account alone.
    accounts: Vec<weir_store::accounts::Account>,
    /// The new token: the only time that it is seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// A number of bytes as people type it.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let wrong = || format!("`{text}` is no number of bytes; write 500MB, 10GiB or 1000000");
    let unit = match &text[digits..] {
        "" | "B" => 1,
        "kB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|bytes| *bytes < 1 << 62).ok_or_else(wrong)
}

#[cfg(not(feature = "serve"))]
pub(crate) fn run(_: Args) -> anyhow::Result<std::process::ExitCode> {
    Err(super::without_server("accounts"))
}

#[cfg(feature = "serve")]
pub(crate) use made::run;

#[cfg(feature = "serve")]
mod made {
    use super::{Accounts, Args, Command, Output, QuotaArgs, ScopeName};
    use crate::cmd::layout::table;
    use crate::cmd::store_error;
    use crate::cmd::stored::{Database, when};
    use std::process::ExitCode;
    use weir_campaign::now_ms;
    use weir_store::accounts::{Account, Amount, NewToken, Scope};

    /// Version of the JSON.
    const SCHEMA_VERSION: u32 = 1;

    pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
        match args.command {
            Command::Add { name, quota, output, database } => {
                let mut store = database.open_or_make()?;
                let token = store.add_account(&name, amount(&quota), now_ms()).map_err(store_error)?;
                shown(&store, &name, &token, &output, &database)?;
            }
            Command::Token { name, scope, output, database } => {
                let mut store = database.open()?;
                let scope = match scope {
                    ScopeName::Push => Scope::Push,
                    ScopeName::Read => Scope::Read,
                };
                let token = store.add_token(&name, scope, now_ms()).map_err(store_error)?;
                shown(&store, &name, &token, &output, &database)?;
            }
            Command::List { output, database } => {
                let accounts = database.open()?.accounts().map_err(store_error)?;
                if output.json {
                    print_json(accounts, None)?;
                } else {
                    crate::cmd::print(&listed(&accounts, &database.flag()))?;
                }
            }
            Command::Quota { name, quota, database } => {
                let mut store = database.open()?;
                store.set_quota(&name, amount(&quota)).map_err(store_error)?;
                let Amount { bytes, runs } = amount(&quota);
                crate::cmd::print(&format!(
                    "account {name} may push {runs} runs, of {bytes} bytes in all\n"
                ))?;
            }
            Command::Revoke { name, token, database } => {
                let mut store = database.open()?;
                let ended = store.revoke(&name, token.as_deref(), now_ms()).map_err(store_error)?;
                let text = match token {
                    Some(key) => format!("token {key} of {name} is revoked\n"),
                    None => format!(
                        "account {name} is closed, and {ended} of its tokens are revoked; its runs stay\n"
                    ),
                };
                crate::cmd::print(&text)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn amount(quota: &QuotaArgs) -> Amount {
        Amount { bytes: quota.quota_bytes, runs: quota.quota_runs }
    }

    /// A new token, the only time that it is seen.
    fn shown(
        store: &weir_store::Store,
        name: &str,
        token: &NewToken,
        output: &Output,
        database: &Database,
    ) -> anyhow::Result<()> {
        if output.json {
            let accounts = store.accounts().map_err(store_error)?;
            return print_json(
                accounts.into_iter().filter(|account| account.name == name).collect(),
                Some(token.text()),
            );
        }
        crate::cmd::print(&format!(
            "token {key} of account {name}, shown this once:\n\n{text}\n\nKeep it in a file that you alone may read. Next, where runs \
             are: weir push ADDRESS RUN --token-file FILE\nTo revoke it: weir account revoke {name} --token {key}{flag}\n",
            key = token.key(),
            text = token.text(),
            flag = database.flag()
        ))?;
        Ok(())
    }

    fn print_json(accounts: Vec<Account>, token: Option<String>) -> anyhow::Result<()> {
        let document = Accounts { schema: SCHEMA_VERSION, accounts, token };
        crate::cmd::print(&format!("{}\n", serde_json::to_string_pretty(&document)?))?;
        Ok(())
    }

    fn listed(accounts: &[Account], flag: &str) -> String {
        if accounts.is_empty() {
            return format!("no accounts yet\n\nNext: weir account add NAME{flag}\n");
        }
        let mut rows = Vec::new();
        for account in accounts {
            let state =
                account.closed_ms.map_or_else(String::new, |closed| format!("closed {}", when(closed)));
            let used = format!("{} of {}", account.used.runs, account.quota.runs);
            let bytes = format!("{} of {}", account.used.bytes, account.quota.bytes);
            rows.push(vec![account.name.clone(), when(account.created_ms), used, bytes, state]);
            for token in &account.tokens {
                let used =
                    token.used_ms.map_or("never used".to_owned(), |used| format!("used {}", when(used)));
                let state = token.revoked_ms.map_or(used, |revoked| format!("revoked {}", when(revoked)));
                let name = format!("  token {}", token.key);
                rows.push(vec![
                    name,
                    when(token.created_ms),
                    token.scope.name().to_owned(),
                    String::new(),
                    state,
                ]);
            }
        }
        table(&["account", "made", "runs", "bytes", "state"], &[], &rows)
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn bytes_are_read_as_people_type_them() {
        assert_eq!(bytes("0"), Ok(0));
        assert_eq!(bytes("500MB"), Ok(500_000_000));
        assert_eq!(bytes("10GiB"), Ok(10 << 30));
        for text in ["", "GB", "1.5GB", "-1", "10 GB", "99999999TiB", "1gb", "１GB"] {
            assert!(bytes(text).unwrap_err().contains("10GiB"), "{text}");
        }
    }
}
