//! Matches from the wire.

use super::{EXPERIMENTER, How, Row, row_of};
use crate::Code;
use crate::cursor::{Cursor, Decoded, Fault, from_port16};
use weir_flow::{Field, Key, Mask, Match, Needs, ones};

/// Which error is meant where a field is wrong.
#[derive(Clone, Copy)]
pub(super) struct Faults {
    field: Code,
    length: Code,
    value: Code,
}

/// In a match.
const MATCH: Faults = Faults { field: Code::MatchField, length: Code::MatchLength, value: Code::MatchValue };
/// In an action.
const ACTION: Faults =
    Faults { field: Code::ActionFieldType, length: Code::ActionFieldLength, value: Code::ActionFieldValue };

/// The number and length of Nicira's cookie, which a match of hers may contain as if it were a field.
const COOKIE: u32 = 0x0001_3c08;

/// Bytes of the widest number that is read.
const WIDEST: usize = 16;

/// A cookie and which bits of it count.
pub(crate) type Cookie = (u64, u64);

/// A header: what it names, whether a mask follows, and how long value and mask are.
struct Header {
    raw: u32,
    row: Option<&'static Row>,
    masked: bool,
    length: usize,
}

fn header(bytes: &mut Cursor<'_>) -> Decoded<Header> {
    let raw = bytes.u32()?;
    let (class, number, masked) = ((raw >> 16) as u16, (raw >> 9) as u8 & 0x7f, raw & 0x100 != 0);
    let mut length = (raw & 0xff) as usize;
    let mut experimenter = 0;
    if class == EXPERIMENTER {
        length = length.checked_sub(4).ok_or(bytes.fault("a field is shorter than its experimenter"))?;
        experimenter = bytes.u32()?;
    }
    Ok(Header { raw, row: row_of(class, number, experimenter), masked, length })
}

/// The header of a field that an action names.
pub(crate) fn read_header(bytes: &mut Cursor<'_>) -> Decoded<&'static Row> {
    let Header { row, masked, length, .. } = header(bytes)?;
    let row = row.ok_or(Fault::new(ACTION.field, "there is no such field"))?;
    if masked {
        return Err(Fault::new(Code::ActionFieldMask, "a mask cannot stand here"));
    }
    if !row.fits(length) {
        return Err(Fault::new(ACTION.length, "a field has another length"));
    }
    Ok(row)
}

/// A field with its value and mask, as actions set them.
pub(crate) fn read_value(bytes: &mut Cursor<'_>, may_mask: bool) -> Decoded<(Field, u128, u128)> {
    let head = header(bytes)?;
    let row = head.row.ok_or(Fault::new(ACTION.field, "there is no such field"))?;
    if head.masked && !may_mask {
        return Err(Fault::new(Code::ActionFieldMask, "a mask cannot stand here"));
    }
    let (value, mask) = value(bytes, &head, row, ACTION)?;
    Ok((row.field, value, mask))
}

/// Value and mask behind a header, as the key has them.
fn value(bytes: &mut Cursor<'_>, head: &Header, row: &Row, faults: Faults) -> Decoded<(u128, u128)> {
    let values = 1 + usize::from(head.masked);
    let size = head.length / values;
    if !head.length.is_multiple_of(values) || !row.fits(size) {
        return Err(Fault::new(faults.length, "a field has another length"));
    }
    let number = |bytes: &mut Cursor<'_>| {
        // What a longer value has in front is zero, or it is too great for the field.
        let mut front = bytes.part(size.saturating_sub(WIDEST))?;
        let rest = bytes.number(size.min(WIDEST))?;
        if front.all().iter().any(|byte| *byte != 0) { Ok(u128::MAX) } else { Ok(rest) }
    };
    let value = number(bytes)?;
    let whole = ones((size as u32 * 8).min(128));
    let mask = if head.masked { number(bytes)? } else { whole };
    let field = row.field;
    if value & !mask != 0 && faults.field == Code::MatchField {
        return Err(Fault::new(Code::MatchWildcards, "a value has bits that its mask has not"));
    }
    // Actions may say them; they are not set.
    let value = value & mask;
    if value > ones(row.bits()) {
        return Err(Fault::new(faults.value, "a value is greater than its field"));
    }
    let bits = ones(row.bits());
    // A short value without a mask stands for all of the field, zeros in front.
    let mask = if head.masked { mask } else { mask | bits };
    if mask & bits != bits && mask & bits != 0 && !field.about().maskable {
        let code = if faults.field == Code::MatchField { Code::MatchMask } else { Code::ActionFieldMask };
        return Err(Fault::new(code, "this field has no mask"));
    }
    match row.how {
        How::Plain | How::AnyLength if value > ones(field.bits()) => {
            Err(Fault::new(faults.value, "a value has bits that no packet can have"))
        }
        How::Plain | How::AnyLength => Ok((value, mask & ones(field.bits()))),
        How::Tos if value & 3 != 0 => {
            Err(Fault::new(faults.value, "the two low bits of the type of service must be zero"))
        }
        How::Tos => Ok((value >> 2, mask >> 2 & ones(field.bits()))),
        How::Port16 if mask == 0 => Ok((0, 0)),
        How::Port16 => Ok((u128::from(from_port16(value as u16)), ones(field.bits()))),
    }
}

/// What a match demands so far.
struct Demands {
    key: Key,
    mask: Mask,
}

impl Demands {
    /// The value of a field that is matched as a whole.
    fn exact(&self, field: Field) -> Option<u128> {
        (field.mask_of(&self.mask) == ones(field.bits())).then(|| field.get(&self.key))
    }

