//! Counters of a DPDK program that prints none, from the telemetry socket that the EAL opens.
//!
//! The socket lies in `dpdk/rte/` of the folder that the program finds in its environment as
//! [`FOLDER_VARIABLE`]. A question is a line such as `/ethdev/stats,0`; the answer is one JSON
//! object. A question costs the program a wake-up of its telemetry thread, not of its workers.

use crate::{DutError, StartRequest};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

/// Environment variable that names the folder the EAL puts its files in.
pub(crate) const FOLDER_VARIABLE: &str = "RUNTIME_DIRECTORY";

/// Longest answer, in bytes: what the EAL limits itself to.
const LONGEST: usize = 16 * 1024;

/// How long a question may go unanswered, in seconds.
const PATIENCE_SECONDS: i64 = 5;

/// Counters of an Ethernet device beside packets, by DPDK's names, and what we call them.
const DETAILS: [(&str, &str); 4] = [
    ("imissed", "packets missed"),
    ("ierrors", "receive errors"),
    ("oerrors", "transmit errors"),
    ("rx_nombuf", "packets without buffer"),
];

/// The setting of the environment that puts the socket into the DUT's folder.
pub(crate) fn environment(request: &StartRequest<'_>) -> String {
    format!("{FOLDER_VARIABLE}={}", request.folder.path().display())
}

/// Where the socket is then.
pub(crate) fn socket_path(request: &StartRequest<'_>) -> PathBuf {
    request.folder.file("dpdk/rte/dpdk_telemetry.v2")
}

/// A connection to a program's telemetry.
#[derive(Debug)]
pub(crate) struct Telemetry {
    dut: &'static str,
    socket: OwnedFd,
}

/// Sums over ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortTotals {
    /// Packets received.
    pub(crate) received: u64,
    /// Packets sent.
    pub(crate) sent: u64,
    /// The rest, under our names.
    pub(crate) details: BTreeMap<String, u64>,
}

impl Telemetry {
    /// Connects to the telemetry of a program whose EAL is up: it listens before the program goes on.
    pub(crate) fn connect(dut: &'static str, request: &StartRequest<'_>) -> Result<Self, DutError> {
        let path = socket_path(request);
        let failed = |error: nix::Error| DutError::File { path: path.clone(), reason: error.to_string() };
        let socket =
            socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).map_err(failed)?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(PATIENCE_SECONDS, 0)).map_err(failed)?;
        let address = UnixAddr::new(&path).map_err(failed)?;
        connect(socket.as_raw_fd(), &address).map_err(failed)?;
        let telemetry = Self { dut, socket };
        telemetry.receive()?; // it introduces itself
        Ok(telemetry)
    }

    /// Sums the counters of the first ports.
    pub(crate) fn totals(&self, ports: usize) -> Result<PortTotals, DutError> {
        let mut totals = PortTotals::default();
        for port in 0..ports {
            let question = format!("/ethdev/stats,{port}");
            let answer = self.ask(&question)?;
            totals.add(&answer, &question).ok_or_else(|| self.unexpected(answer.to_string()))?;
        }
        Ok(totals)
    }

    fn ask(&self, question: &str) -> Result<Value, DutError> {
        send(self.socket.as_raw_fd(), question.as_bytes(), MsgFlags::MSG_NOSIGNAL)
            .map_err(|error| self.unexpected(error.to_string()))?;
        let answer = self.receive()?;
        serde_json::from_slice(&answer)
            .map_err(|_| self.unexpected(String::from_utf8_lossy(&answer).into_owned()))
    }

    fn receive(&self) -> Result<Vec<u8>, DutError> {
        let mut answer = vec![0; LONGEST];
        let length = recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty())
            .map_err(|error| self.unexpected(error.to_string()))?;
        answer.truncate(length);
        Ok(answer)
    }

    fn unexpected(&self, answer: String) -> DutError {
        DutError::Answer { dut: self.dut, answer, expected: "the counters of a port, from its telemetry" }
    }
}

impl PortTotals {
    /// Adds the counters of one port; nothing when they are not there.
    fn add(&mut self, answer: &Value, question: &str) -> Option<()> {
        let command = question.split(',').next()?;
        let stats = answer.get(command)?;
        let count = |name: &str| stats.get(name)?.as_u64();
        self.received += count("ipackets")?;
        self.sent += count("opackets")?;
        for (name, ours) in DETAILS {
            *self.details.entry(ours.to_owned()).or_default() += count(name).unwrap_or_default();
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counters_of_all_ports_are_summed_and_the_rest_kept_by_name() {
        let mut totals = PortTotals::default();
        for sent in [5, 6] {
            let stats = json!({"ipackets": 10, "opackets": sent, "imissed": 1, "q_ipackets": [10]});
            totals.add(&json!({"/ethdev/stats": stats}), "/ethdev/stats,0").unwrap();
        }
        assert_eq!((totals.received, totals.sent), (20, 11));
        assert_eq!((totals.details["packets missed"], totals.details["transmit errors"]), (2, 0));
    }

    #[test]
    fn an_answer_without_counters_is_no_answer() {
        for answer in [json!({"/ethdev/stats": null}), json!({}), json!({"/ethdev/stats": {"ipackets": 1}})] {
            assert_eq!(PortTotals::default().add(&answer, "/ethdev/stats,7"), None);
        }
    }
}
