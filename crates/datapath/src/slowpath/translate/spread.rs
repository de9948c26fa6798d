//! How a group's weights are spread over slots, of which a packet's hash takes one, or packets take one after the other.
//!
//! Each bucket has exactly the share of the slots that its weight asks for, to within one. Which ones is settled
//! by draws: each slot, in turn, goes to the bucket with the highest draw (weighted rendezvous hashing, Thaler and
//! Ravishankar, 1998) among those that have not had their share. When a bucket dies, only its own slots move:
//! they are shared out among the others in the same way.
//!
//! Costs: a draw for each slot and bucket, once a group; for the slots of dead buckets once they died.

use crate::model::entries::Alive;
use crate::model::entries::MOST_BUCKETS;
use std::sync::Arc;
use weir_flow::Seed;
use weir_openflow::Group;

/// Slots of a group: sixty buckets have theirs to within a twentieth.
const SLOTS: usize = MOST_BUCKETS;

/// The place among the `alive` buckets that each slot stands for; `all` are those of the group when nothing is
/// dead. Each keeps what was found out.
pub(super) fn spread(group: &Group, all: &Alive, alive: &Alive, seed: Seed) -> Arc<[u16]> {
    let home = all.slots.get_or_init(|| {
        let every: Vec<usize> = (0..group.buckets.len()).collect();
        let slots: Vec<usize> = (0..SLOTS).collect();
        share_out(group, &every, &slots, seed).into()
    });
    if alive.buckets.len() == group.buckets.len() {
        return home.clone();
    }
    alive.slots.get_or_init(|| without_the_dead(group, home, &alive.buckets, seed)).clone()
}

/// The places among the `alive` buckets in the order of their turns: each as often as its weight asks for, as evenly
/// among the others' as can be (smooth weighted round robin). Kept, as the slots of hashes are; a switch has one or the other.
pub(super) fn in_turns(group: &Group, alive: &Alive) -> Arc<[u16]> {
    let turns = || {
        let weights: Vec<usize> =
            alive.buckets.iter().map(|bucket| usize::from(group.buckets[*bucket].weight)).collect();
        let (whole, common) = (weights.iter().sum::<usize>(), weights.iter().copied().fold(0, divisor));
        let round = if whole == 0 { weights.len() } else { whole / common.max(1) }.clamp(1, SLOTS);
        let shares = shares(group, &alive.buckets, round);
        let mut credit = vec![0_i64; shares.len()];
        let mut next = || {
            credit.iter_mut().zip(&shares).for_each(|(credit, share)| *credit += *share as i64);
            // The first of those with the most.
            let most = credit.iter().copied().max().unwrap_or(0);
            let place = credit.iter().position(|credit| *credit == most).unwrap_or(0);
            credit[place] -= round as i64;
            place as u16
        };
        (0..round).map(|_| next()).collect()
    };
    alive.slots.get_or_init(turns).clone()
}

/// The greatest number that divides both.
fn divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// The slots of dead buckets are shared out among the others.
fn without_the_dead(group: &Group, home: &[u16], alive: &[usize], seed: Seed) -> Arc<[u16]> {
    // Their order is that of the group.
    let place = |bucket: u16| alive.binary_search(&usize::from(bucket)).ok();
    let orphans: Vec<usize> = (0..home.len()).filter(|slot| place(home[*slot]).is_none()).collect();
    let mut slots: Vec<u16> =
        home.iter().map(|bucket| place(*bucket).map_or(0, |place| place as u16)).collect();
    for (slot, place) in orphans.iter().zip(share_out(group, alive, &orphans, seed)) {
        slots[*slot] = place;
    }
    slots.into()
}

/// The place among `buckets` that each of these slots goes to.
fn share_out(group: &Group, buckets: &[usize], slots: &[usize], seed: Seed) -> Vec<u16> {
    let mut left = shares(group, buckets, slots.len());
    let draw = |slot: usize, bucket: usize| {
        let bucket = &group.buckets[bucket];
        let hash = seed.finish(seed.fold(slot as u64, u64::from(bucket.id)));
        let uniform = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -f64::from(bucket.weight.max(1)) / uniform.ln()
    };
    let mut give = |slot: usize| {
        let open = (0..buckets.len()).filter(|place| left[*place] > 0);
        let draws = open.map(|place| (place, draw(slot, buckets[place])));
        let place = draws.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(place, _)| place);
        left[place] = left[place].saturating_sub(1);
        place as u16
    };
    slots.iter().map(|slot| give(*slot)).collect()
}

