//! Which IPv4 destinations the megaflows of each table have, in big pieces: what tells most changes of the tables from
//! those that may concern a megaflow, for all megaflows at once.
//!
//! Why: after a change each megaflow that a packet meets has to be known to be right still. The journal answers that in
//! some 150 cycles, mostly for lines of memory that the packet does not need otherwise. A thousand changes a second and
//! ten thousand flows are ten million such questions: two thirds of a core. Nearly all changes of routes are elsewhere.
//!
//! What: a bit for each /16 of the IPv4 destinations that a table's megaflows may match. A change is elsewhere if it
//! demands IPv4 and at least the first 16 bits of the destination, and their bit is not set. A megaflow that examines
//! fewer bits sets more; one whose table saw other addresses than the packet came with sets all.
//!
//! Why it is right: a megaflow that a change may concern visited the change's table, and agrees with the change in
//! all bits that both name. Of bits that only the change names, all values are set.
//!
//! Bits of megaflows that have gone cost questions, nothing else. Where they may, bits are collected anew in a round of
//! looks at all megaflows ([`Destinations::begin_round`]). Memory: 8 KiB a table that megaflows have visited, twice in
//! such a round. Threads: one worker's.

use crate::model::entries::Touched;
use crate::model::journal::Journal;
use std::ops::Range;
use weir_flow::{Field, Key, Mask, places};

/// Bits of a destination that are told apart.
#[cfg(not(miri))]
const UPPER: u32 = 16;
/// Miri would take seconds over each table.
#[cfg(miri)]
const UPPER: u32 = 8;
const PIECES: usize = 1 << UPPER;
/// So many pieces of a table are worth collecting anew.
const CROWDED: u32 = PIECES as u32 / 4;
const IPV4: u128 = 0x0800;
const WHOLE: u128 = 0xffff;

/// The pieces of one table, a bit each; no words where no megaflow visited it.
type Pieces = Vec<u64>;

/// The destinations of a worker's megaflows.
#[derive(Debug, Default)]
pub(super) struct Destinations {
    /// By table.
    tables: Vec<Pieces>,
    /// What this round of looks collects anew.
    next: Option<Vec<Pieces>>,
    /// Whether a change since the last round was taken for one that may concern megaflows.
    asked: bool,
}

/// What a megaflow went through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'a> {
    /// The tables that it visited, one bit each.
    pub(super) tables: &'a [u64; 4],
    /// Words of the key that were rewritten meanwhile, one bit each.
    pub(super) rewritten: u64,
}

impl Destinations {
    /// Notes a new megaflow.
    pub(super) fn add(&mut self, key: &Key, mask: &Mask, way: Way<'_>) {
        let pieces = pieces(key, mask, way.rewritten);
        if let Some(next) = &mut self.next {
            set(next, way.tables, pieces.clone());
        }
        set(&mut self.tables, way.tables, pieces);
    }

    /// All megaflows are looked at once more from here on. Returns whether they are to be shown ([`Self::show`]).
    pub(super) fn begin_round(&mut self) -> bool {
        if let Some(next) = self.next.take() {
            self.tables = next;
        }
        let set = |pieces: &Pieces| pieces.iter().map(|word| word.count_ones()).sum::<u32>();
        if std::mem::take(&mut self.asked) && self.tables.iter().any(|pieces| set(pieces) > CROWDED) {
            self.next = Some(Vec::new());
        }
        self.collects()
    }

    /// Whether the round at hand collects.
    pub(super) const fn collects(&self) -> bool {
        self.next.is_some()
    }

    /// A megaflow that is still there.
    pub(super) fn show(&mut self, key: &Key, mask: &Mask, way: Way<'_>) {
        if let Some(next) = &mut self.next {
            set(next, way.tables, pieces(key, mask, way.rewritten));
        }
    }

    /// Whether a change since this generation may concern any of the megaflows.
    pub(super) fn concerned(&mut self, journal: &Journal, since: u64) -> bool {
        let concerned = journal.concerns(since, |touched| self.may_have(touched));
        self.asked |= concerned;
        concerned
    }

    fn may_have(&self, touched: &Touched) -> bool {
        let Touched::Packets(table, matching) = touched else { return true };
        let Some(set) = self.tables.get(usize::from(table.0)).filter(|set| !set.is_empty()) else {
            return false;
        };
        let (key, mask) = (matching.key(), matching.mask());
        let is_ipv4 = Field::EthType.mask_of(&mask) == WHOLE && Field::EthType.get(&key) == IPV4;
        let named = (Field::NwDst.mask_of(&mask) as u32).leading_ones();
        if !is_ipv4 || named < UPPER {
            return true;
        }
        let piece = piece(Field::NwDst.get(&key) as u32);
        set[piece / 64] >> (piece % 64) & 1 == 1
    }
}

/// The piece of an address.
const fn piece(address: u32) -> usize {
    (address >> (u32::BITS - UPPER)) as usize
}

/// The pieces that a megaflow may match: a power of two of them, and the first a multiple of it. What is known not to be
/// IPv4 matches none.
fn pieces(key: &Key, mask: &Mask, rewritten: u64) -> Range<usize> {
    let is_as_it_came = |field: Field| rewritten >> field.span().place() & 1 == 0;
    let is_known = is_as_it_came(Field::EthType) && Field::EthType.mask_of(mask) == WHOLE;
    if is_known && Field::EthType.get(key) != IPV4 {
        return 0..0;
    }
    let named = match is_as_it_came(Field::NwDst) {
        true => (Field::NwDst.mask_of(mask) as u32).leading_ones().min(UPPER),
        false => 0,
    };
    let count = 1 << (UPPER - named);
    let first = piece(Field::NwDst.get(key) as u32) & !(count - 1);
    first..first + count
}

