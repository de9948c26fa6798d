//! From values to places on the paper, and the round values that are marked on an axis.

/// How an axis divides its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// From zero, evenly.
    Linear,
    /// By ratio.
    Log,
}

/// Maps a span of values onto a span of the drawing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    spacing: Spacing,
    values: (f64, f64),
    places: (f64, f64),
}

impl Scale {
    /// Values from `values.0` to `values.1` fall onto `places.0` to `places.1`. Logarithmic spans must be positive.
    pub(crate) fn new(spacing: Spacing, values: (f64, f64), places: (f64, f64)) -> Self {
        Self { spacing, values, places }
    }

    /// The place of a value; values outside the span fall outside the drawing.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let bent = |value: f64| match self.spacing {
            Spacing::Linear => value,
            Spacing::Log => value.max(f64::MIN_POSITIVE).ln(),
        };
        let (low, high) = (bent(self.values.0), bent(self.values.1));
        let share = if high > low { (bent(value) - low) / (high - low) } else { 0.5 };
        self.places.0 + share * (self.places.1 - self.places.0)
    }

    /// The greatest value of the span.
    pub(crate) fn greatest(&self) -> f64 {
        self.values.1
    }

    /// The least value of the span.
    pub(crate) fn least(&self) -> f64 {
        self.values.0
    }

    /// Round values to mark, rising.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        match self.spacing {
            Spacing::Linear => linear_ticks(self.values.1),
            Spacing::Log => log_ticks(self.values.0, self.values.1),
        }
    }
}

/// Five or so multiples of 1, 2 or 5 times a power of ten, from zero up to `greatest`.
fn linear_ticks(greatest: f64) -> Vec<f64> {
    let rough = greatest / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(power);
    (0..=6).map(|n| f64::from(n) * step).take_while(|tick| *tick <= greatest * 1.000_1).collect()
}

/// Powers of ten; with 2 and 5 times them where the span is short.
fn log_ticks(least: f64, greatest: f64) -> Vec<f64> {
    let decades = (greatest / least).log10();
    let factors: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let powers = least.log10().floor() as i32..=greatest.log10().ceil() as i32;
    powers
        .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)))
        .filter(|tick| (least * 0.999..=greatest * 1.001).contains(tick))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_span() {
        let scale = Scale::new(Spacing::Linear, (0.0, 15.6e6), (100.0, 0.0));
        assert_eq!(scale.ticks(), [0.0, 5e6, 10e6, 15e6]);
        let scale = Scale::new(Spacing::Log, (900.0, 2.1e6), (0.0, 1.0));
        assert_eq!(scale.ticks(), [1e3, 1e4, 1e5, 1e6]);
        let scale = Scale::new(Spacing::Log, (900.0, 9e3), (0.0, 1.0));
        assert_eq!(scale.ticks(), [1e3, 2e3, 5e3]);
    }

    #[test]
    fn a_logarithmic_scale_places_ratios_evenly() {
        let scale = Scale::new(Spacing::Log, (64.0, 1024.0), (0.0, 4.0));
        assert!((scale.place(256.0) - 2.0).abs() < 1e-9);
        assert_eq!(Scale::new(Spacing::Log, (64.0, 64.0), (0.0, 4.0)).place(64.0), 2.0);
    }
}
