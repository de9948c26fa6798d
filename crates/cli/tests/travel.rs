//! Results that travel: bundles from one machine's store into another's.

use crate::lab::{Lab, told, weir};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use weir_testkit::{Need, needs};
use weir_trial::run::Run;

/// A plan of some seconds whose device is simulated, with every kind of noise: two runs of it differ.
fn plan(noise: &str) -> String {
    format!(
        "nf = \"l2fwd\"\ndut = \"simulated\"\ntrace = \"tr3i\"\nsize = [64, 512]\nrepeats = 2\n\
         [throughput]\ngoals = [\"ndr\"]\nbudget = \"60s\"\n\
         [goal.ndr]\nfinal_trial_duration = \"100ms\"\nduration_sum = \"300ms\"\n\
         [mrr]\ntrials = 3\n[latency]\nloads = [\"50% ndr\"]\n[simulated]\nnoise = \"{noise}\"\n"
    )
}

/// A machine with one run.
struct Machine {
    lab: Lab,
    run: Run,
}

impl Machine {
    fn measured(noise: &str) -> Self {
        let lab = Lab::new(&plan(noise));
        let run = lab.measure(0);
        Self { lab, run }
    }

    fn db(&self) -> PathBuf {
        self.lab.file("weir.db")
    }

    fn bundle(&self) -> PathBuf {
        let file = self.lab.file("run.weir");
        said(&self.db(), &["export", "@last", "--bundle", "-o", text(&file)]);
        file
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn with_db(db: &Path, words: &[&str]) -> Output {
    weir().args(words).arg("--db").arg(db).output().unwrap()
}

/// What a call that must succeed printed.
fn said(db: &Path, words: &[&str]) -> String {
    let output = with_db(db, words);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The error of a call that must end with exit code 2.
fn refused(db: &Path, words: &[&str]) -> String {
    let output = with_db(db, words);
    assert_eq!(output.status.code(), Some(2), "{words:?}: {}", told(&output));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_bundle_gives_another_store_the_same_run_to_the_byte() {
    let machine = Machine::measured("1%");
    let file = machine.bundle();
    let bytes = std::fs::read(&file).unwrap();
    let other = machine.lab.file("other.db");

    let verified = weir().arg("verify").arg(&file).output().unwrap();
    assert_eq!(verified.status.code(), Some(0), "{}", told(&verified));
    let printed = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(
        printed.contains("HOLDS") && printed.contains("13 parts, all as hashed; not signed"),
        "{printed}"
    );
    assert!(printed.contains(&machine.run.uuid), "{printed}");

    let first = said(&other, &["import", text(&file)]);
    assert!(first.starts_with("imported: ") && first.contains("Next: weir show"), "{first}");
    let second = said(&other, &["import", text(&file)]);
    assert!(second.starts_with("already here: "), "{second}");
    let listed: Value = serde_json::from_str(&said(&other, &["runs", "--json"])).unwrap();
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1);

    for reader in [
        &["show", "@last", "--environment"][..],
        &["show", "@last", "--json"],
        &["show", "@last", "--plan"],
        &["export", "@last", "--csv"],
        &["rescore", "@last", "--json"],
        &["verify", "@last"],
    ] {
        // The command that is suggested names the database.
        let there = said(&other, reader).replace(text(&other), text(&machine.db()));
        assert!(there == said(&machine.db(), reader), "{reader:?}: {there}");
    }
    let again = machine.lab.file("again.weir");
    said(&other, &["export", "@last", "--bundle", "-o", text(&again)]);
    assert!(std::fs::read(&again).unwrap() == bytes, "what is exported there is what came");
    // A bundle is read where it lies, too.
    let shown = said(&other, &["show", text(&file)]);
    assert!(shown.contains(&machine.run.name) && shown.contains(&machine.run.uuid), "{shown}");
}

#[test]
fn runs_of_two_machines_compare_in_a_third_store_as_they_do_apart() {
    let machines = [Machine::measured("1%"), Machine::measured("2%")];
    let whole = machines[0].lab.file("whole.db");
    let files = [machines[0].bundle(), machines[1].bundle()];
    said(&whole, &["import", text(&files[0]), text(&files[1])]);
    let apart: Vec<PathBuf> = machines
        .iter()
        .map(|machine| {
            let file = machine.lab.file("run.json");
            said(&machine.db(), &["export", "@last", "--json", "-o", text(&file)]);
            file
        })
        .collect();
    let names = [machines[0].run.name.as_str(), machines[1].run.name.as_str()];
    for form in [&[][..], &["--json"], &["--markdown"]] {
        let compare = |a: &str, b: &str| {
            let output = with_db(&whole, &[&["compare", a, b], form].concat());
            assert!(output.stderr.is_empty() && !output.stdout.is_empty(), "{}", told(&output));
            (String::from_utf8(output.stdout).unwrap(), output.status.code())
        };
        let together = compare(names[0], names[1]);
        let mut before = compare(text(&apart[0]), text(&apart[1]));
        for (n, name) in names.iter().enumerate() {
            before.0 = before.0.replace(text(&apart[n]), name);
        }
        assert_eq!(together, before);
        assert_eq!(compare(text(&files[0]), text(&files[1])), together, "bundles compare without a store");
    }
    let same = refused(&whole, &["compare", names[0], text(&files[0])]);
    assert!(same.contains("both sides are run"), "{same}");
}

#[test]
fn results_that_do_not_follow_from_their_trials_are_not_imported() {
    let machine = Machine::measured("1%");
    let raw = rusqlite::Connection::open(machine.db()).unwrap();
    let change = "UPDATE results SET body = json_set(body, '$.throughput', 9e6) \
                  WHERE json_extract(body, '$.kind') = 'throughput'";
    assert!(raw.execute(change, []).unwrap() > 0);
    drop(raw);
    let file = machine.lab.file("run.weir");
    let exported = said(&machine.db(), &["export", "--bundle", "-o", text(&file)]);
    assert!(exported.contains("do not follow from its trials"), "{exported}");
    let other = machine.lab.file("other.db");
    let error = refused(&other, &["import", text(&file)]);
    for part in ["point 0, ndr: ", "9.000 Mpps stored", "weir verify", "--accept-differences"] {
        assert!(error.contains(part), "{part:?} is missing: {error}");
    }
    assert!(said(&other, &["runs"]).contains("no runs"), "nothing of it was kept");
    let verified = weir().arg("verify").arg(&file).output().unwrap();
    assert_eq!(verified.status.code(), Some(1), "{}", told(&verified));

    let taken = said(&other, &["import", "--accept-differences", text(&file)]);
    assert!(taken.contains("differences from what its trials say"), "{taken}");
}

#[test]
fn a_bundle_is_a_folder_to_other_programs_and_a_hand_in_it_is_found_out() {
    if !needs!(Need::Program("tar", "tar"), Need::Program("gzip", "gzip")) {
        return;
    }
    let machine = Machine::measured("1%");
    let (file, other) = (machine.bundle(), machine.lab.file("other.db"));
    let folder = machine.lab.file("unpacked");
    std::fs::create_dir(&folder).unwrap();
    let shell = |script: &str| {
        let output = Command::new("sh").args(["-ec", script]).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let names = shell("tar xvzf ../run.weir");
    assert!(names.starts_with("manifest.json\nrun.json\nplan.toml\n"), "{names}");
    assert_eq!(std::fs::read_to_string(folder.join("plan.toml")).unwrap(), machine.run.plan);
    let pack = "tar --format=ustar -cf - $(tar tzf ../run.weir) | gzip -9";

    // Put together again by somebody else's programs, it is the same run.
    shell(&format!("{pack} > ../theirs.weir"));
    let theirs = machine.lab.file("theirs.weir");
    assert!(std::fs::read(&theirs).unwrap() != std::fs::read(&file).unwrap());
    said(&other, &["import", text(&theirs)]);
    assert!(said(&other, &["import", text(&file)]).contains("already here"));

    shell(&format!("sed -i s/9/8/ points/1/results.json && {pack} > ../changed.weir"));
    let error = refused(&other, &["import", text(&machine.lab.file("changed.weir"))]);
    assert!(error.contains("changed.weir: `points/1/results.json` was changed: its sha256 is"), "{error}");

    // One that is refused does not keep the others out.
    let third = machine.lab.file("third.db");
    let output = with_db(&third, &["import", text(&machine.lab.file("changed.weir")), text(&file)]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("imported: "), "{}", told(&output));
}

#[test]
fn only_what_is_signed_with_a_trusted_key_is_taken_where_trust_is_asked_for() {
    if !needs!(Need::Program("openssl", "openssl")) {
        return;
    }
    let machine = Machine::measured("1%");
    let file = |name: &str| machine.lab.file(name);
    for name in ["lab", "other"] {
        let openssl = |words: &[&str]| {
            let output = Command::new("openssl").args(words).output().unwrap();
            assert!(output.status.success(), "{}", told(&output));
        };
        let (key, public) = (file(&format!("{name}.pem")), file(&format!("{name}.pub")));
        openssl(&["genpkey", "-algorithm", "ed25519", "-out", text(&key)]);
        openssl(&["pkey", "-in", text(&key), "-pubout", "-out", text(&public)]);
    }
    let (plain, signed) = (machine.bundle(), file("signed.weir"));
    let sign =
        ["export", "--bundle", "--sign", text(&file("lab.pem")), "-o", text(&signed)].map(str::to_owned);
    said(&machine.db(), &sign.each_ref().map(String::as_str));
    let (ours, theirs) = (file("lab.pub"), file("other.pub"));
    let db = file("trusting.db");
    let error = refused(&db, &["import", "--trust", text(&ours), text(&plain)]);
    assert!(error.contains("not signed"), "{error}");
    let error = refused(&db, &["import", "--trust", text(&theirs), text(&signed)]);
    assert!(error.contains("signed with ed25519:") && error.contains("--trust"), "{error}");
    let taken = said(&db, &["import", "--trust", text(&theirs), "--trust", text(&ours), text(&signed)]);
    assert!(taken.contains("signed with ed25519:"), "{taken}");
    // The signature goes on with the run.
    let again = file("again.weir");
    said(&db, &["export", "--bundle", "-o", text(&again)]);
    assert!(std::fs::read(&again).unwrap() == std::fs::read(&signed).unwrap());
}

#[test]
fn files_that_are_no_bundles_are_refused_with_what_they_lack() {
    let lab = Lab::new("");
    let db = lab.file("weir.db");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(lab.file(name), bytes).unwrap();
        lab.file(name)
    };
    for (file, why) in [
        (write("text.weir", b"hello"), "not gzip's"),
        (write("empty.weir", b""), "the file is empty"),
        (write("cut.weir", &[0x1f, 0x8b, 8, 0]), "cut off"),
        (lab.file("gone.weir"), "No such file"),
        (lab.file("tmp"), "directory"),
    ] {
        let error = refused(&db, &["import", text(&file)]);
        assert!(error.contains(why) && error.contains(text(&file)), "{error}");
    }
    let error = refused(&db, &["export", "--bundle"]);
    assert!(error.contains("--output"), "{error}");
}

/// The schemas that lie beside one another.
struct Beside;

impl jsonschema::Retrieve for Beside {
    fn retrieve(
        &self,
        uri: &jsonschema::Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let name = uri.path().as_str().rsplit('/').next().unwrap_or_default().to_owned();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas").join(name);
        Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
    }
}

#[test]
fn readers_say_of_a_path_without_a_bundle_what_is_wrong_with_the_file() {
    let machine = Machine::measured("1%");
    let (db, empty) = (machine.db(), machine.lab.file("empty.db"));
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(machine.lab.file(name), bytes).unwrap();
        machine.lab.file(name)
    };
    let written = "`weir export RUN --bundle -o FILE` writes";
    let cases = [
        (write("bad.weir", &[0x9c, 0x03, 0xff, 0x00, 0x41]), ["this is no bundle (its first bytes", written]),
        (write("bare", b"hello"), ["this is no bundle (its first bytes", written]),
        (write("nothing", b""), ["this is no bundle (the file is empty)", written]),
        (write("cut.weir", &[0x1f, 0x8b, 8, 0]), ["cut off", "copy it again"]),
        (write("bad.json", b"{}"), ["missing field", "`weir export --json` writes"]),
        (machine.lab.file("gone.weir"), ["there is no such file", written]),
        (machine.lab.file("gone"), ["there is no such file", "`weir runs` lists"]),
        (machine.lab.file("tmp"), ["this is a folder", written]),
        (PathBuf::from("/dev/null"), ["no regular file", written]),
    ];
    for (file, parts) in &cases {
        let readers = [&["verify"][..], &["show"], &["export", "--json"], &["report"]];
        for (words, db) in readers.into_iter().map(|words| (words, &db)).chain([(&["verify"][..], &empty)]) {
            let error = refused(db, &[words, &[text(file)]].concat());
            for part in parts.iter().chain([&text(file)]) {
                assert!(error.contains(part), "{words:?} {}: {part:?} is missing: {error}", file.display());
            }
        }
        let error = refused(&db, &["compare", "@last", text(file)]);
        assert!(parts.iter().all(|part| error.contains(part)), "compare {}: {error}", file.display());
    }
    assert!(!empty.exists(), "a question makes no file");

    // Named from the folder that it is in, a file is told from a run, too.
    let here = |name: &str, db: &Path| {
        let mut command = weir();
        command.current_dir(db.parent().unwrap()).args(["verify", name, "--db"]).arg(db);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(here("bare", &db).contains("bare: this is no bundle"));
    assert!(here("gone.weir", &db).contains("gone.weir: there is no such file"));
    assert!(here("gone", &db).contains("no run matches `gone`"));
    // A run is found by its name, whatever else has it.
    write(&machine.run.name, b"hello");
    assert!(said(&db, &["show", &machine.run.name]).contains(&machine.run.uuid));
}

#[test]
fn the_documents_of_a_bundle_keep_to_their_schema() {
    if !needs!(Need::Program("tar", "tar")) {
        return;
    }
    let machine = Machine::measured("1%");
    machine.bundle();
    let folder = machine.lab.file("unpacked");
    std::fs::create_dir(&folder).unwrap();
    let unpacked = Command::new("tar").args(["xzf", "../run.weir"]).current_dir(&folder).status().unwrap();
    assert!(unpacked.success());
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/bundle.schema.json");
    let schema = serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let json = |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap();
    let trials = read("points/1/trials.jsonl");
    assert!(trials.lines().count() > 5);
    let validator = jsonschema::options().with_retriever(Beside).build(&schema).unwrap();
    for trial in trials.lines().take(3) {
        let documents = serde_json::json!({
            "manifest": json("manifest.json"),
            "run": json("run.json"),
            "thresholds": json("thresholds.json"),
            "segments": json("segments.json"),
            "texts": json("texts.json"),
            "point": json("points/1/point.json"),
            "configuration": json("points/1/configuration.json"),
            "results": json("points/1/results.json"),
            "trial": serde_json::from_str::<Value>(trial).unwrap(),
        });
        let faults: Vec<_> = validator.iter_errors(&documents).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{faults:#?}");
    }
    assert_eq!(json("thresholds.json")["goals"][0]["name"], "ndr");
    assert!(json("thresholds.json")["verdicts"]["unsent_ratio"].as_f64().unwrap() > 0.0);
}
