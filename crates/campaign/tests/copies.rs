//! Copies of a chain side by side: what a plan may say, and how it sweeps.

use std::path::Path;
use weir_campaign::plan::{Known, Machine, Plan, PlanError};
use weir_trial::Split;

fn parse(axes: &str) -> Result<Plan, PlanError> {
    let text = format!("nf = \"l3fwd:10+l2fwd\"\n{axes}\ntrace = \"tr3i\"\nsize = 64\n[mrr]\n");
    Plan::parse(&text, Path::new("plans/copies.toml"), &Known::here())
}

/// A machine of so many cores.
fn machine(cores: usize) -> Machine {
    Machine::below(Path::new("/nowhere"), cores)
}

fn error(axes: &str) -> String {
    parse(axes).unwrap_err().to_string()
}

fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

#[test]
fn copies_and_splits_sweep_and_one_copy_is_not_split() {
    let plan =
        parse("deployment = \"vhost\"\ncopies = [1, 2, 4]\nsplit = [\"round-robin\", \"flow\"]").unwrap();
    let placed: Vec<(u32, Split)> =
        plan.expand().iter().map(|point| (point.placement.copies, point.placement.split)).collect();
    let (turns, flow) = (Split::RoundRobin, Split::Flow);
    assert_eq!(placed, [(1, turns), (2, turns), (2, flow), (4, turns), (4, flow)]);
    let plan = parse(
        "split = \"flow\"\nhost = [\"weir\", \"ovs-dpdk\"]\ndeployment = [\"vhost\", \"vale\"]\ncopies = [1, 2]",
    );
    let named: Vec<String> = plan.unwrap().expand().iter().map(|point| point.placement.of("nf")).collect();
    assert_eq!(
        named,
        [
            "nf in vhost on weir",
            "nf in vhost on weir, 2 copies by flow",
            "nf in vale",
            "nf in vhost on ovs-dpdk",
            "nf in vhost on ovs-dpdk, 2 copies by flow",
        ]
    );
}

#[test]
fn each_copy_of_each_function_wants_a_core_and_the_machine_is_told_what_it_lacks() {
    let plan = parse("deployment = \"vhost\"\ncopies = [1, 4]").unwrap();
    let lacks = plan.lacks(&machine(4));
    assert_eq!(lacks.len(), 1, "{lacks:?}");
    says(
        &lacks[0].0,
        &["in `vhost`, 4 copies, needs 10 cores (1 for the tester, 9 for the device); 4 may be used here"],
    );
    assert_eq!(plan.lacks(&machine(10)), []);
    let shared = parse("deployment = \"vhost\"\ncopies = [1, 4]\ncores = \"shared\"").unwrap();
    assert_eq!(shared.lacks(&machine(2)), []);
}

#[test]
fn what_no_host_of_the_plan_can_do_is_a_mistake_and_what_one_cannot_is_refused_at_its_points() {
    says(&error("deployment = \"vhost\"\ncopies = 0"), &["3:10: `copies`: 0 is not possible; write 1 to 8"]);
    says(
        &error("deployment = \"vhost\"\ncopies = [1, 9]"),
        &["3:14: `copies`: 9 is not possible; write 1 to 8"],
    );
    says(
        &error("deployment = \"vhost\"\ncopies = 2\nsplit = \"hash\""),
        &["unknown split `hash`", "round-robin, flow"],
    );
    says(
        &error("copies = 2"),
        &["`copies` stand behind a host", "`inline` has none; add a deployment that has one"],
    );
    says(
        &error("deployment = [\"vhost\", \"vale\"]\ncopies = [2, 4]"),
        &["`copies`: `vale` has no host and stands alone; add 1 to `copies`"],
    );
    says(
        &error("deployment = \"vhost\"\nsplit = \"flow\""),
        &["`split` says how a host splits packets among copies, and there is one; add `copies = 2`"],
    );
    says(
        &error("deployment = \"vhost\"\nhost = \"ovs-dpdk\"\ncopies = 2"),
        &["`split`: ovs-dpdk chooses by a hash of the flow and cannot split packets round robin"],
    );
    says(
        &error(
            "deployment = \"vhost\"\nhost = [\"testpmd\", \"ovs-dpdk\"]\ncopies = 2\nsplit = [\"flow\", \"round-robin\"]",
        ),
        &["testpmd forwards between pairs of ports and splits no packets", "ovs-dpdk chooses by a hash"],
    );
    let plan = parse(
        "deployment = \"vhost\"\nhost = [\"weir\", \"ovs-dpdk\"]\ncopies = [1, 2]\nsplit = [\"flow\", \"round-robin\"]",
    );
    let refused = plan.unwrap().refused();
    let [(why, 1)] = refused.as_slice() else { panic!("{refused:?}") };
    says(
        why,
        &["nf in vhost on ovs-dpdk, 2 copies round robin cannot be", "cannot split packets round robin"],
    );
}

#[test]
fn more_functions_than_a_host_has_ports_for_are_refused_by_number() {
    let plan = parse("deployment = \"vhost\"\ncopies = [7, 8]\ncores = \"shared\"").unwrap();
    let refused = plan.refused();
    let [(why, 1)] = refused.as_slice() else { panic!("{refused:?}") };
    says(why, &["8 copies round robin", "16 functions behind a host take 34 of its ports", "has 32"]);
}

#[test]
fn virtual_ports_sweep_and_are_split_like_copies() {
    let plan =
        parse("deployment = [\"vhost\", \"vale\"]\nvnics = [2, 4]\nsplit = [\"round-robin\", \"flow\"]")
            .unwrap();
    let named: Vec<String> = plan.expand().iter().map(|point| point.placement.of("nf")).collect();
    assert_eq!(
        named,
        [
            "nf in vhost on weir",
            "nf in vhost on weir, 4 vnics round robin",
            "nf in vhost on weir, 4 vnics by flow",
            "nf in vale",
        ]
    );
    says(
        &error("deployment = \"vhost\"\nvnics = 3"),
        &["3:9: `vnics`: 3 is not possible", "pairs of virtual ports; write 2, 4, 6 or 8"],
    );
    says(&error("deployment = \"vhost\"\nvnics = 10"), &["`vnics`: 10 is not possible"]);
    says(&error("vnics = 4"), &["`vnics` stand behind a host", "`inline` has none"]);
    says(
        &error("deployment = [\"vhost\", \"vale\"]\nvnics = 4"),
        &["`vnics`: `vale` has no host and stands alone; add 2 to `vnics`"],
    );
    says(
        &error("deployment = \"vhost\"\nhost = \"testpmd\"\nvnics = 4"),
        &["`split`: testpmd forwards between pairs of ports and splits no packets"],
    );
    let refused = |text: &str| parse(text).unwrap().refused();
    let weir = refused("deployment = \"vhost\"\nvnics = 4\ndut = \"weir\"");
    says(
        &weir[0].0,
        &["weir has two virtual ports as a function, and not 4; nf and testpmd forward between more"],
    );
}
