//! Bytes as choices: what a target needs that is more than one text.

/// An input, taken bit by bit. Where it has ended, everything is zero.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All of it.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether there is nothing more.
    pub const fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// The next two bytes.
    pub fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// The next sixteen bytes.
    pub fn long(&mut self) -> u128 {
        (0..16).fold(0, |all, _| all << 8 | u128::from(self.byte()))
    }

    /// A number below another, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// One of several, of which there is one at least.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// The next so many bytes, as far as there are any.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// A part whose length stands before it, in two bytes.
    pub fn part(&mut self) -> &'a [u8] {
        let count = usize::from(self.word());
        self.bytes(count)
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Parts as [`Self::part`] takes them, each behind a byte of choice.
    pub fn of_parts<'b>(parts: impl IntoIterator<Item = (u8, &'b [u8])>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (choice, part) in parts {
            let part = &part[..part.len().min(usize::from(u16::MAX))];
            bytes.push(choice);
            bytes.extend((part.len() as u16).to_be_bytes());
            bytes.extend(part);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_taken_as_they_were_put_and_behind_the_end_is_nothing() {
        let bytes = Input::of_parts([(3, &b"abc"[..]), (9, b"")]);
        let mut input = Input::new(&bytes);
        assert_eq!((input.byte(), input.part()), (3, &b"abc"[..]));
        assert_eq!((input.byte(), input.part()), (9, &b""[..]));
        assert!(input.is_over());
        assert_eq!(
            (input.byte(), input.word(), input.long(), input.part(), input.rest()),
            (0, 0, 0, &b""[..], &b""[..])
        );
        // A length that says more than there is.
        assert_eq!(Input::new(&[0, 9, 1]).part(), [1]);
    }
}
