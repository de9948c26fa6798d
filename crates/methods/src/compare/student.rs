//! Student's t distribution for any real degrees of freedom: Welch's are not whole.
//!
//! By the regularised incomplete beta function (Abramowitz and Stegun, 26.7.1 and 26.5.8).

/// Steps after which the continued fraction has long converged; it takes some ten.
const MOST_STEPS: u32 = 300;

/// Chance that `|T|` exceeds `t` in size.
pub(super) fn two_sided(t: f64, degrees: f64) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    incomplete_beta(degrees / (degrees + t * t), degrees / 2.0, 0.5).clamp(0.0, 1.0)
}

/// Chance that `T` lies below `t`.
pub(super) fn below(t: f64, degrees: f64) -> f64 {
    let tail = two_sided(t, degrees) / 2.0;
    if t < 0.0 { tail } else { 1.0 - tail }
}

/// The `t` that `|T|` exceeds with the chance `p`.
pub(super) fn quantile(p: f64, degrees: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided(high, degrees) > p && high < 1e12 {
        (low, high) = (high, high * 2.0);
    }
    let mut t = f64::midpoint(low, high);
    for _ in 0..100 {
        let chance = two_sided(t, degrees);
        if chance > p {
            low = t
        } else {
            high = t
        }
        // Newton's step on the logarithm, which is nearly straight here; half of what is left where that leads out of it.
        let step = t + (chance / p).ln() * chance / (2.0 * density(t, degrees));
        let next = if low < step && step < high { step } else { f64::midpoint(low, high) };
        if (next - t).abs() <= 2.0 * f64::EPSILON * t {
            return next;
        }
        t = next;
    }
    t
}

/// How dense the distribution is at `t`.
fn density(t: f64, degrees: f64) -> f64 {
    let front = libm::lgamma(f64::midpoint(degrees, 1.0)) - libm::lgamma(degrees / 2.0);
    let log = front - f64::midpoint(degrees, 1.0) * (t * t / degrees).ln_1p();
    log.exp() / (degrees * std::f64::consts::PI).sqrt()
}

/// The 95 % confidence interval of a chance that came true `hits` times of `of` (C. J. Clopper and E. S.
/// Pearson, Biometrika 26, 1934): it covers the truth in at least 95 of 100 cases, however few they are.
pub fn share_interval(hits: u32, of: u32) -> crate::repeat::Interval {
    let (k, n) = (f64::from(hits.min(of)), f64::from(of));
    // The chance of k or more is the incomplete beta function of the share (Abramowitz and Stegun, 26.5.24).
    let share_where = |tail: &dyn Fn(f64) -> bool| {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if tail(middle) { low = middle } else { high = middle }
        }
        f64::midpoint(low, high)
    };
    let half = super::MISS / 2.0;
    let low = if hits == 0 { 0.0 } else { share_where(&|p| incomplete_beta(p, k, n - k + 1.0) < half) };
    let high =
        if hits >= of { 1.0 } else { share_where(&|p| 1.0 - incomplete_beta(p, k + 1.0, n - k) > half) };
    crate::repeat::Interval { low, high }
}

/// The regularised incomplete beta function of `x`, 0 to 1.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let log_front = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * x.ln() + b * (-x).ln_1p();
    // The fraction converges fast below the distribution's middle; beyond it, from the other end.
    if x < (a + 1.0) / (a + b + 2.0) {
        log_front.exp() / a / fraction(x, a, b)
    } else {
        1.0 - log_front.exp() / b / fraction(1.0 - x, b, a)
    }
}

/// The continued fraction of 26.5.8, `1 + d1/(1 + d2/(1 + ...))`, from its convergents.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let term = |step: u32| {
        let m = f64::from(step / 2);
        if step.is_multiple_of(2) {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        }
    };
    let (mut before, mut now) = ((1.0, 0.0), (1.0, 1.0));
    let mut value = 1.0;
    for step in 1..=MOST_STEPS {
        let d = term(step);
        let next = (now.0 + d * before.0, now.1 + d * before.1);
        // Scaled, so that numerator and denominator stay near one.
        (before, now) = ((now.0 / next.1, now.1 / next.1), (next.0 / next.1, 1.0));
        if (now.0 - value).abs() <= 1e-15 * now.0.abs() {
            break;
        }
        value = now.0;
    }
    now.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_printed_tables() {
        for (degrees, expected) in
            [(1.0, 12.706_205), (2.0, 4.302_653), (4.0, 2.776_445), (9.0, 2.262_157), (30.0, 2.042_272)]
        {
            assert!((quantile(0.05, degrees) - expected).abs() < 1e-5, "{degrees}");
        }
        assert!((quantile(0.05, 1e7) - 1.959_964).abs() < 1e-5, "the normal distribution in the end");
        assert!((quantile(0.01, 5.0) - 4.032_143).abs() < 1e-5);
    }

    /// Values that R's `binom.test` gives.
    #[test]
    fn shares_have_clopper_and_pearsons_interval() {
        for (hits, of, low, high) in [
            (5, 100, 0.016_432, 0.112_835),
            (0, 100, 0.0, 0.036_217),
            (10, 10, 0.691_503, 1.0),
            (1, 20, 0.001_265, 0.248_733),
        ] {
            let interval = share_interval(hits, of);
            assert!(
                (interval.low - low).abs() < 1e-5 && (interval.high - high).abs() < 1e-5,
                "{hits} of {of}: {interval:?}"
            );
        }
    }

    #[test]
    fn a_quantile_is_exceeded_with_its_chance_however_small_and_whatever_the_degrees() {
        for degrees in [0.3, 1.0, 1.7, 2.0, 5.5, 30.0, 1e3, 1e6] {
            for p in [0.999, 0.5, 0.05, 1e-3, 1e-6, 1e-9] {
                let t = quantile(p, degrees);
                // Beyond it the search for an upper end has ended.
                if t < 1e12 {
                    let off = two_sided(t, degrees) / p - 1.0;
                    assert!(off.abs() < 1e-7, "{p} of {degrees}: {t}, off by {off}");
                }
            }
        }
    }

    #[test]
    fn degrees_between_whole_ones_lie_between_their_quantiles() {
        let quantiles: Vec<f64> = (0..40).map(|n| quantile(0.05, 1.0 + f64::from(n) / 4.0)).collect();
        assert!(quantiles.is_sorted_by(|a, b| a > b), "{quantiles:?}");
    }

    #[test]
    fn one_degree_is_cauchys_distribution() {
        for t in [-3.0_f64, -0.5, 0.0, 0.7, 10.0] {
            let cauchy = 0.5 + t.atan() / std::f64::consts::PI;
            assert!((below(t, 1.0) - cauchy).abs() < 1e-12, "{t}");
        }
        assert_eq!((two_sided(f64::INFINITY, 3.0), two_sided(0.0, 3.0)), (0.0, 1.0));
    }
}
