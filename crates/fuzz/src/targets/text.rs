//! `ovs-ofctl`'s text: what can be read is printed, and what is printed is read as the same.

use super::{seeds, text};
use crate::{Budget, Outcome, Target, refused};
use std::sync::OnceLock;
use weir_openflow::{
    Flow, FlowCommand, FlowMod, Group, Meter, Names, PortNo, TableId, match_text, parse_flow_file,
    parse_match,
};

/// A name in the text may be one of these.
pub(super) fn names() -> &'static Names {
    static NAMES: OnceLock<Names> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names = Names::default();
        for (name, number) in [("left", 1), ("right", 2), ("a b", 3), ("quote\"d,\\", 4)] {
            names.add_port(name, PortNo(number));
        }
        names.add_table("acl", TableId(3));
        names.add_service("conntrack");
        names
    })
}

const WORDS: &[&str] = &[
    "table=",
    "priority=",
    "in_port=left",
    "nw_src=10.0.0.0/8",
    "tcp",
    "ipv6_dst=::/0",
    "actions=",
    "output:",
    "ct(commit,",
    "nat(src=1.2.3.4-5.6.7.8:1-2)",
    "clone(",
    "set_field:",
    "->",
    "load:",
    "move:NXM_NX_REG0[0..7]",
    "resubmit(,",
    "note:",
    "learn(",
    "conjunction(1,1/2)",
    "group:",
    "meter:",
    "softflow:conntrack:1",
    "goto_table:",
    "write_metadata:",
    ")",
    "/",
    "0xffffffffffffffffffffffffffffffff",
    "[",
    "]",
    "..",
    "bucket=",
    "bands=",
    "type=",
    "check_pkt_larger(",
    "multipath(",
    "bundle(",
    "exec(",
    "dl_vlan=",
    "tun_id=",
    "reg15=",
    "CONTROLLER:65535",
    "eth()",
    "NORMAL",
    "dec_ttl(",
    "push:",
    "pop:",
];

/// Lines that are right, from the codec's tests.
pub(super) const FLOWS: &str = concat!(
    include_str!("../../../codec/tests/ovs/flows.txt"),
    include_str!("../../../codec/tests/ovs/flows_otherwise.txt")
);

/// A mistake is told with what was likely meant, of all words there are; a file has one a line.
const BUDGET: Budget = Budget::of(256 << 10, 4096, 4000, 400);

pub(super) const FLOW: Target = Target {
    name: "ofctl-flow",
    about: "a line of `ovs-ofctl add-flow`: read, printed, read again, also as what changes and deletes",
    budget: BUDGET,
    longest: 2048,
    words: WORDS,
    seeds: || FLOWS.lines().map(|line| line.as_bytes().to_vec()).collect(),
    run: flow,
    workers: false,
};

fn flow(input: &[u8]) -> Outcome {
    let (text, names) = (&*text(input), names());
    for command in [FlowCommand::Modify, FlowCommand::DeleteStrict] {
        if let Ok(change) = FlowMod::parse_as(command, text, names) {
            let shown = change.text(names);
            let again = FlowMod::parse(&shown, names).unwrap_or_else(|error| panic!("{shown}: {error}"));
            assert_eq!(again.text(names), shown);
        }
    }
    match Flow::parse(text, names) {
        Err(error) => refused(&error.to_string(), input),
        Ok(flow) => {
            let shown = flow.text(names);
            let again = Flow::parse(&shown, names).unwrap_or_else(|error| panic!("{shown}: {error}"));
            assert_eq!(again, flow, "{shown}");
            let kinds: String =
                shown.chars().filter(|letter| letter.is_ascii_alphabetic()).take(80).collect();
            Outcome::of(kinds)
        }
    }
}

