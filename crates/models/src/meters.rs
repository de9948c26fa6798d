//! A meter that two workers share.

use crate::every_order;
use crate::the_meter::{MeterState, Metered};
use loom::sync::Arc;
use loom::thread;
use weir_openflow::{Band, BandKind, Meter, MeterId, MeterUnit};
use weir_units::Nanos;

fn meter(packets: u32) -> MeterState {
    let band = Band { kind: BandKind::Drop, rate: 1, burst: packets };
    let unit = MeterUnit::PacketsPerSecond;
    MeterState::new(&Meter { id: MeterId(1), unit, burst: true, stats: true, bands: vec![band] })
}

fn passes(meter: &MeterState, packets: usize) -> usize {
    let now = Nanos(10 * Nanos::PER_SECOND);
    (0..packets).filter(|_| meter.pass(64, now) == Metered::Pass).count()
}

/// A burst of one packet, and two workers with a packet each: one passes, and all are counted.
pub fn two_workers_let_no_more_pass_than_one() -> u64 {
    every_order(Some(4), || {
        let shared = Arc::new(meter(1));
        let theirs = shared.clone();
        let other = thread::spawn(move || passes(&theirs, 1));
        let passed = passes(&shared, 1) + other.join().expect("it does not panic");
        assert_eq!(passed, 1);
        assert_eq!(shared.packets.load(loom::sync::atomic::Ordering::Relaxed), 2);
        assert_eq!(shared.bands(), [(1, 64)]);
    })
}

/// A burst of two packets, and two workers with two each: two pass.
pub fn nor_of_several_packets() -> u64 {
    every_order(Some(2), || {
        let shared = Arc::new(meter(2));
        let theirs = shared.clone();
        let other = thread::spawn(move || passes(&theirs, 2));
        let passed = passes(&shared, 2) + other.join().expect("it does not panic");
        assert_eq!((passed, shared.bands()), (2, vec![(2, 128)]));
    })
}
