//! What is to be measured: plans, functions with their flow files, where they run.

use super::{seeds, shown, text};
use crate::{Budget, Outcome, Target, refused};
use std::path::Path;
use std::time::Duration;
use weir_campaign::plan::{Known, Plan, builtins};
use weir_dut::wiring::WiringKind;
use weir_methods::latency::LoadSpec;
use weir_traffic::trace::TraceName;
use weir_trial::run::advice::{DelayGoal, Question};
use weir_trial::{
    Accel, CoreUse, Deployment, FlowFile, Frequency, GraphEnd, Join, Nf, NodeUse, Offloads, Server, Split,
};
use weir_units::Nanos;

/// Nothing of this machine: a plan names files, and programs.
fn known() -> Known<'static> {
    Known {
        duts: vec!["nf", "weir", "testpmd", "external", "simulated", "ovs"],
        check_variant: |device| if device.ends_with(":odd") { Err("no variants".to_owned()) } else { Ok(()) },
        wirings: vec!["vhost", "memif", "veth", "nic", "fed"],
        mrr_only: vec!["fed"],
        is_file: |path| path.ends_with("there.pcap"),
        flows: |path| {
            FlowFile::of("site.flows", &path.display().to_string(), "actions=output:2\n".to_owned())
        },
    }
}

pub(super) const PLAN: Target = Target {
    name: "plan",
    about: "a plan: every mistake with its place, or its points, as many as one may be asked to measure",
    // A plan of few bytes may have as many points as a bundle holds: some 2 kB each.
    budget: Budget::of(64 << 20, 8192, 400_000, 512)
        .within(Duration::from_secs(2), Duration::from_micros(200)),
    longest: 6000,
    words: &[
        "nf = ",
        "dut = ",
        "trace = ",
        "size = [",
        "repeats = ",
        "[throughput]\n",
        "[latency]\n",
        "[curve]\n",
        "[soak]\n",
        "goals = [",
        "\"ndr\"",
        "wiring = ",
        "directions = [1, 2]",
        "order = [",
        "deployment = ",
        "copies = [",
        "vnics = ",
        "cores = ",
        "queues = [",
        "[graph]\n",
        "links = [",
        "against = ",
        "until = ",
        "4294967295",
        "[[",
        "]]",
        "{",
        "}",
        "64, 128, 256, ",
        "\"1s\"",
        "\"l2fwd\", ",
        "server = ",
        "guest",
        "frequency = ",
        "seed = ",
    ],
    seeds: || {
        let mut plans: Vec<Vec<u8>> = builtins().iter().map(|plan| plan.text.as_bytes().to_vec()).collect();
        for plan in [
            include_str!("../../../../plans/chains.toml"),
            include_str!("../../../../plans/copies.toml"),
            include_str!("../../../../plans/graph.toml"),
            include_str!("../../../../plans/guests.toml"),
            include_str!("../../../../plans/vnics.toml"),
            include_str!("../../../../plans/frequency.toml"),
            include_str!("../../../../plans/queues.toml"),
            include_str!("../../../../plans/bundles.toml"),
        ] {
            // Without their comments, of which nothing is to be learnt.
            let lines = plan.lines().filter(|line| !line.starts_with('#'));
            plans.push(lines.collect::<Vec<_>>().join("\n").into_bytes());
        }
        plans.extend(seeds(&[
            "nf = \"l2fwd\"\ndut = \"nf\"\ntrace = \"tr3i\"\nsize = 64\n[throughput]\ngoals = [\"ndr\"]\n",
        ]));
        plans.push(wide());
        plans.retain(|plan| plan.len() <= 6000);
        plans
    },
    run: plan,
    workers: false,
};

/// A plan of few bytes and many points.
fn wide() -> Vec<u8> {
    let sizes: Vec<String> = (64..364).map(|size| size.to_string()).collect();
    let functions: Vec<String> = (1..200).map(|routes| format!("\"l3fwd:{routes}\"")).collect();
    let text = format!(
        "nf = [{}]\ntrace = \"tr3i\"\nsize = [{}]\ndirections = [1, 2]\n[throughput]\ngoals = [\"ndr\"]\n",
        functions.join(","),
        sizes.join(",")
    );
    text.into_bytes()
}

