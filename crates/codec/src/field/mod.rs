//! Fields on the wire: OXM and NXM headers (OpenFlow 1.3.5, section 7.2.3; `ovs-fields(7)`).
//!
//! One table, [`ROWS`], is the home of all of them. A header is found by its class and number through
//! small arrays made at compile time; what is sent for a field follows from the version.

mod read;
mod write;

pub(crate) use read::{read_fields, read_header, read_match, read_nxm, read_unpadded, read_value};
pub(crate) use write::{put_fields, put_header, put_match, put_nxm, put_unpadded, put_value};

use crate::{ONF, Version, WEIR};
use weir_flow::{Field, ones};

/// How the wire sees a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// As the key has it.
    Plain,
    /// With two more bits, which are zero, to the right (`NXM_OF_IP_TOS`).
    Tos,
    /// A port of OpenFlow 1.0, of 16 bits.
    Port16,
    /// Of any length up to [`LONGEST`]: Nicira's tunnel metadata.
    AnyLength,
}

/// A way of writing a field.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) field: Field,
    /// The class of its header.
    pub(crate) class: u16,
    /// Its number in the class.
    pub(crate) number: u8,
    /// Bytes of a value.
    pub(crate) bytes: u8,
    pub(crate) how: How,
    /// The first version that writes it so.
    since: Version,
    /// Whose it is, in class [`EXPERIMENTER`].
    pub(crate) experimenter: u32,
}

/// Nicira's first class.
const NXM0: u16 = 0x0000;
/// Nicira's second class.
const NXM1: u16 = 0x0001;
/// OpenFlow's class.
const BASIC: u16 = 0x8000;
/// Whose fields are that are no experimenter's.
const NOBODY: u32 = 0;
/// Registers, as OpenFlow 1.5 has them.
const REGISTERS: u16 = 0x8001;
/// Bytes of a field of tunnel metadata at most, and the length by which actions name one
/// (`ovs-fields(7)`, "Tunnel metadata").
pub(crate) const LONGEST: usize = 124;
/// Fields of experimenters.
pub(crate) const EXPERIMENTER: u16 = 0xffff;

macro_rules! rows {
    ($($class:ident [$id:ident] $since:ident { $($number:literal $field:ident $bytes:literal $($how:ident)?;)* })*) => {
        /// All ways of writing a field. Of several in one version, the first is sent.
        pub(crate) const ROWS: &[Row] = &[$($(Row {
            field: Field::$field,
            class: $class,
            number: $number,
            bytes: $bytes,
            how: rows!(@how $($how)?),
            since: Version::$since,
            experimenter: $id,
        },)*)*];
    };
    (@how) => { How::Plain };
    (@how $how:ident) => { How::$how };
}

rows! {
    NXM0[NOBODY] V10 {
        0 InPort 2 Port16; 1 EthDst 6; 2 EthSrc 6; 3 EthType 2; 4 VlanTci 2; 5 NwTos 1 Tos; 6 NwProto 1;
        7 NwSrc 4; 8 NwDst 4; 9 TcpSrc 2; 10 TcpDst 2; 11 UdpSrc 2; 12 UdpDst 2; 13 IcmpType 1; 14 IcmpCode 1;
        15 ArpOp 2; 16 ArpSpa 4; 17 ArpTpa 4;
    }
    NXM1[NOBODY] V10 {
        0 Reg0 4; 1 Reg1 4; 2 Reg2 4; 3 Reg3 4; 4 Reg4 4; 5 Reg5 4; 6 Reg6 4; 7 Reg7 4;
        8 Reg8 4; 9 Reg9 4; 10 Reg10 4; 11 Reg11 4; 12 Reg12 4; 13 Reg13 4; 14 Reg14 4; 15 Reg15 4;
        16 TunId 8; 17 ArpSha 6; 18 ArpTha 6; 19 Ipv6Src 16; 20 Ipv6Dst 16; 21 Icmpv6Type 1; 22 Icmpv6Code 1;
        23 NdTarget 16; 24 NdSll 6; 25 NdTll 6; 26 NwFrag 1; 27 Ipv6Label 4; 28 NwEcn 1; 29 NwTtl 1;
        30 MplsTtl 1; 31 TunSrc 4; 32 TunDst 4; 33 PktMark 4; 34 TcpFlags 2; 36 RecircId 4; 37 ConjId 4;
        101 SfStage 1 AnyLength; 102 SfAction 2 AnyLength; 103 SfMetadata 4 AnyLength;
        105 CtState 4; 106 CtZone 2; 107 CtMark 4; 108 CtLabel 16;
        111 Xxreg0 16; 112 Xxreg1 16; 113 Xxreg2 16; 114 Xxreg3 16;
        119 CtNwProto 1; 120 CtNwSrc 4; 121 CtNwDst 4; 122 CtIpv6Src 16; 123 CtIpv6Dst 16;
        124 CtTpSrc 2; 125 CtTpDst 2;
    }
    BASIC[NOBODY] V13 {
        0 InPort 4; 2 Metadata 8; 3 EthDst 6; 4 EthSrc 6; 5 EthType 2; 6 VlanVid 2; 7 VlanPcp 1;
        8 NwTos 1; 9 NwEcn 1; 10 NwProto 1; 11 NwSrc 4; 12 NwDst 4; 13 TcpSrc 2; 14 TcpDst 2;
        15 UdpSrc 2; 16 UdpDst 2; 17 SctpSrc 2; 18 SctpDst 2; 19 IcmpType 1; 20 IcmpCode 1;
        21 ArpOp 2; 22 ArpSpa 4; 23 ArpTpa 4; 24 ArpSha 6; 25 ArpTha 6; 26 Ipv6Src 16; 27 Ipv6Dst 16;
        28 Ipv6Label 4; 29 Icmpv6Type 1; 30 Icmpv6Code 1; 31 NdTarget 16; 32 NdSll 6; 33 NdTll 6;
        34 MplsLabel 4; 35 MplsTc 1; 36 MplsBos 1; 37 PbbIsid 3; 38 TunId 8; 39 Ipv6Exthdr 2;
    }
    BASIC[NOBODY] V15 { 42 TcpFlags 2; 43 ActsetOutput 4; }
    REGISTERS[NOBODY] V13 {
        0 Xreg0 8; 1 Xreg1 8; 2 Xreg2 8; 3 Xreg3 8; 4 Xreg4 8; 5 Xreg5 8; 6 Xreg6 8; 7 Xreg7 8;
    }
    EXPERIMENTER[ONF] V13 { 42 TcpFlags 2; 43 ActsetOutput 4; }
    EXPERIMENTER[WEIR] V10 { 0 SfStage 1; 1 SfAction 2; 2 SfMetadata 4; }
}

