//! What tests share: what a test needs of the machine, where random tests take their seeds from, and their dice.
//!
//! A test that needs root or another program begins with `if !needs!(...) { return; }`. Where something is
//! missing, a laptop skips the test and says so; in CI (the environment has `CI=true`) the test fails, for a
//! test that is absent proves nothing. With `WEIR_LEDGER=FILE` every such place writes down that it ran or
//! was skipped; `./x test` compares that with all the places there are in the sources.
//!
//! Used by tests only.

mod dice;
mod ledger;
mod need;
pub mod postgres;
mod seed;

pub use dice::Dice;
pub use ledger::can_run;
pub use need::Need;
pub use seed::{asked, draws, seed};

/// Whether this machine has all that a test needs; says what is missing where it has not, and panics in CI.
#[macro_export]
macro_rules! needs {
    ($($need:expr),+ $(,)?) => {
        $crate::can_run(file!(), line!(), &[$($need),+])
    };
}
