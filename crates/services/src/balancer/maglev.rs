//! The lookup table of consistent hashing, filled as Maglev does (Eisenbud and others, NSDI 2016,
//! section 3.4): each backend has its own order of preference over the slots, drawn from its name, and
//! they take turns to claim the next slot that is free. When a backend goes, most slots of the others
//! stay theirs. Backends with a smaller weight sit out some turns.
//!
//! Cost of filling: about size × ln(size) steps at worst, some milliseconds for 65,537 slots; a lookup
//! is one multiplication and one load.

use weir_flow::Seed;

/// Whether a number is prime, so that every step visits all slots.
pub(super) fn is_prime(number: u32) -> bool {
    let number = u64::from(number);
    number >= 2 && (2..).take_while(|factor| factor * factor <= number).all(|factor| number % factor != 0)
}

/// A hash of a backend's name.
fn hash(name: &str, seed: Seed) -> u64 {
    let words = name.as_bytes().chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let start = seed.fold(name.len() as u64, 0);
    seed.finish((1..).zip(words).fold(start, |hash, (place, word)| seed.fold_with(hash, word, place)))
}

/// One backend while the table is filled.
struct Claimant {
    home: u16,
    weight: u64,
    credit: u64,
    next: u32,
    skip: u32,
}

/// Fills a table of a prime size: for each slot the number of the backend that it belongs to. Empty
/// when there is no backend of any weight.
pub(super) fn fill(size: u32, backends: &[(u16, &str, u32)], seed: Seed) -> Vec<u16> {
    let mut claimants: Vec<Claimant> = backends
        .iter()
        .filter(|(_, _, weight)| *weight > 0)
        .map(|&(home, name, weight)| {
            let hash = hash(name, seed);
            let (next, skip) = ((hash >> 32) as u32 % size, hash as u32 % (size - 1) + 1);
            Claimant { home, weight: u64::from(weight), credit: 0, next, skip }
        })
        .collect();
    let Some(heaviest) = claimants.iter().map(|claimant| claimant.weight).max() else { return Vec::new() };
    let mut slots: Vec<Option<u16>> = vec![None; size as usize];
    let mut free = size;
    while free > 0 {
        for claimant in &mut claimants {
            claimant.credit += claimant.weight;
            if claimant.credit < heaviest || free == 0 {
                continue;
            }
            claimant.credit -= heaviest;
            while slots[claimant.next as usize].is_some() {
                claimant.next = step(claimant.next, claimant.skip, size);
            }
            slots[claimant.next as usize] = Some(claimant.home);
            free -= 1;
        }
    }
    slots.into_iter().flatten().collect()
}

/// The slot after this one in a backend's order.
fn step(at: u32, skip: u32, size: u32) -> u32 {
    ((u64::from(at) + u64::from(skip)) % u64::from(size)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u32 = 65_537;

    fn names(count: u16) -> Vec<String> {
        (0..count).map(|number| format!("backend-{number}")).collect()
    }

    fn table(names: &[String], weight: impl Fn(usize) -> u32, without: Option<usize>) -> Vec<u16> {
        let backends: Vec<(u16, &str, u32)> = names
            .iter()
            .enumerate()
            .filter(|(at, _)| Some(*at) != without)
            .map(|(at, name)| (at as u16, name.as_str(), weight(at)))
            .collect();
        fill(SIZE, &backends, Seed::new(5))
    }

    fn share(table: &[u16], home: u16) -> f64 {
        table.iter().filter(|&&owner| owner == home).count() as f64 / table.len() as f64
    }

    #[test]
    fn primes_are_told_from_others() {
        let primes: Vec<u32> = (0..30).filter(|&n| is_prime(n)).collect();
        assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
        assert!(is_prime(SIZE) && is_prime(65_521) && !is_prime(65_536) && !is_prime(4_294_967_295));
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn shares_differ_by_less_than_a_hundredth_and_follow_weights() {
        let names = names(100);
        let even = table(&names, |_| 1, None);
        assert!((0..100).all(|home| (share(&even, home) * 100.0 - 1.0).abs() < 0.01));
        let weighted = table(&names, |at| if at == 7 { 30 } else { 10 }, None);
        let ratio = share(&weighted, 7) / share(&weighted, 8);
        assert!((ratio - 3.0).abs() < 0.05, "{ratio}");
        assert_eq!(share(&table(&names, |at| u32::from(at != 3), None), 3), 0.0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn a_backend_that_goes_takes_few_slots_of_others_with_it() {
        let names = names(50);
        let (before, after) = (table(&names, |_| 1, None), table(&names, |_| 1, Some(17)));
        assert!(!after.contains(&17));
        let moved = before.iter().zip(&after).filter(|(was, is)| **was != 17 && was != is).count();
        assert!(moved * 20 < before.len(), "{moved} of {} slots moved without need", before.len());
    }

    #[test]
    fn without_backends_the_table_is_empty() {
        assert!(fill(SIZE, &[], Seed::new(1)).is_empty());
        assert!(fill(SIZE, &[(0, "idle", 0)], Seed::new(1)).is_empty());
    }
}
