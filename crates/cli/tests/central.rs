//! A server for several: `weir account`, `weir push`, `weir serve --allow-push`, `weir backup` and `weir restore`.

use crate::lab::{Lab, told, wait_for, weir};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::Duration;
use weir_store::bundle::{Seal, write};
use weir_store::{Selector, Store};
use weir_testkit::needs;
use weir_testkit::postgres::Server;
use weir_trial::run::Run;

/// Two points of the simulated device: measured in no time, on no core.
const PLAN: &str = "name = \"pushed\"\nnf = \"l2fwd\"\ndut = \"simulated\"\nwiring = \"vhost\"\ntrace = \"tr3i\"\nsize = [64, 1500]\n\
                    [mrr]\ntrials = 3\nduration = \"100ms\"\n[simulated]\ncapacity = \"1Mpps\"\n";

/// A server that takes runs, killed with the test.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start(db: &str) -> Self {
        Self::with(db, &["--allow-push"])
    }

    /// One with these options.
    fn with(db: &str, options: &[&str]) -> Self {
        let mut command = weir();
        command.args(["serve", "--listen", "127.0.0.1:0", "--db", db]).args(options);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("://").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.unwrap_or_else(|| panic!("no address in `{line}`")).to_owned();
        Self { child, address }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The status of an answer, and its body; nothing where the server went away.
    fn ask(&self, method: &str, path: &str, token: Option<&str>, body: &[u8]) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        let bearer = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        let (host, length) = (&self.address, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{bearer}Content-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(body).ok()?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    fn get(&self, path: &str, token: Option<&str>) -> (u16, String) {
        self.ask("GET", path, token, b"").expect("the server answers")
    }

    /// Ends it as a crash would.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn call(words: &[&str]) -> Output {
    weir().args(words).env_remove("WEIR_TOKEN").output().unwrap()
}

/// What a call that must succeed printed.
fn said(words: &[&str]) -> String {
    let output = call(words);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The error of a call that must end with exit code 2.
fn refused(words: &[&str]) -> String {
    let output = call(words);
    assert_eq!(output.status.code(), Some(2), "{words:?}: {}", told(&output));
    String::from_utf8(output.stderr).unwrap()
}

/// A new account; its token.
fn account(db: &str, name: &str) -> String {
    let made: Value = serde_json::from_str(&said(&["account", "add", name, "--json", "--db", db])).unwrap();
    assert_eq!(made["accounts"][0]["name"], name);
    made["token"].as_str().unwrap().to_owned()
}

/// A machine that measured: its database, and a file with a token.
struct Machine {
    lab: Lab,
    db: String,
    token_file: PathBuf,
}

impl Machine {
    fn new(token: &str) -> Self {
        let lab = Lab::new(PLAN);
        let (db, token_file) = (lab.file("weir.db").display().to_string(), lab.file("token"));
        std::fs::write(&token_file, format!("{token}\n")).unwrap();
        std::fs::set_permissions(&token_file, std::fs::Permissions::from_mode(0o600)).unwrap();
        Self { lab, db, token_file }
    }

    /// Arguments of a push of runs, with something more.
    fn push<'a>(&'a self, url: &'a str, runs: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
        let token = self.token_file.to_str().unwrap();
        [&["push", url], runs, more, &["--token-file", token, "--db", &self.db]].concat()
    }
}

#[test]
fn two_accounts_push_from_two_databases_to_one_server_on_postgresql() {
    if !needs!(Server::need()) {
        return;
    }
    let database = Server::shared().database();
    let central = database.address();
    let tokens = [account(&central, "north"), account(&central, "south")];
    let machines = tokens.each_ref().map(|token| Machine::new(token));
    let runs = machines
        .each_ref()
        .map(|machine| [machine.lab.measure(0), machine.lab.measure(0), machine.lab.measure(0)]);
    let served = Served::start(&central);
    for (machine, runs) in machines.iter().zip(&runs) {
        for (run, visibility) in runs.iter().zip(["--public", "--unlisted", "--private"]) {
            let printed = said(&machine.push(&served.url(), &[&run.name], &[visibility]));
            assert!(printed.contains("under its licence for results: CC BY 4.0"), "{printed}");
            assert!(
                printed.contains("pushed: ") && printed.contains(&format!("/runs/{}", run.uuid)),
                "{printed}"
            );
        }
    }
    // Who sees what: in the list, and by the address.
    let listed = |token: Option<&str>| {
        let list: Value = serde_json::from_str(&served.get("/api/v1/runs", token).1).unwrap();
        list["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["uuid"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let uuid = |account: usize, run: usize| runs[account][run].uuid.clone();
    let (north, south) = (Some(tokens[0].as_str()), Some(tokens[1].as_str()));
    let sorted = |mut list: Vec<String>| {
        list.sort();
        list
    };
    assert_eq!(sorted(listed(None)), sorted(vec![uuid(0, 0), uuid(1, 0)]));
    assert_eq!(sorted(listed(north)), sorted(vec![uuid(0, 0), uuid(1, 0), uuid(0, 1), uuid(0, 2)]));
    for (asked, token, status) in [
        (uuid(0, 1), None, 200),
        (uuid(0, 1), south, 200),
        (uuid(0, 2), None, 404),
        (uuid(0, 2), south, 404),
        (uuid(0, 2), north, 200),
    ] {
        assert_eq!(served.get(&format!("/runs/{asked}"), token).0, status, "{asked}");
    }
    // Compared there as anywhere: both public ones are in another store as they were measured.
    let (base, with) = (uuid(0, 0), uuid(1, 0));
    let compared = served.get(&format!("/api/v1/compare?base={base}&with={with}"), None);
    assert_eq!(compared.0, 200, "{}", compared.1);
    for (machine, runs) in machines.iter().zip(&runs) {
        let kept: Run =
            serde_json::from_str(&served.get(&format!("/api/v1/runs/{}/run.json", runs[0].uuid), None).1)
                .unwrap();
        assert_eq!((&kept.points, &kept.plan), (&runs[0].points, &runs[0].plan));
        // Again: nothing is sent, and who may see it changes only where that is said.
        let again = said(&machine.push(&served.url(), &[&runs[2].name], &[]));
        assert!(again.contains("there already") && again.contains(", private\n"), "{again}");
        let all: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
        let document: Value =
            serde_json::from_str(&said(&machine.push(&served.url(), &all, &["--public", "--json"]))).unwrap();
        assert_eq!(document["runs"].as_array().unwrap().len(), 3);
        assert!(
            document["runs"]
                .as_array()
                .unwrap()
                .iter()
                .all(|run| run["visibility"] == "public" && run["became"] == "known"),
            "{document:#}"
        );
    }
    assert_eq!(listed(None).len(), 6);
    let list = said(&["account", "list", "--db", &central]);
    assert!(list.contains("north") && list.contains("3 of 1000") && !list.contains("never used"), "{list}");
    // A revoked token opens nothing, at once.
    said(&["account", "revoke", "south", "--db", &central]);
    let error = refused(&machines[1].push(&served.url(), &["@last"], &[]));
    assert!(error.contains("revoked"), "{error}");
}

#[test]
fn a_push_that_cannot_be_says_why_and_how_to_mend_it() {
    let lab = Lab::new(PLAN);
    let db = lab.file("central.db").display().to_string();
    let machine = Machine::new(&account(&db, "lab"));
    let run = machine.lab.measure(0);
    let served = Served::start(&db);
    let url = served.url();
    let file = machine.token_file.to_str().unwrap();
    let none = refused(&["push", &url, "@last", "--db", &machine.db]);
    assert!(none.contains("--token-file") && none.contains("WEIR_TOKEN"), "{none}");
    for (wrong, says) in [
        ("http://weir.example", "--allow-http"),
        ("ftp://127.0.0.1", "https://HOST"),
        ("https://lab:secret@127.0.0.1", "--token-file"),
        ("no address", "https://HOST"),
    ] {
        let error = refused(&machine.push(wrong, &["@last"], &[]));
        assert!(error.contains(says), "{wrong}: {error}");
    }
    let error = refused(&machine.push(&url, &["weasel"], &[]));
    assert!(error.contains("no run matches `weasel`"), "{error}");
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refused(&machine.push(&url, &["@last"], &[])).contains("chmod 600"));
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(file, "secret\n").unwrap();
    assert!(refused(&machine.push(&url, &["@last"], &[])).contains("one begins with `weir_`"));
    std::fs::write(file, format!("weir_{}_{}", "0".repeat(16), "0".repeat(64))).unwrap();
    let error = refused(&machine.push(&url, &["@last"], &[]));
    assert!(error.contains("the token is wrong"), "{error}");
    // What does not follow from its trials is refused as `weir import` refuses it.
    let token = account(&db, "other");
    std::fs::write(file, &token).unwrap();
    let mut changed = run.clone();
    changed.points[0].trials[0].result.directions[0].received += 7;
    let bundle = machine.lab.file("changed.weir");
    std::fs::write(&bundle, write(&changed, &serde_json::json!({}), Seal::None).unwrap().bytes).unwrap();
    let error = refused(&machine.push(&url, &[bundle.to_str().unwrap()], &[]));
    assert!(error.contains("does not follow from its trials"), "{error}");
    let imported = refused(&["import", bundle.to_str().unwrap(), "--db", &machine.db]);
    let why = |text: &str| text.split("is not taken: ").nth(1).unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(why(&error), why(&imported), "both say the same");
    // Of several, those that are good are there.
    let output = call(&machine.push(&url, &[bundle.to_str().unwrap(), &run.name], &["--public"]));
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("pushed: "), "{}", told(&output));
    assert_eq!(served.get(&format!("/runs/{}", run.uuid), None).0, 200);
}

#[test]
fn a_push_over_tls_trusts_the_certificate_that_it_is_given_and_no_other() {
    let lab = Lab::new(PLAN);
    let db = lab.file("central.db").display().to_string();
    let machine = Machine::new(&account(&db, "lab"));
    let run = machine.lab.measure(0);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(lab.file(name), text).unwrap();
        lab.file(name).display().to_string()
    };
    let (certificate, key) =
        (file("cert.pem", &made.cert.pem()), file("key.pem", &made.signing_key.serialize_pem()));
    let options = ["--allow-push", "--tls-cert", &certificate, "--tls-key", &key];
    let served = Served::with(&db, &options);
    let url = format!("https://localhost:{}", served.address.rsplit(':').next().unwrap());
    let printed = said(&machine.push(&url, &[&run.name], &["--public", "--ca-cert", &certificate]));
    assert!(
        printed.contains("pushed: ") && printed.contains(&format!("{url}/runs/{}", run.uuid)),
        "{printed}"
    );
    let error = refused(&machine.push(&url, &[&run.name], &[]));
    assert!(error.contains("cannot reach") && error.contains("certificate"), "{error}");
    // Files that are no good are named, with what is wrong.
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = file("other.pem", &other.signing_key.serialize_pem());
    let absent = lab.file("none.pem").display().to_string();
    for (certificate, key, says) in [
        (&absent, &key, ["--tls-cert", "none.pem: No such file"]),
        (&key, &key, ["--tls-cert", "there is no certificate in it"]),
        (&certificate, &certificate, ["--tls-key", "there is no private key in it"]),
        (&certificate, &other, ["--tls-key", "it is not the key of the certificate"]),
    ] {
        let error = refused(&[
            "serve",
            "--db",
            &db,
            "--listen",
            "127.0.0.1:0",
            "--tls-cert",
            certificate,
            "--tls-key",
            key,
        ]);
        assert!(says.iter().all(|said| error.contains(said)), "{error}");
    }
    assert!(refused(&["serve", "--db", &db, "--tls-cert", &certificate]).contains("--tls-key"));
}

