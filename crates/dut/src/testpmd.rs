//! `testpmd`: DPDK's own forwarder, from Debian's package `dpdk-dev`.
//!
//! It is driven over its prompt. It only forwards: `l2fwd` is its `io` mode, which touches no
//! packet. It cannot route or filter.

use crate::eal::{self, Lcores, PATIENCE, RING};
use crate::found::Said;
use crate::process::Process;
use crate::wiring::{Side, WiringKind};
use crate::{Adapter, Counters, DutError, PortCounts, RunningDut, StartRequest, cpu};
use std::ffi::OsStr;
use std::time::Instant;
use weir_trial::{Nf, NfKind, Server};
use weir_units::Nanos;

const NAME: &str = "testpmd";
pub(crate) const PROGRAM: &str = "dpdk-testpmd";
static VERSION: Said = Said::nothing();

/// The adapter.
pub(crate) struct Testpmd;

struct Running {
    process: Process,
    version: String,
    threads: Vec<u32>,
    ports: usize,
}

impl Adapter for Testpmd {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "DPDK's test forwarder (io mode), from Debian's dpdk-dev"
    }

    fn wirings(&self) -> &'static [WiringKind] {
        &[WiringKind::Vhost, WiringKind::Memif, WiringKind::Veth, WiringKind::Nic, WiringKind::Fed]
    }

    fn supports(&self, nf: Nf) -> Result<(), String> {
        match nf.kind() {
            NfKind::L2Fwd => Ok(()),
            NfKind::L3Fwd => Err("testpmd has no routing table".to_owned()),
            NfKind::Firewall => Err("testpmd has no filter".to_owned()),
            _ => Err(crate::wants_tables(NAME, nf)),
        }
    }

    fn serves_queues(&self) -> Result<(), String> {
        Ok(())
    }

    fn runs_on(&self, server: &Server) -> Result<(), String> {
        match server {
            Server::Namespace(_) => Ok(()),
            Server::Ssh(_) => {
                Err(format!("testpmd is started on this machine alone; nf and weir run at {server}"))
            }
        }
    }

    /// It forwards between its ports in pairs anyway.
    fn hosts(&self) -> Option<Side> {
        Some(Side::Dut)
    }

    fn start_host(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        self.start(&StartRequest { nf: Nf::L2Fwd, ..request.clone() })
    }

    fn version(&self) -> Result<String, DutError> {
        VERSION.of(PROGRAM, ask_version)
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        self.supports(request.nf).map_err(|reason| DutError::Unsupported {
            dut: NAME,
            nf: request.nf,
            reason,
        })?;
        let version = self.version()?;
        let (program, arguments) = request.command(OsStr::new(PROGRAM), arguments(request));
        let mut process = Process::start(NAME, &program, &arguments, request.alarm.clone())?;
        // The prompt has no line end, so it is found at the head of the answer to an empty command.
        process.say(ANYBODY)?;
        process.wait_for(0, "open its ports", PATIENCE, answered)?;
        process.say("start")?;
        let threads = cpu::threads_named(process.pid(), &["rte-worker", "lcore-worker"]);
        let ports = request.ports.len();
        Ok(Box::new(Running { process, version, threads, ports }))
    }
}

/// Its version, which it says on the way to its help, after 0.1 s.
fn ask_version() -> Result<String, DutError> {
    let missing = DutError::Missing { dut: NAME, program: PROGRAM, package: "dpdk-dev" };
    let output = std::process::Command::new(PROGRAM)
        .args(["-v", "--no-huge", "--no-shconf", "--no-pci", "--no-telemetry", "-h"])
        .output()
        .map_err(|_| missing)?;
    let text = [output.stdout, output.stderr].concat();
    let version = eal::version(&String::from_utf8_lossy(&text)).map(str::to_owned);
    Ok(format!("DPDK {}", version.as_deref().unwrap_or("of unknown version")))
}

pub(crate) fn arguments(request: &StartRequest<'_>) -> Vec<String> {
    let mut arguments = eal::arguments(request, Lcores::MainAndWorker, 0, false);
    let own: [String; 10] = [
        "--".into(),
        "-i".into(),
        format!("--nb-cores={}", request.workers().len()),
        "--no-mlockall".into(),
        "--disable-link-check".into(),
        "--forward-mode=io".into(),
        format!("--total-num-mbufs={}", eal::buffers(request)),
        format!("--mbuf-size={}", eal::room(request)),
        format!("--txd={RING}"),
        format!("--rxd={RING}"),
    ];
    arguments.extend(own);
    if request.queues > 1 {
        // What comes in by a queue leaves by that of the same number; its cores share the queues out.
        arguments.extend(["rxq", "txq"].map(|which| format!("--{which}={}", request.queues)));
    }
    arguments
}

