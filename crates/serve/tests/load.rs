//! Many runs, many readers, and uploads beside them. It takes minutes, so it is run by itself:
//! `./x test -p weir-serve --run-ignored=only --no-capture`; docs/serve.md and docs/central.md have what it printed. Times are printed
//! and not judged: a machine that is busy is no fault of the server's.
//!
//! Variables: `WEIR_LOAD_RUNS=500` makes fewer runs; `WEIR_LOAD_ON=postgres` keeps them on a server of its own, in place of a
//! file; `WEIR_LOAD_DB=FILE` keeps the file, and takes what is there.

use crate::central::{Central, bundle};
use crate::common::{Site, run};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_serve::{Limits, Pushes};
use weir_store::{Origin, Store};
use weir_testkit::postgres::Server;
use weir_trial::run::Run;

const RUNS: u32 = 10_000;
const READERS: u32 = 50;
const UPLOADS: u32 = 5;
const SECONDS: u32 = 20;

/// What readers look at: kinds of questions, each of several addresses.
const KINDS: [&str; 4] = ["list", "filter", "compare", "history"];
/// Addresses of a kind.
const ADDRESSES: u32 = 12;

/// An address of a kind. Those of one kind differ, so that what was kept of one serves no other.
fn path(kind: &str, number: u32) -> String {
    let place = number % ADDRESSES;
    let machine = place % 20;
    let size = ["64", "128", "256", "512"][place as usize % 4];
    let filters =
        ["dut=testpmd&size=512", "q=otter+dut:nf&sort=trials", "nf=l2fwd&method=throughput&sort=name"];
    match kind {
        "list" => format!("/runs?page={}", 1 + place),
        "filter" => format!("/runs?{}&machine=machine{machine}", filters[place as usize % 3]),
        "compare" => format!("/compare?base={}&with={}", 7 + place, 67 + place),
        _ => format!("/history?nf=l2fwd&dut=nf&wiring=vhost&size={size}&machine=machine{machine}"),
    }
}

fn told(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let count = times.len();
    println!(
        "{name:44} {count:5} answers · p50 {:6.1} ms · p95 {:6.1} ms · greatest {:6.1} ms",
        at(0.5),
        at(0.95),
        at(1.0)
    );
}

fn asked(variable: &str) -> Option<String> {
    std::env::var(variable).ok()
}

/// Runs of twenty machines, each with some six points of the example's seventy-two.
fn runs(count: u32) -> impl Iterator<Item = Run> {
    let example = run("otter", 1, 1.0);
    (1..=count).map(move |number| {
        let first = number as usize % 60;
        let points = example.points[first..].iter().filter(|point| point.trials.len() > 3).take(5);
        let mut points: Vec<_> = points.cloned().collect();
        (0..).zip(&mut points).for_each(|(index, point)| point.index = index);
        let mut environment = example.environment.clone();
        environment.insert("machine.id".to_owned(), format!("machine{}", number % 20));
        Run {
            name: format!("{}-{number}", ["otter", "heron", "vole", "lark"][number as usize % 4]),
            uuid: format!("00000000-0000-7000-8000-{number:012}"),
            started_ms: example.started_ms + i64::from(number) * 60_000,
            environment,
            points,
            plan: example.plan.clone(),
            weir: example.weir.clone(),
            sessions: Vec::new(),
            self_checks: Vec::new(),
            advice: Vec::new(),
            ..example
        }
    })
}

/// A database with these runs in it.
fn fill(path: &Path, count: u32) {
    let begin = Instant::now();
    let mut store = Store::open(Some(path)).unwrap();
    let there = store.outline().unwrap().len();
    let mut trials = 0;
    for run in runs(count).skip(there) {
        trials += run.points.iter().map(|point| point.trials.len()).sum::<usize>();
        let origin = Origin {
            name: run.name.clone(),
            address: "sha256:0".to_owned(),
            signature: None,
            imported_ms: 0,
            differences: 0,
        };
        store.import(&run, &origin).unwrap();
    }
    let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
    println!(
        "{count} runs, {there} of them there before; {trials} trials added in {:.0?}; {} MB",
        begin.elapsed(),
        bytes >> 20
    );
}

