//! `ovs-ofctl` as people use it, against what it prints.

use crate::rig::{Rig, has_ofctl, wait_for};

/// A packet of Ethernet for nobody in particular, of 17 bytes.
const PACKET: &str = "02000000000102000000000208004500000000";

/// What of a dump of flows does not depend on the time.
fn flows(dump: &str) -> Vec<String> {
    let of = |line: &str| {
        let words = line.trim().split(", ").filter(|word| {
            !word.starts_with("duration") && !word.starts_with("idle_age") && !word.starts_with("hard_age")
        });
        words.collect::<Vec<_>>().join(", ")
    };
    dump.lines().filter(|line| line.contains("actions=")).map(of).collect()
}

#[test]
fn a_switch_is_shown_with_its_ports_tables_and_description_in_each_version() {
    if !has_ofctl() {
        return;
    }
    let rig = Rig::with(|settings| settings.datapath_id = Some(0x5717));
    for version in ["OpenFlow10", "OpenFlow13", "OpenFlow14", "OpenFlow15"] {
        let shown = rig.said(version, &["show"]);
        for part in ["dpid:0000000000005717", "n_tables:255, n_buffers:256", "1(p1)", "4(p4)"] {
            assert!(shown.contains(part), "{version}: {part}: {shown}");
        }
        assert!(rig.said(version, &["dump-desc"]).contains("Manufacturer: Weir"));
        assert!(rig.said(version, &["dump-ports"]).contains("4 ports"));
        assert!(rig.said(version, &["dump-tables"]).contains("active=0"));
        rig.said(version, &["probe"]);
        if version != "OpenFlow10" {
            let features = rig.said(version, &["dump-table-features"]);
            assert!(features.contains("max_entries=1048576"), "{version}: {features}");
            assert!(rig.said(version, &["meter-features"]).contains("band_types: drop dscp_remark"));
        }
        assert!(rig.said(version, &["dump-group-features"]).contains("Types:  0xf"));
        rig.said(version, &["queue-stats"]);
        assert!(rig.said(version, &["get-frags"]).contains("normal"));
    }
}

#[test]
fn flows_are_added_changed_dumped_and_deleted_in_each_version() {
    if !has_ofctl() {
        return;
    }
    let rig = Rig::new();
    for version in ["OpenFlow10", "OpenFlow13", "OpenFlow14", "OpenFlow15"] {
        let text = "priority=5,in_port=1,actions=output:2\npriority=6,in_port=2,tcp,actions=output:1,3\n\
                    cookie=0x7,priority=7,in_port=3,actions=drop\n";
        let file = rig.file("flows", text);
        for bundle in [false, true] {
            let add = if bundle { vec!["--bundle", "add-flows", &file] } else { vec!["add-flows", &file] };
            rig.said(version, &add);
            let dumped = flows(&rig.said(version, &["dump-flows"]));
            assert_eq!(
                dumped,
                [
                    "cookie=0x7, table=0, n_packets=0, n_bytes=0, priority=7,in_port=3 actions=drop",
                    "cookie=0x0, table=0, n_packets=0, n_bytes=0, priority=6,tcp,in_port=2 \
                     actions=output:1,output:3",
                    "cookie=0x0, table=0, n_packets=0, n_bytes=0, priority=5,in_port=1 actions=output:2",
                ],
                "{version}"
            );
            rig.said(version, &["mod-flows", "--strict", "priority=5,in_port=1,actions=output:4"]);
            assert!(rig.said(version, &["dump-flows"]).contains("in_port=1 actions=output:4"));
            assert!(rig.said(version, &["dump-aggregate"]).contains("flow_count=3"));
            let wanted =
                rig.file("wanted", "priority=6,in_port=2,tcp,actions=output:1,3\nin_port=4,actions=1\n");
            let replace = if bundle {
                vec!["--bundle", "replace-flows", &wanted]
            } else {
                vec!["replace-flows", &wanted]
            };
            rig.said(version, &replace);
            assert_eq!(flows(&rig.said(version, &["dump-flows"])).len(), 2, "{version}");
            rig.said(version, &["del-flows", "tcp"]);
            assert_eq!(flows(&rig.said(version, &["dump-flows"])).len(), 1, "{version}");
            rig.said(version, &["--strict", "del-flows", "in_port=4"]);
            assert_eq!(flows(&rig.said(version, &["dump-flows"])).len(), 0, "{version}");
        }
    }
}

