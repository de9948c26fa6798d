//! The options of `weir switch`, and the settings they make together with a configuration.

use crate::cmd::BadUse;
use std::path::PathBuf;
use std::str::FromStr;
use weir_switch::config::{DESCRIPTORS, check_name};
use weir_switch::{
    Controller, Experiment, Known, Listen, MetricsAt, PollMode, PortSpec, Selection, ServiceConfig, Settings,
    TableText, TcamConfig,
};
use weir_units::FrameSize;

/// What a switch is to be.
#[derive(clap::Args, Clone)]
pub(super) struct Options {
    /// Configuration in TOML; options add to it, or take precedence
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A port: an EAL vdev string, a PCI address, `null`, or `trace:[RX][,tx=TX][,loop][,rate=PPS]`; named p1, p2, ... where it has no name
    #[arg(long = "port", value_name = "[NAME=]SPEC")]
    ports: Vec<NamedPort>,
    /// A file of flow entries, as ovs-ofctl add-flows takes it
    #[arg(long, value_name = "FILE")]
    flows: Option<PathBuf>,
    /// A flow entry, as ovs-ofctl add-flow takes it
    #[arg(long = "flow", value_name = "FLOW", conflicts_with = "flows")]
    flow: Vec<String>,
    /// A file of groups, as ovs-ofctl add-groups takes it
    #[arg(long, value_name = "FILE")]
    groups: Option<PathBuf>,
    /// A file of meters, one a line as ovs-ofctl add-meter takes it
    #[arg(long, value_name = "FILE")]
    meters: Option<PathBuf>,
    /// A service by the name that flows call it by, with settings in JSON
    #[arg(long = "service", value_name = "NAME[=KIND[:JSON]]")]
    services: Vec<NamedService>,
    /// A worker's core; give it once a worker [default: the last that this process may use]
    #[arg(long = "core", value_name = "N")]
    cores: Vec<usize>,
    /// Keep packets in huge pages, which the machine must have set aside
    #[arg(long)]
    huge_pages: bool,
    /// Keep packets in the memory that another process shares in this folder (`weir nf --share`), with ports ring:N:near and ring:N:far; takes root
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["huge_pages", "memory", "buffers"])]
    attach: Option<PathBuf>,
    /// Mebibytes for DPDK [default: what the buffers take, and some]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u32).range(64..=1_000_000))]
    memory: Option<u32>,
    /// Packet buffers for all ports [default: 16384]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1024..=4_000_000))]
    buffers: Option<u32>,
    /// The largest frame the ports carry, in bytes with FCS [default: 1522]
    #[arg(long, value_name = "BYTES")]
    max_frame: Option<u32>,
    /// Bytes of a frame that a packet buffer has room for at least; longer frames than that and --max-frame are dropped [default: 2048]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(64..=16_384))]
    room: Option<u16>,
    /// Queues of each --port [default: one a worker]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    queues: Option<u16>,
    /// Descriptors of each queue of each --port
    #[arg(long, value_name = "N", default_value_t = DESCRIPTORS, value_parser = clap::value_parser!(u16).range(64..=32_768))]
    descriptors: u16,
    /// Do not coalesce the stages of services
    #[arg(long)]
    no_coalescing: bool,
    /// How a select group chooses a bucket: `flow`, by a hash that is the same in both directions, or `round-robin`, in turns packet by packet [default: flow]
    #[arg(long, value_name = "HOW", value_parser = clap::value_parser!(Selection))]
    selection: Option<Selection>,
    /// How workers wait for packets: `busy`, `yield`, which lets whoever shares the core poll after each round, or `adaptive[:TIME]`, which gives an idle core back and has a packet wait so long, or little more (100us; 10us to 10ms) [default: busy]
    #[arg(long, value_name = "MODE", value_parser = clap::value_parser!(PollMode))]
    poll: Option<PollMode>,
    /// Have a NIC's table of N entries in front of each queue name the megaflow with the packet; emulated where a port has none, an update taking TIME (100us) [default: none]
    #[arg(long, value_name = "N[,latency=TIME][,evict=least-recent|lowest-rate]", value_parser = clap::value_parser!(TcamConfig))]
    tcam: Option<TcamConfig>,
    /// Do otherwise than usual, for an experiment: `exact=off`, `fast-path=off`, `misses=10%`, `coalesced=50%`, `hints=ip-id`, `offloaded=50%`, with commas between them [default: none]
    #[arg(long, value_name = "SETTINGS", value_parser = clap::value_parser!(Experiment))]
    experiment: Option<Experiment>,
    /// Make hashes and draws repeatable [default: drawn at the start]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How it is controlled: by a socket at PATH, by lines on standard input (`stdio`), or not (`none`) [default: a socket in the user's runtime folder]
    #[arg(long = "control", value_name = "PATH|stdio|none")]
    controls: Vec<Control>,
    /// Let OpenFlow controllers connect: `ptcp:[PORT][:ADDRESS]`, `punix:PATH`, or `pssl:[PORT][:ADDRESS]` with the certificates of the configuration
    #[arg(long = "listen", value_name = "ENDPOINT", value_parser = clap::value_parser!(Listen))]
    listen: Vec<Listen>,
    /// Connect to an OpenFlow controller: `tcp:HOST[:PORT]`, `unix:PATH`, or `ssl:HOST[:PORT]` with the certificates of the configuration
    #[arg(long = "controller", value_name = "ENDPOINT", value_parser = clap::value_parser!(Controller))]
    controllers: Vec<Controller>,
    /// Serve metrics to Prometheus at this address, such as 127.0.0.1:9464, or at unix:PATH, a socket for this user alone
    #[arg(long, value_name = "ADDRESS:PORT|unix:PATH", value_parser = clap::value_parser!(MetricsAt))]
    metrics: Option<MetricsAt>,
    /// Become this user once all is open, with no capability but those that its ports need later; only root can
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Leave the kernel's system calls open that a switch has no use for: for kernels without seccomp
    #[arg(long)]
    no_seccomp: bool,
    /// Print one JSON line on standard output when packets flow
    #[arg(long)]
    pub(super) announce: bool,
}

