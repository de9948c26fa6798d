//! `weir bench`: the main job. A plan in, a stored run and a page out.

mod flows;
mod live;
mod overrides;

use super::BadUse;
use live::Live;
use overrides::Overrides;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread::JoinHandle;
use weir_campaign::lease::Lease;
use weir_campaign::plan::{self, Known, Machine, Plan};
use weir_campaign::{Campaign, Cores, Flags, Tally, now_ms};
use weir_dut::Kind;
use weir_store::{NewRun, RunId, Selector, Store};
use weir_trial::run::{Run, RunState, Session};

const LONG_ABOUT: &str = "\
Measure network functions on dataplanes, keep every trial, and write a page.

Without a plan it runs `quick` (with --flows, `tables`): three network functions, three sizes, throughput without loss (NDR) \
and latency at half of it, in at most 90 seconds of measuring, on two cores, without root, NIC or \
huge pages. A plan is the name of one that comes with Weir (see `weir plan show`) or a TOML file \
(see `weir plan check`). The options below replace the plan's axes; each takes a list.

With --against, every point is measured on two devices in turns, trial by trial, the idle one \
frozen, so that a machine that drifts hits both; the comparison stands at the end (see `weir compare`).

Ctrl-C ends within two seconds and keeps what was measured; --resume goes on with it, also after a \
crash or a power cut.

Run it in an isolated lab only: RFC 6815 keeps tests of this kind off production networks.";

const EXAMPLES: &str = "\
Examples:
  A first look:
    weir bench
  Another device and other sizes, fed from memory, one direction:
    weir bench fed --dut nf,testpmd --nf l2fwd --size 64,1500
  A plan of one's own, into a database of its own:
    weir bench mine.toml --db results.db -o page.html
  Two devices in turns, each point three times:
    weir bench fed --dut nf --against testpmd --nf l2fwd --repeats 3
  A flow table of one's own and a capture, on two devices: the same verdicts, and which is faster?
    weir bench --flows site.flows --trace site.pcap --against ovs-dpdk
  Go on with what was interrupted:
    weir bench --resume @last

Exit codes: 0 every point was measured or is not supported by its device; 1 a point failed, or it \
was interrupted; 2 bad use.";

/// Measure: throughput, latency, loss and cycles, into a stored run and a page
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// A plan: a file, or the name of one that comes with Weir [default: quick]
    #[arg(value_name = "PLAN", conflicts_with = "resume")]
    plan: Option<String>,
    #[command(flatten)]
    overrides: Overrides,
    /// Go on with an unfinished run: a name, the beginning of one, a number, @last
    #[arg(long, value_name = "RUN")]
    resume: Option<Selector>,
    /// Name of the run [default: date and an animal]
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    name: Option<String>,
    /// The database: a file, or postgres://USER@HOST/NAME [default: in the per-user data folder]
    #[arg(long, value_name = "DB")]
    db: Option<PathBuf>,
    /// Where to write the page [default: beside the database's file, by the run's name]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the whole run as JSON (schema: run) instead of the table
    #[arg(long)]
    json: bool,
}

/// The fact that says where a run's plan was read.
const PLAN_FILE: &str = "plan.file";

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let said = args.overrides.said();
    if args.resume.is_some() && !said.is_empty() {
        let said = said.join(" ");
        return Err(BadUse::new(format!(
            "a run that goes on keeps its plan: leave out {said}, or begin another"
        ))
        .into());
    }
    let flags = Flags::default();
    catch_interrupts(&flags)?;
    args.output.as_deref().map_or(Ok(()), check_writable)?;
    // Before a run is begun that could not measure anything.
    let cores = Cores::assign(&weir_cpu::allowed_cores())?;
    // Who else is at work is watched for a while: meanwhile the store and the plan are read.
    let environment = std::thread::spawn(super::environment);
    let db = args.db.as_deref();
    let mut store = if args.resume.is_some() { Store::open_existing(db) } else { Store::open(db) }
        .map_err(super::store_error)?;
    let (mut lease, plan, run, done) = match &args.resume {
        Some(selector) => resume(&mut store, selector, cores, environment)?,
        None => begin(&mut store, &args, cores, environment)?,
    };
    let name = store.run_name(run).map_err(super::store_error)?;
    if let Some(lease) = &mut lease {
        lease.name(&format!("run {name} (process {})", std::process::id()));
    }
    let again = format!("{name}{}", super::stored::db_flag(args.db.as_deref()));
    let mut live = Live::new(&plan, args.json);
    live.begin(&name, args.resume.is_some());
    let measured = Campaign::new(&plan, &mut store, run, done, flags.clone())
        .and_then(|mut campaign| campaign.run(&mut live));
    live.end();
    let tally = match measured {
        Ok(tally) => tally,
        Err(error) => {
            // A store that is full cannot keep this either; then the run can be resumed all the same.
            let _ = store.end_run(run, RunState::Interrupted, now_ms());
            eprintln!("What was measured is kept. Go on with: weir bench --resume {again}");
            return Err(error.into());
        }
    };
    if tally.left > 0 && !tally.interrupted {
        drop(lease);
        return Err(go_on(&name, &args, store).into());
    }
    let page = write_page(&store, run, &name, args.output.as_deref()).inspect_err(|_| {
        eprintln!("What was measured is kept. Write the page with: weir report {again} -o FILE")
    })?;
    if args.json {
        super::print(&store.load(run).map_err(super::store_error)?.to_json()?)?;
    } else {
        if let (Some(against), [dut]) = (&plan.against, plan.duts.as_slice()) {
            let stored = store.load(run).map_err(super::store_error)?;
            super::print(&format!("\n{}", super::compare::devices(&stored, dut, against)))?;
            super::print(&flows::answer(&stored, dut, against))?;
        }
        live.summary(&tally, &again, &page, store.path())?;
    }
    let fine = tally.failed == 0 && !tally.interrupted;
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn catch_interrupts(flags: &Flags) -> anyhow::Result<()> {
    let flags = flags.clone();
    Ok(ctrlc::set_handler(move || flags.interrupt())?)
}

