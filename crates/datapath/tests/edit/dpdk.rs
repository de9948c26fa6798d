//! Packets in DPDK's memory are edited like plain bytes.

use super::*;
use weir_dpdk::{Eal, EalConfig, Memory, Pool, Worker};
use weir_units::FrameSize;

/// Frames in this run.
const FRAMES: usize = 30_000;

fn run() {
    let eal = Eal::init(EalConfig { memory: Memory::Normal, megabytes: 256, pci: false })
        .expect("EAL starts anywhere");
    let core = weir_cpu::allowed_cores()[0];
    let body = move || {
        let pool = Pool::new(eal, 1024, FrameSize::MIN).expect("memory for a small pool");
        let mut sampler = Sampler::new(weir_testkit::seed(31));
        for _ in 0..FRAMES {
            let mut plain = Packet::new(sampler.frame());
            let mut mbuf = pool.packet(&plain.frame).expect("one is free, and it fits");
            let (mut layout, mut key) = (plain.layout, plain.key.clone());
            for _ in 0..=sampler.below(5) {
                let edit = random_edit(&mut sampler, &plain.key);
                let expected = plain.apply(&edit);
                let packet: &mut weir_dpdk::Packet = &mut mbuf;
                let found = apply_to(packet, &mut layout, &mut key, &edit);
                assert_eq!(found, expected, "{edit:?}");
                assert_eq!((mbuf.data(), layout), (plain.frame.as_slice(), plain.layout), "{edit:?}");
                assert_eq!(key, plain.key, "{edit:?}");
            }
        }
        assert_eq!(pool.in_use(), 0);
    };
    Worker::spawn(eal, "test", core, body).unwrap().join().unwrap();
}

#[test]
fn dpdk_packets_and_plain_bytes_become_equal() {
    run();
}

#[test]
fn without_room_in_front_nothing_is_pushed() {
    /// Bytes that cannot grow.
    #[derive(Clone, Debug, PartialEq)]
    struct Tight(Vec<u8>);
    impl Frame for Tight {
        fn bytes(&self) -> &[u8] {
            &self.0
        }
        fn bytes_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
        fn push_front(&mut self, _: usize) -> bool {
            false
        }
        fn pull_front(&mut self, count: usize) -> bool {
            Frame::pull_front(&mut self.0, count)
        }
        fn set_len(&mut self, len: usize) -> bool {
            len <= self.0.len() && Frame::set_len(&mut self.0, len)
        }
    }
    let mut sampler = Sampler::new(weir_testkit::seed(32));
    let mut pushed = 0;
    for _ in 0..200 {
        for edit in [Edit::PushVlan(0x8100), Edit::PushMpls(0x8847), Edit::PushPbb(0x88e7)] {
            let frame = sampler.frame();
            // Some have no Ethernet header, so that nothing can be pushed onto them, room or not.
            let with_room = Packet::new(frame.clone()).apply(&edit);
            let mut packet = Packet::new(Tight(frame));
            let before = packet.clone();
            assert_eq!(packet.apply(&edit), with_room.and(Err(DropReason::NoRoom)));
            assert_eq!(packet, before);
            pushed += u32::from(with_room.is_ok());
        }
    }
    assert!(pushed > 300, "most frames can be pushed onto: {pushed} of 600");
    let mut long = Packet::new(vec![0; 65_534]);
    assert_eq!(long.apply(&Edit::PushVlan(0x8100)), Err(DropReason::NoRoom));
}
