//! What Open vSwitch prints of its counters.
//!
//! `dpctl/show -s` asks the datapath itself; the figures in its database are up to 5 s old. Where
//! ports have no counters, `dpif-netdev/pmd-perf-show` has those of the threads, drops on the way out not
//! taken off.
//! `dpif-netdev/pmd-stats-show` says where the forwarding threads found their flows, and the cycles
//! they were busy. All count since the start, and are never cleared.

use crate::PortCounts;
use std::collections::BTreeMap;

/// Lines of a forwarding thread, and our name for each.
const DETAILS: [(&str, &str); 10] = [
    ("packet recirculations", "recirculations"),
    ("simple match hits", "simple match hits"),
    ("emc hits", "emc hits"),
    ("smc hits", "smc hits"),
    ("megaflow hits", "megaflow hits"),
    ("miss with success upcall", "upcalls"),
    ("miss with failed upcall", "failed upcalls"),
    ("idle cycles", "idle cycles"),
    ("processing cycles", "busy cycles"),
    ("packets received", "packets processed"),
];

/// What each of our ports received, sent and did not take, out of the answer to `dpctl/show -s`; nothing unless each
/// port is in it with both numbers.
pub(super) fn by_port(text: &str, ports: &[&str]) -> Option<Vec<PortCounts>> {
    let mut found: Vec<(Option<u64>, Option<u64>, Option<u64>)> = vec![(None, None, None); ports.len()];
    let mut ours = None;
    for line in text.lines() {
        if let Some(port) = line.trim().strip_prefix("port ") {
            // `port 2: p0 (dpdk: ...)`
            let name = port.split_once(": ").and_then(|(_, rest)| rest.split_whitespace().next());
            ours = name.and_then(|name| ports.iter().position(|port| *port == name));
        } else if let Some(port) = ours.and_then(|place: usize| found.get_mut(place)) {
            port.0 = number(line, "RX packets:").or(port.0);
            if let Some(sent) = number(line, "TX packets:") {
                let dropped = line.split_once("dropped:").and_then(|(_, rest)| number(rest, ""));
                (port.1, port.2) = (Some(sent), dropped);
            }
        }
    }
    let counts = |(received, sent, refused)| Some(PortCounts { received: received?, sent: sent?, refused });
    found.into_iter().map(counts).collect()
}

/// Megaflows that the datapath holds, out of the answer to `dpctl/show`; nothing where it is not in it.
pub(super) fn megaflows(text: &str) -> Option<u64> {
    text.lines().find_map(|line| number(line, "flows:"))
}

/// Packets that the forwarding threads took from all ports and handed to all, out of the answer to
/// `dpif-netdev/pmd-perf-show`; nothing when no thread is in it.
pub(super) fn thread_totals(text: &str) -> Option<(u64, u64)> {
    let sum = |key| text.lines().filter_map(|line| number(line, key)).reduce(|sum, next| sum + next);
    Some((sum("Rx packets:")?, sum("Tx packets:")?))
}

/// Flows held, the limit now, and how long the revalidators' last round took, in milliseconds, out of the
/// answer to `upcall/show`; nothing unless all three are in it.
pub(super) fn upcalls(text: &str) -> Option<(u64, u64, u64)> {
    let bracketed = |name: &str| {
        let (_, rest) = text.split_once(&format!("({name} "))?;
        rest.split_once(')')?.0.trim().parse().ok()
    };
    let (_, duration) = text.split_once("dump duration :")?;
    let milliseconds = duration.split_once("ms")?.0.trim().parse().ok()?;
    Some((bracketed("current")?, bracketed("limit")?, milliseconds))
}

