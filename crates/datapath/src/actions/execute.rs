//! Doing what a segment says to one packet.

use crate::actions::choose::choose;
use crate::actions::edit;
use crate::actions::egress::Egress;
use crate::actions::program::{Op, Punt};
use crate::actions::punts::Punts;
use crate::model::addresses::Sighting;
use crate::model::meter::{Metered, remark};
use crate::model::requests::PacketIn;
use crate::stats::counters::Counters;
use std::collections::VecDeque;
use weir_dpdk::{BURST, Mbuf, Packet, Pool};
use weir_flow::{Field, Key, Layout, Mask, Match, Seed};
use weir_openflow::PortNo;
use weir_packet::DropReason;
use weir_units::Nanos;

/// Copies of one packet that came in, and copies of those, at most: as many as leave by a thousand ports.
/// Tables that copy a packet at each of many stages would otherwise make 2, 4, 8 ... of it.
pub const COPIES: u16 = 1024;

/// Where a packet is after its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// It leaves by the port at this place.
    Forward(u16),
    /// It ends.
    Drop(DropReason),
    /// The controller has it.
    Gone,
    /// A service takes it: number and argument.
    Service(u16, u32),
    /// The same, told more than a number: the service's number, and that of what it is told.
    Tell(u16, u32),
    /// The connection tracker takes it, as `ct` asks: the service's number, and that of the call.
    Track(u16, u32),
    /// It goes back to the caches, with its recirculation number in the key.
    Again,
    /// Another worker owns its flow.
    HandOver(u16),
}

impl Disposition {
    /// The service that it waits for.
    #[inline]
    pub(crate) const fn service(self) -> Option<u16> {
        match self {
            Self::Service(service, _) | Self::Tell(service, _) | Self::Track(service, _) => Some(service),
            _ => None,
        }
    }
}

/// A copy that needs a place of its own among the packets.
#[derive(Debug)]
pub(crate) struct Spawned {
    pub(crate) mbuf: Mbuf,
    pub(crate) key: Key,
    pub(crate) layout: Layout,
    /// How often it, and what it is a copy of, was looked up.
    pub(crate) passes: u8,
    /// The packet that came in of which it is a copy, by its place in the burst.
    pub(crate) root: u8,
}

/// Where packets go from a worker, and what copies of them are made of.
pub(crate) struct Output {
    pub(crate) egress: Egress,
    /// Copies that have to be looked up.
    pub(crate) spawned: VecDeque<Spawned>,
    pub(crate) punts: Punts,
    pub(crate) sightings: Punts<Sighting>,
    pub(crate) pool: Pool,
    pub(crate) seed: Seed,
}

/// What operations work with, besides the packet.
pub(crate) struct Context<'w> {
    pub(crate) output: &'w mut Output,
    pub(crate) counters: &'w mut Counters,
    pub(crate) now: Nanos,
    /// Lookups of the packet at hand so far.
    pub(crate) passes: u8,
    /// The packet that came in of which it is, or is a copy of, by its place in the burst.
    pub(crate) root: u8,
    /// Copies made of those that came in.
    pub(crate) copies: &'w mut [u16; BURST],
}

/// A packet with what is known of it.
pub(crate) struct Subject<'p> {
    pub(crate) packet: &'p mut Packet,
    pub(crate) layout: &'p mut Layout,
    pub(crate) key: &'p mut Key,
}

/// Does the operations, in order, and says where the packet is then. Nearly always there is one, which says so.
#[inline(always)]
pub(crate) fn execute(ops: &[Op], subject: &mut Subject<'_>, context: &mut Context<'_>) -> Disposition {
    match ops {
        [Op::Forward(port)] => Disposition::Forward(*port),
        [Op::Service(service, argument)] => Disposition::Service(*service, *argument),
        [Op::Track(call)] => Disposition::Track(call.service, call.number),
        _ => execute_all(ops, subject, context),
    }
}

#[inline(never)]
fn execute_all(ops: &[Op], subject: &mut Subject<'_>, context: &mut Context<'_>) -> Disposition {
    for op in ops {
        match op {
            Op::Forward(port) => return Disposition::Forward(*port),
            Op::Drop(reason) => return Disposition::Drop(*reason),
            Op::Service(service, argument) => return Disposition::Service(*service, *argument),
            Op::Tell(told) => return Disposition::Tell(told.service, told.number),
            Op::Track(call) => return Disposition::Track(call.service, call.number),
            Op::Rewrite(rewrite) => {
                if let Err(reason) = rewrite.apply(subject.packet, subject.layout, subject.key) {
                    return Disposition::Drop(reason);
                }
            }
            other => {
                if let Some(disposition) = unusual(other, subject, context) {
                    return disposition;
                }
            }
        }
    }
    // Each list ends with an operation that says so; an empty one would be a fault of the slow path.
    Disposition::Drop(DropReason::ByFlow)
}

