//! A port that makes its packets from a table of frames: `lap:FILE[,tx=TX.pcap]`.
//!
//! The file ([`weir_wire::lap`]) has the distinct frames of a trace, the order in which they come, and how the ports of its
//! connections change from lap to lap; it is replayed for ever, as fast as it is polled. A lap of millions of packets so
//! takes 4 bytes a packet, where a replayed capture holds each in a buffer of its own. What is sent is written, as at a trace
//! port, or only counted.
//!
//! Cost: a copy of the frame, and of its head whatever the memory is away: packets of many flows come in a drawn order.

use crate::PortError;
use crate::trace::Count;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use weir_dpdk::{Burst, Pool};
use weir_units::FrameSize;
use weir_wire::lap::{HEAD, Lap, NewPorts, Place};

/// What follows the heads: byte `i` behind them is `i mod 256`.
static PATTERN: [u8; FrameSize::MAX.without_fcs() as usize] = {
    let mut bytes = [0; FrameSize::MAX.without_fcs() as usize];
    let mut i = 0;
    while i < bytes.len() {
        bytes[i] = i as u8;
        i += 1;
    }
    bytes
};

/// The frames, which all queues share.
#[derive(Debug)]
struct Frames {
    heads: Vec<[u8; HEAD]>,
    lens: Vec<u16>,
    ports: Option<NewPorts>,
}

/// Makes packets from a table of frames.
#[derive(Debug)]
pub struct LapRx {
    frames: Arc<Frames>,
    order: Vec<Place>,
    next: usize,
    lap: u64,
    /// What ports change by in this lap and the one before.
    changes: [u16; 2],
    pool: Pool,
    /// Packets to be filled.
    spare: Burst,
    count: Arc<Count>,
}

/// Reads a lap for a port of so many queues, each with the packets of its addresses.
pub(crate) fn read(path: &Path, queues: u16, pool: &Pool) -> Result<Vec<LapRx>, PortError> {
    let refused = |reason: String| PortError::Trace { file: path.to_owned(), reason };
    let file = File::open(path).map_err(|error| refused(error.to_string()))?;
    let lap = Lap::read(&mut BufReader::with_capacity(1 << 20, file)).map_err(refused)?;
    let room = pool.room();
    if let Some(len) = lap.lens.iter().find(|len| **len > room || usize::from(**len) > PATTERN.len() + HEAD) {
        return Err(refused(format!(
            "it has frames of {len} bytes, and a packet buffer has room for {room}: set max_frame as large as the packets that are to come in"
        )));
    }
    let orders = lap.queues(usize::from(queues.max(1)));
    if let Some(queue) = orders.iter().position(Vec::is_empty) {
        return Err(refused(format!(
            "none of its packets comes in at queue {queue} of {queues}; take fewer queues"
        )));
    }
    let frames = Arc::new(Frames { heads: lap.heads, lens: lap.lens, ports: lap.ports });
    let queue = |order| LapRx {
        frames: Arc::clone(&frames),
        order,
        next: 0,
        lap: 0,
        changes: [0; 2],
        pool: pool.clone(),
        spare: Burst::new(),
        count: Arc::default(),
    };
    Ok(orders.into_iter().map(queue).collect())
}

impl LapRx {
    pub(crate) fn count(&self) -> Arc<Count> {
        Arc::clone(&self.count)
    }

    /// The next packets of the lap, as many as fit. When the pool is empty nothing comes, and nothing is skipped.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst) -> usize {
        let count = burst.room();
        if count == 0 || !self.pool.fill(&mut self.spare, count) {
            return 0;
        }
        let (before, mut bytes) = (burst.len(), 0);
        for _ in 0..count {
            if self.next == self.order.len() {
                self.begin_lap();
            }
            let Some(mut packet) = self.spare.pop() else { break };
            let place = self.order[self.next];
            self.next += 1;
            let Frames { heads, lens, ports } = &*self.frames;
            let (head, len) = (&heads[place.index()], lens[place.index()]);
            let frame = packet.set_len(len);
            let front = frame.len().min(HEAD);
            frame[..front].copy_from_slice(&head[..front]);
            let rest = frame.len() - front;
            frame[front..].copy_from_slice(&PATTERN[..rest]);
            if let Some(ports) = ports {
                ports.write(frame, self.changes[usize::from(place.is_before())]);
            }
            bytes += u64::from(len);
            drop(burst.push(packet)); // there is room
        }
        self.spare.clear();
        let received = burst.len() - before;
        self.count.add(received as u64, bytes);
        received
    }

    #[cold]
    fn begin_lap(&mut self) {
        (self.next, self.lap) = (0, self.lap + 1);
        if let Some(ports) = &self.frames.ports {
            self.changes = [ports.of_lap(self.lap), ports.of_lap(self.lap - 1)];
        }
    }
}
