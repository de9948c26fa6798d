//! Many flows at once, as many as `WEIR_FLOWS` says.

use crate::rig::{Rig, has_ofctl};
use std::fmt::Write as _;
use std::time::Instant;

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
