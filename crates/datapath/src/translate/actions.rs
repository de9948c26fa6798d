//! Actions, one at a time.

use super::finish::{finish, is_ended};
use super::state::{Choices, Copied, CopyKind, Rest, State, cut};
use super::{List, Task, Translation};
use crate::edit;
use crate::edit::Rewrite;
use crate::pipeline::GroupEntry;
use crate::program::{Choice, Credit, HeaderOp, Op, Punt, Select};
use crate::serve::STAGE_LOCAL;
use std::sync::Arc;
use weir_flow::{Field, Mask, Needs, Subfield};
use weir_openflow::{Action, GroupId, GroupKind, MeterId, PortNo, ToController};
use weir_port::DropReason;

/// Slots over which the weights of a group are spread.
const SLOTS: usize = 256;

/// Words of the key that do not come from the packet's bytes: stage, metadata, registers and the like.
/// They are known even where headers are not.
fn is_of_frame(field: Field) -> bool {
    !matches!(field.about().needs, Needs::Nothing)
        || matches!(field, Field::EthDst | Field::EthSrc | Field::EthType | Field::VlanTci | Field::VlanVid)
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
    fn needs_to_see(&self, action: &Action) -> bool {
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
            | Action::PopPbb => true,
            _ => false,
        }
    }

    fn action(&mut self, action: &Action) {
        self.explain.action(action);
        match action {
            Action::Output(port) => self.output(*port),
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
            Action::Drop | Action::Note(_) => {}
            Action::Resubmit { port, table } => {
                let table = table.unwrap_or(self.state.table);
                let in_port = port.filter(|port| *port != PortNo::IN_PORT).map(|port| port.0);
                self.stack.push(Task::Lookup { table, in_port, resubmitted: true });
            }
            Action::Service { service, argument } => self.service(*service, *argument),
            Action::Meter(meter) => self.meter(*meter),
            Action::Clone(actions) => self.clone_of(actions.as_slice().into()),
            Action::Exit => self.exit(),
        }
    }

    /// No further action is done, neither in this table nor in those that led here, but for the action set.
    /// In a group's bucket, that is all of the bucket (`ovs-actions(7)`).
    fn exit(&mut self) {
        let of_bucket = |task: &Task| matches!(task, Task::EndCopy(copied) if !copied.kind.is_of_action());
        let bottom = self.stack.iter().rposition(of_bucket).map_or(0, |at| at + 1);
        let waiting = self.stack.split_off(bottom);
        let stays = |task: &Task| matches!(task, Task::EndCopy(_) | Task::ActionSet);
        self.stack.extend(waiting.into_iter().filter(stays));
    }

    /// Nothing follows, but for what follows a copy.
    fn end_list(&mut self) {
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
            self.state.fixed.add(place, bits);
            self.state.pending.add(place, bits);
        }
    }

    /// Sets a field of the tag; a packet without one gets one (OpenFlow 1.0, section 5.2.4).
    fn set_tag(&mut self, field: Field, value: u128) {
        if !self.has_tag() {
            self.header(HeaderOp::PushVlan(0x8100));
        }
        self.set_field(field, value, u128::MAX);
    }

    /// Sets a field where the packet has it. Only the whole of `vlan_tci` makes a tag.
    fn set_field(&mut self, field: Field, value: u128, mask: u128) {
        match field {
            Field::VlanTci if !self.has_tag() => {
                if value & mask & 0x1000 == 0 {
                    return;
                }
                self.header(HeaderOp::PushVlan(0x8100));
            }
            Field::VlanVid if !self.has_tag() => return,
            _ => {}
        }
        if self.is_there(field.about().needs) {
            self.write(field, value, mask);
        }
    }

    fn has_tag(&mut self) -> bool {
        for (place, _, bits) in Field::VlanTci.spread(0, 0x1000) {
            self.examine_bits(place, bits);
        }
        Field::VlanTci.get(&self.state.key) & 0x1000 != 0
    }

    /// Whether the packet has what a field needs; looking at it matters.
    fn is_there(&mut self, needs: Needs) -> bool {
        let ethertype = match needs {
            Needs::Nothing => return true,
            Needs::Vlan => return self.has_tag(),
            _ => self.examine_field(Field::EthType),
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

    /// Whether the packet's protocol is this, and it is no later fragment.
    fn has_transport(&mut self, protocol: u128) -> bool {
        self.examine_field(Field::NwProto) == protocol && self.examine_field(Field::NwFrag) & 2 == 0
    }

    fn icmp_type_is(&mut self, types: &[u128]) -> bool {
        let found = self.examine_field(Field::Icmpv6Type);
        types.contains(&found)
    }

    fn move_bits(&mut self, from: Subfield, to: Subfield) {
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
            let kept = !registers && STAGE_LOCAL.contains(&place);
            if kept { later.add(place, bits) } else { now.add(place, bits) }
        }
        self.state.pending = later;
        if now.present() == 0 {
            return;
        }
        let rewrite = Rewrite::compile(&self.state.key, &now);
        let State { frame, layout, key, .. } = &mut self.state;
        if let Err(reason) = rewrite.apply(frame, layout, key) {
            self.explain.say(|| format!("cannot be written: {}", reason.about()));
        }
        self.ops.push(Op::Rewrite(Box::new(rewrite)));
    }

    fn output(&mut self, port: PortNo) {
        self.explain.why(&"output");
        let in_port = PortNo(self.examine_field(Field::InPort) as u32);
        self.flush(false);
        match port {
            PortNo::IN_PORT => self.copy_to(in_port),
            PortNo::ALL | PortNo::FLOOD => {
                let others: Vec<PortNo> =
                    self.pipeline.ports.keys().copied().filter(|port| *port != in_port).collect();
                others.into_iter().for_each(|port| self.copy_to(port));
            }
            PortNo::CONTROLLER => self.controller(&ToController::default()),
            PortNo::TABLE => {
                self.stack.push(Task::Lookup { table: self.state.table, in_port: None, resubmitted: true });
            }
            _ if port == in_port => self.refuse(DropReason::InPort),
            _ => self.copy_to(port),
        }
    }

    fn copy_to(&mut self, port: PortNo) {
        match self.pipeline.ports.get(&port) {
            Some(info) if info.up => self.ops.push(Op::Copy(info.index)),
            _ => self.refuse(DropReason::NoPort),
        }
    }

    /// Something could not be done with the packet; if nothing else is, that is why it ends.
    fn refuse(&mut self, reason: DropReason) {
        self.explain.say(|| reason.about().to_owned());
        self.why = reason;
    }

    fn controller(&mut self, to: &ToController) {
        self.flush(false);
        let punt = Punt { to: to.clone(), table: self.state.table, cookie: self.state.cookie };
        self.ops.push(Op::Controller(Arc::new(punt)));
    }

    pub(super) fn meter(&mut self, meter: MeterId) {
        // A flow with a meter that does not exist is refused when it is added.
        if let Some(entry) = self.pipeline.meters.get(&meter) {
            let entry = entry.clone();
            self.flush(false);
            self.ops.push(Op::Meter(entry));
        }
    }

    fn dec_ttl(&mut self, field: Field, controllers: &[u16]) {
        if !self.is_there(field.about().needs) {
            return;
        }
        self.flush(false);
        let punts = controllers.first().map(|&id| {
            let to = ToController { id, reason: 2, ..ToController::default() };
            Arc::new(Punt { to, table: self.state.table, cookie: self.state.cookie })
        });
        // The bits stay as free as they were: the operation reads the packet's own. But whoever looks at
        // one of them from now on has looked at all.
        field.examine(&mut self.state.lowered, u128::MAX);
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
    }

    /// A header is pushed or popped. All that was known of tags and labels is looked at first, because
    /// it moves.
    fn header(&mut self, op: HeaderOp) {
        self.explain.why(&format_args!("{op:?}"));
        self.flush(false);
        let moved = [Field::EthType, Field::VlanTci, Field::MplsLabel, Field::PbbIsid];
        let mut mask = Mask::new();
        for field in moved {
            mask.add(
                usize::from(field.about().word),
                match field {
                    Field::EthType => 0xffff,
                    Field::VlanTci => 0xffff,
                    _ => u64::MAX,
                },
            );
        }
        mask.add(21, u64::MAX);
        self.examine_mask(&mask);
        if !self.has_for(op) {
            return;
        }
        let ttl = matches!(op, HeaderOp::PushMpls(_) | HeaderOp::CopyTtlOut | HeaderOp::CopyTtlIn);
        let pushes_mpls = matches!(op, HeaderOp::PushMpls(_));
        if ttl {
            self.examine_field(Field::NwTtl);
        }
        let hidden = self.hides_more();
        let State { frame, layout, key, .. } = &mut self.state;
        let done = apply_header(op, frame, layout, key);
        self.ops.push(Op::Header(op));
        for (place, bits) in mask.iter() {
            self.state.fixed.add(place, bits);
        }
        if ttl && !pushes_mpls {
            self.fix(Field::NwTtl, u128::MAX);
        }
        self.state.opaque =
            matches!(op, HeaderOp::PopMpls(_) | HeaderOp::PopPbb | HeaderOp::PopVlan | HeaderOp::CopyTtlIn)
                && (op != HeaderOp::PopVlan || hidden);
        if done.is_err() {
            // The packet is cut short behind what its key has. It ends where the operation is done;
            // packets that are whole come back to be followed further.
            self.state.opaque = true;
            self.freeze_rest();
        }
    }

    /// Whether there are more tags than the key has, and so headers that it does not have.
    fn hides_more(&self) -> bool {
        matches!(Field::EthType.get(&self.state.key), 0x8100 | 0x88a8)
    }

    /// Whether the packet has what an operation changes. Without, it is left as it is, as Open vSwitch
    /// leaves it.
    fn has_for(&mut self, op: HeaderOp) -> bool {
        match op {
            HeaderOp::PushVlan(_) | HeaderOp::PushMpls(_) | HeaderOp::PushPbb(_) => true,
            HeaderOp::PopVlan => self.has_tag(),
            HeaderOp::PopMpls(_) | HeaderOp::CopyTtlOut | HeaderOp::CopyTtlIn => self.is_there(Needs::Mpls),
            HeaderOp::PopPbb => self.is_there(Needs::Pbb),
        }
    }

    fn service(&mut self, service: u16, argument: u32) {
        if self.pipeline.service(service).is_none() {
            self.refuse(DropReason::NoService);
            return;
        }
        if self.in_copy_of_clone() {
            // A copy needs a place of its own among the packets: it gets one by recirculation.
            let actions: Arc<[Action]> = [Action::Service { service, argument }].as_slice().into();
            self.end_list();
            self.freeze(Task::Actions(List::Actions(actions), 0));
            return;
        }
        self.flush(false);
        self.ops.push(Op::Service(service, argument));
        self.end_list();
    }

    /// Whether the operations at hand are done to a copy.
    fn in_copy_of_clone(&self) -> bool {
        self.stack.iter().any(|task| matches!(task, Task::EndCopy(_)))
    }

    /// The packet goes back to the caches, and what is left to do, this first, waits for it.
    pub(super) fn freeze(&mut self, next: Task) {
        self.stack.push(next);
        self.freeze_rest();
    }

    fn freeze_rest(&mut self) {
        self.flush(true);
        let bottom =
            self.stack.iter().rposition(|task| matches!(task, Task::EndCopy(_))).map_or(0, |at| at + 1);
        let tasks = self.stack.split_off(bottom);
        self.explain.say(|| "recirculates: headers that came to light are looked at anew".to_owned());
        let (table, cookie) = (self.state.table, self.state.cookie);
        let rest = Rest { tasks, set: self.set.clone(), table, cookie, why: self.why };
        let frozen = self.store.keep(rest);
        self.ops.push(Op::Recirculate(frozen));
    }

    /// Has actions done to a copy, which has an action set of its own: that of the packet so far. It is done
    /// when the actions are, as in Open vSwitch, whose action this is.
    fn clone_of(&mut self, actions: Arc<[Action]>) {
        self.flush(false);
        self.begin_copy(CopyKind::Action(self.ops.len()), List::Actions(actions));
        let actions = self.stack.pop();
        self.stack.push(Task::ActionSet);
        self.stack.extend(actions);
    }

    /// Has the actions of a bucket done to a copy, as the packet is now.
    pub(super) fn begin_clone(&mut self, list: List) {
        self.flush(false);
        self.begin_copy(CopyKind::Bucket(self.ops.len()), list);
    }

    fn begin_copy(&mut self, kind: CopyKind, list: List) {
        self.stack.push(Task::EndCopy(Copied {
            state: Box::new(self.state.clone()),
            set: self.set.clone(),
            kind,
        }));
        self.stack.push(Task::Actions(list, 0));
    }

    /// What was done to a copy is one operation of the packet's.
    pub(super) fn end_copy(&mut self, copied: Copied) {
        self.state = *copied.state;
        self.set = copied.set;
        match copied.kind {
            CopyKind::Action(from) | CopyKind::Bucket(from) => {
                let ops = finish(cut(&mut self.ops, from), DropReason::ByFlow);
                if !matches!(ops.as_slice(), [Op::Drop(_)]) {
                    self.ops.push(Op::Clone(ops));
                }
            }
            CopyKind::Choice(mut choices) => {
                let ops = finish(cut(&mut self.ops, choices.from + choices.done), DropReason::ByFlow);
                self.ops.push(Op::Clone(ops));
                choices.done += 1;
                self.next_choice(choices);
            }
        }
    }

    fn group(&mut self, id: GroupId) {
        self.flush(false);
        let Some(group) = self.pipeline.groups.get(&id).cloned() else {
            self.refuse(DropReason::NoGroup);
            return;
        };
        if self.stack.len() > super::DEPTH / 2 {
            self.give_up(DropReason::TooDeep);
            return;
        }
        self.credits.push(Credit::Counts(group.counts.clone()));
        let alive: Vec<usize> =
            (0..group.group.buckets.len()).filter(|&bucket| self.is_alive(&group, bucket, 0)).collect();
        if alive.is_empty() {
            self.refuse(DropReason::NoBucket);
            return;
        }
        match group.group.kind {
            GroupKind::All => {
                for &bucket in alive.iter().rev() {
                    self.credits.push(Credit::Counts(group.buckets[bucket].clone()));
                    self.stack.push(Task::Copy(List::Bucket(group.clone(), bucket)));
                }
            }
            GroupKind::Indirect | GroupKind::FastFailover => {
                let bucket = alive[0];
                self.credits.push(Credit::Counts(group.buckets[bucket].clone()));
                self.begin_clone(List::Bucket(group, bucket));
            }
            GroupKind::Select => {
                let from = self.ops.len();
                self.next_choice(Box::new(Choices { group, alive, done: 0, from }));
            }
        }
    }

    fn next_choice(&mut self, choices: Box<Choices>) {
        if let Some(&bucket) = choices.alive.get(choices.done) {
            let list = List::Bucket(choices.group.clone(), bucket);
            self.begin_copy(CopyKind::Choice(choices), list);
            return;
        }
        let group = &choices.group;
        let ops = cut(&mut self.ops, choices.from);
        let of = |(op, &bucket): (Op, &usize)| Choice {
            ops: match op {
                Op::Clone(ops) => ops,
                other => vec![other],
            },
            counts: group.buckets[bucket].clone(),
            packets: 0,
            bytes: 0,
        };
        let made: Vec<Choice> = ops.into_iter().zip(&choices.alive).map(of).collect();
        let weights: Vec<(u32, u16)> = choices
            .alive
            .iter()
            .map(|&bucket| (group.group.buckets[bucket].id, group.group.buckets[bucket].weight))
            .collect();
        let slots = spread(&weights, self.pipeline.seed);
        self.ops.push(Op::SelectCopy(Box::new(Select { slots, choices: made })));
    }

    /// Whether a bucket takes part: its port is up, its group has such a bucket, or it watches none.
    fn is_alive(&self, group: &GroupEntry, bucket: usize, depth: usize) -> bool {
        let bucket = &group.group.buckets[bucket];
        let port = bucket.watch_port.filter(|port| *port != PortNo::ANY);
        if port.is_none() && bucket.watch_group.is_none() {
            // In a fast failover group a bucket that watches nothing is never alive.
            return group.group.kind != GroupKind::FastFailover;
        }
        let port_up = port.is_some_and(|port| self.pipeline.ports.get(&port).is_some_and(|info| info.up));
        let group_up =
            bucket.watch_group.and_then(|id| self.pipeline.groups.get(&id)).is_some_and(|watched| {
                depth < 16 && (0..watched.group.buckets.len()).any(|at| self.is_alive(watched, at, depth + 1))
            });
        port_up || group_up
    }

    /// The action set, at the end.
    pub(super) fn action_set(&mut self) {
        let actions = std::mem::take(&mut self.set).actions();
        if !actions.is_empty() && !is_ended(&self.ops) {
            self.stack.push(Task::Actions(List::Actions(actions.into()), 0));
        }
    }
}