    fn protocol(&self, number: u128) -> bool {
        self.has(Needs::Ip) && self.exact(Field::NwProto) == Some(number)
    }

    fn icmpv6(&self, kind: u128) -> bool {
        self.has(Needs::Icmpv6) && self.exact(Field::Icmpv6Type) == Some(kind)
    }

    /// Whether it demands what a field needs (OpenFlow 1.3.5, section 7.2.3.8).
    fn has(&self, needs: Needs) -> bool {
        let ether = |types: &[u128]| self.exact(Field::EthType).is_some_and(|it| types.contains(&it));
        match needs {
            Needs::Nothing => true,
            Needs::Vlan => {
                let tag = 0x1000;
                Field::VlanTci.mask_of(&self.mask) & tag != 0 && Field::VlanTci.get(&self.key) & tag != 0
            }
            Needs::Mpls => ether(&[0x8847, 0x8848]),
            Needs::Pbb => ether(&[0x88e7]),
            Needs::Arp => ether(&[0x0806, 0x8035]),
            Needs::Ipv4 => ether(&[0x0800]),
            Needs::Ipv6 => ether(&[0x86dd]),
            Needs::Ip => ether(&[0x0800, 0x86dd]),
            Needs::Tcp => self.protocol(6),
            Needs::Udp => self.protocol(17),
            Needs::Sctp => self.protocol(132),
            Needs::Icmp => ether(&[0x0800]) && self.protocol(1),
            Needs::Icmpv6 => ether(&[0x86dd]) && self.protocol(58),
            Needs::Nd => self.icmpv6(135) || self.icmpv6(136),
            Needs::NdSolicit => self.icmpv6(135),
            Needs::NdAdvert => self.icmpv6(136),
        }
    }

    fn add(&mut self, row: &Row, value: u128, mask: u128) -> Decoded<()> {
        let field = row.field;
        if field.mask_of(&self.mask) != 0 {
            return Err(Fault::new(Code::MatchTwice, "a field is matched twice"));
        }
        if !self.has(field.about().needs) {
            return Err(Fault::new(Code::MatchPrerequisite, "what a field needs is not matched before it"));
        }
        field.set_masked(&mut self.key, value, mask);
        field.examine(&mut self.mask, mask);
        Ok(())
    }

    fn finish(&self) -> Match {
        let mut matching = Match::any();
        for (place, mask) in self.mask.iter() {
            matching.demand_bits(place, self.key.word(place), mask);
        }
        matching
    }
}

fn demands(mut bytes: Cursor<'_>, packet: bool) -> Decoded<(Match, Option<Cookie>)> {
    let mut demands = Demands { key: Key::new(), mask: Mask::new() };
    let mut cookie = None;
    while !bytes.is_empty() {
        let head = header(&mut bytes)?;
        if head.raw & !0x1ff == COOKIE & !0x1ff && head.length == 8 * (1 + usize::from(head.masked)) {
            let value = bytes.u64()?;
            let mask = if head.masked { bytes.u64()? } else { u64::MAX };
            if cookie.replace((value & mask, mask)).is_some() {
                return Err(Fault::new(Code::MatchTwice, "the cookie is matched twice"));
            }
            continue;
        }
        let row = head.row.ok_or(Fault::new(MATCH.field, "there is no such field"))?;
        let (value, mask) = value(&mut bytes, &head, row, MATCH)?;
        if packet {
            // What a packet-in says of its packet needs no prerequisites.
            row.field.set_masked(&mut demands.key, value, mask);
            row.field.examine(&mut demands.mask, mask);
        } else if mask != 0 {
            demands.add(row, value, mask)?;
        }
    }
    Ok((demands.finish(), cookie))
}

/// A match of OpenFlow 1.3 and later (`struct ofp_match`), with its padding.
pub(crate) fn read_match(bytes: &mut Cursor<'_>) -> Decoded<Match> {
    match_of(bytes, false)
}

/// The fields of a packet in a packet-in or packet-out, written as a match.
pub(crate) fn read_fields(bytes: &mut Cursor<'_>) -> Decoded<Match> {
    match_of(bytes, true)
}

fn match_of(bytes: &mut Cursor<'_>, packet: bool) -> Decoded<Match> {
    let mut here = bytes.with(Code::MatchLength);
    let (kind, length) = (here.u16()?, usize::from(here.u16()?));
    if kind != 1 {
        return Err(Fault::new(Code::MatchType, "this kind of match is not supported"));
    }
    let inside = length.checked_sub(4).ok_or(here.fault("a match is shorter than its header"))?;
    let fields = here.part(inside)?;
    here.skip(length.next_multiple_of(8) - length)?;
    bytes.skip(bytes.len() - here.len())?;
    match demands(fields, packet)? {
        (matching, None) => Ok(matching),
        _ => Err(Fault::new(Code::MatchField, "the cookie is no field here")),
    }
}

/// A match of Nicira's, of so many bytes, with its padding.
pub(crate) fn read_nxm(
    bytes: &mut Cursor<'_>,
    length: usize,
    packet: bool,
) -> Decoded<(Match, Option<Cookie>)> {
    let mut here = bytes.with(Code::NxmInvalid);
    let fields = here.part(length)?.with(Code::MatchLength);
    here.skip(length.next_multiple_of(8) - length)?;
    bytes.skip(bytes.len() - here.len())?;
    demands(fields, packet)
}

/// The fields of a packet, of so many bytes without padding.
pub(crate) fn read_unpadded(bytes: &mut Cursor<'_>, length: usize) -> Decoded<Match> {
    demands(bytes.part(length)?, true).map(|(fields, _)| fields)
}
