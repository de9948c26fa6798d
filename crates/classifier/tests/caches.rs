//! Caches against a plain list of their entries.

use crate::common::{Dice, key, mixed, rounds};
use weir_classifier::{Caches, Evicted, Found, Handle, LOOKUP_BURST, MASKS, Megaflows, PROBES, quantise};
use weir_flow::span::PORTS;
use weir_flow::{Field, Key, Mask, Seed};

/// An entry as it was inserted.
struct Entry {
    handle: Handle,
    mask: Mask,
    key: Key,
    value: u64,
}

impl Entry {
    fn agrees(&self, key: &Key) -> bool {
        self.key.agrees(key, &self.mask)
    }
}

/// Entries in a list, and handles of those that went.
#[derive(Default)]
struct Model {
    entries: Vec<Entry>,
    gone: Vec<Handle>,
}

impl Model {
    fn forget(&mut self, handle: Handle) -> u64 {
        let at = self.entries.iter().position(|entry| entry.handle == handle).expect("it was inserted");
        self.gone.push(handle);
        self.entries.swap_remove(at).value
    }

    fn insert(&mut self, cache: &mut Megaflows<u64>, dice: &mut Dice, value: u64) {
        let (key, named) = (key(dice), mask(dice));
        let full = self.entries.len() == cache.capacity();
        let inserted = cache.insert(&key, &named, value);
        let mask = cache.mask(inserted.handle).expect("it was inserted").clone();
        assert!(mask.covers(&named), "an entry depends on what it was said to");
        let is_same = |entry: &&Entry| entry.mask == mask && entry.agrees(&key);
        let same = self.entries.iter().find(is_same).map(|entry| (entry.handle, entry.value));
        assert_eq!(inserted.replaced, same.map(|(_, value)| value));
        assert_eq!(inserted.evicted.is_some(), full && same.is_none());
        if let Some(Evicted { handle, value, port }) = inserted.evicted {
            let entry = self.entries.iter().find(|entry| entry.handle == handle).expect("it was there");
            assert_eq!(u128::from(port), Field::InPort.get(&entry.key));
            assert_eq!(self.forget(handle), value);
        }
        assert_eq!(inserted.handle.generation % 2, 1, "a live generation is odd");
        assert_eq!(cache.key(inserted.handle), Some(key.masked(&mask)));
        match same {
            Some((handle, _)) => {
                assert_eq!(handle, inserted.handle);
                let entry = self.entries.iter_mut().find(|entry| entry.handle == handle).unwrap();
                entry.value = value;
            }
            None => {
                assert!(!self.gone.contains(&inserted.handle), "a handle came back");
                self.entries.push(Entry { handle: inserted.handle, mask, key, value });
            }
        }
    }

    /// What was found for a key is an entry of it, and something was found if there is one.
    fn check(&self, found: Option<Handle>, key: &Key) {
        let entry = found.map(|handle| self.entries.iter().find(|entry| entry.handle == handle));
        match entry {
            Some(entry) => assert!(entry.is_some_and(|entry| entry.agrees(key)), "{found:?} for {key:?}"),
            None => assert!(!self.entries.iter().any(|entry| entry.agrees(key)), "none for {key:?}"),
        }
    }

    /// Handles name what they should, and nothing else.
    fn check_handles(&self, cache: &mut Megaflows<u64>, key: &Key, dice: &mut Dice) {
        for entry in &self.entries {
            assert_eq!(cache.get(entry.handle), Some(&entry.value));
            assert_eq!(cache.agrees(entry.handle, key), entry.agrees(key));
        }
        for &handle in &self.gone {
            assert!(!cache.agrees(handle, key) && cache.get(handle).is_none());
            assert_eq!(cache.get_mut(handle), None);
            assert_eq!(cache.remove(handle), None);
        }
        for _ in 0..8 {
            let handle = Handle { index: dice.below(80) as u32, generation: dice.below(12) as u32 };
            let handle = Handle::from_bits(handle.to_bits());
            let is = self.entries.iter().any(|entry| entry.handle == handle && entry.agrees(key));
            assert_eq!(cache.agrees(handle, key), is);
        }
    }
}

