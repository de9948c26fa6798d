//! Handles: names of megaflows that can be kept, and found out to be stale.

/// Names a megaflow: its place, and which of the megaflows that lived there it is.
///
/// Small enough for a hardware mark's side table, for an exact-match cache, for a connection. A handle
/// outlives its megaflow without harm: a place changes its generation each time it is given up, and
/// again each time it is taken, so that an old handle names nothing until the place was reused two
/// thousand million times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// The place.
    pub index: u32,
    /// Odd for a megaflow that lives.
    pub generation: u32,
}

impl Handle {
    /// Names no megaflow, ever.
    pub const NONE: Self = Self { index: u32::MAX, generation: 0 };

    /// In one word, the generation above.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// From one word, of whatever origin: it need not name anything.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

impl Default for Handle {
    fn default() -> Self {
        Self::NONE
    }
}
