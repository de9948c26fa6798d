//! SoftFlow's pipelines as tables of flows.
//!
//! | table | matches | on a match |
//! |---|---|---|
//! | 0 | destination MAC address, a station's | table 1 |
//! | 1 | destination, longest prefix first | table 2 (`ct` first where Open vSwitch tracks); dropped where it leads nowhere |
//! | 2 | the access list, in order | what the list says of a packet that opens a connection |
//! | 3 | behind the firewall | addresses of pipelines B and C; table 4 |
//! | 4 | destination MAC address | output by the station's port |
//!
//! What no flow matches is dropped. Weir's tracker is a service that is told by its argument whether the
//! list allows a new connection (SoftFlow, section 4.1): table 2 always ends in it, and the packet comes
//! back to table 0 one stage later with its verdict in `sf_metadata`. Open vSwitch tracks before table 2
//! and asks the list only about what is of no connection. Both pass what belongs to one, and both
//! drop what the list denies.

use super::{Dialect, conditions, mac, of, prioritised};
use std::fmt::Write as _;
use weir_trial::{NAT_OCTET, Network, Nf, Station};
use weir_wire::table::Action;

/// Above all other flows of a table.
const FIRST: u16 = u16::MAX;
/// The ports of a gateway.
const PORTS: u8 = 2;

pub(super) const NETWORKS: u8 = 1;
const ACCESS: u8 = 2;
const BEHIND: u8 = 3;
const OUT: u8 = 4;

/// Forwarding by destination MAC address alone.
pub(super) fn l2(stations: &[Station]) -> String {
    stations.iter().map(|station| out(station, String::new())).collect()
}

/// Services that do nothing, then out of the port opposite.
pub(super) fn noops(noops: u32, dialect: Dialect) -> Result<String, String> {
    if noops == 0 {
        return Ok(super::forward(""));
    }
    if dialect == Dialect::OpenVSwitch {
        return Err("OpenFlow as Open vSwitch speaks it has no services".to_owned());
    }
    let mut text = String::new();
    for stage in 0..noops {
        let _ = writeln!(text, "sf_stage={stage},actions=softflow:noop:0");
    }
    text += &super::forward(&format!("sf_stage={noops},"));
    Ok(text)
}

/// Pipelines A, B and C.
pub(super) fn pipeline(nf: Nf, dialect: Dialect) -> Result<String, String> {
    match (nf, dialect) {
        (Nf::PipelineB { .. }, Dialect::OpenVSwitch) => {
            return Err("Open vSwitch has no action that encrypts a payload".to_owned());
        }
        (Nf::PipelineC { .. }, Dialect::OpenVSwitch) => {
            return Err("Open vSwitch spreads connections by their hash (select groups), not to the \
                        backend with the fewest bytes"
                .to_owned());
        }
        _ => {}
    }
    let mut text = String::new();
    if dialect == Dialect::Weir {
        text += &returning(nf);
    }
    let first_stage = if dialect == Dialect::Weir { "sf_stage=0," } else { "" };
    for station in nf.stations() {
        let _ =
            writeln!(text, "table=0,{first_stage}dl_dst={},actions=goto_table:{NETWORKS}", mac(station.mac));
    }
    nf.networks().iter().for_each(|network| text += &routed(network, dialect));
    text += &match dialect {
        Dialect::Weir => asked(nf)?,
        Dialect::OpenVSwitch => tracked(nf)?,
    };
    text += &behind(nf);
    for station in nf.stations() {
        text += &out(&station, format!("table={OUT},"));
    }
    Ok(text)
}

/// Out to a station. OpenFlow lets nothing leave by the port it came in by.
fn out(station: &Station, table: String) -> String {
    format!("{table}dl_dst={},actions=output:{}\n", mac(station.mac), of(station.port))
}