/// One of a few masks, so that some have many entries and some lose their last.
fn mask(dice: &mut Dice) -> Mask {
    let mut mask = crate::common::matching(&mut Dice::new(dice.below(14))).mask();
    if dice.one_in(2) {
        quantise(&mut mask);
    }
    mask
}

/// A key of an entry there is, or any.
fn some_key(model: &Model, dice: &mut Dice) -> Key {
    let other = key(dice);
    if model.entries.is_empty() || dice.one_in(3) {
        return other;
    }
    let entry = &model.entries[dice.below(model.entries.len() as u64) as usize];
    mixed(&entry.key, &entry.mask, &other)
}

#[test]
fn megaflows_are_found_as_a_list_would_and_stale_handles_name_nothing() {
    for round in 0..rounds(80) {
        let mut dice = Dice::new(round);
        let capacity = [1, 5, 40, 300][round as usize % 4];
        let (mut cache, mut model) = (Megaflows::new(Seed::new(round), capacity), Model::default());
        assert_eq!(cache.capacity(), capacity);
        for step in 0..600 {
            match dice.below(8) {
                0 | 1 if !model.entries.is_empty() => {
                    let at = dice.below(model.entries.len() as u64) as usize;
                    let handle = model.entries[at].handle;
                    assert_eq!(cache.remove(handle), Some(model.forget(handle)));
                }
                2 if step % 100 == 99 => {
                    cache.clear();
                    while let Some(entry) = model.entries.last() {
                        model.forget(entry.handle);
                    }
                }
                3 => cache.rank(),
                _ => model.insert(&mut cache, &mut dice, step),
            }
            assert_eq!((cache.len(), cache.is_empty()), (model.entries.len(), model.entries.is_empty()));
            let key = some_key(&model, &mut dice);
            model.check(cache.find(&key), &key);
            if step % 30 == 0 {
                model.check_handles(&mut cache, &key, &mut dice);
                assert_eq!(cache.masks().map(|(_, entries)| entries).sum::<usize>(), cache.len());
                let mut listed: Vec<_> = cache.iter().map(|(handle, &value)| (handle, value)).collect();
                let mut walked = Vec::new();
                for handle in (0..cache.places()).filter_map(|place| cache.at(place)) {
                    walked.push((handle, *cache.get(handle).unwrap()));
                }
                assert_eq!(listed, walked);
                let mut expected: Vec<_> =
                    model.entries.iter().map(|entry| (entry.handle, entry.value)).collect();
                listed.sort_by_key(|entry| entry.0.index);
                expected.sort_by_key(|entry| entry.0.index);
                assert_eq!(listed, expected);
            }
        }
    }
}

#[test]
fn a_burst_finds_what_each_key_alone_would_whatever_became_of_its_megaflow() {
    let (mut missed, mut runs) = (0, 0);
    for round in 0..rounds(48) {
        let mut dice = Dice::new(round);
        let capacity = [4, 60, 400][round as usize % 3];
        let mut caches = Caches::new(Seed::new(round), capacity, 64);
        let mut model = Model::default();
        let (mut found, mut counted) = (Found::default(), 0);
        // Keys that come back, so that the exact-match cache has been told of them before.
        let mut known: Vec<Key> = Vec::new();
        for step in 0..800 {
            if !model.entries.is_empty() && dice.one_in(4) {
                let at = dice.below(model.entries.len() as u64) as usize;
                let handle = model.entries[at].handle;
                caches.megaflows_mut().remove(handle);
                model.forget(handle);
            } else {
                model.insert(caches.megaflows_mut(), &mut dice, step);
            }
            known.push(some_key(&model, &mut dice));
            let pick = |dice: &mut Dice| known[dice.below(known.len() as u64) as usize].clone();
            let mut keys: Vec<Key> = (0..LOOKUP_BURST).map(|_| pick(&mut dice)).collect();
            if round % 2 == 1 {
                for at in 1..keys.len() {
                    if !dice.one_in(4) {
                        keys[at] = keys[at - 1].clone();
                    }
                }
            }
            let wanted = if dice.one_in(2) { u64::MAX } else { dice.next() };
            let hit = caches.lookup_burst(&keys, wanted, &mut found);
            assert_eq!(hit & !wanted, 0);
            for (i, key) in keys.iter().enumerate().filter(|(i, _)| wanted >> i & 1 != 0) {
                model.check((hit >> i & 1 != 0).then_some(found.handles[i]), key);
                assert_eq!(found.hashes[i], key.hash(Seed::new(round)));
            }
            counted += u64::from(wanted.count_ones());
        }
        let counts = caches.counts();
        assert_eq!(counts.exact + counts.megaflow + counts.missed, counted);
        // Of runs there are fewer keys a burst, which meet more changes between two lookups.
        let least = if round % 2 == 1 { 0 } else { counts.megaflow };
        assert!(counts.exact > least && counts.megaflow > 0, "{counts:?}");
        assert!(counts.repeated <= counts.exact);
        (missed, runs) = (missed + counts.missed, runs + counts.repeated);
    }
    assert_ne!(missed, 0, "no key was ever missed");
    assert_ne!(runs, 0, "no packets came in runs");
}

