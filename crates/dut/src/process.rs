//! A child process that cannot outlive the lab.
//!
//! `setpriv --pdeathsig KILL` ties its life to ours, even when we are killed by SIGKILL; it stands in
//! a process group of its own, so that Ctrl-C reaches us alone and we stop it in order. `stdbuf -oL`
//! makes C programs write whole lines into the pipe at once. Its output is kept, the last [`KEPT_LINES`] lines of it, for error messages.

mod reason;

use crate::DutError;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_trial::Conduct;

/// Lines of output kept.
pub const KEPT_LINES: usize = 200;

/// Longest line kept, in bytes; a child that prints without line ends cannot fill our memory. Counters of many ports, with
/// a histogram of the delay at each, take some 10 kB a port.
const LONGEST_LINE: u64 = 1024 * 1024;

/// All that is kept, in bytes: the last line is, and of those before it what fits.
const KEPT_BYTES: usize = 4 * 1024 * 1024;

/// Of a line that stands in an error, so many letters are shown.
const SHOWN_LETTERS: usize = 400;

/// How long a child may take to end when asked, before it is killed.
const PATIENCE: Duration = Duration::from_millis(1_000);

/// How long the last words of a child that ended are waited for.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How often a wait looks at the alarm.
const LOOK: Duration = Duration::from_millis(100);

