//! Right packets: the untimed pass before a point's first trial.
//!
//! The tester sends every packet, few at a time, and compares all that comes out. A device that feeds
//! itself has no tester at its wire: it is started once more before the timed start, over the `vhost`
//! wiring, as the same program with the same tables.

use crate::rig::{Flags, Rig, RigError, RigSetup};
use std::sync::Arc;
use weir_dpdk::Eal;
use weir_dut::wiring::WiringKind;
use weir_traffic::stamp::Reading;
use weir_trial::expected::Reason;
use weir_trial::{Expected, Oracle, PacketCheck};

/// How many of the packets are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// None: the plan does without.
    Nothing,
    /// A sample of every trial.
    Samples,
    /// All in an untimed pass before the first trial, and a sample of every trial.
    All,
}

impl Extent {
    /// The extent of a repeat, counted from 0: the untimed pass is run once.
    pub(crate) fn of_repeat(number: u32, wanted: bool) -> Self {
        match (wanted, number) {
            (false, _) => Self::Nothing,
            (true, 0) => Self::All,
            (true, _) => Self::Samples,
        }
    }
}

/// Wires a device up, and compares its packets as far as is asked for.
pub(crate) fn wire_up(
    eal: &'static Eal,
    setup: &RigSetup<'_>,
    number: u32,
    flags: &Flags,
    extent: Extent,
) -> Result<(Rig, Option<PacketCheck>), RigError> {
    // Stamps that a function encrypts are read only by who knows the function.
    let extent = match (extent, Reading::behind(setup.nf)) {
        (Extent::Nothing, Reading::Deciphered) => Extent::Samples,
        (extent, _) => extent,
    };
    if extent == Extent::Nothing {
        return Ok((Rig::wire_up(eal, setup, number, flags)?, None));
    }
    let oracle = Arc::new(Oracle::new(setup.nf));
    if extent == Extent::Samples {
        let mut rig = Rig::wire_up(eal, setup, number, flags)?;
        if let Rig::Wired(wired) = &mut rig {
            wired.compare_with(oracle);
        }
        return Ok((rig, None));
    }
    if setup.wiring == WiringKind::Fed {
        // Started once more, over ports at which somebody can look.
        let seen = RigSetup { wiring: WiringKind::Vhost, ..*setup };
        let (rig, checked) = checked(eal, &seen, number, flags, oracle)?;
        rig.take_down()?;
        return Ok((Rig::wire_up(eal, setup, number, flags)?, checked));
    }
    checked(eal, setup, number, flags, oracle)
}

/// Wires a device up at the wire, and runs the untimed pass.
fn checked(
    eal: &'static Eal,
    setup: &RigSetup<'_>,
    number: u32,
    flags: &Flags,
    oracle: Arc<Oracle>,
) -> Result<(Rig, Option<PacketCheck>), RigError> {
    let mut frames = setup.traffic.pass(setup.nf)?;
    if let Some(deviation) = setup.adapter.deviates(setup.nf) {
        for (port, frames) in frames.iter_mut().enumerate() {
            frames.leave_out(deviation, |frame| {
                matches!(oracle.expected(port as u8, frame), Expected::Drop(Reason::NoRoute))
            });
        }
    }
    let mut rig = Rig::wire_up(eal, setup, number, flags)?;
    let checked = match &mut rig {
        Rig::Wired(wired) => Some(wired.verify(oracle, frames)?),
        Rig::Fed(_) | Rig::Simulated(_) => None,
    };
    Ok((rig, checked))
}

/// What a reader of the point's results must be told; nothing when all packets were right.
pub(crate) fn remark(check: &PacketCheck) -> Option<String> {
    let wrong = (!check.is_right())
        .then(|| format!("the packets are wrong, so no rate of this point may be ranked: {check}"));
    let none = (check.is_right() && check.compared == 0).then(|| format!("no packet was compared: {check}"));
    wrong.or(none)
}
