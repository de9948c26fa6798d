//! Plans: what is understood, and what is said about what is not.

use std::path::Path;
use weir_campaign::plan::{
    self, CurvePlan, HugePages, Known, Machine, Plan, PlanError, Server, ThroughputPlan, VhostEnd,
};
use weir_dut::wiring::{Side, VethDriver};
use weir_methods::back_to_back::BackToBack;
use weir_methods::frame_loss::FrameLoss;
use weir_methods::mlrsearch::{Goal, SearchConfig};
use weir_methods::soak::Soak;
use weir_traffic::trace::Sizes;
use weir_trial::{FlowFile, Nf};
use weir_units::{Nanos, Pps, Ratio};

const SECOND: u64 = Nanos::PER_SECOND;

fn parse(text: &str) -> Result<Plan, PlanError> {
    let known = Known {
        duts: vec!["nf", "weir", "testpmd", "external", "simulated"],
        check_variant: |device| match device {
            "nf:odd" => Err("nf has no variants".to_owned()),
            _ => Ok(()),
        },
        wirings: vec!["vhost", "memif", "veth", "nic", "fed"],
        mrr_only: vec!["fed"],
        is_file: |path| path == Path::new("plans/there.pcap"),
        flows: |path| match path.to_str() {
            Some("plans/site.flows") => {
                FlowFile::of("site.flows", "plans/site.flows", "actions=output:2\n".into())
            }
            Some(path) => FlowFile::of("odd", path, "actions=output:2\nudp,actions=ouput:2\n".into()),
            None => unreachable!(),
        },
    };
    Plan::parse(text, Path::new("plans/mine.toml"), &known)
}

/// A plan that is right, with further lines at its top level and at its end.
fn with(top: &str, end: &str) -> String {
    let usual = |key: &str, line: &str| {
        if top.contains(&format!("{key} =")) { String::new() } else { line.to_owned() }
    };
    let axes = [("nf", "nf = \"l2fwd\"\n"), ("trace", "trace = \"tr3i\"\n"), ("size", "size = 64\n")];
    let axes: String = axes.iter().map(|(key, line)| usual(key, line)).collect();
    let method = if end.contains("[throughput]") { "" } else { "[throughput]\ngoals = [\"ndr\"]\n" };
    format!("{top}\n{axes}{method}{end}\n")
}

/// A machine of files, whose second core has cpufreq.
fn machine() -> (tempfile::TempDir, Machine) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("sys/devices/system/cpu/cpu1/cpufreq");
    std::fs::create_dir_all(&folder).unwrap();
    for (file, value) in [
        ("cpuinfo_min_freq", "1000000\n"),
        ("cpuinfo_max_freq", "3000000\n"),
        ("scaling_min_freq", "1000000\n"),
        ("scaling_max_freq", "3000000\n"),
    ] {
        std::fs::write(folder.join(file), value).unwrap();
    }
    let machine = Machine::below(root.path(), 2);
    (root, machine)
}

#[test]
fn frequencies_sweep_like_all_others_and_what_a_machine_lacks_is_named() {
    let plan = parse(&with("frequency = [\"25%\", \"100%\"]\ndut = [\"nf\", \"weir\"]", "")).unwrap();
    let names: Vec<String> = plan.expand().iter().map(|point| point.placement.of(&point.dut)).collect();
    assert_eq!(names, ["nf at 25%", "weir at 25%", "nf at 100%", "weir at 100%"]);
    let (_root, machine) = machine();
    assert_eq!(plan.lacks(&machine), []);
    let without = Machine { real_time: false, ..machine.clone() };
    let [(why, points)] = &plan.lacks(&without)[..] else { panic!() };
    assert!(why.contains("held back to 25%") && why.contains("CAP_SYS_NICE"), "{why}");
    assert_eq!(*points, 2);

    let clocks = parse(&with("frequency = [\"1.5GHz\", \"4GHz\"]", "")).unwrap();
    let [(why, 1)] = &clocks.lacks(&machine)[..] else { panic!("{:?}", clocks.lacks(&machine)) };
    assert!(why.contains("core 1 runs at 1000 to 3000 MHz, not at 4GHz"), "{why}");
    let bare = tempfile::tempdir().unwrap();
    let [(why, 1), (_, 1)] = &clocks.lacks(&Machine::below(bare.path(), 2))[..] else { panic!() };
    assert!(
        why.contains("1.5GHz needs cpufreq, and core 1 has none here") && why.contains("\"50%\""),
        "{why}"
    );
}

