//! Every field that can be matched, set or moved: its names, its place in the key, its prerequisites.
//!
//! One table, `field/table.rs`, is the home of all of it; [`Field::about`] reads it. Names are those of
//! `ovs-fields(7)`; Weir's own are `sf_stage`, `sf_action` and `sf_metadata` (SoftFlow, section 3).

pub(crate) mod derived;
pub mod span;
mod table;

use crate::key::{Key, Mask};
pub use span::Span;
pub use table::Field;

/// What must be so in a packet for a field to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: every packet has it.
    Nothing,
    /// An 802.1Q tag.
    Vlan,
    /// EtherType 0x8847 or 0x8848.
    Mpls,
    /// EtherType 0x88e7.
    Pbb,
    /// EtherType 0x0806 or 0x8035.
    Arp,
    /// EtherType 0x0800.
    Ipv4,
    /// EtherType 0x86dd.
    Ipv6,
    /// Either of the two.
    Ip,
    /// IP protocol 6.
    Tcp,
    /// IP protocol 17.
    Udp,
    /// IP protocol 132.
    Sctp,
    /// IPv4 protocol 1.
    Icmp,
    /// IPv6 protocol 58.
    Icmpv6,
    /// ICMPv6 type 135 or 136 (RFC 4861).
    Nd,
    /// ICMPv6 type 135.
    NdSolicit,
    /// ICMPv6 type 136.
    NdAdvert,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// 0x2a, or 42.
    Number,
    /// 42.
    Decimal,
    /// A port: a number, a name, or a reserved word.
    Port,
    /// 02:00:00:00:00:01.
    Mac,
    /// 198.18.0.1.
    Ipv4,
    /// 2001:db8::1.
    Ipv6,
    /// `no`, `yes`, `first`, `later`, `not_later`.
    Fragment,
    /// `+syn-ack` and the like.
    TcpFlags,
    /// `+est-new` and the like.
    CtState,
    /// A service's name.
    Service,
}

/// Where a field's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The switch knows it of the packet, as long as it has it.
    Switch,
    /// The switch knows it until a service begins another stage.
    OneStage,
    /// The packet: a plain one (`extract/header_mask.rs`) has it from this bit of the frame on.
    At(u16),
    /// The packet: plain ones have it all alike, most of them as zero.
    Implied,
    /// The packet: plain ones have it, and no header mask reads it.
    Unread,
}

impl Source {
    /// Whether it is the packet's bytes.
    pub const fn is_packet(self) -> bool {
        matches!(self, Self::At(_) | Self::Implied | Self::Unread)
    }
}

/// Which part of a lookup examines a field, in this order: what separates most and changes least comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Layer {
    /// What the switch knows of the packet.
    Metadata,
    /// The link header.
    Link,
    /// The network header.
    Network,
    /// Ports and what lies behind them.
    Transport,
}

impl Layer {
    /// How many there are.
    pub const COUNT: usize = Self::Transport as usize + 1;
}

/// How many bits of a field are examined at once, so that there are few different masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Those that matter.
    Exact,
    /// Upper bits that reach as far as those that matter, by one of these lengths.
    Prefix(&'static [u8]),
    /// All of them, but for these, which tables often ask about alone.
    Whole(u128),
}

/// All about a field.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The name it is printed under.
    pub name: &'static str,
    /// Other names it is read by.
    pub aliases: &'static [&'static str],
    /// Its bits.
    pub bits: u8,
    /// The word of the key that holds it, or its upper half when it has more than 64 bits (the lower
    /// half is in the next word).
    pub word: u8,
    /// Bits of that word to the right of it.
    pub shift: u8,
    /// Prerequisite.
    pub needs: Needs,
    /// How it is written.
    pub form: Form,
    /// Whether a match may mask it.
    pub maskable: bool,
    /// Whether actions may write it.
    pub writable: bool,
    /// Whether it says what follows it in the packet, so that an operation of its own writes it.
    pub leads: bool,
    /// The field whose bits these are: itself, or, where several have the same, one of them.
    pub owner: Field,
    /// Where its value comes from.
    pub source: Source,
    /// Which part of a lookup examines it.
    pub layer: Layer,
    /// How its bits in a mask are rounded up.
    pub rounding: Rounding,
}

/// The lowest `bits` bits.
#[inline]
pub const fn ones(bits: u32) -> u128 {
    if bits >= 128 { u128::MAX } else { (1 << bits) - 1 }
}

