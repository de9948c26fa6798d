//! Counters of an entry, of two workers, and whoever reads them meanwhile.

use crate::every_order;
use crate::the_counts::Counts;
use loom::sync::Arc;
use loom::thread;
use weir_units::Nanos;

/// Two workers add while somebody reads: nothing is lost, nothing falls, and the last use is the last.
pub fn nothing_is_lost_and_nothing_falls() -> u64 {
    every_order(Some(4), || {
        let counts = Arc::new(Counts::default());
        let adds = |packets: u64, used: u64| {
            let counts = counts.clone();
            thread::spawn(move || counts.add(packets, packets * 64, Nanos(used)))
        };
        let workers = [adds(1, 20), adds(2, 10)];
        let (first, at_first) = (counts.read(), counts.used());
        let (second, at_second) = (counts.read(), counts.used());
        assert!(first.0 <= second.0 && first.1 <= second.1 && at_first <= at_second, "it falls");
        workers.into_iter().for_each(|worker| worker.join().expect("it does not panic"));
        assert_eq!((counts.read(), counts.used()), ((3, 192), Nanos(20)));
    })
}