/// `NAME=SPEC`, or a spec alone.
#[derive(Clone)]
struct NamedPort {
    name: Option<String>,
    spec: String,
}

impl FromStr for NamedPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A spec has `=` in its arguments, behind a comma or colon, which no name holds.
        match text.split_once('=') {
            Some((name, spec)) if !name.contains([',', ':']) => {
                check_name(name)?;
                Ok(Self { name: Some(name.to_owned()), spec: spec.to_owned() })
            }
            _ => Ok(Self { name: None, spec: text.to_owned() }),
        }
    }
}

/// `NAME`, `NAME=KIND` or `NAME=KIND:JSON`.
#[derive(Clone)]
struct NamedService {
    name: String,
    config: ServiceConfig,
}

impl FromStr for NamedService {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once('=').unwrap_or((text, text));
        check_name(name)?;
        let (kind, settings) = rest.split_once(':').unwrap_or((rest, "{}"));
        let settings: serde_json::Value =
            serde_json::from_str(settings).map_err(|error| format!("settings of `{name}`: {error}"))?;
        if !settings.is_object() {
            return Err(format!("settings of `{name}` are a JSON object, such as {{\"connections\": 1000}}"));
        }
        if settings.get("key").is_some() {
            return Err(format!(
                "settings of `{name}`: all users of this machine can read command lines; \
                 put the key into a file of mode 0600, and give its name as `key_file`"
            ));
        }
        let known = Known::here().kinds;
        if !known.contains(&kind) {
            return Err(format!("there is no kind of service `{kind}`; the kinds are {}", known.join(", ")));
        }
        let config = ServiceConfig { kind: kind.to_owned(), settings, limits: Default::default() };
        Ok(Self { name: name.to_owned(), config })
    }
}

/// A way to be controlled.
#[derive(Clone)]
enum Control {
    Socket(PathBuf),
    Stdio,
    None,
}

impl FromStr for Control {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("name a path, `stdio` or `none`".to_owned()),
            "stdio" => Ok(Self::Stdio),
            "none" => Ok(Self::None),
            path => Ok(Self::Socket(path.into())),
        }
    }
}

impl Options {
    /// Whether standard input controls it.
    pub(super) fn stdio(&self) -> bool {
        self.controls.iter().any(|control| matches!(control, Control::Stdio))
    }

