//! Which prefixes of an address exist, and how many of its bits say so.
//!
//! A table of routes of 24 lengths is 24 tuples. A binary trie of the prefixes in use answers in one
//! walk which of those can hold anything for an address, so that the others need no look; and it says
//! how many upper bits of the address were enough to know, so that a miss names 9 bits of an address
//! rather than 32. Paths without a branch are one node, and nodes are shared between clones: adding a
//! prefix copies the nodes above it where a clone still holds them.
//!
//! Half a million prefixes in no order are half a million walks through memory that no cache holds, more than half
//! of what adding the rules costs. So where many are to come, they are gathered, and added in their order, each
//! beside the one before ([`Trie::gather`]); whoever walks meanwhile is told that any length may be there.
//!
//! Cost: a line a branch on the way, about log2 of the number of prefixes. Threads: as `Arc`.

use std::sync::Arc;

use weir_flow::{Field, Key, Mask, Rounding, ones};

/// The fields whose prefixes are kept, with the stage (see `slices`) that looks at them.
pub(crate) const FIELDS: [(Field, u8); 6] = [
    staged(Field::NwSrc),
    staged(Field::NwDst),
    staged(Field::Ipv6Src),
    staged(Field::Ipv6Dst),
    staged(Field::TcpSrc),
    staged(Field::TcpDst),
];

const fn staged(field: Field) -> (Field, u8) {
    assert!(matches!(field.about().rounding, Rounding::Prefix(_)), "of this field a prefix says nothing");
    (field, field.about().layer as u8)
}

/// Prefixes that are gathered before they are added: sorting and adding so many takes some milliseconds.
const GATHERED: usize = 1 << 16;

/// A set of prefixes, counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trie {
    root: Option<Arc<Node>>,
    /// Prefixes that are still to be added; nothing where each is added at once.
    gathered: Option<Vec<(u128, u8)>>,
}

#[derive(Clone, Debug)]
struct Node {
    /// From the most significant bit; zero behind `len`.
    bits: u128,
    len: u8,
    /// How often this prefix was added: 0 where paths only part.
    count: u32,
    children: [Option<Arc<Node>>; 2],
}

/// What a walk along one address found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    /// Bit n set: the first n bits are a prefix of the set.
    lens: [u64; 3],
    /// The upper bits that all of this depended on.
    checked: u8,
}

/// The upper `len` bits of 128.
#[inline]
pub(crate) const fn upper(len: u8) -> u128 {
    if len == 0 { 0 } else { u128::MAX << (128 - len as u32) }
}

/// Bit n from the top.
#[inline]
const fn bit(bits: u128, n: u8) -> usize {
    (bits >> (127 - n as u32)) as usize & 1
}

/// A field's value from the most significant bit of 128.
#[inline]
pub(crate) fn aligned(field: Field, key: &Key) -> u128 {
    field.get(key) << (128 - field.bits())
}

/// The field's upper `len` bits, as a mask of the field.
pub(crate) const fn prefix_mask(field: Field, len: u8) -> u128 {
    upper(len) >> (128 - field.bits())
}

/// The length of the prefix that a mask names of a field: none where it is not a prefix.
pub(crate) fn prefix_len(field: Field, mask: &Mask) -> Option<u8> {
    let bits = field.mask_of(mask);
    let len = bits.count_ones() as u8;
    (bits == prefix_mask(field, len)).then_some(len)
}

/// The length of the shortest prefix that has all bits that a mask names of a field.
pub(crate) fn covering_len(field: Field, mask: &Mask) -> u8 {
    let bits = field.mask_of(mask) & ones(field.bits());
    if bits == 0 { 0 } else { (field.bits() - bits.trailing_zeros()) as u8 }
}

impl Walk {
    /// Whether the first `len` bits are a prefix of the set.
    #[inline]
    pub(crate) fn has(&self, len: u8) -> bool {
        self.lens[usize::from(len >> 6)] >> (len & 63) & 1 != 0
    }

    /// Where the set has no prefix of this length for the address: the upper bits that show it.
    #[inline]
    pub(crate) fn excludes(&self, len: u8) -> Option<u8> {
        (!self.has(len)).then(|| self.checked.min(len))
    }
}

impl Trie {
    /// Looks along an address.
    pub(crate) fn walk(&self, bits: u128) -> Walk {
        if self.gathered.as_ref().is_some_and(|gathered| !gathered.is_empty()) {
            return Walk { lens: [u64::MAX; 3], checked: 128 };
        }
        let mut walk = Walk { lens: [0; 3], checked: 0 };
        let mut next = &self.root;
        while let Some(node) = next {
            let common = (bits ^ node.bits).leading_zeros() as u8;
            if common < node.len {
                walk.checked = common + 1;
                break;
            }
            walk.checked = node.len;
            walk.lens[usize::from(node.len >> 6)] |= u64::from(node.count != 0) << (node.len & 63);
            if node.len == 128 || (node.children[0].is_none() && node.children[1].is_none()) {
                break;
            }
            walk.checked = node.len + 1;
            next = &node.children[bit(bits, node.len)];
        }
        walk
    }

    /// Adds a prefix, once more if it is there.
    pub(crate) fn insert(&mut self, bits: u128, len: u8) {
        let bits = bits & upper(len);
        match &mut self.gathered {
            None => insert(&mut self.root, bits, len),
            Some(gathered) => {
                gathered.push((bits, len));
                if gathered.len() >= GATHERED {
                    self.add_gathered();
                }
            }
        }
    }

