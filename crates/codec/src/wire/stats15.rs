//! Statistics of OpenFlow 1.5: OXS fields (OpenFlow 1.5.1, section 7.2.4).

use super::{duration, put_duration};
use crate::Code;
use crate::cursor::{Cursor, Decoded, Put};
use std::time::Duration;

/// The class of OXS fields.
const CLASS: u16 = 0x8002;

const DURATION: u8 = 0;
const IDLE: u8 = 1;
const FLOWS: u8 = 3;
const PACKETS: u8 = 4;
const BYTES: u8 = 5;

/// What statistics say; what is none is not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    pub(crate) duration: Option<Duration>,
    pub(crate) idle: Option<Duration>,
    pub(crate) flows: Option<u32>,
    pub(crate) packets: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

impl Stats {
    pub(crate) fn read(body: &mut Cursor<'_>) -> Decoded<Self> {
        body.skip(2)?;
        let length = usize::from(body.u16()?);
        let inside = length.checked_sub(4).ok_or(body.fault("statistics are shorter than their header"))?;
        let mut fields = body.part(inside)?.with(Code::BadLength);
        body.skip(length.next_multiple_of(8) - length)?;
        let mut out = Self::default();
        while !fields.is_empty() {
            let class = fields.u16()?;
            let (number, length) = (fields.u8()? >> 1, fields.u8()?);
            let mut value = fields.part(length.into())?;
            match (class, number) {
                (CLASS, DURATION) => out.duration = Some(duration(&mut value)?),
                (CLASS, IDLE) => out.idle = Some(duration(&mut value)?),
                (CLASS, FLOWS) => out.flows = Some(value.u32()?),
                (CLASS, PACKETS) => out.packets = Some(value.u64()?),
                (CLASS, BYTES) => out.bytes = Some(value.u64()?),
                _ => {}
            }
        }
        Ok(out)
    }

    pub(crate) fn put(self, out: &mut Vec<u8>) {
        let start = out.open(0);
        let header = |out: &mut Vec<u8>, number: u8, length: u8| {
            out.u16(CLASS);
            out.u8(number << 1);
            out.u8(length);
        };
        for (number, time) in [(DURATION, self.duration), (IDLE, self.idle)] {
            if let Some(time) = time {
                header(out, number, 8);
                put_duration(out, time);
            }
        }
        if let Some(flows) = self.flows {
            header(out, FLOWS, 4);
            out.u32(flows);
        }
        for (number, count) in [(PACKETS, self.packets), (BYTES, self.bytes)] {
            if let Some(count) = count {
                header(out, number, 8);
                out.u64(count);
            }
        }
        out.close(start);
        out.pad(start);
    }
}