#[test]
fn groups_and_meters_are_added_changed_dumped_and_deleted() {
    if !has_ofctl() {
        return;
    }
    let rig = Rig::new();
    for version in ["OpenFlow10", "OpenFlow13", "OpenFlow14", "OpenFlow15"] {
        rig.said(version, &["add-group", "group_id=1,type=select,bucket=output:1,bucket=output:2"]);
        rig.refused(version, &["add-group", "group_id=1,type=all,bucket=output:1"]);
        rig.refused(version, &["mod-group", "group_id=2,type=all,bucket=output:1"]);
        rig.said(version, &["mod-group", "group_id=1,type=all,bucket=output:1"]);
        assert!(rig.said(version, &["dump-groups"]).contains("group_id=1,type=all,bucket="));
        rig.said(version, &["add-group", "group_id=2,type=indirect,bucket=group:1"]);
        assert!(rig.said(version, &["dump-group-stats"]).contains("ref_count=1"));
        let looped = rig.refused(version, &["mod-group", "group_id=1,type=all,bucket=group:2"]);
        assert!(looped.contains("OFPGMFC_LOOP"), "{looped}");
        if version == "OpenFlow15" {
            let insert = "group_id=1,command_bucket_id=last,bucket=bucket_id=7,actions=output:3";
            rig.said(version, &["insert-buckets", insert]);
            assert!(rig.said(version, &["dump-groups"]).contains("bucket_id:7"));
            rig.said(version, &["remove-buckets", "group_id=1,command_bucket_id=7"]);
            assert!(!rig.said(version, &["dump-groups"]).contains("bucket_id:7"));
        }
        rig.said(version, &["del-groups"]);
        assert!(!rig.said(version, &["dump-groups"]).contains("group_id"));
        if version == "OpenFlow10" {
            continue;
        }
        rig.said(version, &["add-meter", "meter=1,kbps,burst,band=type=drop,rate=1000,burst_size=100"]);
        rig.refused(version, &["add-meter", "meter=1,pktps,band=type=drop,rate=1000"]);
        rig.said(version, &["mod-meter", "meter=1,pktps,band=type=drop,rate=1000"]);
        assert!(rig.said(version, &["dump-meters"]).contains("type=drop rate=1000"));
        rig.said(version, &["add-flow", "in_port=1,actions=meter:1,output:2"]);
        let stats = rig.said(version, &["meter-stats"]);
        assert!(stats.contains("meter:1 flow_count:1"), "{version}: {stats}");
        rig.said(version, &["del-meters"]);
        assert_eq!(flows(&rig.said(version, &["dump-flows"])).len(), 0, "flows go with their meter");
    }
}

#[test]
fn a_packet_that_is_sent_out_is_counted_at_once_by_flow_table_and_port() {
    if !has_ofctl() {
        return;
    }
    let rig = Rig::new();
    rig.said("OpenFlow13", &["add-flow", "in_port=1,actions=output:2"]);
    let direct = format!("in_port=controller packet={PACKET} actions=output:3");
    let by_table = format!("in_port=1 packet={PACKET} actions=table");
    let missed = format!("in_port=2 packet={PACKET} actions=table");
    for packet in [&direct, &by_table, &missed] {
        rig.said("OpenFlow13", &["packet-out", packet]);
    }
    let flows = rig.said("OpenFlow13", &["dump-flows"]);
    assert!(flows.contains("n_packets=1, n_bytes=19"), "{flows}");
    let tables = rig.said("OpenFlow13", &["dump-tables"]);
    assert!(tables.contains("active=1, lookup=2, matched=1"), "{tables}");
    for port in ["2", "3"] {
        assert!(rig.said("OpenFlow13", &["dump-ports", port]).contains("tx pkts=1, bytes=19"));
    }
    assert!(rig.refused("OpenFlow13", &["dump-ports", "77"]).contains("OFPBRC_BAD_PORT"));
}

#[test]
fn a_port_that_is_told_to_be_down_sends_nothing_and_says_so() {
    if !has_ofctl() {
        return;
    }
    let rig = Rig::new();
    let out = format!("in_port=controller packet={PACKET} actions=output:1");
    rig.said("OpenFlow13", &["mod-port", "1", "down"]);
    assert!(rig.said("OpenFlow13", &["show"]).contains("PORT_DOWN"));
    rig.said("OpenFlow13", &["packet-out", &out]);
    assert!(rig.said("OpenFlow13", &["dump-ports", "1"]).contains("tx pkts=0"));
    rig.said("OpenFlow13", &["mod-port", "1", "up"]);
    rig.said("OpenFlow13", &["packet-out", &out]);
    assert!(rig.said("OpenFlow13", &["dump-ports", "1"]).contains("tx pkts=1"));
}

#[test]
fn a_bundle_with_one_bad_flow_changes_nothing() {
    if !has_ofctl() {
        return;
    }
    let rig = Rig::new();
    for version in ["OpenFlow13", "OpenFlow14"] {
        let file = rig.file("flows", "in_port=1,actions=output:2\nin_port=2,actions=group:9\n");
        let told = rig.refused(version, &["--bundle", "add-flows", &file]);
        assert!(told.contains("OFPBAC_BAD_OUT_GROUP") && told.contains("MSG_FAILED"), "{version}: {told}");
        assert_eq!(flows(&rig.said(version, &["dump-flows"])).len(), 0);
    }
}

