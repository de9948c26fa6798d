//! A server over a store of one's own, and a client that says just what a test wants said.

#[path = "../../../report/tests/common/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the report's tests use the rest")]
mod example;

use std::io::{BufRead, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use weir_methods::history::Series;
use weir_report::Trend;
use weir_serve::{Admitted, Checked, Limits, Options, PlanText, Program, Server, Stop};
use weir_store::{Origin, Store};
use weir_trial::run::{Point, PointResult, Run};

/// What stands for the command line.
pub(crate) struct Lines;

impl Program for Lines {
    fn version(&self) -> String {
        "weir test".to_owned()
    }

    fn verdict(&self, _: &Point, result: &PointResult) -> String {
        format!("verdict of {}", result.name())
    }

    fn csv(&self, run: &Run) -> Result<String, String> {
        Ok(format!("run\r\n{}\r\n", run.points.len()))
    }

    fn bundle(&self, run: Run, origin: Option<Origin>) -> Result<Vec<u8>, String> {
        Ok(format!("{} {}", run.uuid, origin.is_some()).into())
    }

    fn ratios(&self, _: &[Run]) -> Vec<weir_report::Ratios> {
        Vec::new()
    }

    fn admit(&self, bundle: &mut dyn BufRead) -> Result<Admitted, String> {
        let bundle = weir_store::bundle::read(bundle).map_err(|error| error.to_string())?;
        let origin = Origin { address: bundle.address, ..origin(&bundle.run) };
        Ok(Admitted { run: bundle.run, origin, bytes: bundle.bytes })
    }

    fn trend(&self, series: &Series) -> Trend {
        let value = |value: &weir_methods::history::Value| weir_report::TrendValue {
            name: None,
            value: value.value,
            interval: (value.least, value.greatest),
            detail: value.run.clone(),
        };
        let level = |group: &weir_methods::history::Group| weir_report::Level {
            first: group.first,
            count: group.count,
            mean: group.mean,
            change: series.change(group.first).map(weir_methods::history::Change::step),
        };
        Trend {
            title: series.title(),
            label: series.quantity.clone(),
            quantity: weir_report::figure::Quantity::Plain,
            provenance: "runs".to_owned(),
            values: series.values.iter().map(value).collect(),
            levels: series.groups.iter().map(level).collect(),
        }
    }

    fn made(&self, svg: &str, ending: &str) -> Result<Vec<u8>, String> {
        match ending {
            "pdf" => Ok(format!("%PDF of {} bytes", svg.len()).into()),
            other => Err(format!("rsvg-convert makes no {other} here; install it")),
        }
    }

    fn plan_schema(&self) -> serde_json::Value {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/plan.schema.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn plans(&self) -> Vec<PlanText> {
        let text = "trace = \"tr3i\"\nsize = 64\n[throughput]\ngoals = [\"ndr\", \"pdr\"]\n";
        vec![PlanText { name: "quick".to_owned(), about: "a plan".to_owned(), text: text.to_owned() }]
    }

    /// A plan is bad where a line has the word `bad` in it.
    fn check(&self, plan: &str, _: &Path) -> Checked {
        let lines = (1..).zip(plan.lines()).filter(|(_, line)| line.contains("bad"));
        let places: Vec<_> = lines.map(|(number, _)| (number, "this is no size".to_owned())).collect();
        Checked { good: places.is_empty(), text: format!("looked at\n{plan}"), places }
    }

    fn db_flag(&self) -> String {
        " --db test.db".to_owned()
    }
}

/// A whole run of simulated devices: three functions, three devices, eight sizes.
pub(crate) fn run(name: &str, number: u32, speed: f64) -> Run {
    let mut run = example::run(name, i64::from(number), speed);
    run.uuid = format!("00000000-0000-7000-8000-{number:012}");
    run.environment.insert("machine.id".to_owned(), format!("machine{}", number % 2));
    run
}

/// A run of a few points, which is soon drawn.
pub(crate) fn small(name: &str, number: u32) -> Run {
    let mut run = run(name, number, 1.0);
    run.points.truncate(3);
    run
}

/// A store with these runs in it, as bundles brought them.
pub(crate) fn store(folder: &Path, runs: &[Run]) -> PathBuf {
    let path = folder.join("weir.db");
    let mut store = Store::open(Some(&path)).unwrap();
    for run in runs {
        store.import(run, &origin(run)).unwrap();
    }
    path
}

/// Where a run came from that a test has.
pub(crate) fn origin(run: &Run) -> Origin {
    let (name, address) = (run.name.clone(), "sha256:0".to_owned());
    Origin { name, address, signature: None, imported_ms: 0, differences: 0 }
}

/// A site that is served until this goes.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) folder: tempfile::TempDir,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Site {
    /// Serves these runs.
    pub(crate) fn of(runs: &[Run]) -> Self {
        Self::with(runs, Limits { fresh: Duration::ZERO, ..Limits::default() })
    }

    /// Serves these runs within these bounds.
    pub(crate) fn with(runs: &[Run], limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = store(folder.path(), runs);
        Self::over(folder, path, limits)
    }

    /// Serves a store.
    pub(crate) fn over(folder: tempfile::TempDir, path: PathBuf, limits: Limits) -> Self {
        Self::under(folder, path, Options { limits, ..Options::default() })
    }

    /// Serves a store under all of these options.
    pub(crate) fn under(folder: tempfile::TempDir, path: PathBuf, options: Options) -> Self {
        let open = Arc::new(move || Store::open_existing(Some(&path)));
        let server = Server::bind("127.0.0.1:0", options, open, Arc::new(Lines)).unwrap();
        let (address, stop) = (server.address(), Stop::default());
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || server.run(&stopped).unwrap());
        Self { address, folder, stop, thread: Some(thread) }
    }

    /// A GET as a browser sends it.
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "Accept: text/html\r\n")
    }

    /// A request with further header lines.
    pub(crate) fn ask(&self, method: &str, path: &str, lines: &str) -> Answer {
        let host = self.address;
        self.say(&format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{lines}\r\n"))
    }

    /// Bytes, and what comes back until the server closes.
    pub(crate) fn say(&self, text: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(text.as_bytes()).unwrap();
        Answer::read(stream)
    }

    /// A connection on which nothing was said.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Asks the server to end; [`Drop`] waits for it.
    pub(crate) fn stop(&self) {
        self.stop.now();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.now();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the server ended in a panic");
        }
    }
}

/// What a server said.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn read(mut stream: TcpStream) -> Self {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Self::of(&bytes)
    }

    /// What these bytes say; the status is 0 where that is nothing.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// A header's value, in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The page, which must be there.
    pub(crate) fn page(self) -> String {
        assert_eq!(self.status, 200, "{}\n{}", self.head, self.body);
        self.body
    }
}
