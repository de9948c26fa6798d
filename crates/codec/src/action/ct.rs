//! Nicira's `ct` and `nat` (`ovs-actions(7)`): connections are tracked and translated.
//!
//! Actions of flow entries do not have them; they are read here all the same, so that what is malformed is
//! told from what is not supported.

use super::EXPERIMENTER;
use super::nicira::places;
use super::read::{Known, exactly, item, part, read_actions};
use super::write::{Unsayable, put_actions};
use crate::cursor::{Cursor, Decoded, Fault, Put};
use crate::field::{put_header, read_header, row_for};
use crate::{Code, NICIRA, Version};
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_flow::{Match, Subfield};
use weir_openflow::{Action, TableId};

/// Nicira's number of `ct`.
const CT: u16 = 35;
/// Nicira's number of `nat`.
const NAT: u16 = 36;

/// Connection tracking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ct {
    /// The connection is kept.
    pub commit: bool,
    /// A connection that began the other way round is replaced.
    pub force: bool,
    /// In which zone.
    pub zone: CtZone,
    /// The table that the packet comes to afterwards, with its connection's state; none, and it goes on as it was.
    pub table: Option<TableId>,
    /// The port by which a helper is known (21: FTP); 0 for none.
    pub helper: u16,
    /// What is done to the connection.
    pub steps: Vec<CtStep>,
}

/// Where connections are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtZone {
    /// This zone.
    Number(u16),
    /// The zone whose number these 16 bits hold.
    Bits(Subfield),
}

/// What is done to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CtStep {
    /// Its addresses are translated.
    Nat(Nat),
    /// Its mark or label is set.
    Set(Action),
}

/// Address translation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nat {
    /// Sources are translated.
    pub source: bool,
    /// Destinations are.
    pub destination: bool,
    /// The same host gets the same address after a restart.
    pub persistent: bool,
    /// The port follows from a hash.
    pub hash: bool,
    /// The port is random.
    pub random: bool,
    /// To which addresses.
    pub range: NatRange,
    /// To which ports: the least and the greatest, each 0 if not given.
    pub ports: (u16, u16),
}

/// Addresses to translate to: the least and, if there are several, the greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NatRange {
    /// As the connection says.
    #[default]
    None,
    /// IPv4.
    Ipv4(Ipv4Addr, Option<Ipv4Addr>),
    /// IPv6.
    Ipv6(Ipv6Addr, Option<Ipv6Addr>),
}

impl Ct {
    /// Reads the action, with its header, as a version has it.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn decode(bytes: &[u8], version: Version) -> Result<Self, Fault> {
        let mut bytes = Cursor::new(bytes, Code::ActionLength);
        let (kind, mut body) = item(&mut bytes)?;
        if kind != EXPERIMENTER || body.u32()? != NICIRA || body.u16()? != CT || !bytes.is_empty() {
            return Err(Fault::new(Code::ActionType, "this is not `ct`"));
        }
        Self::read(body, version, Known::of(&Match::any()))
    }

    pub(super) fn read(mut body: Cursor<'_>, version: Version, known: Known) -> Decoded<Self> {
        let flags = body.u16()?;
        let has_source = body.with(Code::ActionLength).u32()? != 0;
        let zone = if has_source {
            let row = read_header(&mut body)?;
            let (from, bits) = places(body.u16()?);
            let zone = part(row, from, bits)?;
            if zone.bits != 16 {
                return Err(Fault::new(Code::ActionFieldLength, "a zone has 16 bits"));
            }
            CtZone::Bits(zone)
        } else {
            body.skip(4)?;
            CtZone::Number(body.u16()?)
        };
        let table = body.u8()?;
        body.skip(3)?;
        let helper = body.u16()?;
        if flags & !3 != 0 || flags == 2 {
            return Err(Fault::new(
                Code::ActionArgument,
                "flags of `ct` are unknown, or `force` is without `commit`",
            ));
        }
        let mut known = known.inside()?;
        known.tracked = true;
        let mut steps = Vec::new();
        while !body.is_empty() {
            let mut peek = body;
            let (kind, mut inside) = item(&mut peek)?;
            let length = body.len() - peek.len();
            let one = body.part(length)?;
            let nat = kind == EXPERIMENTER
                && inside.u32().is_ok_and(|whose| whose == NICIRA)
                && inside.u16().is_ok_and(|kind| kind == NAT);
            if nat {
                steps.push(CtStep::Nat(Nat::read(inside)?));
            } else {
                steps.extend(read_actions(one, version, known)?.into_iter().map(CtStep::Set));
            }
        }
        Ok(Self {
            commit: flags & 1 != 0,
            force: flags & 2 != 0,
            zone,
            table: Some(TableId(table)).filter(|table| table.0 != 255),
            helper,
            steps,
        })
    }

    /// Writes the action, with its header.
    ///
    /// # Errors
    ///
    /// A step that the version cannot say.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), crate::EncodeError> {
        self.put(version, out).map_err(|Unsayable(what)| crate::EncodeError::Unsayable { what, version })
    }

    fn put(&self, version: Version, out: &mut Vec<u8>) -> Result<(), Unsayable> {
        let start = out.open(EXPERIMENTER);
        out.u32(NICIRA);
        out.u16(CT);
        out.u16(u16::from(self.commit) | u16::from(self.force) << 1);
        match self.zone {
            CtZone::Number(number) => {
                out.u32(0);
                out.u16(number);
            }
            CtZone::Bits(bits) => {
                put_header(out, row_for(bits.field, Version::V10), false);
                out.u16(u16::from(bits.from) << 6 | u16::from(bits.bits - 1));
            }
        }
        out.u8(self.table.map_or(255, |table| table.0));
        out.zeros(3);
        out.u16(self.helper);
        for step in &self.steps {
            match step {
                CtStep::Nat(nat) => nat.put(out),
                CtStep::Set(action) => put_actions(out, version, std::slice::from_ref(action), false)?,
            }
        }
        out.close(start);
        Ok(())
    }
}