/// No row.
const NONE: u8 = u8::MAX;

/// The rows of a class by number, of the experimenter's if it is one's.
const fn by_number(class: u16, experimenter: u32) -> [u8; 128] {
    let mut places = [NONE; 128];
    let mut place = 0;
    while place < ROWS.len() {
        let row = &ROWS[place];
        if row.class == class && row.experimenter == experimenter {
            places[row.number as usize] = place as u8;
        }
        place += 1;
    }
    places
}

/// The row that a version sends for each field: the newest that it knows, or, where it knows none, the
/// first.
const fn by_field(version: Version) -> [u8; Field::ALL.len()] {
    let mut places = [NONE; Field::ALL.len()];
    let mut place = 0;
    while place < ROWS.len() {
        let row = &ROWS[place];
        let best = &mut places[row.field as usize];
        let newer = *best != NONE
            && row.since as u8 <= version as u8
            && (ROWS[*best as usize].since as u8) < row.since as u8;
        if *best == NONE || newer {
            *best = place as u8;
        }
        place += 1;
    }
    places
}

/// Every field can be written: if this does not compile, it names one that has no row.
const _: () = {
    let (places, mut at) = (by_field(Version::V13), 0);
    while at < places.len() {
        if places[at] == NONE {
            panic!("{}", Field::ALL[at].name());
        }
        at += 1;
    }
};

/// The row of a header.
pub(crate) fn row_of(class: u16, number: u8, experimenter: u32) -> Option<&'static Row> {
    static FIRST: [u8; 128] = by_number(NXM0, NOBODY);
    static SECOND: [u8; 128] = by_number(NXM1, NOBODY);
    static OWN: [u8; 128] = by_number(BASIC, NOBODY);
    static REGISTER: [u8; 128] = by_number(REGISTERS, NOBODY);
    static ONFS: [u8; 128] = by_number(EXPERIMENTER, ONF);
    static WEIRS: [u8; 128] = by_number(EXPERIMENTER, WEIR);
    let places = match (class, experimenter) {
        (NXM0, _) => &FIRST,
        (NXM1, _) => &SECOND,
        (BASIC, _) => &OWN,
        (REGISTERS, _) => &REGISTER,
        (EXPERIMENTER, ONF) => &ONFS,
        (EXPERIMENTER, WEIR) => &WEIRS,
        _ => return None,
    };
    ROWS.get(usize::from(places[usize::from(number & 0x7f)]))
}

/// The row that a version sends for a field.
pub(crate) fn row_for(field: Field, version: Version) -> &'static Row {
    static V10: [u8; Field::ALL.len()] = by_field(Version::V10);
    static V13: [u8; Field::ALL.len()] = by_field(Version::V13);
    static V15: [u8; Field::ALL.len()] = by_field(Version::V15);
    let places = match version {
        Version::V10 => &V10,
        Version::V13 | Version::V14 => &V13,
        Version::V15 => &V15,
    };
    &ROWS[usize::from(places[field as usize])]
}

