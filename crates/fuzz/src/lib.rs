//! Fuzzing: everything of Weir that reads what others wrote, as one list of targets.
//!
//! - [`TARGETS`], [`Target`]: each takes bytes, hands them to a reader, and asserts what must hold of whatever comes out;
//! - [`Budget`], [`Spent`]: what an input may cost: bytes from the heap, calls to it (steps), time;
//! - [`one`], [`go`]: runs an input; runs the corpus and inputs changed at random, on any compiler;
//! - [`corpus`]: inputs that are kept, one a line, in `crates/fuzz/corpus`.
//!
//! The same targets are run by coverage with libFuzzer (`./x fuzz NAME`, the feature `coverage`). `docs/fuzzing.md` says
//! how, and what was found.
//!
//! Why a runner of our own: it needs nothing but a stable compiler, so that it is a test like any other. What it lacks
//! in coverage it makes up for a little by what targets say came of an input ([`Outcome`]): an input with an outcome
//! that was not seen yet is changed further.
//!
//! Tests only. Threads: a target runs on one, but those that start a switch.

mod budget;
pub mod corpus;
mod input;
mod mutate;
mod runner;
mod targets;

pub use budget::{Budget, Spent};
pub use input::Input;
pub use mutate::Mutator;
pub use runner::{Account, Effort, Failure, go, one};
pub use targets::{TARGETS, target};

use std::hash::{DefaultHasher, Hash, Hasher};

/// What bytes are handed to.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, as people type it.
    pub name: &'static str,
    /// One line of what is tried.
    pub about: &'static str,
    /// What an input may cost.
    pub budget: Budget,
    /// Most bytes of an input.
    pub longest: usize,
    /// Words that mean something to the reader.
    pub words: &'static [&'static str],
    /// Inputs to begin with: what is right, so that most of a changed input still is.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Takes an input. Panics where something does not hold.
    pub run: fn(&[u8]) -> Outcome,
    /// Whether it starts a switch with workers, which need cores and take what the budget does not see.
    pub workers: bool,
}

/// What came of an input, told apart coarsely: inputs of one outcome are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Outcome(pub u64);

impl Outcome {
    /// By anything that can be compared.
    pub fn of(what: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        Self(hasher.finish())
    }

    /// By what is said to a person: without its numbers and what it quotes, which differ from input to input.
    pub fn said(text: &str) -> Self {
        let mut quoted = false;
        let kept = text.chars().filter(|letter| {
            let quote = matches!(letter, '`' | '"' | '\'');
            quoted ^= quote;
            !quote && !quoted && !letter.is_ascii_digit()
        });
        Self::of(kept.take(200).collect::<String>())
    }
}

/// Asserts that a refusal is a sentence, of a length that a person reads.
pub(crate) fn refused(error: &str, input: &[u8]) -> Outcome {
    assert!(error.trim().len() > 5, "a refusal says nothing: {error:?}");
    assert!(error.len() <= 4096 + 16 * input.len(), "a refusal of {} bytes for {}", error.len(), input.len());
    Outcome::said(error)
}
