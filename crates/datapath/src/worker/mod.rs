//! A worker: one thread, one core, run to completion. It owns its queues, its caches, its service
//! instances and its ledger; nothing that it writes per packet is anybody else's.
//!
//! The loop is [`Worker::run`]; a burst's life is [`Worker::forward`]. Its steps, each in a file:
//!
//! - packets come in by a port's queue ([`receive`]), with hints or without ([`hints`]), and go to the worker that owns
//!   their flow ([`steer`], [`redirect`]); those with simple actions leave at once by the fast path ([`fast_path`]);
//! - the others are looked up, and what misses the caches goes to the slow path on the same core ([`upcall`]);
//! - what their megaflow says is done ([`dispatch`]); packets that meet a service wait for the others of their burst, so
//!   that services see bursts whatever flows they are of ([`serve`]);
//! - they leave ([`transmit`]).
//!
//! [`state`] has what is known of each packet meanwhile. Between bursts come the control thread's commands
//! ([`command`], [`doorbell`], [`between`], [`packet_out`]), the stats flush ([`flush`], [`timing`]), and the wait for the
//! next packet ([`wait`]).

pub(super) mod between;
pub(super) mod command;
pub(super) mod dispatch;
pub(super) mod doorbell;
pub(super) mod fast_path;
pub(super) mod flush;
pub(super) mod hints;
pub(super) mod input;
pub(super) mod packet_out;
pub(super) mod receive;
pub(super) mod redirect;
pub(super) mod serve;
pub(super) mod state;
pub(super) mod steer;
pub(super) mod thread;
pub(super) mod timing;
pub(super) mod transmit;
pub(super) mod upcall;
pub(super) mod wait;

use crate::actions::execute::Output;
use crate::classify::Tiers;
use crate::model::Packets;
use crate::model::experiment::Drawn;
use crate::model::pipeline::Pipeline;
use crate::services::Services;
use crate::slowpath::pending::SlowPath;
use crate::stats::counters::{Counters, Step};
use crate::worker::command::{CommandQueue, FlushRequests};
use crate::worker::input::Inputs;
use crate::worker::state::BurstState;
use crate::worker::steer::Steering;
use crate::worker::timing::Time;
use crate::worker::wait::Waiting;
use std::sync::Arc;
use weir_dpdk::Burst;

/// Polls between two rounds of what is due, while nothing comes.
const ROUND: u32 = 1024;

/// The worker.
pub(crate) struct Worker {
    /// What it forwards by.
    pub(crate) pipeline: Arc<Pipeline>,
    input: Inputs,
    /// What is known of each packet of the burst at hand.
    state: BurstState,
    tiers: Tiers,
    slow: SlowPath,
    services: Services,
    output: Output,
    steering: Steering,
    commands: CommandQueue,
    counters: Counters,
    /// Who asked for what was counted.
    flushes: FlushRequests,
    time: Time,
    waiting: Waiting,
    /// What is drawn for an experiment, where there is one.
    experiment: Option<Box<Drawn>>,
}

impl Worker {
    /// Forwards until it is told to stop.
    fn run(&mut self) {
        let mut burst = Burst::new();
        let mut round = 0;
        while self.commands.stopping.is_none() {
            self.take_commands();
            let mut busy = false;
            for at in 0..self.input.queues.len() {
                busy |= self.poll(at, &mut burst);
            }
            busy |= self.take_over(&mut burst);
            busy |= self.flush_stats();
            self.time.clock_in(busy, &mut self.counters);
            let (doorbell, waited) = (&self.commands.doorbell, &mut self.counters.waiting);
            round += self.waiting.wait(busy, doorbell, waited, self.time.clock.nanos_per_tick);
            self.time.come_back();
            // A poll that finds packets reads the clock: what is due does not wait for one that finds none.
            if round >= ROUND || self.time.now >= self.time.due {
                round = 0;
                self.what_is_due();
            }
        }
        self.hang_up();
    }

    /// A burst's life: classified, executed, served, until nothing has to be looked up again.
    #[inline]
    fn forward(&mut self, burst: &mut Burst, wanted: Packets) {
        let count = burst.len();
        let (mut wanted, mut straight) = (wanted, 0);
        let mut missed = self.experiment.as_mut().map_or(0, |drawn| drawn.misses.of(wanted));
        while wanted != 0 {
            // If the last stage missed the megaflow cache, this one mostly will: walk the tables first.
            let found = if straight == 0 { 0 } else { self.walk_tables(burst, straight) };
            let misses = self.classify(wanted & !found & !missed);
            self.time.lap(Step::Lookup, count, &mut self.counters);
            if missed != 0 {
                self.miss(burst, missed);
                missed = 0;
            }
            if misses != 0 {
                self.upcall(burst, misses);
                self.time.lap(Step::Upcall, count, &mut self.counters);
            }
            let waiting = self.execute(burst, wanted);
            self.time.lap(Step::Execute, count, &mut self.counters);
            if waiting != 0 {
                self.serve(burst, waiting);
                self.time.lap(Step::Services, count, &mut self.counters);
            }
            wanted = self.state.again(wanted);
            straight = self.state.walked(wanted);
        }
        self.settle_pending();
        self.transmit(burst);
        self.time.lap(Step::Transmit, count, &mut self.counters);
        self.time.end_burst();
    }
}
