//! Versions of OpenFlow, and how two sides agree on one.

use crate::cursor::{Cursor, Fault, Put};

/// A version that this codec speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// OpenFlow 1.0, with Nicira's extensions.
    V10 = 1,
    /// OpenFlow 1.3.
    V13 = 4,
    /// OpenFlow 1.4.
    V14 = 5,
    /// OpenFlow 1.5.
    V15 = 6,
}

impl Version {
    /// All of them, oldest first.
    pub const ALL: &'static [Self] = &[Self::V10, Self::V13, Self::V14, Self::V15];

    /// The number in a message's header.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The version of this number.
    pub const fn of(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::V10),
            4 => Some(Self::V13),
            5 => Some(Self::V14),
            6 => Some(Self::V15),
            _ => None,
        }
    }

    /// The version to answer in where the other side's is not spoken: the greatest that is not newer.
    pub fn near(number: u8) -> Self {
        Self::ALL.iter().copied().rev().find(|version| version.number() <= number).unwrap_or(Self::V10)
    }
}

/// The first message of either side (OpenFlow 1.3.5, section 7.5.1).
///
/// Its header may have any version: it names the greatest that the sender speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version in the header.
    pub greatest: u8,
    /// Bit n set: the sender speaks version n. Without, it speaks all up to `greatest`, as far as the
    /// other side can know.
    pub bitmap: Option<u32>,
}

impl Hello {
    /// What a side that speaks these says.
    pub fn offering(versions: &[Version]) -> Self {
        let bitmap = versions.iter().fold(0, |bits, version| bits | 1 << version.number());
        let greatest = versions.iter().max().copied().unwrap_or(Version::V10).number();
        Self { greatest, bitmap: Some(bitmap) }
    }

    /// The version to use with a side that said this, if one speaks `ours`: the greatest of both
    /// bitmaps; where a bitmap is missing, the lesser of both headers.
    pub fn agree(&self, ours: &[Version]) -> Option<Version> {
        if let Some(bitmap) = self.bitmap {
            let both = ours.iter().filter(|version| bitmap & 1 << version.number() != 0);
            return both.max().copied();
        }
        let greatest = ours.iter().max()?.number();
        Version::of(greatest.min(self.greatest)).filter(|version| ours.contains(version))
    }

    /// The element that holds a bitmap.
    const VERSION_BITMAP: u16 = 1;

    pub(crate) fn decode(greatest: u8, mut body: Cursor<'_>) -> Result<Self, Fault> {
        let mut bitmap = None;
        // Whatever is no element is left out: old senders put anything here.
        while body.len() >= 4 {
            let kind = body.u16()?;
            let length = usize::from(body.u16()?);
            let Some(inside) = length.checked_sub(4).filter(|inside| *inside <= body.len()) else { break };
            let mut element = body.part(inside)?;
            body.skip_up_to(length.next_multiple_of(8) - length);
            if kind == Self::VERSION_BITMAP && element.len() >= 4 {
                bitmap = Some(element.u32()?);
            }
        }
        Ok(Self { greatest, bitmap })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        if let Some(bitmap) = self.bitmap {
            out.u16(Self::VERSION_BITMAP);
            out.u16(8);
            out.u32(bitmap);
        }
    }
}
