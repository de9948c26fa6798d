//! Shares of a table whose room is bounded: whose entry makes room for a new one.
//!
//! Entries belong to *tenants*: a tenant is a zone and the port that the packet came in by which made the entry.
//! A tenant's entries stand in a queue by age. When there is no room, the oldest entry of the tenant with the most
//! goes, as fair queueing drops from the longest queue (RFC 8290, section 4.1): a flood from one port takes room
//! from itself, not from others. The newcomer's own tenant counts as the one with the most if no other has
//! about twice as many.
//!
//! A zone's tenants stand within [`SPAN`] places behind its hash; where one finds none free, it shares a place, and
//! so its share, with another of the same zone mostly.
//!
//! Cost: constant for all but a tenant's first entry. Nothing is allocated once built. Threads: none; they belong
//! to one worker.

use super::wheel::NONE;
use weir_flow::Seed;

/// Places for tenants.
pub(super) const TENANTS: usize = 4096;

/// Places in which the tenants of a zone may stand.
const SPAN: usize = 64;

/// A queue's place in no list of its class.
const NOBODY: u16 = u16::MAX;

/// Where entries come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenant {
    /// Zone.
    pub zone: u16,
    /// The port that the packet came in by.
    pub port: u32,
}

#[derive(Clone, Copy, Debug)]
struct Name {
    tenant: Tenant,
    /// Entries of all queues.
    entries: u32,
    /// Of them, those that made room before their time was over, ever.
    evicted: u64,
}

/// The tenants, by number.
#[derive(Debug)]
pub(super) struct Tenants {
    names: Vec<Name>,
    seed: Seed,
}

impl Tenants {
    pub(super) fn new(seed: Seed) -> Self {
        let nobody = Name { tenant: Tenant { zone: 0, port: 0 }, entries: 0, evicted: 0 };
        Self { names: vec![nobody; TENANTS], seed }
    }

    pub(super) fn memory(&self) -> usize {
        self.names.len() * size_of::<Name>()
    }

    /// Where the tenants of a zone may stand.
    fn span(&self, zone: u16) -> impl Iterator<Item = usize> + use<> {
        let first = self.seed.finish(self.seed.fold_with(zone.into(), 0, 7)) as usize;
        (0..SPAN).map(move |step| (first + step) % TENANTS)
    }

    /// The number of a tenant, which has one entry more from now on.
    pub(super) fn join(&mut self, tenant: Tenant) -> u16 {
        let mut free = None;
        let mut of_zone = None;
        let mut found = None;
        for at in self.span(tenant.zone) {
            let name = &self.names[at];
            if name.entries == 0 {
                free = free.or(Some(at));
            } else if name.tenant == tenant {
                found = Some(at);
                break;
            } else if name.tenant.zone == tenant.zone {
                of_zone = Some(at);
            }
        }
        let shared = || self.span(tenant.zone).next();
        let at = found.or(free).or(of_zone).or_else(shared).unwrap_or(0);
        let name = &mut self.names[at];
        if name.entries == 0 && name.tenant != tenant {
            (name.tenant, name.evicted) = (tenant, 0);
        }
        name.entries += 1;
        at as u16
    }

    /// One of its entries is gone.
    pub(super) fn leave(&mut self, number: u16) {
        self.names[usize::from(number)].entries -= 1;
    }

    /// One of its entries makes room before its time.
    pub(super) fn evicted(&mut self, number: u16) {
        self.names[usize::from(number)].evicted += 1;
    }

    /// The tenants of a zone that have entries.
    pub(super) fn of_zone(&self, zone: u16) -> impl Iterator<Item = u16> + '_ {
        let there = move |at: &usize| self.names[*at].entries > 0 && self.names[*at].tenant.zone == zone;
        self.span(zone).filter(there).map(|at| at as u16)
    }

    /// All tenants that have entries, or had some that made room, with how many did.
    pub(super) fn all(&self) -> impl Iterator<Item = (u16, Tenant, u64)> + '_ {
        let known = self.names.iter().enumerate().filter(|(_, name)| name.entries > 0 || name.evicted > 0);
        known.map(|(at, name)| (at as u16, name.tenant, name.evicted))
    }
}

