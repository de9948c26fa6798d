//! `ct` and its `nat`, from and to text, as `ovs-ofctl` has them (`ovs-actions(7)`).

use super::action::{Reader, argument};
use super::error::{Fault, Parsed};
use super::scan::{Pair, Pairs, number_u16};
use super::value::{self, show_table};
use super::{set, spelling};
use crate::{Action, Ct, CtStep, CtZone, Names, Nat, NatRange};
use std::fmt::{Display, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Helpers by name and port.
const HELPERS: [(&str, u16, u8); 2] = [("ftp", Ct::FTP, 6), ("tftp", Ct::TFTP, 17)];

/// `nat` where `ct` is not around it.
pub(super) fn nat_alone(pair: &Pair<'_>) -> Fault {
    Fault::new(pair.whole, "`nat` is only done within `ct`").mend("write ct(commit,nat(...))")
}

/// Reads `ct`.
pub(super) fn ct(it: &mut Reader<'_>, pair: &Pair<'_>) -> Parsed<Action> {
    let zone = CtZone::Number(0);
    let mut ct = Ct { commit: false, force: false, zone, table: None, helper: 0, steps: Vec::new() };
    if !it.known.is_ip() {
        return Err(
            Fault::new(pair.whole, "packets of this flow need not be IP").mend("match ip or ipv6 beside it")
        );
    }
    for part in Pairs::of(pair.value) {
        match part.key {
            "commit" => ct.commit = true,
            "force" => ct.force = true,
            "table" => ct.table = Some(table(argument(&part)?, it.names)?),
            "zone" => ct.zone = zone_of(it, argument(&part)?)?,
            "alg" => ct.helper = helper(it, argument(&part)?)?,
            "nat" => ct.steps.push(CtStep::Nat(nat(it, &part)?)),
            "exec" => exec(it, &part, &mut ct.steps)?,
            _ => {
                return Err(Fault::new(part.whole, "`ct` knows nothing of this name")
                    .mend("it takes commit, force, table, zone, nat, alg and exec"));
            }
        }
    }
    let plain = |step: &CtStep| matches!(step, CtStep::Nat(nat) if *nat == Nat::default());
    if ct.force && !ct.commit {
        return Err(Fault::new(pair.whole, "`force` needs `commit`").mend("write ct(commit,force)"));
    }
    if ct.commit && it.known.invalid {
        return Err(Fault::new(
            pair.whole,
            "packets of this flow belong to no connection that could be kept",
        )
        .mend("match ct_state=-inv, or leave `commit` out"));
    }
    if !ct.commit && !ct.steps.iter().all(plain) {
        return Err(Fault::new(pair.whole, "without `commit`, `ct` does nothing to a connection but `nat`")
            .mend("write ct(commit,...)"));
    }
    Ok(Action::Ct(Box::new(ct)))
}

fn table(text: &str, names: &Names) -> Parsed<crate::TableId> {
    value::table(text, names)?
        .ok_or_else(|| Fault::new(text, "there is no such table").mend("tables are 0 to 254"))
}

fn zone_of(it: &Reader<'_>, text: &str) -> Parsed<CtZone> {
    if text.starts_with(|digit: char| digit.is_ascii_digit()) {
        return number_u16(text).map(CtZone::Number);
    }
    let (named, rest) = spelling::subfield(text)?;
    let bits = set::readable(it, named.resolve(text)?, text)?;
    if bits.bits != 16 || !rest.is_empty() {
        return Err(Fault::new(text, "a zone has 16 bits").mend("write FIELD[0..15]"));
    }
    Ok(CtZone::Bits(bits))
}

fn helper(it: &Reader<'_>, text: &str) -> Parsed<u16> {
    let Some((name, port, protocol)) = HELPERS.into_iter().find(|helper| helper.0 == text) else {
        return Err(Fault::new(text, "no helper has this name").mend("there are ftp and tftp"));
    };
    if !it.known.is_of(protocol) {
        let word = if protocol == 6 { "tcp or tcp6" } else { "udp or udp6" };
        return Err(Fault::new(text, format!("packets of this flow need not be of a protocol for {name}"))
            .mend(format!("match {word} beside it")));
    }
    Ok(port)
}

/// The steps in `exec`.
fn exec(it: &mut Reader<'_>, pair: &Pair<'_>, steps: &mut Vec<CtStep>) -> Parsed<()> {
    for part in Pairs::of(pair.value) {
        if part.key == "nat" {
            steps.push(CtStep::Nat(nat(it, &part)?));
            continue;
        }
        if !matches!(part.key, "set_field" | "load" | "move") {
            return Err(Fault::new(part.whole, "this cannot be done to a connection")
                .mend("within ct(exec(...)) there are set_field, load, move and nat"));
        }
        it.tracked = true;
        let action = it.one(&part);
        it.tracked = false;
        steps.push(CtStep::Set(action?));
    }
    Ok(())
}

fn nat(it: &Reader<'_>, pair: &Pair<'_>) -> Parsed<Nat> {
    let mut nat = Nat::default();
    for part in Pairs::of(pair.value) {
        match part.key {
            "src" | "dst" => {
                *(if part.key == "src" { &mut nat.source } else { &mut nat.destination }) = true;
                (nat.range, nat.ports) = any_or_range(part.value)?;
            }
            "persistent" => nat.persistent = true,
            "hash" => nat.hash = true,
            "random" => nat.random = true,
            _ => {
                return Err(Fault::new(part.whole, "`nat` knows nothing of this name")
                    .mend("it takes src, dst, persistent, hash and random"));
            }
        }
    }
    let wrong = |what: &str| Err(Fault::new(pair.whole, what));
    if nat.source && nat.destination {
        return wrong("`nat` is either of sources or of destinations");
    }
    if nat.hash && nat.random {
        return wrong("`hash` and `random` exclude each other");
    }
    let fits = match nat.range {
        NatRange::None => true,
        NatRange::Ipv4(..) => it.known.may_be(0x0800),
        NatRange::Ipv6(..) => it.known.may_be(0x86dd),
    };
    if !fits {
        return wrong("packets of this flow have addresses of the other kind");
    }
    if !(nat.source || nat.destination) && (nat.persistent || nat.hash || nat.random) {
        return wrong("`nat` says how, but neither of sources nor of destinations");
    }
    if nat.range == NatRange::None {
        // As `ovs-ofctl` has it: they say how to choose from a range.
        (nat.persistent, nat.hash, nat.random) = (false, false, false);
    }
    Ok(nat)
}

/// A range; the address that is all zero is none, as with `ovs-ofctl`: the connection's own, and only what is taken
/// is avoided.
fn any_or_range(text: &str) -> Parsed<(NatRange, (u16, u16))> {
    let (range, ports) = range(text)?;
    let (is_any, is_alone) = match range {
        NatRange::None => return Ok((range, ports)),
        NatRange::Ipv4(least, greatest) => (least.is_unspecified(), greatest.is_none()),
        NatRange::Ipv6(least, greatest) => (least.is_unspecified(), greatest.is_none()),
    };
    match (is_any, is_alone && ports == (0, 0)) {
        (false, _) => Ok((range, ports)),
        (true, true) => Ok((NatRange::None, (0, 0))),
        (true, false) => {
            Err(Fault::new(text, "the address that is all zero stands for the connection's own")
                .mend("write it alone, without another address or ports; or a range of addresses"))
        }
    }
}

/// `ADDRESS[-ADDRESS][:PORT[-PORT]]`; with ports, IPv6 addresses stand in brackets.
fn range(text: &str) -> Parsed<(NatRange, (u16, u16))> {
    if text.is_empty() {
        return Ok((NatRange::None, (0, 0)));
    }
    let wrong = || {
        Fault::new(text, "this is no range to translate to")
            .mend("write ADDRESS[-ADDRESS][:PORT[-PORT]], IPv6 with ports as [ADDRESS]:PORT")
    };
    let colons = text.matches(':').count();
    let (addresses, ports) = match text.rfind("]:") {
        Some(at) => (&text[..=at], Some(&text[at + 2..])),
        None if colons == 1 => text.split_once(':').map_or((text, None), |(all, ports)| (all, Some(ports))),
        None => (text, None),
    };
    let (least, greatest) = addresses.split_once('-').map_or((addresses, None), |(a, b)| (a, Some(b)));
    let range = match (v4(least), v6(least)) {
        (Some(least), _) => {
            let greatest = greatest.map(|text| v4(text).ok_or_else(wrong)).transpose()?;
            NatRange::Ipv4(least, ordered(least, greatest, wrong)?)
        }
        (None, Some(least)) => {
            let greatest = greatest.map(|text| v6(text).ok_or_else(wrong)).transpose()?;
            NatRange::Ipv6(least, ordered(least, greatest, wrong)?)
        }
        (None, None) => return Err(wrong()),
    };
    let Some(ports) = ports else { return Ok((range, (0, 0))) };
    let (least, greatest) = ports.split_once('-').map_or((ports, None), |(a, b)| (a, Some(b)));
    let least = number_u16(least)?;
    let greatest = ordered(least, greatest.map(number_u16).transpose()?, wrong)?;
    Ok((range, (least, greatest.unwrap_or(0))))
}

/// The end of a range, if it is another than its beginning.
fn ordered<T: Ord + Copy>(least: T, greatest: Option<T>, wrong: impl Fn() -> Fault) -> Parsed<Option<T>> {
    match greatest {
        Some(greatest) if greatest < least => Err(wrong()),
        other => Ok(other.filter(|greatest| *greatest > least)),
    }
}

fn v4(text: &str) -> Option<Ipv4Addr> {
    text.parse().ok()
}

fn v6(text: &str) -> Option<Ipv6Addr> {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text).parse().ok()
}

