//! Which trace: name, sizes, direction, seed and options; and how it is built.

use super::capture::{self, CaptureOptions};
use super::catalogue::{self, MAX_FLOWS};
use super::rewrite::{Ipv4Prefix, Rewrite, VlanChange};
use super::source::{FrameSource, Laps, TableCursor};
use super::stream::PcapStream;
use super::{FrameTable, Sizes, TraceError, conversations, gateway, rules, synthetic, tunnels};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use weir_trial::Nf;
use weir_units::FrameSize;
use weir_wire::MacAddress;

/// MAC addresses in the table that `l2flows:N` is made for: [`Nf::PIPELINE_ENTRIES`].
const L2_STATIONS: &str = "500";

/// What a trace over tables of few masks has behind its number.
const FEW: &str = "few";

/// A trace by name, or a capture by path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TraceName {
    /// One flow.
    Simple,
    /// 100 destination MAC addresses.
    Tr2e,
    /// 100 destination IP addresses.
    Tr2i,
    /// 10,000 destination MAC addresses.
    Tr3e,
    /// 10,000 destination IP addresses.
    Tr3i,
    /// 500,000 destination MAC addresses.
    Tr4e,
    /// 64,500 source and 6,450 destination IP addresses. The paper lists two traces under this name.
    Tr5ul,
    /// 6,450 source IP addresses, one destination: the second that the paper lists as `tr5ul`.
    Tr5dl,
    /// So many UDP flows.
    Flows(u32),
    /// So many UDP flows, in laps of an order of their own each, drawn by the seed.
    Shuffled(u32),
    /// So many UDP flows, the `k`th most popular one with a share in proportion to `1/k` (Zipf's law), drawn by the
    /// seed.
    Zipf(u32),
    /// So many pairs of addresses, whose UDP ports are others in each lap.
    NewPorts(u32),
    /// So many TCP connections, opened by SYN and ended by FIN.
    Tcp(u32),
    /// So many UDP conversations over the tables of SoftFlow's pipelines.
    Conversations {
        /// Conversations.
        count: u32,
        /// Packets of each in a row.
        burst: u32,
        /// Entries in each table of the pipeline.
        entries: u32,
        /// Whether its tables have few masks ([`Nf::PipelineAFew`]).
        few: bool,
    },
    /// Tuple-space explosion by who knows the list, over so many fields.
    Colocated(u32),
    /// Tuple-space explosion by who does not, of so many packets.
    General(u32),
    /// So many flows over a table of MAC addresses.
    L2Flows {
        /// Flows.
        count: u32,
        /// MAC addresses in the table.
        stations: u32,
    },
    /// So many flows over a flow table of a user's own.
    Rules(u32),
    /// So many UDP flows inside VXLAN tunnels.
    Vxlan(u32),
    /// SoftFlow's T1 or T2, modelled over the tables of its pipelines.
    Gateway {
        /// Whether the payload is stripped, as T2's is.
        stripped: bool,
        /// Entries in each table of the pipeline.
        entries: u32,
        /// One conversation in so many.
        part: u32,
    },
    /// SoftFlow's T1, modelled.
    T1,
    /// SoftFlow's T2, modelled.
    T2,
    /// SoftFlow's T3.
    T3,
    /// A pcap or pcapng file.
    Capture(PathBuf),
}

impl TraceName {
    /// The least frame of `vxlan:N`.
    pub const LEAST_TUNNELED: FrameSize = tunnels::LEAST_SIZE;