/// Does an operation on headers.
pub(crate) fn apply_header<F: weir_port::Frame + ?Sized>(
    op: HeaderOp,
    frame: &mut F,
    layout: &mut weir_flow::Layout,
    key: &mut weir_flow::Key,
) -> Result<(), DropReason> {
    match op {
        HeaderOp::PushVlan(tpid) => edit::push_vlan(frame, layout, key, tpid),
        HeaderOp::PopVlan => edit::pop_vlan(frame, layout, key),
        HeaderOp::PushMpls(ethertype) => edit::push_mpls(frame, layout, key, ethertype),
        HeaderOp::PopMpls(ethertype) => edit::pop_mpls(frame, layout, key, ethertype),
        HeaderOp::PushPbb(tpid) => edit::push_pbb(frame, layout, key, tpid),
        HeaderOp::PopPbb => edit::pop_pbb(frame, layout, key),
        HeaderOp::CopyTtlOut => edit::copy_ttl_out(frame, layout, key),
        HeaderOp::CopyTtlIn => edit::copy_ttl_in(frame, layout, key),
    }
}

/// Spreads buckets over slots by weight, each slot to the bucket with the highest draw (weighted
/// rendezvous hashing): a bucket that goes moves only its own slots.
fn spread(weights: &[(u32, u16)], seed: weir_flow::Seed) -> Vec<u16> {
    let draw = |slot: usize, id: u32, weight: u16| {
        let hash = seed.finish(seed.fold(slot as u64, u64::from(id)));
        let uniform = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        // Weight zero takes nothing unless all have it.
        -f64::from(weight.max(1)) / uniform.ln() * if weight == 0 { 1e-12 } else { 1.0 }
    };
    let best = |slot: usize| {
        let scores = weights.iter().map(|&(id, weight)| draw(slot, id, weight));
        let best = scores.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        best.map_or(0, |(at, _)| u16::try_from(at).unwrap_or(0))
    };
    (0..SLOTS).map(best).collect()
}