impl Row {
    /// Bits of a value by this row; the key's field may have fewer.
    pub(crate) fn bits(&self) -> u32 {
        match self.how {
            How::Tos => 8,
            How::Port16 => 16,
            // Whole bytes, where the field is narrower on the wire's side too.
            How::Plain | How::AnyLength => match self.field {
                Field::CtState => 32,
                field => field.bits(),
            },
        }
    }

    /// The header, without that of an experimenter.
    pub(crate) fn header(&self, masked: bool) -> u32 {
        let extra = if self.class == EXPERIMENTER { 4 } else { 0 };
        let length = u32::from(self.bytes) * (1 + u32::from(masked)) + extra;
        u32::from(self.class) << 16 | u32::from(self.number) << 9 | u32::from(masked) << 8 | length
    }

    /// Whether a value may be so many bytes long.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        match self.how {
            How::AnyLength => (1..=LONGEST).contains(&bytes),
            _ => bytes == usize::from(self.bytes),
        }
    }

    /// A value of the key's field as the wire has it.
    fn to_wire(&self, value: u128) -> u128 {
        match self.how {
            How::Plain | How::AnyLength => value,
            How::Tos => value << 2,
            How::Port16 => u128::from(crate::cursor::to_port16(value as u32)),
        }
    }

    /// A mask likewise; a whole mask is all ones.
    fn mask_to_wire(&self, mask: u128) -> u128 {
        if mask == ones(self.field.bits()) { ones(u32::from(self.bytes) * 8) } else { mask }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;
    use crate::cursor::Cursor;
    use weir_flow::Match;
    use weir_flow::samples::needed;

    #[test]
    fn every_field_is_written_in_every_version_and_read_back_from_its_header() {
        for &field in Field::ALL {
            for &version in Version::ALL {
                let row = row_for(field, version);
                assert_eq!(row.field, field, "{field:?} {version:?}");
                let found = row_of(row.class, row.number, row.experimenter);
                assert!(found.is_some_and(|found| std::ptr::eq(found, row)), "{field:?} {version:?}");
            }
        }
        assert_eq!(row_for(Field::NwSrc, Version::V10).header(true), 0x0000_0f08);
        assert_eq!(row_for(Field::NwSrc, Version::V13).header(false), 0x8000_1604);
        assert_eq!(row_for(Field::TcpFlags, Version::V14).header(false), 0xffff_5406);
        assert_eq!(row_for(Field::TcpFlags, Version::V15).header(false), 0x8000_5402);
        assert_eq!(row_for(Field::SctpSrc, Version::V10).header(false), 0x8000_2202);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri")]
    fn every_field_is_written_beside_what_it_needs_and_read_back() {
        for (&field, &version) in
            Field::ALL.iter().flat_map(|it| Version::ALL.iter().map(move |version| (it, version)))
        {
            let value = match field {
                Field::VlanTci | Field::VlanVid => 0x1005,
                _ => 5 & ones(field.bits()),
            };
            let mut written = Match::any();
            for (field, value) in needed(field.about().needs).into_iter().chain([(field, value)]) {
                written.demand(field, value, u128::MAX);
            }
            let mut bytes = Vec::new();
            let read = if version == Version::V10 {
                let length = put_nxm(&mut bytes, &written, (0, 0));
                read_nxm(&mut Cursor::new(&bytes, Code::BadLength), length, false).map(|(read, _)| read)
            } else {
                put_match(&mut bytes, version, &written);
                read_match(&mut Cursor::new(&bytes, Code::BadLength))
            };
            let read = read.unwrap_or_else(|fault| panic!("{} {version:?}: {fault:?}", field.name()));
            assert_eq!(read.field(field), (value, ones(field.bits())), "{} {version:?}", field.name());
        }
    }

    #[test]
    fn our_own_fields_have_the_headers_that_the_documentation_says() {
        for &version in Version::ALL {
            let header = |field, masked| row_for(field, version).header(masked);
            let stage = (header(Field::SfStage, false), header(Field::SfStage, true));
            assert_eq!(stage, (0x0001_ca01, 0x0001_cb02));
            assert_eq!(header(Field::SfAction, false), 0x0001_cc02);
            let both = (header(Field::SfMetadata, false), header(Field::SfMetadata, true));
            assert_eq!(both, (0x0001_ce04, 0x0001_cf08));
        }
        for (number, field, plain, masked) in [
            (0, Field::SfStage, 0xffff_0005, 0xffff_0106),
            (1, Field::SfAction, 0xffff_0206, 0xffff_0308),
            (2, Field::SfMetadata, 0xffff_0408, 0xffff_050c),
        ] {
            let row = row_of(EXPERIMENTER, number, WEIR).expect("it is read");
            assert_eq!((row.field, row.header(false), row.header(true)), (field, plain, masked));
        }
    }
}
