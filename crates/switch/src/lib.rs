//! The switch: configuration, control socket and life of a datapath.
//!
//! - [`Settings`]: what a switch is to be, from a TOML file or options;
//! - [`Switch`]: a running one, which answers [`Request`]s and reloads;
//! - [`Plane`]: what it asks of a datapath;
//! - [`ControlSocket`], [`Client`]: requests over a Unix socket;
//! - [`Channels`]: connections with OpenFlow controllers, which tell what they [`Heard`];
//! - [`Confinement`]: what the process gives up of its rights once it has what it needs;
//! - [`mod@bench`]: a service by itself;
//! - [`Stats`], [`metrics`], [`MetricsServer`]: the ledger as a document, and for Prometheus.
//!
//! Costs and threads: all of this is beside the packet path. One thread owns the datapath's control side
//! ([`Switch::run`]); every client has a thread of its own, and waits in it.

mod addresses;
pub mod bench;
mod client;
pub mod config;
mod confine;
mod connections;
mod events;
mod frame;
mod http;
pub mod metrics;
mod plane;
pub mod protocol;
mod reload;
mod socket;
mod start;
pub mod stats;
mod switch;
mod tables;
mod text;
mod trace;

pub use client::{Client, ClientError, HangUp};
pub use config::{ConfigFileError, Known, Settings, TableText};
/// Ports of untrusted peers: what their processes run, and give up.
pub mod apart {
    pub use crate::confine::{confine_helper, confine_keeper};
    pub use weir_port::apart::{GiveUp, HelperConfig, Step, keep, serve};
    pub use weir_port::is_apart;
}

pub use confine::{ConfineError, Confinement, Kept};
pub use http::{MetricsAt, MetricsServer};
pub use plane::{Ended, Plane};
pub use protocol::Request;
pub use socket::{ControlSocket, ask, default_path};
pub use start::{Finished, Running, StartError, start};
pub use stats::Stats;
pub use switch::{About, Answer, Ask, Inbound, Loader, RunError, Switch};
pub use weir_agent::channel::{
    BEHIND, ChannelError, ChannelSettings, ChannelStatus, Channels, ConnectionStatus, Controller,
    ECHO_SECONDS, FailMode, Host, Line, Listen, MAX_CONNECTIONS, MOST_WAITING, MOST_WAITING_IN_ALL,
    OPENFLOW_PORT, TlsError, TlsFiles,
};
pub use weir_agent::private::SocketError;
pub use weir_agent::{ConnectionId, Heard};
pub use weir_datapath::{
    Experiment, LearningConfig, PollMode, PortSpec, Selection, ServiceConfig, TcamConfig,
};

/// What a drop reason means, by its name in documents.
pub fn drop_reason(name: &str) -> Option<&'static str> {
    weir_packet::DropReason::ALL.iter().find(|reason| reason.name() == name).map(|reason| reason.about())
}
