//! What is wrong is refused with the right error, in the numbers of each version.

use weir_codec::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex");
    digits.chunks(2).map(byte).collect()
}

/// A message of OpenFlow 1.3 with this body.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![4, kind];
    out.extend(((body.len() + HEADER) as u16).to_be_bytes());
    out.extend([0, 0, 0, 9]);
    out.extend(body);
    out
}

/// A flow that is added, with these fields and instructions, in hexadecimal.
fn flow(fields: &str, instructions: &str) -> Vec<u8> {
    let fields = bytes(fields);
    let mut body =
        bytes("0000000000000000 0000000000000000 00 00 0000 0000 8000 ffffffff ffffffff ffffffff 0000 0000");
    body.extend([0, 1]);
    body.extend(((fields.len() + 4) as u16).to_be_bytes());
    body.extend(&fields);
    body.resize(body.len().next_multiple_of(8), 0);
    body.extend(bytes(instructions));
    message(14, &body)
}

/// The same with these actions, done at once.
fn acting(fields: &str, actions: &str) -> Vec<u8> {
    let length = bytes(actions).len() + 8;
    flow(fields, &format!("0004 {length:04x} 00000000 {actions}"))
}

fn code(message: &[u8]) -> Code {
    match decode(message) {
        Err(error) => error.fault.code,
        Ok(message) => panic!("it was read: {message:?}"),
    }
}

#[test]
fn matches_are_refused_for_what_is_wrong_with_them() {
    const IP: &str = "80000a02 0800";
    let cases: &[(&str, Code)] = &[
        ("80001604 0a000001", Code::MatchPrerequisite),
        (&format!("80001604 0a000001 {IP}"), Code::MatchPrerequisite),
        (&format!("{IP} {IP}"), Code::MatchTwice),
        (&format!("{IP} 80001708 0a000001 ffffff00"), Code::MatchWildcards),
        (&format!("{IP} 80001402 0640"), Code::MatchLength),
        (&format!("{IP} 80001001 40"), Code::MatchValue),
        (&format!("{IP} 80001102 3030"), Code::MatchMask),
        (&format!("{IP} 80001a02 0050"), Code::MatchPrerequisite),
        (&format!("{IP} 80001401 06 80001e02 0050"), Code::MatchPrerequisite),
        ("80000e01 03", Code::MatchPrerequisite),
        ("80000c02 2000", Code::MatchValue),
        ("8000fe04 00000000", Code::MatchField),
        ("12340004 00000000", Code::MatchField),
        ("ffff5406 00000001 0000", Code::MatchField),
        ("80000a04 0800", Code::MatchLength),
    ];
    for (fields, expected) in cases {
        assert_eq!(code(&flow(fields, "")), *expected, "{fields}");
    }
    let mut standard = flow(IP, "");
    standard[8 + 41] = 0;
    assert_eq!(code(&standard), Code::MatchType);
}

