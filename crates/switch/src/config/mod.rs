//! Configuration: what a switch is, as a TOML file or by options.
//!
//! Reading is pure but for the files of flows that it names; what services there are, the caller says
//! ([`Known`]). A mistake is reported with file, line and column, the line itself, what may be written
//! there and what was probably meant. The format is `file`'s types; [`schema`] is made of them.

mod check;
mod file;
mod openflow;

use crate::http::MetricsAt;
use check::Checker;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_agent::channel::ChannelSettings;
use weir_cpu::allowed_cores;
use weir_datapath::{
    Config, Experiment, LearningConfig, PollMode, PortSpec, Selection, ServiceConfig, TcamConfig,
};
use weir_diagnostic::Diagnostic;
pub use weir_diagnostic::FileError as ConfigFileError;
use weir_dpdk::{EalConfig, Memory, Pool};
use weir_openflow::PortNo;
use weir_units::FrameSize;

/// Packet buffers of a switch that is not told how many.
const BUFFERS: u32 = 16_384;
/// Descriptors of a queue that is not told how many.
pub const DESCRIPTORS: u16 = 1024;
/// The largest frame of a switch that is not told: Ethernet's, with a VLAN tag.
const MAX_FRAME: u32 = 1522;
/// Mebibytes beside the packet buffers: rings, ports, DPDK's own tables.
const SPARE_MIB: u32 = 64;

/// What this build has, for the names in a configuration.
#[derive(Clone, Debug)]
pub struct Known<'a> {
    /// Kinds of services.
    pub kinds: Vec<&'a str>,
}

impl Known<'static> {
    /// The services of this build.
    pub fn here() -> Self {
        Self { kinds: weir_services::SERVICES.iter().map(|service| service.kind).collect() }
    }
}

/// Lines of flows, groups or meters, and where they came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableText {
    /// The file, or the key of the configuration.
    pub name: String,
    /// The lines.
    pub text: String,
}

impl TableText {
    /// Reads a file.
    ///
    /// # Errors
    /// What the system says, with the file's name.
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Self { name, text }),
            Err(error) => Err(format!("{name}: {error}")),
        }
    }
}

/// What a switch is to be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Cores of the workers; empty for the last that the process may use.
    pub cores: Vec<usize>,
    /// Whether packets are kept in huge pages.
    pub huge_pages: bool,
    /// The folder of another process's memory, which is used instead of memory of its own.
    pub attach: Option<PathBuf>,
    /// Mebibytes for DPDK; what the buffers take and some, if none.
    pub memory_mib: Option<u32>,
    /// Packet buffers.
    pub buffers: u32,
    /// The largest frame, in bytes with FCS.
    pub max_frame: FrameSize,
    /// Bytes of a frame that a packet buffer has room for at least.
    pub room: u16,
    /// Whether stages are coalesced.
    pub coalescing: bool,
    /// How a select group chooses a bucket.
    pub selection: Selection,
    /// How workers wait for packets.
    pub poll: PollMode,
    /// The table that classifies in front of each queue, if there is to be one.
    pub tcam: Option<TcamConfig>,
    /// What is done otherwise than usual.
    pub experiment: Experiment,
    /// Megaflows that each port's new flows may have made in a second, on each worker.
    pub upcalls: u32,
    /// For how long `NORMAL` knows addresses, and how many.
    pub learning: LearningConfig,
    /// Makes hashes and draws repeatable; drawn at the start if none.
    pub seed: Option<u64>,
    /// Path of the control socket, if there is to be one.
    pub control: Option<PathBuf>,
    /// Where metrics may be read.
    pub metrics: Option<MetricsAt>,
    /// The user to become once all is open.
    pub user: Option<String>,
    /// Whether system calls are filtered.
    pub seccomp: bool,
    /// Controllers: where they connect, and which are connected to.
    pub openflow: ChannelSettings,
    /// Ports, each with a number; queues 0 for one a worker.
    pub ports: Vec<PortSpec>,
    /// Services by name.
    pub services: BTreeMap<String, ServiceConfig>,
    /// Flows that the tables are to hold; they are left alone if none.
    pub flows: Option<TableText>,
    /// Groups likewise.
    pub groups: Option<TableText>,
    /// Meters likewise.
    pub meters: Option<TableText>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cores: Vec::new(),
            huge_pages: false,
            attach: None,
            memory_mib: None,
            buffers: BUFFERS,
            max_frame: FrameSize::new(MAX_FRAME).expect("a legal size"),
            room: weir_datapath::Config::ROOM,
            coalescing: true,
            selection: Selection::Flow,
            poll: PollMode::Busy,
            tcam: None,
            experiment: Experiment::default(),
            upcalls: weir_datapath::Config::UPCALLS,
            learning: LearningConfig::default(),
            seed: None,
            control: Some(crate::socket::default_path()),
            metrics: None,
            user: None,
            seccomp: true,
            openflow: ChannelSettings::default(),
            ports: Vec::new(),
            services: BTreeMap::new(),
            flows: None,
            groups: None,
            meters: None,
        }
    }
}