/// A run begun or taken up again: its lease on the cores, its plan, its number, and the points done.
type Begun = (Option<Lease>, Plan, RunId, BTreeSet<u32>);

/// The environment, while it is being read.
type Environment = JoinHandle<BTreeMap<String, String>>;

fn read_to_the_end(environment: Environment) -> BTreeMap<String, String> {
    environment.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Leases the cores that a plan's devices are measured on; a simulated device needs none.
fn lease(plan: &Plan, cores: Cores) -> Result<Option<Lease>, BadUse> {
    if plan.duts.iter().chain(&plan.against).all(|dut| weir_dut::kind(dut) == Kind::Arithmetic) {
        return Ok(None);
    }
    let allowed = weir_cpu::allowed_cores();
    let mut leased = Cores::testers(&allowed, plan.tester_cores).map_err(BadUse::new)?;
    leased.push(cores.dut);
    leased.extend(plan.cores_of(&Machine::here()));
    Lease::take(&leased).map(Some).map_err(BadUse::new)
}

/// The plan, with the axes that the command line replaces, and where it was read.
pub(super) fn read(args: &Args) -> Result<(Plan, PathBuf), BadUse> {
    let asked = args.plan.as_deref().unwrap_or(if args.overrides.has_flows() { "tables" } else { "quick" });
    let (text, file) = match plan::builtin(asked) {
        Some(builtin) => (builtin.text.to_owned(), PathBuf::from(format!("{asked}.toml"))),
        None => (read_plan(asked)?, PathBuf::from(asked)),
    };
    let applied = args.overrides.apply(&text);
    let plan = Plan::parse(&applied.text, &file, &Known::here());
    Ok((plan.map_err(|error| BadUse::new(applied.blame(error)))?, file))
}

/// Reads the plan and begins a run.
fn begin(store: &mut Store, args: &Args, cores: Cores, environment: Environment) -> anyhow::Result<Begun> {
    let (plan, file) = read(args)?;
    let lease = lease(&plan, cores)?;
    let mut environment = read_to_the_end(environment);
    flows::keep(&plan, &store.beside("flows"), &mut environment)?;
    // Relative paths in a plan start at its folder, also when the run is resumed from elsewhere.
    let absolute = std::path::absolute(&file).unwrap_or_else(|_| file.clone());
    environment.insert(PLAN_FILE.to_owned(), absolute.display().to_string());
    let new = NewRun {
        name: args.name.as_deref(),
        started_ms: now_ms(),
        plan: &plan.source,
        weir: super::WEIR,
        environment: &environment,
    };
    let run = store.begin_run(new).map_err(super::store_error)?;
    Ok((lease, plan, run, BTreeSet::new()))
}

fn read_plan(asked: &str) -> Result<String, BadUse> {
    std::fs::read_to_string(asked).map_err(|error| {
        let names: Vec<&str> = plan::builtins().iter().map(|builtin| builtin.name).collect();
        BadUse::new(format!(
            "plan `{asked}`: {error}; name a TOML file, or one of the plans that come with Weir: {}",
            names.join(", ")
        ))
    })
}

/// Takes an unfinished run up again, with the plan it was begun with.
fn resume(
    store: &mut Store,
    selector: &Selector,
    cores: Cores,
    environment: Environment,
) -> anyhow::Result<Begun> {
    let run = store.find(selector).map_err(super::store_error)?;
    let stored = store.load(run).map_err(super::store_error)?;
    if stored.state == RunState::Finished {
        return Err(BadUse::new(format!("run {} is finished; nothing is left to resume", stored.name)).into());
    }
    let session = Session {
        started_ms: now_ms(),
        weir: super::WEIR.to_owned(),
        environment: read_to_the_end(environment).into_iter().chain(of_the_plan(&stored)).collect(),
    };
    another_machine(&stored, &session)?;
    let file = stored.environment.get(PLAN_FILE).map_or("plan.toml", String::as_str);
    let plan = parse(&stored.plan, Path::new(file))?;
    flows::same(&stored, &plan, &store.beside("flows"))?;
    let lease = lease(&plan, cores)?;
    store.resume_run(run, &session).map_err(super::store_error)?;
    let mix = store.load(run).map_err(super::store_error)?.mix();
    if !mix.is_empty() {
        eprintln!(
            "warning: run {} goes on under other conditions: {}",
            stored.name,
            super::shown(&super::stored::mixed(&mix))
        );
    }
    let progress = store.progress(run).map_err(super::store_error)?;
    Ok((lease, plan, run, progress.finished.into_iter().chain(progress.failed).collect()))
}

/// Where the plan was read, and with which flows, stays as it was.
fn of_the_plan(stored: &Run) -> impl Iterator<Item = (String, String)> {
    let facts = stored.environment.iter().filter(|(name, _)| name.starts_with("plan."));
    facts.map(|(name, value)| (name.clone(), value.clone()))
}

/// Facts that name a machine: with another value it is another one.
const MACHINE: [&str; 2] = ["machine.id", "cpu.model"];

/// Refuses to go on with a run of another machine: its points could not stand in one table.
fn another_machine(stored: &Run, session: &Session) -> Result<(), BadUse> {
    for name in MACHINE {
        if let (Some(then), Some(now)) = (stored.environment.get(name), session.environment.get(name))
            && then != now
        {
            return Err(BadUse::new(format!(
                "run {} was begun on another machine ({name} was {then}, here it is {now}); resume it there, or \
                 begin a run of its own here: weir show {} --plan > again.toml && weir bench again.toml",
                stored.name, stored.name
            )));
        }
    }
    Ok(())
}

fn parse(text: &str, file: &Path) -> Result<Plan, BadUse> {
    Plan::parse(text, file, &Known::here()).map_err(BadUse::new)
}

/// DPDK takes its memory once per process: the rest of a plan with and without huge pages is
/// measured by a process of its own. Returns only when that cannot be started.
fn go_on(name: &str, args: &Args, store: Store) -> std::io::Error {
    drop(store); // lets go of the run's lock
    let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| "weir".into()));
    command.args(["bench", "--resume", name]);
    if let Some(db) = &args.db {
        command.arg("--db").arg(db);
    }
    if let Some(output) = &args.output {
        command.arg("--output").arg(output);
    }
    if args.json {
        command.arg("--json");
    }
    command.exec()
}