#[test]
fn cores_are_words_counts_and_lists_and_each_is_an_axis_value() {
    let names = |cores: &str| {
        let chain = "nf = \"l2fwd+l2fwd\"\ndeployment = [\"inline\", \"vale\"]";
        let plan = parse(&with(&format!("{chain}\ncores = {cores}"), "")).unwrap();
        plan.expand().iter().map(|point| point.placement.of(&point.dut)).collect::<Vec<_>>()
    };
    assert_eq!(names("[\"own\", \"shared\"]"), ["nf", "nf in vale", "nf in vale, one core"]);
    assert_eq!(
        names("[[1], [2, 1], 3]"),
        [
            "nf on core 1",
            "nf on cores 2+1",
            "nf on 3 cores",
            "nf in vale, core 1",
            "nf in vale, cores 2+1",
            "nf in vale, 3 cores"
        ]
    );
    assert_eq!(names("2"), ["nf on 2 cores", "nf in vale, 2 cores"]);
    assert_eq!(names("\"on:1+2\""), ["nf on cores 1+2", "nf in vale, cores 1+2"]);
    for cores in ["0", "[]", "[[]]", "[[1, 1]]", "\"mine\"", "1.5", "[1, 1]", "-1"] {
        let error = error(&format!("cores = {cores}"), "");
        assert!(error.contains("mine.toml:1:"), "{cores}: {error}");
    }
}

#[test]
fn cores_that_a_machine_lacks_are_named_with_what_would_do() {
    let (_root, machine) = machine();
    let lacks = |axes: &str| {
        let plan =
            parse(&with(&format!("nf = \"l2fwd+l2fwd\"\ndeployment = \"vhost\"\n{axes}"), "")).unwrap();
        plan.lacks(&machine).into_iter().map(|(why, _)| why).collect::<Vec<_>>().join("\n")
    };
    assert!(
        lacks("cores = \"own\"")
            .contains("needs 4 cores (1 for the tester, 3 for the device); 2 may be used here")
    );
    assert_eq!(lacks("cores = [[1]]"), "");
    assert!(lacks("cores = [[1, 7]]").contains("core 7 may not be used here; 0-1 may"));
    assert!(lacks("cores = [[0, 1]]").contains("`cores = [0, 1]` leaves 0"));
    assert!(lacks("cores = 2").contains("needs 3 cores"));
}

