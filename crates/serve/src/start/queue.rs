//! One measurement at a time: a queue of jobs, and a thread that has `weir bench` do one after another.
//!
//! A job's lines are kept as it prints them, the last [`LINES`] of them. To stop it is to interrupt it (SIGTERM, as Ctrl-C): what was
//! measured is kept, and the run can be taken up again. The queue is in memory: a server that ends forgets who waited. A server
//! that is killed has its job interrupted by the system (`setpriv --pdeathsig`).

use crate::answer::Fault;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

/// Jobs that may wait.
const MOST_WAITING: usize = 50;
/// Jobs that are remembered.
const MOST_JOBS: usize = 200;
/// Lines of a job that are kept, and their length.
const LINES: usize = 400;
const LONGEST_LINE: u64 = 2000;
/// How long a job that was interrupted may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a job is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Measure a plan, as a run of this name or of one that Weir picks.
    Plan { text: String, name: Option<String> },
    /// Go on with a run.
    Resume { run: String },
}

/// How far a job came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Running,
    /// Ended by itself, with this exit code; none where a signal ended it.
    Ended(Option<i32>),
    /// Interrupted, or taken out of the queue.
    Stopped,
}

/// A job.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) number: u64,
    pub(crate) task: Task,
    pub(crate) state: State,
    /// The run that it measures, once it has a name.
    pub(crate) run: Option<String>,
    /// Points that its first line speaks of.
    pub(crate) points: Option<u32>,
    pub(crate) lines: VecDeque<String>,
    /// Milliseconds since 1970-01-01 UTC.
    pub(crate) asked_ms: i64,
    pub(crate) began_ms: Option<i64>,
    pub(crate) ended_ms: Option<i64>,
    /// Somebody asked for its end.
    stopping: bool,
}

impl Job {
    /// Whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        !matches!(self.state, State::Waiting | State::Running)
    }

    fn print(&mut self, line: String) {
        if self.points.is_none()
            && let Some((run, points)) = first_line(&line)
        {
            (self.run, self.points) = (Some(run), points);
        }
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
}

/// `run NAME: 12 points, about 2 min`, and `going on with run NAME: …`.
fn first_line(line: &str) -> Option<(String, Option<u32>)> {
    let line = line.strip_prefix("going on with ").unwrap_or(line);
    let (name, rest) = line.strip_prefix("run ")?.split_once(": ")?;
    let points = rest.split(' ').next().and_then(|points| points.parse().ok());
    (!name.contains(' ')).then(|| (name.to_owned(), points))
}

/// The queue.
pub(crate) struct Queue {
    shared: Arc<Shared>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    jobs: Mutex<Jobs>,
    asked: Condvar,
    /// Counts what happened, for those who watch.
    changes: watch::Sender<u64>,
    program: PathBuf,
    database: Vec<OsString>,
    folder: tempfile::TempDir,
}

#[derive(Default)]
struct Jobs {
    list: VecDeque<Job>,
    next: u64,
    ending: bool,
}

impl Queue {
    /// A queue whose jobs this program does, into this database.
    pub(crate) fn new(program: PathBuf, database: Vec<OsString>) -> std::io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("weir-serve-").tempdir()?;
        let shared = Arc::new(Shared {
            jobs: Mutex::new(Jobs { next: 1, ..Jobs::default() }),
            asked: Condvar::new(),
            changes: watch::Sender::new(0),
            program,
            database,
            folder,
        });
        let of_worker = Arc::clone(&shared);
        let worker =
            std::thread::Builder::new().name("weir-queue".to_owned()).spawn(move || of_worker.work())?;
        Ok(Self { shared, worker: Mutex::new(Some(worker)) })
    }

    /// Puts a job at the end.
    pub(crate) fn add(&self, task: Task) -> Result<u64, Fault> {
        let run = match &task {
            Task::Plan { .. } => None,
            Task::Resume { run } => Some(run.clone()),
        };
        let mut jobs = self.shared.jobs();
        let waiting = jobs.list.iter().filter(|job| job.state == State::Waiting).count();
        if jobs.ending || waiting >= MOST_WAITING {
            return Err(Fault::Conflict(format!(
                "{waiting} measurements wait already; take some out of the queue first"
            )));
        }
        let number = jobs.next;
        jobs.next += 1;
        jobs.list.push_back(Job {
            number,
            task,
            state: State::Waiting,
            run,
            points: None,
            lines: VecDeque::new(),
            asked_ms: now_ms(),
            began_ms: None,
            ended_ms: None,
            stopping: false,
        });
        while jobs.list.len() > MOST_JOBS
            && let Some(old) = jobs.list.iter().position(Job::is_over)
        {
            jobs.list.remove(old);
        }
        drop(jobs);
        self.shared.asked.notify_all();
        self.shared.changed();
        Ok(number)
    }

    /// Interrupts a job, or takes it out of the queue. One that is over stays as it is.
    pub(crate) fn stop(&self, number: u64) -> Result<(), Fault> {
        let mut jobs = self.shared.jobs();
        let job = jobs.list.iter_mut().find(|job| job.number == number).ok_or_else(|| none_such(number))?;
        match job.state {
            State::Waiting => (job.state, job.ended_ms) = (State::Stopped, Some(now_ms())),
            State::Running => job.stopping = true,
            _ => {}
        }
        drop(jobs);
        self.shared.asked.notify_all();
        self.shared.changed();
        Ok(())
    }

    /// All jobs, the newest first.
    pub(crate) fn jobs(&self) -> Vec<Job> {
        self.shared.jobs().list.iter().rev().cloned().collect()
    }

    /// A job.
    pub(crate) fn job(&self, number: u64) -> Result<Job, Fault> {
        let found = self.shared.jobs().list.iter().find(|job| job.number == number).cloned();
        found.ok_or_else(|| none_such(number))
    }

    /// The folder of what is measured: nothing that a plan names by a relative path is there.
    pub(crate) fn folder(&self) -> &Path {
        self.shared.folder.path()
    }

    /// Tells when something happened.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Interrupts what runs and begins nothing more; waits for its end.
    pub(crate) fn end(&self) {
        self.shared.jobs().ending = true;
        self.shared.asked.notify_all();
        if let Some(worker) = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = worker.join();
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.end();
    }
}

