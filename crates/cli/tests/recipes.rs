//! What measures a change against its base in other people's CI: the recipe `measure.sh`, and the action for GitHub, whose steps run
//! here as its runner runs them (`scripts/action.py`), against a stand-in of its API.

use crate::lab::told;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use weir_testkit::Need;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Two folders with a plan each, whose simulated devices have these capacities.
struct Change(tempfile::TempDir);

impl Change {
    fn of(base: &str, change: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (place, capacity, seed) in [("base", base, 1), ("change", change, 2)] {
            let plan = format!(
                "nf = \"l2fwd\"\ndut = \"simulated\"\ntrace = \"simple\"\nsize = 64\nrepeats = 4\n\
                 [mrr]\ntrials = 5\nduration = \"100ms\"\n\
                 [simulated]\ncapacity = \"{capacity}\"\nnoise = \"1%\"\nseed = {seed}\n"
            );
            fs::create_dir(folder.path().join(place)).unwrap();
            fs::write(folder.path().join(place).join("weir.toml"), plan).unwrap();
        }
        Self(folder)
    }

    /// Measured by the recipe: the exit code, and the verdict.
    fn measured(&self) -> (Option<i32>, String) {
        let mut command = Command::new(root().join("packaging/ci/measure.sh"));
        command.args(["base", "change", "3%"]).current_dir(&self.0).env("WEIR", env!("CARGO_BIN_EXE_weir"));
        let done = command.output().unwrap();
        let verdict = fs::read_to_string(self.0.path().join("weir-results/verdict.md"));
        (done.status.code(), verdict.unwrap_or_else(|error| panic!("{error}: {}", told(&done))))
    }

    /// Measured by the action, for the pull request 7 of a repository that is at this address.
    fn acted(&self, api: &str, inputs: &[&str]) -> Output {
        let folder = Path::new(env!("CARGO_BIN_EXE_weir")).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(python());
        command.arg(root().join("scripts/action.py")).arg(root().join("packaging/ci"));
        command.arg("--workspace").arg(self.0.path()).args(["--pull-request", "7"]).args(inputs);
        command.env("PATH", path).env("GITHUB_API_URL", api).env("GITHUB_REPOSITORY", "lab/dataplane");
        command.env("GITHUB_TOKEN", "a-token").output().unwrap()
    }
}

fn python() -> PathBuf {
    root().join(".weir/venv/bin/python")
}

/// The comments of a pull request, and what was asked of them.
#[derive(Default)]
struct Comments {
    all: Vec<(u64, String)>,
    asked: Vec<String>,
    /// Whether the token may write.
    is_fork: bool,
}

/// GitHub, as far as comments of the pull request 7 go.
struct GitHub {
    address: String,
    comments: Arc<Mutex<Comments>>,
}

impl GitHub {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let stranger = (3, "I wonder how quick it is.".to_owned());
        let comments = Arc::new(Mutex::new(Comments { all: vec![stranger], ..Comments::default() }));
        let there = Arc::clone(&comments);
        // It ends with the test's process.
        std::thread::spawn(move || listener.incoming().for_each(|stream| answer(stream.unwrap(), &there)));
        Self { address, comments }
    }
}