/// How many of so many slots each bucket gets: by its weight, what is left over to the largest remainders. A
/// weight of zero gets nothing, unless all have it.
fn shares(group: &Group, buckets: &[usize], slots: usize) -> Vec<usize> {
    let weights = || buckets.iter().map(|bucket| usize::from(group.buckets[*bucket].weight));
    let some = weights().any(|weight| weight > 0);
    let weights: Vec<usize> = weights().map(|weight| if some { weight } else { 1 }).collect();
    let whole: usize = weights.iter().sum();
    let mut shares: Vec<usize> = weights.iter().map(|weight| slots * weight / whole.max(1)).collect();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    by_remainder.sort_by_key(|place| std::cmp::Reverse(slots * weights[*place] % whole.max(1)));
    let over = slots.saturating_sub(shares.iter().sum());
    by_remainder.into_iter().take(over).for_each(|place| shares[place] += 1);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_openflow::{Bucket, GroupId, GroupKind};

    fn group(weights: &[u16]) -> Group {
        let bucket = |(id, weight): (usize, &u16)| Bucket {
            id: id as u32,
            weight: *weight,
            watch_port: None,
            watch_group: None,
            actions: Vec::new(),
        };
        let buckets = weights.iter().enumerate().map(bucket).collect();
        Group { id: GroupId(1), kind: GroupKind::Select, buckets }
    }

    fn counts(slots: &[u16], buckets: usize) -> Vec<usize> {
        let mut counts = vec![0; buckets];
        slots.iter().for_each(|place| counts[usize::from(*place)] += 1);
        counts
    }

    proptest! {
        #[test]
        fn each_bucket_has_its_share_and_only_slots_of_the_dead_move(
            weights in proptest::collection::vec(0_u16..20, 1..12), dead: prop::sample::Index, seed: u64
        ) {
            let group = group(&weights);
            let all = Alive::unwatched(&group);
            let before = spread(&group, &all, &all, Seed::new(seed));
            let whole: usize = weights.iter().map(|weight| usize::from(*weight)).sum();
            for (count, weight) in counts(&before, weights.len()).into_iter().zip(&weights) {
                let (share, of) = if whole == 0 { (1, weights.len()) } else { (usize::from(*weight), whole) };
                prop_assert!((count * of).abs_diff(SLOTS * share) <= of, "{count} slots for {share} of {of}");
            }
            let dead = dead.index(weights.len());
            let alive: Vec<usize> = (0..weights.len()).filter(|bucket| *bucket != dead).collect();
            prop_assume!(!alive.is_empty());
            let living = Alive { buckets: alive.clone(), ..Alive::default() };
            let after = spread(&group, &all, &living, Seed::new(seed));
            let moved = before.iter().zip(after.iter()).filter(|(old, new)| usize::from(**old) != alive[usize::from(**new)]);
            prop_assert!(moved.into_iter().all(|(old, _)| usize::from(*old) == dead));
        }
    }

    #[test]
    fn turns_are_as_many_as_the_weights_ask_for_and_evenly_spaced() {
        let turns = |weights: &[u16]| in_turns(&group(weights), &Alive::unwatched(&group(weights))).to_vec();
        assert_eq!(turns(&[1, 1]), [0, 1]);
        assert_eq!(turns(&[7, 7, 7]), [0, 1, 2]);
        assert_eq!(turns(&[0, 0]), [0, 1], "without weights all are alike");
        assert_eq!(turns(&[2, 1, 1]), [0, 1, 2, 0]);
        assert_eq!(turns(&[1, 0]), [0]);
        assert_eq!(turns(&[u16::MAX, 1]).len(), SLOTS);
        let group = group(&[2, 1, 1]);
        let living = Alive { buckets: vec![1, 2], ..Alive::default() };
        assert_eq!(in_turns(&group, &living).to_vec(), [0, 1], "places among those alive");
    }

    #[test]
    fn the_slots_of_a_dead_bucket_are_shared_by_weight() {
        let group = group(&[2, 1, 1]);
        let living = Alive { buckets: vec![1, 2], ..Alive::default() };
        let after = spread(&group, &Alive::unwatched(&group), &living, Seed::new(7));
        assert_eq!(counts(&after, 2), [SLOTS / 2, SLOTS / 2]);
    }
}