/// Refuses a page that cannot be written before anything is measured for it.
fn check_writable(page: &Path) -> Result<(), BadUse> {
    let there = page.exists();
    OpenOptions::new().append(true).create(true).open(page).map_err(|error| {
        BadUse::new(format!("page {}: {error}; name a file you may write with -o", page.display()))
    })?;
    if !there {
        // Empty, and ours: the page comes when there is something on it.
        let _ = std::fs::remove_file(page);
    }
    Ok(())
}

fn write_page(store: &Store, run: RunId, name: &str, output: Option<&Path>) -> anyhow::Result<PathBuf> {
    let path = match output {
        Some(path) => path.to_owned(),
        None => store.beside(&format!("{name}.html")),
    };
    let run = store.load(run).map_err(super::store_error)?;
    super::write_page(&[run], &path)?;
    Ok(path)
}

/// How a campaign ended, in a sentence.
fn verdict(tally: &Tally) -> String {
    let mut parts = vec![format!("{} points measured", tally.measured)];
    if tally.unsupported > 0 {
        parts.push(format!("{} not supported by their device", tally.unsupported));
    }
    if tally.failed > 0 {
        parts.push(format!("{} failed", tally.failed));
    }
    if tally.interrupted {
        parts.push("interrupted".to_owned());
    }
    parts.join(", ")
}
