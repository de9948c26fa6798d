//! Several queues a port: what a plan may say, how it sweeps, and who is told that a device, a wiring or the machine cannot.

use std::path::Path;
use weir_campaign::plan::{Known, Machine, Plan, PlanError};

fn parse(axes: &str) -> Result<Plan, PlanError> {
    let text = format!("nf = \"l2fwd\"\n{axes}\ntrace = \"flows:100\"\nsize = 64\n[mrr]\n");
    Plan::parse(&text, Path::new("plans/queues.toml"), &Known::here())
}

/// A machine of so many cores.
fn machine(cores: usize) -> Machine {
    Machine::below(Path::new("/nowhere"), cores)
}

fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

fn names(axes: &str) -> Vec<String> {
    parse(axes).unwrap().expand().iter().map(|point| point.placement.of(&point.dut)).collect()
}

/// Why the only point of a plan is refused on any machine.
fn refused(axes: &str) -> String {
    let refused = parse(axes).unwrap().refused();
    let [(why, 1)] = refused.as_slice() else { panic!("{axes}: {refused:?}") };
    why.clone()
}

#[test]
fn queues_sweep_with_the_threads_that_share_them_out_and_one_queue_has_one() {
    assert_eq!(names("queues = [1, 2, 4]"), ["nf", "nf (2 queues)", "nf (4 queues)"]);
    assert_eq!(
        names("cores = [\"own\", \"shared\", 1, 2]\nqueues = [1, 4]"),
        ["nf", "nf (4 queues)", "nf (4 queues) on one core", "nf on 2 cores", "nf (4 queues) on 2 cores"],
        "a number of cores means the same as `shared` where it is one"
    );
    assert_eq!(names("dut = [\"nf\", \"testpmd\"]\nqueues = 2"), ["nf (2 queues)", "testpmd (2 queues)"]);
}

#[test]
fn each_queue_wants_a_core_and_the_machine_is_told_what_it_lacks() {
    let lacks = parse("queues = [1, 4]").unwrap().lacks(&machine(2));
    let [(why, 1)] = lacks.as_slice() else { panic!("{lacks:?}") };
    says(
        why,
        &[
            "l2fwd in `inline`, 4 queues, needs 5 cores (1 for the tester, 4 for the device); 2 may be used here",
            "`cores = \"shared\"` has one serve all of them",
        ],
    );
    assert_eq!(parse("queues = [1, 4]").unwrap().lacks(&machine(5)), []);
    for cores in ["\"shared\"", "1"] {
        assert_eq!(parse(&format!("queues = [1, 4]\ncores = {cores}")).unwrap().lacks(&machine(2)), []);
    }
    let two = parse("queues = 4\ncores = 2").unwrap();
    assert_eq!(two.lacks(&machine(3)), []);
    assert_eq!(two.lacks(&machine(2)).len(), 1);
}

#[test]
fn numbers_that_cannot_be_are_mistakes_with_their_place() {
    for queues in [0, 9] {
        let error = parse(&format!("queues = [1, {queues}]")).unwrap_err().to_string();
        says(&error, &["2:14", &format!("`queues`: {queues} is not possible; write 1 to 8")]);
    }
    says(&parse("queues = [2, 2]").unwrap_err().to_string(), &["`queues`: 2 stands there twice"]);
}

#[test]
fn functions_of_a_chain_and_their_host_have_a_thread_for_each_queue_or_one_that_serves_all() {
    let axes = "deployment = [\"vhost\", \"vale\"]\nqueues = [1, 2]\ncores = [\"own\", \"shared\"]";
    assert_eq!(
        names(axes),
        [
            "nf in vhost on weir",
            "nf in vhost on weir, one core",
            "nf in vhost on weir, 2 queues",
            "nf in vhost on weir, 2 queues, one core",
            "nf in vale",
            "nf in vale, one core",
            "nf in vale, 2 queues",
            "nf in vale, 2 queues, one core",
        ]
    );
    let lacks = parse("deployment = \"vhost\"\nqueues = [1, 2]").unwrap().lacks(&machine(3));
    let [(why, 1)] = lacks.as_slice() else { panic!("{lacks:?}") };
    says(
        why,
        &[
            "l2fwd in `vhost`, 2 queues, needs 5 cores (1 for the tester, 4 for the device); 3 may be used here",
        ],
    );
    let hosts = "deployment = \"vhost\"\nqueues = 2\ndut = [\"nf\", \"testpmd\"]\nhost = [\"weir\", \"ovs-dpdk\", \"testpmd\", \"nf\"]";
    assert_eq!(parse(hosts).unwrap().refused(), []);
    for (host, dut, who) in
        [("bess", "nf", "bess"), ("weir", "fastclick", "fastclick"), ("weir", "nf|l2fwd", "l2fwd")]
    {
        let axes = format!(
            "deployment = \"vhost\"\nqueues = 2\nhost = \"{host}\"\ndut = \"{dut}\"\ncores = \"shared\""
        );
        says(&refused(&axes), &[&format!("`queues = 2`: {who} is started with one queue a port")]);
    }
}

#[test]
fn devices_wirings_and_deployments_that_cannot_are_refused_by_name() {
    assert_eq!(
        parse("queues = 8\ndut = [\"nf\", \"weir\", \"testpmd\", \"ovs-dpdk\"]").unwrap().refused(),
        []
    );
    for dut in ["ip_pipeline", "l3fwd", "l2fwd", "external"] {
        says(
            &refused(&format!("queues = 2\ndut = \"{dut}\"")),
            &[
                "`queues = 2`",
                &format!("{dut} is started with one queue a port; nf, weir, testpmd and ovs-dpdk take"),
            ],
        );
    }
    says(&refused("queues = 2\ndut = \"simulated\""), &["simulated computes its trials and has no ports"]);
    says(&refused("queues = 2\nwiring = \"veth\""), &["`queues = 2`", "`veth` wiring has one queue a port"]);
    says(&refused("queues = 2\nwiring = \"fed\""), &["`weir:workers=2`"]);
    for deployment in ["container", "shared", "vm"] {
        says(
            &refused(&format!("queues = 2\ndeployment = \"{deployment}\"\ncores = \"shared\"")),
            &[&format!("ports of `{deployment}` have one queue each; take `vnics` or `copies`")],
        );
    }
    let mixed = parse("queues = [1, 2]\ndut = [\"nf\", \"ip_pipeline\"]").unwrap();
    assert_eq!(mixed.refused().len(), 1, "the other points are measured");
}
