//! `ip_pipeline`: DPDK's example of its packet framework: tables between ports, set up by a script.
//!
//! l2fwd is a table a port that matches everything; l3fwd a longest-prefix table whose actions write
//! both MAC addresses, lower the TTL and mend the checksum; firewall an access-control list a port.
//! Counters come by telemetry: its own command line is a TCP server, which we bind to the loopback
//! and leave alone. Against [`Nf`]: it reads addresses and ports at fixed offsets, so it takes every
//! packet for IPv4 without options and every fragment for a first one, and it checks no header
//! checksum; Weir's traces hold no such packet.

use crate::eal::{self, HEADROOM, Lcores, RING};
use crate::example::Example;
use crate::l3fwd::mac;
use crate::process::Process;
use crate::telemetry::{self, Telemetry};
use crate::wiring::WiringKind;
use crate::{Adapter, Counters, DutError, RunningDut, StartRequest, cpu, lpm};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_trial::Nf;
use weir_units::Nanos;
use weir_wire::table::{Action, Ports, Route, Rule, next_hop_mac, port_mac};

const NAME: &str = "ip_pipeline";
const PROGRAM: Example = Example(NAME);

/// Bytes of a packet buffer's header (`struct rte_mbuf`): its offsets count from there.
const MBUF: u64 = 128;

/// Where the IPv4 header begins, counted from the packet buffer's own beginning.
const IPV4: u64 = MBUF + HEADROOM + 14;

/// Where the destination address is.
const IPV4_DESTINATION: u64 = IPV4 + 16;

/// Routes that its table is made for.
const MOST_ROUTES: u32 = 1 << 20;

/// Its longest-prefix table is 64 MiB; the lists of a large firewall need more.
const TABLES_MEGABYTES: u64 = 192;

/// How long it may take to build its lists.
const BUILD_PATIENCE: Duration = Duration::from_secs(60);

/// Milliseconds after which it sends what is too little for a burst of 32, as its own examples have it: what a port still
/// holds would be lost to a trial that ends before, and each pass of single packets would wait for it.
const PERIOD: u32 = 10;

/// The last line of the script, a comment, which it prints like all others.
const END: &str = "; the end of the script";

/// What its answers begin with where a command went wrong.
const COMPLAINTS: [&str; 10] = [
    "Not enough",
    "Unknown command",
    "Command \"",
    "Too many",
    "Wrong number",
    "Argument \"",
    "Invalid value",
    "Error",
    "PIPELINE:",
    "ACL:",
];

/// The adapter.
pub(crate) struct IpPipeline;

struct Running {
    process: Process,
    telemetry: Telemetry,
    version: String,
    ports: usize,
    threads: Vec<u32>,
}

impl Adapter for IpPipeline {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "DPDK's example of its packet framework, built from Debian's dpdk-doc"
    }

    fn wirings(&self) -> &'static [WiringKind] {
        &[WiringKind::Vhost, WiringKind::Fed]
    }

    fn supports(&self, nf: Nf) -> Result<(), String> {
        match nf {
            Nf::L2Fwd | Nf::Firewall { .. } => Ok(()),
            Nf::L3Fwd { .. } => lpm::fits(&nf.routes(), MOST_ROUTES),
            _ => Err(crate::wants_tables(NAME, nf)),
        }
    }

    fn version(&self) -> Result<String, DutError> {
        PROGRAM.version()
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let unsupported = |reason| DutError::Unsupported { dut: NAME, nf: request.nf, reason };
        self.supports(request.nf).map_err(unsupported)?;
        let version = self.version()?;
        let entries = entries(request.nf).map_err(unsupported)?;
        let entries = request.folder.write("entries.txt", &entries)?;
        let script = request.folder.write("script.cli", &script(request, &entries))?;
        let arguments = arguments(request, &script);
        let process = Process::start(NAME, OsStr::new("env"), &arguments, request.alarm.clone())?;
        let answer = process.wait_for(0, "read its script", BUILD_PATIENCE, outcome)?;
        if let Err((command, reason)) = answer {
            let last_words = process.last_words();
            return Err(DutError::Refused { dut: NAME, command, reason, last_words });
        }
        let telemetry = Telemetry::connect(NAME, request)?;
        let threads = cpu::threads_named(process.pid(), &["rte-worker", "lcore-worker"]);
        Ok(Box::new(Running { process, telemetry, version, ports: request.ports.len(), threads }))
    }
}

