//! `ct` and `nat`: bytes as `ovs-ofctl` sends them, there and back; what is malformed is refused by its code.

use crate::support::{hex, ofctl};
use weir_codec::*;
use weir_openflow::{Action, Ct, CtZone, TableId};

/// Where actions start in a flow-mod with a match of 16 bytes: header, fixed part, match, instruction.
const ACTIONS: usize = 8 + 40 + 16 + 8;

/// The only flow that is sent.
fn flow(text: &str) -> Vec<u8> {
    let kind = match text {
        _ if text.contains("2001:") => "ipv6",
        _ if text.contains("ftp") => "tcp",
        _ => "ip",
    };
    let session = ofctl(Version::V13, &["add-flow", "@", &format!("{kind},actions={text}")], |_| None);
    let flow = session.received.iter().find(|bytes| bytes[1] == 14);
    flow.unwrap_or_else(|| panic!("{text}: {}", session.stderr)).clone()
}

fn ct(message: &Message) -> &Ct {
    let Body::FlowMod(flow) = &message.body else { panic!("{message:?}") };
    match flow.instructions.apply.as_slice() {
        [Action::Ct(ct)] => ct,
        other => panic!("{other:?}"),
    }
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
        // Which `ovs-ofctl` sends as `nat(src)`.
        ("ct(commit,nat(src=0.0.0.0))", 1),
        ("ct(commit,exec(set_field:5->ct_mark,load:0x1->NXM_NX_CT_LABEL[0..3]))", 2),
        ("ct(commit,exec(move:NXM_NX_REG0[]->NXM_NX_CT_MARK[]))", 1),
        ("ct(commit,nat(src=10.0.0.1),exec(set_field:5/0xff->ct_mark))", 2),
    ] {
        let bytes = flow(text);
        let message = decode(&bytes).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(ct(&message).steps.len(), steps, "{text}: {message:?}");
        let mut again = Vec::new();
        encode(&message, &mut again).expect("what was read can be written");
        assert_eq!(hex(&again), hex(&bytes), "{text}: {message:?}");
    }
    let message = decode(&flow("ct(commit,force,zone=7,table=5)")).expect("it is right");
    let Ct { commit, force, zone, table, .. } = *ct(&message);
    assert_eq!((commit, force, zone, table), (true, true, CtZone::Number(7), Some(TableId(5))));
}

#[test]
fn malformed_connection_tracking_is_refused_by_its_code() {
    let bytes = flow("ct(commit,nat(src=10.0.0.1-10.0.0.9))");
    let code = |change: &dyn Fn(&mut [u8])| {
        let mut bytes = bytes.clone();
        change(&mut bytes[ACTIONS..]);
        decode(&bytes).expect_err("it is wrong").fault.code
    };
    assert_eq!(code(&|bytes| bytes[11] = 2), Code::ActionArgument, "force without commit");
    assert_eq!(code(&|bytes| bytes[11] = 0), Code::ActionArgument, "a translation without commit");
    assert_eq!(code(&|bytes| bytes[11] = 4), Code::ActionArgument, "an unknown flag");
    assert_eq!(code(&|bytes| bytes[23] = 7), Code::ActionArgument, "an unknown helper");
    assert_eq!(code(&|bytes| bytes[24 + 13] = 3), Code::ActionArgument, "both sources and destinations");
    assert_eq!(code(&|bytes| bytes[24 + 16] = 99), Code::ActionArgument, "a range that ends first");
    assert_eq!(code(&|bytes| bytes[24 + 3] = 8), Code::ActionLength, "a step that is too short");
    assert_eq!(code(&|bytes| bytes[9] = 36), Code::ActionExperimenterType, "`nat` outside of `ct`");
}