fn answer(mut stream: TcpStream, comments: &Mutex<Comments>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = Vec::new();
    while !head.last().is_some_and(|line: &String| line.trim().is_empty()) {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        head.push(line);
    }
    let of = |name: &str| {
        head.iter().find_map(|line| line.to_lowercase().strip_prefix(name).map(str::trim).map(str::to_owned))
    };
    assert_eq!(of("authorization: bearer").as_deref(), Some("a-token"));
    let mut body = vec![0; of("content-length:").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    let said = || serde_json::from_slice::<Value>(&body).unwrap()["body"].as_str().unwrap().to_owned();
    let mut comments = comments.lock().unwrap();
    let words: Vec<&str> = head[0].split(' ').collect();
    comments.asked.push(words[..2].join(" "));
    let (status, answer) = match (words[0], words[1].split('?').next().unwrap()) {
        ("GET", "/repos/lab/dataplane/issues/7/comments") => {
            let is_first = words[1].ends_with("page=1");
            let all = comments.all.iter().filter(|_| is_first);
            (200, Value::from(all.map(|(id, body)| json!({ "id": id, "body": body })).collect::<Vec<_>>()))
        }
        _ if comments.is_fork => (403, json!({ "message": "Resource not accessible by integration" })),
        ("POST", "/repos/lab/dataplane/issues/7/comments") => {
            comments.all.push((9, said()));
            (201, json!({ "html_url": "https://github.example/9" }))
        }
        ("PATCH", path) => {
            let id: u64 =
                path.strip_prefix("/repos/lab/dataplane/issues/comments/").unwrap().parse().unwrap();
            comments.all.iter_mut().find(|(known, _)| *known == id).unwrap().1 = said();
            (200, json!({ "html_url": "https://github.example/9" }))
        }
        _ => (404, json!({})),
    };
    let text = answer.to_string();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
    .unwrap();
}

#[test]
fn the_recipe_for_ci_refuses_a_change_that_is_ten_percent_slower_and_no_other() {
    let (code, verdict) = Change::of("1Mpps", "0.9Mpps").measured();
    assert!(code == Some(1) && verdict.contains("Bound of 3 %: BROKEN in 1 of 1 row"), "{code:?}: {verdict}");
    let (code, verdict) = Change::of("1Mpps", "1Mpps").measured();
    assert!(code == Some(0) && verdict.contains("Bound of 3 %: not broken"), "{code:?}: {verdict}");
}

#[test]
fn the_action_fails_a_slower_change_passes_another_and_keeps_one_comment_with_the_last_verdict() {
    let yaml = Need::Found("PyYAML".to_owned(), python().exists(), "./x site".to_owned());
    if !weir_testkit::needs!(yaml) {
        return;
    }
    let github = GitHub::new();
    let slower = Change::of("1Mpps", "0.9Mpps");
    let done = slower.acted(&github.address, &["bound=3%"]);
    assert_eq!(done.status.code(), Some(1), "{}", told(&done));
    let all = github.comments.lock().unwrap().all.clone();
    assert!(
        all.len() == 2 && all[1].1.contains("Bound of 3 %: BROKEN in 1 of 1 row"),
        "{all:?}\n{}",
        told(&done)
    );
    assert!(
        told(&done).contains("-- the summary") && told(&done).contains("https://github.example/9"),
        "{}",
        told(&done)
    );
    // The next push to the pull request: in the same folder of the runner, and no slower.
    let mended = Change::of("1Mpps", "1Mpps");
    fs::copy(mended.0.path().join("change/weir.toml"), slower.0.path().join("change/weir.toml")).unwrap();
    let done = slower.acted(&github.address, &["bound=3%"]);
    assert_eq!(done.status.code(), Some(0), "{}", told(&done));
    let all = github.comments.lock().unwrap().all.clone();
    assert!(all.len() == 2 && all[1].1.contains("Bound of 3 %: not broken"), "{all:?}");
    assert_eq!(all[0].1, "I wonder how quick it is.", "a comment of somebody else's is left alone");
    // A fork's token may not write; that is said, and the verdict stands.
    github.comments.lock().unwrap().is_fork = true;
    let done = slower.acted(&github.address, &[]);
    assert!(
        done.status.success() && told(&done).contains("may not write to pull requests"),
        "{}",
        told(&done)
    );
    // Nor is anything said where that was not asked for.
    let before = github.comments.lock().unwrap().asked.len();
    let done = slower.acted(&github.address, &["comment=false"]);
    assert!(done.status.success() && told(&done).contains("none was asked for"), "{}", told(&done));
    assert_eq!(github.comments.lock().unwrap().asked.len(), before);
}

#[test]
fn a_package_that_is_not_the_one_that_was_meant_is_not_installed() {
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("weir.deb");
    fs::write(&package, "no package").unwrap();
    let install = |package: &str, sum: &str| {
        let mut command = Command::new(root().join("packaging/ci/install.sh"));
        command.env("WEIR_PACKAGE", package).env("WEIR_SHA256", sum).output().unwrap()
    };
    for (package, sum, code, says) in [
        ("http://weir.example/weir.deb", "", 2, "neither an https address nor a file"),
        ("none.deb", "", 2, "neither an https address nor a file"),
        (package.to_str().unwrap(), &"0".repeat(64), 1, "has another SHA-256"),
    ] {
        let done = install(package, sum);
        assert!(done.status.code() == Some(code) && told(&done).contains(says), "{package}: {}", told(&done));
    }
}