    /// Reads a name; what is no name but an existing file is a capture.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let text = text.trim();
        Ok(match text.to_ascii_lowercase().as_str() {
            "simple" => Self::Simple,
            "tr2e" => Self::Tr2e,
            "tr2i" => Self::Tr2i,
            "tr3e" => Self::Tr3e,
            "tr3i" => Self::Tr3i,
            "tr4e" => Self::Tr4e,
            "tr5ul" => Self::Tr5ul,
            "tr5dl" => Self::Tr5dl,
            "t1" => Self::T1,
            "t2" => Self::T2,
            "t3" => Self::T3,
            name => match name.split_once(':') {
                Some(("flows", number)) => Self::Flows(flow_count(name, number)?),
                Some(("shuffled", number)) => Self::Shuffled(up_to(name, number, synthetic::MOST_SHUFFLED)?),
                Some(("zipf", number)) => Self::Zipf(up_to(name, number, synthetic::ZIPF_LAP)?),
                Some(("newports", number)) => Self::NewPorts(up_to(name, number, synthetic::MOST_SHUFFLED)?),
                Some(("rules", number)) => Self::Rules(flow_count(name, number)?),
                Some(("vxlan", number)) => Self::Vxlan(up_to(name, number, tunnels::MOST_TUNNELED)?),
                Some(("tcp", number)) => Self::Tcp(up_to(name, number, conversations::MOST_TCP)?),
                Some(("conversations", numbers)) => Self::conversations(name, numbers)?,
                Some((of @ ("t1" | "t2"), numbers)) => {
                    let (of_table, part) = numbers.split_once(':').unwrap_or((numbers, "1"));
                    let entries = entries(name, Nf::PipelineA { entries: Nf::PIPELINE_ENTRIES }, of_table)?;
                    let part = up_to(name, part, conversations::MOST_PART)?;
                    Self::Gateway { stripped: of == "t2", entries, part }
                }
                Some(("tse-colocated", fields)) => {
                    let fields = entries(name, Nf::Exposed { fields: 1 }, fields)?;
                    Self::Colocated(fields)
                }
                Some(("tse-general", number)) => Self::General(flow_count(name, number)?),
                Some(("l2flows", numbers)) => {
                    let (count, stations) = numbers.split_once(':').unwrap_or((numbers, L2_STATIONS));
                    let stations = entries(name, Nf::L2 { stations: 2 }, stations)?;
                    Self::L2Flows { count: flow_count(name, count)?, stations }
                }
                _ => return Self::capture(text),
            },
        })
    }

    /// `N`, `NxBURST`, either with `:ENTRIES`, `:few` or `:few:ENTRIES` behind.
    fn conversations(name: &str, numbers: &str) -> Result<Self, TraceError> {
        let (numbers, of) = match numbers.split_once(':') {
            Some((numbers, of)) => (numbers, of),
            None => (numbers, ""),
        };
        let (few, of) = match of.strip_prefix(FEW) {
            Some(of) => (true, of.strip_prefix(':').unwrap_or(of)),
            None => (false, of),
        };
        let of = if of.is_empty() { Nf::PIPELINE_ENTRIES.to_string() } else { of.to_owned() };
        let (count, burst) = numbers.split_once('x').unwrap_or((numbers, "1"));
        let (count, burst) = (flow_count(name, count)?, flow_count(name, burst)?);
        let packets = u64::from(count) * u64::from(burst);
        if packets > u64::from(MAX_FLOWS) {
            return Err(TraceError::FlowCount { text: name.to_owned() });
        }
        let entries = entries(name, Nf::PipelineA { entries: Nf::PIPELINE_ENTRIES }, &of)?;
        Ok(Self::Conversations { count, burst, entries, few })
    }

    /// The function that the trace is made for, where there is one: with others, or with tables of another
    /// size, most of its packets are dropped.
    pub const fn made_for(&self) -> Option<Nf> {
        match self {
            Self::Conversations { entries, few: true, .. } => Some(Nf::PipelineAFew { entries: *entries }),
            Self::Conversations { entries, few: false, .. } | Self::Gateway { entries, .. } => {
                Some(Nf::PipelineA { entries: *entries })
            }
            Self::L2Flows { stations, .. } => Some(Nf::L2 { stations: *stations }),
            _ => None,
        }
    }

    fn capture(text: &str) -> Result<Self, TraceError> {
        let path = PathBuf::from(text);
        let looks_like_a_path = text.contains('/')
            || path.extension().is_some_and(|end| end == "pcap" || end == "pcapng" || end == "cap");
        if looks_like_a_path || path.is_file() {
            return Ok(Self::Capture(path));
        }
        Err(TraceError::UnknownName {
            name: text.to_owned(),
            nearest: catalogue::nearest(text).map(str::to_owned),
            names: catalogue::ENTRIES.map(|entry| entry.name).join(", "),
        })
    }

    /// Whether a function forwards this trace's packets; why not.
    pub fn suits(&self, nf: Nf) -> Result<(), String> {
        if let Nf::Chain(chain) = nf {
            // A trace drawn from the chain's flow table is for other functions what any addresses are.
            let drawn = matches!(self, Self::Rules(_)) && nf.flow_file().is_some();
            let stands_for = if drawn { &Self::Flows(1) } else { self };
            let members = chain.members().iter().filter(|member| !(drawn && member.flow_file().is_some()));
            return members.into_iter().try_for_each(|member| stands_for.suits(*member));
        }
        let made_for = self.made_for();
        let (fits, wanted) = match (nf, self) {
            (_, Self::Capture(_)) | (Nf::Flows(_), Self::Rules(_)) => return Ok(()),
            (_, Self::Rules(_)) => {
                return Err(format!(
                    "{self} is drawn from a flow table, and {nf} is none; write flows:N, or nf = \"flows:FILE\""
                ));
            }
            (
                Nf::L2Fwd | Nf::Exposed { .. } | Nf::PipelineD { .. },
                Self::Colocated(_) | Self::General(_),
            ) => {
                return Ok(());
            }
            (_, Self::Colocated(_) | Self::General(_)) => {
                (false, "exposed:N, which it is aimed at".to_owned())
            }
            (
                Nf::L2 { stations },
                Self::L2Flows { stations: of, .. }
                | Self::Conversations { entries: of, .. }
                | Self::Gateway { entries: of, .. },
            ) => (*of == stations, format!("l2flows:N:{stations}")),
            (Nf::L2 { stations }, _) => (false, format!("l2flows:N:{stations}")),
            (Nf::L2Nfpa { addresses }, Self::Tr2e | Self::Tr3e | Self::Tr4e) => {
                let wanted = synthetic::flows(self);
                if addresses < wanted {
                    return Err(format!(
                        "{nf} drops the packets of {self} to addresses that it has no entries for; write l2-nfpa:{wanted}"
                    ));
                }
                (true, String::new())
            }
            (Nf::L2Nfpa { .. }, _) => (false, "tr2e, tr3e or tr4e".to_owned()),
            // What comes back has another port of its own, and is of no connection.
            (Nf::Nat { .. }, Self::Vxlan(_)) => (false, "flows:N".to_owned()),
            (Nf::L3Fwd { .. } | Nf::Nat { .. }, _) => (made_for.is_none(), "flows:N".to_owned()),
            _ => match nf.pipeline_tables() {
                Some(tables) => {
                    let few = if matches!(tables, Nf::PipelineAFew { .. }) { "few:" } else { "" };
                    let entries = tables.entries().unwrap_or(Nf::PIPELINE_ENTRIES);
                    (made_for == Some(tables), format!("conversations:N:{few}{entries}"))
                }
                None => (true, String::new()),
            },
        };
        let why =
            || format!("{nf} drops the packets of {self}, which have no place in its tables; write {wanted}");
        if fits { Ok(()) } else { Err(why()) }
    }

    /// Whether its directions answer each other, packet by packet.
    pub const fn is_conversation(&self) -> bool {
        matches!(self, Self::Conversations { .. } | Self::Gateway { .. })
    }

    /// Whether it opens each of its TCP connections before it sends anything else of it, in each lap.
    pub const fn opens_connections(&self) -> bool {
        matches!(self, Self::Gateway { .. })
    }

    /// Whether it is a capture file.
    pub const fn is_capture(&self) -> bool {
        matches!(self, Self::Capture(_))
    }

    /// The sizes when none are asked for.
    pub const fn default_sizes(&self) -> Sizes {
        match self {
            Self::T1 | Self::Gateway { stripped: false, .. } | Self::Capture(_) => Sizes::Recorded,
            Self::Vxlan(_) => Sizes::Fixed(tunnels::USUAL_SIZE),
            _ => Sizes::SMALLEST,
        }
    }
}

