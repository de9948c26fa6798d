//! Cores that a plan names: the device runs there, the tester elsewhere, and the result says who sat where. Offloads of the
//! interfaces between them.

use crate::lab::{Lab, cores, told, weir};
use std::fs;
use weir_testkit::Need;

const METHOD: &str = "[latency]\nloads = [\"20kpps\"]\nduration = \"80ms\"\n";

fn plan(axes: &str) -> String {
    format!("{axes}\ntrace = \"flows:100\"\nsize = 64\nhuge_pages = false\nself_check = false\n{METHOD}")
}

#[test]
fn devices_run_on_the_cores_that_are_named_and_the_tester_on_another() {
    let _cores = cores();
    let run = Lab::new(&plan("nf = \"l2fwd\"\ncores = [[0], [1]]")).measure(0);
    let [first, second] = run.points.as_slice() else { panic!("{}", run.points.len()) };
    for (point, core, tester) in [(first, 0, 1), (second, 1, 0)] {
        assert_eq!(point.key.device(), format!("nf on core {core}"));
        let version = point.dut_version.as_deref().unwrap_or_default();
        assert!(version.contains(&format!("--core {core} ")), "{version}");
        let seats = &point.configuration["cores"];
        assert!(seats.contains(&format!("tester on {tester}, forwarding processes on {core}")), "{seats}");
        let health = &point.trials[0].result.health;
        assert_eq!(health.tester.map(|tester| tester.core), Some(tester), "{health:?}");
    }
}

#[test]
fn processes_of_a_chain_are_dealt_out_to_so_many_cores() {
    let _cores = cores();
    let axes = "nf = \"l2fwd+l2fwd\"\ndeployment = \"vale\"\ncores = [\"shared\", 1, [1]]";
    let run = Lab::new(&plan(axes)).measure(0);
    let names: Vec<String> = run.points.iter().map(|point| point.key.device()).collect();
    assert_eq!(names, ["nf in vale, one core", "nf in vale, one core", "nf in vale, core 1"]);
    for point in &run.points {
        assert_eq!(point.error, None);
        assert!(point.configuration["cores"].contains("processes on 1, 1"), "{:?}", point.configuration);
        assert!(point.configuration["cores"].ends_with("take turns"));
    }
}

#[test]
fn offloads_are_set_on_veth_and_refused_elsewhere() {
    let _cores = cores();
    let text = |wiring: &str| {
        plan(&format!("nf = \"l2fwd\"\nwiring = \"{wiring}\"\noffloads = {{ tso = false, gro = true }}"))
    };
    let lab = Lab::new(&text("vhost"));
    let output = lab.bench().output().unwrap();
    let error = lab.stored().and_then(|run| run.points[0].error.clone()).unwrap_or_else(|| told(&output));
    assert!(error.contains("tso=off+gro=on: offloads are of the kernel's interfaces"), "{error}");
    if !weir_testkit::needs!(Need::Root, Need::Namespaces) {
        return;
    }
    let run = Lab::new(&text("veth")).measure(0);
    let point = &run.points[0];
    assert_eq!((point.key.device().as_str(), &point.error), ("nf with tso=off+gro=on", &None));
    let told = &point.configuration["offloads"];
    assert!(told.contains("port1 of the device: tso off (was on), gro on"), "{told}");
}

#[test]
fn cores_that_cannot_be_are_named_before_anything_starts() {
    for (axes, says) in [
        ("nf = \"l2fwd\"\ncores = [[900]]", "core 900 may not be used here"),
        ("nf = \"l2fwd+l2fwd\"\ndeployment = \"vale\"\ncores = [[0, 1]]", "leaves"),
        (
            "nf = \"l2fwd+l2fwd+l2fwd\"\ndeployment = \"vhost\"\ncores = 4",
            "needs 5 cores (1 for the tester, 4 for the device)",
        ),
    ] {
        // Of the last two a larger machine lacks nothing.
        if std::thread::available_parallelism().unwrap().get() > 2 && !axes.contains("900") {
            continue;
        }
        let lab = Lab::new(&plan(axes));
        let output = weir().args(["plan", "check"]).arg(lab.file("plan.toml")).output().unwrap();
        assert!(output.status.success() && told(&output).contains(says), "{axes}: {}", told(&output));
    }
    let lab = Lab::new(&plan("nf = \"l2fwd\"\ncores = 2"));
    let output = lab.bench().output().unwrap();
    let error = lab.stored().and_then(|run| run.points[0].error.clone()).unwrap_or_else(|| told(&output));
    assert!(error.contains("2 cores for 1 forwarding process"), "{error}");
    assert!(fs::exists(lab.file("page.html")).unwrap(), "it has a page that says so");
}