fn none_such(number: u64) -> Fault {
    Fault::Missing(format!("there is no measurement {number} here; the queue begins anew with the server"))
}

impl Shared {
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn with(&self, number: u64, change: impl FnOnce(&mut Job)) {
        if let Some(job) = self.jobs().list.iter_mut().find(|job| job.number == number) {
            change(job);
        }
        self.changed();
    }

    /// The thread's life: the next job that waits, to its end.
    fn work(self: &Arc<Self>) {
        loop {
            let mut jobs = self.jobs();
            let next = loop {
                if jobs.ending {
                    return;
                }
                if let Some(job) = jobs.list.iter_mut().find(|job| job.state == State::Waiting) {
                    (job.state, job.began_ms) = (State::Running, Some(now_ms()));
                    break job.clone();
                }
                jobs = self.asked.wait(jobs).unwrap_or_else(PoisonError::into_inner);
            };
            drop(jobs);
            self.changed();
            let state = self.measure(&next).unwrap_or_else(|error| {
                self.with(next.number, |job| {
                    job.print(format!("error: the measurement cannot be started: {error}"))
                });
                State::Ended(None)
            });
            self.with(next.number, |job| (job.state, job.ended_ms) = (state, Some(now_ms())));
        }
    }

    /// Has one job done.
    fn measure(self: &Arc<Self>, job: &Job) -> std::io::Result<State> {
        if !self.program.is_file() {
            let why = format!("{} is not there any more; start the server again", self.program.display());
            return Err(std::io::Error::other(why));
        }
        let folder = self.folder.path().join(format!("measurement-{}", job.number));
        std::fs::create_dir_all(&folder)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--"]).arg(&self.program).arg("bench");
        match &job.task {
            Task::Plan { text, name } => {
                std::fs::write(folder.join("plan.toml"), text)?;
                command.arg(folder.join("plan.toml"));
                // In one argument: a name cannot become an option.
                command.args(name.as_ref().map(|name| format!("--name={name}")));
            }
            Task::Resume { run } => drop(command.arg(format!("--resume={run}"))),
        }
        command.args(&self.database).arg("-o").arg(folder.join("page.html"));
        command.env("COLUMNS", "110").env("NO_COLOR", "1").current_dir(&folder);
        // A group of its own: Ctrl-C at our terminal is for us, who pass it on.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let readers =
            [self.read(job.number, child.stdout.take()), self.read(job.number, child.stderr.take())];
        let state = self.await_end(job.number, &mut child);
        for reader in readers.into_iter().flatten() {
            let _ = reader.join();
        }
        state
    }