/// Prints what stands before the steps, each with a comma behind it.
pub(super) fn show(out: &mut String, ct: &Ct, names: &Names) {
    out.push_str(if ct.commit { "commit," } else { "" });
    out.push_str(if ct.force { "force," } else { "" });
    if let Some(table) = ct.table {
        out.push_str("table=");
        show_table(out, table, names);
        out.push(',');
    }
    match ct.zone {
        CtZone::Number(0) => {}
        CtZone::Number(zone) => _ = write!(out, "zone={zone},"),
        CtZone::Bits(bits) => {
            out.push_str("zone=");
            spelling::show(out, bits);
            out.push(',');
        }
    }
}

/// Prints what stands behind them.
pub(super) fn show_helper(out: &mut String, port: u16) {
    if let Some((name, ..)) = HELPERS.iter().find(|helper| helper.1 == port) {
        let _ = write!(out, "alg={name},");
    }
}

/// Prints a translation.
pub(super) fn show_nat(out: &mut String, nat: &Nat) {
    out.push_str("nat");
    if !(nat.source || nat.destination) {
        return;
    }
    out.push_str(if nat.source { "(src" } else { "(dst" });
    let (least, greatest) = nat.ports;
    match nat.range {
        NatRange::None => {}
        NatRange::Ipv4(low, high) => show_range(out, low, high, |out, address| write!(out, "{address}")),
        NatRange::Ipv6(low, high) => show_range(out, low, high, |out, address| match least {
            0 => write!(out, "{address}"),
            _ => write!(out, "[{address}]"),
        }),
    }
    if nat.range != NatRange::None {
        if least != 0 {
            let _ = write!(out, ":{least}");
        }
        if greatest != 0 {
            let _ = write!(out, "-{greatest}");
        }
        let flags = [(nat.persistent, ",persistent"), (nat.hash, ",hash"), (nat.random, ",random")];
        flags.iter().filter(|flag| flag.0).for_each(|flag| out.push_str(flag.1));
    }
    out.push(')');
}

fn show_range<T: Display>(
    out: &mut String,
    low: T,
    high: Option<T>,
    one: impl Fn(&mut String, T) -> std::fmt::Result,
) {
    out.push('=');
    let _ = one(out, low);
    if let Some(high) = high {
        out.push('-');
        let _ = one(out, high);
    }
}
