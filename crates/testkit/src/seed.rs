//! Where random tests take their seeds from.
//!
//! `WEIR_SEED=N` chooses what all of them draw; `./x test` sets it to a number made of what is committed, prints it, and hands it
//! to proptest too. Without it a test draws what it drew before.

/// The seed of a random test: `WEIR_SEED`, or its own. Prints how to draw the same again.
///
/// # Panics
/// Where `WEIR_SEED` is not a whole number.
pub fn seed(own: u64) -> u64 {
    let seed = asked("WEIR_SEED", own);
    println!("seed: WEIR_SEED={seed} draws the same again");
    seed
}

/// A number that the environment may choose, such as how many packets a test sends.
///
/// # Panics
/// Where it is set and not a whole number.
pub fn asked(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| {
        text.parse().unwrap_or_else(|_| panic!("{variable} is a whole number, not `{text}`"))
    })
}

/// So many draws of a random test; under Miri, which takes a thousand times as long, a thousandth of them, and one at least.
pub const fn draws(count: usize) -> usize {
    if cfg!(miri) { count.div_ceil(1000) } else { count }
}