fn arguments(request: &StartRequest<'_>, script: &Path) -> Vec<String> {
    let mut arguments = vec![telemetry::environment(request), PROGRAM.path().display().to_string()];
    arguments.extend(eal::arguments(request, Lcores::MainAndWorker, TABLES_MEGABYTES, true));
    let own = ["--", "-s", &script.display().to_string(), "-h", "127.0.0.1", "-p", "0"];
    arguments.extend(own.map(str::to_owned));
    arguments
}

/// What became of the script: nothing before its end; then, where it went wrong, the command and the
/// complaint.
fn outcome(lines: &[&str]) -> Option<Result<(), (String, String)>> {
    let end = lines.iter().position(|line| line.trim() == END)?;
    let complains = |line: &&str| {
        COMPLAINTS.iter().any(|complaint| line.starts_with(complaint))
            || line.strip_prefix("Added ").is_some_and(|rest| !all_added(rest))
    };
    let Some(at) = lines[..end].iter().position(complains) else { return Some(Ok(())) };
    let command = lines[..at].iter().rev().find(|line| !line.contains(": ")).copied().unwrap_or_default();
    Some(Err((command.to_owned(), lines[at].to_owned())))
}

/// Whether `7 rules out of 7.` says that none is missing.
fn all_added(text: &str) -> bool {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    numbers.next() == numbers.next()
}

/// The script: ports, tables, entries, and the thread that runs them.
fn script(request: &StartRequest<'_>, entries: &Path) -> String {
    let ports = request.ports.len();
    let buffer = MBUF + eal::room(request);
    let mut text = format!("mempool POOL buffer {buffer} pool {} cache 256 cpu 0\n", eal::buffers(request));
    for port in 0..ports {
        let promiscuous = if eal::promiscuous(request) { "on" } else { "off" };
        let queues = format!("rxq 1 {RING} POOL txq 1 {RING} promiscuous {promiscuous}");
        let _ = writeln!(text, "link LINK{port} port {port} {queues}");
    }
    text += &profile(request.nf);
    let _ = writeln!(text, "pipeline NF period {PERIOD} offset_port_id 0 cpu 0");
    (0..ports).for_each(|port| text += &format!("pipeline NF port in bsz 32 link LINK{port} rxq 0\n"));
    (0..ports).for_each(|port| text += &format!("pipeline NF port out bsz 32 link LINK{port} txq 0\n"));
    text += &tables(request.nf, ports, entries);
    text += &format!("thread {} pipeline NF enable\n{END}\n", request.core);
    text
}

/// The actions of the entries.
fn profile(nf: Nf) -> String {
    match nf {
        Nf::L3Fwd { .. } => {
            format!("table action profile ACTIONS ipv4 offset {IPV4} fwd encap ether ttl drop stats none\n")
        }
        Nf::Firewall { .. } => format!("table action profile ACTIONS ipv4 offset {IPV4} fwd\n"),
        _ => String::new(),
    }
}