pub(super) const FLOW_FILE: Target = Target {
    name: "ofctl-file",
    about: "a file of flows, with commands, comments and warnings: every mistake has its line",
    budget: BUDGET,
    longest: 4096,
    words: &[
        "\n",
        "add ",
        "delete_strict ",
        "modify ",
        "delete",
        "# ",
        "actions=",
        "drop",
        "table=255,",
        "\t",
    ],
    seeds: || {
        let lines: Vec<&str> = FLOWS.lines().collect();
        let mut files: Vec<Vec<u8>> = lines.chunks(8).map(|some| some.join("\n").into_bytes()).collect();
        files.push(b"# a comment\nadd in_port=1,actions=drop\n\n  delete tcp # all\nmodify_strict priority=5,actions=2".to_vec());
        files
    },
    run: |input| match parse_flow_file(&text(input), names()) {
        Err(errors) => refused(&errors.to_string(), input),
        Ok(file) => {
            let lines = input.iter().filter(|byte| **byte == b'\n').count() + 1;
            assert!(file.changes.len() <= lines && file.warnings.len() <= 64 * lines, "{} lines", lines);
            Outcome::of((file.changes.len().min(4), file.warnings.len().min(3)))
        }
    },
    workers: false,
};

pub(super) const GROUP: Target = Target {
    name: "ofctl-group",
    about: "a line of `ovs-ofctl add-group`",
    budget: BUDGET,
    longest: 2048,
    words: WORDS,
    seeds: || {
        seeds(&[
            "group_id=1,type=select,bucket=weight:3,actions=output:left,bucket=bucket_id:7,watch_port:right,actions=mod_nw_dst:1.2.3.4,output:right",
            "group_id=2,type=all,bucket=output:1,bucket=output:2",
            "group_id=3,type=ff,bucket=watch_port:1,output:1,bucket=watch_group:2,group:2",
            "group_id=4,type=indirect,bucket=ct(commit,zone=1),output:2",
        ])
    },
    run: |input| match Group::parse(&text(input), names()) {
        Err(error) => refused(&error.to_string(), input),
        Ok(group) => {
            let shown = group.text(names());
            assert_eq!(Group::parse(&shown, names()).as_ref(), Ok(&group), "{shown}");
            Outcome::of((group.kind, group.buckets.len().min(4)))
        }
    },
    workers: false,
};

pub(super) const METER: Target = Target {
    name: "ofctl-meter",
    about: "a line of `ovs-ofctl add-meter`",
    budget: BUDGET,
    longest: 1024,
    words: WORDS,
    seeds: || {
        seeds(&[
            "meter=1,kbps,burst,bands=type=drop,rate=100,burst_size=7",
            "meter=3 pktps burst bands=type=dscp_remark rate=7 burst_size=5 prec_level=2",
            "meter=2,kbps,stats,bands=type=drop,rate=1,type=drop,rate=4294967295",
        ])
    },
    run: |input| match Meter::parse(&text(input)) {
        Err(error) => refused(&error.to_string(), input),
        Ok(meter) => {
            let shown = meter.text();
            assert_eq!(Meter::parse(&shown).as_ref(), Ok(&meter), "{shown}");
            Outcome::of((meter.bands.len().min(4), meter.unit))
        }
    },
    workers: false,
};

pub(super) const MATCH: Target = Target {
    name: "ofctl-match",
    about: "what a flow entry demands: read, printed, read again, and met by its own key",
    budget: BUDGET,
    longest: 1024,
    words: WORDS,
    seeds: || {
        let matches = FLOWS.lines().filter_map(|line| line.split("actions=").next());
        matches.map(|part| part.trim_end_matches(',').as_bytes().to_vec()).collect()
    },
    run: |input| match parse_match(&text(input), names()) {
        Err(error) => refused(&error.to_string(), input),
        Ok(matching) => {
            let shown = match_text(&matching, names());
            assert_eq!(parse_match(&shown, names()).as_ref(), Ok(&matching), "{shown}");
            assert!(matching.covers(&matching), "{shown}");
            Outcome::of(shown.split(['=', ',']).step_by(2).collect::<Vec<_>>())
        }
    },
    workers: false,
};
