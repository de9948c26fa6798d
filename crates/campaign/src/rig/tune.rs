//! A search for a device's best settings, while it forwards the very packets it will be measured with.
//!
//! Knob by knob: every value of a knob is tried with the best values of the knobs before it, and taken where
//! it forwards at least [`BETTER`] as much. So the cost is the sum of the values and not their product, and
//! what only two knobs together would bring is missed. Pure: the caller measures.

/// How much better a value must be to be taken: two looks at the same setting differ by less.
const BETTER: f64 = 1.02;

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The variant: words joined by `+`; empty for the default.
    pub(crate) variant: String,
    /// What was tried, and what came of it.
    pub(crate) says: String,
}

/// Searches among the values of some knobs. `measure` gives the rate of a variant, in packets a second.
pub(super) fn search<E>(
    knobs: &[&[&str]],
    mut measure: impl FnMut(&str) -> Result<f64, E>,
) -> Result<Choice, E> {
    let mut best = String::new();
    let mut rate = measure(&best)?;
    let mut tried = vec![format!("default {:.3}", rate / 1e6)];
    for knob in knobs {
        let before = best.clone();
        for value in *knob {
            let variant = if before.is_empty() { (*value).to_owned() } else { format!("{before}+{value}") };
            let found = measure(&variant)?;
            tried.push(format!("{variant} {:.3}", found / 1e6));
            if found > rate * BETTER {
                (best, rate) = (variant, found);
            }
        }
    }
    let name = if best.is_empty() { "the default" } else { &best };
    let says = format!("tuned by a search to {name} (Mpps: {})", tried.join(", "));
    Ok(Choice { variant: best, says })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOBS: [&[&str]; 2] = [&["smc"], &["emc=1", "emc=20", "emc=0"]];

    fn found(rate: impl Fn(&str) -> f64) -> Choice {
        search(&KNOBS, |variant| Ok::<_, ()>(rate(variant))).unwrap()
    }

    #[test]
    fn the_best_of_each_knob_is_taken_with_the_best_of_those_before() {
        let rate = |variant: &str| {
            let smc = if variant.contains("smc") { 1.2 } else { 1.0 };
            let emc = if variant.ends_with("emc=20") { 1.5 } else { 1.0 };
            1e6 * smc * emc
        };
        let choice = found(rate);
        assert_eq!(choice.variant, "smc+emc=20");
        assert_eq!(
            choice.says,
            "tuned by a search to smc+emc=20 (Mpps: default 1.000, smc 1.200, smc+emc=1 1.200, smc+emc=20 1.800, \
             smc+emc=0 1.200)"
        );
    }

    #[test]
    fn what_is_no_better_than_chance_leaves_the_default() {
        let choice = found(|variant| if variant.is_empty() { 1e6 } else { 1.015e6 });
        assert_eq!(choice.variant, "");
        assert!(choice.says.starts_with("tuned by a search to the default"), "{}", choice.says);
        // A setting that does not settle has no rate.
        assert_eq!(found(|variant| if variant == "smc" { 0.0 } else { 1e6 }).variant, "");
        assert_eq!(found(|_| 0.0).variant, "", "where none settles, the default is as good");
    }
}
