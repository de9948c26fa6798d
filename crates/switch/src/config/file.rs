//! The configuration file, key by key: what TOML may hold, and the JSON Schema made of it.
//!
//! Comments on the keys become the schema's descriptions, which editors show. Whether the values make
//! sense is `check`'s affair.

use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;
use weir_services::Limits;

/// Configuration of `weir switch`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Weir switch")]
pub(super) struct SwitchFile {
    /// Where and how the switch runs. Changed by a restart only.
    pub(super) switch: SwitchTable,
    /// Ports by name, numbered in the order of the file.
    #[schemars(with = "BTreeMap<String, PortTable>")]
    pub(super) port: BTreeMap<Spanned<String>, PortTable>,
    /// Services by the name that flows call them by. A kind that is not named here is there under its
    /// own name, with default settings. Changed by a restart only.
    #[schemars(with = "BTreeMap<String, ServiceTable>")]
    pub(super) service: BTreeMap<Spanned<String>, ServiceTable>,
    /// What is in the tables at the start, and after a reload.
    pub(super) tables: TablesTable,
    /// OpenFlow controllers: where they connect, and to which the switch does.
    pub(super) openflow: OpenflowTable,
}

/// Where and how the switch runs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SwitchTable {
    /// Cores of the workers, one each. Default: the last that the process may use.
    #[schemars(with = "Option<Vec<usize>>")]
    pub(super) cores: Option<Spanned<Vec<usize>>>,
    /// Whether packets are kept in huge pages, which the machine must have set aside. Default: false.
    pub(super) huge_pages: Option<bool>,
    /// Mebibytes for DPDK. Default: what the buffers take, and some.
    #[schemars(with = "Option<u32>")]
    pub(super) memory_mib: Option<Spanned<u32>>,
    /// Packet buffers for all ports, 1024 to 4000000. Default: 16384.
    #[schemars(with = "Option<u32>")]
    pub(super) buffers: Option<Spanned<u32>>,
    /// The largest frame that ports carry, in bytes with FCS. Default: 1522.
    #[schemars(with = "Option<u32>")]
    pub(super) max_frame: Option<Spanned<u32>>,
    /// Bytes of a frame that a packet buffer has room for at least, 64 to 16384: where there are very many
    /// buffers for short frames. Frames that come longer are dropped. Default: 2048, or what `max_frame` takes.
    #[schemars(with = "Option<u16>")]
    pub(super) room: Option<Spanned<u16>>,
    /// Whether the stages of services are coalesced. Default: true.
    pub(super) coalescing: Option<bool>,
    /// How a select group chooses a bucket: "flow" by a hash of the flow, the same in both directions; "round-robin"
    /// in turns, packet by packet. Default: flow.
    #[schemars(with = "Option<String>")]
    pub(super) selection: Option<Spanned<String>>,
    /// How workers wait for packets: "busy" polls on; "yield" lets whoever shares the core
    /// poll after each round; "adaptive" gives an idle core back, and has a
    /// packet wait 100 microseconds, or little more; "adaptive:50us" says how long, 10us to 10ms. Default: busy.
    #[schemars(with = "Option<String>")]
    pub(super) poll: Option<Spanned<String>>,
    /// Has a table of a NIC in front of each queue name the megaflow with the packet: entries, and what
    /// else is to be said, such as "1024,latency=100us,evict=lowest-rate". Where a port has no such
    /// table it is emulated, an update taking the latency (100us); evict says which megaflow leaves a full
    /// table: least-recent or lowest-rate. Default: none.
    #[schemars(with = "Option<String>")]
    pub(super) tcam: Option<Spanned<String>>,
    /// What is done otherwise than usual, for experiments; settings with commas between them. "exact=off" and "fast-path=off": these caches
    /// know nothing. "misses=10%": so many packets go to the slow path, whatever the caches know. "coalesced=50%": so many
    /// of the packets that a service lets coalesce do. "hints=ip-id": a packet's IPv4 identification names its megaflow, and
    /// "offloaded=50%" says of how many. Default: none.
    #[schemars(with = "Option<String>")]
    pub(super) experiment: Option<Spanned<String>>,
    /// Megaflows that each port's new flows may have made in a second, on each worker. Default: 100000.
    pub(super) upcalls: Option<std::num::NonZeroU32>,
    /// Seconds without a packet after which `NORMAL` forgets an address, 15 to 3600. Default: 300.
    #[schemars(with = "Option<u16>")]
    pub(super) mac_ageing: Option<Spanned<u16>>,
    /// Addresses that `NORMAL` knows at a time, 10 to 1000000. Default: 8192.
    #[schemars(with = "Option<u32>")]
    pub(super) mac_table_size: Option<Spanned<u32>>,
    /// Makes hashes and draws repeatable, for tests. Default: drawn at each start, so that nobody can
    /// choose packets that collide.
    pub(super) seed: Option<u64>,
    /// Path of the control socket, or "none". Default: switch.sock in the user's runtime folder.
    #[schemars(with = "Option<String>")]
    pub(super) control: Option<Spanned<String>>,
    /// The user that the switch becomes once it has opened what it needs; only root can. Default: none, it stays who it is.
    #[schemars(with = "Option<String>")]
    pub(super) user: Option<Spanned<String>>,
    /// Whether the kernel refuses the system calls that a switch has no use for. Default: true.
    pub(super) seccomp: Option<bool>,
    /// Where Prometheus may read metrics: an address and port, such as "127.0.0.1:9464", or "unix:PATH", a socket for
    /// this user alone. Default: none.
    #[schemars(with = "Option<String>")]
    pub(super) metrics: Option<Spanned<String>>,
}

