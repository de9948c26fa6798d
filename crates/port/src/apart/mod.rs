//! Ports whose peer is not trusted: DPDK's driver for one runs in a process of its own, the *helper*.
//!
//! Why: drivers for shared memory (vhost, memif) use what a guest wrote. A guest that makes its memory shorter kills whoever
//! reads it (SIGBUS), and one that lies may find a flaw by which it writes into the driver's process. So that process has
//! nothing but this port, no packet of others and no table, and gives up its rights before it serves it (`helper.rs`).
//!
//! Design:
//! - `ring.rs`: packets between the two processes, copied, through memory of which nothing is believed;
//! - `ends.rs`: what a worker of the switch holds, [`ApartRx`] and [`ApartTx`];
//! - `supervisor.rs`: starts the helper, and again when it has died, hangs or lies; `lines.rs`, `tally.rs`: what it
//!   hears from it;
//! - `keeper.rs`: a process that starts helpers for the switch, which may not start any itself ([`Keeper`]);
//! - `helper.rs`: the helper's own program ([`serve`]).
//!
//! Accounts: a packet that came in is the switch's when it was copied out of the ring; what the driver had taken and not
//! put there is lost as on a wire. A packet that the switch sent is the helper's when it lies in the ring; what a helper has
//! not passed on when it ends is counted (`undelivered`).
//!
//! Cost: two more copies and another core's time a packet. A port that is trusted pays nothing. Threads: an end belongs to one
//! worker; one thread a port looks after its helper, and sleeps.

mod ends;
mod helper;
mod keeper;
mod lines;
mod ring;
mod supervisor;
mod tally;
#[cfg(test)]
mod tests;

use weir_dpdk::SharedWords;

/// What the ring is made of, by a name that `crates/models` gives to something else.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering};
}

pub use ends::{ApartRx, ApartTx};
pub use helper::{GiveUp, HelperConfig, Step, serve};
pub use keeper::{Keeper, keep};
pub(crate) use supervisor::{Supervisor, open};

/// Whether a port of DPDK's connects to its peer, again and again, and does not wait for it.
pub(crate) fn connects(port: &str) -> bool {
    !port.starts_with("net_memif") && port.split(',').any(|argument| argument == "client=1")
}

/// How a port with an untrusted peer is written: behind this prefix, on which core its helper runs, and the port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApartSpec {
    /// The helper's core; the first that the process may use, if none.
    pub(crate) core: Option<usize>,
    /// DPDK's string of the port.
    pub(crate) port: String,
}

impl ApartSpec {
    /// Reads what stands behind the prefix.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (core, port) = match text.strip_prefix("core=") {
            None => (None, text),
            Some(rest) => {
                let (core, port) = rest.split_once(':').ok_or(
                    "the port behind the core is missing: write untrusted:core=1:net_vhost0,iface=PATH",
                )?;
                let core = core.parse().map_err(|_| format!("`core={core}` is no number of a core"))?;
                (Some(core), port)
            }
        };
        let name = port.split(',').next().unwrap_or_default();
        if !["net_vhost", "eth_vhost", "net_memif"].iter().any(|driver| name.starts_with(driver)) {
            return Err(format!(
                "`{name}` does not share memory with a peer: net_vhost and net_memif ports are kept apart; all others \
                 are written without `untrusted:`"
            ));
        }
        Ok(Self { core, port: port.to_owned() })
    }
}
