//! Right packets: the untimed pass before a point's first trial.
//!
//! The tester sends every packet, few at a time, and compares all that comes out. A device that feeds
//! itself has no tester at its wire: it is started once more before the timed start, over the `vhost`
//! wiring, as the same program with the same tables; and once over `fed` with the lab's own sink, which counts and
//! compares while it works at full rate, as before every fifth start ([`crate::rig::audit`]).

use crate::rig::{Flags, Rig, RigError, RigSetup, audit};
use std::sync::Arc;
use weir_dpdk::Eal;
use weir_dut::wiring::WiringKind;
use weir_traffic::check::PassFrames;
use weir_traffic::stamp::Reading;
use weir_trial::expected::Reason;
use weir_trial::{Expected, Oracle, PacketCheck};

/// Every how many starts a device that feeds itself is audited, the first included.
const AUDITED_STARTS: u32 = 5;

/// How many of the packets are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// None: the plan does without.
    Nothing,
    /// A sample of every trial.
    Samples,
    /// The same; a device that feeds itself is audited before.
    Audited,
    /// All in an untimed pass before the first trial, and a sample of every trial.
    All,
}

impl Extent {
    /// The extent of a repeat, counted from 0: the untimed pass is run once.
    pub(crate) fn of_repeat(number: u32, wanted: bool) -> Self {
        match (wanted, number) {
            (false, _) => Self::Nothing,
            (true, 0) => Self::All,
            (true, number) if number % AUDITED_STARTS == 0 => Self::Audited,
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
    let oracle = Oracle::new(setup.nf);
    let oracle = Arc::new(if setup.traffic.opens_connections() { oracle.opened() } else { oracle });
    let is_fed = setup.wiring == WiringKind::Fed;
    if extent == Extent::Audited && is_fed {
        let audited = audit(setup, flags, &oracle)?;
        return Ok((Rig::wire_up(eal, setup, number, flags)?, Some(audited)));
    }
    if extent != Extent::All {
        let mut rig = Rig::wire_up(eal, setup, number, flags)?;
        if let Rig::Wired(wired) = &mut rig {
            wired.compare_with(oracle);
        }
        return Ok((rig, None));
    }
    if is_fed {
        // Started once more, over ports at which somebody can look, and again with the lab's own sink.
        let seen = RigSetup { wiring: WiringKind::Vhost, ..*setup };
        let (rig, mut checked) = checked(eal, &seen, number, flags, Arc::clone(&oracle))?;
        rig.take_down()?;
        checked.get_or_insert_default().merge(audit(setup, flags, &oracle)?);
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
    let members = setup.nf.members();
    if let Some(deviation) = members.into_iter().find_map(|member| setup.adapter.deviates(member)) {
        for (port, frames) in frames.iter_mut().enumerate() {
            frames.leave_out(deviation, |frame| {
                matches!(oracle.expected(port as u8, frame), Expected::Drop(Reason::NoRoute))
            });
        }
    }
    if setup.placement.splits_flows() {
        frames.iter_mut().for_each(PassFrames::let_overtake);
    }
    let bundles = 0..setup.placement.bundles.max(1) as usize;
    let of = |bundle| {
        let each = frames.iter().cloned().enumerate();
        each.map(move |(side, frames)| frames.into_port(2 * bundle + side))
    };
    let frames = bundles.flat_map(of).collect();
    let mut rig = Rig::wire_up(eal, setup, number, flags)?;
    let checked = match &mut rig {
        Rig::Wired(wired) => Some(wired.verify(oracle, frames)?),
        Rig::Fed(_) | Rig::Simulated(_) => None,
    };
    Ok((rig, checked))
}
