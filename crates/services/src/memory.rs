//! `memory`: reads N random words of a large block for each packet (SoftFlow, figure 10: a stand-in for
//! services that walk large structures).
//!
//! The block belongs to the group, is written once when the group is built, and is shared by all
//! instances; the kernel is asked for huge pages. Places are drawn independently of what is read, and
//! fetched [`AHEAD`] reads ahead over the whole burst, across packets: what is measured is how many
//! cache misses can be under way, not their latency one by one. The words read are folded into
//! `sf_metadata`, so that no compiler can leave a read out.
//!
//! N is the flow's argument, or [`Settings::reads`] where that is 0, and at most [`MOST_READS`]: a flow
//! cannot hold the worker.
//!
//! Cost: N cache misses a packet that overlap; some 6 cycles a read when the block fits the cache.

use crate::{Burst, ConfigError, Group, GroupConfig, Registration, Service, one_number, schema};
use std::any::Any;
use std::sync::Arc;
use weir_cpu::{prefer_huge_pages, prefetch};
use weir_flow::Seed;

/// Reads that are fetched before they are made. A core has 10 to 48 misses under way at most.
const AHEAD: usize = 32;

/// The most reads a packet.
const MOST_READS: u32 = 4096;

/// The largest block, in bytes.
const LARGEST: u64 = 1 << 40;

/// The kind.
pub(crate) const MEMORY: Registration = Registration {
    kind: "memory",
    about: "reads random words of a large block for each packet; the argument says how many",
    rewrites: &[],
    coalesces: true,
    by_flow: false,
    members: &[],
    arguments: one_number,
    schema: schema::<Settings>,
    build,
};

/// What can be set.
#[derive(Clone, Copy, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// Size of the block in bytes, 64 to 2^40.
    #[schemars(range(min = 64, max = LARGEST))]
    block: u64,
    /// Reads a packet where the flow's argument is 0, at most 4096.
    #[schemars(range(max = MOST_READS))]
    reads: u32,
    /// Whether packets are coalesced. As each gets another `sf_metadata`, tables behind the service
    /// must then not match it.
    coalesce: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { block: 1 << 30, reads: 1, coalesce: true }
    }
}

struct Block {
    words: Arc<Vec<u64>>,
    settings: Settings,
    seed: u64,
}

fn build(config: &GroupConfig<'_>) -> Result<Arc<dyn Group>, ConfigError> {
    let settings: Settings = config.settings()?;
    if !(64..=LARGEST).contains(&settings.block) {
        return Err(config.error(format!("`block` must be 64 to {LARGEST} bytes, not {}", settings.block)));
    }
    if settings.reads > MOST_READS {
        return Err(config.error(format!("`reads` must be at most {MOST_READS}, not {}", settings.reads)));
    }
    let words = filled(settings.block / 8).ok_or_else(|| {
        config.error(format!("no memory for a block of {} bytes; make `block` smaller", settings.block))
    })?;
    Ok(Arc::new(Block { words: Arc::new(words), settings, seed: config.seed }))
}

/// Words that are all written: pages that never were would all be the kernel's one page of zeros.
fn filled(words: u64) -> Option<Vec<u64>> {
    if available().is_some_and(|bytes| words * 8 > bytes) {
        return None;
    }
    let count = usize::try_from(words).ok()?;
    let mut block = Vec::new();
    block.try_reserve_exact(count).ok()?;
    prefer_huge_pages(block.spare_capacity_mut());
    block.extend((0..words).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31)));
    Some(block)
}

/// Bytes that the system can still give: it promises more than it has, and ends who takes its word.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

impl Group for Block {
    fn instance(&self, worker: usize) -> Box<dyn Service> {
        Box::new(Memory {
            words: Arc::clone(&self.words),
            settings: self.settings,
            seed: Seed::new(self.seed ^ worker as u64),
            drawn: 0,
            reads: 0,
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct Memory {
    words: Arc<Vec<u64>>,
    settings: Settings,
    seed: Seed,
    drawn: u64,
    reads: u64,
}

impl Memory {
    fn reads(&self, argument: u32) -> usize {
        let wanted = if argument == 0 { self.settings.reads } else { argument };
        wanted.min(MOST_READS) as usize
    }

    /// Draws a place and fetches it.
    #[inline]
    fn draw(&mut self) -> usize {
        self.drawn = self.drawn.wrapping_add(1);
        let hash = self.seed.fold(self.drawn, 0);
        let at = ((u128::from(hash) * self.words.len() as u128) >> 64) as usize;
        prefetch(&self.words[at]);
        at
    }
}

impl Service for Memory {
    fn process(&mut self, burst: &mut Burst<'_, '_>) {
        let mut to_draw: usize = burst.peek().iter().map(|slot| self.reads(slot.argument)).sum();
        self.reads += to_draw as u64;
        let mut places = [0_usize; AHEAD];
        let first = to_draw.min(AHEAD);
        places[..first].fill_with(|| self.draw());
        to_draw -= first;
        let mut turn = 0;
        for slot in burst.rest() {
            let mut folded = 0_u64;
            for _ in 0..self.reads(slot.argument) {
                folded = folded.rotate_left(1) ^ self.words[places[turn]];
                if to_draw > 0 {
                    places[turn] = self.draw();
                    to_draw -= 1;
                }
                turn = (turn + 1) % AHEAD;
            }
            slot.metadata = (folded ^ (folded >> 32)) as u32;
            slot.coalesce = self.settings.coalesce;
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("reads", self.reads)]
    }
}