#[test]
fn nobody_is_told_where_the_database_is() {
    if !needs!(Server::need()) {
        return;
    }
    let database = Server::shared().database();
    let central = database.address();
    let token = account(&central, "lab");
    let machine = Machine::new(&token);
    let run = machine.lab.measure(0);
    let servers = [Served::start(&central), Served::with(&central, &[])];
    said(&machine.push(&servers[0].url(), &[&run.name], &["--public"]));
    let paths = [
        "/runs".to_owned(),
        format!("/runs/{}", run.uuid),
        format!("/runs/{}/points/0", run.uuid),
        format!("/figures?run={}", run.uuid),
        "/history?nf=l2fwd".to_owned(),
        format!("/compare?base={0}&with={0}", run.uuid),
        "/runs/weasel".to_owned(),
        "/runs/@last~7".to_owned(),
        "/nowhere".to_owned(),
        "/runs?nonsense=1".to_owned(),
        "/api/v1/runs/weasel".to_owned(),
        "/account".to_owned(),
    ];
    let socket = central.split('@').nth(1).unwrap().split('/').next().unwrap();
    // A run says who else was at work: the server of these tests may have been.
    let busiest = run.environment.get("load.busiest").map(|names| names.to_lowercase()).unwrap_or_default();
    let told = |after: &str| {
        let mut statuses = Vec::new();
        for (served, path) in servers.iter().flat_map(|served| paths.iter().map(move |path| (served, path))) {
            let (status, body) = served.get(path, None);
            let said = body.to_lowercase().replace(&busiest, "");
            for secret in [central.as_str(), socket, &socket.replace("%2F", "/"), "postgres"] {
                assert!(!said.contains(secret), "{after} {path} ({status}) tells {secret}: {body}");
            }
            statuses.push(status);
        }
        statuses
    };
    let statuses = told("at rest");
    assert!([200, 400, 404].iter().all(|status| statuses.contains(status)), "{statuses:?}");
    database.psql("ALTER TABLE points RENAME TO elsewhere");
    let statuses = told("with a table gone");
    assert!(statuses.contains(&500), "{statuses:?}");
    database.psql("ALTER TABLE elsewhere RENAME TO points");
}

