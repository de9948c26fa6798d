//! The emulation of a flow table in hardware: a TCAM in front of the software.
//!
//! What: entries of a masked key and a mark. A packet that agrees with an entry is given its mark. As in a
//! NIC, there is room for so many entries and no more; an update takes its time, one after another, and
//! only then does the table answer differently: an entry that is being written answers nothing yet,
//! one that is being erased answers still. There is no eviction: whoever drives a table decides what is in it.
//!
//! Why: SoftFlow (section 6) has the NIC's TCAM hand a megaflow's name to the software, and emulates one for
//! want of such a NIC (section 7.3); so do we. Priorities are not needed, for megaflows overlap only
//! where it does not matter which is found.
//!
//! Cost: that of [`Megaflows`], which a real table would not have: whoever emulates keeps it apart.
//! Threads: one worker's.

use crate::handle::Handle;
use crate::megaflows::{LOOKUP_BURST, Megaflows};
use std::collections::{HashMap, VecDeque};
use weir_flow::{Key, Mask, Seed, places};
use weir_units::Nanos;

/// What a table marks packets with; 0 marks nothing.
pub type Mark = u32;

/// Why a table does not take an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It has no room.
    #[error("the table is full")]
    Full,
    /// The update before is not done.
    #[error("the table is busy with the update before")]
    Busy,
    /// An entry of this match, or this mark, is there.
    #[error("an entry of that match or mark is there")]
    Exists,
    /// There is no such entry.
    #[error("there is no entry of that mark")]
    Missing,
}

/// An entry.
#[derive(Debug)]
struct Entry {
    mark: Mark,
    /// When it begins to answer.
    from: Nanos,
    /// When it ceases to.
    to: Nanos,
}

/// The table.
#[derive(Debug)]
pub struct Tcam {
    entries: Megaflows<Entry>,
    room: usize,
    latency: Nanos,
    by_mark: HashMap<Mark, Handle>,
    /// Entries being erased, in the order they will be gone.
    leaving: VecDeque<(Nanos, Mark)>,
    /// When the update at hand is done.
    busy_until: Nanos,
}

impl Tcam {
    /// An empty table with room for so many entries, each update of which takes so long.
    pub fn new(seed: Seed, room: usize, latency: Nanos) -> Self {
        Self {
            // It never gets as far as evicting.
            entries: Megaflows::new(seed, room + 1),
            room,
            latency,
            by_mark: HashMap::with_capacity(room),
            leaving: VecDeque::new(),
            busy_until: Nanos(0),
        }
    }

    /// Entries, those that come and go included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether an update would be begun now.
    #[inline]
    pub fn is_ready(&self, now: Nanos) -> bool {
        now >= self.busy_until
    }

    /// Begins to write an entry: packets that agree with the key in what the mask names will be marked.
    ///
    /// # Errors
    /// No room, another update, or an entry that is there.
    pub fn write(&mut self, mark: Mark, key: &Key, mask: &Mask, now: Nanos) -> Result<(), Refusal> {
        if !self.is_ready(now) {
            return Err(Refusal::Busy);
        }
        if self.by_mark.contains_key(&mark) || self.entries.holds(key, mask) {
            return Err(Refusal::Exists);
        }
        if self.entries.len() >= self.room {
            return Err(Refusal::Full);
        }
        let from = Nanos(now.0 + self.latency.0);
        let entry = Entry { mark, from, to: Nanos(u64::MAX) };
        let inserted = self.entries.insert(key, mask, entry);
        if let Some(old) = inserted.replaced {
            self.by_mark.remove(&old.mark);
        }
        self.by_mark.insert(mark, inserted.handle);
        self.busy_until = from;
        Ok(())
    }

    /// Begins to erase an entry.
    ///
    /// # Errors
    /// Another update, or no such entry.
    pub fn erase(&mut self, mark: Mark, now: Nanos) -> Result<(), Refusal> {
        if !self.is_ready(now) {
            return Err(Refusal::Busy);
        }
        let handle = self.by_mark.get(&mark).ok_or(Refusal::Missing)?;
        let entry = self.entries.get_mut(*handle).ok_or(Refusal::Missing)?;
        if entry.to.0 != u64::MAX {
            return Err(Refusal::Missing);
        }
        entry.to = Nanos(now.0 + self.latency.0);
        self.busy_until = entry.to;
        self.leaving.push_back((entry.to, mark));
        Ok(())
    }

    /// The mark of an entry that is gone by now, each told once: it may be used again.
    pub fn gone(&mut self, now: Nanos) -> Option<Mark> {
        let (to, mark) = *self.leaving.front()?;
        if to > now {
            return None;
        }
        self.leaving.pop_front();
        let handle = self.by_mark.remove(&mark)?;
        self.entries.remove(handle);
        Some(mark)
    }