#[test]
fn a_monitor_sees_packets_for_the_controller_and_what_becomes_of_flows() {
    if !has_ofctl() {
        return;
    }
    let rig = Rig::new();
    for version in ["OpenFlow10", "OpenFlow13", "OpenFlow14"] {
        // In OpenFlow 1.4 `ovs-ofctl` asks for its own changes only, unless told otherwise.
        let watch = if version == "OpenFlow14" { "watch:!own" } else { "watch:" };
        let told = rig.folder.path().join(format!("told-{version}"));
        let file = std::fs::File::create(&told).unwrap();
        let mut child = std::process::Command::new("ovs-ofctl")
            .args(["-O", version, "monitor"])
            .arg(format!("unix:{}", rig.socket().display()))
            .args(["65535", watch])
            .env("OVS_RUNDIR", rig.folder.path())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        let said = || std::fs::read_to_string(&told).unwrap();
        // What there was when the monitor began is the answer to its request.
        wait_for("the monitor's beginning", &said, |told| told.contains("FLOW_MONITOR"));
        rig.said(version, &["add-flow", "in_port=1,send_flow_rem,actions=controller"]);
        wait_for("the flow's coming", &said, |told| told.contains("event=ADDED"));
        let packet = format!("in_port=1 packet={PACKET} actions=table");
        rig.said(version, &["packet-out", &packet]);
        wait_for("the packet", &said, |told| told.contains("PACKET_IN") && told.contains("(via action)"));
        rig.said(version, &["del-flows"]);
        wait_for("the flow's going", &said, |told| {
            told.contains("event=DELETED") && told.contains("FLOW_REMOVED")
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_table_is_told_to_make_room_for_important_entries_and_says_so() {
    if !has_ofctl() {
        return;
    }
    let rig = Rig::new();
    let told = |table: &str| {
        let described = rig.said("OpenFlow14", &["dump-table-desc"]);
        let begin = described.find(&format!("table {table}:")).unwrap_or_else(|| panic!("{described}"));
        let of_table = described[begin..].lines().take(3).map(str::trim).collect::<Vec<_>>().join(" ");
        of_table.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(told("3").contains("eviction=off"), "{}", told("3"));
    rig.said("OpenFlow14", &["mod-table", "3", "evict"]);
    assert!(told("3").contains("eviction=on") && told("4").contains("eviction=off"), "{}", told("3"));
    rig.said("OpenFlow14", &["add-flow", "table=3,importance=9,actions=drop"]);
    assert!(rig.said("OpenFlow14", &["dump-flows"]).contains("importance=9"));
    rig.said("OpenFlow14", &["mod-table", "3", "noevict"]);
    assert!(told("3").contains("eviction=off"), "{}", told("3"));
    assert!(rig.refused("OpenFlow14", &["mod-table", "3", "vacancy:20,80"]).contains("BAD_CONFIG"));
}

#[test]
fn public_pipelines_go_in_as_one_bundle_each_and_forward() {
    if !has_ofctl() {
        return;
    }
    // ICMP of neutron's machine A to B; TCP of antrea's pod A to B. Ethernet, and what of the packet is looked at.
    let ping = "020000000012020000000011 0800 4500001c00000000400166df0a0000010a000002 0800f7fd00010001";
    let syn = "02000000000b02000000000a 0800 4500002800000000400666b80a0a00020a0a0003 \
               0fa0005000000001000000005002ffff8bd90000";
    for (name, packet, in_port, out) in [("neutron-firewall", ping, "1", "2"), ("antrea", syn, "3", "4")] {
        let rig = Rig::new();
        let file = format!("{}/../../docs/examples/{name}.flows", env!("CARGO_MANIFEST_DIR"));
        rig.said("OpenFlow14", &["--bundle", "add-flows", &file]);
        let lines =
            std::fs::read_to_string(&file).unwrap().lines().filter(|line| line.starts_with("table=")).count();
        assert_eq!(flows(&rig.said("OpenFlow13", &["dump-flows"])).len(), lines, "{name}");
        let packet = packet.replace(' ', "");
        rig.said("OpenFlow13", &["packet-out", &format!("in_port={in_port} packet={packet} actions=table")]);
        for port in ["1", "2", "3", "4"] {
            let sent = if port == out { "tx pkts=1" } else { "tx pkts=0" };
            let said = rig.said("OpenFlow13", &["dump-ports", port]);
            assert!(said.contains(sent), "{name}: {said}");
        }
    }
}
