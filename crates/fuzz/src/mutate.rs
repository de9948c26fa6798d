//! Inputs, changed: one of those that are there, with a few things wrong.

use weir_testkit::Dice;

/// Numbers at which readers of lengths and counts go wrong.
const NUMBERS: [u32; 18] =
    [0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 127, 128, 255, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];

/// What is put into texts, whatever they are.
const WORDS: [&str; 14] = [
    "0",
    "-1",
    "1e999",
    "18446744073709551616",
    "\u{0}",
    "é",
    "\u{202e}",
    "\u{feff}",
    "\"",
    "'",
    "\n",
    " ",
    ",",
    "=",
];

/// Changes inputs at random.
#[derive(Debug)]
pub struct Mutator {
    dice: Dice,
    words: &'static [&'static str],
    longest: usize,
}

impl Mutator {
    /// By a seed; with these words, and no longer than that.
    pub fn new(seed: u64, words: &'static [&'static str], longest: usize) -> Self {
        Self { dice: Dice::new(seed), words, longest }
    }

    /// One of these inputs, of which there is one at least, changed.
    pub fn next(&mut self, pool: &[Vec<u8>]) -> Vec<u8> {
        if self.dice.one_in(50) {
            let length = self.below(self.longest.min(200) + 1);
            return (0..length).map(|_| self.dice.next() as u8).collect();
        }
        let mut bytes = pool[self.below(pool.len())].clone();
        for _ in 0..1 + self.below(4) {
            self.change(&mut bytes, pool);
        }
        bytes.truncate(self.longest);
        bytes
    }

    fn below(&mut self, end: usize) -> usize {
        self.dice.below(end as u64) as usize
    }

    /// A range of it, short mostly.
    fn range(&mut self, bytes: &[u8]) -> std::ops::Range<usize> {
        let from = self.below(bytes.len() + 1);
        let most = (bytes.len() - from).min(if self.dice.one_in(4) { usize::MAX } else { 8 });
        from..from + self.below(most + 1)
    }

    fn change(&mut self, bytes: &mut Vec<u8>, pool: &[Vec<u8>]) {
        let range = self.range(bytes);
        match self.dice.below(12) {
            0 | 1 => {
                if let Some(byte) = bytes.get_mut(range.start) {
                    *byte ^= 1 << self.dice.below(8);
                }
            }
            2 => {
                if let Some(byte) = bytes.get_mut(range.start) {
                    *byte = self.dice.next() as u8;
                }
            }
            3 => self.number(bytes, range.start),
            4 => drop(bytes.drain(range)),
            5 => {
                let part = bytes[range].to_vec();
                let at = self.below(bytes.len() + 1);
                drop(bytes.splice(at..at, part));
            }
            6 => {
                let other = &pool[self.below(pool.len())];
                let part = other[self.range(other)].to_vec();
                drop(bytes.splice(range, part));
            }
            7 | 8 => {
                let words =
                    if self.words.is_empty() || self.dice.one_in(4) { &WORDS[..] } else { self.words };
                let word = words[self.below(words.len())].as_bytes().to_vec();
                let over = if self.dice.one_in(2) { range.clone() } else { range.start..range.start };
                drop(bytes.splice(over, word));
            }
            9 => bytes.truncate(range.start),
            10 => self.repeat(bytes, range),
            _ => bytes.insert(range.start, self.dice.next() as u8),
        }
        // A change that doubles is done a few times at most.
        bytes.truncate(self.longest);
    }

    /// A number that is often wrong, of one, two or four bytes in either order, or one more or less than is there.
    fn number(&mut self, bytes: &mut [u8], at: usize) {
        let width = [1, 2, 4][self.below(3)];
        let Some(place) = bytes.get_mut(at..at + width) else { return };
        let old = place.iter().fold(0_u32, |all, &byte| all << 8 | u32::from(byte));
        let number = match self.dice.below(4) {
            0 => old.wrapping_add(1),
            1 => old.wrapping_sub(1),
            _ => NUMBERS[self.below(NUMBERS.len())],
        };
        let wide = number.to_be_bytes();
        place.copy_from_slice(&wide[4 - width..]);
        if self.dice.one_in(3) {
            place.reverse();
        }
    }

    /// The same again and again, as what costs more than its length would.
    fn repeat(&mut self, bytes: &mut Vec<u8>, range: std::ops::Range<usize>) {
        let part = bytes[range.clone()].to_vec();
        if part.is_empty() {
            return;
        }
        let room = self.longest.saturating_sub(bytes.len()) / part.len();
        let most = if self.dice.one_in(20) { room } else { room.min(16) };
        let times = self.below(most + 1);
        drop(bytes.splice(range.end..range.end, part.repeat(times)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn changed_inputs_differ_stay_within_their_length_and_are_the_same_by_the_same_seed() {
        let pool = vec![b"table=0,ip actions=output:1".to_vec(), vec![0; 60], Vec::new()];
        let draw = |seed| {
            let mut mutator = Mutator::new(seed, &["ct("], 100);
            (0..3000).map(|_| mutator.next(&pool)).collect::<Vec<_>>()
        };
        let inputs = draw(1);
        assert_eq!(inputs, draw(1));
        assert!(inputs.iter().all(|input| input.len() <= 100));
        assert!(inputs.iter().any(|input| input.len() == 100));
        assert!(inputs.iter().any(|input| input.windows(3).any(|part| part == b"ct(")));
        let different: HashSet<_> = inputs.iter().collect();
        assert!(different.len() > 2000, "{}", different.len());
    }
}