fn routed(network: &Network, dialect: Dialect) -> String {
    let next = match (network.leads, dialect) {
        (false, _) => "drop".to_owned(),
        (true, Dialect::Weir) => format!("goto_table:{ACCESS}"),
        (true, Dialect::OpenVSwitch) => format!("ct(table={ACCESS})"),
    };
    let (prefix, priority) = (network.prefix, network.prefix.bits());
    format!("table={NETWORKS},priority={priority},ip,nw_dst={prefix},actions={next}\n")
}

/// What becomes of packets that come back from a service.
fn returning(nf: Nf) -> String {
    let (next, second) = match nf {
        Nf::PipelineB { .. } => ("softflow:transcoder:0".to_owned(), Some("transcoder")),
        Nf::PipelineC { .. } => ("softflow:balancer:0".to_owned(), Some("balancer")),
        _ => (format!("goto_table:{OUT}"), None),
    };
    let tracked = format!("table=0,priority={FIRST},sf_stage=1,sf_action=conntrack");
    let mut text = format!("{tracked},sf_metadata=1,actions={next}\n{tracked},sf_metadata=0,actions=drop\n");
    if let Some(service) = second {
        let _ = writeln!(
            text,
            "table=0,priority={FIRST},sf_stage=2,sf_action={service},actions=goto_table:{BEHIND}"
        );
    }
    text
}

/// The access list in front of Weir's tracker: 1 for what may open a connection, 0 for what may not.
fn asked(nf: Nf) -> Result<String, String> {
    let rules = nf.rules();
    let mut text = String::new();
    for (priority, rule) in prioritised(&rules, FIRST)? {
        let may_open = u8::from(rule.action == Action::Allow);
        for condition in conditions(rule)? {
            let _ = writeln!(
                text,
                "table={ACCESS},priority={priority},{condition},actions=softflow:conntrack:{may_open}"
            );
        }
    }
    let _ = writeln!(text, "table={ACCESS},priority=0,actions=softflow:conntrack:0");
    Ok(text)
}

/// The access list behind Open vSwitch's tracker.
fn tracked(nf: Nf) -> Result<String, String> {
    let rules = nf.rules();
    let mut text = format!("table={ACCESS},priority={FIRST},ct_state=+trk+est,actions=goto_table:{OUT}\n");
    let _ = writeln!(text, "table={ACCESS},priority={FIRST},ct_state=+trk+inv,actions=drop");
    for (priority, rule) in prioritised(&rules, FIRST - 1)? {
        let action = match rule.action {
            Action::Allow => format!("ct(commit),goto_table:{OUT}"),
            Action::Deny => "drop".to_owned(),
        };
        for condition in conditions(rule)? {
            let _ = writeln!(text, "table={ACCESS},priority={priority},{condition},actions={action}");
        }
    }
    Ok(text)
}