/// A number of table entries that a function of this kind can have.
fn entries(name: &str, like: Nf, text: &str) -> Result<u32, TraceError> {
    let nf: Option<Nf> = format!("{}:{text}", like.kind().name()).parse().ok();
    nf.and_then(Nf::entries).ok_or_else(|| TraceError::Entries {
        text: name.to_owned(),
        function: like.kind().name(),
        forms: Nf::FORMS,
    })
}

/// A number of flows of which a trace of several laps, or of connections, can have so many at most.
fn up_to(name: &str, text: &str, most: u32) -> Result<u32, TraceError> {
    let count = flow_count(name, text)?;
    let reason = || TraceError::Option {
        name: name.to_owned(),
        option: "number",
        reason: format!("is 1 to {most} in this trace; ask for fewer"),
    };
    if count <= most { Ok(count) } else { Err(reason()) }
}

fn flow_count(name: &str, text: &str) -> Result<u32, TraceError> {
    let number = text.replace(['_', ','], "");
    let (digits, scale) = match number.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => match number.strip_suffix(['m', 'M']) {
            Some(digits) => (digits, 1_000_000),
            None => (number.as_str(), 1),
        },
    };
    digits
        .parse::<u32>()
        .ok()
        .and_then(|count| count.checked_mul(scale))
        .filter(|count| (1..=MAX_FLOWS).contains(count))
        .ok_or_else(|| TraceError::FlowCount { text: name.to_owned() })
}