    /// Keeps what comes out of a pipe, line by line.
    fn read(
        self: &Arc<Self>,
        number: u64,
        pipe: Option<impl Read + Send + 'static>,
    ) -> Option<JoinHandle<()>> {
        let (shared, pipe) = (Arc::clone(self), pipe?);
        let read = move || {
            let mut lines = BufReader::new(pipe);
            let mut line = Vec::new();
            while lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0)
            {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                shared.with(number, |job| job.print(text));
                line.clear();
            }
        };
        std::thread::Builder::new().name("weir-queue-lines".to_owned()).spawn(read).ok()
    }

    /// Waits for a child's end; interrupts it where somebody asked for that.
    fn await_end(&self, number: u64, child: &mut Child) -> std::io::Result<State> {
        let mut interrupted: Option<Instant> = None;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(if interrupted.is_some() { State::Stopped } else { State::Ended(status.code()) });
            }
            let jobs = self.jobs();
            let asked = jobs.ending || jobs.list.iter().any(|job| job.number == number && job.stopping);
            drop(jobs);
            match interrupted {
                None if asked => {
                    let pid = i32::try_from(child.id()).map(Pid::from_raw);
                    if let Ok(pid) = pid {
                        let _ = kill(pid, Signal::SIGTERM);
                    }
                    interrupted = Some(Instant::now());
                }
                // It hangs: a run that was killed can be taken up again, too.
                Some(since) if since.elapsed() > PATIENCE => child.kill()?,
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// A queue whose jobs a script does.
    fn queue(script: &str) -> (tempfile::TempDir, Queue) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let queue = Queue::new(path, vec!["--db".into(), "x.db".into()]).unwrap();
        (folder, queue)
    }

    fn plan(text: &str) -> Task {
        Task::Plan { text: text.to_owned(), name: None }
    }

    fn wait(queue: &Queue, number: u64, is_it: impl Fn(&Job) -> bool) -> Job {
        let begin = Instant::now();
        loop {
            let job = queue.job(number).unwrap();
            if is_it(&job) {
                return job;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{job:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn jobs_are_done_one_after_another_in_their_order() {
        let (_folder, queue) =
            queue("echo run otter: 3 points, about 1 min; cat \"$2\" >> ../order; echo \"$@\"; exit 1");
        let numbers = ["a\n", "b\n", "c\n"].map(|text| queue.add(plan(text)).unwrap());
        let job = wait(&queue, numbers[2], Job::is_over);
        assert_eq!(
            (job.state, job.run.as_deref(), job.points),
            (State::Ended(Some(1)), Some("otter"), Some(3))
        );
        assert!(
            job.lines[1].contains("--db x.db -o") && job.lines[1].starts_with("bench"),
            "{:?}",
            job.lines
        );
        let done = std::fs::read_to_string(queue.shared.folder.path().join("order")).unwrap();
        assert_eq!(done, "a\nb\nc\n");
        assert_eq!(queue.jobs().iter().map(|job| job.number).collect::<Vec<_>>(), [3, 2, 1]);
    }

    #[test]
    fn a_job_that_is_stopped_is_interrupted_and_one_that_waits_never_begins() {
        let (_folder, queue) =
            queue("trap 'echo kept; exit 1' TERM; echo begun; while :; do sleep 0.02; done");
        let (first, second) = (queue.add(plan("")).unwrap(), queue.add(plan("")).unwrap());
        wait(&queue, first, |job| job.lines.iter().any(|line| line == "begun"));
        for _ in 1..MOST_WAITING {
            queue.add(plan("")).unwrap();
        }
        assert!(queue.add(plan("")).is_err(), "a queue has an end");
        queue.jobs().iter().filter(|job| job.number > second).for_each(|job| queue.stop(job.number).unwrap());
        queue.stop(second).unwrap();
        assert_eq!(queue.job(second).unwrap().state, State::Stopped);
        queue.stop(first).unwrap();
        let job = wait(&queue, first, Job::is_over);
        assert_eq!((job.state, job.lines.back().map(String::as_str)), (State::Stopped, Some("kept")));
        queue.stop(first).unwrap();
        assert!(queue.stop(99).is_err());
        assert_eq!(queue.job(second).unwrap().began_ms, None);
    }

    #[test]
    fn a_queue_that_ends_interrupts_what_runs() {
        let (_folder, queue) = queue("trap 'exit 0' TERM; echo begun; while :; do sleep 0.02; done");
        let first = queue.add(plan("")).unwrap();
        wait(&queue, first, |job| !job.lines.is_empty());
        queue.end();
        assert_eq!(queue.job(first).unwrap().state, State::Stopped);
        assert!(queue.add(plan("")).is_err());
    }

    #[test]
    fn what_a_job_prints_is_bounded_and_a_program_that_is_not_there_is_said() {
        let (_folder, queue) = queue("yes 'a line' | head -n 3000; head -c 5000 /dev/zero | tr '\\0' x");
        let job = wait(&queue, queue.add(Task::Resume { run: "-x".to_owned() }).unwrap(), Job::is_over);
        assert_eq!(job.lines.len(), LINES);
        assert!(job.lines.iter().all(|line| line.len() <= LONGEST_LINE as usize));
        let gone = Queue::new("/nowhere/weir".into(), Vec::new()).unwrap();
        let job = wait(&gone, gone.add(plan("")).unwrap(), Job::is_over);
        assert!(job.state == State::Ended(None) && job.lines[0].contains("is not there any more"), "{job:?}");
    }

    #[test]
    fn the_first_line_names_the_run() {
        assert_eq!(first_line("run otter: 3 points, about 1 min"), Some(("otter".to_owned(), Some(3))));
        assert_eq!(first_line("going on with run a-b: 12 points"), Some(("a-b".to_owned(), Some(12))));
        for line in ["", "error: no", "run of bad luck: 3", "runs: 3"] {
            assert_eq!(first_line(line), None, "{line}");
        }
    }
}
