//! An audited start of a device over `fed`: its own source, but the lab's sink.
//!
//! Every start that counts discards what it sends, so that nothing but the device is measured; then only its own
//! counters say how much that was. An audited start, before the first and after every fifth, is the same program
//! with the same tables and the same packets, whose ports write into the lab's pipes instead ([`Sink`]): the lab
//! counts by itself, compares every packet, and holds the device's counter against its own count. What the sink
//! costs stands in the result, as a rate beside the rate without it.

use super::{Flags, RigError, RigSetup, wire};
use std::time::Duration;
use weir_dut::folder::Folder;
use weir_traffic::audit::{Expectations, Sink};
use weir_trial::{Audit, Fault, Oracle, PacketCheck};

/// How long the sink looks.
const LOOK: Duration = Duration::from_millis(500);
/// How long the device may take to learn before: one that does not is audited as it is.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts the device once more with the lab's sink, and says what that came to.
pub(crate) fn audit(setup: &RigSetup<'_>, flags: &Flags, oracle: &Oracle) -> Result<PacketCheck, RigError> {
    let mut nothing = PacketCheck::default();
    if setup.adapter.queues(setup.variant) > 1 {
        nothing.remark("over `fed`, a device of several workers is not audited");
        return Ok(nothing);
    }
    let Some(laps) = setup.traffic.tables() else {
        nothing.remark("over `fed`, a capture too large for memory is not audited");
        return Ok(nothing);
    };
    let expectations = Expectations::new(oracle, laps.into_iter(), setup.adapter.deviates(setup.nf));
    let folder = Folder::new()?;
    let (sink, pipes) = Sink::open(folder.path(), 2, expectations).map_err(RigError::Sink)?;
    let mut fed = wire::fed(setup, flags, &pipes)?;
    if setup.from_start.is_none() {
        fed.learn_within(PATIENCE)?;
    }
    sink.look(true);
    let (first, before, then) = (sink.counted(), fed.counters()?, sink.counted());
    fed.sleep(LOOK)?;
    let (last, after, now) = (sink.counted(), fed.counters()?, sink.counted());
    sink.look(false);
    let device = after.sent.saturating_sub(before.sent);
    let slack = sink.slack();
    // What came between the two readings, at least and at most: the counters were read at some moment between.
    let (least, most) = (last.saturating_sub(then), now.saturating_sub(first));
    let seconds = after.at.duration_since(before.at).as_secs_f64();
    // The device first, which must not wait for a sink that is gone.
    fed.stop()?;
    let (mut check, by_port) = sink.finish();
    let counted = least.midpoint(most);
    if device > most + slack || device + slack < least {
        check.note(Fault::Counter, || {
            format!("the device says that it sent {device}, {least} to {most} came to the lab's sink")
        });
    }
    check.audit = Some(Audit {
        counted,
        device,
        resolution: (most - least) / 2 + slack,
        rate: (counted as f64 / seconds.max(1e-9)) as u64,
        by_port,
    });
    Ok(check)
}