impl fmt::Display for TraceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple => f.pad("simple"),
            Self::Tr2e => f.pad("tr2e"),
            Self::Tr2i => f.pad("tr2i"),
            Self::Tr3e => f.pad("tr3e"),
            Self::Tr3i => f.pad("tr3i"),
            Self::Tr4e => f.pad("tr4e"),
            Self::Tr5ul => f.pad("tr5ul"),
            Self::Tr5dl => f.pad("tr5dl"),
            Self::Shuffled(flows) => f.pad(&format!("shuffled:{flows}")),
            Self::Zipf(flows) => f.pad(&format!("zipf:{flows}")),
            Self::NewPorts(flows) => f.pad(&format!("newports:{flows}")),
            Self::Tcp(connections) => f.pad(&format!("tcp:{connections}")),
            Self::Flows(flows) => f.pad(&format!("flows:{flows}")),
            Self::Rules(flows) => f.pad(&format!("rules:{flows}")),
            Self::Conversations { count, burst, entries, few } => {
                let burst = if *burst == 1 { String::new() } else { format!("x{burst}") };
                let few = if *few { ":few" } else { "" };
                let of = if *entries == Nf::PIPELINE_ENTRIES { String::new() } else { format!(":{entries}") };
                f.pad(&format!("conversations:{count}{burst}{few}{of}"))
            }
            Self::L2Flows { count, stations } if *stations == Nf::PIPELINE_ENTRIES => {
                f.pad(&format!("l2flows:{count}"))
            }
            Self::L2Flows { count, stations } => f.pad(&format!("l2flows:{count}:{stations}")),
            Self::Vxlan(flows) => f.pad(&format!("vxlan:{flows}")),
            Self::Colocated(fields) => f.pad(&format!("tse-colocated:{fields}")),
            Self::General(packets) => f.pad(&format!("tse-general:{packets}")),
            Self::Gateway { stripped, entries, part } => {
                let name = if *stripped { "t2" } else { "t1" };
                let part = if *part == 1 { String::new() } else { format!(":{part}") };
                f.pad(&format!("{name}:{entries}{part}"))
            }
            Self::T1 => f.pad("t1"),
            Self::T2 => f.pad("t2"),
            Self::T3 => f.pad("t3"),
            Self::Capture(path) => f.pad(&path.display().to_string()),
        }
    }
}

/// Which way a trace goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(into = "u8", try_from = "u8")]
#[schemars(with = "u8")]
pub enum Direction {
    /// From port 0 to port 1: sources in 198.18.0.0/16, destinations in 198.19.0.0/16.
    #[default]
    Forward,
    /// From port 1 to port 0: every flow of [`Self::Forward`] mirrored.
    Reverse,
}

impl Direction {
    /// Both, in order.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Reverse];

    /// 0 or 1: the port the trace is sent from.
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl From<Direction> for u8 {
    fn from(direction: Direction) -> Self {
        direction as Self
    }
}

impl TryFrom<u8> for Direction {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        match number {
            0 => Ok(Self::Forward),
            1 => Ok(Self::Reverse),
            other => Err(format!("{other} is no direction; write 0 (port 0 to port 1) or 1 (the reverse)")),
        }
    }
}

/// What may be asked of a trace beyond its name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceOptions {
    /// Source MAC address of every frame.
    pub source_mac: Option<MacAddress>,
    /// Destination MAC address of every frame. Refused for traces that differ in it (`tr2e`, `tr3e`, `tr4e`).
    pub destination_mac: Option<MacAddress>,
    /// The outermost VLAN tag. Synthetic frames keep their size when they get one.
    pub vlan: Option<VlanChange>,
    /// Where a capture's source IPv4 addresses are moved to; synthetic traces have theirs already.
    pub source_prefix: Option<Ipv4Prefix>,
    /// Where a capture's destination IPv4 addresses are moved to.
    pub destination_prefix: Option<Ipv4Prefix>,
    /// Once or endless.
    pub laps: Laps,
    /// How a capture is read.
    pub capture: CaptureOptions,
}

impl TraceOptions {
    /// Moves a capture's addresses into the test network of RFC 2544, the way `direction` goes.
    #[must_use]
    pub fn into_test_network(mut self, direction: Direction) -> Self {
        let rewrite = Rewrite::default().into_test_network(direction);
        self.source_prefix = rewrite.source_prefix;
        self.destination_prefix = rewrite.destination_prefix;
        self
    }

    /// The changes to a captured frame.
    pub(super) fn rewrite(&self) -> Rewrite {
        Rewrite {
            source_mac: self.source_mac,
            destination_mac: self.destination_mac,
            source_prefix: self.source_prefix,
            destination_prefix: self.destination_prefix,
            vlan: self.vlan,
        }
    }
}