#[test]
#[ignore = "makes a store of 10,000 runs with a million trials: minutes"]
fn ten_thousand_runs_are_listed_filtered_compared_and_followed_for_fifty_readers() {
    let folder = tempfile::tempdir().unwrap();
    let count = asked("WEIR_LOAD_RUNS").and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    let of_server = tempfile::tempdir().unwrap();
    let on_server = asked("WEIR_LOAD_ON").as_deref() == Some("postgres");
    let server = on_server.then(|| Server::own(of_server.path()));
    let file = || asked("WEIR_LOAD_DB").map_or_else(|| folder.path().join("weir.db"), PathBuf::from);
    let database = server.as_ref().map(Server::database);
    let path = database.as_ref().map_or_else(file, |database| PathBuf::from(database.address()));
    fill(&path, count);
    // As a server with autovacuum does by itself: without statistics it reads whole tables.
    if let Some(database) = &database {
        database.psql("ANALYZE");
    }
    let central = Central::over(folder, path, Pushes::default(), Limits::default());
    let site = &central.site;
    let begin = Instant::now();
    assert!(site.get("/runs").page().contains(&format!("{count} runs")));
    println!("the first list, when nothing was read yet: {:.0?}", begin.elapsed());
    for kind in KINDS {
        let first = (0..ADDRESSES).map(|number| timed(site, &self::path(kind, number)));
        told(&format!("{kind}, alone, first time"), first.collect());
        let again = (0..ADDRESSES).map(|number| timed(site, &self::path(kind, number)));
        told(&format!("{kind}, alone, again"), again.collect());
    }
    for path in ["/runs/7", "/runs/7/points/2", "/figures?run=7", "/runs.json?per=500", "/history"] {
        told(path, (0..5).map(|_| timed(site, path)).collect());
    }
    readers(site, "");
    let done = AtomicBool::new(false);
    let uploads = std::thread::scope(|scope| {
        let uploads = (0..UPLOADS).map(|place| {
            let (central, done) = (&central, &done);
            scope.spawn(move || upload(central, count + place, done))
        });
        let uploads: Vec<_> = uploads.collect();
        readers(site, &format!(" and {UPLOADS} uploads"));
        done.store(true, Ordering::Relaxed);
        uploads.into_iter().flat_map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    let kept = uploads.iter().filter(|(status, _)| *status == 201);
    told(&format!("{UPLOADS} uploads at once, each kept"), kept.map(|(_, took)| *took).collect());
    let refused = uploads.iter().filter(|(status, _)| *status != 201).count();
    println!("{refused} uploads were told to come later");
    drop(central);
    drop(database);
    drop(server);
}

/// Pushes runs one after another until the readers are done; what became of each, and how long it took.
fn upload(central: &Central, first: u32, done: &AtomicBool) -> Vec<(u16, Duration)> {
    let template = runs(1).next().unwrap();
    let mut took = Vec::new();
    for turn in 0.. {
        if done.load(Ordering::Relaxed) {
            break;
        }
        let number = first + turn * UPLOADS + 1_000_000;
        let run = Run {
            uuid: format!("00000000-0000-7000-8000-{number:012}"),
            name: format!("pushed-{number}"),
            ..template.clone()
        };
        let (bundle, token) = (bundle(&run), if turn % 2 == 0 { &central.mine } else { &central.other });
        let begin = Instant::now();
        let answer = central.ask("POST", "/api/v1/runs?visibility=public", Some(token), &bundle);
        assert!(matches!(answer.status, 201 | 429 | 503), "{}", answer.body);
        took.push((answer.status, begin.elapsed()));
    }
    took
}

/// Fifty readers. Each asks once a second, whether or not the answer before was quick.
fn readers(site: &Site, beside: &str) {
    let all: Vec<Vec<(usize, Duration)>> = std::thread::scope(|scope| {
        let reader = |reader: u32| {
            move || {
                let begin =
                    Instant::now() + Duration::from_millis(u64::from(reader) * 1000 / u64::from(READERS));
                let one = |turn: u32| {
                    let due = begin + Duration::from_secs(u64::from(turn));
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    let kind = (reader + turn) as usize % KINDS.len();
                    timed(site, &path(KINDS[kind], reader * 7 + turn));
                    // From when it was due, so that nothing is hidden.
                    (kind, due.elapsed())
                };
                (0..SECONDS).map(one).collect::<Vec<_>>()
            }
        };
        let readers: Vec<_> = (0..READERS).map(|number| scope.spawn(reader(number))).collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    let all: Vec<_> = all.into_iter().flatten().collect();
    for (place, kind) in KINDS.into_iter().enumerate() {
        let of = all.iter().filter(|(kind, _)| *kind == place).map(|(_, time)| *time);
        told(&format!("{READERS} readers{beside}: {kind}"), of.collect());
    }
    told(
        &format!("{READERS} readers, one request a second each{beside}"),
        all.iter().map(|(_, time)| *time).collect(),
    );
}

fn timed(site: &Site, path: &str) -> Duration {
    let begin = Instant::now();
    let answer = site.get(path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    begin.elapsed()
}