#[test]
fn making_room_spares_what_is_in_use() {
    let mut cache = Megaflows::new(Seed::new(1), 100);
    let mut mask = Mask::new();
    PORTS.examine(&mut mask);
    let flow = |number: u64| {
        let mut key = Key::new();
        PORTS.set(&mut key, number);
        key
    };
    for number in 0..100 {
        cache.insert(&flow(number), &mask, number);
    }
    for passing in 1000..3000 {
        for number in 0..20 {
            assert!(cache.find(&flow(number)).is_some(), "{number} went for {passing}");
        }
        let evicted = cache.insert(&flow(passing), &mask, passing).evicted;
        assert!(evicted.is_some_and(|evicted| evicted.value >= 20));
    }
    // Also when all of them are.
    for passing in 5000..5100 {
        let used: Vec<Handle> = cache.iter().map(|(handle, _)| handle).collect();
        for handle in used {
            let key = cache.key(handle).unwrap();
            assert_eq!(cache.find(&key), Some(handle));
        }
        assert!(cache.insert(&flow(passing), &mask, passing).evicted.is_some());
    }
    assert_eq!(cache.len(), 100);
}

#[test]
fn a_port_that_fills_the_cache_leaves_the_others_their_share() {
    const CAPACITY: usize = 999;
    let mut cache = Megaflows::new(Seed::new(1), CAPACITY);
    let mut mask = Mask::new();
    PORTS.examine(&mut mask);
    let flow = |port: u128, number: u64| {
        let mut key = Key::new();
        PORTS.set(&mut key, number);
        Field::InPort.set(&mut key, port);
        key
    };
    let of = |cache: &Megaflows<u64>, port: u32| {
        cache.ports().find(|(other, _)| *other == port).map_or(0, |(_, entries)| entries)
    };
    // Nobody uses the first port's again, and the second's are all in use.
    for number in 0..100 {
        cache.insert(&flow(1, number), &mask, number);
    }
    for number in 0..20_000 {
        let evicted = cache.insert(&flow(2, number), &mask, number).evicted;
        assert!(evicted.is_none_or(|evicted| evicted.port == 2), "{number} took the room of another port");
        cache.find(&flow(2, number));
    }
    assert_eq!((of(&cache, 1), of(&cache, 2)), (100, 899));
    // A third gets its share of the second, which goes on; beyond that they take from one another.
    for number in 0..5_000 {
        let evicted = cache.insert(&flow(3, number), &mask, number).evicted.map(|evicted| evicted.port);
        let may = if number < 333 { &[2][..] } else { &[2, 3] };
        assert!(evicted.is_some_and(|port| may.contains(&port)), "{evicted:?} for its entry {number}");
        let evicted = cache.insert(&flow(2, 100_000 + number), &mask, number).evicted;
        assert!(evicted.is_some_and(|evicted| evicted.port != 1));
    }
    assert!(of(&cache, 1) == 100 && of(&cache, 2) >= 333 && of(&cache, 3) >= 333);
    // What the first leaves of its share is lent, and given back when it asks.
    for number in 1_000..1_233 {
        assert_ne!(
            cache.insert(&flow(1, number), &mask, number).evicted.map(|evicted| evicted.port),
            Some(1)
        );
    }
    assert_eq!([1, 2, 3].map(|port| of(&cache, port)), [333, 333, 333]);
    assert_eq!(cache.len(), CAPACITY);
}