/// The number behind a key at the beginning of a line.
fn number(line: &str, key: &str) -> Option<u64> {
    let rest = line.trim().strip_prefix(key)?.trim_start();
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// What the forwarding threads counted, out of the answer to `dpif-netdev/pmd-stats-show`, summed.
/// The main thread, which forwards nothing of ours, is left out.
pub(super) fn details(text: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut forwards = false;
    for line in text.lines() {
        if !line.starts_with(' ') {
            forwards = line.starts_with("pmd thread");
        }
        let Some((key, value)) = line.trim().split_once(": ").filter(|_| forwards) else { continue };
        let name = DETAILS.iter().find(|(theirs, _)| *theirs == key).map(|(_, ours)| *ours);
        // `2720728231 (100.00%)`
        let value = value.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
        if let (Some(name), Some(value)) = (name, value) {
            *found.entry(name.to_owned()).or_default() += value;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOW: &str = "netdev@ovs-netdev:
  lookups: hit:9647274 missed:2 lost:303924
  flows: 1
  port 0: ovs-netdev (tap)
    RX packets:7 errors:0 dropped:0 overruns:0 frame:0
    TX packets:7 errors:0 dropped:0 aborted:0 carrier:0
  port 2: p0 (dpdk: configured_rx_queues=1, mtu=1500, rx_csum_offload=false)
    RX packets:9952064 errors:0 dropped:0 overruns:? frame:?
    TX packets:3 errors:0 dropped:0 aborted:? carrier:?
    collisions:?
    RX bytes:597123840 (569.5 MiB)  TX bytes:0
  port 3: link1.sock (dpdkvhostuser: configured_rx_queues=1)
    RX packets:1 errors:0 dropped:0 overruns:? frame:?
    TX packets:9030816 errors:0 dropped:0 aborted:? carrier:?
    RX bytes:0  TX bytes:0
";

    const PMD: &str = "pmd thread numa_id 0 core_id 1:
  packets received: 10005952
  packet recirculations: 0
  avg. datapath passes per packet: 1.00
  simple match hits: 617600
  emc hits: 9042914
  smc hits: 0
  megaflow hits: 41480
  avg. subtable lookups per megaflow hit: 1.00
  miss with success upcall: 2
  miss with failed upcall: 303924
  idle cycles: 2720728231 (51.00%)
  processing cycles: 2620728231 (49.00%)
main thread:
  packets received: 55
  emc hits: 55
";

    #[test]
    fn what_the_revalidators_say_is_read_whole_or_not_at_all() {
        let text = "netdev@ovs-netdev:\n  flows         : (current 19814) (avg 19000) (max 19814) (limit 34000)\n\
                    \x20 offloaded flows : 0\n  dump duration : 112ms\n  ufid enabled : true\n\n  5: (keys 19814)\n";
        assert_eq!(upcalls(text), Some((19_814, 34_000, 112)));
        assert_eq!(upcalls(&text.replace("limit", "lmit")), None);
        assert_eq!(upcalls(""), None);
    }

    #[test]
    fn only_our_ports_are_read_in_our_order_and_all_of_them_must_be_there() {
        let port = |received, sent| PortCounts { received, sent, refused: Some(0) };
        assert_eq!(by_port(SHOW, &["link1.sock", "p0"]), Some(vec![port(1, 9_030_816), port(9_952_064, 3)]));
        assert_eq!((megaflows(SHOW), megaflows("")), (Some(1), None));
        assert_eq!(by_port(SHOW, &["p0", "p1"]), None);
        assert_eq!(by_port("", &["p0", "p1"]), None);
        let silent = SHOW.replace("    RX packets:1 ", ", could not retrieve stats (Protocol error)");
        assert_eq!(by_port(&silent, &["p0", "link1.sock"]), None);
    }

    #[test]
    fn what_threads_took_and_handed_over_is_summed_where_ports_count_nothing() {
        let thread = "pmd thread numa_id 0 core_id 1:\n
  Iterations:             13395094  (0.39 us/it)
  Rx packets:               253376  (40 Kpps, 15664 cycles/pkt)
  - EMC hits:                    0  (  0.0 %)
  Tx packets:                    7
  Tx batches:                 7918  (32.00 pkts/batch)\n";
        assert_eq!(thread_totals(&thread.repeat(2)), Some((506_752, 14)));
        assert_eq!(thread_totals("main thread:\n"), None);
    }

    #[test]
    fn what_the_forwarding_threads_counted_is_kept_by_name_without_the_main_thread() {
        let details = details(PMD);
        assert_eq!(details["emc hits"], 9_042_914);
        assert_eq!([details["upcalls"], details["failed upcalls"]], [2, 303_924]);
        assert_eq!([details["busy cycles"], details["idle cycles"]], [2_620_728_231, 2_720_728_231]);
        assert_eq!(details["packets processed"], 10_005_952);
        assert_eq!(details.len(), DETAILS.len());
    }
}
