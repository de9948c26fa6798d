//! Many flows at once, as many as `WEIR_FLOWS` says.

use crate::controller::{Controller, flow_mod};
use crate::rig::{Rig, has_ofctl};
use std::fmt::Write as _;
use std::time::Instant;
use weir_codec::{Body, BundleAdd, BundleControl, BundleFlags, BundleStep, Message, Reply, Request, Version};

/// Flows where nobody says how many: enough to be gathered, and to grow through every structure of a table.
const FLOWS: u32 = 10_000;

fn flows() -> (u32, String) {
    let asked = std::env::var("WEIR_FLOWS").ok();
    let count = asked.map_or(FLOWS, |count| count.parse().expect("WEIR_FLOWS is a number"));
    let mut text = String::new();
    for number in 0..count {
        let [_, b, c, d] = number.to_be_bytes();
        writeln!(text, "priority=10,tcp,nw_dst=10.{b}.{c}.{d},tp_dst={},actions=output:2", number % 60_000)
            .unwrap();
    }
    (count, text)
}

#[test]
fn flows_by_the_thousand_are_all_there_bundled_or_not() {
    if !has_ofctl() {
        return;
    }
    let rig = Rig::new();
    let (count, text) = flows();
    let file = rig.file("flows", &text);
    for bundle in [true, false] {
        let began = Instant::now();
        let words = if bundle { vec!["--bundle", "add-flows", &file] } else { vec!["add-flows", &file] };
        rig.said("OpenFlow13", &words);
        println!("{count} flows, bundled {bundle}: {:?}", began.elapsed());
        let sum = rig.said("OpenFlow13", &["dump-aggregate"]);
        assert!(sum.contains(&format!("flow_count={count}")), "{sum}");
        let began = Instant::now();
        let dumped = rig.said("OpenFlow13", &["dump-flows"]);
        println!("dumped in {:?}", began.elapsed());
        assert_eq!(dumped.matches("actions=").count(), count as usize);
        let began = Instant::now();
        rig.said("OpenFlow13", &["del-flows"]);
        println!("deleted in {:?}", began.elapsed());
        assert!(rig.said("OpenFlow13", &["dump-aggregate"]).contains("flow_count=0"));
    }
}

#[test]
fn flow_mods_in_a_row_and_in_a_bundle_are_all_done_when_the_answer_comes() {
    let rig = Rig::new();
    let mut controller = Controller::new(&rig, Version::V13);
    let (count, text) = flows();
    let sum = |controller: &mut Controller| match controller.multipart(Request::Aggregate(Default::default()))
    {
        Reply::Aggregate(_, sum) => sum.flows,
        other => panic!("{other:?}"),
    };
    let bodies: Vec<Body> = text.lines().map(flow_mod).collect();
    let began = Instant::now();
    controller.say_all(bodies.iter().cloned());
    assert_eq!(controller.until_done(), []);
    println!("{count} flow-mods in a row: {:?}", began.elapsed());
    assert_eq!(sum(&mut controller), count);
    let began = Instant::now();
    let flags = BundleFlags { atomic: true, ordered: true };
    let control = |step| Body::BundleControl(BundleControl { id: 1, step, flags });
    controller.ask(control(BundleStep::OpenRequest));
    let first = controller.next_xid();
    let inside = bodies.into_iter().zip(first..).map(|(body, xid)| {
        let message = Box::new(Message::new(Version::V13, xid, body));
        Body::BundleAdd(BundleAdd { id: 1, flags, message })
    });
    controller.say_all(inside);
    assert_eq!(controller.until_done(), []);
    println!("gathered: {:?}", began.elapsed());
    let began = Instant::now();
    let done = controller.ask(control(BundleStep::CommitRequest));
    assert!(matches!(done, Body::BundleControl(said) if said.step == BundleStep::CommitReply), "{done:?}");
    println!("committed: {:?}", began.elapsed());
    assert_eq!(sum(&mut controller), count);
}
