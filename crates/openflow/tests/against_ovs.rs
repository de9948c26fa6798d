//! The text against `ovs-ofctl`, which needs no switch to read flows. Skipped, and said to be, where it
//! is not installed.

use crate::lines::{Dice, Line};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;
use weir_openflow::{Flow, FlowMod, Group, Meter, Names, match_text};

/// Lines of each kind of check.
const LINES: u64 = 6000;

fn installed() -> bool {
    weir_testkit::needs!(weir_testkit::Need::Program("ovs-ofctl", "openvswitch-switch"))
}

fn ovs(arguments: &[&str]) -> (String, String) {
    let out = Command::new("ovs-ofctl").args(arguments).output().expect("ovs-ofctl starts");
    (String::from_utf8_lossy(&out.stdout).into_owned(), String::from_utf8_lossy(&out.stderr).into_owned())
}

/// Runs `ovs-ofctl` over a file of these lines.
fn over(lines: &[String], arguments: &[&str], behind: &[&str]) -> (String, String) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), lines.join("\n") + "\n").expect("it is written");
    let path = file.path().to_str().expect("a path").to_owned();
    let all: Vec<&str> =
        arguments.iter().copied().chain([path.as_str()]).chain(behind.iter().copied()).collect();
    ovs(&all)
}

/// What `ovs-ofctl` says against a file, by the number of the line it stopped at.
fn complaint(errors: &str) -> Option<(usize, String)> {
    let line = errors.lines().find(|line| line.starts_with("ovs-ofctl: ") && !line.contains("|WARN|"))?;
    let mut parts = line.splitn(4, ':');
    let number = parts.nth(2)?.trim().parse().ok()?;
    Some((number, line.to_owned()))
}

/// The messages `ovs-ofctl` would send, a line each; panics with the line if it refuses one.
fn messages(lines: &[String], version: &str) -> Vec<String> {
    let (out, errors) = over(lines, &["-O", version, "parse-flows"], &[]);
    if let Some((number, complaint)) = complaint(&errors) {
        panic!("{complaint}\n{}", lines[number - 1]);
    }
    let out: Vec<String> = out.lines().filter(|line| line.contains("FLOW_MOD")).map(str::to_owned).collect();
    assert_eq!(out.len(), lines.len(), "{errors}");
    out
}

/// What `ovs-ofctl` prints of flows it has read, by their priority, which must be different.
fn printed(lines: &[String]) -> BTreeMap<u64, String> {
    let (out, errors) = over(lines, &["diff-flows"], &["/dev/null"]);
    if let Some((number, complaint)) = complaint(&errors) {
        panic!("{complaint}\n{}", lines[number - 1]);
    }
    let priority = |line: &str| {
        let rest = &line[line.find("priority=").expect("every line has one") + 9..];
        let end = rest.find([',', ' ']).unwrap_or(rest.len());
        rest[..end].parse().expect("it is a number")
    };
    out.lines().map(|line| (priority(line), line[1..].to_owned())).collect()
}

/// A flow as `ovs-ofctl diff-flows` prints it.
fn as_printed(flow: &Flow) -> String {
    let names = Names::default();
    let mut out = String::new();
    if flow.table.0 != 0 {
        let _ = write!(out, "table={} ", flow.table);
    }
    let _ = write!(out, "priority={}", flow.priority);
    let matching = match_text(&flow.matching, &names);
    if !matching.is_empty() {
        let _ = write!(out, ",{matching}");
    }
    if flow.cookie != 0 {
        let _ = write!(out, " cookie={:#x}", flow.cookie);
    }
    for (name, value) in [("idle_timeout", flow.idle_timeout), ("hard_timeout", flow.hard_timeout)] {
        if value != 0 {
            let _ = write!(out, " {name}={value}");
        }
    }
    let _ = write!(out, " actions={}", flow.instructions.text(&flow.matching, &names));
    out
}

fn random_lines(seed: u64) -> Vec<Line> {
    let mut dice = Dice::new(seed);
    // Priority 32768 is not printed.
    (1..=LINES).map(|priority| crate::lines::line(&mut dice, priority)).collect()
}

#[test]
fn what_ovs_reads_we_read_and_print_as_it_would() {
    if !installed() {
        return;
    }
    let (mut flows, mut originals) = (Vec::new(), Vec::new());
    for line in random_lines(1) {
        let flow = Flow::parse(&line.text, &Names::default());
        let flow = flow.unwrap_or_else(|error| panic!("{error}\n{}", line.text));
        flows.push(flow);
        originals.push(line);
    }
    let texts: Vec<String> = flows.iter().map(|flow| flow.text(&Names::default())).collect();
    let said = printed(&texts);
    for ((flow, text), line) in flows.iter().zip(&texts).zip(&originals) {
        let expected = &said[&u64::from(flow.priority)];
        assert_eq!(&as_printed(flow), expected, "\nline {}\ntext {text}", line.text);
    }
    let all: Vec<String> = originals.iter().map(|line| line.text.clone()).collect();
    assert_eq!(printed(&all).len(), all.len());
}

