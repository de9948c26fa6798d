//! Actions and instructions, as text.
//!
//! What is known of the packet is followed as when reading, because a field that the packet need not
//! have can only be set by the older words (`mod_nw_src`), which let that pass.

use super::action::REASONS;
use super::packet::Known;
use super::show_match::set_name;
use super::value::{show, show_port, show_service, show_table};
use super::{matching::TAG, spelling};
use crate::{Action, Conjunction, Ct, CtStep, Instructions, Names, PortNo, TableId, ToController};
use std::fmt::Write;
use weir_flow::{Field, Subfield, ones};

/// Prints actions.
pub(super) struct Printer<'a> {
    out: String,
    names: &'a Names,
    known: Known,
}

/// Instructions as what follows `actions=`.
pub(super) fn instructions(what: &Instructions, names: &Names, known: Known) -> String {
    let mut printer = Printer { out: String::new(), names, known };
    printer.instructions(what);
    printer.out
}

/// Actions alone, of a flow or of a group.
pub(super) fn actions(actions: &[Action], names: &Names, known: Known) -> String {
    let mut printer = Printer { out: String::new(), names, known };
    printer.list(actions);
    printer.out
}

impl Printer<'_> {
    fn instructions(&mut self, what: &Instructions) {
        let Instructions { meter, apply, clear, write, metadata, goto } = what;
        if let Some(meter) = meter {
            let _ = write!(self.out, "meter:{meter}");
        }
        for action in apply {
            self.comma();
            self.one(action);
        }
        if *clear {
            self.comma();
            self.out.push_str("clear_actions");
        }
        if !write.is_empty() {
            self.comma();
            self.nested("write_actions", write);
        }
        if let Some((value, mask)) = metadata {
            self.comma();
            let _ = write!(self.out, "write_metadata:{}", hex(u128::from(*value)));
            if *mask != u64::MAX {
                let _ = write!(self.out, "/{}", hex(u128::from(*mask)));
            }
        }
        if let Some(table) = goto {
            self.comma();
            self.out.push_str("goto_table:");
            show_table(&mut self.out, *table, self.names);
        }
        if self.out.is_empty() {
            self.out.push_str("drop");
        }
    }

    fn comma(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with('(') {
            self.out.push(',');
        }
    }

    fn list(&mut self, actions: &[Action]) {
        if actions.is_empty() {
            self.out.push_str("drop");
        }
        for (place, action) in actions.iter().enumerate() {
            if place > 0 {
                self.out.push(',');
            }
            self.one(action);
        }
    }

    fn nested(&mut self, word: &str, actions: &[Action]) {
        let outside = self.known;
        let _ = write!(self.out, "{word}(");
        self.list(actions);
        self.out.push(')');
        self.known = outside;
    }

    fn one(&mut self, action: &Action) {
        let out = &mut self.out;
        let _ = match action {
            Action::Output(port) | Action::OutputWith(port, _) => return self.output(*port),
            Action::OutputReg(part) => {
                out.push_str("output:");
                spelling::show(out, *part);
                Ok(())
            }
            Action::Controller(to) => return self.controller(to),
            Action::Group(id) => write!(out, "group:{id}"),
            Action::SetField { field, value, mask } => return self.set_field(*field, *value, *mask),
            Action::Move { from, to } => {
                out.push_str("move:");
                spelling::show(out, *from);
                out.push_str("->");
                spelling::show(out, *to);
                Ok(())
            }
            Action::Load { value, to } => return self.load(*value, *to),
            Action::SetVlanVid(vid) => {
                self.known.tagged(true);
                write!(out, "mod_vlan_vid:{vid}")
            }
            Action::SetVlanPcp(pcp) => {
                self.known.tagged(true);
                write!(out, "mod_vlan_pcp:{pcp}")
            }
            Action::PushVlan(tpid) => {
                self.known.push_tag();
                write!(out, "push_vlan:{tpid:#06x}")
            }
            Action::PopVlan => {
                self.known.pop_tag();
                out.write_str("pop_vlan")
            }
            Action::PushMpls(ether_type) => {
                self.known.push_header(*ether_type);
                write!(out, "push_mpls:{ether_type:#06x}")
            }
            Action::PopMpls(ether_type) => {
                self.known.pop_header(*ether_type);
                write!(out, "pop_mpls:{ether_type:#06x}")
            }
            Action::PushPbb(ether_type) => {
                self.known.push_header(*ether_type);
                write!(out, "push_pbb:{ether_type:#06x}")
            }
            Action::PopPbb => {
                self.known.pop_header(0);
                out.write_str("pop_pbb")
            }
            Action::SetMplsTtl(ttl) => write!(out, "set_mpls_ttl({ttl})"),
            Action::DecMplsTtl => out.write_str("dec_mpls_ttl"),
            Action::SetNwTtl(ttl) => write!(out, "mod_nw_ttl:{ttl}"),
            Action::DecTtl(ids) => return self.dec_ttl(ids),
            Action::CopyTtlOut => out.write_str("copy_ttl_out"),
            Action::CopyTtlIn => out.write_str("copy_ttl_in"),
            Action::Drop => out.write_str("drop"),
            Action::Resubmit { port, table: None } if port.is_some() => return self.resubmit_to(*port),
            Action::Resubmit { port, table } => return self.resubmit(*port, *table, ""),
            Action::ResubmitTracked { port, table } => return self.resubmit(*port, *table, ",ct"),
            Action::Service { service, argument } => {
                out.push_str("softflow:");
                show_service(out, *service, self.names);
                write!(out, ":{argument}")
            }
            Action::ServiceWith { service, arguments } => {
                out.push_str("softflow:");
                show_service(out, *service, self.names);
                for argument in arguments.list() {
                    let _ = write!(out, ":{argument}");
                }
                Ok(())
            }
            Action::Meter(id) => write!(out, "meter:{id}"),
            Action::Clone(actions) => return self.nested("clone", actions),
            Action::Ct(ct) => return self.ct(ct),
            Action::CtClear => out.write_str("ct_clear"),
            Action::Conjunction(Conjunction { id, dimension, dimensions }) => {
                write!(out, "conjunction({id},{dimension}/{dimensions})")
            }
            Action::Exit => out.write_str("exit"),
            Action::Note(bytes) => {
                out.push_str("note:");
                self.bytes(bytes);
                Ok(())
            }
        };
    }

    fn output(&mut self, port: PortNo) {
        if !port.is_reserved() {
            self.out.push_str("output:");
        }
        show_port(&mut self.out, port, self.names);
        if port == PortNo::CONTROLLER {
            let _ = write!(self.out, ":{}", u16::MAX);
        }
    }

    fn controller(&mut self, to: &ToController) {
        let defaults = ToController::default();
        if (to.id, to.reason, &to.userdata) == (defaults.id, defaults.reason, &defaults.userdata) {
            let _ = write!(self.out, "CONTROLLER:{}", to.max_len);
            return;
        }
        self.out.push_str("controller(");
        if to.reason != defaults.reason {
            let _ = match REASONS.get(usize::from(to.reason)) {
                Some(reason) => write!(self.out, "reason={reason},"),
                None => write!(self.out, "reason={},", to.reason),
            };
        }
        if to.max_len != defaults.max_len {
            let _ = write!(self.out, "max_len={},", to.max_len);
        }
        if to.id != defaults.id {
            let _ = write!(self.out, "id={},", to.id);
        }
        if !to.userdata.is_empty() {
            self.out.push_str("userdata=");
            self.bytes(&to.userdata);
            self.out.push(',');
        }
        self.out.pop();
        self.out.push(')');
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for (place, byte) in bytes.iter().enumerate() {
            let dot = if place == 0 { "" } else { "." };
            let _ = write!(self.out, "{dot}{byte:02x}");
        }
    }

    fn dec_ttl(&mut self, ids: &[u16]) {
        self.out.push_str("dec_ttl");
        for (place, id) in ids.iter().enumerate() {
            let _ = write!(self.out, "{}{id}", if place == 0 { '(' } else { ',' });
        }
        if !ids.is_empty() {
            self.out.push(')');
        }
    }

    /// As `ovs-ofctl` has it: a translation that is the first step stands before `exec`.
    fn ct(&mut self, what: &Ct) {
        self.out.push_str("ct(");
        super::ct::show(&mut self.out, what, self.names);
        let mut steps = what.steps.as_slice();
        if let [CtStep::Nat(nat), rest @ ..] = steps {
            super::ct::show_nat(&mut self.out, nat);
            self.out.push(',');
            steps = rest;
        }
        for (place, step) in steps.iter().enumerate() {
            self.out.push_str(if place == 0 { "exec(" } else { "," });
            match step {
                CtStep::Nat(nat) => super::ct::show_nat(&mut self.out, nat),
                CtStep::Set(action) => self.one(action),
            }
        }
        self.out.push_str(if steps.is_empty() { "" } else { ")," });
        super::ct::show_helper(&mut self.out, what.helper);
        if self.out.ends_with(',') {
            self.out.pop();
        }
        self.out.push(')');
    }

    fn resubmit_to(&mut self, port: Option<PortNo>) {
        self.out.push_str("resubmit:");
        if let Some(port) = port {
            show_port(&mut self.out, port, self.names);
        }
    }

    fn resubmit(&mut self, port: Option<PortNo>, table: Option<TableId>, tracked: &str) {
        self.out.push_str("resubmit(");
        if let Some(port) = port {
            show_port(&mut self.out, port, self.names);
        }
        self.out.push(',');
        if let Some(table) = table {
            show_table(&mut self.out, table, self.names);
        }
        self.out.push_str(tracked);
        self.out.push(')');
    }

    fn set_field(&mut self, field: Field, value: u128, mask: u128) {
        if !self.known.has(field) && mask == ones(field.bits()) && self.set_by_old_word(field, value) {
            return;
        }
        if field == Field::VlanTci && mask & TAG != 0 {
            self.known.tagged(value & TAG != 0);
        }
        self.out.push_str("set_field:");
        show(&mut self.out, field, (value, mask), self.names);
        let _ = write!(self.out, "->{}", set_name(field));
    }

    /// Sets a field that the packet need not have by a word that lets it pass, if there is one.
    fn set_by_old_word(&mut self, field: Field, value: u128) -> bool {
        let out = &mut self.out;
        let _ = match field {
            Field::NwSrc | Field::NwDst => {
                out.push_str(if field == Field::NwSrc { "mod_nw_src:" } else { "mod_nw_dst:" });
                show(out, field, (value, ones(32)), self.names);
                Ok(())
            }
            Field::NwTos => write!(out, "mod_nw_tos:{}", value << 2),
            Field::NwEcn => write!(out, "mod_nw_ecn:{value}"),
            Field::MplsLabel => write!(out, "set_mpls_label({value})"),
            Field::MplsTc => write!(out, "set_mpls_tc({value})"),
            Field::VlanVid if value & TAG != 0 => write!(out, "set_vlan_vid:{}", value & ones(12)),
            Field::VlanPcp => write!(out, "set_vlan_pcp:{value}"),
            _ => return false,
        };
        true
    }

    fn load(&mut self, value: u128, to: Subfield) {
        if to.field == Field::VlanTci && to.mask() & TAG != 0 {
            self.known.tagged(value << to.from & TAG != 0);
        }
        let port = to == Field::TcpSrc.whole() || to == Field::TcpDst.whole();
        if port && !self.known.has(to.field) {
            let word = if to.field == Field::TcpSrc { "mod_tp_src" } else { "mod_tp_dst" };
            let _ = write!(self.out, "{word}:{value}");
            return;
        }
        let _ = write!(self.out, "load:{}->", hex(value));
        spelling::show(&mut self.out, to);
    }
}

/// Hexadecimal as C's `%#x` has it: zero is 0.
fn hex(value: u128) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
}