/// The shortest frame of Ethernet, without FCS (IEEE 802.3, 3.2.8 and 4A.2.3.2.4).
const SHORTEST: usize = 60;

/// A frame that was long enough for Ethernet stays so: zeros follow it where it became shorter than
/// [`SHORTEST`]. Cards do that by themselves; software ports do not. One of several segments is left to them.
/// What is known of its headers does not change by that.
fn lengthen(packet: &mut Packet, before: usize) {
    let after = packet.len();
    if before >= SHORTEST && after < SHORTEST {
        // Without room it leaves as it is.
        let _ = packet.push_back(SHORTEST - after);
    }
}

/// The operations that fewer packets need.
fn unusual(op: &Op, subject: &mut Subject<'_>, context: &mut Context<'_>) -> Option<Disposition> {
    let Subject { packet, layout, key } = subject;
    match op {
        Op::Header(op) => {
            let before = packet.len();
            let done = op.apply(*packet, layout, key);
            lengthen(packet, before);
            done.err().map(Disposition::Drop)
        }
        Op::DecTtl(punt) => match edit::dec_ttl(*packet, layout, key) {
            Ok(()) => None,
            Err(reason) => Some(expired(reason, punt.as_deref(), subject, context)),
        },
        Op::DecMplsTtl(punt) => match edit::dec_mpls_ttl(*packet, layout, key) {
            Ok(()) => None,
            Err(reason) => Some(expired(reason, punt.as_deref(), subject, context)),
        },
        Op::Meter(entry) => match entry.state.pass(packet.len(), context.now) {
            Metered::Pass => None,
            Metered::Drop => Some(Disposition::Drop(DropReason::Meter)),
            Metered::Remark(levels) => {
                raise_precedence(levels, subject);
                None
            }
        },
        Op::Copy(port) => {
            if let Some(copy) = copy(packet, context) {
                context.output.egress.keep(*port, context.root, copy, context.counters);
            }
            None
        }
        Op::Controller(punt) => {
            if context.may_copy()
                && let Disposition::Drop(reason) = give(punt, subject, context)
            {
                context.counters.drop(reason, 1);
            }
            None
        }
        Op::Punt(punt) => Some(give(punt, subject, context)),
        Op::Clone(ops) => {
            on_copy(ops, subject, context);
            None
        }
        Op::SelectCopy(select) => {
            let ops = choose(select, subject, context.output.seed);
            on_copy(ops, subject, context);
            None
        }
        Op::Select(select) => {
            let ops = choose(select, subject, context.output.seed);
            Some(execute(ops, subject, context))
        }
        Op::Recirculate(id) => {
            Field::RecircId.set(key, u128::from(id.0));
            Some(Disposition::Again)
        }
        Op::Forward(port) => Some(Disposition::Forward(*port)),
        Op::Drop(reason) => Some(Disposition::Drop(*reason)),
        Op::Service(service, argument) => Some(Disposition::Service(*service, *argument)),
        Op::Tell(told) => Some(Disposition::Tell(told.service, told.number)),
        Op::Track(call) => Some(Disposition::Track(call.service, call.number)),
        Op::Rewrite(rewrite) => rewrite.apply(*packet, layout, key).err().map(Disposition::Drop),
    }
}

fn expired(
    reason: DropReason,
    punt: Option<&Punt>,
    subject: &mut Subject<'_>,
    context: &mut Context<'_>,
) -> Disposition {
    match punt {
        Some(punt) if reason == DropReason::TtlExpired => give(punt, subject, context),
        _ => Disposition::Drop(reason),
    }
}

impl Context<'_> {
    /// Counts a copy; one too many is counted as dropped.
    fn may_copy(&mut self) -> bool {
        self.counters.copied += 1;
        let made = &mut self.copies[usize::from(self.root) % BURST];
        if *made >= COPIES {
            self.counters.drop(DropReason::CopyLimit, 1);
            return false;
        }
        *made += 1;
        true
    }
}

/// A copy of the packet, counted; one that cannot be made is counted as dropped.
fn copy(packet: &Packet, context: &mut Context<'_>) -> Option<Mbuf> {
    if !context.may_copy() {
        return None;
    }
    let copy = context.output.pool.packet(packet.data());
    if copy.is_none() {
        context.counters.drop(DropReason::NoBuffer, 1);
    }
    copy
}