    /// Many prefixes are to come: they are gathered, until [`Trie::settle`].
    pub(crate) fn gather(&mut self) {
        self.gathered.get_or_insert_default();
    }

    /// No more prefixes are gathered, and those that are have been added.
    pub(crate) fn settle(&mut self) {
        self.add_gathered();
        self.gathered = None;
    }

    fn add_gathered(&mut self) {
        let Some(gathered) = &mut self.gathered else { return };
        gathered.sort_unstable();
        for (bits, len) in gathered.drain(..) {
            insert(&mut self.root, bits, len);
        }
    }

    /// Takes a prefix away, once; one that is not there stays so.
    pub(crate) fn remove(&mut self, bits: u128, len: u8) {
        self.add_gathered();
        remove(&mut self.root, bits & upper(len), len);
    }
}

fn insert(mut at: &mut Option<Arc<Node>>, bits: u128, len: u8) {
    let leaf = || Some(Arc::new(Node { bits, len, count: 1, children: [None, None] }));
    loop {
        let Some((here, end)) = at.as_ref().map(|node| (node.bits, node.len)) else {
            *at = leaf();
            return;
        };
        let common = ((bits ^ here).leading_zeros() as u8).min(len).min(end);
        if common < end {
            // The paths part inside this node, or the new prefix ends inside it.
            let mut parent =
                Node { bits: bits & upper(common), len: common, count: 0, children: [None, None] };
            parent.children[bit(here, common)] = at.take();
            if common == len {
                parent.count = 1;
            } else {
                parent.children[bit(bits, common)] = leaf();
            }
            *at = Some(Arc::new(parent));
            return;
        }
        let Some(node) = at.as_mut().map(Arc::make_mut) else { return };
        if len == end {
            node.count += 1;
            return;
        }
        at = &mut node.children[bit(bits, end)];
    }
}

/// Returns whether it was there.
fn remove(at: &mut Option<Arc<Node>>, bits: u128, len: u8) -> bool {
    let Some(node) = at else { return false };
    if node.len > len || (bits ^ node.bits) & upper(node.len) != 0 {
        return false;
    }
    let node = Arc::make_mut(node);
    if node.len == len {
        if node.count == 0 {
            return false;
        }
        node.count -= 1;
    } else if !remove(&mut node.children[bit(bits, node.len)], bits, len) {
        return false;
    }
    if node.count == 0 {
        // A node that neither ends a prefix nor parts two paths is of no use.
        match &mut node.children {
            [None, child] | [child, None] => *at = child.take(),
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Addresses of 16 bits with few kinds of upper halves, so that prefixes nest and part.
    fn prefixes() -> impl Strategy<Value = Vec<(u16, u8)>> {
        proptest::collection::vec((prop_oneof![0..64_u16, any::<u16>()], 0..=16_u8), 0..60)
    }

    fn wide(bits: u16) -> u128 {
        u128::from(bits) << 112
    }

    proptest! {
        #[test]
        fn a_walk_finds_all_prefixes_and_names_bits_that_settle_it(
            prefixes in prefixes(), removed in 0..60_usize, address in any::<u16>(), flips in any::<u16>(),
        ) {
            let mut trie = Trie::default();
            // Some one by one, the rest together; while they are gathered, nothing is ruled out.
            for (number, &(bits, len)) in prefixes.iter().enumerate() {
                if number == removed / 2 {
                    trie.gather();
                }
                trie.insert(wide(bits), len);
                let walk = trie.walk(wide(bits));
                prop_assert!(walk.has(len) && walk.excludes(len).is_none());
            }
            trie.settle();
            let full = trie.clone();
            let removed = removed.min(prefixes.len());
            for &(bits, len) in &prefixes[..removed] {
                trie.remove(wide(bits), len);
            }
            for (trie, left) in [(full, &prefixes[..]), (trie, &prefixes[removed..])] {
                let is = |len, address: u16| {
                    let same = |&(bits, at): &(u16, u8)| {
                        at == len && (wide(bits) ^ wide(address)) & upper(len) == 0
                    };
                    left.iter().any(same)
                };
                let walk = trie.walk(wide(address));
                for len in 0..=16 {
                    prop_assert_eq!(walk.has(len), is(len, address));
                    if let Some(bits) = walk.excludes(len) {
                        let other = address ^ (flips & !((upper(bits) >> 112) as u16));
                        prop_assert!(!is(len, other), "{bits} bits of {address:#x}, {other:#x}, /{len}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_trie_that_lost_all_its_prefixes_is_empty() {
        let mut trie = Trie::default();
        for (bits, len) in [(0x0a00, 8), (0x0a80, 9), (0x0a00, 16), (0, 0)] {
            trie.insert(wide(bits), len);
        }
        trie.remove(wide(0x0b00), 8);
        trie.remove(wide(0x0a00), 12);
        assert!(trie.walk(wide(0x0a00)).has(16));
        for (bits, len) in [(0x0a00, 8), (0, 0), (0x0a00, 16), (0x0a80, 9)] {
            trie.remove(wide(bits), len);
        }
        assert!(trie.root.is_none());
    }
}
