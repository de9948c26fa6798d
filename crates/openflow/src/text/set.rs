//! Actions that write fields, from text: `set_field`, `load`, `move` and their older forms.

use super::action::{Reader, argument, argument_u64, fits, writable};
use super::error::{Fault, Parsed};
use super::matching::TAG;
use super::packet::Known;
use super::scan::{Pair, number_of};
use super::spelling::{self, How, Spelling, subfield};
use super::value;
use crate::{Action, PortNo};
use weir_flow::{Field, Subfield, ones};

/// Splits `VALUE->FIELD`.
fn arrow<'a>(pair: &Pair<'a>) -> Parsed<(&'a str, &'a str)> {
    let text = argument(pair)?;
    let (value, to) = text.rsplit_once("->").ok_or_else(|| {
        Fault::new(pair.whole, "the arrow is missing").mend(format!("write {}:VALUE->FIELD", pair.key))
    })?;
    Ok((value.trim(), to.trim()))
}

/// A field that the packet has not got here.
fn lacking(field: Field, word: &str) -> Fault {
    let needs = if field == Field::VlanVid { weir_flow::Needs::Vlan } else { field.about().needs };
    let words = Known::words(needs);
    Fault::new(word, format!("packets of this flow need not have `{}`", field.name()))
        .mend(format!("match {words} beside it"))
}

fn has(it: &Reader<'_>, field: Field, word: &str) -> Parsed<()> {
    if it.known.has(field) { Ok(()) } else { Err(lacking(field, word)) }
}

/// A part of a field that can be read here.
pub(super) fn readable(it: &Reader<'_>, part: Subfield, word: &str) -> Parsed<Subfield> {
    let tag = part.field == Field::VlanVid;
    if !tag {
        has(it, part.field, word)?;
    }
    Ok(part)
}

/// What the packet has after a field was set.
fn remember(it: &mut Reader<'_>, field: Field, value: u128, mask: u128) {
    if field == Field::VlanTci && mask & TAG != 0 {
        it.known.tagged(value & TAG != 0);
    }
}

pub(super) fn set_field(it: &mut Reader<'_>, pair: &Pair<'_>) -> Parsed<Action> {
    let (text, name) = arrow(pair)?;
    let spelling = Spelling::named(name).ok_or_else(|| spelling::unknown(name))?;
    writable(it, spelling.field, name)?;
    match spelling.how {
        How::OldVid => return vlan_of(it, number_of(text, 12)?, true),
        How::OldPcp => return priority_of(it, number_of(text, 3)?, true),
        _ => {}
    }
    has(it, spelling.field, pair.whole)?;
    let (value, mask) = value::read(spelling, text, it.names)?;
    remember(it, spelling.field, value, mask);
    Ok(Action::SetField { field: spelling.field, value, mask })
}

/// The older forms: the whole field, and a packet without it is left as it is.
pub(super) fn set_whole(it: &mut Reader<'_>, pair: &Pair<'_>, name: &str) -> Parsed<Action> {
    let text = argument(pair)?;
    let spelling = Spelling::named(name).ok_or_else(|| spelling::unknown(name))?;
    let (value, mask) = value::read(spelling, text, it.names)?;
    let field = spelling.field;
    if mask != ones(field.bits()) {
        return Err(Fault::new(text, "a mask cannot stand here").mend("write set_field:VALUE/MASK->FIELD"));
    }
    Ok(Action::SetField { field, value, mask })
}

/// `mod_tp_src` and `mod_tp_dst`: the port of the protocol that is matched; if none is, whatever lies
/// where ports do.
pub(super) fn port(it: &mut Reader<'_>, pair: &Pair<'_>, source: bool) -> Parsed<Action> {
    let value = number_of(argument(pair)?, 16)?;
    Ok(match it.known.port(source) {
        Some(field) => Action::SetField { field, value, mask: ones(16) },
        None => {
            let field = if source { Field::TcpSrc } else { Field::TcpDst };
            Action::Load { value, to: field.whole() }
        }
    })
}

