//! Numbers of nodes and edges by name.

/// From a 64-bit name to a number: open addressing. Names are addresses and contexts, which no packet
/// chooses.
#[derive(Debug)]
pub(super) struct Numbers {
    slots: Vec<(u64, u32)>,
    len: usize,
}

impl Numbers {
    const NONE: u32 = u32::MAX;

    pub(super) fn new() -> Self {
        Self { slots: vec![(0, Self::NONE); 64], len: 0 }
    }

    #[inline]
    fn home(&self, name: u64) -> usize {
        // The uppermost bits depend on all of the name: the node as well as the address.
        let bits = self.slots.len().trailing_zeros();
        ((name ^ name >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
    }

    #[inline]
    pub(super) fn get(&self, name: u64) -> Option<u32> {
        let mut at = self.home(name);
        loop {
            let (other, number) = self.slots[at];
            if number == Self::NONE {
                return None;
            }
            if other == name {
                return Some(number);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    pub(super) fn insert(&mut self, name: u64, number: u32) {
        if self.len * 2 >= self.slots.len() {
            let doubled = vec![(0, Self::NONE); self.slots.len() * 2];
            self.len = 0;
            for (name, number) in std::mem::replace(&mut self.slots, doubled) {
                if number != Self::NONE {
                    self.insert(name, number);
                }
            }
        }
        let mut at = self.home(name);
        while self.slots[at].1 != Self::NONE {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = (name, number);
        self.len += 1;
    }

    /// Bytes it takes.
    pub(super) fn memory(&self) -> usize {
        self.slots.len() * size_of::<(u64, u32)>()
    }
}
