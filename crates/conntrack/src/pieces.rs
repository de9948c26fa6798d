//! Which bytes of a fragmented packet have come, and their sum.
//!
//! Cost: a few comparisons a fragment, and its bytes' sum where checksums are verified. No allocation.

use super::packet::FragmentHeader;
use super::reason::Reason;
use weir_wire::checksum;

/// Spans of bytes, with holes between them, that are kept of one packet.
const SPANS: usize = 8;

/// The greatest packet behind its network header (RFC 791, RFC 8200).
const MOST: u32 = u16::MAX as u32;

/// What a fragment adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// Bytes that were missing; some still are.
    Part,
    /// The last of them: so many there are.
    Whole(u32),
    /// Nothing: all of it came before.
    Nothing,
}

/// The fragments of a packet that came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces {
    /// Where bytes came from and up to, in order, never adjacent; the first so many.
    spans: [(u16, u16); SPANS],
    count: u8,
    /// Where the packet ends, once its last fragment came.
    end: Option<u16>,
    /// The sum over what came, as its checksum has it.
    sum: u32,
}

impl Pieces {
    /// None yet.
    pub(super) fn none() -> Self {
        Self { spans: [(0, 0); SPANS], count: 0, end: None, sum: 0 }
    }

    fn known(&self) -> &[(u16, u16)] {
        &self.spans[..usize::from(self.count)]
    }

    /// Where the packet ends, if it is whole.
    pub(super) fn whole(&self) -> Option<u32> {
        let end = self.end?;
        (self.known() == [(0, end)]).then_some(u32::from(end))
    }

    /// The sum over all that came.
    pub(super) const fn sum(&self) -> u32 {
        self.sum
    }

    /// Adds a fragment. `sum` is asked for the sum over its bytes if they are new.
    ///
    /// # Errors
    /// Its bytes overlap in part with others (RFC 5722), are behind the packet's end, or are not whole units of eight
    /// though others follow; or there would be more holes than are kept.
    pub(super) fn add(&mut self, header: FragmentHeader, sum: impl FnOnce() -> u32) -> Result<Added, Reason> {
        let FragmentHeader { offset, length, more, .. } = header;
        let behind = offset + length;
        if length == 0 || behind > MOST || more && length % 8 != 0 {
            return Err(Reason::Fragment);
        }
        let (from, to) = (offset as u16, behind as u16);
        let last = self.known().last().map_or(0, |span| span.1);
        let fits = match self.end {
            Some(end) if more => to < end,
            Some(end) => to == end,
            None => more || last <= to,
        };
        if !fits {
            return Err(Reason::Fragment);
        }
        if self.known().iter().any(|span| span.0 <= from && to <= span.1) {
            return Ok(Added::Nothing);
        }
        if self.known().iter().any(|span| span.0 < to && from < span.1) {
            return Err(Reason::Fragment);
        }
        self.join(from, to)?;
        if !more {
            self.end = Some(to);
        }
        self.sum += u32::from(checksum::fold(sum()));
        Ok(self.whole().map_or(Added::Part, Added::Whole))
    }

    /// Joins bytes that no span has with those next to them.
    fn join(&mut self, from: u16, to: u16) -> Result<(), Reason> {
        let count = usize::from(self.count);
        let at = self.known().iter().take_while(|span| span.1 < from).count();
        let after_left = at < count && self.spans[at].1 == from;
        let right = at + usize::from(after_left);
        let before_right = right < count && self.spans[right].0 == to;
        match (after_left, before_right) {
            (true, true) => {
                self.spans[at].1 = self.spans[right].1;
                self.spans.copy_within(right + 1..count, right);
                self.count -= 1;
            }
            (true, false) => self.spans[at].1 = to,
            (false, true) => self.spans[right].0 = from,
            (false, false) if count == SPANS => return Err(Reason::LimitFragments),
            (false, false) => {
                self.spans.copy_within(at..count, at + 1);
                self.spans[at] = (from, to);
                self.count += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(offset: u32, length: u32, more: bool) -> FragmentHeader {
        FragmentHeader { id: 1, offset, length, more }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        #[cfg_attr(miri, ignore = "takes minutes under Miri")]
        fn what_came_is_told_as_a_plain_set_of_bytes_tells_it(
            steps in proptest::collection::vec((0_u32..12, 1_u32..5, any::<bool>(), 0_u32..8), 1..40),
        ) {
            let mut pieces = Pieces::none();
            let (mut bytes, mut end) = ([false; 200], None);
            for (offset, units, more, odd) in steps {
                let more = more || odd < 6;
                let (offset, length) = (offset * 8, units * 8 - if more { 0 } else { odd });
                let to = offset + length;
                let covered = (offset..to).filter(|&at| bytes[at as usize]).count() as u32;
                let holes = bytes.windows(2).filter(|pair| !pair[0] && pair[1]).count();
                let reach = bytes.iter().rposition(|byte| *byte).map_or(0, |at| at as u32 + 1);
                let beyond = match end {
                    Some(end) if more => to >= end,
                    Some(end) => to != end,
                    None => !more && reach > to,
                };
                let mut asked = false;
                let added = pieces.add(header(offset, length, more), || {
                    asked = true;
                    length
                });
                if beyond || covered != 0 && covered != length {
                    prop_assert_eq!(added, Err(Reason::Fragment));
                    continue;
                }
                prop_assert_eq!(asked, covered == 0 && added != Err(Reason::LimitFragments));
                if covered == length {
                    prop_assert_eq!(added, Ok(Added::Nothing));
                    continue;
                }
                if added == Err(Reason::LimitFragments) {
                    prop_assert!(holes + 1 >= SPANS);
                    continue;
                }
                (offset..to).for_each(|at| bytes[at as usize] = true);
                end = end.or((!more).then_some(to));
                let sum = bytes.iter().filter(|byte| **byte).count() as u32;
                prop_assert_eq!(pieces.sum(), sum);
                let whole = end.filter(|end| *end == sum);
                prop_assert_eq!(added, Ok(whole.map_or(Added::Part, Added::Whole)));
            }
        }
    }

    #[test]
    fn what_no_host_sends_is_refused() {
        let mut pieces = Pieces::none();
        for (offset, length, more) in [(0, 0, true), (0, 12, true), (65_528, 8, false), (65_528, 8, true)] {
            assert_eq!(pieces.add(header(offset, length, more), || 0), Err(Reason::Fragment));
        }
        for step in 0..SPANS as u32 {
            assert_eq!(pieces.add(header(step * 16, 8, true), || 0), Ok(Added::Part));
        }
        assert_eq!(pieces.add(header(800, 8, true), || 0), Err(Reason::LimitFragments));
        assert_eq!(pieces.add(header(8, 8, true), || 0), Ok(Added::Part), "one that fills a hole");
    }
}
