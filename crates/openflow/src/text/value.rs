//! Values of fields, read and written: numbers, addresses, flags, ports, names of services.

use super::error::{Fault, Parsed};
use super::scan::{NoNumber, number, number_of};
use super::spelling::{How, Spelling};
use crate::{Names, PortNo, TableId};
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_flow::{Field, Form, ones};

/// A value and which of its bits count.
pub(super) type Masked = (u128, u128);

/// Reserved ports by name.
const RESERVED: &[(&str, PortNo)] = &[
    ("IN_PORT", PortNo::IN_PORT),
    ("TABLE", PortNo::TABLE),
    ("NORMAL", PortNo::NORMAL),
    ("FLOOD", PortNo::FLOOD),
    ("ALL", PortNo::ALL),
    ("CONTROLLER", PortNo::CONTROLLER),
    ("LOCAL", PortNo::LOCAL),
    ("ANY", PortNo::ANY),
    ("NONE", PortNo::ANY),
];

/// Bits of `tcp_flags` by name (RFC 9293, RFC 3540); the others are named by their value.
const TCP_FLAGS: &[&str] =
    &["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"];

/// Bits of `ct_state` by name.
const CT_STATES: &[&str] = &["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];

/// `nw_frag` by name: value and mask. Bit 0: a fragment; bit 1: not the first.
const FRAGMENTS: &[(&str, u128, u128)] = &[
    ("no", 0, 3),
    ("first", 1, 3),
    ("later", 3, 3),
    ("no", 0, 1),
    ("yes", 1, 1),
    ("not_later", 0, 2),
    ("later", 2, 2),
];

/// A name without its quotes, if it is in quotes.
pub(super) fn unquoted(text: &str) -> Option<String> {
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    let (mut out, mut escaped) = (String::with_capacity(inside.len()), false);
    for letter in inside.chars() {
        if escaped || letter != '\\' {
            out.push(letter);
            escaped = false;
        } else {
            escaped = true;
        }
    }
    Some(out)
}

/// Prints a name, in quotes if it could be taken for something else.
pub(super) fn show_name(out: &mut String, name: &str) {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let reserved = RESERVED.iter().any(|(word, _)| word.eq_ignore_ascii_case(name));
    if name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name.chars().all(plain)
        && !reserved
    {
        out.push_str(name);
        return;
    }
    show_quoted(out, name);
}

/// Prints a text in quotes.
pub(crate) fn show_quoted(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        if matches!(letter, '"' | '\\') {
            out.push('\\');
        }
        out.push(letter);
    }
    out.push('"');
}

/// A port: a number, a reserved word, or a name. Numbers above 0xff00 are those of OpenFlow 1.0.
pub(super) fn port(text: &str, names: &Names) -> Option<PortNo> {
    /// The first number of OpenFlow 1.0 that is no port.
    const FIRST: u32 = 0xff00;
    /// How far OpenFlow 1.1 moved those.
    const OFFSET: u32 = 0xffff_0000;
    if text.starts_with(|digit: char| digit.is_ascii_digit())
        && let Ok(number) = text.parse::<u32>()
    {
        let old = (FIRST..=0xffff).contains(&number);
        return Some(PortNo(if old { number + OFFSET } else { number }));
    }
    if let Some(name) = unquoted(text) {
        return names.port(&name);
    }
    let reserved = RESERVED.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
    reserved.map(|(_, number)| *number).or_else(|| names.port(text))
}

/// The same, or what is wrong.
pub(super) fn known_port(text: &str, names: &Names) -> Parsed<PortNo> {
    port(text, names).ok_or_else(|| {
        let words = RESERVED.iter().map(|(word, _)| *word).chain(names.ports());
        let fault = Fault::new(text, "no port has this name or number");
        fault.mend("write its number, its name, or in_port, all, flood, local, controller").meant(text, words)
    })
}

/// Prints a port.
pub(super) fn show_port(out: &mut String, number: PortNo, names: &Names) {
    if let Some((word, _)) = RESERVED.iter().find(|(_, reserved)| *reserved == number) {
        out.push_str(word);
    } else if let Some(name) = names.port_name(number) {
        show_name(out, name);
    } else {
        let _ = write!(out, "{number}");
    }
}

