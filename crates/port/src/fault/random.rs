//! Draws by seed: Steele, Lea and Flood's SplitMix, a few instructions each.

/// A stream of draws.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

/// How likely something is: it happens when 64 random bits are below this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chance(u64);

impl Chance {
    /// From a share of 0 to 1.
    pub(crate) fn new(share: f64) -> Option<Self> {
        // 1.0 saturates: all but one of 2^64 draws.
        (0.0..=1.0).contains(&share).then(|| Self((share * 2.0_f64.powi(64)) as u64))
    }
}

impl Random {
    /// The stream of a seed; each of the same seed is another.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        Self(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Whether it happens this time.
    pub(super) fn happens(&mut self, chance: Chance) -> bool {
        chance.0 > 0 && self.bits() < chance.0
    }

    /// A number below another, which is not 0.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_happen_as_often_as_their_chance_says_and_the_same_by_the_same_seed() {
        let mut random = Random::new(7, 0);
        for share in [0.0, 0.01, 0.5, 1.0] {
            let chance = Chance::new(share).unwrap();
            let times = (0..100_000).filter(|_| random.happens(chance)).count() as f64;
            assert!((times / 100_000.0 - share).abs() < 0.01, "{share}: {times}");
        }
        assert!(
            Chance::new(1.01).is_none() && Chance::new(-0.1).is_none() && Chance::new(f64::NAN).is_none()
        );
        let draws = |stream| {
            let mut random = Random::new(7, stream);
            (0..8).map(|_| random.bits()).collect::<Vec<_>>()
        };
        assert!(draws(1) == draws(1) && draws(1) != draws(2));
    }
}