#[test]
fn a_node_that_a_machine_lacks_is_named() {
    let plan = parse(&with("node = [\"same\", \"other\"]", "")).unwrap();
    let names: Vec<String> = plan.expand().iter().map(|point| point.placement.of(&point.dut)).collect();
    assert_eq!(names, ["nf on the tester's node", "nf on another node"]);
    let (root, machine) = machine();
    for (node, list) in [(0, "0-1"), (1, "2-3")] {
        let folder = root.path().join(format!("sys/devices/system/node/node{node}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("cpulist"), list).unwrap();
    }
    let [(why, 1)] = &plan.lacks(&machine)[..] else { panic!("{:?}", plan.lacks(&machine)) };
    assert!(why.contains("`node = \"other\"` wants 1 core(s) for the tester and 1 for the device"), "{why}");
    assert_eq!(plan.lacks(&Machine { cores: vec![0, 1, 2], ..machine }), []);
    let error = error("node = \"far\"", "");
    assert!(error.contains("unknown node `far`") && error.contains("same"), "{error}");
}

#[test]
fn offloads_sweep_like_all_others() {
    let names = |offloads: &str| {
        let plan = parse(&with(&format!("wiring = \"veth\"\noffloads = {offloads}"), "")).unwrap();
        plan.expand().iter().map(|point| point.placement.of(&point.dut)).collect::<Vec<_>>()
    };
    assert_eq!(
        names("[\"as-is\", { gro = true, tso = false }, \"sg=off\"]"),
        ["nf", "nf with tso=off+gro=on", "nf with sg=off"]
    );
    assert_eq!(names("{ gro = false }"), ["nf with gro=off"]);
    for offloads in ["{ lro = true }", "{ gro = 1 }", "\"gro\"", "[]", "[{}, \"as-is\"]", "true"] {
        let error = error(&format!("offloads = {offloads}"), "");
        assert!(error.contains("mine.toml:1:"), "{offloads}: {error}");
    }
}

#[test]
fn what_is_no_frequency_is_told_in_its_place() {
    for (axis, says) in [
        ("\"0%\"", "`frequency`: `0%` is no frequency"),
        ("\"fast\"", "5% to 100%"),
        ("[\"1GHz\", \"1000MHz\"]", "1GHz stands there twice"),
        ("[]", "`frequency` is an empty list"),
        ("50", "invalid type"),
    ] {
        let error = error(&format!("frequency = {axis}"), "");
        assert!(error.contains(says) && error.contains("mine.toml:1:"), "{axis}: {error}");
    }
    let both = "[mrr]\ntrials = 1\nfrom_start = true\n";
    let error = error("frequency = \"50%\"\nwiring = \"fed\"", both);
    assert!(error.contains("before the lab can hold it back"), "{error}");
}

#[test]
fn a_file_of_flows_is_a_function_and_its_mistakes_stand_with_the_plans_place() {
    let plan = parse(&with("nf = [\"l2fwd\", \"flows:site.flows\"]", "")).unwrap();
    let [Nf::L2Fwd, Nf::Flows(file)] = plan.nfs[..] else { panic!("{:?}", plan.nfs) };
    assert_eq!((file.name(), file.entries().len()), ("site.flows", 1));
    let error = error("nf = \"flows:odd.flows\"", "");
    for part in ["mine.toml:1:", "plans/odd.flows: line 2, column 13: `ouput:2`"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn the_tester_may_have_up_to_32_cores() {
    assert_eq!(parse(&with("", "")).unwrap().tester_cores, 1);
    assert_eq!(parse(&with("tester_cores = 32", "")).unwrap().tester_cores, 32);
    for refused in ["tester_cores = 0", "tester_cores = 33"] {
        let error = error(refused, "");
        assert!(error.contains("`tester_cores`") && error.contains("outside 1 to 32"), "{error}");
    }
}

fn error(top: &str, end: &str) -> String {
    match parse(&with(top, end)) {
        Ok(plan) => panic!("the plan should not pass: {plan:?}"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

#[test]
fn a_misspelt_key_is_shown_with_its_place_and_the_likeliest_key() {
    let text = parse("nf = \"l2fwd\"\ntrace = \"tr3i\"\nsizes = [64, 1500]\n").unwrap_err().to_string();
    let start = "plans/mine.toml:3:1: unknown key `sizes`\n   |\n 3 | sizes = [64, 1500]\n   | ^^^^^ did you mean `size`?\n   = allowed: name, nf, chain, length,";
    assert!(text.starts_with(start), "{text}");
}

#[test]
fn a_trace_that_a_function_would_drop_is_refused_with_one_that_it_forwards() {
    let text = error("nf = [\"l2fwd\", \"pipeline-a\"]\ntrace = \"flows:100\"", "");
    says(
        &text,
        &["1:6: `nf` and `trace`: pipeline-a:500 drops the packets of flows:100", "conversations:N:500"],
    );
    let text = error("nf = \"l2:16\"\ntrace = \"l2flows:100\"", "");
    says(&text, &["l2:16 drops the packets of l2flows:100", "write l2flows:N:16"]);
    let plan = parse(&with("nf = [\"pipeline-b\", \"l2\"]\ntrace = \"conversations:10k\"", "")).unwrap();
    assert_eq!(plan.nfs, [Nf::PipelineB { entries: 500 }, Nf::L2 { stations: 500 }]);
}

#[test]
fn a_misspelt_key_in_a_table_is_shown_too() {
    says(
        &error("", "[latency]\nload = [\"50% ndr\"]"),
        &["mine.toml:8:1: unknown key `load`", "did you mean `loads`?", "allowed: loads, duration"],
    );
    says(&error("", "[goal.ndr]\nexceed = 0.5"), &["unknown key `exceed`", "exceed_ratio"]);
}

#[test]
fn a_misspelt_name_on_an_axis_is_shown_with_the_names_there_are() {
    says(
        &error("dut = [\"nf\", \"testpdm\"]", ""),
        &[
            "mine.toml:1:14: unknown dut `testpdm`",
            "             ^^^^^^^^^ did you mean `testpmd`?",
            "allowed: nf, weir, testpmd, external, simulated",
        ],
    );
    says(&error("wiring = \"vhst\"", ""), &["1:10: unknown wiring `vhst`", "did you mean `vhost`?"]);
    says(
        &error("nf = \"l3fw:10\"", ""),
        &[
            "unknown nf `l3fw`",
            "allowed: l2fwd, l3fwd, firewall, exposed, l2, l2-nfpa, pipeline-a",
            "did you mean `l3fwd`?",
        ],
    );
    says(&error("nf = \"l3fwd:0\"", ""), &["`l3fwd:0`", "l3fwd:N (1 to 100000 routes)"]);
    says(
        &error("trace = [\"tr3i\", \"tr2x\"]", ""),
        &["1:18: unknown trace `tr2x`", "did you mean `tr2e`?", "the path of a .pcap or .pcapng file"],
    );
}

#[test]
fn all_mistakes_of_meaning_are_shown_at_once_in_order() {
    let text = "nf = \"l2fwd\"\ntrace = \"nope\"\nsize = 64\ndut = \"x\"\nrepeats = 0\n[throughput]\ngoals = [\"ndx\"]\n";
    let places: Vec<(usize, usize)> =
        parse(text).unwrap_err().places().iter().map(|place| (place.line, place.column)).collect();
    assert_eq!(places, [(2, 9), (4, 7), (5, 11), (7, 10)]);
}

#[test]
fn values_are_refused_with_their_key_and_what_may_be_written() {
    let cases: [(&str, &str, &[&str]); 20] = [
        ("size = [64, 63]", "", &["1:13: `size`: frame size 63 B is outside 64..=9022", "^^"]),
        ("size = -1", "", &["`size`: frame size -1 B is impossible"]),
        ("size = \"imx\"", "", &["`imx` is no frame size", "did you mean \"imix\"?"]),
        ("size = []", "", &["`size` is an empty list"]),
        ("size = [64, 64]", "", &["1:13: `size`: 64 stands there twice"]),
        ("directions = 3", "", &["1:14: `directions`: 3 is not possible; write 1 or 2"]),
        (
            "huge_pages = \"yes\"",
            "",
            &["1:14: `huge_pages`: `yes` is not understood; write true, false or \"auto\""],
        ),
        (
            "line_rate = \"11G\"",
            "",
            &[
                "1:13: `line_rate`: `11G` is not a line rate Weir knows; write one of 1G, 2.5G, 5G, 10G, 25G, 40G, 50G, 100G, 200G, 400G",
            ],
        ),
        ("stamped = 2", "", &["`stamped`: `2` is not understood; write \"0.5%\" or \"0.005\""]),
        (
            "stamped = 0",
            "[latency]\nloads = \"50% ndr\"",
            &["1:11: `stamped` is zero", "needs stamped packets"],
        ),
        ("repeats = 101", "", &["`repeats`: 101 is outside 1 to 100"]),
        ("repeats = \"two\"", "", &["1:11: `repeats`:", "two"]),
        ("name = \" \"", "", &["1:8: the plan's name is empty"]),
        ("", "[mrr]\ntrials = 0", &["`trials`: 0 is outside 1 to 1000"]),
        ("", "[mrr]\nduration = \"0s\"", &["`duration` is zero"]),
        (
            "",
            "[mrr]\nduration = 5",
            &["`duration`: `5` is not understood; write \"250ms\", \"1s\" or \"2min\""],
        ),
        ("", "[mrr]\nload = \"10\"", &["`load`: `10` is not a packet rate; write for example 9001pps"]),
        (
            "",
            "[latency]\nloads = [\"half\"]",
            &["8:10: `loads`: `half` is no load; write a rate (250kpps, 2Gbps)"],
        ),
        (
            "",
            "[vhost]\nserver = \"labs\"",
            &["8:10: unknown value `labs`", "did you mean `lab`?", "allowed: lab, dut"],
        ),
        ("", "[simulated]\nnoise = \"120%\"", &["`noise`: `120%` is not a ratio between 0 and 1"]),
    ];
    for (top, end, parts) in cases {
        says(&error(top, end), parts);
    }
}

#[test]
fn goals_are_checked_by_name_and_by_number() {
    says(
        &error("", "[throughput]\ngoals = [\"ndr\", \"prd\"]"),
        &[
            "unknown goal `prd`",
            "did you mean `pdr`?",
            "allowed: rfc2544, bswlv, ndr, pdr, a goal of your own, in a table [goal.prd]",
        ],
    );
    says(
        &error("", "[goal.mine]\nloss_ratio = \"1%\""),
        &["7:7: the goal `mine` is not searched for; add it to `goals`"],
    );
    says(&error("", "[goal.ndr]\nlike = \"pdx\""), &["unknown preset `pdx`", "did you mean `pdr`?"]);
    says(
        &error("", "[goal.ndr]\nduration_sum = \"10ms\""),
        &["goal `ndr`: the duration sum 10 ms is less than one final trial, 1 s"],
    );
    says(&error("", "[goal.ndr]\nwidth = 0"), &["goal `ndr`: width 0 is outside"]);
    says(
        &error("", "[latency]\nloads = \"50% pdr\""),
        &[
            "`loads`: 50% pdr needs the goal `pdr`, which [throughput] does not search for",
            "allowed: ndr, line",
        ],
    );
}

#[test]
fn impossible_rates_and_budgets_are_refused_at_their_key() {
    says(
        &error("", "[throughput]\ngoals = \"ndr\"\nmin_load = \"2Mpps\"\nmax_load = \"1Mpps\""),
        &["8:12: the loads 2.000 Mpps to 1.000 Mpps are no interval"],
    );
    says(
        &error("", "[throughput]\ngoals = \"ndr\"\nbudget = \"1s\""),
        &["7:10: a time budget of 1 s is less than the warm-up and one final trial, 2 s"],
    );
}

#[test]
fn a_plan_of_more_points_than_anybody_measures_is_refused_before_any_is_made() {
    let list = |name: &str, of: fn(u32) -> String, count: u32| {
        let values: Vec<String> = (0..count).map(of).collect();
        format!("{name} = [{}]\n", values.join(", "))
    };
    let functions = list("nf", |number| format!("\"l3fwd:{}\"", number + 1), 200);
    let sizes = |count| list("size", |number| (64 + number).to_string(), count);
    let wide = format!("{functions}{}directions = [1, 2]", sizes(300));
    let refused = error(&wide, "");
    says(&refused, &["1:1: the plan's lists have 120000 combinations; a plan may have 20000"]);
    assert!(refused.to_string().contains("the longest list has 300"), "{refused}");
    assert_eq!(
        parse(&with(&format!("{functions}{}directions = 1", sizes(90)), "")).unwrap().expand().len(),
        18_000
    );
    // So many that a number of 64 bits does not hold them.
    let more: String = ["copies", "vnics", "cores", "queues"]
        .map(|axis| list(axis, |number| (1 + number).to_string(), 8))
        .concat();
    let text = with(&format!("{functions}{}{more}", sizes(1000)), "");
    assert!(parse(&text).is_err());
}

#[test]
fn traces_are_combined_with_the_sizes_they_come_in() {
    says(
        &error("trace = \"gone.pcap\"\nsize = \"recorded\"", ""),
        &["1:9: `trace`: there is no file plans/gone.pcap"],
    );
    says(&error("trace = \"there.pcap\"", ""), &["comes in none of the sizes; add \"recorded\" to `size`"]);
    says(
        &error("size = \"recorded\"", ""),
        &[
            "`trace`: tr3i comes in none of the sizes; add 64",
            "`size`: no trace of the plan comes in recorded",
        ],
    );
    says(
        &error("trace = \"t2\"\nsize = [128, 256]", ""),
        &["`trace`: t2 comes in none of the sizes; add 64"],
    );
    says(&error("trace = \"tr3i|there.pcap\"", ""), &["the two directions come in no size together"]);
    says(&error("trace = \"tr3i|tr3e|tr2e\"", ""), &["unknown trace `tr3e|tr2e`"]);
    says(&error("trace = \"flows:0\"", ""), &["`trace`: `flows:0` is no number of flows"]);

    let traces = "trace = [\"there.pcap\", \"tr5ul|tr5dl\", \"t2\", \"flows:10\"]";
    let plan = parse(&with(&format!("{traces}\nsize = [64, 128, \"recorded\"]"), "")).unwrap();
    let labels: Vec<String> =
        plan.expand().iter().map(|point| format!("{} {}", point.trace, point.size)).collect();
    let expected = [
        "plans/there.pcap recorded",
        "tr5ul|tr5dl 64",
        "tr5ul|tr5dl 128",
        "t2 64",
        "flows:10 64",
        "flows:10 128",
    ];
    assert_eq!(labels, expected);
}

#[test]
fn a_plan_that_measures_nothing_or_cannot_be_read_is_refused() {
    says(
        &parse("nf = \"l2fwd\"\ntrace = \"tr3i\"\nsize = 64\n").unwrap_err().to_string(),
        &["measures nothing"],
    );
    says(
        &parse("# a comment\nnf = \"l2fwd\"\n").unwrap_err().to_string(),
        &["mine.toml:2:1: the key `trace` is missing"],
    );
    says(&parse("").unwrap_err().to_string(), &["mine.toml:1:1: the key `trace` is missing", "`size`"]);
    says(&parse("nf = [\"l2fwd\"\nsize = 64\n").unwrap_err().to_string(), &["mine.toml:"]);
    says(&parse("nf = \"é\"\ntrace = \"tr3i\"\nsize = \"ß\"\n").unwrap_err().to_string(), &["3:8:", "^^^"]);
}

#[test]
fn a_wiring_without_tester_needs_mrr_and_gets_nothing_else() {
    says(
        &error("wiring = [\"vhost\", \"fed\"]", ""),
        &["1:20: `wiring`: fed has no tester at the wire", "[mrr]"],
    );
    let plan = parse(&with("wiring = [\"vhost\", \"fed\"]", "[mrr]\ntrials = 3\nduration = \"2s\"")).unwrap();
    let mrr_only: Vec<bool> = plan.expand().iter().map(|point| point.mrr_only).collect();
    assert_eq!(mrr_only, [false, true]);
}

#[test]
fn points_follow_the_order_of_the_file() {
    let first = parse(&with("size = [64, 1500]\nnf = [\"l2fwd\", \"l3fwd:5\"]", "")).unwrap();
    let label = |plan: &Plan| -> Vec<String> {
        plan.expand().iter().map(|point| format!("{} {} {}", point.index, point.nf, point.size)).collect()
    };
    assert_eq!(label(&first), ["0 l2fwd 64", "1 l3fwd:5 64", "2 l2fwd 1500", "3 l3fwd:5 1500"]);
    let second = parse(&with("nf = [\"l2fwd\", \"l3fwd:5\"]\nsize = [64, 1500]", "")).unwrap();
    assert_eq!(label(&second), ["0 l2fwd 64", "1 l2fwd 1500", "2 l3fwd:5 64", "3 l3fwd:5 1500"]);
}

#[test]
fn what_a_plan_says_is_what_it_holds() {
    let text = with(
        "dut = \"simulated\"\nhuge_pages = [true, false]\nstamped = 0.1\nseed = 7\nrepeats = 3\ncheck = false\nline_rate = \"40G\"",
        "[throughput]\ngoals = [\"pdr\", \"mine\"]\nmax_load = \"8Mpps\"\n\
         [goal.mine]\nlike = \"rfc2544\"\nfinal_trial_duration = \"500ms\"\nloss_ratio = \"0.1%\"\nwidth = 0.02\n\
         [latency]\nloads = [\"10% mine\", \"100kpps\"]\n\
         [simulated]\ncapacity = \"2Mpps\"\nnoise = \"1%\"\n\
         [vhost]\nlab = \"vhost\"\nserver = \"lab\"",
    );
    let plan = parse(&text).unwrap();
    assert_eq!((plan.name.as_str(), plan.source.as_str()), ("mine", text.as_str()));
    assert_eq!((&plan.nfs[..], &plan.sizes[0].to_string()[..]), (&[Nf::L2Fwd][..], "64"));
    assert_eq!(plan.huge_pages, [HugePages::On, HugePages::Off]);
    assert_eq!((plan.stamped, plan.seed, plan.repeats, plan.check), (Ratio(0.1), 7, 3, false));
    assert_eq!(
        (plan.simulated.capacity, plan.simulated.noise, plan.simulated.seed),
        (Pps(2e6), Ratio(0.01), 7)
    );
    assert_eq!((plan.vhost.lab, plan.vhost.server), (VhostEnd::Vhost, Server::Lab));
    let config = plan.method::<ThroughputPlan>().unwrap().config(Pps(1.0));
    assert_eq!((config.max_load, config.min_load), (Pps(8e6), SearchConfig::DEFAULT_MIN_LOAD));
    assert_eq!(config.goals[0], Goal::pdr());
    let mine = &config.goals[1];
    let half = Nanos(SECOND / 2);
    assert_eq!(
        (mine.final_trial_duration, mine.duration_sum, mine.initial_trial_duration),
        (half, half, half)
    );
    assert_eq!(
        (mine.loss_ratio, mine.exceed_ratio, mine.relative_width),
        (Ratio(0.001), Ratio(0.0), Ratio(0.02))
    );
    assert_eq!(config.warm_up, half, "no longer than the shortest final trial");
    says(&plan.warnings().join("\n"), &["mine: trials of 500 ms are shorter than RFC 2544's 60 s"]);
}

#[test]
fn estimates_count_points_repeats_trials_and_overhead() {
    let text = "nf = \"l2fwd\"\ntrace = \"tr3i\"\nsize = [64, 128]\nwiring = [\"vhost\", \"fed\"]\nrepeats = 2\n\
                [mrr]\ntrials = 3\nduration = \"2s\"\n[latency]\nloads = [\"1kpps\"]\nduration = \"1s\"\n";
    let plan = parse(text).unwrap();
    let estimate = plan.estimate(Nanos(SECOND / 2));
    // Four points of three trials, and one more where there is a tester; all twice.
    assert_eq!(estimate.trials, 2 * (4 * 3 + 2));
    assert_eq!(estimate.time, Nanos(2 * (4 * 3 * 5 + 2 * 3) * SECOND / 2));
    assert_eq!(plan.longest(Nanos(SECOND / 2)), estimate.time, "nothing is searched for");
}

/// Every TOML file below a folder.
fn plans_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    files.into_iter().chain(folders.iter().flat_map(|folder| plans_below(folder))).collect()
}

#[test]
fn the_plans_of_the_repository_make_sense() {
    let plans = plans_below(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans")));
    assert!(plans.iter().any(|path| path.ends_with("papers/softflow/figure6.toml")), "{plans:?}");
    for path in plans {
        let text = std::fs::read_to_string(&path).unwrap();
        let plan = Plan::parse(&text, &path, &Known::here()).unwrap_or_else(|error| panic!("{error}"));
        assert!(!plan.expand().is_empty(), "{}", path.display());
    }
}

#[test]
fn the_plans_that_come_with_weir_make_sense() {
    for builtin in plan::builtins() {
        let plan = parse(builtin.text).unwrap_or_else(|error| panic!("{}:\n{error}", builtin.name));
        assert_eq!(plan.name, builtin.name);
        Plan::parse(builtin.text, Path::new(builtin.name), &Known::here()).expect("this build has all names");
        assert!(builtin.text.starts_with(&format!("# {}: ", builtin.name)), "the plan is commented");
    }
    assert_eq!(plan::builtin("quik"), None);
}

#[test]
fn the_quick_plan_takes_at_most_ninety_seconds_of_measuring() {
    let plan = parse(plan::builtin("quick").unwrap().text).unwrap();
    let points = plan.expand();
    assert_eq!(points.len(), 12);
    assert_eq!(points.iter().filter(|point| point.nf == Nf::L2Fwd && point.dut == "weir").count(), 2);
    assert!(
        points
            .iter()
            .all(|point| point.huge_pages == HugePages::Off && matches!(point.size, Sizes::Fixed(_)))
    );
    let overhead = Nanos(SECOND / 4);
    let (estimate, longest) = (plan.estimate(overhead).time, plan.longest(overhead));
    assert!(longest <= Nanos(90 * SECOND), "{longest}");
    assert!(estimate <= longest && estimate >= Nanos(20 * SECOND), "{estimate}");
}

#[test]
fn wirings_are_described_in_tables_of_their_own() {
    let ports = "[nic]\nlab = [\"0000:01:00.0\", \"net_af_packet0,iface=eth1\"]\ndut = [\"0000:02:00.0\", \"0000:02:00.1\"]";
    let end = format!(
        "[memif]\nserver = \"lab\"\n[veth]\ndriver = \"af-xdp\"\n{ports}\n[external]\ndescription = \"R2\""
    );
    let wirings = parse(&with("wiring = [\"memif\", \"veth\", \"nic\"]", &end)).unwrap().wirings();
    assert_eq!((wirings.memif.server, wirings.veth.driver), (Side::Lab, VethDriver::AfXdp));
    assert_eq!(wirings.nic.lab, ["0000:01:00.0", "net_af_packet0,iface=eth1"]);
    assert_eq!((wirings.nic.dut.len(), wirings.external.description.as_str()), (2, "R2"));
    let default = parse(&with("", "")).unwrap().wirings();
    assert_eq!((default.memif.server, default.veth.driver), (Side::Dut, VethDriver::AfPacket));
}

#[test]
fn a_device_that_somebody_else_started_is_met_where_the_plan_says() {
    let external = |keys: &str| format!("[external]\n{keys}");
    let keys = "sockets = [\"/t/a\", \"b\"]\ninterfaces = [\"x\", \"y\"]\nnamespace = \"box\"\ncounters = \"ask it all\"\n\
                ready = [\"is it\", \"up\"]\nwait_seconds = 5";
    let met = parse(&with("", &external(keys))).unwrap().wirings().external;
    assert_eq!((met.sockets[0].as_path(), met.sockets[1].is_absolute()), (Path::new("/t/a"), true));
    assert_eq!((met.interfaces[1].as_str(), met.namespace.as_deref()), ("y", Some("box")));
    assert_eq!(met.counters.unwrap(), ["ask", "it", "all"]);
    assert_eq!((met.ready.unwrap()[0].as_str(), met.wait.as_secs()), ("is it", 5));
    for (keys, mistake) in [
        ("wait_seconds = 0", "`wait_seconds`: 0 is not between 1 and 3600"),
        ("sockets = [\"/t/a\", \"/t/a\"]", "`sockets`: both ports have the same"),
        ("interfaces = [\"a b\", \"c\"]", "`interfaces`: `a b` cannot be an interface"),
        ("counters = \" \"", "`counters` is empty"),
        ("socket = \"/t/a\"", "unknown key `socket`"),
    ] {
        says(&error("", &external(keys)), &[mistake]);
    }
}

#[test]
fn physical_ports_are_asked_for_where_they_are_needed() {
    let nic = "wiring = \"nic\"";
    says(&error(nic, ""), &["mine.toml:1:10: `wiring`: nic needs the lab's ports", "[nic] with lab = ["]);
    let lab = "[nic]\nlab = [\"0000:01:00.0\", \"0000:01:00.1\"]";
    says(&error(nic, lab), &["nic needs the ports of nf", "add dut = [PORT, PORT]"]);
    assert!(parse(&with(&format!("{nic}\ndut = \"external\""), lab)).is_ok());
    says(&error("", "[nic]\nlab = [\"eth0\", \"01:00.0\"]"), &["`eth0` is no port", "`01:00.0` is no port"]);
    says(&error("", "[nic]\nlab = [\"0000:01:00.0\"]"), &["`lab`: 1 ports; a side has 2"]);
    says(&error("", "[nic]\nlabs = []"), &["unknown key `labs`", "did you mean `lab`?"]);
}

#[test]
fn the_committed_schema_is_the_one_of_this_format() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/plan.schema.json");
    let fresh = format!("{:#}\n", plan::schema());
    assert!(!fresh.contains("null"), "TOML has no null");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &fresh).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == fresh,
        "schemas/plan.schema.json is stale; run this test with WEIR_BLESS=1 and commit it"
    );
}

#[test]
fn a_device_comes_only_in_the_variants_it_has() {
    let right = parse(&with("dut = [\"nf\", \"nf:even:1e-6\"]", "")).unwrap();
    assert_eq!(right.duts, ["nf", "nf:even:1e-6"]);
    says(&error("dut = \"nf:odd\"", ""), &["1:7: `dut`: nf has no variants", "nf:odd"]);
    says(&error("dut = \"nff:even\"", ""), &["unknown dut `nff`", "did you mean `nf`?"]);
}

#[test]
fn curves_bursts_and_soaks_have_defaults() {
    let plan = parse(&with("", "[latency_curve]\n[frame_loss]\n[back_to_back]\n[soak]\nload = \"90% ndr\""))
        .unwrap();
    let curve = plan.method::<CurvePlan>().unwrap().method(Pps(10e6), Ratio(0.5));
    assert_eq!((curve.from, curve.to, curve.packets), (Pps(100.0), Pps(10e6), 2000));
    assert_eq!((curve.duration, curve.longest), (Nanos(SECOND), Nanos(10 * SECOND)));
    let frame_loss = plan.method::<FrameLoss>().unwrap();
    assert_eq!((frame_loss.step, frame_loss.duration), (Ratio(0.1), Nanos(10 * SECOND)));
    let bursts = plan.method::<BackToBack>().unwrap();
    assert_eq!((bursts.goal.as_str(), bursts.searches, bursts.step), ("ndr", 5, 10));
    assert_eq!((bursts.ceiling, bursts.rest), (Nanos(30 * SECOND), Nanos(2 * SECOND)));
    assert_eq!(plan.method::<Soak>().unwrap().slices(), 60);
    let warnings = plan.warnings().join("\n");
    says(&warnings, &["frame loss: trials of 10 s are shorter than RFC 2544's 60 s"]);
}

#[test]
fn what_curves_and_soaks_take_is_in_the_estimate() {
    let seconds = |end: &str| parse(&with("", end)).unwrap().estimate(Nanos(0)).time.seconds();
    let before = seconds("");
    assert!((seconds("[soak]\nload = \"1Mpps\"\ntime = \"1h\"") - before - 3600.0).abs() < 1e-6);
    assert!((seconds("[frame_loss]\nduration = \"60s\"") - before - 600.0).abs() < 1e-6);
    let curve = seconds("[latency_curve]") - before;
    assert!((25.0..120.0).contains(&curve), "{curve}");
    let bursts = seconds("[back_to_back]") - before;
    assert!((60.0..300.0).contains(&bursts), "rests count: {bursts}");
}

#[test]
fn bursts_need_the_goal_that_corrects_them_and_the_least_gap() {
    says(
        &error("", "[back_to_back]\ngoal = \"pdr\""),
        &[
            "mine.toml:8:8: [back_to_back] corrects the burst",
            "the goal `pdr`",
            "add it to `goals` of [throughput]",
        ],
    );
    says(
        &error("shape = \"poisson\"", "[back_to_back]"),
        &["the least gap between frames", "leave `shape` out"],
    );
    let alone = "nf = \"l2fwd\"\ntrace = \"tr3i\"\nsize = 64\n[back_to_back]\n";
    says(&parse(alone).unwrap_err().to_string(), &["goal `ndr`", "[throughput]"]);
}

#[test]
fn numbers_of_curves_that_make_no_sense_are_refused_each_at_its_place() {
    let text = error(
        "",
        "[latency_curve]\nfrom = \"1Mpps\"\nto = \"1kpps\"\nlongest = \"1ms\"\ndense = 1\n[frame_loss]\nstep = \"20%\"\nduration = \"0s\"",
    );
    says(
        &text,
        &[
            "mine.toml:9:6: `to` must be more than `from`, which is 1.000 Mpps",
            "mine.toml:10:11: `longest` is shorter than `duration`, which is 1 s",
            "`dense`: 1 is outside 2 to 100",
            "`step`: 20.00 % is outside 1 % to 10 %; RFC 2544",
            "`duration` is zero",
        ],
    );
    let text = error("", "[soak]\nload = \"90% pdr\"\ntime = \"1s\"\nslice = \"2s\"");
    says(&text, &["`load`: 90% pdr needs the goal `pdr`", "`slice` is longer than `time`, which is 1 s"]);
}

#[test]
fn recorded_gaps_leave_no_loads_to_draw_a_curve_over() {
    let top = "shape = \"recorded\"\ntrace = \"there.pcap\"\nsize = \"recorded\"";
    for table in ["[latency_curve]", "[frame_loss]", "[soak]\nload = \"1Mpps\""] {
        says(&error(top, table), &["shape `recorded` sends at the capture's own rate"]);
    }
}
