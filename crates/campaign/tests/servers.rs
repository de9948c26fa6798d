//! A device on another machine: what a plan may say, how it sweeps, and what does not reach across.

use std::path::Path;
use weir_campaign::plan::{Known, Machine, Plan, PlanError};

fn parse(axes: &str) -> Result<Plan, PlanError> {
    let text = format!("nf = \"l2fwd\"\n{axes}\ntrace = \"flows:100\"\nsize = 64\n[mrr]\n");
    Plan::parse(&text, Path::new("plans/servers.toml"), &Known::here())
}

fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

/// Why the only point of a plan is refused on any machine.
fn refused(axes: &str) -> String {
    let refused = parse(axes).unwrap().refused();
    let [(why, 1)] = refused.as_slice() else { panic!("{axes}: {refused:?}") };
    why.clone()
}

#[test]
fn servers_sweep_with_the_lab_s_own_machine_among_them() {
    let plan =
        parse("server = [\"here\", \"netns:far\"]\nwiring = \"veth\"\ndut = [\"nf\", \"weir\"]").unwrap();
    let named: Vec<String> = plan.expand().iter().map(|point| point.placement.of(&point.dut)).collect();
    assert_eq!(named, ["nf", "weir", "nf at netns:far", "weir at netns:far"]);
    assert_eq!(plan.refused(), []);
}

#[test]
fn what_is_no_server_is_a_mistake_with_its_place() {
    for text in ["lab2", "ssh://-oProxyCommand=x", "netns:../x", "ssh://a b"] {
        let error = parse(&format!("server = \"{text}\"")).unwrap_err().to_string();
        says(&error, &["2:10", &format!("`server`: `{text}` is no server; write ssh://"), "netns:NAME"]);
    }
}

#[test]
fn what_does_not_reach_another_machine_is_refused_by_name_with_what_does() {
    for wiring in ["vhost", "memif"] {
        says(
            &refused(&format!("server = \"netns:far\"\nwiring = \"{wiring}\"")),
            &[
                "`server = \"netns:far\"`",
                &format!("`{wiring}` is memory that processes of one machine share"),
                "`veth` or `nic`",
            ],
        );
    }
    let nic = "wiring = \"nic\"\n[nic]\nlab = [\"net_af_packet0,iface=a\", \"net_af_packet1,iface=b\"]\n\
               dut = [\"net_af_packet0,iface=c\", \"net_af_packet1,iface=d\"]";
    says(
        &refused("server = \"ssh://lab2\"\nwiring = \"veth\""),
        &["joins namespaces of one machine; take `nic`"],
    );
    says(&refused("server = \"ssh://lab2\"\nwiring = \"fed\""), &["is a file of this machine"]);
    says(
        &refused("server = \"netns:far\"\nwiring = \"veth\"\ndeployment = \"vhost\"\ncores = \"shared\""),
        &["processes of `vhost` share memory of this machine; take deployment `inline`"],
    );
    says(
        &refused("server = \"netns:far\"\nwiring = \"veth\"\ndut = \"linux\""),
        &["linux is started on this machine alone"],
    );
    let text = format!(
        "nf = \"l2fwd\"\nserver = \"ssh://lab2\"\nfrequency = \"50%\"\ntrace = \"flows:100\"\nsize = 64\n{nic}\n[mrr]\n"
    );
    let plan = Plan::parse(&text, Path::new("plans/servers.toml"), &Known::here()).unwrap();
    says(&plan.refused()[0].0, &["`frequency` is about cores of this machine"]);
}

#[test]
fn a_server_that_is_not_there_is_what_this_machine_lacks_and_no_mistake() {
    let plan = parse("server = \"netns:weir-nowhere\"\nwiring = \"veth\"").unwrap();
    let lacks = plan.lacks(&Machine::below(Path::new("/nowhere"), 4));
    let [(why, 1)] = lacks.as_slice() else { panic!("{lacks:?}") };
    says(why, &["netns:weir-nowhere cannot be reached", "`ip netns add weir-nowhere`"]);
    let nobody = Machine { namespaces: false, ..Machine::below(Path::new("/nowhere"), 4) };
    says(&plan.lacks(&nobody)[0].0, &["needs root"]);
}