    /// The settings, read anew from every file.
    pub(super) fn settings(&self) -> Result<Settings, BadUse> {
        let mut settings = self.configured()?;
        if !self.cores.is_empty() {
            settings.cores.clone_from(&self.cores);
        }
        settings.huge_pages |= self.huge_pages;
        settings.attach = self.attach.clone().or(settings.attach);
        settings.memory_mib = self.memory.or(settings.memory_mib);
        settings.buffers = self.buffers.unwrap_or(settings.buffers);
        if let Some(bytes) = self.max_frame {
            settings.max_frame = FrameSize::new(bytes).map_err(BadUse::new)?;
        }
        settings.room = self.room.unwrap_or(settings.room);
        settings.coalescing &= !self.no_coalescing;
        settings.selection = self.selection.unwrap_or(settings.selection);
        settings.tcam = self.tcam.or(settings.tcam);
        settings.experiment = self.experiment.unwrap_or(settings.experiment);
        settings.poll = self.poll.unwrap_or(settings.poll);
        settings.seed = self.seed.or(settings.seed);
        settings.metrics = self.metrics.clone().or(settings.metrics);
        settings.user = self.user.clone().or(settings.user);
        settings.seccomp &= !self.no_seccomp;
        for control in &self.controls {
            settings.control = match control {
                Control::Socket(path) => Some(path.clone()),
                Control::Stdio if self.controls.len() > 1 => continue,
                Control::Stdio | Control::None => None,
            };
        }
        // Said twice is meant once.
        for listen in &self.listen {
            if !settings.openflow.listen.contains(listen) {
                settings.openflow.listen.push(listen.clone());
            }
        }
        for controller in &self.controllers {
            if !settings.openflow.controllers.contains(controller) {
                settings.openflow.controllers.push(controller.clone());
            }
        }
        for service in &self.services {
            settings.services.insert(service.name.clone(), service.config.clone());
        }
        self.add_ports(&mut settings)?;
        self.add_tables(&mut settings)?;
        Ok(settings)
    }

    fn configured(&self) -> Result<Settings, BadUse> {
        let Some(path) = &self.config else { return Ok(Settings::default()) };
        let text = std::fs::read_to_string(path)
            .map_err(|error| BadUse::new(format!("{}: {error}; name a configuration", path.display())))?;
        Settings::parse(&text, path, &Known::here()).map_err(BadUse::new)
    }

    fn add_ports(&self, settings: &mut Settings) -> Result<(), BadUse> {
        for port in &self.ports {
            let free = |name: &String| settings.ports.iter().all(|other| other.name != *name);
            let name = port.name.clone().or_else(|| (1..).map(|number| format!("p{number}")).find(free));
            let port = PortSpec {
                name: name.unwrap_or_default(),
                number: None,
                spec: port.spec.clone(),
                queues: self.queues.unwrap_or(0),
                descriptors: self.descriptors,
            };
            settings.add_port(port).map_err(BadUse::new)?;
        }
        Ok(())
    }

    fn add_tables(&self, settings: &mut Settings) -> Result<(), BadUse> {
        let read =
            |path: &Option<PathBuf>| path.as_deref().map(TableText::read).transpose().map_err(BadUse::new);
        if !self.flow.is_empty() {
            settings.flows = Some(TableText { name: "--flow".to_owned(), text: self.flow.join("\n") });
        }
        for (given, place) in [
            (read(&self.flows)?, &mut settings.flows),
            (read(&self.groups)?, &mut settings.groups),
            (read(&self.meters)?, &mut settings.meters),
        ] {
            if given.is_some() {
                *place = given;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_named_or_not() {
        for (text, name, spec) in [
            ("left=net_vhost0,iface=/t/a", Some("left"), "net_vhost0,iface=/t/a"),
            ("net_vhost0,iface=/t/a", None, "net_vhost0,iface=/t/a"),
            ("trace:a.pcap,tx=b.pcap", None, "trace:a.pcap,tx=b.pcap"),
            ("in=trace:,tx=b.pcap", Some("in"), "trace:,tx=b.pcap"),
            ("0000:01:00.0", None, "0000:01:00.0"),
            ("null", None, "null"),
        ] {
            let port: NamedPort = text.parse().unwrap();
            assert_eq!((port.name.as_deref(), port.spec.as_str()), (name, spec), "{text}");
        }
        assert!("all=null".parse::<NamedPort>().is_err_and(|error| error.contains("flow syntax")));
    }
}
