//! Rings between processes that share memory: a pair a *link*, one for each way.
//!
//! A link has a near end (towards the first port of a chain) and a far one. Each end is one process's, so that each ring
//! has one sender and one receiver, who need no lock.

use super::SharedError;
use crate::eal::describe;
use crate::ffi::{self, RteRing};
use crate::{Burst, Eal};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fmt;
use std::ptr::NonNull;
use std::str::FromStr;
use std::sync::Arc;

/// Packets that a ring holds: as many as other ports of the lab have descriptors.
const ENTRIES: u32 = 1024;

/// How the text of an end begins.
const SCHEME: &str = "ring";

/// One end of a pair of rings, as people write it: `ring:0:near`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RingEnd {
    /// The pair's number, from 0.
    pub link: u16,
    /// Whether it is the end away from a chain's first port.
    pub far: bool,
}

impl fmt::Display for RingEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}:{}:{}", self.link, if self.far { "far" } else { "near" })
    }
}

impl RingEnd {
    /// Whether a port's text means such an end, right or wrong.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("ring:")
    }
}

impl FromStr for RingEnd {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Vec<&str> = text.split(':').collect();
        let link = || parts.get(1)?.parse().ok();
        match (parts.as_slice(), link()) {
            ([SCHEME, _, "near"], Some(link)) => Ok(Self { link, far: false }),
            ([SCHEME, _, "far"], Some(link)) => Ok(Self { link, far: true }),
            _ => Err(format!("`{text}` is no end of a ring; write ring:N:near or ring:N:far")),
        }
    }
}

/// One ring, in memory that goes with the last process that has it.
#[derive(Clone, Copy, Debug)]
struct Ring(NonNull<RteRing>);

// SAFETY: a ring is made for a sender and a receiver at the same time, wherever they run; only the two
// halves below send and receive, of which there is one each.
unsafe impl Send for Ring {}
// SAFETY: as above; counting reads two words.
unsafe impl Sync for Ring {}

/// What receives from a ring.
#[derive(Debug)]
pub struct RingReceiver(Ring, #[allow(dead_code, reason = "it is counted")] Out);

/// What sends to a ring.
#[derive(Debug)]
pub struct RingSender(Ring, #[allow(dead_code, reason = "it is counted")] Out);

/// One for each half that this process has handed out, and one that the rings themselves keep.
type Out = Arc<()>;

impl RingReceiver {
    /// Receives packets behind those in the burst, as many as there are and fit. Returns how many.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst) -> usize {
        let room = burst.room();
        burst.extend_with(room, |slots| {
            // SAFETY: the ring lives; `slots` has the room that is passed; this is the ring's only receiver.
            let count = unsafe {
                ffi::weir_ring_dequeue(self.0.0.as_ptr(), slots.as_mut_ptr().cast(), slots.len() as u32)
            };
            count as usize
        })
    }

    /// Packets that wait in it.
    #[inline]
    pub fn waiting(&self) -> usize {
        // SAFETY: the ring lives.
        unsafe { ffi::weir_ring_count(self.0.0.as_ptr()) as usize }
    }
}

impl RingSender {
    /// Sends from the front of the burst. Returns how many the ring took; the rest stay.
    #[inline]
    pub fn transmit(&mut self, burst: &mut Burst) -> usize {
        burst.hand_over(|mbufs| {
            // SAFETY: the ring lives; its receiver owns the packets that it takes; this is the ring's only sender.
            let count =
                unsafe { ffi::weir_ring_enqueue(self.0.0.as_ptr(), mbufs.as_mut_ptr(), mbufs.len() as u32) };
            count as usize
        })
    }
}

/// The pairs of rings that a process knows, and the ends that it has not handed out.
#[derive(Debug)]
pub(super) struct Rings {
    links: BTreeMap<u16, [Ring; 2]>,
    ends: Vec<RingEnd>,
    out: Out,
}

impl Rings {
    /// Makes so many pairs.
    pub(super) fn create(eal: &'static Eal, links: u16) -> Result<Self, SharedError> {
        let _control = eal.control();
        let make = |link, way| {
            let (name, mut error) = (name(link, way), 0);
            // SAFETY: the EAL runs; name and error outlive the call.
            let ring = unsafe { ffi::weir_ring_create(name.as_ptr(), ENTRIES, &raw mut error) };
            NonNull::new(ring).map(Ring).ok_or_else(|| SharedError::Ring { link, reason: describe(error) })
        };
        let pair = |link| Ok((link, [make(link, 0)?, make(link, 1)?]));
        let ends = (0..links).flat_map(|link| [false, true].map(|far| RingEnd { link, far })).collect();
        let links = (0..links).map(pair).collect::<Result<_, SharedError>>()?;
        Ok(Self { links, ends, out: Out::default() })
    }

    /// Finds those of these ends, which the primary has made.
    pub(super) fn find(eal: &'static Eal, ends: &[RingEnd]) -> Result<Self, SharedError> {
        let _control = eal.control();
        let find = |link, way| {
            let name = name(link, way);
            // SAFETY: the EAL runs; the name outlives the call.
            let ring = unsafe { ffi::weir_ring_find(name.as_ptr()) };
            let reason = "the process that owns the memory has not made them".to_owned();
            NonNull::new(ring).map(Ring).ok_or(SharedError::Ring { link, reason })
        };
        let pair = |end: &RingEnd| Ok((end.link, [find(end.link, 0)?, find(end.link, 1)?]));
        let links = ends.iter().map(pair).collect::<Result<_, SharedError>>()?;
        Ok(Self { links, ends: ends.to_vec(), out: Out::default() })
    }

    /// Both halves at an end; nothing when they were taken.
    pub(super) fn take(&mut self, end: RingEnd) -> Option<(RingReceiver, RingSender)> {
        let place = self.ends.iter().position(|one| *one == end)?;
        self.ends.swap_remove(place);
        let [forth, back] = *self.links.get(&end.link)?;
        let (receive, send) = if end.far { (forth, back) } else { (back, forth) };
        Some((RingReceiver(receive, self.out.clone()), RingSender(send, self.out.clone())))
    }

    /// Frees what is in all of them, unless this process still has halves in use. No other process may receive from
    /// any at the time.
    pub(super) fn drain(&self) {
        if Arc::strong_count(&self.out) > 1 {
            return;
        }
        let mut burst = Burst::new();
        for ring in self.links.values().flatten() {
            let mut receiver = RingReceiver(*ring, self.out.clone());
            while receiver.receive(&mut burst) > 0 {
                burst.clear();
            }
        }
    }
}

/// A ring's name in the shared memory; way 0 leads from the near end to the far one.
fn name(link: u16, way: usize) -> CString {
    CString::new(format!("weir-link{link}-{way}")).expect("numbers hold no NUL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_as_they_are_written() {
        for end in [RingEnd { link: 0, far: false }, RingEnd { link: 12, far: true }] {
            assert_eq!(end.to_string().parse(), Ok(end));
            assert!(RingEnd::is_meant(&end.to_string()));
        }
        for wrong in ["ring:near", "ring:x:near", "ring:1:left", "ring:70000:far", "ring:1:far:", "net_null0"]
        {
            let error = wrong.parse::<RingEnd>().unwrap_err();
            assert!(error.contains(wrong) && error.contains("ring:N:near"), "{error}");
        }
    }
}