/// Sets pieces of these tables: words as a whole, or within one word.
fn set(all: &mut Vec<Pieces>, tables: &[u64; 4], pieces: Range<usize>) {
    let (word, bit) = (pieces.start / 64, pieces.start % 64);
    for (quarter, bits) in tables.iter().enumerate() {
        for table in places(*bits).map(|bit| quarter * 64 + bit) {
            if all.len() <= table {
                all.resize(table + 1, Pieces::new());
            }
            let words = &mut all[table];
            words.resize(PIECES / 64, 0);
            match pieces.len() {
                0 => {}
                few @ 1..64 => words[word] |= ((1 << few) - 1) << bit,
                many => words[word..word + many / 64].fill(u64::MAX),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Match;
    use weir_openflow::TableId;

    const TABLE_1: Way<'_> = Way { tables: &[2, 0, 0, 0], rewritten: 0 };

    /// A megaflow or change of IPv4 packets whose destination has these upper bits.
    fn to(address: u32, bits: u32) -> Match {
        let mut matching = Match::any();
        matching.demand(Field::EthType, IPV4, WHOLE);
        matching.demand(
            Field::NwDst,
            address.into(),
            (u64::from(u32::MAX) << (32 - bits) & 0xffff_ffff).into(),
        );
        matching
    }

    fn with(megaflow: &Match, way: Way<'_>) -> Destinations {
        let mut all = Destinations::default();
        all.add(&megaflow.key(), &megaflow.mask(), way);
        all
    }

    fn may_have(all: &mut Destinations, table: u8, change: Match) -> bool {
        let may = all.may_have(&Touched::Packets(TableId(table), change));
        all.asked |= may;
        may
    }

    #[test]
    fn a_change_elsewhere_is_told_from_one_that_may_concern_a_megaflow() {
        let all = &mut with(&to(0x0a01_0203, 32), TABLE_1);
        assert!(may_have(all, 1, to(0x0a01_ff00, 24)) && may_have(all, 1, to(0x0a01_0000, 16)));
        assert!(!may_have(all, 1, to(0x0a02_0200, 24)) && !may_have(all, 1, to(0x0b01_0000, 16)));
        assert!(!may_have(all, 0, to(0x0a01_0200, 24)), "no megaflow visited that table");
        assert!(may_have(all, 1, to(0x0b00_0000, 15)), "it names too few bits to be told");
        assert!(may_have(all, 1, Match::any()) && all.may_have(&Touched::All));
        let mut v6 = Match::any();
        v6.demand(Field::EthType, 0x86dd, WHOLE);
        assert!(may_have(all, 1, v6), "of others than IPv4 nothing is known");
    }

    #[test]
    fn a_megaflow_that_examines_less_has_more_pieces() {
        let all = &mut with(&to(0x0a00_0000, 7), TABLE_1);
        assert!(may_have(all, 1, to(0x0b7f_0000, 24)) && !may_have(all, 1, to(0x0c00_0000, 24)));
        // Within a word, from its middle on, and words as a whole.
        for (bits, last) in [(12, 0x0a1f_0000), (10, 0x0a3f_0000), (9, 0x0a7f_0000)] {
            let first = last & (u32::MAX << (32 - bits));
            let all = &mut with(&to(first, bits), TABLE_1);
            assert!(may_have(all, 1, to(first, 24)) && may_have(all, 1, to(last, 24)), "{bits} bits");
            let beside = [first - 0x1_0000, last + 0x1_0000];
            assert!(!beside.iter().any(|address| may_have(all, 1, to(*address, 24))), "{bits} bits");
        }
        let all = &mut with(&Match::any(), TABLE_1);
        assert!(may_have(all, 1, to(0x0c00_0000, 24)));
        let mut arp = Match::any();
        arp.demand(Field::EthType, 0x0806, WHOLE);
        assert!(!may_have(&mut with(&arp, TABLE_1), 1, to(0x0c00_0000, 24)));
    }

    #[test]
    fn where_addresses_were_rewritten_any_may_be_met() {
        let rewritten = 1 << Field::NwDst.span().place();
        let all = &mut with(&to(0x0a01_0203, 32), Way { rewritten, ..TABLE_1 });
        assert!(may_have(all, 1, to(0x0c00_0000, 24)));
    }

    #[test]
    fn a_round_drops_the_pieces_of_megaflows_that_have_gone() {
        let all = &mut with(&Match::any(), TABLE_1);
        let there = to(0x0a01_0203, 32);
        assert!(!all.begin_round(), "no change asked for it");
        assert!(may_have(all, 1, to(0x0c00_0000, 24)));
        assert!(all.begin_round());
        all.show(&there.key(), &there.mask(), TABLE_1);
        let new = to(0x0d00_0001, 32);
        all.add(&new.key(), &new.mask(), TABLE_1);
        assert!(may_have(all, 1, to(0x0c00_0000, 24)), "until the round is over");
        assert!(!all.begin_round(), "there is nothing left to be collected");
        assert!(!may_have(all, 1, to(0x0c00_0000, 24)));
        assert!(may_have(all, 1, to(0x0a01_0000, 24)) && may_have(all, 1, to(0x0d00_0000, 24)));
    }
}
