//! The taps of `weir nf` in its line protocol: the command that switches them, and what they say.

use serde::Serialize;
use weir_cpu::Tsc;
use weir_nf::{Meter, Taps};
use weir_wire::stamp::{Key, ParseKeyError};

/// Stamped packets that passed the edges of one port.
#[derive(Serialize)]
pub(super) struct PortTaps {
    received: Edge,
    sent: Edge,
}

/// Stamped packets that passed one edge, all since the start: a reader takes differences.
#[derive(Serialize)]
struct Edge {
    packets: u64,
    /// Sum of their delays since they were stamped, in nanoseconds.
    sum_ns: u64,
    /// Of each bucket of delays that holds any: the least delay, what the delay is below, in nanoseconds, and packets.
    buckets: Vec<(u64, u64, u64)>,
}

/// Obeys `tap KEY` and `tap off` for all pairs of ports, and says whether the taps are on then.
pub(super) fn switch(meters: &[Meter], what: &str) -> Result<bool, ParseKeyError> {
    if what == "off" {
        meters.iter().flat_map(Meter::taps).for_each(Taps::switch_off);
        return Ok(false);
    }
    let key: Key = what.parse()?;
    meters.iter().flat_map(Meter::taps).for_each(|taps| taps.switch_on(key));
    Ok(true)
}

/// What the taps counted, by port; nothing where they were never on.
pub(super) fn read(meters: &[Meter], tsc: Tsc) -> Option<Vec<PortTaps>> {
    let edge = |edge: &weir_nf::Edge| Edge {
        packets: edge.packets(),
        sum_ns: tsc.nanos(edge.ticks).0,
        buckets: edge
            .buckets
            .iter()
            .map(|bucket| (tsc.nanos(bucket.from).0, tsc.nanos(bucket.below).0, bucket.packets))
            .collect(),
    };
    let pairs: Vec<_> = meters.iter().map(Meter::tapped).collect::<Option<_>>()?;
    let port = |port: weir_nf::PortTaps| PortTaps { received: edge(&port.received), sent: edge(&port.sent) };
    Some(pairs.into_iter().flatten().map(port).collect())
}
