//! `weir nf`: a network function of our own, as a program.

mod control;
mod screen;
mod taps;

use super::BadUse;
use clap::ValueEnum;
use nix::sys::signal::{SigSet, Signal};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_cpu::{Tsc, allowed_cores};
use weir_dpdk::{Eal, EalConfig, Memory, Pool, PortConfig, RingEnd, Shared, SharedConfig};
use weir_nf::{Fault, Firewall, Function, L2Fwd, L3Fwd, PORTS, Program, ProgramConfig};
use weir_trial::Nf;
use weir_units::FrameSize;
use weir_wire::table;

const LONG_ABOUT: &str = "\
Run one of Weir's own network functions between two ports, on one core, to completion.

l2fwd forwards from each port to the other and touches nothing. l3fwd routes IPv4 by longest prefix: \
it checks the header, lowers the TTL, mends the checksum and rewrites both MAC addresses. firewall \
forwards to the other port what the first matching rule allows; what no rule matches is denied, and \
so is what is not IPv4.

Ports are DPDK's: virtual ports by their EAL string, physical ones by PCI address. Further pairs of ports are \
served in turn by the same core. With --queues each port has several queues, which several cores may share out: \
what comes in by one queue leaves by that of the same number of the other port. The program runs until Ctrl-C, and then prints what it received, sent and dropped, \
with the reasons.

Several of these programs may have their packets in the same huge pages, and hand them on without a copy: one owns \
the memory (--share) and has the ports of devices, the others attach to it (--attach); between them are pairs of \
rings, whose ends are ports, ring:N:near and ring:N:far. This takes root, for hugetlbfs is mounted in the folder, out \
of others' sight. When one of them dies, the others end with the reason.";

const EXAMPLES: &str = "\
Examples:
  A router between two vhost-user sockets:
    weir nf l3fwd --port net_vhost0,iface=/tmp/a --port net_vhost1,iface=/tmp/b
  What a packet costs a firewall of 1000 rules, the trace fed from memory, the rest discarded:
    weir nf firewall --entries 1000 --huge-pages --buffers 60000 \\
      --port net_pcap0,rx_pcap=trace.pcap,infinite_rx=1 --port net_null1,no-rx=1

  A firewall between two vhost-user sockets as a process of its own, without a copy between the two:
    weir nf l2fwd --share /tmp/s --links 2 --port net_vhost0,iface=/tmp/a --port ring:0:near \
      --port ring:1:far --port net_vhost1,iface=/tmp/b
    weir nf firewall --attach /tmp/s --port ring:0:far --port ring:1:near

Routes are lines `PREFIX PORT`, such as `198.19.0.0/16 1`; what leaves by port P goes to MAC
address 02:00:00:00:02:0P, from 02:00:00:00:01:0P. Rules are lines `ACTION PROTOCOL SOURCE PORTS
DESTINATION PORTS`, such as `deny udp 198.18.4.0/24 1024-65535 198.19.0.0/20 53` or `allow any any
any any any`; the first that matches decides. `#` starts a comment.

With --control stdio every line on standard output is a JSON object: one when packets flow, one for
each line `stats` on standard input, and the last after `stop` or the end of the input. After `tap KEY`
the program counts the packets that carry a tester's stamps, scrambled with this key, at each port as they
come and as they leave, with their delay since they were stamped; `stats` has it under `taps`. `tap off`
ends that.";

