//! A `weir bench` of one's own: plan, database, page and temporary folder apart from everything else
//! on the machine, so that tests see exactly what their own run left behind.

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fmt::Display;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use weir_store::{Selector, Store};
use weir_trial::run::{Point, Run};
use weir_trial::verdict::limits;

/// Longest wait for anything a test waits for. What comes comes sooner, however busy the machine; this
/// only ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Time between two looks: each may read a store or all processes, and takes that from the cores of whoever is measured.
const LOOK: Duration = Duration::from_millis(25);

/// The longest end that still shows that nobody was waited for: whoever waits for a link or a device
/// waits ten seconds and more.
pub(crate) const PROMPT: Duration = Duration::from_secs(8);

/// Both cores of the machine, for as long as it is held: real devices are measured one at a time.
pub(crate) fn cores() -> Flock<File> {
    alone("cores")
}

/// What only one test at a time may have, also where each test is a process of its own.
pub(crate) fn alone(what: &str) -> Flock<File> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{what}.lock"));
    let file = File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Flock::lock(file, FlockArg::LockExclusive)
        .unwrap_or_else(|(_, error)| panic!("{}: {error}", path.display()))
}

/// The built program.
pub(crate) fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

/// What a program printed, for an assertion's message.
pub(crate) fn told(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{:?}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// Whatever the test asked for, or a panic when it takes too long.
pub(crate) fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_or_say(what, look, || "nothing came")
}

/// [`wait_for`], with what there is instead in the panic's message.
pub(crate) fn wait_or_say<T, I: Display>(
    what: &str,
    mut look: impl FnMut() -> Option<T>,
    instead: impl Fn() -> I,
) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}: {}", instead());
        std::thread::sleep(LOOK);
    }
}

/// A plan with everything it needs.
pub(crate) struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    /// A folder with this plan in it.
    pub(crate) fn new(plan: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("plan.toml"), plan).unwrap();
        fs::create_dir(folder.path().join("tmp")).unwrap();
        Self { folder }
    }

    /// The path of a file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder that the program takes for temporary files.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.file("tmp")
    }

    /// `weir bench`, into this lab's database, without a plan yet.
    pub(crate) fn bare(&self) -> Command {
        let mut command = weir();
        command.arg("bench").env("TMPDIR", self.temporary()).current_dir(self.folder.path());
        // Of its own: another test's run on these cores is the machine's affair, not this test's.
        command.env("WEIR_LEASES", self.file("leases"));
        command.arg("--db").arg(self.file("weir.db")).arg("-o").arg(self.file("page.html"));
        command
    }

    /// `weir bench` of this lab's plan.
    pub(crate) fn bench(&self) -> Command {
        let mut command = self.bare();
        command.arg("plan.toml");
        command
    }

    /// Measures this lab's plan to its end, which must have this exit code.
    pub(crate) fn measure(&self, code: i32) -> Run {
        run_of(&mut self.bench(), code)
    }

    /// [`Self::measure`], by a lab that may not raise priorities, as most people's may not.
    pub(crate) fn measure_without_real_time(&self, code: i32) -> Run {
        let bench = self.bench();
        if !nix::unistd::geteuid().is_root() {
            return self.measure(code);
        }
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-sys_nice", "--inh-caps=-sys_nice", "--"]);
        command.arg(bench.get_program()).args(bench.get_args()).current_dir(self.folder.path());
        command.env("TMPDIR", self.temporary()).env("WEIR_LEASES", self.file("leases"));
        run_of(&mut command, code)
    }

    /// Goes on with the last run to its end, which must have this exit code.
    pub(crate) fn resume(&self, code: i32) -> Run {
        run_of(self.bare().args(["--resume", "@last"]), code)
    }

    /// The last run as stored, also while it is being measured; nothing before it began.
    pub(crate) fn stored(&self) -> Option<Run> {
        let store = Store::open_existing(Some(&self.file("weir.db"))).ok()?;
        store.load(store.find(&Selector::Last(0)).ok()?).ok()
    }

    /// Waits until the last run has a finished trial at the point, and the next one is under way. The
    /// tester's thread lives as long as a trial, but with real-time priority it may leave this test no core
    /// to see it from: a second finished trial does as well. A device that feeds itself has no tester, and is
    /// measured from one trial's end to the next one's.
    pub(crate) fn mid_trial(&self, working: &mut Working, point: usize) {
        let finished =
            || self.stored().and_then(|run| Some(run.points.get(point)?.trials.len())).unwrap_or(0);
        let first = wait_for("a stored trial", || {
            working.must_be_at_work();
            Some(finished()).filter(|&count| count > 0)
        });
        let plan = fs::read_to_string(self.file("plan.toml")).unwrap();
        if !plan.contains("wiring = \"fed\"") {
            wait_for("the next trial", || {
                working.must_be_at_work();
                (working.is_testing() || finished() > first).then_some(())
            });
        }
        std::thread::sleep(Duration::from_millis(50));
    }

    /// Folders of devices that are still there.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        fs::read_dir(self.temporary()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// Processes whose command line names a file in this lab's temporary folder: its devices.
    pub(crate) fn devices(&self) -> Vec<i32> {
        let wanted = self.temporary();
        let wanted = wanted.to_str().unwrap().as_bytes();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter_map(|entry| {
                let line = fs::read(entry.path().join("cmdline")).ok()?;
                let named = line.windows(wanted.len()).any(|part| part == wanted);
                named.then(|| entry.file_name().to_str()?.parse().ok()).flatten()
            })
            .collect()
    }
}

