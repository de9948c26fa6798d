//! Runs inputs, and holds each to what it may cost.

use crate::{Mutator, Outcome, Spent, Target, corpus};
use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_cpu::Heap;

/// Most inputs that are changed further, beside the corpus.
const POOL: usize = 2000;

/// How often an input that took too long is run again.
const AGAIN: usize = 4;

/// After how long an input that has not come back is given up, and the process with it.
const HANGS: Duration = Duration::from_secs(60);

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// What the inputs are drawn from.
    pub seed: u64,
    /// Inputs at most, beside the corpus.
    pub inputs: u64,
    /// Time at most, beside the corpus.
    pub time: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Inputs that were there before.
    pub kept: u64,
    /// Inputs that were drawn.
    pub drawn: u64,
    /// Outcomes that can be told apart.
    pub outcomes: u64,
    /// The most that any input cost.
    pub most: Spent,
    /// The most that any input cost of what it might have, in percent.
    pub share: u64,
}

impl fmt::Display for Account {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} inputs kept and {} drawn, {} outcomes; at most {}, {} % of a budget",
            self.kept, self.drawn, self.outcomes, self.most, self.share
        )
    }
}

/// An input that breaks what must hold.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Of which target.
    pub target: &'static str,
    /// What is wrong.
    pub why: String,
    /// Where it was written to.
    pub file: PathBuf,
    /// It, as a line of the corpus.
    pub line: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (target, file) = (self.target, self.file.display());
        let line: String = self.line.chars().take(400).collect();
        write!(
            out,
            "{target}: {}\n  input: {line}\n  again: cargo run -p weir-fuzz -- repeat {target} {file}\n  \
             once it is mended: cargo run -p weir-fuzz -- keep {target} {file} 'what was wrong'",
            self.why
        )
    }
}

/// Where inputs that found something are written.
fn found() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/fuzz/found")
}