    /// Marks those of up to [`LOOKUP_BURST`] keys that `wanted` names; 0 where no entry answers.
    ///
    /// # Panics
    ///
    /// When `wanted` names a key that is not there, or one for which `marks` has no room.
    pub fn lookup_burst(&mut self, keys: &[Key], wanted: u64, now: Nanos, marks: &mut [Mark]) {
        let mut handles = [Handle::NONE; LOOKUP_BURST];
        let (found, _) = self.entries.find_burst(keys, wanted, &mut handles);
        for at in places(wanted) {
            let entry = if found >> at & 1 == 1 { self.entries.get(handles[at]) } else { None };
            let answers = |entry: &&Entry| (entry.from..entry.to).contains(&now);
            marks[at] = entry.filter(answers).map_or(0, |entry| entry.mark);
        }
    }

    /// Puts the matches that packets meet most first.
    pub fn rank(&mut self) {
        self.entries.rank();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Field;

    fn flow(address: u32, bits: u32) -> (Key, Mask) {
        let (mut key, mut mask) = (Key::new(), Mask::new());
        Field::NwSrc.set(&mut key, u128::from(address));
        Field::NwSrc.examine(&mut mask, u128::from(u32::MAX << (32 - bits)));
        (key, mask)
    }

    fn mark_of(tcam: &mut Tcam, address: u32, now: u64) -> Mark {
        let mut marks = [99];
        tcam.lookup_burst(&[flow(address, 32).0], 1, Nanos(now), &mut marks);
        marks[0]
    }

    fn write(tcam: &mut Tcam, mark: Mark, address: u32, bits: u32, now: u64) -> Result<(), Refusal> {
        let (key, mask) = flow(address, bits);
        tcam.write(mark, &key, &mask, Nanos(now))
    }

    #[test]
    fn an_entry_answers_only_after_it_is_written_and_until_it_is_erased() {
        let mut tcam = Tcam::new(Seed::new(1), 4, Nanos(100));
        write(&mut tcam, 7, 0x0a00_0000, 8, 1000).unwrap();
        assert_eq!((mark_of(&mut tcam, 0x0a01_0203, 1099), mark_of(&mut tcam, 0x0a01_0203, 1100)), (0, 7));
        assert_eq!(mark_of(&mut tcam, 0x0b01_0203, 1100), 0);
        tcam.erase(7, Nanos(2000)).unwrap();
        assert_eq!((mark_of(&mut tcam, 0x0a01_0203, 2099), tcam.gone(Nanos(2099))), (7, None));
        assert_eq!((mark_of(&mut tcam, 0x0a01_0203, 2100), tcam.gone(Nanos(2100))), (0, Some(7)));
        assert!(tcam.is_empty() && tcam.gone(Nanos(9999)).is_none());
    }

    #[test]
    fn updates_are_taken_one_at_a_time() {
        let mut tcam = Tcam::new(Seed::new(1), 4, Nanos(100));
        write(&mut tcam, 1, 1, 32, 0).unwrap();
        assert_eq!(write(&mut tcam, 2, 2, 32, 99), Err(Refusal::Busy));
        assert_eq!(tcam.erase(1, Nanos(99)), Err(Refusal::Busy));
        assert_eq!((write(&mut tcam, 2, 2, 32, 100), tcam.len()), (Ok(()), 2));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_changes_nothing() {
        let mut tcam = Tcam::new(Seed::new(1), 2, Nanos(0));
        write(&mut tcam, 1, 1, 32, 0).unwrap();
        assert_eq!(write(&mut tcam, 1, 5, 32, 0), Err(Refusal::Exists));
        assert_eq!(write(&mut tcam, 5, 1, 32, 0), Err(Refusal::Exists));
        write(&mut tcam, 2, 2, 32, 0).unwrap();
        assert_eq!(write(&mut tcam, 3, 3, 32, 0), Err(Refusal::Full));
        assert_eq!(tcam.erase(3, Nanos(0)), Err(Refusal::Missing));
        tcam.erase(2, Nanos(0)).unwrap();
        assert_eq!(tcam.erase(2, Nanos(0)), Err(Refusal::Missing));
        // Its place is taken until whoever drives the table was told that it is gone.
        assert_eq!(write(&mut tcam, 3, 3, 32, 0), Err(Refusal::Full));
        assert_eq!(tcam.gone(Nanos(0)), Some(2));
        write(&mut tcam, 3, 3, 32, 0).unwrap();
        assert_eq!((1..=3).map(|address| mark_of(&mut tcam, address, 0)).collect::<Vec<_>>(), [1, 0, 3]);
    }
}