/// A table by number or name; 255 is none.
pub(super) fn table(text: &str, names: &Names) -> Parsed<Option<TableId>> {
    if let Ok(value) = number(text) {
        return match u8::try_from(value) {
            Ok(255) => Ok(None),
            Ok(id) => Ok(Some(TableId(id))),
            Err(_) => Err(Fault::new(text, "there is no such table").mend("tables are 0 to 254")),
        };
    }
    let name = unquoted(text);
    let found = names.table(name.as_deref().unwrap_or(text));
    found.map(Some).ok_or_else(|| {
        let fault = Fault::new(text, "no table has this name").mend("write its number, 0 to 254");
        fault.meant(text, names.tables())
    })
}

/// Prints a table.
pub(super) fn show_table(out: &mut String, id: TableId, names: &Names) {
    match names.table_name(id) {
        Some(name) => show_name(out, name),
        None => _ = write!(out, "{id}"),
    }
}

/// A service by name, or by number where no service has that name.
pub(super) fn service(text: &str, names: &Names) -> Parsed<u16> {
    let name = unquoted(text);
    if let Some(number) = names.service(name.as_deref().unwrap_or(text)) {
        return Ok(number);
    }
    if text.starts_with(|digit: char| digit.is_ascii_digit()) {
        return Ok(number_of(text, 16)? as u16);
    }
    let all: Vec<&str> = names.services().map(|(_, name)| name).collect();
    let known =
        if all.is_empty() { "there are none".to_owned() } else { format!("there are {}", all.join(", ")) };
    Err(Fault::new(text, "no service has this name").mend(known).meant(text, all))
}

/// Prints a service.
pub(super) fn show_service(out: &mut String, number: u16, names: &Names) {
    match names.service_name(number) {
        Some(name) => show_name(out, name),
        None => _ = write!(out, "{number}"),
    }
}

/// Reads a value of a field, with its mask. The mask has no bit that the field has not, and the value
/// none that the mask has not.
pub(super) fn read(spelling: &Spelling, text: &str, names: &Names) -> Parsed<Masked> {
    if text == "*" {
        return Ok((0, 0));
    }
    let about = spelling.field.about();
    let (value, mask) = match about.form {
        Form::Number | Form::Decimal => integer(spelling, text)?,
        Form::Port => (u128::from(known_port(text, names)?.0), u128::MAX),
        Form::Service => (u128::from(service(text, names)?), u128::MAX),
        Form::Mac => masked(text, mac, |_| None)?,
        Form::Ipv4 => masked(text, ipv4, |prefix| prefix_mask(prefix, 32))?,
        Form::Ipv6 => masked(text, ipv6, |prefix| prefix_mask(prefix, 128))?,
        Form::Fragment => fragment(text)?,
        Form::TcpFlags => flags(text, TCP_FLAGS)?,
        Form::CtState => flags(text, CT_STATES)?,
    };
    let whole = ones(u32::from(about.bits));
    let mask = mask & whole;
    if mask != 0 && mask != whole && !about.maskable {
        let what = format!("`{}` cannot be matched or set in part", spelling.name);
        return Err(Fault::new(text, what).mend("write the value without a mask"));
    }
    Ok((value & mask, mask))
}

/// A number and perhaps a mask, that fit into the field as this spelling sees it.
fn integer(spelling: &Spelling, text: &str) -> Parsed<Masked> {
    let bits = u32::from(spelling.field.about().bits);
    let low = if spelling.how == How::Tos { 2 } else { 0 };
    let (value, mask) = match text.split_once('/') {
        Some((value, mask)) => (value, Some(mask)),
        None => (text, None),
    };
    let number = number_of(value, bits + low)?;
    if number & ones(low) != 0 {
        return Err(Fault::new(text, "the two low bits of nw_tos must be zero")
            .mend("they are `nw_ecn`; or write `ip_dscp` with the value divided by 4"));
    }
    let mask = match mask {
        None => u128::MAX,
        Some("-1") => u128::MAX,
        // A mask may have bits that the field has not: the same in Open vSwitch.
        Some(mask) => number_of(mask, (bits + low).next_multiple_of(8).next_power_of_two())?,
    };
    Ok((number >> low, mask >> low))
}

fn prefix_mask(prefix: u32, bits: u32) -> Option<u128> {
    (prefix <= bits).then(|| ones(bits) & !ones(bits - prefix))
}