#[test]
fn what_we_print_means_to_ovs_what_the_line_meant() {
    if !installed() {
        return;
    }
    for (old, version) in [(false, "OpenFlow13"), (true, "OpenFlow10")] {
        let lines = random_lines(2).into_iter().filter(|line| line.old == old && !line.stray);
        let originals: Vec<String> = lines.map(|line| line.text).collect();
        let names = Names::default();
        let texts: Vec<String> =
            originals.iter().map(|line| Flow::parse(line, &names).expect(line).text(&names)).collect();
        let (before, after) = (messages(&originals, version), messages(&texts, version));
        for (number, (before, after)) in before.iter().zip(&after).enumerate() {
            assert_eq!(before, after, "\nline {}\ntext {}", originals[number], texts[number]);
        }
    }
}

/// A line with one thing done to it.
fn mutated(dice: &mut Dice, line: &str) -> String {
    let at = dice.below(line.len() as u64) as usize;
    let (before, after) = line.split_at(at);
    let words = [
        "actions=drop",
        "ip",
        "tcp",
        "nw_src=1.2.3.4/33",
        "learn(table=1)",
        "output:",
        "->reg0",
        "drop",
        "0",
        "(",
    ];
    match dice.below(5) {
        0 => format!("{before}{}", &after[1..]),
        1 => format!("{before}{},{after}", dice.pick(&words)),
        2 => format!("{before}{}{after}", dice.pick(&["=", ":", ",", "/", "[", "]", "-", "9", "a", "x"])),
        3 => before.to_owned(),
        _ => {
            let end = after.find([',', ' ']).unwrap_or(after.len());
            format!("{before}{}", &after[end..])
        }
    }
}

/// What we refuse and `ovs-ofctl` takes, by what we say of it: it cuts values off, and overlooks what
/// follows a number; whatever follows `actions` up to the next `=` it takes for a part of that word.
const STRICTER: &[&str] = &[
    "has no value",
    "needs a value",
    "this is not a number",
    "this is no Ethernet address",
    "this is no IPv4 address",
    "does not fit into",
    "there are no actions",
    "no field has this name",
    "has only",
    "means nothing here",
];

#[test]
fn where_a_line_is_broken_both_refuse_it_or_we_are_stricter() {
    if !installed() {
        return;
    }
    /// Lines in a hundred on which the two may differ.
    const DIFFER: u32 = 4;
    const TRIED: u32 = 400;
    let mut dice = Dice::new(3);
    let mut differ = 0;
    for number in 0..u64::from(TRIED) {
        let line = mutated(&mut dice, &crate::lines::line(&mut Dice::new(number), number + 1).text);
        let ours = Flow::parse(&line, &Names::default());
        let (_, errors) = over(std::slice::from_ref(&line), &["diff-flows"], &["/dev/null"]);
        let theirs = errors.lines().find(|error| error.starts_with("ovs-ofctl: "));
        let explained = match (&ours, theirs) {
            (Ok(_), None) | (Err(_), Some(_)) => continue,
            (Err(error), None) => STRICTER.iter().any(|what| error.what.contains(what)),
            // Numbers of OpenFlow 1.3 that are none of 1.0; actions that only OpenFlow 1.0 lets pass
            // beside such as it has not got.
            (Ok(_), Some(error)) => error.contains("port") || error.contains("OFPBAC_MATCH_INCONSISTENT"),
        };
        assert!(explained, "ours {ours:?}\ntheirs {theirs:?}\n{line}");
        differ += 1;
    }
    assert!(differ * 100 < DIFFER * TRIED, "they differ on {differ} of {TRIED} lines");
}

/// A random list of buckets.
fn group(dice: &mut Dice, id: u64) -> String {
    let kind = dice.pick(&["all", "select", "indirect", "ff", "fast_failover"]);
    let mut out = format!("group_id={id},type={kind}");
    let buckets = if kind == "indirect" { 1 } else { dice.below(4) };
    for bucket in 0..buckets {
        out.push_str(",bucket=");
        if dice.percent(50) {
            let _ = write!(out, "bucket_id:{},", bucket * 10);
        } else {
            let _ = write!(out, "bucket_id={},", bucket * 10);
        }
        if kind == "select" && dice.percent(50) {
            let _ = write!(out, "weight:{},", dice.below(1000));
        }
        if kind.starts_with('f') {
            let _ = write!(out, "watch_port:{},", dice.pick(&["1", "77", "controller"]));
        }
        if kind.starts_with('f') && dice.percent(20) {
            let _ = write!(out, "watch_group:{},", dice.below(100));
        }
        let first =
            dice.pick(&["output:1", "drop", "set_field:1.2.3.4->ip_src", "dec_ttl", "group:7", "LOCAL"]);
        let more = dice.pick(&["", ",output:3", ",mod_nw_src:1.1.1.1,in_port", ",set_field:80->tcp_dst"]);
        let more = if first == "drop" { "" } else { more };
        let _ = write!(out, "actions={first}{more}");
    }
    out
}

