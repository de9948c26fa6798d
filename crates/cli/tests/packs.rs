//! Packs: runs as a folder for reviewers, checked, changed by hand, and measured again.

use crate::lab::{Lab, told, weir};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use weir_testkit::{Need, needs};

/// A plan of moments, whose device is simulated.
const PLAN: &str = "nf = \"l2fwd\"\ndut = \"simulated\"\ntrace = \"tr3i\"\nsize = [64, 512, 1500]\nrepeats = 2\n\
                    [throughput]\ngoals = [\"ndr\"]\n[goal.ndr]\nfinal_trial_duration = \"100ms\"\n\
                    duration_sum = \"300ms\"\n[mrr]\ntrials = 3\n[latency]\nloads = [\"50% ndr\"]\n\
                    [simulated]\nnoise = \"1%\"\n";

/// A lab with one run.
fn measured() -> Lab {
    let lab = Lab::new(PLAN);
    lab.measure(0);
    lab
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn said(lab: &Lab, words: &[&str], code: i32) -> String {
    let mut command = weir();
    command.args(words);
    if words[..2] != ["pack", "--check"] {
        command.arg("--db").arg(lab.file("weir.db"));
    }
    ended(&command.env("TMPDIR", lab.temporary()).output().unwrap(), code)
}

/// What a call that must end like this printed, errors included.
fn ended(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}", told(output));
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// A pack of a lab's last run.
fn packed(lab: &Lab, name: &str) -> PathBuf {
    let folder = lab.file(name);
    let printed = said(lab, &["pack", "@last", "-o", text(&folder)], 0);
    assert!(
        printed.contains("packed 1 run into") && printed.contains("Next: weir pack --check"),
        "{printed}"
    );
    folder
}

fn check(lab: &Lab, folder: &Path, options: &[&str], code: i32) -> String {
    said(lab, &[&["pack", "--check", text(folder)], options].concat(), code)
}

/// Every file of a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.insert(entry.path(), fs::read(entry.path()).unwrap());
        }
    }
    found
}

/// The folder of the only run.
fn of_run(folder: &Path) -> PathBuf {
    fs::read_dir(folder.join("runs")).unwrap().next().unwrap().unwrap().path()
}

/// Makes the checksums of a folder anew, as whoever changes it by hand could.
fn sums_anew(folder: &Path) {
    let script =
        "find . -type f ! -name SHA256SUMS -printf '%P\\0' | sort -z | xargs -0 sha256sum > SHA256SUMS";
    assert!(Command::new("sh").args(["-c", script]).current_dir(folder).status().unwrap().success());
}

#[test]
fn a_pack_is_measured_again_in_a_clean_place_and_agrees() {
    let lab = measured();
    let folder = packed(&lab, "pack");
    let run = of_run(&folder);
    for file in ["plan.toml", "short.toml", "environment.txt", "page.html", "run.weir", "figures"] {
        assert!(run.join(file).exists(), "{file}");
    }
    let readme = fs::read_to_string(folder.join("README.md")).unwrap();
    for part in ["RFC 6815", "isolated lab", "./rerun.sh --short", "sha256:", "weir pack --check"] {
        assert!(readme.contains(part), "{part:?} is missing: {readme}");
    }
    let sums = Command::new("sha256sum").args(["--quiet", "-c", "SHA256SUMS"]).current_dir(&folder).status();
    assert!(sums.unwrap().success());
    // The same run gives the same pack.
    let other = packed(&lab, "other");
    let below = |folder: &Path| -> Vec<_> {
        let strip =
            |(path, bytes): (PathBuf, Vec<u8>)| (path.strip_prefix(folder).unwrap().to_owned(), bytes);
        files(folder).into_iter().map(strip).collect()
    };
    assert!(below(&folder) == below(&other));

    let printed = check(&lab, &folder, &["--short", "--bound", "50%"], 0);
    for part in
        ["all as SHA256SUMS says", "not signed", "ran    rerun.sh --short: exit code 0", " quantities "]
    {
        assert!(printed.contains(part), "{part:?} is missing: {printed}");
    }
    assert!(printed.contains("0 differ") && !printed.contains("WRONG"), "{printed}");
    assert!(lab.leftovers().is_empty(), "the clean place is cleared: {:?}", lab.leftovers());
    assert!(!folder.join("again").exists(), "the pack itself is left as it was");

    // By hand, as its page says; and what was measured there is no part of the pack.
    let by_hand = |script: &str, options: &[&str]| {
        let mut command = Command::new("sh");
        command.arg(folder.join(script)).args(options).env("WEIR", env!("CARGO_BIN_EXE_weir"));
        command.output().unwrap()
    };
    let before = ended(&by_hand("compare.sh", &[]), 2);
    assert!(before.contains("run ./rerun.sh"), "{before}");
    ended(&by_hand("rerun.sh", &["--long"]), 2);
    ended(&by_hand("rerun.sh", &["--short"]), 0);
    let compared = ended(&by_hand("compare.sh", &["--markdown"]), 0);
    assert!(compared.contains("| l2fwd | simulated |"), "{compared}");
    check(&lab, &folder, &["--files"], 0);
}

