//! Bundles beside one another: what a plan may say, how it sweeps, and what a machine lacks for them.

use std::path::Path;
use weir_campaign::plan::{Known, Machine, Plan, PlanError};

fn parse(axes: &str) -> Result<Plan, PlanError> {
    let text = format!("nf = \"l3fwd:10+l2fwd\"\n{axes}\ntrace = \"tr3i\"\nsize = 64\n[mrr]\n");
    Plan::parse(&text, Path::new("plans/bundles.toml"), &Known::here())
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

fn named(plan: &Plan) -> Vec<String> {
    plan.expand().iter().map(|point| point.placement.of("nf")).collect()
}

#[test]
fn bundles_sweep_in_every_deployment_but_inline_which_is_one_device() {
    let plan = parse("deployment = [\"inline\", \"vhost\", \"vale\", \"shared\"]\nbundles = [1, 3]").unwrap();
    let expected = [
        "nf",
        "nf in vhost on weir",
        "nf in vhost on weir, 3 bundles",
        "nf in vale",
        "nf in vale, 3 bundles",
        "nf in shared",
        "nf in shared, 3 bundles",
    ];
    assert_eq!(named(&plan), expected);
    let plan = parse("deployment = \"vhost\"\ncopies = 2\nbundles = [2, 1]\ncores = \"shared\"").unwrap();
    assert_eq!(
        named(&plan),
        [
            "nf in vhost on weir, 2 copies round robin, 2 bundles, one core",
            "nf in vhost on weir, 2 copies round robin, one core"
        ]
    );
}

#[test]
fn each_bundles_processes_want_cores_and_the_machine_is_told_what_it_lacks() {
    let plan = parse("deployment = [\"vhost\", \"vale\"]\nbundles = [1, 3]").unwrap();
    let lacks = plan.lacks(&machine(4));
    assert_eq!(lacks.len(), 2, "{lacks:?}");
    says(
        &lacks[0].0,
        &["in `vhost`, 3 bundles, needs 8 cores (1 for the tester, 7 for the device); 4 may be used here"],
    );
    says(&lacks[1].0, &["in `vale`, 3 bundles, needs 7 cores (1 for the tester, 6 for the device)"]);
    assert_eq!(plan.lacks(&machine(8)), []);
    let shared = parse("deployment = \"vhost\"\ncopies = 2\nbundles = 2\ncores = \"shared\"").unwrap();
    assert_eq!(shared.lacks(&machine(2)), []);
    let fixed = parse("deployment = \"vale\"\nbundles = 2\ncores = 4").unwrap();
    assert_eq!((fixed.refused(), fixed.lacks(&machine(5))), (vec![], vec![]));
}

#[test]
fn mistakes_are_named_with_what_may_be_written() {
    says(&error("deployment = \"vale\"\nbundles = 0"), &["3:11: `bundles`: 0 is not possible; write 1 to 8"]);
    says(&error("deployment = \"vale\"\nbundles = [1, 9]"), &["3:15: `bundles`: 9 is not possible"]);
    says(&error("bundles = 2"), &["`inline` is one device with two", "take a `deployment` such as vhost"]);
    says(
        &error("deployment = [\"inline\", \"vale\"]\nbundles = [2, 3]"),
        &["add 1 to `bundles`, or leave that deployment out"],
    );
}

#[test]
fn what_has_no_ports_for_several_is_refused_by_name() {
    let plan = parse("deployment = \"vhost\"\nbundles = [1, 2]\nwiring = \"veth\"").unwrap();
    let refused = plan.refused();
    assert_eq!(refused.len(), 1, "{refused:?}");
    says(&refused[0].0, &["2 bundles take 4 ports of the tester, and the `veth` wiring has two"]);
    let many = parse("deployment = \"vhost\"\ncopies = 4\nbundles = 2").unwrap();
    says(
        &many.refused()[0].0,
        &["16 functions behind a host take 36 of its ports", "fewer copies, bundles or virtual ports"],
    );
}
