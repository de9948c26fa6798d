//! `ovs`: Open vSwitch without DPDK, over the `veth` wiring.
//!
//! The same private instance as `ovs-dpdk`'s, in the namespace that has the device's interfaces, with the userspace
//! datapath over raw sockets. Its main thread forwards, on the DUT's core, and does everything else besides: it answers
//! questions and tends its flows between packets. Everything beside that thread stays on the control core. The kernel's
//! datapath (the module `openvswitch`) is not had.

use super::instance::{Instance, Plan};
use super::{DAEMON, DATAPATH, PACKAGE, stats};
use crate::openflow::{self, Dialect};
use crate::process::Process;
use crate::wiring::{INTERFACES, WiringKind};
use crate::{Adapter, Counters, DutError, PortCounts, RunningDut, StartRequest, cpu};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::process::Command;
use std::time::Instant;
use weir_trial::Nf;
use weir_units::Nanos;

const NAME: &str = "ovs";

/// The adapter.
pub(crate) struct Ovs;

struct Running {
    instance: Instance,
    version: String,
}

impl Adapter for Ovs {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "Open vSwitch without DPDK: userspace datapath over the kernel's interfaces, from Debian (needs root)"
    }

    fn wirings(&self) -> &'static [WiringKind] {
        &[WiringKind::Veth]
    }

    fn supports(&self, nf: Nf) -> Result<(), String> {
        openflow::flows(nf, Dialect::OpenVSwitch).map(drop)
    }

    fn version(&self) -> Result<String, DutError> {
        let missing = DutError::Missing { dut: NAME, program: DAEMON, package: PACKAGE };
        let output = Command::new(DAEMON).arg("--version").output().map_err(|_| missing.clone())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.lines().next().and_then(|line| line.rsplit(' ').next());
        version.map(|version| format!("OVS {version}")).ok_or(missing)
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let unsupported = |reason| DutError::Unsupported { dut: NAME, nf: request.nf, reason };
        let flows = openflow::flows(request.nf, Dialect::OpenVSwitch).map_err(unsupported)?;
        let version = self.version()?;
        let no_namespace = || unsupported("it needs a wiring with a network namespace (veth)".to_owned());
        let namespace = request.namespace.ok_or_else(no_namespace)?.path();
        let file = request.folder.write("flows.txt", &flows)?;
        let plan = Plan { dut: NAME, program: DAEMON.as_ref(), namespace: Some(&namespace) };
        let instance = Instance::start(plan, request, &[])?;
        // Flows before ports: no packet ever misses them.
        instance.add_flows(&file, &flows)?;
        let mut words = Vec::new();
        for (number, name) in (1..).zip(INTERFACES) {
            let asked = format!("ofport_request={number}");
            words.extend(
                ["--", "add-port", super::instance::BRIDGE, name, "--", "set", "Interface", name]
                    .map(str::to_owned),
            );
            words.push(asked);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).skip(1).collect();
        instance.configure(&words)?;
        let running = Running { instance, version };
        running.move_to(request.core)?;
        Ok(Box::new(running))
    }
}

impl Running {
    fn pid(&self) -> u32 {
        self.instance.daemon().map(Process::pid).unwrap_or_default()
    }

    /// Has the thread that forwards do so on this core.
    fn move_to(&self, core: usize) -> Result<(), DutError> {
        let mut cores = CpuSet::new();
        let moved =
            cores.set(core).and_then(|()| sched_setaffinity(Pid::from_raw(self.pid() as i32), &cores));
        moved.map_err(|error| DutError::Network {
            what: format!("{NAME}: its main thread cannot be put on core {core}"),
            reason: error.to_string(),
        })
    }
}

impl RunningDut for Running {
    fn description(&self) -> String {
        format!("{}, userspace datapath; {}", self.version, self.instance.command())
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let asked = Instant::now();
        let question = ["dpctl/show", "-s", DATAPATH];
        let answer = self.instance.ask(&question)?;
        let at = asked + asked.elapsed() / 2;
        let ports = stats::by_port(&answer, &INTERFACES);
        let ports = ports
            .ok_or_else(|| self.instance.refused(&question.join(" "), "it shows no counters".to_owned()))?;
        let (received, sent) = PortCounts::totals(&ports);
        let cpu = cpu::thread_cpu(self.pid(), self.pid()).unwrap_or(Nanos(0));
        Ok(Counters { ports, ..Counters::new(received, sent, cpu, at) })
    }

    fn threads(&self) -> Vec<(u32, u32)> {
        vec![(self.pid(), self.pid())]
    }

    fn processes(&self) -> Vec<&Process> {
        self.instance.daemon().into_iter().collect()
    }

    fn ended(&mut self) -> Option<DutError> {
        self.instance.ended()
    }

    fn stop(self: Box<Self>) -> Result<(), DutError> {
        self.instance.stop();
        Ok(())
    }
}