/// An entry's neighbours in its queue. What is in no queue may use them otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Age {
    pub(super) older: u32,
    pub(super) younger: u32,
}

impl Age {
    /// In no queue.
    pub(super) const NONE: Self = Self { older: NONE, younger: NONE };
}

/// Where the neighbours of entries are.
pub(super) trait Aged {
    /// The neighbours of the entry at this place.
    fn age(&mut self, at: u32) -> &mut Age;
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    entries: u32,
    oldest: u32,
    youngest: u32,
    /// Neighbours in the list of its class.
    before: u16,
    behind: u16,
}

/// Queues of one kind of entries, one a tenant, by the tenants' numbers.
#[derive(Debug)]
pub(super) struct Queues {
    queues: Vec<Queue>,
    /// Of the queues with 2^n to 2^(n+1) - 1 entries, the first.
    classes: [u16; 32],
    /// Classes with queues, a bit each.
    filled: u32,
    entries: u32,
}

impl Queues {
    pub(super) fn new() -> Self {
        let empty = Queue { entries: 0, oldest: NONE, youngest: NONE, before: NOBODY, behind: NOBODY };
        Self { queues: vec![empty; TENANTS], classes: [NOBODY; 32], filled: 0, entries: 0 }
    }

    pub(super) fn memory(&self) -> usize {
        self.queues.len() * size_of::<Queue>()
    }

    /// Entries of all tenants.
    pub(super) fn entries(&self) -> u32 {
        self.entries
    }

    /// Entries of one.
    pub(super) fn of(&self, tenant: u16) -> u32 {
        self.queues[usize::from(tenant)].entries
    }

    /// The oldest entry of a tenant.
    pub(super) fn oldest(&self, tenant: u16) -> Option<u32> {
        Some(self.queues[usize::from(tenant)].oldest).filter(|at| *at != NONE)
    }

    /// The tenant with the most entries, about; `own`, if none has twice as many.
    pub(super) fn greatest(&self, own: u16) -> Option<u16> {
        let class = self.filled.checked_ilog2()?;
        let is_own = self.of(own).checked_ilog2() == Some(class);
        Some(if is_own { own } else { self.classes[class as usize] })
    }

    /// Adds an entry that is in no queue, as the youngest.
    pub(super) fn push(&mut self, entries: &mut impl Aged, tenant: u16, at: u32) {
        let queue = &mut self.queues[usize::from(tenant)];
        let older = std::mem::replace(&mut queue.youngest, at);
        if older == NONE {
            queue.oldest = at;
        } else {
            entries.age(older).younger = at;
        }
        *entries.age(at) = Age { older, younger: NONE };
        self.entries += 1;
        self.resize(tenant, 1);
    }

    /// Adds an entry that is in no queue, as the oldest.
    pub(super) fn push_first(&mut self, entries: &mut impl Aged, tenant: u16, at: u32) {
        let queue = &mut self.queues[usize::from(tenant)];
        let younger = std::mem::replace(&mut queue.oldest, at);
        if younger == NONE {
            queue.youngest = at;
        } else {
            entries.age(younger).older = at;
        }
        *entries.age(at) = Age { older: NONE, younger };
        self.entries += 1;
        self.resize(tenant, 1);
    }

    /// Takes an entry from its queue.
    pub(super) fn take(&mut self, entries: &mut impl Aged, tenant: u16, at: u32) {
        let Age { older, younger } = std::mem::replace(entries.age(at), Age::NONE);
        let queue = &mut self.queues[usize::from(tenant)];
        match older {
            NONE => queue.oldest = younger,
            _ => entries.age(older).younger = younger,
        }
        match younger {
            NONE => queue.youngest = older,
            _ => entries.age(younger).older = older,
        }
        self.entries -= 1;
        self.resize(tenant, -1);
    }