/// A value, and behind a slash a mask written like it or as the length of a prefix.
fn masked(
    text: &str,
    one: impl Fn(&str) -> Parsed<u128>,
    prefix: impl Fn(u32) -> Option<u128>,
) -> Parsed<Masked> {
    let Some((value, mask)) = text.split_once('/') else { return Ok((one(text)?, u128::MAX)) };
    let length = mask.parse::<u32>().ok();
    let mask = match length.map(&prefix) {
        Some(Some(mask)) => mask,
        Some(None) => return Err(Fault::new(mask, "a prefix cannot have this length")),
        None => one(mask)?,
    };
    Ok((one(value)?, mask))
}

fn mac(text: &str) -> Parsed<u128> {
    let wrong = || Fault::new(text, "this is no Ethernet address").mend("write it like 02:00:00:00:00:01");
    let (mut value, mut count) = (0, 0);
    for byte in text.split(':') {
        let ok = matches!(byte.len(), 1 | 2) && byte.bytes().all(|digit| digit.is_ascii_hexdigit());
        let byte = u8::from_str_radix(byte, 16).ok().filter(|_| ok).ok_or_else(wrong)?;
        value = value << 8 | u128::from(byte);
        count += 1;
        if count > 6 {
            return Err(wrong());
        }
    }
    if count == 6 { Ok(value) } else { Err(wrong()) }
}

fn ipv4(text: &str) -> Parsed<u128> {
    let wrong = || {
        Fault::new(text, "this is no IPv4 address")
            .mend("write it like 198.18.0.1, with a mask like 198.18.0.0/16")
    };
    let (mut value, mut count) = (0, 0);
    for byte in text.split('.') {
        let ok = matches!(byte.len(), 1..=3) && byte.bytes().all(|digit| digit.is_ascii_digit());
        let byte = byte.parse::<u8>().ok().filter(|_| ok).ok_or_else(wrong)?;
        value = value << 8 & ones(32) | u128::from(byte);
        count += 1;
    }
    if count == 4 { Ok(value) } else { Err(wrong()) }
}

fn ipv6(text: &str) -> Parsed<u128> {
    text.parse::<Ipv6Addr>().map(Ipv6Addr::to_bits).map_err(|_| {
        Fault::new(text, "this is no IPv6 address")
            .mend("write it like 2001:db8::1, with a mask like 2001:db8::/32")
    })
}

fn fragment(text: &str) -> Parsed<Masked> {
    let found = FRAGMENTS.iter().find(|(word, ..)| word.eq_ignore_ascii_case(text));
    found.map(|&(_, value, mask)| (value, mask)).ok_or_else(|| {
        Fault::new(text, "this says nothing about fragments").mend("write no, yes, first, later or not_later")
    })
}

/// `+syn-ack`, `syn|ack`, `0x12/0x3f` or `0x12`.
fn flags(text: &str, names: &[&str]) -> Parsed<Masked> {
    let bits = names.len() as u32;
    let unknown = |word: &str| {
        let fault = Fault::new(word, "no flag has this name").mend(format!("flags are {}", names.join(", ")));
        fault.meant(word, names.iter().copied())
    };
    let named = |word: &str| names.iter().position(|name| *name == word).map(|bit| 1 << bit);
    if let Some((value, mask)) = text.split_once('/') {
        return Ok((number_of(value, bits)?, number_of(mask, bits)?));
    }
    if !text.starts_with(['+', '-']) {
        let mut value = 0;
        for word in text.split('|') {
            value |= match (number(word), named(word)) {
                (Ok(number), _) if number <= ones(bits) => number,
                (Err(NoNumber::Syntax), Some(bit)) => bit,
                _ => return Err(unknown(word)),
            };
        }
        return Ok((value, u128::MAX));
    }
    let (mut value, mut mask, mut rest) = (0, 0, text);
    while !rest.is_empty() {
        let set = rest.starts_with('+');
        let word = &rest[1..];
        let end = word.find(['+', '-']).unwrap_or(word.len());
        let bit = named(&word[..end]).ok_or_else(|| unknown(&word[..end]))?;
        if mask & bit != 0 {
            return Err(Fault::new(&rest[..=end], "this flag is named twice"));
        }
        mask |= bit;
        value |= if set { bit } else { 0 };
        rest = &word[end..];
    }
    Ok((value, mask))
}