#[test]
fn a_hand_in_a_pack_is_found_out_whether_or_not_the_checksums_were_made_anew() {
    if !needs!(Need::Program("sha256sum", "coreutils"), Need::Program("find", "findutils")) {
        return;
    }
    let lab = measured();
    let folder = packed(&lab, "pack");
    let run = of_run(&folder);
    let figure = fs::read_dir(run.join("figures")).unwrap().map(|entry| entry.unwrap().path());
    let figure = figure.filter(|path| path.extension().is_some_and(|end| end == "csv")).min().unwrap();
    let name = |path: &Path| path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
    let bundle = run.join("run.weir");
    for path in [&figure, &run.join("plan.toml"), &folder.join("rerun.sh"), &bundle] {
        let whole = fs::read(path).unwrap();
        let mut changed = whole.clone();
        let place = changed.len() - 2;
        changed[place] ^= 1;
        fs::write(path, &changed).unwrap();
        let printed = check(&lab, &folder, &["--files"], 1);
        assert!(printed.contains(&format!("{} was changed", name(path))), "{printed}");
        assert!(printed.contains("changed by hand is no pack"), "{printed}");
        fs::write(path, whole).unwrap();
    }
    fs::write(folder.join("more.txt"), "more").unwrap();
    assert!(check(&lab, &folder, &["--files"], 1).contains("more.txt is not in SHA256SUMS"));
    fs::remove_file(folder.join("more.txt")).unwrap();

    // With new checksums: a figure is drawn again, a bundle has its own hashes, a script is not run.
    let whole = fs::read(&figure).unwrap();
    fs::write(&figure, "size,rate\n64,1e9\n").unwrap();
    sums_anew(&folder);
    let printed = check(&lab, &folder, &["--short"], 1);
    assert!(printed.contains(&format!("{} is not what its run gives", name(&figure))), "{printed}");
    assert!(!printed.contains("ran "), "nothing is measured for a pack that does not hold: {printed}");
    fs::write(&figure, whole).unwrap();

    let whole = fs::read(&bundle).unwrap();
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 0x40;
    fs::write(&bundle, changed).unwrap();
    sums_anew(&folder);
    let printed = check(&lab, &folder, &["--files"], 2);
    assert!(printed.contains("run.weir: "), "{printed}");
    fs::write(&bundle, whole).unwrap();

    let script = folder.join("rerun.sh");
    let marker = lab.file("was-run");
    let whole = fs::read_to_string(&script).unwrap();
    fs::write(&script, format!("{whole}touch {}\n", marker.display())).unwrap();
    sums_anew(&folder);
    let printed = check(&lab, &folder, &["--short"], 2);
    assert!(printed.contains("rerun.sh is not what this Weir writes") && !marker.exists(), "{printed}");
}

#[test]
fn what_cannot_be_packed_is_refused_and_leaves_nothing_behind() {
    let lab = measured();
    let folder = lab.file("pack");
    let refused = |words: &[&str]| said(&lab, &[&["pack"], words].concat(), 2);
    assert!(refused(&["no-such-run", "-o", text(&folder)]).contains("no-such-run"));
    assert!(refused(&["@last", "1", "-o", text(&folder)]).contains("named twice"));
    assert!(refused(&["@last"]).contains("--output"));
    let there = lab.file("tmp");
    assert!(refused(&["@last", "-o", text(&there)]).contains("it is there already"));
    assert!(refused(&["@last", "-o", text(&lab.file("no/such/folder"))]).contains("name another folder"));
    let raw = rusqlite::Connection::open(lab.file("weir.db")).unwrap();
    let change = "UPDATE results SET body = json_set(body, '$.throughput', 9e6) \
                  WHERE json_extract(body, '$.kind') = 'throughput'";
    assert!(raw.execute(change, []).unwrap() > 0);
    let error = refused(&["@last", "-o", text(&folder)]);
    assert!(
        error.contains("does not follow from its trials") && error.contains("weir verify @last"),
        "{error}"
    );
    assert!(!folder.exists());
    let left: Vec<_> = fs::read_dir(lab.file("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("weir-pack")), "{left:?}");

    for (words, why) in [
        (&["pack", "--check", text(&there)][..], "SHA256SUMS"),
        (&["pack", "--check", text(&lab.file("gone"))], "SHA256SUMS"),
    ] {
        let error = said(&lab, words, 2);
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn captures_of_a_plan_go_into_its_pack_and_missing_ones_are_named() {
    let plan = PLAN.replace("\"tr3i\"", "\"sub/site.pcap\"").replace("[64, 512, 1500]", "\"recorded\"");
    let lab = Lab::new(&plan);
    fs::create_dir(lab.file("sub")).unwrap();
    let mut generate = weir();
    generate.args(["trace", "gen", "flows:10", "--size", "64", "-o"]).arg(lab.file("sub/site.pcap"));
    ended(&generate.output().unwrap(), 0);
    lab.measure(0);
    let folder = packed(&lab, "pack");
    assert!(of_run(&folder).join("sub/site.pcap").is_file());
    fs::remove_file(lab.file("sub/site.pcap")).unwrap();
    let without = lab.file("without");
    let printed = said(&lab, &["pack", "@last", "-o", text(&without)], 0);
    assert!(printed.contains("note: sub/site.pcap is not in it"), "{printed}");
    let readme = fs::read_to_string(without.join("README.md")).unwrap();
    assert!(readme.contains("`sub/site.pcap`, which `runs/"), "{readme}");
}
