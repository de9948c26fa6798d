//! `weir switch ctl`: changes and questions to a running switch.

use super::run::reloaded;
use super::{Socket, client_error, controllers, view};
use crate::cmd::layout::table;
use crate::cmd::{BadUse, print};
use clap::Subcommand;
use serde_json::{Map, Value, json};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_switch::{Client, Request};

const LONG_ABOUT: &str = "\
Change a running switch, or ask it something. Commands and the text of flows, groups and meters are \
those of ovs-ofctl. A change is done as a whole or not at all, and when the command returns, every \
worker forwards by it.";

const EXAMPLES: &str = "\
Examples:
  weir switch ctl add-flow priority=10,tcp,tcp_dst=80,actions=output:right
  weir switch ctl dump-flows table=0
  generate-flows | weir switch ctl replace-flows -
  weir switch ctl add-port middle net_vhost2,iface=/tmp/c
  weir switch ctl service lb backends '{\"remove\": 3}'
  weir switch ctl monitor --json | jq .";

/// Change a running switch, or ask it something
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Ctl,
    #[command(flatten)]
    socket: Socket,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    json: bool,
}

/// Which connections are meant.
#[derive(clap::Args)]
struct Connections {
    /// The service that tracks them [default: conntrack]
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Of this zone
    #[arg(long)]
    zone: Option<u16>,
    /// Of this protocol: tcp, udp, icmp, icmpv6, sctp
    #[arg(long)]
    protocol: Option<String>,
    /// From this address
    #[arg(long, value_name = "ADDRESS")]
    source: Option<std::net::IpAddr>,
    /// To this address
    #[arg(long, value_name = "ADDRESS")]
    destination: Option<std::net::IpAddr>,
    /// From this port
    #[arg(long, value_name = "PORT")]
    source_port: Option<u16>,
    /// To this port
    #[arg(long, value_name = "PORT")]
    destination_port: Option<u16>,
}

