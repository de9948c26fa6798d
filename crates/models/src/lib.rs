//! What threads share without a lock, gone through by loom in all orders in which their steps can be seen.
//!
//! The files under test are those of the switch, taken here by their path: `crates/datapath/src/worker/doorbell.rs`,
//! `crates/datapath/src/model/meter.rs`, `crates/datapath/src/model/counts.rs`, `crates/conntrack/src/owner_line.rs`,
//! `crates/agent/src/channel/wish.rs`, `crates/port/src/apart/ring.rs`; and one of the tester's,
//! `crates/traffic/src/numbers/marks.rs`. They name `atomics`, which is the standard library's
//! there and loom's here; so nothing is modelled but what runs, and no build of the switch or of the lab knows of loom.
//!
//! - [`doorbell`]: whoever changed the tables frees the old ones when no worker uses them, asleep or not;
//! - [`owners`]: of two workers that want one tuple, one at most has it;
//! - [`marks`]: of two receivers of one packet, one counts it, and of two packets out of order, one is;
//! - [`counts`]: counters that workers add to and others read lose nothing and never fall;
//! - [`meters`]: two workers let no more pass than one would;
//! - [`wishes`]: the channel's thread sleeps over nothing that was left for it;
//! - [`rings`]: packets between a switch and the helper of an untrusted port come out as they went in, and whatever the other
//!   side writes meanwhile, none is longer than its slot.
//!
//! Bounds: two threads, few steps, and where it is said so a bound on how often one is interrupted. Loom takes an access
//! that is sequentially consistent for one that acquires and releases; here it has a fence before it, as compilers put it
//! for POWER ([`atomics`]).
//!
//! Tests only: `./x loom`, and with all tests. `docs/fuzzing.md` says what else is checked of threads.

// The files taken from other crates bring tests of their own, which know nothing of loom: `--lib` finds none here.
#![cfg(not(test))]

pub mod atomics;
pub mod counts;
pub mod doorbell;
pub mod marks;
pub mod meters;
pub mod owners;
pub mod rings;
pub mod wishes;

/// Where the datapath's files find them.
mod model {
    pub(crate) use crate::atomics;
}

#[path = "../../datapath/src/worker/doorbell.rs"]
#[allow(dead_code, reason = "not all of it is modelled")]
mod the_doorbell;

#[path = "../../datapath/src/model/counts.rs"]
#[allow(dead_code, reason = "not all of it is modelled")]
mod the_counts;

#[path = "../../datapath/src/model/meter.rs"]
#[allow(dead_code, reason = "not all of it is modelled")]
mod the_meter;

#[path = "../../conntrack/src/owner_line.rs"]
mod the_owner_line;

#[path = "../../traffic/src/numbers/marks.rs"]
mod the_marks;

#[path = "../../agent/src/channel/wish.rs"]
mod the_wish;

#[path = "../../port/src/apart/ring.rs"]
#[allow(dead_code, reason = "not all of it is modelled")]
mod the_ring;

/// In the place of the memory that two processes share.
#[derive(Debug)]
struct SharedWords(Vec<atomics::AtomicU64>);

impl SharedWords {
    fn words(&self) -> &[atomics::AtomicU64] {
        &self.0
    }
}

/// Goes through all orders of steps, or through those in which a thread is interrupted so often at most; how many.
fn every_order(interruptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) -> u64 {
    let count = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counting = count.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = interruptions;
    builder.check(move || {
        counting.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        model();
    });
    count.load(std::sync::atomic::Ordering::Relaxed)
}
