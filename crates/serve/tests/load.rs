//! Many runs, many readers. It takes minutes, so it is run by itself: `./x test --ignored -p weir-serve`; docs/serve.md has what
//! it printed. Times are printed and not judged: a machine that is busy is no fault of the server's.

use crate::common::{Site, run, store};
use std::time::{Duration, Instant};
use weir_serve::Limits;

const RUNS: u32 = 10_000;
const READERS: u32 = 50;
const SECONDS: u32 = 10;

/// What readers look at, in turns.
const PATHS: [&str; 6] = [
    "/runs",
    "/runs?dut=testpmd&size=512&machine=machine1",
    "/runs?q=otter+dut:nf&sort=trials",
    "/runs?nf=l2fwd&from=2026-11-22&page=20",
    "/runs.json?per=50&method=throughput",
    "/runs?sort=name&order=turned&per=100",
];

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

#[test]
#[ignore = "makes a store of 10,000 runs with a million trials: minutes"]
fn ten_thousand_runs_are_listed_filtered_and_compared_for_fifty_readers() {
    let folder = tempfile::tempdir().unwrap();
    let example = run("otter", 1, 1.0);
    let made = Instant::now();
    // Fewer runs, to try it: WEIR_LOAD_RUNS=500.
    let count = std::env::var("WEIR_LOAD_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    let runs = (1..=count).map(|number| {
        let mut run = example.clone();
        run.name = format!("{}-{number}", ["otter", "heron", "vole", "lark"][number as usize % 4]);
        run.uuid = format!("00000000-0000-7000-8000-{number:012}");
        run.started_ms += i64::from(number) * 60_000;
        run.environment.insert("machine.id".to_owned(), format!("machine{}", number % 20));
        // Some six points of the seventy-two, with a hundred trials.
        let first = number as usize % 60;
        run.points =
            example.points[first..].iter().filter(|point| point.trials.len() > 3).take(5).cloned().collect();
        (0..).zip(&mut run.points).for_each(|(index, point)| point.index = index);
        run
    });
    let mut trials = 0;
    let mut path = None;
    for chunk in runs.collect::<Vec<_>>().chunks(500) {
        trials += chunk.iter().flat_map(|run| &run.points).map(|point| point.trials.len()).sum::<usize>();
        path = Some(store(folder.path(), chunk));
    }
    let path = path.unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    println!("{count} runs, {trials} trials, {} MB, made in {:.0?}", bytes >> 20, made.elapsed());
    let site = Site::over(folder, path, Limits::default());
    let begin = Instant::now();
    assert!(site.get("/runs").page().contains(&format!("{count} runs")));
    println!("the first list, when nothing was read yet: {:.0?}", begin.elapsed());
    for path in PATHS {
        let times = (0..20).map(|_| timed(&site, path)).collect();
        told(path, times);
    }
    let heavy = ["/runs/7", "/runs/7/points/2", "/compare?base=7&with=8", "/figures?run=7"];
    for path in heavy {
        told(path, (0..10).map(|_| timed(&site, path)).collect());
    }
    // Each reader asks once a second, whether or not the answer before was quick.
    let all: Vec<Vec<Duration>> = std::thread::scope(|scope| {
        let reader = |reader: u32| {
            let site = &site;
            move || {
                let begin =
                    Instant::now() + Duration::from_millis(u64::from(reader) * 1000 / u64::from(READERS));
                let one = |turn: u32| {
                    let due = begin + Duration::from_secs(u64::from(turn));
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    timed(site, PATHS[(reader + turn) as usize % PATHS.len()]);
                    // From when it was due, so that nothing is hidden.
                    due.elapsed()
                };
                (0..SECONDS).map(one).collect::<Vec<_>>()
            }
        };
        let readers: Vec<_> = (0..READERS).map(|number| scope.spawn(reader(number))).collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    told(&format!("{READERS} readers, one request a second each"), all.into_iter().flatten().collect());
}

fn timed(site: &Site, path: &str) -> Duration {
    let begin = Instant::now();
    assert_eq!(site.get(path).status, 200, "{path}");
    begin.elapsed()
}