/// A port.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PortTable {
    /// What it is: an EAL vdev string ("net_vhost0,iface=/tmp/a"), a PCI address ("0000:01:00.0"),
    /// "null", or `trace:RX.pcap[,tx=TX.pcap][,loop][,rate=1Mpps]`.
    #[schemars(with = "String")]
    pub(super) spec: Spanned<String>,
    /// Its OpenFlow number. Default: the least that is free, in the order of the file.
    #[schemars(with = "Option<u32>")]
    pub(super) number: Option<Spanned<u32>>,
    /// Queues, spread over the workers; drivers that have fewer give what they have. Default: as many
    /// as there are workers.
    #[schemars(with = "Option<u16>")]
    pub(super) queues: Option<Spanned<u16>>,
    /// Descriptors of each queue, 64 to 32768. Default: 1024.
    #[schemars(with = "Option<u16>")]
    pub(super) descriptors: Option<Spanned<u16>>,
}

/// A service.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ServiceTable {
    /// Its kind; `weir switch ctl services` names them. Default: the service's name.
    #[schemars(with = "Option<String>")]
    pub(super) kind: Option<Spanned<String>>,
    /// Its settings, which its kind describes.
    pub(super) settings: serde_json::Map<String, serde_json::Value>,
    /// How much it may do wrong before it is put in quarantine.
    pub(super) limits: Limits,
}

/// What is in the tables.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TablesTable {
    /// Flow entries, one a line, as ovs-ofctl writes them.
    #[schemars(with = "Option<String>")]
    pub(super) flows: Option<Spanned<String>>,
    /// A file of flow entries; relative to the configuration.
    #[schemars(with = "Option<String>")]
    pub(super) flows_file: Option<Spanned<String>>,
    /// Groups, one a line, as ovs-ofctl writes them.
    #[schemars(with = "Option<String>")]
    pub(super) groups: Option<Spanned<String>>,
    /// A file of groups; relative to the configuration.
    #[schemars(with = "Option<String>")]
    pub(super) groups_file: Option<Spanned<String>>,
    /// Meters, one a line, as ovs-ofctl writes them.
    #[schemars(with = "Option<String>")]
    pub(super) meters: Option<Spanned<String>>,
    /// A file of meters; relative to the configuration.
    #[schemars(with = "Option<String>")]
    pub(super) meters_file: Option<Spanned<String>>,
}

/// OpenFlow controllers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct OpenflowTable {
    /// Where controllers and tools such as ovs-ofctl connect: `ptcp:[PORT][:ADDRESS]`,
    /// `pssl:[PORT][:ADDRESS]` or `punix:PATH`; port 6653 and all IPv4 addresses if not said.
    #[schemars(with = "Vec<String>")]
    pub(super) listen: Vec<Spanned<String>>,
    /// Controllers that the switch connects to: `tcp:HOST[:PORT]`, `ssl:HOST[:PORT]` or `unix:PATH`.
    #[schemars(with = "Vec<String>")]
    pub(super) controllers: Vec<Spanned<String>>,
    /// What the switch does while none of its controllers answers: "secure", what its tables say;
    /// "standalone", what a learning switch does. Default: secure.
    #[schemars(with = "Option<String>")]
    pub(super) fail_mode: Option<Spanned<String>>,
    /// PEM file of the switch's private key, for pssl and ssl; relative to the configuration.
    #[schemars(with = "Option<String>")]
    pub(super) private_key: Option<Spanned<String>>,
    /// PEM file of its certificate, and those between it and the authority.
    #[schemars(with = "Option<String>")]
    pub(super) certificate: Option<Spanned<String>>,
    /// PEM file of the authority that signed the controllers' certificates.
    #[schemars(with = "Option<String>")]
    pub(super) ca_cert: Option<Spanned<String>>,
    /// Connections that are accepted at once by TCP, as many by TLS, as many at Unix sockets, 1 to 1024. Default: 64.
    #[schemars(with = "Option<u32>")]
    pub(super) max_connections: Option<Spanned<u32>>,
    /// Seconds of silence before a controller is asked whether it is there, and then seconds for its answer,
    /// 1 to 3600. Default: 5.
    #[schemars(with = "Option<u32>")]
    pub(super) echo_seconds: Option<Spanned<u32>>,
    /// The switch's number among all, up to 16 hexadecimal digits. Default: the switch's own choice.
    #[schemars(with = "Option<String>")]
    pub(super) datapath_id: Option<Spanned<String>>,
}
