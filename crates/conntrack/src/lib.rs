//! Connection tracking: which connection a packet belongs to, and what may be said of it.
//!
//! - [`Tracker`]: the connections of one worker; [`Packet`], [`Look`], [`Judgement`]: what comes in, and what is said of it;
//! - [`Tracker::attend`]: what OpenFlow's `ct` asks ([`weir_openflow::Tracking`]), with translated addresses and helpers;
//! - [`Settings`], [`Tick`]: limits, timeouts, and the clock, which is an argument;
//! - [`Owners`]: which worker has a translated connection;
//! - [`command`], [`Connection`], [`Counters`], [`TenantShare`]: what people are told.
//!
//! It knows of no port, no service and no thread: a service (`crates/services/src/conntrack.rs`) calls it for bursts.
//! What it makes of a packet:
//!
//! - TCP, UDP, ICMP requests and replies, SCTP and other protocols are tracked (`tcp.rs` has the rules
//!   for TCP); ICMP errors are related to the connection of the packet that they quote.
//! - ARP, neighbour discovery and multicast listener discovery always pass untracked: the network does
//!   not work without. Anything else that is not IP passes if it may open a connection.
//! - Later fragments follow their first one (`fragments.rs`).
//! - What FTP and TFTP announce is related to their connection, if `ct` says so (`helper/`).
//!
//! Cost: an established IPv4 packet touches one line of the index and one of the connection, both
//! fetched ahead over the burst; `crates/services/benches/conntrack.rs` has it in cycles. Nothing is locked, and nothing
//! allocated once a tracker is built: its tables are reserved for their largest size and filled as
//! connections come. Threads: one tracker a worker; both directions of a connection must come to the
//! same one.

mod atomics;
mod connection;
mod dump;
mod entry;
mod fragments;
mod helper;
mod index;
mod key;
mod lifetime;
mod memory;
mod nat;
mod owner_line;
mod owners;
mod packet;
mod pieces;
mod quick;
mod reason;
mod rewrite;
mod segment;
mod settings;
mod shares;
mod tcp;
mod tracker;
mod tracking;
mod tuple;
mod wheel;

pub use connection::{Connection, TenantShare};
pub use dump::command;
pub use entry::{Place, State};
pub use helper::Help;
pub use lifetime::LOOKS_PAID;
pub use owners::Owners;
pub use packet::{Look, Packet};
pub use reason::{Counters, Event, Reason};
pub use rewrite::Turn;
pub use settings::{Checksums, EarlyFragments, Settings, Timeouts};
pub use shares::Tenant;
pub use tracker::{Judgement, Tracker, ct};
pub use tracking::Attended;
pub use tuple::Tuple;
pub use wheel::Tick;