impl Field {
    /// The field of this name, or of this alias.
    pub fn named(name: &str) -> Option<Self> {
        let is = |field: &Self| field.about().name == name || field.about().aliases.contains(&name);
        Self::ALL.iter().copied().find(is)
    }

    /// The name it is printed under.
    pub const fn name(self) -> &'static str {
        self.about().name
    }

    /// Its bits.
    pub const fn bits(self) -> u32 {
        self.about().bits as u32
    }

    /// The registers of 32 bits, which follow one another.
    pub const REGISTERS: &'static [Self] =
        Self::ALL.split_at(Self::Reg0 as usize).1.split_at(Self::Reg15 as usize - Self::Reg0 as usize + 1).0;

    /// Register n, of 16.
    pub fn register(number: usize) -> Option<Self> {
        Self::REGISTERS.get(number).copied()
    }

    /// Whether its bits are its own, and no narrower field's: such fields together are all that fields have of a key.
    pub const fn is_owner(self) -> bool {
        self.about().owner as u8 == self as u8
    }

    /// Fields with bits of their own that are in none of these lists, and how many they are: what a list in a
    /// given order leaves out.
    pub const fn owners_without(lists: &[&[Self]]) -> ([Self; Self::ALL.len()], usize) {
        let (mut rest, mut count, mut at) = ([Self::InPort; Self::ALL.len()], 0, 0);
        while at < Self::ALL.len() {
            let field = Self::ALL[at];
            let mut listed = !field.is_owner();
            let mut list = 0;
            while list < lists.len() {
                let mut place = 0;
                while place < lists[list].len() {
                    listed |= lists[list][place].about().owner as u8 == field as u8;
                    place += 1;
                }
                list += 1;
            }
            if !listed {
                rest[count] = field;
                count += 1;
            }
            at += 1;
        }
        (rest, count)
    }

    /// Where a key has it; of a field of more than 64 bits, its upper half.
    pub const fn span(self) -> Span {
        let About { word, shift, bits, .. } = *self.about();
        Span { word, shift, bits: if bits > 64 { 64 } else { bits } }
    }

    /// The whole field.
    pub const fn whole(self) -> Subfield {
        Subfield { field: self, from: 0, bits: self.about().bits }
    }

    /// The field's value in a key.
    #[inline]
    pub fn get(self, key: &Key) -> u128 {
        let about = self.about();
        let word = u128::from(key.word(usize::from(about.word)));
        if about.bits > 64 {
            word << 64 | u128::from(key.word(usize::from(about.word) + 1))
        } else {
            (word >> about.shift) & ones(self.bits())
        }
    }

    /// Writes the bits of the field that `mask` names.
    #[inline]
    pub fn set_masked(self, key: &mut Key, value: u128, mask: u128) {
        let about = self.about();
        // Nearly all are within one word, which is said in two instructions then.
        if about.bits <= 64 {
            let mask = (mask & ones(self.bits())) as u64;
            if mask != 0 {
                key.set_bits(usize::from(about.word), (value as u64) << about.shift, mask << about.shift);
            }
            return;
        }
        for (place, value, mask) in self.spread(value, mask) {
            key.set_bits(place, value, mask);
        }
    }

    /// Writes the field.
    #[inline]
    pub fn set(self, key: &mut Key, value: u128) {
        self.set_masked(key, value, u128::MAX);
    }

    /// Names bits of the field in a mask.
    #[inline]
    pub fn examine(self, mask: &mut Mask, bits: u128) {
        for (place, _, bits) in self.spread(0, bits) {
            mask.add(place, bits);
        }
    }

    /// The field's bits of a mask.
    pub fn mask_of(self, mask: &Mask) -> u128 {
        let about = self.about();
        let word = u128::from(mask.word(usize::from(about.word)));
        if about.bits > 64 {
            word << 64 | u128::from(mask.word(usize::from(about.word) + 1))
        } else {
            (word >> about.shift) & ones(self.bits())
        }
    }

    /// A value and a mask of the field as (place, value, mask) of the key's words; parts whose mask
    /// is zero are left out, and so are bits that the field does not have.
    #[inline]
    pub fn spread(self, value: u128, mask: u128) -> impl Iterator<Item = (usize, u64, u64)> {
        let about = self.about();
        let (word, mask) = (usize::from(about.word), mask & ones(self.bits()));
        let parts = if about.bits > 64 {
            [(word, (value >> 64) as u64, (mask >> 64) as u64), (word + 1, value as u64, mask as u64)]
        } else {
            [(word, (value as u64) << about.shift, (mask as u64) << about.shift), (0, 0, 0)]
        };
        parts.into_iter().filter(|part| part.2 != 0).map(|(place, value, mask)| (place, value & mask, mask))
    }
}