#[test]
fn a_key_that_was_inserted_with_its_megaflow_is_found_exactly() {
    let mut caches = Caches::new(Seed::new(1), 100_000, 1 << 14);
    let mut mask = Mask::new();
    PORTS.examine(&mut mask);
    let flow = |number: u64| {
        let mut key = Key::new();
        PORTS.set(&mut key, number);
        key
    };
    for number in 0..20_000 {
        assert_eq!(caches.insert(&flow(number), &mask, number).evicted, None);
    }
    // Twice over all of them settles how large the cache must be; then nearly all are found at once.
    let mut found = Found::default();
    for round in 0..3 {
        let before = caches.counts();
        for first in (0..20_000).step_by(32) {
            let keys: Vec<Key> = (first..first + 32).map(flow).collect();
            assert_eq!(caches.lookup_burst(&keys, 0xffff_ffff, &mut found), 0xffff_ffff);
            for (number, &handle) in (first..).zip(&found.handles[..32]) {
                assert_eq!(caches.megaflows().get(handle), Some(&number));
            }
        }
        let exact = caches.counts().exact - before.exact;
        assert!(round < 2 || exact > 19_900, "{exact} of 20,000 in round {round}");
    }
    assert!(caches.exact().memory() < 1 << 20, "{} bytes", caches.exact().memory());
}

/// A packet of one port, and the mask of the `number`th of 1,089 pairs of prefix lengths.
fn exploding(port: u128, number: u64, dice: &mut Dice) -> (Key, Mask) {
    let (mut key, mut mask) = (Key::new(), Mask::new());
    Field::InPort.set(&mut key, port);
    for (field, len) in [(Field::NwSrc, number % 33), (Field::NwDst, number / 33 % 33)] {
        field.set(&mut key, dice.next().into());
        field.examine(&mut mask, u128::from(u64::from(u32::MAX) << (32 - len)) & 0xffff_ffff);
    }
    (key, mask)
}

#[test]
fn no_traffic_makes_a_lookup_cost_more_probes_than_the_bound() {
    let mut dice = Dice::new(9);
    let mut cache = Megaflows::new(Seed::new(9), 100_000);
    // Another port's entries cost this one nothing.
    let (quiet, mask) = exploding(2, 32, &mut dice);
    cache.insert(&quiet, &mask, 0);
    let mut entries = Vec::new();
    for number in 0..5000 {
        let (key, mask) = exploding(1, number * 7919, &mut dice);
        let handle = cache.insert(&key, &mask, number).handle;
        assert!(cache.find(&key).is_some(), "found at once");
        entries.push((key, mask, handle));
        let (stranger, _) = exploding(1, 0, &mut dice);
        let (_, probes) = cache.find_burst(&[stranger], 1, &mut [Handle::NONE]);
        assert!(probes <= PROBES as u64, "{probes} probes");
    }
    assert_eq!((cache.most_masks(), cache.masks().count()), (MASKS + 1, MASKS + 2));
    assert_eq!(cache.find_burst(&[quiet], 1, &mut [Handle::NONE]), (1, 1));
    // Whatever is found belongs to the key, and handles of masks that are asked no more are still good.
    for (key, mask, handle) in &entries {
        assert!(cache.agrees(*handle, key) && cache.mask(*handle).is_some_and(|own| own.covers(mask)));
    }
    let found = entries.iter().filter(|(key, ..)| cache.find(key).is_some()).count();
    assert!(found > 4000, "{found} of 5,000 are found by their mask");
    for (_, _, handle) in entries {
        cache.remove(handle);
    }
    assert_eq!((cache.len(), cache.most_masks()), (1, 1), "masks without entries are not asked");
}