/// A run under another identity, as a bundle.
fn another(run: &Run, number: usize) -> (String, Vec<u8>) {
    let uuid = format!("01938f2e-0000-7000-8000-{number:012}");
    let run = Run { id: 0, uuid: uuid.clone(), name: format!("{}-{number}", run.name), ..run.clone() };
    let bytes = write(&run, &serde_json::json!({}), Seal::None).unwrap().bytes;
    (uuid, bytes)
}

/// What a store must be after servers were killed: all that was acknowledged, and nothing half.
fn check_kept(db: &str, run: &Run, acknowledged: &[String]) {
    let store = Store::open_existing(Some(Path::new(db))).unwrap();
    for uuid in acknowledged {
        assert!(store.find(&Selector::Name(uuid.clone())).is_ok(), "{uuid} was acknowledged and is gone");
    }
    for line in store.runs().unwrap() {
        let id = store.find(&Selector::Number(line.id)).unwrap();
        assert_eq!(store.load(id).unwrap().points, run.points, "{} is half there", line.name);
        assert!(store.share(id).unwrap().is_some(), "{} is nobody's", line.name);
    }
}

/// Pushes while the server is killed after so many milliseconds; whether it was acknowledged.
fn push_and_kill(served: Served, token: &str, bundle: &[u8], after_ms: u64) -> bool {
    let status = std::thread::scope(|scope| {
        let push = scope.spawn(|| served.ask("POST", "/api/v1/runs?visibility=public", Some(token), bundle));
        std::thread::sleep(Duration::from_millis(after_ms));
        let process = nix::unistd::Pid::from_raw(served.child.id().try_into().unwrap());
        nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGKILL).unwrap();
        push.join().unwrap()
    });
    served.kill();
    status.is_some_and(|(status, _)| matches!(status, 200 | 201))
}

