//! Changes done ahead of their time: what takes effect is what would have been done then.

use crate::rig::{Rig, config};
use std::fmt::Write;
use weir_datapath::{Change, Event, Removal};
use weir_flow::samples::Sampler;
use weir_openflow::{Flow, Names, parse_flows};

/// Rounds of changes.
const ROUNDS: u64 = 200;

/// Changes of few entries, so that they often concern the same.
fn changes(random: &mut Sampler) -> Vec<Change> {
    let mut text = String::new();
    for _ in 0..1 + random.below(12) {
        let table = random.below(2);
        let matching = match random.below(4) {
            0 => String::new(),
            1 => format!("in_port={},", random.below(3) + 1),
            2 => format!("udp,tp_dst={},", random.below(6)),
            _ => format!("udp,nw_dst=10.0.0.{}/{},", 64 * random.below(4), 26 + random.below(2)),
        };
        let rule = format!("table={table},cookie={},{matching}", random.below(3));
        let priority = random.below(3);
        let more = ["", "send_flow_rem,", "reset_counts,"][random.below(3)];
        let port = random.below(4) + 1;
        let _ = match random.below(8) {
            0 => writeln!(text, "modify {rule} actions=output:{port}"),
            1 => writeln!(text, "modify_strict priority={priority},{rule} actions=output:{port}"),
            2 => writeln!(text, "delete table={table},{matching}"),
            3 => writeln!(text, "delete_strict priority={priority},table={table},{matching}"),
            _ => writeln!(text, "{more}priority={priority},{rule} actions=output:{port}"),
        };
    }
    parse_flows(&text, &Names::default()).unwrap().into_iter().map(Change::Flow).collect()
}

/// The entries, in an order, and those that were told to have gone since the last call.
fn state(rig: &mut Rig) -> (Vec<String>, Vec<(String, Removal)>) {
    let text = |flow: &Flow| format!("{flow:?}");
    let mut there: Vec<String> =
        rig.datapath.flows().unwrap().iter().map(|stats| text(&stats.flow)).collect();
    there.sort();
    let gone = rig.datapath.tick().unwrap().into_iter().filter_map(|event| match event {
        Event::FlowRemoved(stats, why) => Some((text(&stats.flow), why)),
        _ => None,
    });
    let mut gone: Vec<_> = gone.collect();
    gone.sort_by(|one, other| one.0.cmp(&other.0));
    (there, gone)
}

#[test]
fn what_was_done_ahead_is_what_is_done_at_once_and_nothing_where_tables_changed_meanwhile() {
    let mut random = Sampler::new(weir_testkit::seed(5));
    let (mut one, mut other) = (Rig::new(config(1)), Rig::new(config(1)));
    let (mut used, mut late) = (0, 0);
    for round in 0..ROUNDS {
        let wanted = changes(&mut random);
        let mut ahead = other.datapath.ahead().expect("no table evicts");
        assert!(wanted.iter().all(|change| ahead.change(change.clone())), "none of these is refused");
        let between = if random.below(4) == 0 { changes(&mut random) } else { Vec::new() };
        for rig in [&mut one, &mut other] {
            rig.datapath.apply_all(between.clone(), false).unwrap();
        }
        let before = state(&mut other);
        assert_eq!(state(&mut one), before, "round {round}");
        one.datapath.apply_all(wanted.clone(), false).unwrap();
        if other.datapath.apply_ahead(ahead).unwrap() {
            used += 1;
        } else {
            // Somebody else was faster.
            late += 1;
            assert!(!between.is_empty(), "round {round}: nobody changed anything");
            assert_eq!(state(&mut other), (before.0, Vec::new()), "round {round}: nothing was done");
            other.datapath.apply_all(wanted.clone(), false).unwrap();
        }
        assert_eq!(state(&mut one), state(&mut other), "round {round}: {wanted:#?}");
    }
    assert!(used > ROUNDS / 2 && late > ROUNDS / 8, "{used} took effect, {late} came too late");
}

#[test]
fn what_cannot_be_done_ahead_says_so() {
    let mut rig = Rig::new(config(1));
    let of = |text: &str| Change::Flow(parse_flows(text, &Names::default()).unwrap().remove(0));
    let mut ahead = rig.datapath.ahead().unwrap();
    assert!(!ahead.change(of("actions=group:7")), "there is no group 7");
    let mut ahead = rig.datapath.ahead().unwrap();
    assert!(!ahead.change(of("modify reset_counts,actions=output:2")), "entries count until then");
    let mut ahead = rig.datapath.ahead().unwrap();
    assert!(!ahead.change(Change::DeleteGroup(None)), "groups wait for their time");
    let evict = Change::SetEviction(None, Some(weir_datapath::Evict::default()));
    rig.datapath.apply(&[evict]).unwrap();
    assert!(rig.datapath.ahead().is_none(), "what goes for others is not known ahead");
}