/// A supervised child.
#[derive(Debug)]
pub struct Process {
    dut: &'static str,
    command: String,
    pid: u32,
    stdin: Option<ChildStdin>,
    state: Arc<State>,
    /// Raised by us when it dies, and by whoever wants every wait to end.
    alarm: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    status: Option<ExitStatus>,
    /// When it ended.
    ended: Option<Instant>,
    /// Set before we stop it ourselves: then its end raises no alarm.
    stopping: bool,
    lines: VecDeque<String>,
    /// Their bytes.
    kept_bytes: usize,
    /// Pipes that its readers have not read to the end.
    pipes: u32,
    /// Lines ever printed to standard output and error.
    printed: u64,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Process {
    /// Starts a program. `alarm` is raised when it ends without being asked to.
    pub fn start<S: AsRef<OsStr>>(
        dut: &'static str,
        program: &OsStr,
        arguments: &[S],
        alarm: Arc<AtomicBool>,
    ) -> Result<Self, DutError> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "stdbuf", "-oL"]).arg(program).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        // A program of ours starts 0.2 s sooner where it need not measure the clock.
        command.envs(weir_cpu::Tsc::told());
        let spawn = |error: std::io::Error| DutError::Spawn {
            program: program.to_string_lossy().into_owned(),
            reason: format!("{error} (it is started through `setpriv`, of Debian's util-linux)"),
        };
        let mut child = command.spawn().map_err(spawn)?;
        let pid = child.id();
        let state = Arc::new(State::default());
        let mut threads = Vec::new();
        if let Some(out) = child.stdout.take() {
            threads.push(keep_lines(out, Arc::clone(&state)));
        }
        if let Some(err) = child.stderr.take() {
            threads.push(keep_lines(err, Arc::clone(&state)));
        }
        let stdin = child.stdin.take();
        let (waiting, raised) = (Arc::clone(&state), Arc::clone(&alarm));
        threads.push(std::thread::spawn(move || {
            // First only look, so that the number stays ours until the lock is held.
            let _ = waitid(Id::Pid(Pid::from_raw(pid as i32)), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
            let mut inner = waiting.lock();
            inner.ended = Some(Instant::now());
            inner.status = child.wait().ok().or(Some(ExitStatus::from_raw(0)));
            if !inner.stopping {
                raised.store(true, Ordering::Relaxed);
            }
            waiting.changed.notify_all();
        }));
        let words = arguments.iter().map(|argument| argument.as_ref().to_string_lossy());
        let command = std::iter::once(program.to_string_lossy()).chain(words).collect::<Vec<_>>().join(" ");
        Ok(Self { dut, command, pid, stdin, state, alarm, threads })
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Bytes of memory that it has at this moment, without those in huge pages.
    pub fn resident(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
    }

    /// Freezes it with all it started, as far as that stayed in its process group, so that it leaves
    /// its cores to others. Its sockets and memory stay as they are.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// A process that is gone cannot be signalled; its end is told by [`Self::ended`].
    fn signal(&self, signal: Signal) {
        let inner = self.state.lock();
        if inner.status.is_none() {
            let _ = killpg(Pid::from_raw(self.pid as i32), signal);
        }
    }

    /// Its command line.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Writes a line to its standard input.
    pub fn say(&mut self, line: &str) -> Result<(), DutError> {
        let written = match &mut self.stdin {
            Some(stdin) => writeln!(stdin, "{line}").and_then(|()| stdin.flush()),
            None => Ok(()),
        };
        match (written, self.ended()) {
            (Ok(()), _) => Ok(()),
            (Err(_), Some(ended)) => Err(ended),
            (Err(error), None) => {
                Err(DutError::Spawn { program: self.command.clone(), reason: error.to_string() })
            }
        }
    }

    /// Writes these bytes to its standard input, before any line.
    pub(crate) fn give(&mut self, bytes: &[u8]) -> Result<(), DutError> {
        let written =
            self.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(bytes).and_then(|()| stdin.flush()));
        written.map_err(|error| match self.ended() {
            Some(ended) => ended,
            None => DutError::Spawn { program: self.command.clone(), reason: error.to_string() },
        })
    }

    /// Lines printed so far: a mark for [`Self::wait_for`].
    pub fn mark(&self) -> u64 {
        self.state.lock().printed
    }

    /// Waits until `find` makes something of the lines printed since the mark.
    pub fn wait_for<T>(
        &self,
        mark: u64,
        what: &'static str,
        patience: Duration,
        mut find: impl FnMut(&[&str]) -> Option<T>,
    ) -> Result<T, DutError> {
        let end = Instant::now() + patience;
        let (mut ended, mut last_look) = (None, false);
        let mut inner = self.state.lock();
        loop {
            let new = usize::try_from(inner.printed - mark).unwrap_or(usize::MAX);
            let skip = inner.lines.len().saturating_sub(new);
            let lines: Vec<&str> = inner.lines.iter().skip(skip).map(String::as_str).collect();
            if let Some(found) = find(&lines) {
                return Ok(found);
            }
            if let Some(status) = inner.status {
                // What it said last may still be in the pipes, which a grandchild can hold open.
                if inner.pipes == 0 || last_look {
                    drop(inner);
                    return Err(self.died(status));
                }
                last_look = Instant::now() >= *ended.get_or_insert_with(|| Instant::now() + LAST_WORDS);
                inner = self
                    .state
                    .changed
                    .wait_timeout(inner, LAST_WORDS)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                continue;
            }
            if self.alarm.load(Ordering::Relaxed) {
                return Err(DutError::Interrupted { dut: self.dut });
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let last_words = last_words(&inner);
                return Err(DutError::Silent {
                    dut: self.dut,
                    what,
                    seconds: patience.as_secs(),
                    last_words,
                });
            }
            inner = self
                .state
                .changed
                .wait_timeout(inner, left.min(LOOK))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// What it did so far beside what it is for: lines ever printed, and processes it has started that run.
    pub fn conduct(&self) -> Conduct {
        Conduct { lines: self.mark(), children: self.others_in_group(), ..Conduct::default() }
    }

    /// Processes of its group beside itself.
    fn others_in_group(&self) -> u32 {
        let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
        let own = self.pid.to_string();
        let others = processes.flatten().filter(|entry| {
            // `PID (NAME) STATE PARENT GROUP ...`; the name may hold anything.
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let mut words = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
            let (state, group) = (words.next(), words.nth(1));
            group == Some(&own) && state != Some("Z") && entry.file_name() != *own
        });
        others.count() as u32
    }

    /// How it ended, with what it said last; nothing while it runs.
    pub fn ended(&self) -> Option<DutError> {
        let mut inner = self.state.lock();
        let status = inner.status?;
        // What it said last may still be in the pipes, which a grandchild can hold open.
        let end = inner.ended.unwrap_or_else(Instant::now) + LAST_WORDS;
        while inner.pipes > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            inner = self.state.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(inner);
        Some(self.died(status))
    }

    /// When it ended; nothing while it runs.
    pub fn ended_at(&self) -> Option<Instant> {
        self.state.lock().ended
    }

    fn died(&self, status: ExitStatus) -> DutError {
        let last_words = last_words(&self.state.lock());
        DutError::Died { dut: self.dut, status: status.to_string(), last_words }
    }

    /// Ends it: closes its standard input after `farewell`, and kills it if it takes too long.
    pub fn stop(mut self, farewell: &[&str]) {
        self.state.lock().stopping = true;
        self.resume();
        for line in farewell {
            let _ = self.say(line); // it may be gone already, which is what we want
        }
        self.end();
    }

    /// Ends a program that takes no commands: asks by SIGTERM, and kills it if it takes too long.
    pub fn terminate(mut self) {
        let mut inner = self.state.lock();
        inner.stopping = true;
        if inner.status.is_none() {
            let _ = kill(Pid::from_raw(self.pid as i32), Signal::SIGTERM); // still ours: not reaped
        }
        drop(inner);
        self.end();
    }

    /// The end of what it printed, each line on its own, for an error's message.
    pub fn last_words(&self) -> String {
        last_words(&self.state.lock())
    }

    /// The lines that are kept of what it printed.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.state.lock().lines.iter().cloned().collect()
    }

    fn end(&mut self) {
        self.stdin = None;
        self.resume();
        let mut inner = self.state.lock();
        inner.stopping = true;
        let patient = Instant::now() + PATIENCE;
        while inner.status.is_none() {
            let left = patient.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let _ = killpg(Pid::from_raw(self.pid as i32), Signal::SIGKILL); // still ours: not reaped
            }
            let wait = if left.is_zero() { PATIENCE } else { left };
            inner = self.state.changed.wait_timeout(inner, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        // What it forked into its group must not stay either.
        let _ = killpg(Pid::from_raw(self.pid as i32), Signal::SIGKILL);
        drop(inner);
        self.threads.drain(..).for_each(|thread| {
            let _ = thread.join(); // a reader cannot panic on input it only stores
        });
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.end();
        }
    }
}