#[test]
fn whatever_a_killed_server_acknowledged_is_kept_and_nothing_is_half_there() {
    let lab = Lab::new(PLAN);
    let run = lab.measure(0);
    let db = lab.file("central.db").display().to_string();
    let token = account(&db, "lab");
    let mut acknowledged = Vec::new();
    for (number, after_ms) in [0, 5, 15, 30, 60, 120, 2000].into_iter().enumerate() {
        let (uuid, bundle) = another(&run, number);
        if push_and_kill(Served::start(&db), &token, &bundle, after_ms) {
            acknowledged.push(uuid);
        }
    }
    check_kept(&db, &run, &acknowledged);
    assert!(!acknowledged.is_empty(), "two seconds are enough for one");
    // What was not acknowledged is pushed again, and what was kept without a word is known.
    let served = Served::start(&db);
    for number in 0..7 {
        let (_, bundle) = another(&run, number);
        let (status, said) = served.ask("POST", "/api/v1/runs", Some(&token), &bundle).unwrap();
        assert!(matches!(status, 200 | 201), "{status} {said}");
    }
    check_kept(&db, &run, &[]);
}

#[test]
fn a_postgresql_that_is_killed_during_uploads_loses_nothing_that_was_acknowledged() {
    if !needs!(Server::need()) {
        return;
    }
    let lab = Lab::new(PLAN);
    let run = lab.measure(0);
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::own(folder.path());
    let db = server.address("weir", "postgres") + "?connect_timeout=1";
    let token = account(&db, "lab");
    let served = Served::start(&db);
    let mut acknowledged = Vec::new();
    for (number, after_ms) in [20, 60].into_iter().enumerate() {
        let (uuid, bundle) = another(&run, number);
        let pushed = std::thread::scope(|scope| {
            let push = scope.spawn(|| served.ask("POST", "/api/v1/runs", Some(&token), &bundle));
            std::thread::sleep(Duration::from_millis(after_ms));
            server.stop(true);
            server.start();
            push.join().unwrap()
        });
        match pushed {
            Some((200 | 201, _)) => acknowledged.push(uuid),
            Some((500 | 503, _)) | None => {}
            Some((status, said)) => panic!("{status} {said}"),
        }
    }
    // The server of pages goes on by itself.
    wait_for("the server to have its database again", || (served.get("/runs", None).0 == 200).then_some(()));
    check_kept(&db, &run, &acknowledged);
}

