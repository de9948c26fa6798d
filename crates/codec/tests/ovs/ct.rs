//! `ct` and `nat`: bytes as `ovs-ofctl` sends them, there and back; what is malformed is told from what is
//! not supported.

use crate::support::{hex, ofctl};
use weir_codec::*;
use weir_openflow::TableId;

/// The actions of the only flow that is sent.
fn actions(text: &str) -> Vec<u8> {
    let kind = match text {
        _ if text.contains("2001:") => "ipv6",
        _ if text.contains("ftp") => "tcp",
        _ => "ip",
    };
    let session = ofctl(Version::V13, &["add-flow", "@", &format!("{kind},actions={text}")], |_| None);
    let flow = session.received.iter().find(|bytes| bytes[1] == 14);
    let flow = flow.unwrap_or_else(|| panic!("{text}: {}", session.stderr));
    let matched = 16;
    // Header, fixed part, match, instruction.
    flow[8 + 40 + matched + 8..].to_vec()
}

#[test]
fn connection_tracking_of_ovs_ofctl_is_read_and_written_back_byte_by_byte() {
    for (text, steps) in [
        ("ct(commit)", 0),
        ("ct(commit,force,zone=7,table=5)", 0),
        ("ct(zone=NXM_NX_REG3[0..15],table=9)", 0),
        ("ct(commit,alg=ftp,nat(src=10.0.0.1-10.0.0.9:1000-2000,random))", 1),
        ("ct(commit,nat(dst=[2001:db8::1]:80,hash,persistent))", 1),
        ("ct(table=3,nat)", 1),
        ("ct(commit,exec(set_field:5->ct_mark,load:0x1->NXM_NX_CT_LABEL[0..3]))", 2),
        ("ct(commit,nat(src=10.0.0.1),exec(set_field:5/0xff->ct_mark))", 2),
    ] {
        let bytes = actions(text);
        let ct = Ct::decode(&bytes, Version::V13).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
        assert_eq!(ct.steps.len(), steps, "{text}: {ct:?}");
        let mut again = Vec::new();
        ct.encode(Version::V13, &mut again).expect("what was read can be written");
        assert_eq!(hex(&again), hex(&bytes), "{text}: {ct:?}");
    }
    let bytes = actions("ct(commit,force,zone=7,table=5)");
    let ct = Ct::decode(&bytes, Version::V13).expect("it is right");
    assert_eq!((ct.commit, ct.force, ct.zone, ct.table), (true, true, CtZone::Number(7), Some(TableId(5))));
}

#[test]
fn malformed_connection_tracking_is_told_from_unsupported() {
    let bytes = actions("ct(commit,nat(src=10.0.0.1-10.0.0.9))");
    let code = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        Ct::decode(&bytes, Version::V13).expect_err("it is wrong").code
    };
    assert_eq!(code(&|bytes| bytes[11] = 2), Code::ActionArgument, "force without commit");
    assert_eq!(code(&|bytes| bytes[11] = 4), Code::ActionArgument, "an unknown flag");
    assert_eq!(code(&|bytes| bytes[24 + 13] = 3), Code::ActionArgument, "both sources and destinations");
    assert_eq!(code(&|bytes| bytes[24 + 16] = 99), Code::ActionArgument, "a range that ends first");
    assert_eq!(code(&|bytes| bytes[24 + 3] = 8), Code::ActionLength, "a step that is too short");
    assert_eq!(code(&|bytes| bytes[3] = 24), Code::ActionType, "something follows");
    assert_eq!(code(&|bytes| bytes[9] = 36), Code::ActionType, "another action");
}