impl Settings {
    /// Reads and checks a configuration. `file` is where it came from: it stands in the errors, and its
    /// folder is where relative paths start.
    ///
    /// # Errors
    /// Every mistake, with its place.
    pub fn parse(text: &str, file: &Path, known: &Known<'_>) -> Result<Self, ConfigFileError> {
        let error = |found| ConfigFileError::new(file.display().to_string(), text, found);
        let read = toml::from_str(text).map_err(|error| vec![Diagnostic::of_toml(&error, text)]);
        let mut checker = Checker::new(known, file.parent().unwrap_or(Path::new("")));
        let settings = checker.settings(read.map_err(error)?);
        if checker.found.is_empty() { Ok(settings) } else { Err(error(checker.found)) }
    }

    /// Cores of the workers, the default filled in.
    pub fn cores(&self) -> Vec<usize> {
        if self.cores.is_empty() {
            allowed_cores().last().copied().into_iter().collect()
        } else {
            self.cores.clone()
        }
    }

    /// Adds a port, numbered with the least number that is free unless it has one.
    ///
    /// # Errors
    /// A name that cannot be one, or that is taken.
    pub fn add_port(&mut self, mut port: PortSpec) -> Result<(), String> {
        check_name(&port.name).map_err(|reason| format!("port `{}`: {reason}", port.name))?;
        if self.ports.iter().any(|other| other.name == port.name) {
            return Err(format!("port `{}` is named twice", port.name));
        }
        let taken = |number: PortNo| self.ports.iter().any(|port| port.number == Some(number));
        port.number = port.number.or_else(|| (1..PortNo::MAX.0).map(PortNo).find(|number| !taken(*number)));
        self.ports.push(port);
        Ok(())
    }

    /// How DPDK is to be started.
    pub fn eal(&self) -> EalConfig {
        let room = self.max_frame.bytes().max(self.room);
        let pool = u32::try_from(Pool::megabytes(self.buffers, room)).unwrap_or(u32::MAX / 2);
        EalConfig {
            memory: if self.huge_pages { Memory::Huge } else { Memory::Normal },
            megabytes: self.memory_mib.unwrap_or(pool + pool / 4 + SPARE_MIB),
            pci: self.ports.iter().any(|port| weir_port::is_pci(&port.spec)),
        }
    }

    /// How the datapath is to be started. `drawn` is the seed of a switch that is not told one.
    pub fn datapath(&self, drawn: u64) -> Config {
        Config {
            cores: self.cores(),
            buffers: self.buffers,
            max_frame: self.max_frame,
            room: self.room,
            services: self.services.clone(),
            coalescing: self.coalescing,
            selection: self.selection,
            poll: self.poll,
            tcam: self.tcam,
            experiment: self.experiment,
            upcalls: self.upcalls,
            seed: self.seed.unwrap_or(drawn),
        }
    }

    /// A port's spec with the queues it is to have.
    pub fn queues_filled(&self, port: &PortSpec) -> PortSpec {
        let workers = u16::try_from(self.cores().len()).unwrap_or(u16::MAX).max(1);
        PortSpec { queues: if port.queues == 0 { workers } else { port.queues }, ..port.clone() }
    }
}

/// Whether a port or service may be named so in the text of flows.
///
/// # Errors
/// Why not.
pub fn check_name(name: &str) -> Result<(), String> {
    const RESERVED: &[&str] =
        &["all", "any", "controller", "drop", "flood", "in_port", "local", "none", "normal", "table"];
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(plain) {
        Err("a name is made of letters, digits, `_`, `-` and `.`".to_owned())
    } else if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        Err("a name begins with a letter, or it would be read as a number".to_owned())
    } else if RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
        Err("that is a word of the flow syntax; choose another name".to_owned())
    } else {
        Ok(())
    }
}

/// The JSON Schema of configuration files.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(file::SwitchFile).to_value();
    weir_diagnostic::without_null(&mut schema);
    schema
}