#[test]
fn groups_mean_to_ovs_what_their_lines_meant() {
    if !installed() {
        return;
    }
    let mut dice = Dice::new(4);
    for id in 1..300 {
        let line = group(&mut dice, id);
        let names = Names::default();
        let ours = Group::parse(&line, &names).unwrap_or_else(|error| panic!("{error}\n{line}"));
        let text = ours.text(&names);
        assert_eq!(Group::parse(&text, &names).as_ref(), Ok(&ours), "{text}");
        let (before, errors) = ovs(&["-O", "OpenFlow15", "parse-group", &line]);
        assert!(before.contains("GROUP_MOD"), "{errors}{before}\n{line}");
        let (after, _) = ovs(&["-O", "OpenFlow15", "parse-group", &text]);
        assert_eq!(before, after, "\nline {line}\ntext {text}");
        // Open vSwitch ends what it prints with our text, but for a comma where there are no buckets.
        if !ours.buckets.is_empty() {
            assert!(after.contains(&text), "{after}\n{text}");
        }
    }
}

/// Whether `ovs-ofctl` reads a meter: it then looks for the switch, which is not there.
fn ovs_reads_meter(line: &str) -> bool {
    let (_, errors) = ovs(&["-O", "OpenFlow13", "add-meter", "no-such-switch", line]);
    errors.contains("no-such-switch is not a bridge or a socket")
}

#[test]
fn meters_are_read_where_ovs_reads_them_and_printed_so_that_it_does() {
    if !installed() {
        return;
    }
    let good = [
        "meter=1 kbps burst stats bands=type=drop rate=10 burst_size=5",
        "meter=4294901760,pktps,bands=type=drop,rate=1000",
        "meter=0x7 pktps stats band=type=dscp_remark prec_level=1 rate=7 type=drop rate=0x10",
        "meter=2,kbps,bands=type=drop,rate=10,type=dscp_remark,rate=5,prec_level=2",
    ];
    for line in good {
        let ours = Meter::parse(line).unwrap_or_else(|error| panic!("{error}\n{line}"));
        let text = ours.text();
        assert_eq!(Meter::parse(&text).as_ref(), Ok(&ours), "{text}");
        assert!(ovs_reads_meter(line), "{line}");
        assert!(ovs_reads_meter(&text), "{text}");
    }
    let bad = [
        "meter=0 kbps bands=type=drop rate=1",
        "meter=1 kbps",
        "meter=1 bands=type=drop rate=1",
        "kbps bands=type=drop rate=1",
        "meter=1 kbps bands=rate=1",
        "meter=1 kbps bands=type=drop",
        "meter=1 kbps bands=type=drop rate=1 burst_size=3",
        "meter=1 kbps burst bands=type=drop rate=1",
        "meter=1 kbps bands=type=drop rate=1 prec_level=3",
        "meter=1 kbps bands=type=dscp_remark rate=1",
        "meter=1 kbps bands=type=drip rate=1",
        "meter=1 gbps bands=type=drop rate=1",
    ];
    for line in bad {
        assert!(Meter::parse(line).is_err(), "{line}");
        assert!(!ovs_reads_meter(line), "{line}");
    }
}

/// Lines that change flows, right and wrong.
const CHANGES: &[&str] = &[
    "add tcp,actions=1",
    "add importance=3,tcp,actions=1",
    "add out_port=3,actions=1",
    "add cookie=1/1,actions=1",
    "modify tcp actions=1",
    "modify,tcp actions=1",
    "modify tcp",
    "modify priority=4,tcp actions=1",
    "modify importance=3,tcp actions=1",
    "modify cookie=1/2,actions=1",
    "modify cookie=1,send_flow_rem,actions=1",
    "modify out_port=1,actions=1",
    "modify_strict priority=3,idle_timeout=4,actions=drop",
    "modify_strict out_group=1,actions=1",
    "modify table=2,tcp actions=goto_table:2",
    "delete",
    "delete tcp",
    "delete tcp,actions=drop",
    "delete priority=3",
    "delete cookie=3",
    "delete cookie=3/-1,out_port=3,out_group=7,table=3",
    "delete send_flow_rem",
    "delete idle_timeout=3",
    "delete table=255",
    "delete out_port=none,out_group=any",
    "delete_strict",
    "delete_strict priority=3,tcp",
    "delete_strict hard_timeout=3",
    "remove tcp",
    "duration=1s, n_packets=4, n_bytes=100, idle_age=5, hard_age=7, tcp actions=1",
];

#[test]
fn changes_of_flows_are_read_where_ovs_reads_them() {
    if !installed() {
        return;
    }
    for line in CHANGES {
        // It reads the file, and then looks for the switch, which is not there.
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), format!("{line}\n")).expect("it is written");
        let path = file.path().to_str().expect("a path");
        let (_, errors) = ovs(&["--no-names", "add-flows", "no-such-switch", path]);
        // That a line needs OpenFlow 1.1 is said after it was read.
        let after = ["no-such-switch is not a bridge or a socket", "none of the usable flow formats"];
        let theirs = after.iter().any(|error| errors.contains(error));
        let ours = FlowMod::parse(line, &Names::default());
        assert_eq!(ours.is_ok(), theirs, "{line}: ours {ours:?}, theirs {errors}");
    }
}