#[test]
fn actions_and_instructions_are_refused_for_what_is_wrong_with_them() {
    let cases: &[(&str, Code)] = &[
        ("0000 0010 ffffffff 0000 000000000000", Code::ActionPort),
        ("0000 0008 00000001", Code::ActionLength),
        ("0000 0018 00000001 0000 000000000000 0000000000000000", Code::ActionLength),
        ("0012 000c 00000000 00000000 00000000", Code::ActionLength),
        ("0012 0000 00000000", Code::ActionLength),
        ("0012 fff8 00000000", Code::ActionLength),
        ("0063 0008 00000000", Code::ActionType),
        ("0015 0008 00000001", Code::ActionQueue),
        ("0016 0008 ffffff01", Code::ActionGroup),
        ("0011 0008 08000000", Code::ActionArgument),
        ("0013 0008 08000000", Code::ActionArgument),
        ("001a 0008 08000000", Code::ActionArgument),
        ("0019 0010 80004e02 0001 000000000000", Code::ActionFieldValue),
        ("0019 0010 8000fe02 0800 000000000000", Code::ActionFieldType),
        ("0019 0010 80001101 3f 00000000000000", Code::ActionFieldMask),
        ("0019 0010 80001001 40 00000000000000", Code::ActionFieldValue),
        ("0019 0010 80001002 0040 000000000000", Code::ActionFieldLength),
        ("0019 0010 80001001 3f 00000000000001", Code::ActionMustBeZero),
        ("ffff 0010 12345678 0000000000000000", Code::ActionExperimenter),
        ("ffff 0010 00002320 0010000000000000", Code::ActionExperimenterType),
        ("ffff 0010 00002320 0004000000000001", Code::ActionQueue),
        ("ffff 0010 ff574552 0002000000000000", Code::ActionExperimenterType),
        // A service's arguments: of no kind, a text that is none, one that is longer than the action, one with a line's end, and nine of them.
        ("ffff 0010 ff574552 0001 0001 03 000000", Code::ActionArgument),
        ("ffff 0010 ff574552 0001 0001 02 02 c3 28", Code::ActionArgument),
        ("ffff 0010 ff574552 0001 0001 02 05 6162", Code::ActionLength),
        ("ffff 0010 ff574552 0001 0001 02 02 610a", Code::ActionArgument),
        (
            "ffff 0020 ff574552 0001 0001 0200 0200 0200 0200 0200 0200 0200 0200 0200 0000",
            Code::ActionArgument,
        ),
        // `conjunction`: of one dimension, of 65, the third of two, and beside another action.
        ("ffff 0010 00002320 0022 00 01 00000007", Code::ActionConjunction),
        ("ffff 0010 00002320 0022 00 41 00000007", Code::ActionConjunction),
        ("ffff 0010 00002320 0022 02 02 00000007", Code::ActionConjunction),
        ("ffff 0010 00002320 0022 00 02 00000007 0012 0008 00000000", Code::ActionConjunction),
        // `ct` with `force` alone.
        ("ffff 0018 00002320 0023 0002 00000000 0000 ff 000000 0000", Code::ActionArgument),
        // A load of more bits than there are, of a value that does not fit, and of what is only read.
        ("ffff 0018 00002320 0007 0420 00010004 0000000000000001", Code::ActionFieldLength),
        ("ffff 0018 00002320 0007 0003 00010004 0000000000000010", Code::ActionArgument),
        ("ffff 0018 00002320 0007 0001 00013401 0000000000000002", Code::ActionFieldValue),
    ];
    for (actions, expected) in cases {
        assert_eq!(code(&acting("80000a02 0800", actions)), *expected, "{actions}");
    }
    let cases: &[(&str, Code)] = &[
        (
            "0004 0018 00000000 ffff 0010 00002320 0022 00 02 00000007 0001 0008 05000000",
            Code::ActionConjunction,
        ),
        ("0009 0008 00000000", Code::InstructionUnknown),
        ("0001 0008 05000000 0001 0008 05000000", Code::InstructionTwice),
        ("0001 0010 05000000 00000000 00000000", Code::InstructionLength),
        ("0001 0008 00000000", Code::InstructionTable),
        ("ffff 0008 12345678", Code::InstructionExperimenter),
        ("0004 0010 00000000 0012 0010", Code::InstructionLength),
    ];
    for (instructions, expected) in cases {
        assert_eq!(code(&flow("", instructions)), *expected, "{instructions}");
    }
}

#[test]
fn lists_nested_too_deep_are_refused_and_not_followed() {
    let mut actions = Vec::new();
    for _ in 0..200 {
        let length = (actions.len() + 16) as u16;
        let mut outer = bytes("ffff 0000 00002320 002a 000000000000");
        outer[2..4].copy_from_slice(&length.to_be_bytes());
        outer.extend(actions);
        actions = outer;
    }
    let hex: String = actions.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(code(&acting("", &hex)), Code::ActionTooMany);
}

#[test]
fn other_messages_are_refused_for_what_is_wrong_with_them() {
    let cases: &[(u8, &str, Code)] = &[
        (77, "", Code::BadType),
        (5, "00", Code::BadLength),
        (18, "0063 0000 00000000", Code::BadMultipart),
        (18, "ffff 0000 00000000 12345678 00000000", Code::BadExperimenter),
        (4, "12345678 00000000", Code::BadExperimenter),
        (4, "00002320 00000063", Code::BadExperimenterType),
        (4, "00002320 0000001c 0000000000000000", Code::ResumeUnsupported),
        (4, "00002320 0000001d 0000000000010005", Code::MustBeZero),
        (15, "0007 00 00 00000001", Code::GroupCommand),
        (15, "0000 09 00 00000001", Code::GroupType),
        (15, "0000 02 00 00000001", Code::GroupInvalid),
        (15, "0000 00 00 ffffff01", Code::GroupInvalid),
        (15, "0000 00 00 00000001 0011 0000 ffffffff ffffffff 00000000", Code::GroupBucket),
        (15, "0000 03 00 00000001 0010 0000 ffffffff ffffffff 00000000", Code::GroupInvalid),
        (29, "0009 0001 00000001", Code::MeterCommand),
        (29, "0000 0003 00000001", Code::MeterFlags),
        (29, "0000 0001 00000001 0003 0010 00000001 00000001 00000000", Code::MeterBand),
        (24, "00000009 00000000 0000000000000000", Code::RoleBad),
        (4, "4f4e4600 000008fc 00000001 0009 0000", Code::BundleType),
        (4, "4f4e4600 000008fc 00000001 0000 0004", Code::BundleFlags),
        (4, "4f4e4600 000008fd 00000001 0000 0000 040e", Code::BundleLength),
        (4, "4f4e4600 000008fd 00000001 0000 0000 04020008 00000009", Code::BundleUnsupported),
        (4, "4f4e4600 000008fd 00000001 0000 0000 04020008 00000008", Code::BundleXid),
    ];
    for (kind, body, expected) in cases {
        assert_eq!(code(&message(*kind, &bytes(body))), *expected, "{kind} {body}");
    }
    let add = message(4, &bytes("4f4e4600 000008fd 00000007 0000 0000 040e0008 00000009"));
    assert_eq!(decode(&add).expect_err("a flow is longer").bundle, Some(7));
    let mut other = message(2, &[]);
    other[0] = 3;
    let error = decode(&other).expect_err("1.2 is not spoken");
    assert_eq!((error.fault.code, error.version), (Code::BadVersion, Version::V10));
}