/// A trace, fully specified: the same specification builds the same bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSpec {
    /// Which.
    pub name: TraceName,
    /// Frame sizes.
    pub sizes: Sizes,
    /// Which way.
    pub direction: Direction,
    /// Seed of everything random in it: the order of a mix's sizes, the shape of T1 and T2.
    pub seed: u64,
    /// The rest.
    pub options: TraceOptions,
    /// The function whose flow table [`TraceName::Rules`] is drawn from.
    pub tables: Option<Nf>,
}

impl TraceSpec {
    /// The seed when none is given.
    pub const DEFAULT_SEED: u64 = 2544;

    /// The seed that a plan has when it names none.
    pub const PLAN_SEED: u64 = 1;

    /// Reads a trace's name, or the path of a capture; sizes, direction and seed are the defaults.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        TraceName::parse(text).map(Self::of)
    }

    /// The trace of this name; sizes, direction and seed are the defaults.
    pub fn of(name: TraceName) -> Self {
        Self {
            sizes: name.default_sizes(),
            name,
            direction: Direction::Forward,
            seed: Self::DEFAULT_SEED,
            options: TraceOptions::default(),
            tables: None,
        }
    }

    /// Packets at the beginning of a lap that answer the last ones of the other direction's.
    pub fn unasked(&self) -> usize {
        match (&self.name, self.direction) {
            (TraceName::Conversations { count, burst, .. }, Direction::Reverse) => {
                ((gateway::TRAIL % count) * burst) as usize
            }
            (TraceName::Gateway { .. }, Direction::Reverse) => conversations::TRAIL as usize,
            _ => 0,
        }
    }

    /// The flows of a trace made for a function's tables, in direction 0; nothing for other traces.
    pub fn flows(&self) -> Result<Option<Vec<synthetic::Flow>>, TraceError> {
        gateway::flows(self)
    }

    /// Reads the traces of both directions: one name for both, or two joined by `|`.
    pub fn parse_pair(text: &str) -> Result<[Self; 2], TraceError> {
        let (forward, reverse) = text.split_once('|').unwrap_or((text, text));
        Ok([Self::parse(forward)?, Self::parse(reverse)?.direction(Direction::Reverse)])
    }

    /// With other sizes.
    #[must_use]
    pub fn sizes(mut self, sizes: impl Into<Sizes>) -> Self {
        self.sizes = sizes.into();
        self
    }

    /// In another direction.
    #[must_use]
    pub fn direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }

    /// With another seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Over the tables of a function, where it has some of a user's own.
    #[must_use]
    pub fn over(mut self, nf: Nf) -> Self {
        if nf.flow_file().is_some() {
            self.tables = Some(nf);
        }
        self
    }

    /// With options.
    #[must_use]
    pub fn options(mut self, options: TraceOptions) -> Self {
        self.options = options;
        self
    }

    /// Builds the trace: in memory, but for captures above the budget.
    pub fn build(&self) -> Result<FrameSource, TraceError> {
        if let TraceName::Capture(path) = &self.name {
            self.check_capture()?;
            if !capture::fits_in_memory(path, self)? {
                return Ok(FrameSource::Stream(Box::new(PcapStream::open(path, self)?)));
            }
        }
        let table = Arc::new(self.build_table()?);
        Ok(FrameSource::Table(TableCursor::new(table, self.options.laps)))
    }

    /// Builds the trace in memory, whatever its size.
    pub fn build_table(&self) -> Result<FrameTable, TraceError> {
        match &self.name {
            TraceName::Capture(path) => {
                self.check_capture()?;
                capture::load(path, self)
            }
            TraceName::T1 | TraceName::T2 => conversations::build(self),
            TraceName::Gateway { stripped, part, .. } => conversations::build_over(self, !stripped, *part),
            TraceName::Rules(flows) => rules::build(self, *flows),
            TraceName::Vxlan(flows) => tunnels::build(self, *flows),
            TraceName::Tcp(connections) => conversations::build_tcp(self, *connections),
            _ => synthetic::build(self),
        }
    }

    /// Fails where a capture is asked for what only synthetic traces have.
    pub(super) fn check_capture(&self) -> Result<(), TraceError> {
        if self.sizes != Sizes::Recorded {
            return Err(self.wrong_sizes("recorded"));
        }
        synthetic::check_vlan(self)
    }

    /// The error for sizes this trace cannot have.
    pub(super) fn wrong_sizes(&self, own: &str) -> TraceError {
        TraceError::SizeOfTrace {
            name: self.name.to_string(),
            own: own.to_owned(),
            asked: self.sizes.to_string(),
        }
    }
}
