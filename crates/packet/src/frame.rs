//! A frame that actions can change, also in length. A packet in DPDK's memory is one (`crates/dpdk/src/frame.rs`), and so
//! are plain bytes.

/// A frame without FCS.
pub trait Frame {
    /// Its bytes.
    fn bytes(&self) -> &[u8];

    /// Its bytes, to be changed in place.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Makes it longer at the front; what the new bytes hold is undefined. False, and nothing is
    /// changed, where there is no room.
    fn push_front(&mut self, count: usize) -> bool;

    /// Makes it shorter at the front. False, and nothing is changed, where it has fewer bytes.
    fn pull_front(&mut self, count: usize) -> bool;

    /// Makes it so long, at its end; what new bytes hold is undefined. False, and nothing is changed, where
    /// there is no room.
    fn set_len(&mut self, len: usize) -> bool;
}

impl Frame for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }

    fn push_front(&mut self, count: usize) -> bool {
        self.splice(..0, std::iter::repeat_n(0, count));
        true
    }

    fn pull_front(&mut self, count: usize) -> bool {
        if count > self.len() {
            return false;
        }
        self.drain(..count);
        true
    }

    fn set_len(&mut self, len: usize) -> bool {
        self.resize(len, 0);
        true
    }
}