impl Nat {
    fn read(mut body: Cursor<'_>) -> Decoded<Self> {
        let wrong = |what| Err(Fault::new(Code::ActionArgument, what));
        body.skip(2)?;
        let (flags, present) = (body.u16()?, body.u16()?);
        if flags & !0x1f != 0 || flags & 3 == 3 || flags & 0x18 == 0x18 || present & !0x3f != 0 {
            return wrong("flags of `nat` are unknown or exclude each other");
        }
        let has = |bit: u16| present & bit != 0;
        let v4 = |body: &mut Cursor<'_>| body.u32().map(Ipv4Addr::from_bits);
        let v6 = |body: &mut Cursor<'_>| body.array().map(Ipv6Addr::from);
        let range = match present & 0xf {
            0 => NatRange::None,
            1 => NatRange::Ipv4(v4(&mut body)?, None),
            3 => NatRange::Ipv4(v4(&mut body)?, Some(v4(&mut body)?)),
            4 => NatRange::Ipv6(v6(&mut body)?, None),
            12 => NatRange::Ipv6(v6(&mut body)?, Some(v6(&mut body)?)),
            _ => return wrong("the addresses of `nat` are of both kinds, or have no least"),
        };
        let least = if has(16) { body.u16()? } else { 0 };
        let greatest = if has(32) { body.u16()? } else { 0 };
        let ordered = match range {
            NatRange::Ipv4(low, Some(high)) => low <= high,
            NatRange::Ipv6(low, Some(high)) => low <= high,
            _ => true,
        };
        if !ordered || greatest != 0 && greatest < least {
            return wrong("a range of `nat` ends before it begins");
        }
        if flags & 3 == 0 && (range != NatRange::None || present & 0x30 != 0 || flags != 0) {
            return wrong("`nat` says where to, but neither of sources nor of destinations");
        }
        super::read::zeros(&mut body)?;
        exactly(&body, 0)?;
        Ok(Self {
            source: flags & 1 != 0,
            destination: flags & 2 != 0,
            persistent: flags & 4 != 0,
            hash: flags & 8 != 0,
            random: flags & 16 != 0,
            range,
            ports: (least, greatest),
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        let start = out.open(EXPERIMENTER);
        out.u32(NICIRA);
        out.u16(NAT);
        out.zeros(2);
        let flags = [self.source, self.destination, self.persistent, self.hash, self.random];
        out.u16(flags.iter().rev().fold(0, |bits, flag| bits << 1 | u16::from(*flag)));
        let addresses = match self.range {
            NatRange::None => 0,
            NatRange::Ipv4(_, greatest) => 1 | u16::from(greatest.is_some()) << 1,
            NatRange::Ipv6(_, greatest) => 4 | u16::from(greatest.is_some()) << 3,
        };
        let (least, greatest) = self.ports;
        out.u16(addresses | u16::from(least != 0) << 4 | u16::from(greatest != 0) << 5);
        match self.range {
            NatRange::None => {}
            NatRange::Ipv4(least, greatest) => {
                out.extend_from_slice(&least.octets());
                out.extend(greatest.iter().flat_map(Ipv4Addr::octets));
            }
            NatRange::Ipv6(least, greatest) => {
                out.extend_from_slice(&least.octets());
                out.extend(greatest.iter().flat_map(Ipv6Addr::octets));
            }
        }
        for port in [least, greatest].into_iter().filter(|port| *port != 0) {
            out.u16(port);
        }
        out.pad(start);
        out.close(start);
    }
}
