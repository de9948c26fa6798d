//! Runs on a PostgreSQL server: every command that takes `--db FILE` takes its address.

use crate::lab::{Lab, Working, told, weir};
use serde_json::Value;
use std::process::Output;
use weir_testkit::needs;
use weir_testkit::postgres::{LOCKED, Server};

/// A plan whose device is simulated, with every kind of noise: it takes as long as the store does.
fn plan(repeats: u32) -> String {
    format!(
        "nf = \"l2fwd\"\ndut = \"simulated\"\ntrace = \"tr3i\"\nsize = [64, 512]\nrepeats = {repeats}\n\
         [throughput]\ngoals = [\"ndr\"]\nbudget = \"60s\"\n\
         [goal.ndr]\nfinal_trial_duration = \"100ms\"\nduration_sum = \"300ms\"\n\
         [mrr]\ntrials = 3\n[latency]\nloads = [\"50% ndr\"]\n[simulated]\nnoise = \"1%\"\n"
    )
}

fn call(lab: &Lab, db: &str, words: &[&str]) -> Output {
    let mut command = weir();
    command.args(words).args(["--db", db]).current_dir(lab.file("")).env("WEIR_LEASES", lab.file("leases"));
    command.output().unwrap()
}

/// What a call that must succeed printed.
fn said(lab: &Lab, db: &str, words: &[&str]) -> String {
    let output = call(lab, db, words);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The error of a call that must end with this exit code.
fn refused(lab: &Lab, db: &str, words: &[&str], code: i32) -> String {
    let output = call(lab, db, words);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {}", told(&output));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn every_command_takes_a_server_as_it_takes_a_file() {
    if !needs!(Server::need()) {
        return;
    }
    let database = Server::shared().database();
    let server = database.address();
    let lab = Lab::new(&plan(2));
    let file = lab.file("weir.db").display().to_string();
    let measured = said(&lab, &server, &["bench", "plan.toml", "--name", "first"]);
    assert!(measured.contains(&format!("database  {server}\n")), "{measured}");
    assert!(measured.contains("page      first.html\n") && lab.file("first.html").exists(), "{measured}");
    said(&lab, &server, &["bench", "plan.toml", "--name", "second"]);
    for run in ["first", "second"] {
        let bundle = format!("{run}.weir");
        said(&lab, &server, &["export", run, "--bundle", "-o", &bundle]);
        said(&lab, &file, &["import", &bundle]);
    }
    for words in [
        &["runs"][..],
        &["runs", "--json"],
        &["show", "@last"],
        &["show", "first", "--environment"],
        &["show", "first", "--plan"],
        &["show", "1", "--json"],
        &["export", "second", "--csv"],
        &["export", "first", "--json"],
        &["report", "first", "-o", "page.html"],
        &["plot", "first"],
        &["rescore", "first", "--json"],
        &["verify", "first"],
        &["advise", "first", "--errors"],
    ] {
        let (there, here) = (call(&lab, &server, words), call(&lab, &file, words));
        assert_eq!(there.status.code(), here.status.code(), "{words:?}: {}{}", told(&there), told(&here));
        let text = |output: &Output| {
            String::from_utf8_lossy(&output.stdout).replace(&server, "DB").replace(&file, "DB")
        };
        assert_eq!(text(&there), text(&here), "{words:?}");
        assert!(there.status.code() != Some(2), "{words:?}: {}", told(&there));
    }
    let compare = |db: &str| {
        let output = call(&lab, db, &["compare", "first", "second", "--json"]);
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    };
    assert_eq!(compare(&server), compare(&file));
    // Back, and once.
    let other = Server::shared().database();
    let taken = said(&lab, &other.address(), &["import", "first.weir", "second.weir"]);
    assert_eq!(taken.matches("imported: ").count(), 2, "{taken}");
    let taken = said(&lab, &other.address(), &["import", "first.weir"]);
    assert!(taken.starts_with("already here: "), "{taken}");
    said(&lab, &other.address(), &["export", "first", "--bundle", "-o", "again.weir"]);
    let bytes = |name: &str| std::fs::read(lab.file(name)).unwrap();
    assert!(bytes("again.weir") == bytes("first.weir"), "what is exported there is what came");
}

#[test]
fn two_benches_at_once_keep_their_runs_on_one_server() {
    if !needs!(Server::need()) {
        return;
    }
    let database = Server::shared().database();
    let server = database.address();
    let labs = [Lab::new(&plan(4)), Lab::new(&plan(4))];
    let begin = |lab: &Lab| {
        let mut command = weir();
        command.args(["bench", "plan.toml", "--db", &server]).current_dir(lab.file(""));
        Working::start(command.env("WEIR_LEASES", lab.file("leases")))
    };
    for working in labs.each_ref().map(begin) {
        let output = working.end();
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    }
    let listed: Value = serde_json::from_str(&said(&labs[0], &server, &["runs", "--json"])).unwrap();
    let runs = listed["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    assert!(runs.iter().all(|run| run["state"] == "finished" && run["points"] == 2), "{runs:?}");
    assert_ne!(runs[0]["name"], runs[1]["name"]);
    for run in ["@last", "@last~1"] {
        said(&labs[0], &server, &["verify", run]);
    }
}

#[test]
fn no_password_is_printed_or_kept_and_mistakes_are_named_with_their_cure() {
    if !needs!(Server::need()) {
        return;
    }
    let database = Server::shared().database();
    database.psql(
        "DO $$ BEGIN CREATE ROLE locked LOGIN PASSWORD 'right'; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$",
    );
    database.psql("GRANT ALL ON SCHEMA public TO locked");
    let lab = Lab::new(&plan(1));
    let error = refused(&lab, &database.address_for(&format!("{LOCKED}:wr0ng")), &["runs"], 2);
    assert!(error.contains("password authentication failed") && !error.contains("wr0ng"), "{error}");

    let server = database.address_for(&format!("{LOCKED}:right"));
    let output = call(&lab, &server, &["bench", "plan.toml", "-o", "page.html"]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let printed = told(&output);
    assert!(printed.contains("postgres://locked@") && !printed.contains("right@"), "{printed}");
    let page = std::fs::read_to_string(lab.file("page.html")).unwrap();
    let run = said(&lab, &server, &["show", "@last", "--json"]);
    assert!(!page.contains("locked:right") && !run.contains("locked:right"));

    // The password of the environment, and of the password file.
    let with = |name: &str, value: &str| {
        let mut command = weir();
        command.args(["runs", "--db", &database.address_for(LOCKED)]).env("HOME", lab.file(""));
        command.env(name, value).output().unwrap()
    };
    assert_eq!(with("PGPASSWORD", "right").status.code(), Some(0));
    assert_eq!(with("PGPASSWORD", "left").status.code(), Some(2));
    std::fs::write(lab.file(".pgpass"), "localhost:5432:*:locked:right\n").unwrap();
    let output = with("PGUSER", "locked");
    assert!(told(&output).contains("chmod 600"), "{}", told(&output));
    std::fs::set_permissions(lab.file(".pgpass"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    let output = with("PGUSER", "locked");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));

    for (db, words) in [
        ("postgres://127.0.0.1:1/weir", &["cannot reach", "start the server"][..]),
        ("postgres://me@lab/weir?sslmode=require", &["speaks no TLS", "ssh tunnel"]),
        ("postgres://me@lab:x/weir", &["port", "postgres://USER@HOST/NAME"]),
    ] {
        let error = refused(&lab, db, &["show", "@last"], 2);
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}