/// A command that is answered once the ports are open, and what is in its answer.
pub(crate) const ANYBODY: &str = "show config fwd";

/// Whether [`ANYBODY`] was answered.
pub(crate) fn answered(lines: &[&str]) -> Option<()> {
    lines.iter().any(|line| line.contains("packet forwarding") && line.contains("ports=")).then_some(())
}

/// Asks the program for the counters of so many ports; CPU time is not among them.
pub(crate) fn ask(process: &mut Process, wanted: usize) -> Result<Counters, DutError> {
    let mark = process.mark();
    let asked = Instant::now();
    process.say("show port stats all")?;
    let ports = process.wait_for(mark, "print its counters", PATIENCE, |lines| by_port(lines, wanted))?;
    let at = asked + asked.elapsed() / 2;
    let (received, sent) = PortCounts::totals(&ports);
    Ok(Counters { ports, ..Counters::new(received, sent, Nanos(0), at) })
}

impl RunningDut for Running {
    fn description(&self) -> String {
        format!("{}; {}", self.version, self.process.command())
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let counters = ask(&mut self.process, self.ports)?;
        let pid = self.process.pid();
        let cpu =
            self.threads.iter().filter_map(|thread| cpu::thread_cpu(pid, *thread)).map(|cpu| cpu.0).sum();
        Ok(Counters { cpu: Nanos(cpu), ..counters })
    }

    fn threads(&self) -> Vec<(u32, u32)> {
        self.threads.iter().map(|thread| (self.process.pid(), *thread)).collect()
    }

    fn processes(&self) -> Vec<&Process> {
        vec![&self.process]
    }

    fn ended(&mut self) -> Option<DutError> {
        self.process.ended()
    }

    fn stop(self: Box<Self>) -> Result<(), DutError> {
        self.process.stop(&["stop", "quit"]);
        Ok(())
    }
}

/// The counters of `show port stats all`; nothing until all ports were printed.
fn by_port(lines: &[&str], ports: usize) -> Option<Vec<PortCounts>> {
    let number = |line: &str, key: &str| -> Option<u64> {
        line.trim().strip_prefix(key)?.split_whitespace().next()?.parse().ok()
    };
    let (mut found, mut port) = (Vec::new(), PortCounts::default());
    for line in lines {
        port.received = number(line, "RX-packets:").unwrap_or(port.received);
        port.sent = number(line, "TX-packets:").unwrap_or(port.sent);
        if line.contains("Tx-pps:") {
            found.push(std::mem::take(&mut port));
        }
    }
    (found.len() >= ports).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "testpmd> show port stats all\n
  ######################## NIC statistics for port 0  ########################
  RX-packets: 72809280   RX-missed: 0          RX-bytes:  4368556800
  RX-errors: 0
  TX-packets: 72504160   TX-errors: 0          TX-bytes:  4350249600
  Rx-pps:     26203287          Rx-bps:  12577577904
  Tx-pps:     26203255          Tx-bps:  12577562616
  ######################## NIC statistics for port 1  ########################
  RX-packets: 10         RX-missed: 0          RX-bytes:  4371400320
  TX-packets: 20         TX-errors: 0          TX-bytes:  4350264960
  Rx-pps:     26203296          Rx-bps:  12577582416";

    #[test]
    fn counters_are_summed_once_every_port_is_printed() {
        assert_eq!(by_port(&PRINTED.lines().collect::<Vec<_>>(), 2), None, "the second port is not complete");
        let whole = format!("{PRINTED}\n  Tx-pps:     1          Tx-bps:  2");
        let ports = by_port(&whole.lines().collect::<Vec<_>>(), 2).unwrap();
        assert_eq!(PortCounts::totals(&ports), (72_809_290, 72_504_180));
        assert_eq!((ports[1].received, ports[1].sent), (10, 20));
    }

    #[test]
    fn routing_and_filtering_are_refused() {
        assert!(Testpmd.supports(Nf::L2Fwd).is_ok());
        assert!(Testpmd.supports(Nf::L3Fwd { routes: 10 }).unwrap_err().contains("routing"));
        assert!(Testpmd.supports(Nf::Firewall { rules: 10 }).is_err());
    }
}
