//! Graphs of devices, and chains whose functions have devices of their own: what a plan may say, and what it is told.

use std::path::Path;
use weir_campaign::plan::{Known, Machine, Plan, PlanError};

/// Behind a switch a filter and a program that only forwards.
const HOSTED: &str = "[[device]]\nname = \"sw\"\ndut = \"weir\"\n\
     [[device]]\nname = \"fw\"\nnf = \"firewall:10\"\n\
     [[device]]\nname = \"last\"\ndut = \"testpmd\"\nnf = \"l2fwd\"\n\
     [[link]]\nbetween = [\"tester.0\", \"sw.0\"]\n[[link]]\nbetween = [\"sw.1\", \"fw.0\"]\n\
     [[link]]\nbetween = [\"fw.1\", \"last.0\"]\n[[link]]\nbetween = [\"last.1\", \"sw.2\"]\n\
     [[link]]\nbetween = [\"sw.3\", \"tester.1\"]\n";

fn parse(axes: &str, tables: &str) -> Result<Plan, PlanError> {
    let text = format!("{axes}\ntrace = \"flows:100\"\nsize = 64\n[mrr]\n{tables}");
    Plan::parse(&text, Path::new("plans/graph.toml"), &Known::here())
}

fn error(axes: &str, tables: &str) -> String {
    parse(axes, tables).unwrap_err().to_string()
}

fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

fn names(plan: &Plan) -> Vec<String> {
    plan.expand().iter().map(|point| format!("{} on {}", point.nf, point.placement.of(&point.dut))).collect()
}

#[test]
fn a_graph_is_a_point_with_all_other_axes_and_a_core_for_each_device() {
    let plan = parse("cores = [\"own\", \"shared\"]\ndirections = [1, 2]", HOSTED).unwrap();
    let graph = "firewall:10+l2fwd on nf|testpmd in graph sw-fw-last-sw";
    assert_eq!(names(&plan), [graph, graph, &format!("{graph}, one core"), &format!("{graph}, one core")]);
    assert_eq!(plan.refused(), []);
    let (few, enough) = (Machine::below(Path::new("/no"), 3), Machine::below(Path::new("/no"), 4));
    let lacks = plan.lacks(&few);
    let [(why, 2)] = lacks.as_slice() else { panic!("{lacks:?}") };
    says(why, &["in `graph` needs 4 cores (1 for the tester, 3 for the device); 3 may be used here"]);
    assert_eq!(plan.lacks(&enough), []);
    assert_eq!(parse("deployment = \"graph\"", HOSTED).unwrap().expand().len(), 1);
}

#[test]
fn two_devices_side_by_side_are_a_graph_with_two_pairs_of_the_testers_ports() {
    let tables = "[[device]]\nname = \"a\"\nnf = \"l2fwd\"\n[[device]]\nname = \"b\"\ndut = \"testpmd\"\nnf = \"l2fwd\"\n\
         [[link]]\nbetween = [\"tester.0\", \"a.0\"]\n[[link]]\nbetween = [\"a.1\", \"tester.1\"]\n\
         [[link]]\nbetween = [\"tester.2\", \"b.0\"]\n[[link]]\nbetween = [\"tester.3\", \"b.1\"]\n";
    let plan = parse("", tables).unwrap();
    assert_eq!(names(&plan), ["l2fwd on nf in graph a and b"]);
    assert_eq!((plan.expand()[0].placement.bundles, plan.refused()), (2, vec![]));
    let other = parse("", &tables.replacen("nf = \"l2fwd\"", "nf = \"l3fwd:10\"", 1)).unwrap().refused();
    says(
        &other[0].0,
        &["behind tester.0 stands l3fwd:10, behind tester.2 l2fwd", "measure them in two plans"],
    );
}

#[test]
fn mistakes_of_a_graph_are_told_at_their_tables_and_all_at_once() {
    // The tables begin in line 5.
    for (from, to, parts) in [
        (
            "\"sw.3\"",
            "\"sv.3\"",
            &["23:1", "[[link]]: sv.3: there is no device `sv`; there are sw, fw, last, and tester"][..],
        ),
        ("\"sw.2\"", "\"sw.1\"", &["21:1", "[[link]]: sw.1 has a link already"]),
        ("\"last.0\"", "\"last.5\"", &["19:1", "[[link]]: last.5: last is l2fwd, which has ports 0 and 1"]),
        ("\"tester.1\"", "\"tester.5\"", &["5:1", "tester.1, tester.2, tester.3, tester.4 are not linked"]),
        ("name = \"fw\"", "name = \"sw\"", &["8:1", "[[device]]: two devices are called `sw`"]),
        ("\"fw.1\", \"last.0\"", "\"fw.1\"", &["20:11", "a link joins two ports"]),
        ("\"fw.1\"", "\"fw\"", &["20:12", "`fw` is no port; write DEVICE.PORT"]),
        (
            "dut = \"testpmd\"",
            "dut = \"testpmp\"",
            &["13:7", "unknown dut `testpmp`", "did you mean `testpmd`?"],
        ),
        (
            "nf = \"l2fwd\"",
            "nf = \"l2fwd+l2fwd\"",
            &["14:6", "are several functions; write a [[device]] for each"],
        ),
        ("nf = \"l2fwd\"", "nf = \"l2fvd\"", &["14:6", "unknown nf `l2fvd`"]),
        ("name = \"fw\"\n", "", &["the key `name` is missing"]),
        ("nf = \"l2fwd\"", "nfs = \"l2fwd\"", &["14:1", "unknown key `nfs`", "did you mean `nf`?"]),
        (
            "between = [\"fw.1\"",
            "by = \"mamif\"\nbetween = [\"fw.1\"",
            &["20:6", "unknown by `mamif`", "did you mean `memif`?"],
        ),
        ("between = [\"tester.0\"", "by = \"memif\"\nbetween = [\"tester.0\"", &["says the plan's `wiring`"]),
    ] {
        says(&error("", &HOSTED.replacen(from, to, 1)), parts);
    }
    let both = HOSTED.replacen("\"sw.3\"", "\"sv.3\"", 1).replacen("\"sw.2\"", "\"sx.2\"", 1);
    says(&error("", &both), &["`sv`", "`sx`"]);
    let circle = "[[device]]\nname = \"c\"\ndut = \"weir\"\n[[device]]\nname = \"d\"\ndut = \"weir\"\n\
         [[link]]\nbetween = [\"c.0\", \"d.0\"]\n[[link]]\nbetween = [\"c.1\", \"d.1\"]\n";
    says(
        &error("", &format!("{HOSTED}{circle}")),
        &["c.0-c.1, d.0-d.1: a cycle, which no port of the tester leads into"],
    );
}