fn last_words(inner: &Inner) -> String {
    const SHOWN: usize = 12;
    let skip = inner.lines.len().saturating_sub(SHOWN);
    inner.lines.iter().skip(skip).map(|line| format!("\n    | {}", shortened(line))).collect()
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(SHOWN_LETTERS) {
        Some((end, _)) => format!("{}… ({} bytes)", &line[..end], line.len()),
        None => line.to_owned(),
    }
}

fn keep_lines(from: impl Read + Send + 'static, state: Arc<State>) -> JoinHandle<()> {
    state.lock().pipes += 1;
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut bytes);
            if !matches!(read, Ok(1..)) {
                state.lock().pipes -= 1;
                state.changed.notify_all();
                return;
            }
            let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            let mut inner = state.lock();
            inner.kept_bytes += line.len();
            inner.lines.push_back(line);
            while inner.lines.len() > KEPT_LINES || inner.lines.len() > 1 && inner.kept_bytes > KEPT_BYTES {
                let gone = inner.lines.pop_front().map_or(0, |line| line.len());
                inner.kept_bytes -= gone;
            }
            inner.printed += 1;
            state.changed.notify_all();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, alarm: &Arc<AtomicBool>) -> Process {
        Process::start("test", OsStr::new("sh"), &["-c", script], Arc::clone(alarm)).unwrap()
    }

    #[test]
    fn the_last_words_of_a_child_that_is_found_dead_are_waited_for() {
        let alarm = Arc::new(AtomicBool::new(false));
        let process = shell("(sleep 0.05; echo out of cheese) & exit 3", &alarm);
        let begin = Instant::now();
        let ended = loop {
            match process.ended() {
                Some(ended) => break ended.to_string(),
                None => assert!(begin.elapsed() < Duration::from_secs(20)),
            }
            std::thread::yield_now();
        };
        assert!(ended.contains("exit status: 3") && ended.contains("out of cheese"), "{ended}");
    }

    fn alive(pid: u32) -> bool {
        std::path::Path::new(&format!("/proc/{pid}")).exists()
    }

    #[test]
    fn a_child_answers_and_ends_when_its_input_closes() {
        let alarm = Arc::new(AtomicBool::new(false));
        let mut process = shell("while read word; do echo got $word; done", &alarm);
        let mark = process.mark();
        process.say("hello").unwrap();
        let answer = process.wait_for(mark, "answer", Duration::from_secs(5), |lines| {
            lines.iter().find(|line| line.starts_with("got")).map(|line| (*line).to_owned())
        });
        assert_eq!(answer.unwrap(), "got hello");
        let pid = process.pid();
        process.stop(&[]);
        assert!(!alive(pid));
        assert!(!alarm.load(Ordering::Relaxed), "an end that was asked for raises no alarm");
    }

    #[test]
    fn a_child_that_dies_raises_the_alarm_and_its_last_words_are_kept() {
        let alarm = Arc::new(AtomicBool::new(false));
        let process = shell("echo out of cheese >&2; exit 3", &alarm);
        let error = process
            .wait_for(0, "answer", Duration::from_secs(5), |lines| lines.contains(&"never").then_some(()))
            .unwrap_err()
            .to_string();
        assert!(error.contains("exit status: 3") && error.contains("out of cheese"), "{error}");
        assert!(alarm.load(Ordering::Relaxed));
    }

    #[test]
    fn a_child_that_will_not_go_is_killed_with_all_it_started() {
        let alarm = Arc::new(AtomicBool::new(false));
        let process = shell("trap '' TERM HUP; sleep 1000 & echo $!; while :; do sleep 1; done", &alarm);
        let grandchild: u32 = process
            .wait_for(0, "start", Duration::from_secs(5), |lines| lines.first()?.parse().ok())
            .unwrap();
        let (pid, start) = (process.pid(), Instant::now());
        let conduct = process.conduct();
        assert!(conduct.children >= 1 && conduct.lines == 1, "{conduct:?}");
        drop(process);
        assert!(!alive(pid));
        // A process that was killed is gone when it next has a core.
        let state = || std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
        while !(state().is_empty() || state().contains(") Z")) {
            assert!(start.elapsed() < Duration::from_secs(20), "{}", state());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_child_that_takes_no_commands_is_asked_to_end() {
        let alarm = Arc::new(AtomicBool::new(false));
        let process = shell("trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done", &alarm);
        process.wait_for(0, "start", Duration::from_secs(5), |lines| lines.first().map(|_| ())).unwrap();
        let (pid, start) = (process.pid(), Instant::now());
        process.terminate();
        assert!(start.elapsed() < PATIENCE && !alive(pid));
        assert!(!alarm.load(Ordering::Relaxed));
    }

    #[test]
    fn a_frozen_child_does_nothing_until_it_may_go_on_and_still_ends_in_order() {
        let alarm = Arc::new(AtomicBool::new(false));
        let mut process = shell("while read word; do echo got $word; done; echo bye", &alarm);
        let find = |lines: &[&str]| lines.iter().any(|line| line.starts_with("got")).then_some(());
        let mark = process.mark();
        process.pause();
        process.say("hello").unwrap();
        let silent = process.wait_for(mark, "answer", Duration::from_millis(300), find);
        assert!(matches!(silent, Err(DutError::Silent { .. })), "{silent:?}");
        process.resume();
        process.wait_for(mark, "answer", Duration::from_secs(5), find).unwrap();
        process.pause();
        let (pid, start) = (process.pid(), Instant::now());
        process.stop(&[]);
        assert!(!alive(pid) && start.elapsed() < PATIENCE, "it was let go on, not killed");
        assert!(!alarm.load(Ordering::Relaxed));
    }

    #[test]
    fn a_flood_of_output_is_bounded() {
        let alarm = Arc::new(AtomicBool::new(false));
        let process = shell("yes weir | head -n 100000; head -c 300000 /dev/zero; echo; echo end", &alarm);
        process
            .wait_for(0, "end", Duration::from_secs(20), |lines| lines.contains(&"end").then_some(()))
            .unwrap();
        let inner = process.state.lock();
        assert!(inner.lines.len() <= KEPT_LINES && inner.printed > 100_000);
        assert!(inner.lines.iter().map(String::len).sum::<usize>() <= KEPT_BYTES + 3 * LONGEST_LINE as usize);
    }

    #[test]
    fn a_long_answer_comes_whole_and_an_error_shows_its_beginning() {
        let alarm = Arc::new(AtomicBool::new(false));
        let process = shell("head -c 500000 /dev/zero | tr '\\0' x; echo; sleep 30", &alarm);
        let length = |lines: &[&str]| lines.iter().map(|line| line.len()).max();
        let longest = process.wait_for(0, "a line", Duration::from_secs(20), length).unwrap();
        assert_eq!(longest, 500_000);
        let none = |_: &[&str]| None::<()>;
        let error = process.wait_for(0, "end", Duration::from_millis(10), none).unwrap_err().to_string();
        assert!(error.len() < 1_000 && error.contains("x… (500000 bytes)"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let alarm = Arc::new(AtomicBool::new(false));
        let process = Process::start::<&str>("test", OsStr::new("/no/such/program"), &[], alarm).unwrap();
        let error =
            process.wait_for(0, "start", Duration::from_secs(5), |_| None::<()>).unwrap_err().to_string();
        assert!(error.contains("/no/such/program"), "{error}");
    }
}
