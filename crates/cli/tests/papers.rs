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
