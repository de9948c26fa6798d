//! The fast path of a burst where there are many entries: what its packets need is fetched for all of them
//! before it is read of the first.
//!
//! Why: entries and targets of some ten thousand flows lie in the third-level cache or behind it, and a loop over
//! packets has only a few of them under way at once. Where they fit the second level, the three loops here cost
//! more than they save. Cost: some ten cycles a packet more, and a miss for many packets at once instead of
//! for a few. Threads: one worker's.

use super::lookup::{NONE, OneByOne};
use crate::actions::simple::End;
use weir_cpu::prefetch;
use weir_dpdk::BURST;
use weir_flow::Extractor;

impl OneByOne<'_> {
    /// Does to the packets that are known what is to be done to them; `ends` says where they go. Returns the
    /// others.
    #[inline(never)]
    pub(super) fn take_ahead<S: Extractor>(&mut self, ends: &mut [End; BURST]) -> u64 {
        let Self { burst, telling, entries, targets, now, .. } = self;
        let mut places = [0; BURST];
        for (place, packet) in places.iter_mut().zip(burst.iter()) {
            // Of a frame that shows nothing, any place does as well.
            *place = S::read(&telling.masks, packet.data()).map_or(0, |header| telling.place::<S>(&header));
            if let Some(entry) = entries.get(*place & entries.len().wrapping_sub(1)) {
                prefetch(entry);
            }
        }
        let mut numbers = [NONE; BURST];
        for ((number, &place), packet) in numbers.iter_mut().zip(&places).zip(burst.iter()) {
            let header = S::read(&telling.masks, packet.data()).filter(|_| !packet.is_chained());
            let found = header.and_then(|header| telling.find_at::<S>(entries, &header, place));
            if let Some(target) = found.and_then(|found| targets.get(found as usize)) {
                prefetch(target);
            }
            *number = found.unwrap_or(NONE);
        }
        let mut left = 0;
        for (at, ((end, &number), packet)) in ends.iter_mut().zip(&numbers).zip(burst.iter_mut()).enumerate()
        {
            match targets
                .get_mut(number as usize)
                .and_then(|target| target.take::<S>(*now, packet.data_mut()))
            {
                Some(went) => *end = went,
                None => left |= 1 << at,
            }
        }
        left
    }
}
