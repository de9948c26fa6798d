//! What the machine does to a trial, found by name: real-time neighbours, a lab that is stopped, a quota of CPU
//! time, a neighbour that sweeps the last-level cache. Without real-time priority for the trial where that would
//! keep the disturbance away.

use crate::lab::{Lab, cores};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_testkit::Need;
use weir_trial::run::{Run, StoredTrial};
use weir_trial::verdict::Code;

const PLAN: &str = "nf = \"l2fwd\"\ntrace = \"flows:100\"\nsize = 64\ndirections = 1\nhuge_pages = false\n\
                    self_check = false\ncheck = false\n[latency]\nloads = [\"200kpps\"]\nduration = \"1s\"\n";

fn last(run: &Run) -> &StoredTrial {
    run.points[0].trials.last().expect("a trial")
}

fn found(run: &Run) -> Vec<String> {
    let findings = last(run).verdict.findings.iter();
    findings.map(|finding| format!("{}: {}", finding.code.name(), finding.says)).collect()
}

/// The cores of tester and device, as a quiet run tells them.
fn tester_and_dut() -> (usize, usize) {
    let run = Lab::new(&PLAN.replace("1s", "100ms")).measure(0);
    let health = &last(&run).result.health;
    (health.tester.unwrap().core as usize, health.dut.unwrap().core as usize)
}

