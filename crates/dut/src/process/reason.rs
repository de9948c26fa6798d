//! Why something that was asked of a program failed, as far as the program itself says.

use super::Process;
use crate::DutError;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// How long is waited for the end of a program whose connection broke, and for the output of one that refused.
const LATE: Duration = Duration::from_millis(300);

/// How long it prints nothing when it has said all.
const SILENCE: Duration = Duration::from_millis(50);

impl Process {
    /// The reason for an error of a connection with it. Where the connection broke or an answer did not come, that is its end, if it
    /// ended; where it refused, what it prints stands beside its answer. `mark` is the one of before the question.
    pub(crate) fn reason(&self, mark: u64, error: DutError) -> DutError {
        match error {
            DutError::Refused { dut, command, reason, .. } => {
                self.fall_silent(mark);
                DutError::Refused { dut, command, reason, last_words: self.last_words() }
            }
            error @ (DutError::Network { .. } | DutError::Interrupted { .. } | DutError::Silent { .. }) => {
                match (self.wait_for(0, "end", LATE, |_| None::<()>), error) {
                    (Err(died @ DutError::Died { .. }), _) => died,
                    (_, DutError::Silent { dut, what, seconds, .. }) => {
                        DutError::Silent { dut, what, seconds, last_words: self.last_words() }
                    }
                    (_, error) => error,
                }
            }
            error => error,
        }
    }

    /// Waits until it has printed something since the mark, and then nothing more. What it prints beside an answer comes by
    /// another way than the answer, and may come after it; it need not print anything.
    fn fall_silent(&self, mark: u64) {
        let end = Instant::now() + LATE;
        let mut inner = self.state.lock();
        let (mut printed, mut since) = (inner.printed, Instant::now());
        loop {
            let now = Instant::now();
            if inner.printed != printed {
                (printed, since) = (inner.printed, now);
            }
            let over = if printed > mark { end.min(since + SILENCE) } else { end };
            let left = over.saturating_duration_since(now);
            if left.is_zero() || inner.pipes == 0 {
                return;
            }
            let waited = self.state.changed.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn shell(script: &str) -> Process {
        Process::start("test", OsStr::new("sh"), &["-c", script], Default::default()).unwrap()
    }

    fn refused() -> DutError {
        let (command, reason) = ("make".to_owned(), "no".to_owned());
        DutError::Refused { dut: "test", command, reason, last_words: String::new() }
    }

    #[test]
    fn what_a_program_prints_after_its_answer_is_told_to_the_last_line() {
        let told = || {
            let mut process =
                shell("echo up; read word; sleep 0.1; echo because; sleep 0.02; echo of this; sleep 30");
            let mark = process.mark();
            process.say("make").unwrap();
            process.wait_for(mark, "start", LATE * 60, |lines| lines.first().map(|_| ())).unwrap();
            process.reason(process.mark(), refused()).to_string()
        };
        // A shell that has no core for as long as is waited has not said all: others are asked.
        let is_whole = |said: String| said.contains("| because") && said.contains("| of this");
        assert!((0..10).any(|_| is_whole(told())), "{}", told());
    }

    #[test]
    fn a_program_that_prints_nothing_or_never_stops_is_not_waited_for_long() {
        for (script, words) in [("exec sleep 30", ""), ("while :; do echo more; sleep 0.01; done", "| more")]
        {
            let (process, start) = (shell(script), Instant::now());
            let said = process.reason(0, refused()).to_string();
            assert!(said.contains("`make` failed: no") && said.contains(words), "{said}");
            assert!(start.elapsed() < Duration::from_secs(20));
        }
    }

    #[test]
    fn a_connection_that_broke_as_the_program_died_is_its_end_and_silence_has_its_last_words() {
        let broke = || DutError::Network { what: "its socket".to_owned(), reason: "closed".to_owned() };
        let said = shell("sleep 0.05; echo out of cheese; exit 3").reason(0, broke()).to_string();
        assert!(said.contains("exit status: 3") && said.contains("| out of cheese"), "{said}");
        let process = shell("echo hm; exec sleep 30");
        process.wait_for(0, "start", LATE * 60, |lines| lines.first().map(|_| ())).unwrap();
        assert!(process.reason(0, broke()).to_string().contains("closed"));
        let silent = DutError::Silent { dut: "test", what: "answer", seconds: 1, last_words: String::new() };
        let said = process.reason(0, silent).to_string();
        assert!(said.contains("| hm"), "{said}");
    }
}
