//! Several services of one group: what they share, and that they come and go together.

use crate::rig::{Rig, config, service, udp};
use serde_json::json;
use weir_datapath::Config;

/// Who comes in is asked for; who passes is counted.
const FLOWS: &str = "priority=9,sf_stage=0,ip actions=softflow:tenants.left:7\n\
                     priority=9,sf_stage=1,sf_action=tenants.left,sf_metadata=1 actions=softflow:tenants:7\n\
                     priority=9,sf_stage=1,sf_action=tenants.left,sf_metadata=0 actions=drop\n\
                     priority=9,sf_stage=2,sf_action=tenants actions=output:2";

#[test]
fn what_one_counts_the_other_knows_and_both_come_and_go_together() {
    let settings = json!({"bytes": 60 * 100, "seconds": 3_600});
    let services = [("tenants".to_owned(), service("quota", settings))].into();
    let mut rig = Rig::new(Config { services, ..config(1) });
    rig.flows(FLOWS);
    rig.sink(2);
    let frames: Vec<Vec<u8>> =
        (0..1_000).map(|at| udp(0xc612_0000 + at % 10, 0xc613_0001, (1000, 80))).collect();
    assert_eq!(frames[0].len(), 60);
    rig.source(1, &frames, ",rate=100kpps");
    rig.wait(1_000);
    let dump = rig.datapath.command("tenants.left", "dump", &json!(null)).unwrap();
    let used = dump[0]["accounts"][0]["bytes"].as_u64().unwrap();
    // A burst is asked for as a whole before it is counted.
    assert!((6_000..6_000 + 60 * 64).contains(&used), "{dump:?}");
    let refused = rig.datapath.remove_service("tenants").unwrap_err().to_string();
    assert!(refused.contains("is called by flows"), "{refused}");
    let taken = rig.datapath.add_service("tenants.left", &service("noop", json!({}))).unwrap_err();
    assert!(taken.to_string().contains("`tenants.left` exists"), "{taken}");
    let number = rig.datapath.names().service("tenants.left");
    assert!(number.is_some());
    rig.datapath
        .apply(&[weir_datapath::Change::Flow(weir_openflow::FlowMod::Delete(
            weir_openflow::Select::default(),
        ))])
        .unwrap();
    rig.datapath.remove_service("tenants").unwrap();
    assert_eq!(rig.datapath.names().service("tenants.left"), None);
    let end = rig.end();
    assert_eq!(end.sent(2).len() as u64, used / 60);
}