/// Run one of Weir's own network functions between two ports
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to do with packets
    kind: Kind,
    /// A port: an EAL vdev string (net_vhost0,iface=PATH), a PCI address, or an end of rings (ring:N:near, ring:N:far). Give it twice: the first is port 0; further pairs are served likewise
    #[arg(long = "port", visible_alias = "vdev", value_name = "PORT", required = true)]
    ports: Vec<String>,
    /// Routes or rules of the built-in table: the test network of RFC 2544, divided [default: 10]
    #[arg(long, value_name = "N", conflicts_with_all = ["routes", "rules"])]
    entries: Option<u32>,
    /// Read the routes from a file (l3fwd)
    #[arg(long, value_name = "FILE", conflicts_with = "rules")]
    routes: Option<PathBuf>,
    /// Read the rules from a file (firewall)
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// A worker's core; give it several times to share out the queues of the ports [default: the last that this process may use]
    #[arg(long = "core", value_name = "N")]
    cores: Vec<usize>,
    /// Receive queues of each port, and as many transmit queues; flows are spread over them by whoever sends
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    queues: u16,
    /// Keep packets in huge pages, which the machine must have set aside
    #[arg(long)]
    huge_pages: bool,
    /// Own memory that other `weir nf` attach to, met in this folder; with --links
    #[arg(long, value_name = "FOLDER", requires = "links", conflicts_with = "attach")]
    share: Option<PathBuf>,
    /// Pairs of rings in the memory that is shared, numbered from 0
    #[arg(long, value_name = "N", requires = "share", value_parser = clap::value_parser!(u16).range(1..=1000))]
    links: Option<u16>,
    /// Attach to the memory that another `weir nf` shares in this folder; ports are ends of its rings
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["huge_pages", "memory"])]
    attach: Option<PathBuf>,
    /// Packet buffers; a port that replays a capture from memory holds one for each packet of it
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1024..=4_000_000))]
    buffers: u32,
    /// Mebibytes for DPDK [default: what the buffers take, and some]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(64..=1_000_000))]
    memory: Option<u32>,
    /// Descriptors of each port's rings
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(64..=32_768))]
    descriptors: u16,
    /// The largest frame the ports must carry, in bytes with FCS
    #[arg(long, value_name = "BYTES", default_value_t = 1522)]
    max_frame: u32,
    /// After each round of polls, let whoever else polls on the same core have it
    #[arg(long = "yield")]
    yields: bool,
    /// Do something wrong on purpose, to test a tester: KIND or KIND:SHARE, such as corrupt:1e-6 for one packet in a million
    #[arg(long, value_name = "KIND[:SHARE]")]
    fault: Option<Fault>,
    /// Be controlled by lines on standard input, and answer in JSON on standard output
    #[arg(long, value_name = "HOW")]
    control: Option<Control>,
}

/// The network functions by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Forward from each port to the other, unchanged
    L2fwd,
    /// Route IPv4 by longest prefix
    L3fwd,
    /// Forward what the first matching rule allows
    Firewall,
}

/// Ways to be controlled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Control {
    /// Standard input and output
    Stdio,
}

/// The program at work, and what is to be said about it.
struct Session {
    program: Program,
    function: Nf,
    /// Of its workers.
    cores: Vec<usize>,
    tsc: Tsc,
    fault: Option<Fault>,
}

/// Runs `weir nf`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    // Before any thread starts, so that all inherit it, and the one that waits for signals gets them.
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    signals.thread_block()?;
    let session = start(&args)?;
    match args.control {
        Some(Control::Stdio) => control::run(session, signals),
        None => screen::run(session, signals),
    }
}

/// Checks everything, then starts forwarding.
fn start(args: &Args) -> anyhow::Result<Session> {
    check_ports(args)?;
    let (function, nf) = function(args)?;
    let cores = match args.cores.as_slice() {
        [] => vec![allowed_cores().last().copied().unwrap_or(0)],
        cores => cores.to_vec(),
    };
    if cores.len() > usize::from(args.queues) {
        let (cores, queues) = (cores.len(), args.queues);
        let why = format!(
            "{cores} cores for {queues} queue(s), each of which one worker has; name as many --queues"
        );
        return Err(BadUse::new(why).into());
    }
    let max_frame = FrameSize::new(args.max_frame).map_err(BadUse::new)?;
    let port = PortConfig { queues: args.queues, descriptors: args.descriptors, max_frame };
    let config = ProgramConfig {
        ports: args.ports.clone(),
        port,
        buffers: args.buffers,
        cores: cores.clone(),
        yields: args.yields,
        fault: args.fault,
    };
    let program = match shared(args, max_frame, nf)? {
        Some(shared) => Program::start_shared(shared, function, &config),
        None => Program::start(alone(args, max_frame)?, function, &config),
    };
    let program = program.map_err(BadUse::new)?;
    Ok(Session { program, function: nf, cores, tsc: Tsc::get(), fault: args.fault })
}

/// Refuses ports that are no pairs, and ends of rings where there is nobody to have the other.
fn check_ports(args: &Args) -> anyhow::Result<()> {
    let count = args.ports.len();
    if !count.is_multiple_of(PORTS) {
        let given = if count == 1 { "one --port".to_owned() } else { format!("{count} --port") };
        return Err(BadUse::new(format!(
            "{given} given: a network function has two ports; give --port twice (or twice more for each further pair)"
        ))
        .into());
    }
    for port in &args.ports {
        match (RingEnd::is_meant(port), args.share.is_some(), args.attach.is_some()) {
            (true, false, false) => {
                let why = "is an end of rings, which takes --share or --attach";
                return Err(BadUse::new(format!("`{port}` {why}")).into());
            }
            (false, _, true) => {
                let why = "is a device, and those are of the process that owns the memory; write ring:N:near or ring:N:far";
                return Err(BadUse::new(format!("`{port}` {why}")).into());
            }
            (true, ..) => drop(port.parse::<RingEnd>().map_err(BadUse::new)?),
            _ => {}
        }
    }
    Ok(())
}