fn plan(input: &[u8]) -> Outcome {
    match Plan::parse(&text(input), Path::new("plans/mine.toml"), &known()) {
        Err(error) => {
            let said = error.to_string();
            assert!(said.contains("mine.toml"), "{said}");
            assert!(said.len() <= (64 << 10) + 512 * input.len(), "{} bytes of mistakes", said.len());
            Outcome::said(&said)
        }
        Ok(plan) => {
            let points = plan.expand();
            assert!(points.iter().zip(0..).all(|(point, index)| point.index == index));
            let (least, most) = (plan.estimate(Nanos(1)), plan.longest(Nanos(1)));
            plan.warnings().iter().for_each(|warning| assert!(!warning.is_empty()));
            Outcome::of((points.len().min(12), least.trials.min(3), most.0 == 0))
        }
    }
}

pub(super) const FUNCTION: Target = Target {
    name: "function",
    about: "a network function by name, chains of them, and a flow table from a file",
    // What is read of a file of flows is kept for good.
    budget: Budget::of(256 << 10, 8192, 4000, 400),
    longest: 2048,
    words: &[
        "l2fwd",
        "l3fwd:",
        "firewall:",
        "flows:",
        "+",
        ">",
        "chain",
        "100000",
        "actions=output:",
        "in_port=1",
        "nat:254",
        "\n",
    ],
    seeds: || {
        let mut all = seeds(&[
            "l2fwd",
            "l3fwd:1000",
            "firewall:10",
            "pipeline-a:16",
            "nat:254",
            "l2fwd>l3fwd:7>firewall:3",
            "l2fwd+l2fwd",
            "in_port=1,actions=output:2\nin_port=2,actions=output:1\n",
            "table=0,ip,actions=ct(table=1)\ntable=1,ct_state=+new,actions=drop\n",
        ]);
        all.extend(super::text::FLOWS.lines().map(|line| format!("{line}\nactions=output:2\n").into_bytes()));
        all
    },
    run: |input| {
        let text = &*text(input);
        let named = shown::<Nf>(text);
        let file = FlowFile::of("site.flows", "site.flows", text.to_owned());
        let file = file.map(|file| file.entries().len()).map_err(|error| refused(&error.to_string(), input));
        Outcome::of((named, file.map(|entries| entries.min(5))))
    },
    workers: false,
};

pub(super) const DEVICES: Target = Target {
    name: "devices",
    about: "where functions run and by what they are reached: deployments, servers, graphs, cores, traces, loads, goals",
    budget: Budget::of(32 << 10, 512, 500, 8),
    longest: 512,
    words: &[
        "split",
        "vm",
        "container",
        "host",
        "@",
        ":",
        "/",
        "..",
        "-",
        "+",
        ",",
        "=",
        "65536",
        "%",
        "ms",
        "GHz",
        "flows:",
        "ssh",
        ">",
        ".",
    ],
    seeds: || {
        seeds(&[
            "process",
            "container",
            "vm",
            "chain",
            "user@host:22",
            "local",
            "1-3,5",
            "0",
            "2.4GHz",
            "governor",
            "gro=off,tso=on",
            "a.0>b.1",
            "in",
            "f1:0",
            "kvm",
            "tcg",
            "50%",
            "ndr",
            "1Mpps",
            "p99<100us",
            "flows:1000",
            "simple",
            "tr3i",
            "there.pcap",
            "vhost",
            "memif",
            "tse",
            "conversations:100",
            "p99.9",
            "busy",
            "shared",
            "isolated",
            "same",
            "other",
        ])
    },
    run: |input| {
        let text = &*text(input);
        let trace = TraceName::parse(text).map(|name| {
            let once = name.to_string();
            assert_eq!(
                TraceName::parse(&once).map(|again| again.to_string()).ok(),
                Some(once.clone()),
                "{text:?}"
            );
        });
        Outcome::of([
            trace.is_ok(),
            shown::<Deployment>(text),
            shown::<Split>(text),
            shown::<CoreUse>(text),
            shown::<NodeUse>(text),
            shown::<Server>(text),
            shown::<Join>(text),
            shown::<GraphEnd>(text),
            shown::<Accel>(text),
            shown::<Offloads>(text),
            shown::<Frequency>(text),
            shown::<DelayGoal>(text),
            shown::<Question>(text),
            shown::<LoadSpec>(text),
            shown::<WiringKind>(text),
        ])
    },
    workers: false,
};