/// New addresses behind the firewall; nothing in pipeline A.
fn behind(nf: Nf) -> String {
    match nf {
        Nf::PipelineB { .. } => {
            format!("table={BEHIND},ip,actions=load:{NAT_OCTET}->NXM_OF_IP_DST[24..31],goto_table:{OUT}\n")
        }
        Nf::PipelineC { .. } => {
            let to = |port: u8| {
                (0..).zip(nf.backends(1 - port)).map(move |(bucket, backend)| {
                    format!(
                        "table={BEHIND},ip,in_port={},sf_metadata={bucket},actions=mod_dl_dst:{},mod_nw_dst:{},\
                         goto_table:{OUT}\n",
                        of(port),
                        mac(backend.mac),
                        backend.address,
                    )
                })
            };
            (0..PORTS).flat_map(to).collect()
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::flows;
    use super::*;
    use std::process::{Command, Stdio};

    fn text(nf: &str, dialect: Dialect) -> String {
        flows(nf.parse().unwrap(), dialect).unwrap()
    }

    #[test]
    fn pipeline_a_asks_the_list_and_comes_back_from_the_tracker() {
        let text = text("pipeline-a", Dialect::Weir);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..2],
            [
                "table=0,priority=65535,sf_stage=1,sf_action=conntrack,sf_metadata=1,actions=goto_table:4",
                "table=0,priority=65535,sf_stage=1,sf_action=conntrack,sf_metadata=0,actions=drop",
            ]
        );
        let of = |table: u8| lines.iter().filter(|line| line.starts_with(&format!("table={table},"))).count();
        assert_eq!((of(0), of(1), of(4)), (502, 500, 500));
        assert!(of(2) > 500, "ranges of ports are several masks: {}", of(2));
        assert!(lines.contains(&"table=2,priority=0,actions=softflow:conntrack:0"));
    }

    #[test]
    fn b_and_c_chain_a_second_service_and_rewrite_behind_it() {
        let b = text("pipeline-b", Dialect::Weir);
        assert!(b.contains("sf_stage=1,sf_action=conntrack,sf_metadata=1,actions=softflow:transcoder:0\n"));
        assert!(b.contains("sf_stage=2,sf_action=transcoder,actions=goto_table:3\n"));
        assert!(b.contains("table=3,ip,actions=load:10->NXM_OF_IP_DST[24..31],goto_table:4\n"));
        let c = text("pipeline-c", Dialect::Weir);
        assert_eq!(c.lines().filter(|line| line.starts_with("table=3,")).count(), 16);
        assert!(c.contains("table=3,ip,in_port=1,sf_metadata=7,actions=mod_dl_dst:"));
        assert!(c.contains("mod_nw_dst:10.254.1.8,goto_table:4\n"));
    }

    #[test]
    fn d_is_a_service_a_stage() {
        assert_eq!(
            text("pipeline-d:2", Dialect::Weir),
            "sf_stage=0,actions=softflow:noop:0\nsf_stage=1,actions=softflow:noop:0\n\
             sf_stage=2,in_port=1,actions=output:2\nsf_stage=2,in_port=2,actions=output:1\n"
        );
        assert_eq!(text("pipeline-d:0", Dialect::OpenVSwitch), text("l2fwd", Dialect::OpenVSwitch));
    }

    #[test]
    fn open_vswitch_says_what_it_cannot_be() {
        for (nf, why) in
            [("pipeline-b", "encrypts"), ("pipeline-c", "fewest bytes"), ("pipeline-d:1", "services")]
        {
            let reason = flows(nf.parse().unwrap(), Dialect::OpenVSwitch).unwrap_err();
            assert!(reason.contains(why), "{reason}");
        }
    }

    /// Asks `ovs-ofctl` to read flows, where it is installed: it says how it understood each.
    #[test]
    fn ovs_ofctl_reads_every_flow_that_calls_no_service() {
        for nf in [
            "l2fwd",
            "l3fwd:100",
            "firewall:100",
            "l2",
            "pipeline-a",
            "pipeline-a:16",
            "pipeline-a-few",
            "pipeline-d:0",
            "nat:4",
        ] {
            for dialect in [Dialect::OpenVSwitch, Dialect::Weir] {
                let text = text(nf, dialect);
                let own = |line: &&str| line.contains("softflow") || line.contains("sf_");
                let read: String =
                    text.lines().filter(|line| !own(line)).map(|line| format!("{line}\n")).collect();
                let folder = tempfile::tempdir().unwrap();
                let file = folder.path().join("flows");
                std::fs::write(&file, &read).unwrap();
                let mut command = Command::new("ovs-ofctl");
                let command = command.arg("parse-flows").arg(&file).stdin(Stdio::null());
                let Ok(output) = command.output() else {
                    eprintln!("ovs-ofctl is not installed; nothing was asked");
                    return;
                };
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(output.status.success(), "{nf}: {}", String::from_utf8_lossy(&output.stderr));
                let understood = said.lines().filter(|line| line.contains("ADD")).count();
                assert_eq!(understood, read.lines().count(), "{nf}");
            }
        }
    }
}