/// The tables, which ports lead to them, and what is in them.
fn tables(nf: Nf, ports: usize, entries: &Path) -> String {
    let entries = entries.display();
    let mut text = String::new();
    match nf {
        Nf::L3Fwd { routes } => {
            text += "pipeline NF table match lpm ipv4 ";
            text += &format!("offset {IPV4_DESTINATION} size {} action ACTIONS\n", routes.max(2));
            (0..ports).for_each(|port| text += &format!("pipeline NF port in {port} table 0\n"));
            text += "pipeline NF table 0 rule add match default action fwd drop\n";
            text += &format!("pipeline NF table 0 rule add bulk {entries}\n");
        }
        _ => {
            let kind = match nf {
                Nf::Firewall { rules } => format!("acl ipv4 offset {IPV4} size {rules} action ACTIONS"),
                _ => "stub".to_owned(),
            };
            (0..ports).for_each(|_| text += &format!("pipeline NF table match {kind}\n"));
            (0..ports).for_each(|port| text += &format!("pipeline NF port in {port} table {port}\n"));
            for port in 0..ports {
                let rule = format!("pipeline NF table {port} rule add");
                let _ = writeln!(text, "{rule} match default action fwd port {}", port ^ 1);
                if matches!(nf, Nf::Firewall { rules: 2.. }) {
                    let _ = writeln!(text, "{rule} bulk {entries}");
                }
            }
        }
    }
    text
}

/// The entries of a function's table, one a line.
fn entries(nf: Nf) -> Result<String, String> {
    match nf {
        Nf::L3Fwd { .. } => Ok(nf.routes().iter().map(route).collect()),
        Nf::Firewall { .. } => rules(&nf.rules()),
        _ => Ok(String::new()),
    }
}

fn route(route: &Route) -> String {
    let (prefix, port) = (route.prefix, route.port);
    let (to, from) = (mac(next_hop_mac(port)), mac(port_mac(port)));
    let address = prefix.address();
    format!(
        "match lpm ipv4 {address} {} action fwd port {port} encap ether {to} {from} ttl dec\n",
        prefix.bits()
    )
}

/// The rules that deny, the first of them the most important; what none of them matches passes, as
/// the last rule says.
fn rules(rules: &[Rule]) -> Result<String, String> {
    let Some((&Rule::ALLOW_ALL, deny)) = rules.split_last() else {
        return Err("its lists end with a rule that lets everything pass".to_owned());
    };
    deny.iter().enumerate().map(|(priority, rule)| entry(priority, rule)).collect()
}

fn entry(priority: usize, rule: &Rule) -> Result<String, String> {
    let (Action::Deny, Some(protocol)) = (rule.action, rule.protocol) else {
        return Err(format!("an entry of its lists names a protocol and denies, unlike `{rule}`"));
    };
    let range = |ports: Ports| match ports {
        Ports::Any => (0, u16::MAX),
        Ports::Range { first, last } => (first, last),
    };
    let (source, destination) = (rule.source, rule.destination);
    let ((first, last), (from, to)) = (range(rule.source_ports), range(rule.destination_ports));
    Ok(format!(
        "match acl priority {priority} ipv4 {} {} {} {} {first} {last} {from} {to} {protocol} action fwd drop\n",
        source.address(),
        source.bits(),
        destination.address(),
        destination.bits()
    ))
}

