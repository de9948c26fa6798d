//! `l2fwd`: DPDK's example forwarder.
//!
//! It forwards between its two ports. By itself it rewrites both MAC addresses, which [`Nf::L2Fwd`] must not; its own
//! option `--no-mac-updating` turns that off, so that every packet leaves as it came. It prints no counters to be read:
//! they come by telemetry. It forwards on its main thread and has no other.

use crate::eal::{self, Lcores, PATIENCE};
use crate::example::{BUFFERS_VARIABLE, Example, Forwarder, holds_frames};
use crate::process::Process;
use crate::telemetry::{self, Telemetry};
use crate::wiring::WiringKind;
use crate::{Adapter, DutError, RunningDut, StartRequest};
use std::ffi::OsStr;
use weir_trial::Nf;

const NAME: &str = "l2fwd";
const PROGRAM: Example = Example(NAME);

/// The adapter.
pub(crate) struct L2Fwd;

impl Adapter for L2Fwd {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "DPDK's example forwarder, addresses left as they are, built from Debian's dpdk-doc"
    }

    fn wirings(&self) -> &'static [WiringKind] {
        &[WiringKind::Vhost, WiringKind::Memif, WiringKind::Veth, WiringKind::Nic, WiringKind::Fed]
    }

    fn supports(&self, nf: Nf) -> Result<(), String> {
        match nf {
            Nf::L2Fwd => Ok(()),
            Nf::L3Fwd { .. } | Nf::Firewall { .. } => Err("l2fwd has neither routes nor rules".to_owned()),
            _ => Err(crate::wants_tables(NAME, nf)),
        }
    }

    fn version(&self) -> Result<String, DutError> {
        PROGRAM.version()
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let unsupported = |reason| DutError::Unsupported { dut: NAME, nf: request.nf, reason };
        self.supports(request.nf).map_err(unsupported)?;
        holds_frames(request).map_err(unsupported)?;
        let version = self.version()?;
        let (program, arguments) = request.command(OsStr::new("env"), arguments(request));
        let process = Process::start(NAME, &program, &arguments, request.alarm.clone())?;
        let ports = request.ports.len();
        // It says so for each port once that is started.
        let started = |lines: &[&str]| {
            let ready = lines.iter().filter(|line| line.contains(", MAC address:"));
            (ready.count() >= ports).then_some(())
        };
        process.wait_for(0, "start its ports", PATIENCE, started)?;
        let telemetry = Telemetry::connect(NAME, request)?;
        Ok(Box::new(Forwarder { process, telemetry, version, ports, forwards: false }))
    }
}

fn arguments(request: &StartRequest<'_>) -> Vec<String> {
    let mut arguments = vec![
        telemetry::environment(request),
        format!("{BUFFERS_VARIABLE}={}", eal::buffers(request)),
        PROGRAM.path().display().to_string(),
    ];
    arguments.extend(eal::arguments(request, Lcores::MainForwards, 0, true));
    let ports = request.ports.len();
    arguments.extend([
        "--".to_owned(),
        "-p".to_owned(),
        format!("{:#x}", (1_u64 << ports) - 1),
        "-q".to_owned(),
        ports.to_string(),
        // Statistics on a screen are not read.
        "-T".to_owned(),
        "0".to_owned(),
        "--no-mac-updating".to_owned(),
    ]);
    if eal::promiscuous(request) {
        arguments.push("-P".to_owned());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eal::tests::request;
    use crate::folder::Folder;

    #[test]
    fn both_ports_are_on_one_core_and_addresses_are_left() {
        let folder = Folder::new().unwrap();
        let ports = ["net_null0".to_owned(), "net_null1".to_owned()];
        let line = arguments(&request(Nf::L2Fwd, &ports, &folder)).join(" ");
        for part in ["WEIR_BUFFERS=16384", "-l 3 --main-lcore 3", "-- -p 0x3 -q 2 -T 0 --no-mac-updating"] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains(" -P"), "{line}");
    }

    #[test]
    fn routing_and_filtering_are_refused() {
        assert_eq!(L2Fwd.supports(Nf::L2Fwd), Ok(()));
        assert!(L2Fwd.supports(Nf::L3Fwd { routes: 10 }).unwrap_err().contains("neither routes"));
        assert!(L2Fwd.supports(Nf::Nat { addresses: 1 }).is_err());
    }
}