/// Prints a value as matches do, `name=value,`, if a bit of it counts.
pub(super) fn show_match(out: &mut String, name: &str, field: Field, (value, mask): Masked, names: &Names) {
    if mask == 0 {
        return;
    }
    let whole = mask == ones(field.bits());
    let _ = write!(out, "{name}=");
    let _ = match field.about().form {
        Form::TcpFlags => show_flags(out, (value, mask), TCP_FLAGS, whole),
        Form::CtState => show_flags(out, (value, mask), CT_STATES, whole),
        Form::Number if field == Field::CtZone => write!(out, "{value}"),
        Form::Number if whole => show_hex(out, value, field),
        Form::Decimal if whole => write!(out, "{value}"),
        Form::Number | Form::Decimal => show_hex(out, value, field)
            .and_then(|()| out.write_char('/'))
            .and_then(|()| show_hex(out, mask, field)),
        _ => {
            show(out, field, (value, mask), names);
            Ok(())
        }
    };
    out.push(',');
}

/// Hexadecimal; from 32 bits on, zero has no prefix.
fn show_hex(out: &mut String, value: u128, field: Field) -> std::fmt::Result {
    if value == 0 && field.bits() >= 32 { out.write_char('0') } else { write!(out, "{value:#x}") }
}

/// Prints a value as `set_field` does.
pub(super) fn show(out: &mut String, field: Field, (value, mask): Masked, names: &Names) {
    let whole = mask == ones(field.bits());
    let _ = match field.about().form {
        Form::Number | Form::Decimal => {
            let decimal = field.about().form == Form::Decimal || field == Field::VlanVid;
            let value =
                if decimal || value == 0 { write!(out, "{value}") } else { write!(out, "{value:#x}") };
            value.and_then(|()| if whole { Ok(()) } else { write!(out, "/{mask:#x}") })
        }
        Form::Port => {
            show_port(out, PortNo(value as u32), names);
            Ok(())
        }
        Form::Service => {
            show_service(out, value as u16, names);
            Ok(())
        }
        Form::Mac => show_mac(out, value).and_then(|()| {
            if whole { Ok(()) } else { out.write_char('/').and_then(|()| show_mac(out, mask)) }
        }),
        Form::Ipv4 => {
            let _ = write!(out, "{}", Ipv4Addr::from_bits(value as u32));
            show_mask(out, mask, 32, |mask| Ipv4Addr::from_bits(mask as u32).to_string())
        }
        Form::Ipv6 => {
            let _ = write!(out, "{}", Ipv6Addr::from_bits(value));
            show_mask(out, mask, 128, |mask| Ipv6Addr::from_bits(mask).to_string())
        }
        Form::Fragment => {
            let word =
                FRAGMENTS.iter().find(|row| (row.1, row.2) == (value, mask)).map_or("<error>", |row| row.0);
            write!(out, "{word}")
        }
        Form::TcpFlags => show_flags(out, (value, mask), TCP_FLAGS, whole),
        Form::CtState => show_flags(out, (value, mask), CT_STATES, whole),
    };
}

fn show_mac(out: &mut String, value: u128) -> std::fmt::Result {
    let [_, _, a, b, c, d, e, f] = (value as u64).to_be_bytes();
    write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

fn show_mask(out: &mut String, mask: u128, bits: u32, address: impl Fn(u128) -> String) -> std::fmt::Result {
    let length = mask.count_ones();
    match prefix_mask(length, bits) {
        Some(_) if length == bits => Ok(()),
        Some(prefix) if prefix == mask => write!(out, "/{length}"),
        _ => write!(out, "/{}", address(mask)),
    }
}

fn show_flags(out: &mut String, (value, mask): Masked, names: &[&str], whole: bool) -> std::fmt::Result {
    if whole && value == 0 {
        return out.write_char('0');
    }
    let mut first = true;
    for (bit, name) in names.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 != 0) {
        let set = value >> bit & 1 != 0;
        match (whole, set) {
            (true, true) => write!(out, "{}{name}", if first { "" } else { "|" })?,
            (true, false) => continue,
            (false, set) => write!(out, "{}{name}", if set { '+' } else { '-' })?,
        }
        first = false;
    }
    Ok(())
}