/// Some bits of a field: `reg0[4..11]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subfield {
    /// The field.
    pub field: Field,
    /// Bits to the right of the part.
    pub from: u8,
    /// Its bits, at least 1.
    pub bits: u8,
}

impl Subfield {
    /// The bits of the field that it names.
    #[inline]
    pub const fn mask(self) -> u128 {
        ones(self.bits as u32) << self.from
    }

    /// Its value in a key.
    #[inline]
    pub fn get(self, key: &Key) -> u128 {
        (self.field.get(key) >> self.from) & ones(u32::from(self.bits))
    }

    /// Writes it; bits of the value that do not fit are left out.
    #[inline]
    pub fn set(self, key: &mut Key, value: u128) {
        self.field.set_masked(key, value << self.from, self.mask());
    }

    /// Names its bits in a mask.
    #[inline]
    pub fn examine(self, mask: &mut Mask) {
        self.field.examine(mask, self.mask());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::WORDS;
    use proptest::prelude::*;

    #[test]
    fn every_field_lies_within_its_words_and_has_names_of_its_own() {
        let mut names = std::collections::BTreeSet::new();
        for (number, &field) in Field::ALL.iter().enumerate() {
            let about = field.about();
            assert_eq!(field as usize, number, "{}", about.name);
            let words = if about.bits > 64 { 2 } else { 1 };
            assert!(usize::from(about.word) + words <= WORDS, "{}", about.name);
            assert!(words == 2 || about.shift + about.bits <= 64, "{}", about.name);
            assert!(!about.leads || about.source.is_packet(), "{} is followed by nothing", about.name);
            for name in std::iter::once(&about.name).chain(about.aliases) {
                assert!(names.insert(*name), "{name} twice");
                assert_eq!(Field::named(name), Some(field));
            }
        }
    }

    /// The map in the header of `key.rs`, as the table has it: each word, from the most significant bit.
    fn map() -> String {
        let mut own: Vec<(Span, String)> = Field::ALL
            .iter()
            .filter(|field| field.is_owner())
            .map(|field| (field.span(), field.name().to_owned()))
            .collect();
        own.extend(span::HIDDEN.iter().map(|hidden| (hidden.span, format!("`{}`", hidden.name))));
        let wide = |word: u8| {
            Field::ALL
                .iter()
                .find(|field| field.is_owner() && field.bits() > 64 && field.about().word + 1 == word)
        };
        let mut map = String::from("//! | word | fields |\n//! |---|---|\n");
        for word in 0..WORDS as u8 {
            let mut here: Vec<_> = own.iter().filter(|(span, _)| span.word == word).collect();
            here.sort_by_key(|(span, _)| std::cmp::Reverse(span.shift));
            let (mut parts, mut left) = (Vec::new(), 64);
            let unused = |bits: u8| (bits != 0).then(|| format!("unused {bits}"));
            for (span, name) in here {
                parts.extend(unused(left - span.shift - span.bits));
                parts.push(format!("{name} {}", span.bits));
                left = span.shift;
            }
            match wide(word) {
                Some(field) => parts.push(format!("the lower half of {}", field.name())),
                None => parts.extend(unused(left)),
            }
            map.push_str(&format!("//! | {word} | {} |\n", parts.join(", ")));
        }
        map
    }

    #[test]
    fn the_map_of_a_key_is_that_of_the_table() {
        let map = map();
        assert!(include_str!("key.rs").contains(&map), "the map in the header of key.rs must be\n{map}");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_nothing_else_changes(
            number in 0..Field::ALL.len(), value in any::<u128>(), mask in any::<u128>(), seed in any::<u64>(),
        ) {
            let field = Field::ALL[number];
            let mut key = Key::new();
            for place in 0..WORDS {
                key.set_word(place, seed.wrapping_mul(place as u64 * 2 + 1));
            }
            let before = key.clone();
            field.set_masked(&mut key, value, mask);
            let kept = ones(field.bits());
            prop_assert_eq!(field.get(&key), ((field.get(&before) & !mask) | (value & mask)) & kept);
            let mut examined = Mask::new();
            field.examine(&mut examined, mask);
            prop_assert_eq!(field.mask_of(&examined), mask & kept);
            for place in 0..WORDS {
                let changed = key.word(place) ^ before.word(place);
                prop_assert_eq!(changed & !examined.word(place), 0);
            }
        }
    }
}