/// The memory that it shares, where it shares any.
fn shared(args: &Args, max_frame: FrameSize, nf: Nf) -> anyhow::Result<Option<Shared>> {
    let shared = match (&args.share, &args.attach) {
        (Some(folder), _) => Shared::create(&SharedConfig {
            folder: folder.clone(),
            megabytes: megabytes(args, max_frame)?,
            pci: has_pci(args),
            links: args.links.unwrap_or(1),
            buffers: args.buffers,
            max_frame,
        }),
        (None, Some(folder)) => {
            let ends: Vec<RingEnd> = args.ports.iter().filter_map(|port| port.parse().ok()).collect();
            Shared::join(folder, &format!("weir nf {nf}"), &ends)
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(shared.map_err(BadUse::new)?))
}

/// DPDK for this process alone.
fn alone(args: &Args, max_frame: FrameSize) -> anyhow::Result<&'static Eal> {
    let config = EalConfig {
        memory: if args.huge_pages { Memory::Huge } else { Memory::Normal },
        megabytes: megabytes(args, max_frame)?,
        pci: has_pci(args),
    };
    Ok(Eal::init(config).map_err(BadUse::new)?)
}

fn megabytes(args: &Args, max_frame: FrameSize) -> anyhow::Result<u32> {
    let pool = u32::try_from(Pool::megabytes(args.buffers, max_frame.bytes().max(Pool::ROOM)))?;
    Ok(args.memory.unwrap_or(pool + pool / 4 + SPARE_MEGABYTES))
}

fn has_pci(args: &Args) -> bool {
    args.ports.iter().any(|port| !port.starts_with("net_") && !RingEnd::is_meant(port))
}

/// Mebibytes beside the packet buffers: rings, ports, DPDK's own tables.
const SPARE_MEGABYTES: u32 = 64;

/// The network function with its table, and its description.
fn function(args: &Args) -> anyhow::Result<(Function, Nf)> {
    match (args.kind, &args.routes, &args.rules) {
        (Kind::L2fwd, None, None) if args.entries.is_none() => Ok((Function::L2Fwd(L2Fwd), Nf::L2Fwd)),
        (Kind::L3fwd, routes, None) => {
            let routes = match routes {
                Some(file) => read(file)?,
                None => Nf::L3Fwd { routes: entries(args)? }.routes(),
            };
            let nf = Nf::L3Fwd { routes: u32::try_from(routes.len())? };
            let function = L3Fwd::new(&routes).map_err(|error| in_file(args.routes.as_deref(), error))?;
            Ok((Function::L3Fwd(Box::new(function)), nf))
        }
        (Kind::Firewall, None, rules) => {
            let rules = match rules {
                Some(file) => read(file)?,
                None => Nf::Firewall { rules: entries(args)? }.rules(),
            };
            let nf = Nf::Firewall { rules: u32::try_from(rules.len())? };
            let function = Firewall::new(&rules).map_err(|error| in_file(args.rules.as_deref(), error))?;
            Ok((Function::Firewall(Box::new(function)), nf))
        }
        (Kind::L2fwd, ..) => {
            Err(BadUse::new("l2fwd has no table; leave out --entries, --routes and --rules").into())
        }
        (Kind::L3fwd, ..) => Err(BadUse::new("l3fwd takes --routes, not --rules").into()),
        (Kind::Firewall, ..) => Err(BadUse::new("firewall takes --rules, not --routes").into()),
    }
}

/// Entries of the built-in table.
fn entries(args: &Args) -> Result<u32, BadUse> {
    let entries = args.entries.unwrap_or(Nf::DEFAULT_ENTRIES);
    if (1..=Nf::MAX_ENTRIES).contains(&entries) {
        Ok(entries)
    } else {
        Err(BadUse::new(format!("--entries {entries} is not 1 to {}", Nf::MAX_ENTRIES)))
    }
}

fn read<E: table::Entry>(file: &Path) -> Result<Vec<E>, BadUse> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file)
        .map_err(|error| BadUse::new(format!("{name}: {error}; name a file of {}s", E::NAME)))?;
    table::read(&name, &text).map_err(BadUse::new)
}

fn in_file(file: Option<&Path>, error: impl std::fmt::Display) -> BadUse {
    match file {
        Some(file) => BadUse::new(format!("{}: {error}", file.display())),
        None => BadUse::new(error),
    }
}