impl RunningDut for Running {
    fn description(&self) -> String {
        format!("{}; {}", self.version, self.process.command())
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let asked = Instant::now();
        let totals = self.telemetry.totals(self.ports)?;
        let at = asked + asked.elapsed() / 2;
        let pid = self.process.pid();
        let cpu =
            self.threads.iter().filter_map(|thread| cpu::thread_cpu(pid, *thread)).map(|cpu| cpu.0).sum();
        let counters = Counters::new(totals.received, totals.sent, Nanos(cpu), at);
        Ok(Counters { details: totals.details, ..counters })
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
        self.process.terminate();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eal::tests::request;
    use crate::folder::Folder;

    fn script_of(nf: &str) -> String {
        let folder = Folder::new().unwrap();
        let ports = ["net_null0".to_owned(), "net_null1".to_owned()];
        script(&request(nf.parse().unwrap(), &ports, &folder), "/t/entries.txt".as_ref())
    }

    #[test]
    fn l2fwd_is_a_table_a_port_that_leads_to_the_other() {
        assert_eq!(
            script_of("l2fwd"),
            "mempool POOL buffer 2304 pool 16384 cache 256 cpu 0\n\
             link LINK0 port 0 rxq 1 1024 POOL txq 1 1024 promiscuous off\n\
             link LINK1 port 1 rxq 1 1024 POOL txq 1 1024 promiscuous off\n\
             pipeline NF period 10 offset_port_id 0 cpu 0\n\
             pipeline NF port in bsz 32 link LINK0 rxq 0\n\
             pipeline NF port in bsz 32 link LINK1 rxq 0\n\
             pipeline NF port out bsz 32 link LINK0 txq 0\n\
             pipeline NF port out bsz 32 link LINK1 txq 0\n\
             pipeline NF table match stub\n\
             pipeline NF table match stub\n\
             pipeline NF port in 0 table 0\n\
             pipeline NF port in 1 table 1\n\
             pipeline NF table 0 rule add match default action fwd port 1\n\
             pipeline NF table 1 rule add match default action fwd port 0\n\
             thread 3 pipeline NF enable\n\
             ; the end of the script\n"
        );
    }

    #[test]
    fn l3fwd_is_one_table_whose_entries_write_addresses_and_lower_the_ttl() {
        let script = script_of("l3fwd:2");
        for line in [
            "table action profile ACTIONS ipv4 offset 270 fwd encap ether ttl drop stats none",
            "pipeline NF table match lpm ipv4 offset 286 size 2 action ACTIONS",
            "pipeline NF table 0 rule add match default action fwd drop",
            "pipeline NF table 0 rule add bulk /t/entries.txt",
        ] {
            assert!(script.lines().any(|found| found == line), "{line}: {script}");
        }
        let entries = entries(Nf::L3Fwd { routes: 2 }).unwrap();
        assert_eq!(
            entries.lines().nth(1).unwrap(),
            "match lpm ipv4 198.19.0.0 16 action fwd port 1 encap ether 02:00:00:00:02:01 02:00:00:00:01:01 ttl dec"
        );
    }

    #[test]
    fn a_firewall_is_a_list_a_port_of_what_is_denied() {
        let script = script_of("firewall:3");
        assert_eq!(script.matches("table match acl ipv4 offset 270 size 3 action ACTIONS").count(), 2);
        assert_eq!(script.matches("rule add bulk").count(), 2);
        assert_eq!(
            entries(Nf::Firewall { rules: 3 }).unwrap(),
            "match acl priority 0 ipv4 198.18.31.144 28 198.19.76.0 22 32768 60999 123 123 17 action fwd drop\n\
             match acl priority 1 ipv4 198.19.248.0 22 198.18.231.71 32 49152 65535 161 162 17 action fwd drop\n"
        );
        assert!(!script_of("firewall:1").contains("bulk"), "a firewall that denies nothing has no list");
    }

    #[test]
    fn rules_that_its_lists_cannot_hold_are_refused() {
        let rule = |text: &str| text.parse::<Rule>().unwrap();
        assert!(
            rules(&[rule("deny any any any any any"), Rule::ALLOW_ALL]).unwrap_err().contains("protocol")
        );
        assert!(rules(&[rule("deny udp any any any any")]).unwrap_err().contains("pass"));
    }

    #[test]
    fn a_command_that_went_wrong_is_found_with_its_complaint() {
        let ran = ["EAL: x", "pipeline NF table 0 rule add bulk f", "Added 9 rules out of 9.", END];
        assert_eq!(outcome(&ran[..3]), None, "the script is not at its end");
        assert_eq!(outcome(&ran), Some(Ok(())));
        let missing = ["pipeline NF table 0 rule add bulk f", "Added 8 rules out of 9.", END];
        let failed = ["link LINK0 port 0", "ETHDEV: no", "Command \"link\" failed.", "pipeline NF", END];
        for (lines, command) in
            [(&missing[..], "pipeline NF table 0 rule add bulk f"), (&failed, "link LINK0 port 0")]
        {
            let (said, reason) = outcome(lines).unwrap().unwrap_err();
            assert_eq!(said, command);
            assert!(reason.contains("8 rules") || reason.contains("link"), "{reason}");
        }
    }
}
