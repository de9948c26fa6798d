//! Runs, one after another, to a server.

use super::client::{Client, There, Trouble};
use super::{Args, Document, Pushed};
use crate::cmd::export::sealed;
use crate::cmd::{BadUse, shown};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use weir_store::Visibility;
use weir_store::bundle::{SigningKey, Written};
use weir_trial::run::Run;

/// Version of the JSON.
const SCHEMA_VERSION: u32 = 1;
/// The variable that holds the token.
const VARIABLE: &str = "WEIR_TOKEN";
/// So often a server that is away or busy is asked.
const TRIES: u32 = 7;
/// The longest wait between two of them.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let token = token(args.token_file.as_deref())?;
    let client = Client::new(&args.url, token, args.ca_cert.as_deref(), args.allow_http)?;
    let key = args.sign.as_deref().map(SigningKey::read).transpose().map_err(BadUse::new)?;
    let server = patiently(|| client.server()).map_err(ended)?;
    let Some(licence) = server.licence.filter(|_| server.push) else {
        return Err(
            BadUse::new(format!("{} takes no runs: it is not served with --allow-push", client.url)).into()
        );
    };
    if !args.json {
        crate::cmd::print(&format!("to {}, under its licence for results: {licence}\n", client.url))?;
    }
    let mut runs = Vec::new();
    for selector in &args.runs {
        let (run, written) = sealed(&args.database, selector, key.as_ref())?;
        let bytes = written.bytes.len() as u64;
        let outcome = match server.bundle_bytes.filter(|most| bytes > *most) {
            Some(most) => Err(Trouble::Refused(format!(
                "its bundle has {bytes} bytes, and the server takes {most} at most"
            ))),
            None => patiently(|| one(&client, &run, &written, args.visibility())),
        };
        let outcome = match outcome {
            Ok(there) => Ok(there),
            Err(Trouble::Refused(why)) => Err(why),
            Err(trouble) => return Err(ended(trouble).context(format!("run {}", run.name))),
        };
        let pushed = told(&client, &run, outcome);
        if !args.json {
            say(&run, &pushed, bytes)?;
        }
        runs.push(pushed);
    }
    let refused = runs.iter().any(|pushed| pushed.error.is_some());
    if args.json {
        let document = Document { schema: SCHEMA_VERSION, server: client.url, licence, runs };
        crate::cmd::print(&format!("{}\n", serde_json::to_string_pretty(&document)?))?;
    }
    Ok(if refused { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

/// The token, from a file that nobody else may read, or from the environment.
fn token(file: Option<&Path>) -> anyhow::Result<String> {
    let text = match file {
        Some(path) => {
            let wrong = |why: &dyn std::fmt::Display| BadUse::new(format!("--token-file {}: {why}", path.display()));
            let data = std::fs::metadata(path).map_err(|error| wrong(&error))?;
            if data.permissions().mode() & 0o077 != 0 {
                return Err(wrong(&format!("others may read it; `chmod 600 {}` closes it", path.display())).into());
            }
            std::fs::read_to_string(path).map_err(|error| wrong(&error))?
        }
        None => std::env::var(VARIABLE).map_err(|_| {
            BadUse::new(format!("a token is needed: name a file with --token-file, or set {VARIABLE}; the server's administrator has it"))
        })?,
    };
    let token = text.trim().to_owned();
    if token.starts_with(weir_store::accounts::TOKEN_PREFIX)
        && token.chars().all(|letter| letter.is_ascii_graphic())
    {
        return Ok(token);
    }
    let place = file.map_or_else(|| VARIABLE.to_owned(), |path| path.display().to_string());
    Err(BadUse::new(format!(
        "{place} holds no token; one begins with `{}`",
        weir_store::accounts::TOKEN_PREFIX
    ))
    .into())
}

/// Pushes one run, unless it is there.
fn one(
    client: &Client,
    run: &Run,
    written: &Written,
    visibility: Option<Visibility>,
) -> Result<There, Trouble> {
    if let Some(there) = client.run(&run.uuid)?
        && there.bundle.as_ref() == Some(&written.address)
        && let Some(shared) = there.shared.as_ref().filter(|shared| shared.own)
    {
        return match visibility.filter(|wanted| *wanted != shared.visibility) {
            Some(visibility) => client.change(&run.uuid, visibility),
            None => Ok(there),
        };
    }
    let bytes = written.bytes.len() as u64;
    let bar = bar(bytes, &run.name);
    let mut reader = bar.wrap_read(written.bytes.as_slice());
    let pushed = client.push(&mut reader, bytes, visibility);
    bar.finish_and_clear();
    pushed
}

fn bar(bytes: u64, name: &str) -> ProgressBar {
    let style = "{msg} {bar:30} {bytes} of {total_bytes}, {bytes_per_sec}";
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    // What is no terminal gets no bar.
    bar.with_message(shown(name).into_owned())
        .with_style(ProgressStyle::with_template(style).expect("a template of ours"))
}

/// Asks again where the server is away or busy, a little later each time.
fn patiently<T>(mut ask: impl FnMut() -> Result<T, Trouble>) -> Result<T, Trouble> {
    let mut wait = Duration::from_secs(1);
    let mut tries = 1;
    loop {
        match ask() {
            Err(Trouble::Away(why, after)) if tries < TRIES => {
                let pause = after.unwrap_or(wait).min(LONGEST_WAIT);
                eprintln!("weir: {}; again in {} s", shown(&why), pause.as_secs());
                std::thread::sleep(pause);
                (tries, wait) = (tries + 1, wait * 2);
            }
            done => return done,
        }
    }
}

fn ended(trouble: Trouble) -> anyhow::Error {
    match trouble {
        Trouble::Refused(why) => BadUse::new(why).into(),
        Trouble::Away(why, _) => {
            anyhow::anyhow!("{why}; what was acknowledged is kept: run the same command again later")
        }
    }
}

fn told(client: &Client, run: &Run, outcome: Result<There, String>) -> Pushed {
    let (name, uuid) = (run.name.clone(), run.uuid.clone());
    match outcome {
        Ok(there) => Pushed {
            run: name,
            uuid,
            name: Some(there.name),
            became: there.became,
            page: Some(format!("{}{}", client.url, there.page)),
            visibility: there.shared.map(|shared| shared.visibility),
            error: None,
        },
        Err(why) => Pushed {
            run: name,
            uuid,
            name: None,
            became: "refused".to_owned(),
            page: None,
            visibility: None,
            error: Some(why),
        },
    }
}

fn say(run: &Run, pushed: &Pushed, bytes: u64) -> anyhow::Result<()> {
    let Pushed { run: own, name, became, page, visibility, error, .. } = pushed;
    if let Some(why) = error {
        eprintln!("error: {}", shown(&format!("run {own}: {why}")));
        return Ok(());
    }
    let trials: usize = run.points.iter().map(|point| point.trials.len()).sum();
    let what = match became.as_str() {
        "added" => "pushed",
        "continued" => "brought up to date",
        "older" => "there already, and further than this",
        _ => "there already",
    };
    let seen = visibility.map_or_else(String::new, |visibility| format!(", {visibility}"));
    let page = page.as_deref().unwrap_or_default();
    let called = match name {
        Some(name) if name != own => format!("{own} as {name}"),
        _ => own.clone(),
    };
    crate::cmd::print(&format!(
        "{what}: {called}, {} points, {trials} trials, {bytes} bytes{seen}\n  {page}\n",
        run.points.len()
    ))?;
    Ok(())
}
