//! A flow table of one's own as a network function: every packet against the linear reference, on both devices
//! with OpenFlow tables; and what is said of a file that is wrong, or another one when a run goes on.

use crate::lab::{Lab, cores, told};
use serde_json::Value;
use std::fs;
use std::process::Command;
use weir_store::{Selector, Store};
use weir_testkit::Need;
use weir_trial::Nf;
use weir_trial::run::{Run, Session};

/// Flows of every kind that the reference judges: several tables, priorities, masks, edits, tags, registers.
const SITE: &str = "\
# a router and a filter
table=0,priority=900,arp,actions=drop
table=0,priority=800,udp,tp_dst=0xe000/0xe000,actions=drop
table=0,priority=700,in_port=1,ip,nw_dst=198.19.0.0/17,actions=load:1->NXM_NX_REG0[],dec_ttl,goto_table:1
table=0,priority=700,in_port=1,udp,nw_dst=198.19.128.0/17,actions=resubmit(,3),mod_tp_dst:4000,output:2
table=0,priority=700,in_port=2,ip,actions=push_vlan:0x8100,set_field:4196->vlan_vid,output:1
table=0,priority=10,actions=in_port
table=1,reg0=1,udp,tp_src=1024/0xfffe,actions=mod_nw_tos:32,mod_dl_src:02:00:00:00:01:01,output:2
table=1,priority=1,ip,actions=mod_nw_src:192.0.2.1,clone(mod_nw_dst:1.2.3.4),output:2
table=3,ip,nw_src=198.18.0.0/20,actions=mod_nw_ttl:9,mod_nw_dst:192.0.2.77
";

/// A folder with a plan over this file of flows.
fn lab(flows: &str, axes: &str) -> Lab {
    let lab = Lab::new(&format!(
        "nf = \"flows:site.flows\"\n{axes}\nsize = 64\nhuge_pages = false\nself_check = false\n\
         [mrr]\ntrials = 2\nduration = \"100ms\"\nload = \"20kpps\"\n"
    ));
    fs::write(lab.file("site.flows"), flows).unwrap();
    lab
}

fn has_open_vswitch(lab: &Lab) -> bool {
    let mut command = Command::new(lab.bare().get_program());
    let output = command.args(["dut", "list", "--json"]).output().unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = list["duts"].as_array().unwrap().iter().find(|row| row["name"] == "ovs-dpdk").unwrap();
    assert!(row["nfs"].as_array().unwrap().iter().any(|nf| nf == "flows"), "{row}");
    let cure = row["missing"].as_str().unwrap_or_default().to_owned();
    weir_testkit::needs!(Need::Found("Open vSwitch".to_owned(), row["version"].is_string(), cure))
}

fn all_right(run: &Run, points: usize) {
    assert_eq!(run.points.len(), points);
    for point in &run.points {
        assert_eq!(point.error, None, "{:?}", point.key);
        let check = point.packets.as_ref().unwrap_or_else(|| panic!("{:?} was not checked", point.key));
        assert!(check.is_right() && check.compared > 900, "{:?}: {check}", point.key);
        assert!(matches!(point.key.nf, Nf::Flows(file) if file.name() == "site.flows"), "{:?}", point.key);
    }
}

#[test]
fn the_switch_does_with_every_packet_what_the_flows_say() {
    let _cores = cores();
    let wired = "dut = \"weir\"\ntrace = [\"flows:500\", \"rules:500\"]";
    all_right(&lab(SITE, wired).measure(0), 2);
    all_right(&lab(SITE, "dut = \"weir\"\ntrace = \"rules:500\"\nwiring = \"fed\"").measure(0), 1);
}

#[test]
fn two_devices_give_the_same_verdicts_and_the_faster_one_is_named() {
    let lab = lab(SITE, "dut = \"weir\"\ntrace = \"rules:500\"");
    if !has_open_vswitch(&lab) {
        return;
    }
    let _cores = cores();
    let output = lab.bench().args(["--against", "ovs-dpdk"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["the same verdict on every packet", ": yes", "forwarded rate: "] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    all_right(&lab.stored().unwrap(), 2);
}

#[test]
fn a_mistake_in_line_40000_is_named_before_anything_is_kept() {
    let mut flows: String = (0..39_999_u32)
        .map(|n| {
            format!(
                "priority={},ip,nw_dst=10.{}.{}.{},actions=output:2\n",
                n % 9,
                n >> 16,
                n >> 8 & 255,
                n & 255
            )
        })
        .collect();
    flows.push_str("priority=5,udp,tp_dst=53,actions=outptu:2\n");
    let lab = lab(&flows, "dut = \"weir\"\ntrace = \"flows:10\"");
    let output = lab.bench().output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    let error = String::from_utf8_lossy(&output.stderr);
    for part in ["plan.toml:1:6", "site.flows: line 40000, column 34: `outptu:2`"] {
        assert!(error.contains(part), "{part}\n{error}");
    }
    assert!(!lab.file("flows").exists() && !lab.file("page.html").exists());
    assert!(lab.stored().is_none_or(|run| run.points.is_empty()));
}

#[test]
fn a_run_does_not_go_on_with_other_flows_and_a_copy_of_the_old_ones_is_kept() {
    let lab = lab(SITE, "dut = \"simulated\"\ntrace = \"flows:10\"");
    let run = lab.measure(0);
    let name = run.environment["plan.flows"].clone();
    let hash = name.strip_prefix("site.flows@").unwrap();
    assert_eq!(fs::read_to_string(lab.file("flows").join(hash)).unwrap(), SITE);
    let again =
        Command::new(lab.bare().get_program()).args(["verify", "--db"]).arg(lab.file("weir.db")).output();
    assert_eq!(again.unwrap().status.code(), Some(0));
    // As if it had been interrupted.
    let mut store = Store::open_existing(Some(&lab.file("weir.db"))).unwrap();
    let session = Session { started_ms: 1, weir: run.weir.clone(), environment: run.environment.clone() };
    let id = store.find(&Selector::Last(0)).unwrap();
    store.resume_run(id, &session).unwrap();
    drop(store);
    fs::write(lab.file("site.flows"), "actions=output:2\n").unwrap();
    let output = lab.bare().args(["--resume", "@last"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains(&name) && error.contains("flows"), "{error}");
}