fn failure(target: &Target, input: &[u8], why: String) -> Failure {
    let file = found().join(format!("{}-{:016x}", target.name, Outcome::of(input).0));
    // Where it cannot be written, its line is printed.
    let _ = std::fs::create_dir_all(found()).and_then(|()| std::fs::write(&file, input));
    Failure { target: target.name, why, file, line: corpus::line(input) }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

/// Runs an input once.
fn once(target: &Target, input: &[u8]) -> Result<(Outcome, Spent), String> {
    let (begin, before) = (Instant::now(), Heap::now());
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let (after, time) = (Heap::now(), begin.elapsed());
    let bytes = after.taken.wrapping_sub(before.taken);
    let calls = after.calls.wrapping_sub(before.calls);
    let outcome = outcome.map_err(|panic| words(&*panic))?;
    Ok((outcome, Spent { bytes, calls, time }))
}

/// Runs an input: what came of it, and what it cost.
///
/// # Errors
/// It panicked, or cost more than it may.
pub fn one(target: &Target, input: &[u8]) -> Result<(Outcome, Spent), Failure> {
    let fail = |why| failure(target, input, why);
    let (outcome, mut spent) = once(target, input).map_err(fail)?;
    let most = target.budget.of_length(input.len());
    for _ in 0..AGAIN {
        if spent.time <= most.time {
            break;
        }
        let (_, again) = once(target, input).map_err(fail)?;
        spent.time = spent.time.min(again.time);
    }
    match spent.beyond(&most) {
        Some(why) => Err(fail(format!("{why}, for {} bytes", input.len()))),
        None => Ok((outcome, spent)),
    }
}

/// Watches that inputs come back.
struct Watchdog(Arc<Mutex<Current>>);

/// The input at hand, and since when; none between two.
type Current = Option<(Instant, Vec<u8>)>;

impl Watchdog {
    fn start(target: &'static Target) -> Self {
        let current: Arc<Mutex<Current>> = Arc::default();
        let watched = Arc::downgrade(&current);
        std::thread::spawn(move || {
            while let Some(current) = watched.upgrade() {
                if let Some((since, input)) = &*current.lock().unwrap_or_else(PoisonError::into_inner)
                    && since.elapsed() > HANGS
                {
                    eprintln!("{}", failure(target, input, format!("it has not come back for {HANGS:?}")));
                    std::process::abort();
                }
                drop(current);
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        Self(current)
    }

    fn run(&self, target: &Target, input: &[u8]) -> Result<(Outcome, Spent), Failure> {
        let now = Some((Instant::now(), input.to_vec()));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
        let result = one(target, input);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        result
    }
}

/// Runs what is kept of a target, and inputs changed at random.
///
/// # Errors
/// The first input that breaks something.
pub fn go(target: &'static Target, effort: Effort) -> Result<Account, Failure> {
    let watchdog = Watchdog::start(target);
    let kept = corpus::kept(target.name).map_err(|why| failure(target, &[], why))?;
    let mut pool = (target.seeds)();
    pool.extend(kept);
    pool.push(Vec::new());
    let (mut account, mut seen) = (Account::default(), HashSet::new());
    let mut take = |input: &[u8]| -> Result<bool, Failure> {
        let (outcome, spent) = watchdog.run(target, input)?;
        account.most = account.most.most(&spent);
        account.share = account.share.max(share(&spent, &target.budget.of_length(input.len())));
        Ok(seen.insert(outcome))
    };
    for input in &pool {
        take(input)?;
    }
    let (kept, begin) = (pool.len(), Instant::now());
    let mut mutator = Mutator::new(effort.seed, target.words, target.longest);
    let mut drawn = 0;
    while drawn < effort.inputs && begin.elapsed() < effort.time {
        let input = mutator.next(&pool);
        drawn += 1;
        if take(&input)? && pool.len() < kept + POOL {
            pool.push(input);
        }
    }
    Ok(Account { kept: kept as u64, drawn, outcomes: seen.len() as u64, ..account })
}

/// Percent of the bytes or the calls that might be taken.
fn share(spent: &Spent, most: &Spent) -> u64 {
    let of = |spent: u64, most: u64| (spent * 100).checked_div(most).unwrap_or(0);
    of(spent.bytes, most.bytes).max(of(spent.calls, most.calls))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Budget;
    use weir_cpu::CountingAllocator;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    fn target(run: fn(&[u8]) -> Outcome) -> &'static Target {
        Box::leak(Box::new(Target {
            name: "none",
            about: "",
            budget: Budget::of(64, 1, 4, 0).within(Duration::from_millis(20), Duration::ZERO),
            longest: 100,
            words: &[],
            seeds: || vec![b"abcd".to_vec()],
            run,
            workers: false,
        }))
    }

    fn effort() -> Effort {
        Effort { seed: 1, inputs: 20_000, time: Duration::from_secs(20) }
    }

    #[test]
    fn a_panic_a_greedy_input_and_a_slow_one_are_found_with_the_input_that_did_it() {
        let quiet = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let panics = target(|input| {
            assert_ne!(input.first(), Some(&b'!'), "boo");
            Outcome::of(0)
        });
        let panics = go(panics, effort());
        std::panic::set_hook(quiet);
        let panics = panics.unwrap_err();
        assert!(panics.why.contains("boo") && panics.line.starts_with('!'), "{panics}");
        assert_eq!(std::fs::read(&panics.file).unwrap()[0], b'!');
        std::fs::remove_file(&panics.file).unwrap();

        let greedy =
            go(target(|input| Outcome::of(vec![0_u8; input.len().pow(2)].len())), effort()).unwrap_err();
        assert!(greedy.why.contains("bytes were taken"), "{greedy}");
        std::fs::remove_file(greedy.file).unwrap();

        let slow = target(|input| {
            if input.len() > 50 {
                std::thread::sleep(Duration::from_millis(25));
            }
            Outcome::of(0)
        });
        let slow = go(slow, effort()).unwrap_err();
        assert!(slow.why.contains("took"), "{slow}");
        std::fs::remove_file(slow.file).unwrap();
    }

    #[test]
    fn inputs_with_outcomes_that_are_new_lead_to_others() {
        // How many bytes of a word are right: each step is one in thousands, all six at once none.
        let steps =
            target(|input| Outcome::of(input.iter().zip(b"WEIRD!").take_while(|(a, b)| a == b).count()));
        let account = go(steps, Effort { inputs: 200_000, ..effort() }).unwrap();
        assert!(account.outcomes >= 4, "{account}");
        assert_eq!((account.kept, account.share), (2, 0));
    }
}