/// Does operations to a copy.
fn on_copy(ops: &[Op], subject: &mut Subject<'_>, context: &mut Context<'_>) {
    let Some(mut mbuf) = copy(subject.packet, context) else { return };
    let (mut key, mut layout) = (subject.key.clone(), *subject.layout);
    let mut on = Subject { packet: &mut mbuf, layout: &mut layout, key: &mut key };
    match execute(ops, &mut on, context) {
        Disposition::Forward(port) => context.output.egress.keep(port, context.root, mbuf, context.counters),
        Disposition::Drop(reason) => context.counters.drop(reason, 1),
        Disposition::Gone => {}
        Disposition::Again
        | Disposition::Service(..)
        | Disposition::Tell(..)
        | Disposition::Track(..)
        | Disposition::HandOver(_) => {
            let (passes, root) = (context.passes, context.root);
            context.output.spawned.push_back(Spawned { mbuf, key, layout, passes, root });
        }
    }
}

/// Fields that do not show in the packet's bytes.
fn context_fields(key: &Key) -> Match {
    use Field as F;
    let mut fields = Match::any();
    for field in [
        F::InPort,
        F::Metadata,
        F::TunId,
        F::TunSrc,
        F::TunDst,
        F::PktMark,
        F::SfStage,
        F::SfAction,
        F::SfMetadata,
        F::Xreg0,
        F::Xreg1,
        F::Xreg2,
        F::Xreg3,
        F::Xreg4,
        F::Xreg5,
        F::Xreg6,
        F::Xreg7,
        F::CtState,
        F::CtZone,
        F::CtMark,
        F::CtLabel,
    ] {
        let value = field.get(key);
        if value != 0 {
            fields.demand(field, value, u128::MAX);
        }
    }
    // As Open vSwitch tells them: the original tuple, and the kind of packet by which it is to be read.
    let (tracked, known) = (F::CtState.get(key) != 0, F::CtNwProto.get(key) != 0);
    let addresses =
        if F::EthType.get(key) == 0x86dd { [F::CtIpv6Src, F::CtIpv6Dst] } else { [F::CtNwSrc, F::CtNwDst] };
    let tuple = addresses.into_iter().chain([F::CtNwProto, F::CtTpSrc, F::CtTpDst]).filter(|_| known);
    for field in std::iter::once(F::EthType).chain(tuple).filter(|_| tracked) {
        fields.demand(field, field.get(key), u128::MAX);
    }
    fields
}

/// Gives the packet's bytes to the queue to the controller.
fn give(punt: &Punt, subject: &Subject<'_>, context: &mut Context<'_>) -> Disposition {
    let in_port = PortNo(Field::InPort.get(subject.key) as u32);
    let packet = || PacketIn {
        in_port,
        reason: punt.to.reason,
        table: punt.table.0,
        cookie: punt.cookie,
        to: punt.to.clone(),
        fields: context_fields(subject.key),
        frame: subject.packet.data().to_vec(),
    };
    if context.output.punts.send(in_port, packet) {
        context.counters.to_controller += 1;
        Disposition::Gone
    } else {
        Disposition::Drop(DropReason::Controller)
    }
}

/// Raises the drop precedence of an IP packet; others have none.
fn raise_precedence(levels: u8, subject: &mut Subject<'_>) {
    let dscp = Field::NwTos.get(subject.key) as u8;
    let raised = remark(dscp, levels);
    if raised != dscp {
        let mut value = Key::new();
        Field::NwTos.set(&mut value, u128::from(raised));
        let mut mask = Mask::new();
        Field::NwTos.examine(&mut mask, u128::MAX);
        // A packet without the header has no class that could be raised.
        let _ = edit::Rewrite::compile(&value, &mask).apply(subject.packet, subject.layout, subject.key);
    }
}

/// Does an operation to bytes that are nobody's packet: of those that change it.
pub(crate) fn on_bytes(
    op: &Op,
    frame: &mut Vec<u8>,
    layout: &mut Layout,
    key: &mut Key,
) -> Result<(), DropReason> {
    match op {
        Op::Rewrite(rewrite) => rewrite.apply(frame, layout, key),
        Op::Header(op) => op.apply(frame, layout, key),
        Op::DecTtl(_) => edit::dec_ttl(frame, layout, key),
        Op::DecMplsTtl(_) => edit::dec_mpls_ttl(frame, layout, key),
        _ => Ok(()),
    }
}