/// A child process that is gone with the test.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A thread that does something over and over until it is dropped.
struct Meddler {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Meddler {
    fn new(mut each: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                each();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Meddler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A real-time neighbour of 0.8 ms in 20 on a core: above the lab's own priority.
fn real_time_neighbour(core: usize) -> Helper {
    let script = "import time\nwhile True:\n  end = time.perf_counter() + 0.0008\n  while time.perf_counter() < end: pass\n  time.sleep(0.0192)";
    let core = core.to_string();
    let arguments = ["-f", "50", "taskset", "-c", &core, "python3", "-c", script];
    Helper(Command::new("chrt").args(arguments).spawn().unwrap())
}

#[test]
fn a_real_time_neighbour_of_0_8_ms_in_20_is_named_on_either_core() {
    let may = Command::new("chrt").args(["-f", "50", "true"]).status().is_ok_and(|status| status.success());
    let real_time =
        Need::Found("real-time priority 50".into(), may, "run as root, with chrt of util-linux".into());
    if !weir_testkit::needs!(real_time, Need::Program("python3", "python3")) {
        return;
    }
    let _cores = cores();
    let (tester, dut) = tester_and_dut();
    let neighbour = real_time_neighbour(tester);
    let run = Lab::new(PLAN).measure(0);
    drop(neighbour);
    // On the tester's core: pauses that are seen one by one, and whose windows are left out.
    let trial = last(&run);
    let windows = trial.result.windows.as_ref().unwrap();
    assert!(trial.verdict.has(Code::Deaf) && windows.tester.count >= 10, "{:#?}", found(&run));
    assert!(windows.left_out > 10, "{windows:?}");
    // On the device's core: 4 % of its time, which the kernel counts as waited.
    let _neighbour = real_time_neighbour(dut);
    let run = Lab::new(PLAN).measure(0);
    let trial = last(&run);
    let windows = trial.result.windows.as_ref().unwrap();
    assert!(trial.verdict.has(Code::DutPreempted) && windows.dut.count >= 10, "{:#?}", found(&run));
    assert!(windows.left_out > 10, "{windows:?}");
}

/// Starts a lab, and does something to it or its device all the time.
fn measured_while(code: i32, meddle: impl FnOnce(&Lab, i32) -> Meddler) -> Run {
    let lab = Lab::new(PLAN);
    let mut child = lab.bench().stdout(std::process::Stdio::null()).spawn().unwrap();
    let meddler = meddle(&lab, child.id() as i32);
    let status = child.wait().unwrap();
    drop(meddler);
    assert_eq!(status.code(), Some(code));
    lab.stored().unwrap()
}

#[test]
fn a_lab_that_is_stopped_for_5_ms_in_100_says_so_and_leaves_those_windows_out() {
    let _cores = cores();
    let run = measured_while(0, |_, lab| {
        Meddler::new(move || {
            let _ = kill(Pid::from_raw(lab), Signal::SIGSTOP);
            std::thread::sleep(Duration::from_millis(5));
            let _ = kill(Pid::from_raw(lab), Signal::SIGCONT);
            std::thread::sleep(Duration::from_millis(95));
        })
    });
    let trial = last(&run);
    assert!(trial.verdict.has(Code::Deaf), "{:#?}", found(&run));
    let windows = trial.result.windows.as_ref().unwrap();
    assert!(windows.tester.longest.0 >= 4_000_000 && windows.tester.count >= 5, "{windows:?}");
}

/// A control group whose processes get half of a core's time; gone with the test.
struct Quota(PathBuf);

impl Quota {
    /// Nothing where the system has no such group, or does not let one be made.
    fn new() -> Option<Self> {
        let name = format!("weir-test-{}", std::process::id());
        let (v1, v2) = (Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup"));
        let place =
            if v1.join("cpu.cfs_quota_us").exists() || v1.join("cgroup.procs").exists() { v1 } else { v2 };
        let group = place.join(name);
        std::fs::create_dir(&group).ok()?;
        let set = |file: &str, text: &str| std::fs::write(group.join(file), text);
        let done = set("cpu.max", "20000 40000")
            .or_else(|_| set("cpu.cfs_period_us", "40000").and_then(|()| set("cpu.cfs_quota_us", "20000")));
        let quota = Self(group.clone());
        done.ok().map(|()| quota)
    }

    fn take_in(&self, process: i32) -> bool {
        std::fs::write(self.0.join("cgroup.procs"), process.to_string()).is_ok()
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let begin = Instant::now();
        while std::fs::remove_dir(&self.0).is_err() && begin.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What a cap of the frequency does where there is one, a quota does everywhere: the device gets less of its core.
#[test]
fn a_quota_of_cpu_time_that_comes_in_mid_run_is_the_machines_doing() {
    let quota = Quota::new();
    let (name, cure) = ("a control group with a quota of CPU time", "run as root, with cgroups writable");
    if !weir_testkit::needs!(Need::Found(name.into(), quota.is_some(), cure.into())) {
        return;
    }
    let quota = quota.expect("it is there");
    let _cores = cores();
    let lab = Lab::new(&PLAN.replace("[\"200kpps\"]", "[\"200kpps\", \"200kpps\", \"200kpps\"]"));
    let mut child = lab.bench().stdout(std::process::Stdio::null()).spawn().unwrap();
    crate::lab::wait_for("the first trial", || lab.stored()?.points.first()?.trials.first().map(drop));
    let devices = lab.devices();
    assert!(!devices.is_empty() && devices.iter().all(|device| quota.take_in(*device)));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let run = lab.stored().unwrap();
    let of_first = &run.points[0].trials[0].verdict;
    assert!(last(&run).verdict.has(Code::DutPreempted), "{:#?}", found(&run));
    println!("before {:?}, after {:#?}", of_first.worst(), found(&run));
}

/// On a core of its own such a neighbour only makes the device slower, which nothing in a trial can tell from a
/// slow device; on the device's core it is a neighbour like any other.
#[test]
fn a_neighbour_that_sweeps_the_last_level_cache_on_the_devices_core_is_named() {
    if !weir_testkit::needs!(Need::Program("python3", "python3")) {
        return;
    }
    let _cores = cores();
    let (_, dut) = tester_and_dut();
    let script = "b = bytearray(64 << 20)\nwhile True:\n  b[::64] = bytes(len(b) // 64)";
    let _sweeper = Helper(
        Command::new("taskset").args(["-c", &dut.to_string(), "python3", "-c", script]).spawn().unwrap(),
    );
    let run = Lab::new(PLAN).measure_without_real_time(0);
    assert!(last(&run).verdict.has(Code::DutPreempted), "{:#?}", found(&run));
}
