//! A packet in DPDK's memory as a frame that actions can change.

use crate::Packet;
use weir_packet::Frame;

impl Frame for Packet {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.data()
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.data_mut()
    }

    #[inline]
    fn push_front(&mut self, count: usize) -> bool {
        Packet::push_front(self, count)
    }

    #[inline]
    fn pull_front(&mut self, count: usize) -> bool {
        Packet::pull_front(self, count)
    }

    fn set_len(&mut self, len: usize) -> bool {
        let fits = !self.is_chained() && len <= self.room().min(usize::from(u16::MAX));
        if fits {
            Packet::set_len(self, len as u16);
        }
        fits
    }
}
