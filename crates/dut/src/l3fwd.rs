//! `l3fwd`: DPDK's example router, longest prefix match.
//!
//! It has no prompt and prints no counters: routes are files, counters come by telemetry. It runs
//! on one core alone, since it opens a transmit queue a core and DPDK's pcap port has only one.
//! Against [`Nf::L3Fwd`]: addresses, TTL and checksum come out right, but it checks no header
//! checksum, lets a TTL of 1 pass as 0, and sends back what no route matches; Weir's traces hold no
//! such packet, and a table that would leave one without a route is refused.

use crate::eal::{self, Lcores, PATIENCE};
use crate::example::{BUFFERS_VARIABLE, Example, Forwarder, holds_frames};
use crate::process::Process;
use crate::telemetry::{self, Telemetry};
use crate::wiring::WiringKind;
use crate::{Adapter, DutError, RunningDut, StartRequest, lpm};
use std::ffi::OsStr;
use std::path::Path;
use weir_trial::Nf;
use weir_wire::table::{Route, next_hop_mac};

const NAME: &str = "l3fwd";
const PROGRAM: Example = Example(NAME);

/// Routes its table holds (`IPV4_L3FWD_LPM_MAX_RULES`).
const MOST_ROUTES: u32 = 1024;

/// Its IPv4 and its IPv6 table, 64 MiB each, and what the allocator loses around them.
const TABLES_MEGABYTES: u64 = 256;

/// The IPv6 route that it insists on: documentation addresses (RFC 3849), which no trace holds.
const IPV6_ROUTES: &str = "R2001:db8::/32 0\n";

/// The adapter.
pub(crate) struct L3Fwd;

impl Adapter for L3Fwd {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "DPDK's example router (LPM), built from Debian's dpdk-doc"
    }

    fn wirings(&self) -> &'static [WiringKind] {
        &[WiringKind::Vhost, WiringKind::Fed]
    }

    fn supports(&self, nf: Nf) -> Result<(), String> {
        match nf {
            Nf::L2Fwd | Nf::Firewall { .. } => Err("l3fwd only routes".to_owned()),
            Nf::L3Fwd { routes: 1 } => {
                Err("l3fwd sends back what no route matches, where l3fwd:1 must drop it".to_owned())
            }
            Nf::L3Fwd { .. } => lpm::fits(&nf.routes(), MOST_ROUTES),
            _ => Err(crate::wants_tables(NAME, nf)),
        }
    }

    fn deviates(&self, _nf: Nf) -> Option<&'static str> {
        Some("DPDK's l3fwd sends what has no route back where it came from")
    }

    fn version(&self) -> Result<String, DutError> {
        PROGRAM.version()
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let unsupported = |reason| DutError::Unsupported { dut: NAME, nf: request.nf, reason };
        self.supports(request.nf).map_err(unsupported)?;
        holds_frames(request).map_err(unsupported)?;
        let version = self.version()?;
        let ipv4 = request.folder.write("routes4.txt", &routes(&request.nf.routes()))?;
        let ipv6 = request.folder.write("routes6.txt", IPV6_ROUTES)?;
        let arguments = arguments(request, &ipv4, &ipv6);
        let process = Process::start(NAME, OsStr::new("env"), &arguments, request.alarm.clone())?;
        let ports = request.ports.len();
        // It says so for each port once all are started.
        let started = |lines: &[&str]| {
            let ready = lines.iter().filter(|line| line.contains("softly parse packet type info"));
            (ready.count() >= ports).then_some(())
        };
        process.wait_for(0, "start its ports", PATIENCE, started)?;
        let telemetry = Telemetry::connect(NAME, request)?;
        Ok(Box::new(Forwarder { process, telemetry, version, ports, forwards: false }))
    }
}

/// A route file, as l3fwd reads it.
fn routes(routes: &[Route]) -> String {
    routes.iter().map(|route| format!("R{} {}\n", route.prefix, route.port)).collect()
}

/// A MAC address, as DPDK reads it.
pub(crate) fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

fn arguments(request: &StartRequest<'_>, ipv4: &Path, ipv6: &Path) -> Vec<String> {
    let mut arguments = vec![
        telemetry::environment(request),
        format!("{BUFFERS_VARIABLE}={}", eal::buffers(request)),
        PROGRAM.path().display().to_string(),
    ];
    arguments.extend(eal::arguments(request, Lcores::MainForwards, TABLES_MEGABYTES, true));
    let ports = 0..request.ports.len();
    let queues: Vec<String> = ports.clone().map(|port| format!("({port},0,{})", request.core)).collect();
    let own = [
        "--".to_owned(),
        "-p".to_owned(),
        format!("{:#x}", (1_u64 << request.ports.len()) - 1),
        format!("--config={}", queues.join(",")),
        "--parse-ptype".to_owned(),
        "--lookup=lpm".to_owned(),
        format!("--rule_ipv4={}", ipv4.display()),
        format!("--rule_ipv6={}", ipv6.display()),
    ];
    arguments.extend(own);
    if eal::promiscuous(request) {
        arguments.push("-P".to_owned());
    }
    arguments.extend(ports.map(|port| format!("--eth-dest={port},{}", mac(next_hop_mac(port as u8)))));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eal::tests::request;
    use crate::folder::Folder;

    #[test]
    fn routes_are_written_in_its_own_form() {
        assert_eq!(routes(&Nf::L3Fwd { routes: 2 }.routes()), "R198.18.0.0/16 0\nR198.19.0.0/16 1\n");
    }

    #[test]
    fn it_is_refused_what_it_cannot_do_with_the_reason() {
        for (nf, reason) in [
            ("l2fwd", "only routes"),
            ("firewall:10", "only routes"),
            ("l3fwd:1", "sends back"),
            ("l3fwd:1000", "longer than /24"),
            ("l3fwd:2000", "1024 routes"),
        ] {
            let error = L3Fwd.supports(nf.parse().unwrap()).unwrap_err();
            assert!(error.contains(reason), "{nf}: {error}");
        }
        for nf in ["l3fwd:2", "l3fwd:10", "l3fwd:500"] {
            assert_eq!(L3Fwd.supports(nf.parse().unwrap()), Ok(()));
        }
    }

    #[test]
    fn both_ports_are_polled_by_the_forwarding_core_and_next_hops_are_the_test_networks() {
        let folder = Folder::new().unwrap();
        let ports = ["net_null0".to_owned(), "net_null1".to_owned()];
        let line =
            arguments(&request(Nf::L3Fwd { routes: 2 }, &ports, &folder), "/a".as_ref(), "/b".as_ref());
        let line = line.join(" ");
        for part in [
            "WEIR_BUFFERS=16384",
            "-l 3 --main-lcore 3",
            "-p 0x3 --config=(0,0,3),(1,0,3)",
            "--rule_ipv4=/a --rule_ipv6=/b",
            "--eth-dest=0,02:00:00:00:02:00 --eth-dest=1,02:00:00:00:02:01",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains("--no-telemetry"), "{line}");
    }
}
