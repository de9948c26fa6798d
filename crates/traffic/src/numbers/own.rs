//! The numbers of a sender whose packets one thread receives.

/// See the module.
#[derive(Debug)]
pub(super) struct Own {
    /// One above the greatest seen.
    expected: u64,
    /// A bit a number, as many as the window has: a power of two.
    seen: Vec<u64>,
}

impl Own {
    pub(super) fn new(window: u64) -> Self {
        // Each page of it touched.
        let mut seen = vec![1; (window / 64) as usize];
        seen.fill(0);
        Self { expected: 0, seen }
    }

    fn window(&self) -> u64 {
        self.seen.len() as u64 * 64
    }

    /// Where a number's bit stands.
    #[inline]
    fn bit(&self, number: u64) -> (usize, u64) {
        ((number / 64) as usize & (self.seen.len() - 1), 1 << (number % 64))
    }

    /// Marks a number. Whether it is new, and whether it is above all seen before.
    #[inline]
    pub(super) fn note(&mut self, number: u64) -> (bool, bool) {
        let (word, bit) = self.bit(number);
        if number >= self.expected {
            self.forget_up_to(number);
            self.expected = number + 1;
            self.seen[word] |= bit;
            return (true, true);
        }
        if self.expected - number > self.window() || self.seen[word] & bit != 0 {
            return (false, false);
        }
        self.seen[word] |= bit;
        (true, false)
    }

    /// Clears the marks of the numbers `expected..=number`, whose places held older ones.
    #[inline]
    fn forget_up_to(&mut self, number: u64) {
        if number == self.expected {
            let (word, bit) = self.bit(number);
            self.seen[word] &= !bit;
            return;
        }
        if number - self.expected >= self.window() {
            self.seen.fill(0);
            return;
        }
        for number in self.expected..=number {
            let (word, bit) = self.bit(number);
            self.seen[word] &= !bit;
        }
    }
}