pub(super) fn tunnel(pair: &Pair<'_>) -> Parsed<Action> {
    let value = u128::from(argument_u64(pair)?);
    Ok(Action::SetField { field: Field::TunId, value, mask: ones(64) })
}

pub(super) fn vlan(it: &mut Reader<'_>, pair: &Pair<'_>, push: bool) -> Parsed<Action> {
    let value = number_of(argument(pair)?, 12)?;
    vlan_of(it, value, push)
}

fn vlan_of(it: &mut Reader<'_>, value: u128, push: bool) -> Parsed<Action> {
    if push {
        it.known.tagged(true);
        return Ok(Action::SetVlanVid(value as u16));
    }
    Ok(Action::SetField { field: Field::VlanVid, value: value | TAG, mask: ones(13) })
}

pub(super) fn priority(it: &mut Reader<'_>, pair: &Pair<'_>, push: bool) -> Parsed<Action> {
    let value = number_of(argument(pair)?, 3)?;
    priority_of(it, value, push)
}

fn priority_of(it: &mut Reader<'_>, value: u128, push: bool) -> Parsed<Action> {
    if push {
        it.known.tagged(true);
        return Ok(Action::SetVlanPcp(value as u8));
    }
    Ok(Action::SetField { field: Field::VlanPcp, value, mask: ones(3) })
}

pub(super) fn load(it: &mut Reader<'_>, pair: &Pair<'_>) -> Parsed<Action> {
    let (text, name) = arrow(pair)?;
    let (named, rest) = subfield(name)?;
    end(name, rest)?;
    writable(it, named.spelling.field, name)?;
    let value = fits(text, u32::from(named.bits))?;
    let to = named.resolve(name)?;
    match named.spelling.how {
        How::OldVid | How::OldPcp
            if to != named.spelling.field.whole() && named.bits != named.spelling.bits =>
        {
            return Err(Fault::new(name, "this cannot be set in part").mend("name `vlan_tci`"));
        }
        How::OldVid => return vlan_of(it, value, true),
        How::OldPcp => return priority_of(it, value, true),
        How::Port16 if named.bits == 16 => {
            let number = PortNo(value as u32);
            let number = value::port(&number.to_string(), it.names).unwrap_or(number);
            return Ok(Action::Load { value: u128::from(number.0), to: Field::InPort.whole() });
        }
        _ => {}
    }
    has(it, to.field, pair.whole)?;
    // What `nw_tos` has to the right of the field falls away.
    let value = value >> (named.bits - to.bits);
    remember(it, to.field, value << to.from, to.mask());
    Ok(Action::Load { value, to })
}

fn end(text: &str, rest: &str) -> Parsed<()> {
    if rest.is_empty() {
        return Ok(());
    }
    Err(Fault::new(text, "something follows the field")
        .mend("write FIELD[], FIELD[BIT] or FIELD[FIRST..LAST]"))
}

/// `move`.
pub(super) fn copy(it: &mut Reader<'_>, pair: &Pair<'_>) -> Parsed<Action> {
    let (from_text, to_text) = arrow(pair)?;
    let ((from, rest), (to, behind)) = (subfield(from_text)?, subfield(to_text)?);
    end(from_text, rest)?;
    end(to_text, behind)?;
    writable(it, to.spelling.field, to_text)?;
    if matches!(to.spelling.how, How::OldVid | How::OldPcp) {
        return Err(
            Fault::new(to_text, "`move` cannot write this field").mend("name vlan_vid, vlan_pcp or vlan_tci")
        );
    }
    let (from, to) = (from.resolve(from_text)?, to.resolve(to_text)?);
    if from.bits != to.bits {
        let what = format!("{} bits are moved to {}", from.bits, to.bits);
        return Err(Fault::new(pair.whole, what).mend("name as many bits on either side: FIELD[FIRST..LAST]"));
    }
    let from = readable(it, from, from_text)?;
    let to = readable(it, to, to_text)?;
    Ok(Action::Move { from, to })
}
