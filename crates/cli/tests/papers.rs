//! The plans of the papers' figures, and `weir papers`, without a device.

use crate::lab::{told, weir};
use std::path::{Path, PathBuf};

/// Every plan below `plans/papers`.
fn plans() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/papers");
    let folder = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let mut plans: Vec<PathBuf> = folder(&root).iter().flat_map(|paper| folder(paper)).collect();
    plans.sort();
    plans
}

#[test]
fn every_plan_of_a_paper_is_a_plan_and_says_what_it_is_and_how_it_differs() {
    let plans = plans();
    assert!(plans.len() >= 20, "{plans:?}");
    for plan in plans {
        let output = weir().args(["plan", "check"]).arg(&plan).output().unwrap();
        assert!(output.status.success(), "{}: {}", plan.display(), told(&output));
        let text = std::fs::read_to_string(&plan).unwrap();
        let head = text.split("name =").next().unwrap();
        let place = ["figure", "table", "section"].iter().any(|place| head.contains(place));
        assert!(head.starts_with("# ") && place, "{}: {head}", plan.display());
        // A plan's name is its place, so that a run tells which figure it is.
        let part = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
        let name = format!("name = \"{}-{}\"\n", part(plan.parent().unwrap()), part(&plan));
        assert!(text.contains(&name), "{}: no {name}", plan.display());
    }
}

/// What `weir papers` with these arguments prints, where it succeeds.
fn said(arguments: &[&str]) -> String {
    let output = weir().arg("papers").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_list_has_every_plan_below_plans_papers_and_each_can_be_shown() {
    let list: serde_json::Value = serde_json::from_str(&said(&["--json"])).unwrap();
    let mut listed: Vec<&str> =
        list["figures"].as_array().unwrap().iter().map(|figure| figure["name"].as_str().unwrap()).collect();
    listed.sort_unstable();
    let place = |plan: &PathBuf| {
        let folder = plan.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        format!("{folder}/{}", plan.file_stem().unwrap().to_string_lossy())
    };
    let mut files: Vec<String> = plans().iter().map(place).collect();
    files.sort_unstable();
    assert_eq!(listed, files);
    let people = said(&[]);
    assert!(listed.iter().all(|name| people.contains(name)), "{people}");
    let shown = said(&["--show", "nfpa/figure3"]);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/papers/nfpa/figure3.toml");
    assert_eq!(shown, std::fs::read_to_string(file).unwrap());
}

#[test]
fn a_kept_run_is_one_table_with_what_is_asked_for_across_and_one_that_is_not_there_says_so() {
    let kept = |name: &str| format!("{}/../../docs/runs/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let (rates, flows) = (kept("device-rates-forward"), kept("flows"));
    let table = said(&["--table", &rates, "--across", "nf"]);
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("| device | l2fwd | l3fwd:10 | l3fwd:768 |"), "{table}");
    let bess = lines.find(|line| line.starts_with("| bess |")).unwrap_or_else(|| panic!("{table}"));
    // The mean of the trials that `weir plot` has in its table of the same run, and their ends.
    assert!(bess.starts_with("| bess | 80.2 (78.6 to 80.9) | 33.5 (32.9 to 33.9) |"), "{bess}");
    let table = said(&["--table", &flows, "--across", "dut"]);
    assert!(table.starts_with("| trace | weir | ovs-dpdk |"), "{table}");
    assert!(table.contains("| conversations:100000 | 6.51 (6.37 to 6.62) | – |"), "{table}");
    assert!(
        table.contains("- not there: pipeline-a:500 · ovs-dpdk · fed · conversations:100000 · 64 B: "),
        "{table}"
    );
    let steps = said(&["--table", &flows, "--across", "dut", "--what", "steps"]);
    assert!(steps.contains("services ") && steps.contains(" · sum "), "{steps}");
    // Where points are reached by several wirings a row says by which; sizes that lack for one reason share a line.
    let cpu = said(&["--table", &kept("nfv-first-table2"), "--across", "size", "--what", "cpu"]);
    assert!(cpu.starts_with("| device | wiring | 64 B | 128 B |"), "{cpu}");
    let linux = cpu.lines().find(|line| line.starts_with("| linux | veth |"));
    assert!(linux.is_some_and(|line| line.contains(" %, ")), "{cpu}");
    let lost = "- not there: l3fwd:10 · linux · vhost · flows:1000 · 64 B, 128 B, 256 B, 512 B, 1024 B, 1500 B: linux";
    assert_eq!(cpu.lines().filter(|line| line.starts_with(lost)).count(), 1, "{cpu}");
    assert_eq!(
        said(&["--table", "docs/runs/none.json"]),
        "Not run yet: `docs/runs/none.json` is not kept.\n"
    );
}

#[test]
fn names_that_are_none_and_databases_that_cannot_be_are_bad_use_before_anything_runs() {
    for (arguments, said) in [
        (&["--run", "nfpa/figure9"][..], "no figure or paper named `nfpa/figure9`"),
        (&["--run", "nfpa", "figure3"], "no figure or paper named `figure3`"),
        (&["--show", "nfpa"], "name one: nfpa/figure2-drivers"),
        (&["--short"], "--all"),
        (&["--run", "--all"], "--run"),
        (&["--all", "--db", "/proc/none/weir.db"], "/proc/none"),
    ] {
        let output = weir().arg("papers").args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", told(&output));
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
}
