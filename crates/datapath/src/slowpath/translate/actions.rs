//! Actions, one at a time.

use super::copies::Told;
use super::finish::is_ended;
use super::state::{Stands, State};
use super::{List, Task, Translation};
use crate::actions::edit;
use crate::actions::edit::Rewrite;
use crate::actions::header::HeaderOp;
use crate::actions::program::{Op, Punt};
use crate::model::entries::PortInfo;
use std::sync::Arc;
use weir_flow::span::CUT;
use weir_flow::{Field, Mask, Needs, ONE_STAGE, Subfield};
use weir_openflow::{Action, MeterId, PortNo, ToController};
use weir_packet::DropReason;

/// OpenFlow's reason of packets that an action sends to a controller.
const BY_ACTION: u8 = 1;

/// OpenFlow's reason of packets whose time to live is used up.
const EXPIRED: u8 = 2;

/// Whether a field, or whether the packet has it, depends on the packet's bytes. Stage, metadata, registers and the
/// like do not: they are known even where headers are not.
fn is_of_frame(field: Field) -> bool {
    field.about().source.is_packet() || !matches!(field.about().needs, Needs::Nothing)
}

impl Translation<'_> {
    /// Does the action at a place of a list, and leaves the rest for later.
    pub(super) fn action_of(&mut self, list: List, at: usize) {
        let Some(action) = list.get(at).cloned() else { return };
        if self.state.opaque && self.needs_to_see(&action) {
            self.freeze(Task::Actions(list, at));
            return;
        }
        if list.get(at + 1).is_some() {
            self.stack.push(Task::Actions(list, at + 1));
        }
        self.action(&action);
    }

    /// Whether an action depends on headers that may have come to light only now.
    pub(super) fn needs_to_see(&self, action: &Action) -> bool {
        match action {
            Action::Move { from, to } => is_of_frame(from.field) || is_of_frame(to.field),
            Action::OutputReg(from) => is_of_frame(from.field),
            Action::SetField { field, .. } => is_of_frame(*field),
            Action::Load { to, .. } => is_of_frame(to.field),
            Action::DecTtl(_)
            | Action::SetVlanVid(_)
            | Action::SetVlanPcp(_)
            | Action::SetNwTtl(_)
            | Action::SetMplsTtl(_)
            | Action::DecMplsTtl
            | Action::CopyTtlIn
            | Action::CopyTtlOut
            | Action::PushVlan(_)
            | Action::PopVlan
            | Action::PushMpls(_)
            | Action::PopMpls(_)
            | Action::PushPbb(_)
            | Action::PopPbb
            | Action::Ct(_) => true,
            _ => false,
        }
    }

    pub(super) fn action(&mut self, action: &Action) {
        self.explain.action(action);
        match action {
            Action::Output(port) | Action::OutputWith(port, _) => self.output(*port),
            Action::OutputReg(bits) => {
                self.examine_subfield(*bits);
                let port = u32::try_from(bits.get(&self.state.key)).unwrap_or(u32::MAX);
                // 16 bits hold the reserved ports of OpenFlow 1.0.
                let port = if bits.bits <= 16 && port >= 0xfff8 { port | 0xffff_0000 } else { port };
                self.output(PortNo(port));
            }
            Action::Controller(to) => self.controller(to),
            Action::Group(group) => self.group(*group),
            Action::SetField { field, value, mask } => self.set_field(*field, *value, *mask),
            Action::SetVlanVid(vid) => self.set_tag(Field::VlanVid, u128::from(*vid) | 0x1000),
            Action::SetVlanPcp(pcp) => self.set_tag(Field::VlanPcp, u128::from(*pcp)),
            Action::Move { from, to } => self.move_bits(*from, *to),
            Action::Load { value, to } => self.set_field(to.field, value << to.from, to.mask()),
            Action::PushVlan(tpid) => self.header(HeaderOp::PushVlan(*tpid)),
            Action::PopVlan => self.header(HeaderOp::PopVlan),
            Action::PushMpls(ethertype) => self.header(HeaderOp::PushMpls(*ethertype)),
            Action::PopMpls(ethertype) => self.header(HeaderOp::PopMpls(*ethertype)),
            Action::PushPbb(tpid) => self.header(HeaderOp::PushPbb(*tpid)),
            Action::PopPbb => self.header(HeaderOp::PopPbb),
            Action::CopyTtlOut => self.header(HeaderOp::CopyTtlOut),
            Action::CopyTtlIn => self.header(HeaderOp::CopyTtlIn),
            Action::SetMplsTtl(ttl) => self.set_field(Field::MplsTtl, u128::from(*ttl), u128::MAX),
            Action::SetNwTtl(ttl) => self.set_field(Field::NwTtl, u128::from(*ttl), u128::MAX),
            Action::DecMplsTtl => self.dec_ttl(Field::MplsTtl, &[]),
            Action::DecTtl(controllers) => self.dec_ttl(Field::NwTtl, controllers),
            // An entry with conjunctions is never found by itself; what a packet-out says of them means nothing.
            Action::Drop | Action::Note(_) | Action::Conjunction(_) => {}
            Action::Resubmit { port, table } => {
                let table = table.unwrap_or(self.state.table);
                let in_port = port.filter(|port| *port != PortNo::IN_PORT).map(|port| port.0);
                self.stack.push(Task::Lookup { table, in_port, resubmitted: true });
            }
            Action::ResubmitTracked { port, table } => {
                let table = table.unwrap_or(self.state.table);
                let in_port = port.filter(|port| *port != PortNo::IN_PORT).map(|port| port.0);
                self.stack.push(Task::Tracked { table, in_port });
            }
            Action::Service { service, argument } => self.service(*service, Told::Number(*argument)),
            Action::ServiceWith { service, arguments } => self.service(*service, Told::List(arguments)),
            Action::Ct(ct) => self.ct(ct),
            Action::CtClear => self.ct_clear(),
            Action::Meter(meter) => self.meter(*meter),
            Action::Clone(actions) => self.clone_of(actions.as_slice().into()),
            Action::Exit => self.exit(),
        }
    }

    /// No further action is done, neither in this table nor in those that led here, but for the action set.
    /// In a group's bucket, that is all of the bucket (`ovs-actions(7)`).
    pub(super) fn exit(&mut self) {
        let of_bucket = |task: &Task| matches!(task, Task::EndCopy(copied) if !copied.kind.is_of_action());
        let bottom = self.stack.iter().rposition(of_bucket).map_or(0, |at| at + 1);
        let waiting = self.stack.split_off(bottom);
        let stays = |task: &Task| matches!(task, Task::EndCopy(_) | Task::ActionSet);
        self.stack.extend(waiting.into_iter().filter(stays));
    }

    /// Nothing follows, but for what follows a copy.
    pub(super) fn end_list(&mut self) {
        while self.stack.pop_if(|task| !matches!(task, Task::EndCopy(_))).is_some() {}
    }

    pub(super) fn examine_subfield(&mut self, bits: Subfield) {
        for (place, _, bits) in bits.field.spread(0, bits.mask()) {
            self.examine_bits(place, bits);
        }
    }

    /// Writes bits of a field; the operation follows when it has an effect.
    pub(super) fn write(&mut self, field: Field, value: u128, mask: u128) {
        field.set_masked(&mut self.state.key, value, mask);
        for (place, _, bits) in field.spread(0, mask) {
            self.state.origins.fix(place, bits);
            self.state.pending.add(place, bits);
        }
    }

    /// Sets a field of the tag; a packet without one gets one (OpenFlow 1.0, section 5.2.4).
    pub(super) fn set_tag(&mut self, field: Field, value: u128) {
        if !self.has_tag() {
            self.header(HeaderOp::PushVlan(0x8100));
        }
        self.set_field(field, value, u128::MAX);
    }

    /// Sets a field where the packet has it. Only the whole of `vlan_tci` makes a tag; a tag whose bit
    /// 0x1000 is cleared goes, as in Open vSwitch, and shows what is below it.
    pub(super) fn set_field(&mut self, field: Field, value: u128, mask: u128) {
        if let Some(op) = self.says_what_follows(field, value, mask) {
            self.header(op);
            return;
        }
        if matches!(field, Field::VlanTci | Field::VlanVid) {
            let present = value & 0x1000 != 0;
            match self.has_tag() {
                false if field == Field::VlanTci && present && mask & 0x1000 != 0 => {
                    self.header(HeaderOp::PushVlan(0x8100));
                }
                false => return,
                true if !present && mask & 0x1000 != 0 => {
                    self.header(HeaderOp::PopVlan);
                    return;
                }
                true => {}
            }
        }
        let needs = field.about().needs;
        if self.is_there(needs) {
            self.write(field, value, mask);
            self.state.shows |= matches!(field, Field::Icmpv6Type | Field::Icmpv6Code);
            if self.is_cut(needs) {
                // No bit of the key says so. This packet ends where the field is written; packets that are
                // whole come back to be followed further.
                self.flush(false);
                self.freeze_rest();
            }
        }
    }

    /// Whether the header that a field needs is cut off or malformed, so that it cannot be written.
    fn is_cut(&self, needs: Needs) -> bool {
        let State { layout, frame, .. } = &self.state;
        match needs {
            Needs::Nothing | Needs::Vlan => false,
            Needs::Mpls => layout.mpls == 0,
            Needs::Pbb => frame.len() < usize::from(layout.ether_type) + 6,
            _ => layout.network == 0,
        }
    }

    pub(super) fn has_tag(&mut self) -> bool {
        for (place, _, bits) in Field::VlanTci.spread(0, 0x1000) {
            self.of_context(|of| of.examine_bits(place, bits));
        }
        Field::VlanTci.get(&self.state.key) & 0x1000 != 0
    }

    /// Whether the packet has what a field needs; looking at it matters.
    pub(super) fn is_there(&mut self, needs: Needs) -> bool {
        let ethertype = match needs {
            Needs::Nothing => return true,
            Needs::Vlan => return self.has_tag(),
            _ => self.of_context(|of| of.examine_field(Field::EthType)),
        };
        let v4 = ethertype == 0x0800;
        let v6 = ethertype == 0x86dd;
        match needs {
            Needs::Nothing | Needs::Vlan => true,
            Needs::Mpls => ethertype == 0x8847 || ethertype == 0x8848,
            Needs::Pbb => ethertype == 0x88e7,
            Needs::Arp => ethertype == 0x0806 || ethertype == 0x8035,
            Needs::Ipv4 => v4,
            Needs::Ipv6 => v6,
            Needs::Ip => v4 || v6,
            Needs::Tcp => (v4 || v6) && self.has_transport(6),
            Needs::Udp => (v4 || v6) && self.has_transport(17),
            Needs::Sctp => (v4 || v6) && self.has_transport(132),
            Needs::Icmp => v4 && self.has_transport(1),
            Needs::Icmpv6 => v6 && self.has_transport(58),
            Needs::Nd => v6 && self.has_transport(58) && self.icmp_type_is(&[135, 136]),
            Needs::NdSolicit => v6 && self.has_transport(58) && self.icmp_type_is(&[135]),
            Needs::NdAdvert => v6 && self.has_transport(58) && self.icmp_type_is(&[136]),
        }
    }

    /// Whether the packet has a header of this protocol: it is no later fragment, nor cut off in front of it.
    pub(super) fn has_transport(&mut self, protocol: u128) -> bool {
        self.of_context(|of| {
            if of.examine_field(Field::NwProto) != protocol || of.examine_field(Field::NwFrag) & 2 != 0 {
                return false;
            }
            of.examine_bits(CUT.place(), CUT.mask());
            !of.state.key.is_cut()
        })
    }

    pub(super) fn icmp_type_is(&mut self, types: &[u128]) -> bool {
        let found = self.examine_field(Field::Icmpv6Type);
        types.contains(&found)
    }

    pub(super) fn move_bits(&mut self, from: Subfield, to: Subfield) {
        if !self.is_there(from.field.about().needs) {
            return;
        }
        self.examine_subfield(from);
        let value = from.get(&self.state.key);
        self.set_field(to.field, value << to.from, to.mask());
    }

    /// Turns what was written into an operation.
    pub(super) fn flush(&mut self, registers: bool) {
        let mut now = Mask::new();
        let mut later = Mask::new();
        for (place, bits) in self.state.pending.iter() {
            // Registers, metadata and the like are of use only to what looks the packet up again.
            let kept = if registers { 0 } else { bits & ONE_STAGE[place] };
            later.add(place, kept);
            now.add(place, bits & !kept);
        }
        self.state.pending = later;
        if now.present() == 0 {
            return;
        }
        let rewrite = Rewrite::compile(&self.state.key, &now);
        let State { frame, layout, in_step, .. } = &mut self.state;
        if let Err(reason) = rewrite.apply(frame, layout, in_step) {
            self.explain.say(|| format!("cannot be written: {}", reason.about()));
        }
        self.ops.push(Op::Rewrite(Box::new(rewrite)));
    }

    pub(super) fn output(&mut self, port: PortNo) {
        self.explain.why(&"output");
        let in_port = PortNo(self.of_context(|of| of.examine_field(Field::InPort)) as u32);
        self.flush(false);
        match port {
            PortNo::IN_PORT => self.copy_to(in_port),
            PortNo::ALL | PortNo::FLOOD => {
                let floods = |info: &&PortInfo| port == PortNo::ALL || !info.flags.no_flood;
                let others = self.pipeline.ports.values().filter(floods).map(|info| info.number);
                let others: Vec<PortNo> = others.filter(|other| *other != in_port).collect();
                others.into_iter().for_each(|port| self.copy_to(port));
            }
            PortNo::NORMAL => self.normal(in_port),
            PortNo::CONTROLLER => self.controller(&ToController::default()),
            PortNo::TABLE => {
                // A packet-out begins in the first table like any packet.
                let resubmitted = self.state.stands != Stands::PacketOut;
                self.stack.push(Task::Lookup { table: self.state.table, in_port: None, resubmitted });
            }
            _ if port == in_port => self.refuse(DropReason::InPort),
            _ => self.copy_to(port),
        }
    }

    pub(super) fn copy_to(&mut self, port: PortNo) {
        self.work += 1;
        match self.pipeline.ports.get(&port) {
            Some(info) if info.sends() => self.ops.push(Op::Copy(info.index)),
            _ => self.refuse(DropReason::NoPort),
        }
    }

    /// Something could not be done with the packet; if nothing else is, that is why it ends.
    pub(super) fn refuse(&mut self, reason: DropReason) {
        self.explain.say(|| reason.about().to_owned());
        self.why = reason;
    }

    pub(super) fn controller(&mut self, to: &ToController) {
        let in_port = PortNo(self.of_context(|of| of.examine_field(Field::InPort)) as u32);
        if self.pipeline.ports.get(&in_port).is_some_and(|info| info.flags.no_packet_in) {
            self.refuse(DropReason::Controller);
            return;
        }
        self.flush(false);
        // What an action says by itself is said more exactly by where the action stands.
        let reason = if to.reason == BY_ACTION { self.state.stands.reason() } else { to.reason };
        let punt = self.punt(ToController { reason, ..to.clone() });
        self.ops.push(Op::Controller(punt));
    }

    fn punt(&self, to: ToController) -> Arc<Punt> {
        Arc::new(Punt { to, table: self.state.table, cookie: self.state.cookie })
    }

    pub(super) fn meter(&mut self, meter: MeterId) {
        // A flow with a meter that does not exist is refused when it is added.
        if let Some(entry) = self.pipeline.meters.get(&meter) {
            let entry = entry.clone();
            self.flush(false);
            self.ops.push(Op::Meter(entry));
        }
    }

    pub(super) fn dec_ttl(&mut self, field: Field, controllers: &[u16]) {
        if !self.is_there(field.about().needs) {
            return;
        }
        self.flush(false);
        let asked = controllers.first().copied().or(self.pipeline.wants.expired.then_some(0));
        let to = |id| ToController { id, reason: EXPIRED, ..ToController::default() };
        let punts = asked.map(|id| self.punt(to(id)));
        // The bits stay as free as they were: the operation reads the packet's own. But whoever looks at
        // one of them from now on has looked at all.
        self.state.origins.lower(field);
        let ttl = field.get(&self.state.key).saturating_sub(1);
        let State { frame, layout, key, .. } = &mut self.state;
        if field == Field::NwTtl {
            // A packet that cannot go on ends where the operation is done.
            let _ = edit::dec_ttl(frame, layout, key);
            self.ops.push(Op::DecTtl(punts));
        } else {
            let _ = edit::dec_mpls_ttl(frame, layout, key);
            self.ops.push(Op::DecMplsTtl(punts));
        }
        field.set(&mut self.state.key, ttl);
        self.state.in_step.clone_from(&self.state.key);
    }

    /// The action set, at the end.
    pub(super) fn action_set(&mut self) {
        let actions = std::mem::take(&mut self.set).actions();
        if !actions.is_empty() && !is_ended(&self.ops) {
            self.state.stands = Stands::Set;
            self.stack.push(Task::Actions(List::Actions(actions.into()), 0));
        }
    }
}