/// Runs with `--json` and reads what it prints.
pub(crate) fn run_of(command: &mut Command, code: i32) -> Run {
    let output = command.arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", told(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", told(&output)))
}

/// A campaign at work, killed with the test that fails.
pub(crate) struct Working(Option<Child>);

impl Working {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(Some(
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(),
        ))
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        kill(Pid::from_raw(self.child().id().try_into().unwrap()), signal).unwrap();
    }

    /// Fails the test, with what the campaign printed, if the campaign has ended.
    fn must_be_at_work(&mut self) {
        if self.child().try_wait().unwrap().is_some() {
            let output = self.0.take().unwrap().wait_with_output().unwrap();
            panic!("the campaign ended before its time: {}", told(&output));
        }
    }

    /// Whether a trial is under way between the tester's ports.
    pub(crate) fn is_testing(&mut self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child().id())).into_iter().flatten();
        let mut names = threads.flatten().filter_map(|one| fs::read_to_string(one.path().join("comm")).ok());
        names.any(|name| name.trim_end() == "weir-tester")
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Output {
        wait_for("the end of the campaign", || self.child().try_wait().unwrap());
        self.0.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Asserts what holds in every trial: `intended = sent + refused + unsent`, no more received than
/// sent, and no packet that is not of the trial.
pub(crate) fn check_sums(point: &Point) {
    for trial in &point.trials {
        for counts in &trial.result.directions {
            let place = format!("{} trial {}: {counts:?}", point.key.nf, trial.sequence);
            assert_eq!(counts.intended, counts.sent + counts.refused + counts.unsent, "{place}");
            assert!(counts.received <= counts.sent, "{place}");
            assert_eq!((counts.foreign, counts.duplicated, counts.reordered), (0, 0, 0), "{place}");
        }
    }
}

/// Asserts what holds for counters of DUT and tester together: the DUT sent at least what came back in
/// each trial, and never more than it received, nor received more than was sent. The last two are
/// sums over all trials so far: what a DUT that stood still had not fetched when its trial ended, it
/// counts in the next. All but for the bursts that a DUT had handed over and not yet counted.
pub(crate) fn check_counters(point: &Point) {
    let (mut offered, mut fetched, mut forwarded) = (0, 0, 0);
    let slack = limits::COUNTERS_LEAST;
    for trial in &point.trials {
        let (dut, total) = (trial.result.dut.as_ref().unwrap(), trial.result.total());
        let place = format!("{:?} trial {}: {dut:?} {total:?}", point.key, trial.sequence);
        assert!(dut.sent + slack >= total.received, "{place}");
        (offered, fetched, forwarded) = (offered + total.sent, fetched + dut.received, forwarded + dut.sent);
        assert!(forwarded <= fetched + slack && fetched <= offered + slack, "{place}");
    }
}

/// A file that cannot be a plan, capture or database.
pub(crate) fn text_file(folder: &Path) -> PathBuf {
    let path = folder.join("notes.txt");
    fs::write(&path, "These are notes, and nothing else; they are long enough to hold a header.\n").unwrap();
    path
}