    /// A queue has one entry more or less: it moves to another class, if that makes it one of it.
    fn resize(&mut self, tenant: u16, by: i32) {
        let queue = &mut self.queues[usize::from(tenant)];
        let before = queue.entries.checked_ilog2();
        queue.entries = queue.entries.wrapping_add_signed(by);
        let after = queue.entries.checked_ilog2();
        if before == after {
            return;
        }
        if let Some(class) = before {
            self.unlink(tenant, class as usize);
        }
        if let Some(class) = after {
            let behind = std::mem::replace(&mut self.classes[class as usize], tenant);
            if behind != NOBODY {
                self.queues[usize::from(behind)].before = tenant;
            }
            let queue = &mut self.queues[usize::from(tenant)];
            (queue.before, queue.behind) = (NOBODY, behind);
            self.filled |= 1 << class;
        }
    }

    fn unlink(&mut self, tenant: u16, class: usize) {
        let Queue { before, behind, .. } = self.queues[usize::from(tenant)];
        match before {
            NOBODY => self.classes[class] = behind,
            _ => self.queues[usize::from(before)].behind = behind,
        }
        if behind != NOBODY {
            self.queues[usize::from(behind)].before = before;
        }
        if self.classes[class] == NOBODY {
            self.filled &= !(1 << class);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, VecDeque};

    struct Plain(Vec<Age>);

    impl Aged for Plain {
        fn age(&mut self, at: u32) -> &mut Age {
            &mut self.0[at as usize]
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        #[cfg_attr(miri, ignore = "takes minutes under Miri")]
        fn queues_are_in_order_and_the_greatest_has_no_less_than_half_of_the_most(
            steps in proptest::collection::vec((0_u8..5, 0_u16..6, any::<u16>()), 1..600),
        ) {
            let (mut queues, mut ages) = (Queues::new(), Plain(Vec::new()));
            let mut oracle: BTreeMap<u16, VecDeque<u32>> = BTreeMap::new();
            for (kind, tenant, number) in steps {
                let queue = oracle.entry(tenant).or_default();
                if kind < 3 {
                    let at = ages.0.len() as u32;
                    ages.0.push(Age::NONE);
                    if kind == 0 {
                        queues.push_first(&mut ages, tenant, at);
                        queue.push_front(at);
                    } else {
                        queues.push(&mut ages, tenant, at);
                        queue.push_back(at);
                    }
                } else if !queue.is_empty() {
                    let at = queue.remove(usize::from(number) % queue.len()).unwrap();
                    queues.take(&mut ages, tenant, at);
                }
                let most = oracle.values().map(VecDeque::len).max().unwrap_or(0) as u32;
                prop_assert_eq!(queues.entries() as usize, oracle.values().map(VecDeque::len).sum::<usize>());
                for (&tenant, queue) in &oracle {
                    prop_assert_eq!(queues.oldest(tenant), queue.front().copied());
                    prop_assert_eq!(queues.of(tenant) as usize, queue.len());
                }
                match queues.greatest(tenant) {
                    None => prop_assert_eq!(most, 0),
                    Some(found) => {
                        prop_assert!(queues.of(found) * 2 > most);
                        prop_assert!(found == tenant || queues.of(found) > queues.of(tenant));
                    }
                }
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn tenants_keep_their_number_while_they_have_entries_and_a_crowded_zone_shares() {
        let mut tenants = Tenants::new(Seed::new(3));
        let number = |tenants: &mut Tenants, zone, port| tenants.join(Tenant { zone, port });
        let first = number(&mut tenants, 5, 1);
        let second = number(&mut tenants, 5, 2);
        assert_ne!(first, second);
        assert_eq!(number(&mut tenants, 5, 1), first);
        tenants.leave(first);
        assert_eq!(tenants.of_zone(5).count(), 2);
        tenants.leave(first);
        assert_eq!(tenants.of_zone(5).collect::<Vec<_>>(), [second]);
        assert_eq!(number(&mut tenants, 5, 2), second, "a gap before it does not hide it");
        for port in 0..1000 {
            number(&mut tenants, 9, port);
        }
        assert_eq!(tenants.of_zone(9).count(), SPAN);
        assert_eq!(tenants.all().count(), SPAN + 1);
    }
}
