//! Entries come and go: which mask each gets within the budget of its port and stage, and which leaves when
//! there is no more room.

use super::*;

impl<T> Megaflows<T> {
    /// A table for a mask that the group does not ask yet.
    fn new_mask(&mut self, mask: Mask) -> u32 {
        let table = Subtable::new(mask);
        let number = self.spare.pop().unwrap_or(self.masks.len() as u32);
        if number as usize == self.masks.len() {
            self.masks.push(table);
        } else {
            self.masks[number as usize] = table;
        }
        number
    }

    /// The mask that an entry of this one gets: the same; or, when its port and stage have as many as they
    /// may, the widest of them.
    fn mask_number(&mut self, key: &Key, mask: &Mask) -> u32 {
        let mut mask = mask.clone();
        Groups::name(&mut mask);
        let at = self.groups.make(Groups::of(key));
        if let Some(number) = self.number_of(at, &mask) {
            return number;
        }
        let group = &self.groups[at];
        if group.order.len() - usize::from(group.widest.is_some()) < MASKS {
            let number = self.new_mask(mask);
            self.groups[at].order.push(number);
            return number;
        }
        let old = group.widest;
        if let Some(old) = old {
            let widest = &self.masks[old as usize].mask;
            if widest.covers(&mask) {
                return old;
            }
            mask.union(widest);
        }
        for &number in &self.groups[at].order {
            mask.union(&self.masks[number as usize].mask);
        }
        let number = self.new_mask(mask);
        let group = &mut self.groups[at];
        group.order.retain(|&other| Some(other) != old);
        group.order.push(number);
        group.widest = Some(number);
        number
    }

    fn number_of(&self, group: usize, mask: &Mask) -> Option<u32> {
        self.groups[group].order.iter().copied().find(|&number| self.masks[number as usize].mask == *mask)
    }

    /// Adds an entry for all keys that agree with this one in what the mask names, or in more than that
    /// (see above). One of the same mask and masked key has its value replaced and keeps its handle. When
    /// the cache is full, an entry goes that was not used for a while, of a port that has more than its share.
    pub fn insert(&mut self, key: &Key, mask: &Mask, value: T) -> Inserted<T> {
        let mut evicted = None;
        let mut number = self.mask_number(key, mask);
        if let Some(handle) = self.same(number, key) {
            let replaced = self.values[handle.index as usize].replace(value);
            return Inserted { handle, replaced, evicted };
        }
        if self.len >= self.capacity {
            evicted = self.evict(Shares::port_of(key));
            // It may have been the last of this mask.
            number = self.mask_number(key, mask);
        }
        let table = &mut self.masks[number as usize];
        let (hash, head) = (table.cut.hash(self.seed, key), table.cut.head_of(key));
        let bare = table.cut.rest_of(key).all(|word| word == 0);
        let rest = if bare { Box::default() } else { table.cut.rest_of(key).collect() };
        let index = self.free.pop().unwrap_or(self.lines.len() as u32);
        if index as usize == self.lines.len() {
            self.lines.push(Line::free(0));
            self.values.push(None);
            self.rests.push(Box::default());
        }
        table.insert(hash, index);
        let generation = self.lines[index as usize].generation.wrapping_add(1);
        self.lines[index as usize] =
            Line { generation, mask: number | if bare { BARE } else { 0 }, head, hash };
        self.values[index as usize] = Some(value);
        self.keep_rest(index, rest);
        self.len += 1;
        self.shares.add(Shares::port_of(key));
        Inserted { handle: Handle { index, generation }, replaced: None, evicted }
    }

    /// Whether there is an entry of this mask and masked key.
    pub fn holds(&self, key: &Key, mask: &Mask) -> bool {
        let mut mask = mask.clone();
        Groups::name(&mut mask);
        let number = self.groups.place(Groups::of(key)).and_then(|group| self.number_of(group, &mask));
        number.is_some_and(|number| self.same(number, key).is_some())
    }

    /// The entry of this mask and masked key.
    fn same(&self, number: u32, key: &Key) -> Option<Handle> {
        let table = &self.masks[number as usize];
        let hash = table.cut.hash(self.seed, key);
        let is = |&index: &u32| self.lines[index as usize].number() == number as usize;
        let index = table
            .candidates(hash)
            .map(|(_, index)| index)
            .filter(is)
            .find(|&index| self.is_of(index, key).is_some())?;
        Some(Handle { index, generation: self.lines[index as usize].generation })
    }

    /// Takes an entry out. Its handle is stale from then on.
    pub fn remove(&mut self, handle: Handle) -> Option<T> {
        let line = self.line(handle)?;
        let (number, hash) = (line.number(), line.hash);
        self.shares.remove(line.port());
        let table = &mut self.masks[number];
        table.remove(hash, handle.index);
        if table.len == 0 {
            self.masks[number] = Subtable::new(Mask::new());
            self.spare.push(number as u32);
            self.groups.forget(number as u32);
        }
        self.lines[handle.index as usize] = Line::free(handle.generation.wrapping_add(1));
        self.free.push(handle.index);
        self.len -= 1;
        self.keep_rest(handle.index, Box::default());
        self.values[handle.index as usize].take()
    }

    fn keep_rest(&mut self, index: u32, rest: Box<[u64]>) {
        let (place, more) = (&mut self.rests[index as usize], rest.len());
        self.rest_words = self.rest_words + more - std::mem::replace(place, rest).len();
    }

    /// Takes all entries out. All handles are stale from then on.
    pub fn clear(&mut self) {
        self.rests.fill(Box::default());
        self.rest_words = 0;
        for (line, value) in self.lines.iter_mut().zip(&mut self.values) {
            if value.take().is_some() {
                *line = Line::free(line.generation.wrapping_add(1));
            }
        }
        self.free = (0..self.lines.len() as u32).rev().collect();
        self.masks.truncate(1);
        self.spare.clear();
        self.groups = Groups::default();
        self.shares.clear();
        self.len = 0;
    }

    /// Takes out an entry to make room for one of this port: one of a port with more than its share (`shares.rs`)
    /// that was not used since the hand last came by, or the last of so many that it passed.
    fn evict(&mut self, port: u32) -> Option<Evicted<T>> {
        let claim = self.shares.claim(port, self.capacity);
        let (mut spared, mut passed) = (0, 0);
        loop {
            let index = self.hand;
            self.hand = if index + 1 >= self.lines.len() { 0 } else { index + 1 };
            let line = self.lines.get_mut(index)?;
            if line.number() == 0 {
                continue;
            }
            passed += 1;
            let (owner, used) = (line.port(), line.mask & USED != 0);
            let gives = self.shares.gives(claim, owner);
            if gives && (!used || spared == SPARED) || passed == PASSED {
                let handle = Handle { index: index as u32, generation: line.generation };
                return self.remove(handle).map(|value| Evicted { handle, value, port: owner });
            }
            if gives {
                line.mask &= !USED;
                spared += 1;
            }
        }
    }
}
