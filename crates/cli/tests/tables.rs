//! Tables of runs for notebooks.

use crate::lab::{Lab, told, weir};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const PLAN: &str = "nf = \"l2fwd\"\ndut = \"simulated\"\ntrace = \"tr3i\"\nsize = [64, 512]\n[mrr]\ntrials = 3\n\
                    duration = \"50ms\"\n[simulated]\nnoise = \"1%\"\n";

/// A table of text, as a reader of CSV has it: a row a map from column to cell.
fn read(path: &Path) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let names: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let row =
        |record: csv::StringRecord| names.iter().cloned().zip(record.iter().map(str::to_owned)).collect();
    reader.records().map(|record| row(record.unwrap())).collect()
}

#[test]
fn two_runs_become_four_tables_that_refer_to_each_other() {
    let lab = Lab::new(PLAN);
    let runs = [lab.measure(0), lab.measure(0)];
    let (db, folder) = (lab.file("weir.db"), lab.file("new/tables"));
    let export = |words: &[&str]| weir().arg("export").args(words).arg("--db").arg(&db).output().unwrap();
    let flag = format!("--csv={}", folder.display());
    let output = export(&["@last~1", "@last", &flag]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("wrote 12 rows to"), "{}", told(&output));
    let [of_runs, points, environment, trials] =
        ["runs", "points", "environment", "trials"].map(|name| read(&folder.join(format!("{name}.csv"))));
    let uuids: BTreeSet<&str> = runs.iter().map(|run| run.uuid.as_str()).collect();
    for table in [&of_runs, &points, &environment, &trials] {
        assert_eq!(table.iter().map(|row| row["run_uuid"].as_str()).collect::<BTreeSet<_>>(), uuids);
    }
    assert_eq!((of_runs.len(), points.len(), trials.len()), (2, 4, 12));
    assert!(environment.iter().any(|row| row["fact"] == "kernel.release" && !row["value"].is_empty()));
    for (row, run) in trials.iter().zip(runs.iter().flat_map(|run| run.points.iter().flat_map(|p| &p.trials)))
    {
        let number = |column: &str| row[column].parse::<f64>().unwrap();
        let total = run.result.total();
        assert_eq!(number("sent") + number("refused") + number("unsent"), number("intended"));
        assert_eq!((number("received"), number("lost")), (total.received as f64, total.lost() as f64));
        assert_eq!(number("forwarded_pps"), run.result.forwarded_rate().0);
    }

    for (words, why) in [
        (&["@last~1", "@last", "--csv"][..], "one run at a time"),
        (&["@last", "@last", &flag], "named twice"),
        (&["@last", &flag, "-o", "x"], "leave out -o"),
        (&["@last", "--csv=/dev/null/x"], "name another one"),
        (&["@last", "--parquet", "x"], "--parquet"),
    ] {
        let output = export(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(why), "{words:?}: {}", told(&output));
    }
    let columns = lab.file("parquet");
    let output = export(&["@last", &format!("--parquet={}", columns.display())]);
    if cfg!(feature = "parquet") {
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        assert!(fs::read(columns.join("trials.parquet")).unwrap().starts_with(b"PAR1"));
    } else {
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains("--features parquet"), "{}", told(&output));
        assert!(!columns.exists(), "nothing is left behind");
    }
}