#[test]
fn a_backup_of_a_server_is_restored_into_a_file_and_back_with_every_number() {
    if !needs!(Server::need()) {
        return;
    }
    let (database, again) = (Server::shared().database(), Server::shared().database());
    let (central, restored) = (database.address(), again.address());
    let lab = Lab::new(PLAN);
    let measured = lab.measure(0);
    let token = account(&central, "lab");
    let (_, bundle) = another(&measured, 1);
    let served = Served::start(&central);
    assert_eq!(served.ask("POST", "/api/v1/runs", Some(&token), &bundle).unwrap().0, 201);
    let file = lab.file("backup.db").display().to_string();
    let printed = said(&["backup", "-o", &file, "--db", &central]);
    assert!(printed.contains("1 runs") && printed.contains("1 accounts"), "{printed}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0, "it has hashes of tokens");
    assert!(refused(&["backup", "-o", &file, "--db", &central]).contains("name another file"));
    said(&["restore", &file, "--db", &restored]);
    for words in [&["export", "@last", "--json"][..], &["runs", "--json"], &["account", "list", "--json"]] {
        let of = |db: &str| said(&[words, &["--db", db]].concat());
        assert_eq!(of(&central), of(&restored), "{words:?}");
        assert_eq!(of(&central), of(&file), "{words:?}");
    }
    let full = refused(&["restore", &file, "--db", &restored]);
    assert!(full.contains("holds something already") && full.contains("--db"), "{full}");
    let again = Served::start(&restored);
    assert_eq!(again.get("/api/v1/account", Some(&token)).0, 200, "its token is good there");
    assert!(refused(&["restore", &file]).contains("--db"));
}
