//! The burst state: what is known of each packet of the burst at hand, where a worker's steps leave it for the next.

use crate::actions::execute::Disposition;
use crate::model::Packets;
use weir_classifier::{Found, Handle};
use weir_dpdk::BURST;
use weir_flow::{Key, Layout, places};
use weir_openflow::PortNo;
use weir_packet::DropReason;
use weir_services::Memo;

/// Times that one packet may be looked up: stages, recirculations. More is taken for a loop.
pub(super) const PASSES: u8 = 64;

/// What a packet of the burst does next is said by a megaflow, by a pending one, or by the
/// table walk; or it is refused: its port has used up its upcall budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Megaflow(Handle),
    Pending(usize),
    Walk(u32),
    Refused,
}

/// Packets of the burst at hand that are as they came in by this port, for the fast path to learn from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fresh {
    pub(super) packets: Packets,
    pub(super) port: PortNo,
}

impl Default for Fresh {
    fn default() -> Self {
        Self { packets: 0, port: PortNo(0) }
    }
}

/// The hints of the burst at hand.
#[derive(Debug)]
pub(super) struct Hinted {
    /// Whether this is the first lookup of a burst whose port gives hints.
    pub(super) first: bool,
    pub(super) hits: Packets,
    /// The megaflow of a packet that had none.
    pub(super) candidate: Option<Handle>,
    /// Packets whose megaflow software found by a lookup of the first stage, and which.
    pub(super) seen: Packets,
    pub(super) handles: [Handle; BURST],
}

impl Default for Hinted {
    fn default() -> Self {
        Self { first: false, hits: 0, candidate: None, seen: 0, handles: [Handle::NONE; BURST] }
    }
}

impl Hinted {
    /// The packets whose megaflow hints found: at the first lookup, once.
    #[inline]
    pub(super) fn take(&mut self) -> Packets {
        std::mem::take(&mut self.hits)
    }

    /// What software found for the others by a lookup, and whether that was the last lookup of the first
    /// stage.
    #[inline]
    pub(super) fn others(&mut self, found: Packets, last: bool, handles: &[Handle]) {
        if self.first && found != 0 {
            self.candidate = handles.get(found.trailing_zeros() as usize).copied();
            self.seen |= found;
            places(found).for_each(|at| self.handles[at] = handles[at]);
        }
        self.first &= found == 0 && !last;
    }
}

/// What is known of each packet of the burst at hand.
pub(super) struct BurstState {
    pub(super) keys: Vec<Key>,
    pub(super) layouts: [Layout; BURST],
    pub(super) dispositions: [Disposition; BURST],
    pub(super) sources: [Source; BURST],
    /// What the first service on each packet's way noted with its megaflow.
    pub(super) memos: [Memo; BURST],
    /// The segment that comes next.
    pub(super) segments: [u8; BURST],
    pub(super) passes: [u8; BURST],
    /// The place that the packet, or what it is a copy of, had in the burst that came in.
    pub(super) roots: [u8; BURST],
    /// Packets that another worker owns.
    pub(super) others: Packets,
    /// What the last lookup found.
    pub(super) found: Found,
    /// Packets that are as they came in, for the fast path to learn from.
    pub(super) fresh: Fresh,
    pub(super) hinted: Hinted,
    /// Copies made so far of each packet of the burst that came in, and of their copies.
    pub(super) copies: [u16; BURST],
}

/// Counts another pass of a packet; whether it was too many.
#[inline]
pub(super) fn went_too_often(passes: &mut u8) -> bool {
    *passes = passes.saturating_add(1);
    *passes >= PASSES
}

/// Of these packets, the first and, where they come in runs, those right behind it that are like it.
#[inline(always)]
pub(super) fn run<const RUNS: bool>(
    packets: Packets,
    first: usize,
    is_like: impl Fn(usize) -> bool,
) -> Packets {
    let first = 1 << first;
    if !RUNS {
        return first;
    }
    places(packets & !first).take_while(|&at| is_like(at)).fold(first, |run, at| run | 1 << at)
}

/// Does something to each packet of a run, which is one packet where they come alone.
#[inline(always)]
pub(super) fn each<const RUNS: bool>(run: Packets, mut body: impl FnMut(usize)) {
    if RUNS {
        places(run).for_each(body);
    } else {
        body(run.trailing_zeros() as usize);
    }
}

impl BurstState {
    pub(super) fn new() -> Self {
        Self {
            keys: vec![Key::new(); BURST],
            layouts: [Layout::default(); BURST],
            dispositions: [Disposition::Drop(DropReason::ByFlow); BURST],
            sources: [Source::Pending(0); BURST],
            memos: [Memo::NOWHERE; BURST],
            segments: [0; BURST],
            passes: [0; BURST],
            roots: [0; BURST],
            others: 0,
            found: Found::default(),
            fresh: Fresh::default(),
            hinted: Hinted::default(),
            copies: [0; BURST],
        }
    }

    /// A burst just came in.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.passes = [0; BURST];
        self.roots = std::array::from_fn(|at| at as u8);
        self.others = 0;
        self.copies = [0; BURST];
    }

    /// Of these packets, those whose last stage was classified by the tables themselves.
    #[inline]
    pub(super) fn walked(&self, wanted: Packets) -> Packets {
        let is = |&at: &usize| matches!(self.sources[at], Source::Walk(_));
        places(wanted).filter(is).fold(0, |set, at| set | 1 << at)
    }

    /// Of these packets, those that go back to the caches, counted as another pass; what went too often
    /// ends.
    #[inline]
    pub(super) fn again(&mut self, wanted: Packets) -> Packets {
        let mut again = 0;
        for at in places(wanted) {
            if self.dispositions[at] == Disposition::Again {
                if went_too_often(&mut self.passes[at]) {
                    self.dispositions[at] = Disposition::Drop(DropReason::TooDeep);
                } else {
                    again |= 1 << at;
                }
            }
        }
        again
    }
}