#[test]
fn keys_that_a_graph_says_itself_are_mistakes_beside_it() {
    for key in [
        "nf = \"l2fwd\"",
        "dut = \"nf\"",
        "queues = 2",
        "host = \"weir\"",
        "deployment = \"vale\"",
        "length = 1",
    ] {
        let name = key.split(' ').next().unwrap();
        says(
            &error(key, HOSTED),
            &["1:", &format!("`{name}`: the tables [[device]] and [[link]] say what stands")],
        );
    }
    says(
        &error("nf = \"l2fwd\"\ndeployment = \"graph\"", ""),
        &["`graph` is what tables [[device]] and [[link]] say"],
    );
    let link = "[[link]]\nbetween = [\"tester.0\", \"a.0\"]\n";
    says(&error("nf = \"l2fwd\"", link), &["[[link]] joins devices of a graph, and there are none"]);
}

#[test]
fn what_no_rig_can_be_is_refused_by_the_name_of_the_device() {
    let refused = |axes: &str, tables: &str| parse(axes, tables).unwrap().refused().remove(0).0;
    says(&refused("wiring = \"veth\"", HOSTED), &["a graph meets the tester over `vhost` or `memif`"]);
    let filter = HOSTED.replacen("nf = \"l2fwd\"", "nf = \"firewall:5\"", 1);
    says(&refused("", &filter), &["last: testpmd cannot be firewall:5: testpmd has no filter"]);
    let ovs = HOSTED.replacen("\"testpmd\"", "\"ovs-dpdk\"", 1);
    says(
        &refused("", &ovs),
        &["last: ovs-dpdk cannot be reached by `memif`, of which its link to fw.1 is made"],
    );
    assert_eq!(
        parse("", &ovs.replacen("\"last.0\"]", "\"last.0\"]\nby = \"vhost\"", 1)).unwrap().refused(),
        []
    );
    let host = HOSTED.replacen("\"weir\"", "\"l3fwd\"", 1);
    says(&refused("", &host), &["sw: l3fwd carries no packets for others", "or give it an `nf`"]);
}

#[test]
fn functions_of_a_chain_have_devices_of_their_own_and_the_others_the_plans() {
    let chain = "chain = [\"firewall:10\", { nf = \"l3fwd:10\", dut = \"weir\" }, { nf = \"l2fwd\", dut = \"testpmd\" }]\n";
    let plan =
        parse(&format!("{chain}deployment = \"vale\"\nlength = [1, 2, 3]\ndut = [\"nf\", \"weir\"]"), "")
            .unwrap();
    assert_eq!(
        names(&plan),
        [
            "firewall:10 on nf in vale",
            "firewall:10 on weir in vale",
            "firewall:10+l3fwd:10 on nf|weir in vale",
            "firewall:10+l3fwd:10 on weir in vale",
            "firewall:10+l3fwd:10+l2fwd on nf|weir|testpmd in vale",
            "firewall:10+l3fwd:10+l2fwd on weir|weir|testpmd in vale",
        ]
    );
    let inline = parse(chain, "").unwrap().refused();
    says(&inline[0].0, &["nf|weir|testpmd are devices of a chain's functions; add a `deployment`"]);
    for (axes, parts) in [
        ("chain = [{ nf = \"l2fwd\", dut = \"nv\" }]", &["1:10", "unknown chain `nv`"][..]),
        ("chain = [\"l2fwd\", { nf = \"l2fvd\" }]", &["1:19", "unknown chain `l2fvd`"]),
        ("chain = [{ dut = \"nf\" }]", &["the key `nf` is missing"]),
        ("chain = [\"l2fwd\", { nf = \"l2fwd\", dut = \"a|b\" }]", &["a|b are several devices"]),
        (
            "chain = [{ nf = \"l2fwd\", dut = \"nf\" }]\ndut = \"weir\"",
            &["2:7", "`dut` is nobody's; leave it out"],
        ),
        (
            "chain = [\"l2fwd\", { nf = \"l2fwd\", dut = \"nf\" }]\ndut = \"nf|nf\"",
            &["write them in one place"],
        ),
        ("chain = [\"l2fwd\", 3]", &["chain"]),
    ] {
        says(&error(axes, ""), parts);
    }
}