#[test]
fn errors_have_the_numbers_of_their_version_and_carry_the_beginning_of_the_message() {
    let wrong = acting("80000a02 0800", "0063 0008 00000000 0012 0008 00000000 0012 0008 00000000");
    let reply = decode(&wrong).expect_err("an action is unknown").reply();
    let mut out = Vec::new();
    encode(&reply, &mut out).expect("errors can be said");
    assert_eq!(out[..12], bytes("0401004c 00000009 0002 0000")[..]);
    assert_eq!(out[12..], wrong[..64]);

    let standard = |kind, code| ErrorNumber::Standard { kind, code };
    let experimenter = |id, kind| ErrorNumber::Experimenter { id, kind };
    let cases: &[(Code, Version, ErrorNumber)] = &[
        (Code::MatchPrerequisite, Version::V13, standard(4, 9)),
        (Code::MatchPrerequisite, Version::V10, ErrorNumber::Vendor { id: NICIRA, kind: 1, code: 260 }),
        (Code::FlowOverlap, Version::V10, standard(3, 1)),
        (Code::FlowOverlap, Version::V14, standard(5, 3)),
        (Code::BundleUnknown, Version::V13, experimenter(ONF, 2302)),
        (Code::BundleUnknown, Version::V15, standard(17, 2)),
        (Code::ActionConntrack, Version::V13, experimenter(NICIRA, 42)),
        (Code::PropertyType, Version::V13, standard(13, 2)),
        (Code::PropertyType, Version::V14, standard(14, 0)),
    ];
    for (code, version, number) in cases {
        assert_eq!(code.number(*version), *number, "{code:?} {version:?}");
    }
}

#[test]
fn within_ct_no_action_sets_anything_but_the_mark_and_the_label() {
    let ct = |inside: &str| {
        let length = 24 + bytes(inside).len();
        acting(
            "80000a02 0800",
            &format!("ffff{length:04x} 00002320 0023 0001 00000000 0000 ff 000000 0000 {inside}"),
        )
    };
    for inside in [
        "ffff0010 00002320 0002 0000 00000005",                 // set_tunnel
        "ffff0018 00002320 0009 000000000000 0000000000000005", // set_tunnel64
        "00190010 80004c08 0000000000000005",                   // set_field to the same field
    ] {
        assert_eq!(code(&ct(inside)), Code::ActionFieldValue, "{inside}");
    }
    // set_field to the mark
    assert!(decode(&ct("00190010 0001d604 00000005 00000000")).is_ok());
}

#[test]
fn two_sides_agree_on_the_greatest_version_that_both_speak() {
    let ours = Version::ALL;
    let agreed = |greatest, bitmap| Hello { greatest, bitmap }.agree(ours);
    assert_eq!(agreed(4, Some(1 << 1 | 1 << 4)), Some(Version::V13));
    assert_eq!(agreed(6, Some(1 << 2 | 1 << 3)), None);
    assert_eq!(agreed(1, None), Some(Version::V10));
    assert_eq!(agreed(3, None), None);
    assert_eq!(agreed(9, None), Some(Version::V15));
    assert_eq!(Hello { greatest: 5, bitmap: None }.agree(&[Version::V13]), Some(Version::V13));
}

#[test]
fn an_entry_that_sends_to_a_port_without_a_number_in_openflow_1_0_is_told_there_by_a_note() {
    use weir_openflow::{Action, Flow, Instructions, PortNo};
    for (port, is_said) in
        [(7, true), (0xfeff, true), (0xff00, false), (0xffff, false), (0x1_2345, false), (0xffff_feff, false)]
    {
        let instructions =
            Instructions { apply: vec![Action::Output(PortNo(port))], ..Instructions::default() };
        let stats = FlowStats {
            flow: Flow { instructions, ..Flow::default() },
            duration: std::time::Duration::ZERO,
            idle_age: None,
            hard_age: None,
            packets: 3,
            bytes: 4,
        };
        let reply = Reply::Flow(FlowForm::Standard, vec![stats]);
        let body = Body::MultipartReply(MultipartReply { more: false, reply });
        let mut bytes = Vec::new();
        encode(&Message::new(Version::V10, 1, body), &mut bytes).expect("an entry can be told");
        let told = decode(&bytes).unwrap_or_else(|error| panic!("port {port:#x}: {error}"));
        let Body::MultipartReply(MultipartReply { reply: Reply::Flow(_, flows), .. }) = told.body else {
            panic!("{told:?}")
        };
        let apply = &flows[0].flow.instructions.apply;
        assert_eq!(apply == &[Action::Output(PortNo(port))], is_said, "{apply:?}");
        assert!(is_said || matches!(apply.as_slice(), [Action::Note(_)]), "{apply:?}");
    }
}