#[derive(Subcommand)]
enum Ctl {
    /// Add a flow entry, or replace the one of its table, priority and match
    AddFlow { flow: String },
    /// Add, modify and delete flow entries by the lines of a file, as a whole or not at all
    AddFlows {
        /// The file; - for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Make a file's flow entries the only ones; entries that stay keep their counters
    ReplaceFlows {
        /// The file; - for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Change the actions of flow entries, or add one if none matches
    ModFlows {
        flow: String,
        /// Only the entry of exactly this match and priority
        #[arg(long)]
        strict: bool,
    },
    /// Delete flow entries; all if none are named
    DelFlows {
        #[arg(default_value = "")]
        flow: String,
        /// Only the entry of exactly this match and priority
        #[arg(long)]
        strict: bool,
    },
    /// Print flow entries with their counters
    DumpFlows {
        #[arg(default_value = "")]
        flow: String,
    },
    /// Add a group with its buckets
    AddGroup { group: String },
    /// Change a group, its counters kept
    ModGroup { group: String },
    /// Delete a group and the flows that use it; all groups if none is named
    DelGroups {
        #[arg(value_name = "NUMBER")]
        group: Option<u32>,
    },
    /// Print the groups, each with its counters, also by bucket, below it
    DumpGroups,
    /// Add a meter with its bands
    AddMeter { meter: String },
    /// Change a meter, which starts anew
    ModMeter { meter: String },
    /// Delete a meter and the flows that use it; all meters if none is named
    DelMeters {
        #[arg(value_name = "NUMBER")]
        meter: Option<u32>,
    },
    /// Print the meters, each with its counters, also by band, below it
    DumpMeters,
    /// Print the tables that hold entries
    DumpTables,
    /// Print the ports, their links and counters
    Show,
    /// Add a port, while packets flow
    AddPort {
        name: String,
        spec: String,
        /// Its OpenFlow number [default: the least that is free]
        #[arg(long, value_name = "N")]
        number: Option<u32>,
        /// Its queues [default: one a worker]
        #[arg(long, value_name = "N")]
        queues: Option<u16>,
        /// Descriptors of each queue [default: 1024]
        #[arg(long, value_name = "N")]
        descriptors: Option<u16>,
    },
    /// Remove a port, by name or number, while packets flow
    DelPort { port: String },
    /// Print tracked connections
    DumpConntrack {
        #[command(flatten)]
        which: Connections,
        /// At most so many [default: 100000]
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Forget tracked connections
    FlushConntrack {
        #[command(flatten)]
        which: Connections,
    },
    /// Print the addresses that NORMAL learned, each with its port and how long ago it was seen
    DumpFdb,
    /// Forget addresses that NORMAL learned; all if none are named
    FlushFdb {
        /// Of this VLAN; 0 for packets without a tag
        #[arg(long)]
        vlan: Option<u16>,
        /// Of this port, by name or number
        #[arg(long)]
        port: Option<String>,
    },
    /// Print where controllers connect and to which the switch does, each with its connections
    ShowControllers,
    /// Print the services and how they are
    Services,
    /// Ask a service something of its own; one answer a worker
    Service {
        service: String,
        action: String,
        /// With what, in JSON
        #[arg(value_name = "JSON", default_value = "{}")]
        argument: String,
    },
    /// Let a service out of quarantine, built anew
    Release { service: String },
    /// Print what happens, until Ctrl-C: links, packets for the controller, services in quarantine, and
    /// flow entries that go: by timeout, or deleted, of those added with send_flow_rem
    Monitor,
    /// Read the configuration again and apply what changed
    Reload,
    /// Stop the switch, which prints its ledger
    Stop,
    /// Print the versions of Weir, DPDK and the protocol
    Version,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let monitor = matches!(args.command, Ctl::Monitor);
    let show = shown_by(&args.command);
    let request = request(args.command)?;
    let mut client = args.socket.connect()?;
    let answer = client.ask(&request).map_err(client_error)?;
    if monitor {
        return events(&mut client, args.json);
    }
    for warning in answer["warnings"].as_array().map_or(&[][..], Vec::as_slice) {
        eprintln!("{}", warning.as_str().unwrap_or_default());
    }
    let text = if args.json { format!("{answer:#}\n") } else { show(&answer)? };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What a command asks of the switch.
fn request(command: Ctl) -> anyhow::Result<Request> {
    Ok(match command {
        Ctl::AddFlow { flow } => Request::AddFlow { flow },
        Ctl::AddFlows { file } => {
            let (flows, name) = read(&file)?;
            Request::AddFlows { flows, name: Some(name) }
        }
        Ctl::ReplaceFlows { file } => {
            let (flows, name) = read(&file)?;
            Request::ReplaceFlows { flows, name: Some(name) }
        }
        Ctl::ModFlows { flow, strict } => Request::ModFlows { flow, strict },
        Ctl::DelFlows { flow, strict } => Request::DelFlows { flow, strict },
        Ctl::DumpFlows { flow } => Request::DumpFlows { flow },
        Ctl::AddGroup { group } => Request::AddGroup { group },
        Ctl::ModGroup { group } => Request::ModGroup { group },
        Ctl::DelGroups { group } => Request::DelGroups { group },
        Ctl::DumpGroups => Request::DumpGroups {},
        Ctl::AddMeter { meter } => Request::AddMeter { meter },
        Ctl::ModMeter { meter } => Request::ModMeter { meter },
        Ctl::DelMeters { meter } => Request::DelMeters { meter },
        Ctl::DumpMeters => Request::DumpMeters {},
        Ctl::DumpTables => Request::DumpTables {},
        Ctl::Show => Request::Show {},
        Ctl::AddPort { name, spec, number, queues, descriptors } => {
            Request::AddPort { name, spec, number, queues, descriptors }
        }
        Ctl::DelPort { port } => Request::DelPort { port },
        Ctl::DumpConntrack { which, limit } => {
            Request::DumpConntrack { selection: which.selection(), service: which.service, limit }
        }
        Ctl::FlushConntrack { which } => {
            Request::FlushConntrack { selection: which.selection(), service: which.service }
        }
        Ctl::DumpFdb => Request::DumpFdb {},
        Ctl::FlushFdb { vlan, port } => Request::FlushFdb { vlan, port },
        Ctl::ShowControllers => Request::ShowControllers {},
        Ctl::Services => Request::Services {},
        Ctl::Service { service, action, argument } => {
            let wrong = |error| BadUse::new(format!("`{argument}` is no JSON: {error}"));
            let argument = serde_json::from_str(&argument).map_err(wrong)?;
            Request::Service { service, action, argument }
        }
        Ctl::Release { service } => Request::Release { service },
        Ctl::Monitor => Request::Monitor {},
        Ctl::Reload => Request::Reload {},
        Ctl::Stop => Request::Stop {},
        Ctl::Version => Request::Version {},
    })
}

impl Connections {
    fn selection(&self) -> Map<String, Value> {
        let fields = [
            ("zone", json!(self.zone)),
            ("protocol", json!(self.protocol)),
            ("source", json!(self.source)),
            ("destination", json!(self.destination)),
            ("source_port", json!(self.source_port)),
            ("destination_port", json!(self.destination_port)),
        ];
        let given = fields.into_iter().filter(|(_, value)| !value.is_null());
        given.map(|(field, value)| (field.to_owned(), value)).collect()
    }
}

/// A file's text, and its name for error messages.
fn read(file: &Path) -> anyhow::Result<(String, String)> {
    if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok((text, "standard input".to_owned()));
    }
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| BadUse::new(format!("{name}: {error}")))?;
    Ok((text, name))
}

type Show = fn(&Value) -> anyhow::Result<String>;

/// How the answer to a command is printed for people.
fn shown_by(command: &Ctl) -> Show {
    match command {
        Ctl::DumpFlows { .. } => |answer| Ok(lines(answer, |flow| flow["line"].as_str().map(str::to_owned))),
        Ctl::DumpGroups => |answer| Ok(lines(answer, |group| counted(group, "group"))),
        Ctl::DumpMeters => |answer| Ok(lines(answer, |meter| counted(meter, "meter"))),
        Ctl::DumpTables => |answer| Ok(view::dump_tables(&serde_json::from_value::<Vec<_>>(answer.clone())?)),
        Ctl::Show => |answer| Ok(view::show(&serde_json::from_value::<Vec<_>>(answer.clone())?)),
        Ctl::AddPort { .. } => |answer| Ok(format!("port {}\n", answer["number"])),
        Ctl::DumpConntrack { .. } => |answer| Ok(connections(answer)),
        Ctl::FlushConntrack { .. } => |answer| Ok(format!("{} connections forgotten\n", answer["flushed"])),
        Ctl::DumpFdb => |answer| Ok(addresses(answer)),
        Ctl::FlushFdb { .. } => |answer| Ok(format!("{} addresses forgotten\n", answer["flushed"])),
        Ctl::ShowControllers => {
            |answer| Ok(controllers::show(&serde_json::from_value::<Vec<_>>(answer.clone())?))
        }
        Ctl::Services => |answer| Ok(services(answer)),
        Ctl::Service { .. } => |answer| Ok(lines(answer, |part| Some(format!("{part:#}")))),
        Ctl::Reload => |answer| Ok(format!("{}\n", reloaded(answer))),
        Ctl::Version => |answer| {
            let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
            Ok(format!("weir {}\n{}\nprotocol {}\n", text("weir"), text("dpdk"), answer["protocol"]))
        },
        _ => |_| Ok(String::new()),
    }
}

fn lines(answer: &Value, line: impl Fn(&Value) -> Option<String>) -> String {
    let lines = answer.as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(line);
    lines.map(|line| format!("{line}\n")).collect()
}

/// A group or meter, and below it what it counted.
fn counted(of: &Value, what: &str) -> Option<String> {
    Some(format!("{}\n  {}", of[what].as_str()?, of["line"].as_str()?))
}

fn connections(answer: &Value) -> String {
    let line = |connection: &Value| {
        Some(connection["text"].as_str().map_or_else(|| connection.to_string(), str::to_owned))
    };
    let more = if answer["more"] == true { "(there are more; see --limit)\n" } else { "" };
    lines(&answer["connections"], line) + more
}

/// As `ovs-appctl fdb/show` prints them.
fn addresses(answer: &Value) -> String {
    let line = |one: &Value| {
        let port = one["port_name"].as_str().map_or_else(|| one["port"].to_string(), str::to_owned);
        let (vlan, age) = (one["vlan"].as_u64()?, one["age_seconds"].as_u64()?);
        Some(format!("{port:>5}  {vlan:>4}  {}  {age:>3}", one["address"].as_str()?))
    };
    format!(" port  VLAN  MAC                Age\n{}", lines(&answer["addresses"], line))
}

fn services(answer: &Value) -> String {
    let row = |service: &Value| {
        let text = |key: &str| service[key].as_str().unwrap_or_default().to_owned();
        let count = |key: &str| view::grouped(service[key].as_u64().unwrap_or(0));
        let state =
            service["quarantine"].as_str().map_or("well".to_owned(), |why| format!("quarantine: {why}"));
        let counts = ["packets", "dropped", "panics"].map(count);
        let mut row = vec![text("name"), text("kind")];
        row.extend(counts);
        row.extend([state, text("about")]);
        row
    };
    let rows: Vec<Vec<String>> = answer.as_array().map_or(&[][..], Vec::as_slice).iter().map(row).collect();
    table(&["name", "kind", "packets", "dropped", "panics", "it is", "what it does"], &[2, 3, 4], &rows)
}

/// Prints events until the switch is gone.
fn events(client: &mut Client, json: bool) -> anyhow::Result<ExitCode> {
    while let Some(event) = client.event().map_err(client_error)? {
        print(&format!("{}\n", if json { event.to_string() } else { told(&event) }))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// An event in words.
fn told(event: &Value) -> String {
    let text = |key: &str| event[key].as_str().unwrap_or_default();
    match text("kind") {
        "link" => {
            let state = if event["up"] == true { "up" } else { "down" };
            format!("link of port {} ({}) is {state}", event["port"], text("name"))
        }
        "flow-removed" => {
            format!("flow removed ({}) after {} packets: {}", text("reason"), event["packets"], text("flow"))
        }
        "packet-in" => format!(
            "packet for the controller by port {} ({}), table {}, reason {}: {}",
            event["in_port"],
            text("name"),
            event["table"],
            event["reason"],
            text("frame")
        ),
        "quarantined" => format!("service {} is in quarantine: {}", text("service"), text("why")),
        "missed" => format!("{} events were missed", event["events"]),
        "trouble" => format!("trouble: {}", text("error")),
        _ => event.to_string(),
    }
}
