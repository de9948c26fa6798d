//! `weir verify`: a run that holds, and one whose store was changed.

use crate::lab::{Lab, told, weir};
use std::process::Output;

const PLAN: &str = "nf = \"l2fwd\"\ndut = \"simulated\"\ntrace = \"tr3i\"\nsize = [64, 512]\nrepeats = 2\n\
    [throughput]\ngoals = [\"ndr\", \"pdr\"]\nbudget = \"60s\"\n\
    [goal.ndr]\nfinal_trial_duration = \"100ms\"\nduration_sum = \"300ms\"\n\
    [goal.pdr]\nfinal_trial_duration = \"100ms\"\nduration_sum = \"300ms\"\n\
    [mrr]\ntrials = 3\n[latency]\nloads = [\"50% ndr\"]\n[frame_loss]\nduration = \"100ms\"\n\
    [soak]\nload = \"90% ndr\"\ntime = \"5s\"\nslice = \"1s\"\n[simulated]\nnoise = \"1%\"\n";

fn verify(lab: &Lab, more: &[&str]) -> Output {
    weir().arg("verify").args(more).arg("--db").arg(lab.file("weir.db")).output().unwrap()
}

/// Changes one thing in the store, and expects the difference to be found and named.
fn is_found(lab: &Lab, change: &str, parts: &[&str]) {
    let copy = lab.file("copy.db");
    std::fs::copy(lab.file("weir.db"), &copy).unwrap();
    let raw = rusqlite::Connection::open(&copy).unwrap();
    assert!(raw.execute(change, []).unwrap() > 0, "{change}");
    drop(raw);
    let output = weir().args(["verify", "--db"]).arg(&copy).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{change}: {}", told(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    for part in parts {
        assert!(text.contains(part), "{change}: {part:?} is missing: {text}");
    }
}

#[test]
fn every_result_follows_from_its_trials_and_a_changed_store_is_found_out() {
    let lab = Lab::new(PLAN);
    let run = lab.measure(0);
    assert!(run.points.iter().all(|point| point.results.len() >= 2 * 6), "{:?}", run.points[0].results);
    let output = verify(&lab, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("HOLDS") && text.contains(&run.uuid), "{text}");

    let json = verify(&lab, &["--json"]);
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/verify.schema.json");
    let schema = serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
    assert!(jsonschema::draft202012::is_valid(&schema, &document), "{document:#}");
    assert_eq!(document["holds"], serde_json::Value::Bool(true));

    let throughput = "json_extract(body, '$.kind') = 'throughput'";
    is_found(
        &lab,
        &format!("UPDATE results SET body = json_set(body, '$.throughput', 9e6) WHERE {throughput}"),
        &["ndr", "throughput: ", "9.000 Mpps stored"],
    );
    is_found(
        &lab,
        "UPDATE results SET body = json_set(body, '$.mean', 9e6) WHERE json_extract(body, '$.kind') = 'mrr'",
        &["mrr", "mean: ", "9.000 Mpps stored"],
    );
    is_found(&lab, "UPDATE directions SET sent = sent + 5", &["are", "intended"]);
    is_found(&lab, "UPDATE latencies SET p50_ns = p50_ns * 2 + 1", &["its histogram has a median of"]);
    is_found(
        &lab,
        "UPDATE trials SET facts = json_set(facts, '$.verdict.findings', json('[]')) \
         WHERE json_array_length(facts, '$.verdict.findings') > 0",
        &["its verdict says nothing"],
    );
    is_found(&lab, "DELETE FROM trials WHERE purpose = 'latency'", &["is not there"]);
}
