//! Reading and writing numbers in network order.
//!
//! A [`Cursor`] never reads past its part of the message, and says which error it is when bytes are
//! lacking: lengths in a message only ever make a part of what is there.

use crate::Code;

/// What is wrong with a message: the error it is answered with, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The error.
    pub code: Code,
    /// Why, for people.
    pub what: &'static str,
}

impl Fault {
    pub(crate) const fn new(code: Code, what: &'static str) -> Self {
        Self { code, what }
    }
}

pub(crate) type Decoded<T> = Result<T, Fault>;

/// Bytes that are still to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    lacking: Code,
}

impl<'a> Cursor<'a> {
    /// Reads these; `lacking` is the error if there are too few.
    pub(crate) const fn new(rest: &'a [u8], lacking: Code) -> Self {
        Self { rest, lacking }
    }

    /// The same bytes, with another error.
    pub(crate) const fn with(self, lacking: Code) -> Self {
        Self { rest: self.rest, lacking }
    }

    pub(crate) const fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What is left, read to the end.
    pub(crate) const fn all(&mut self) -> &'a [u8] {
        let all = self.rest;
        self.rest = &[];
        all
    }

    pub(crate) const fn fault(&self, what: &'static str) -> Fault {
        Fault::new(self.lacking, what)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Decoded<&'a [u8]> {
        let Some((bytes, rest)) = self.rest.split_at_checked(count) else {
            return Err(self.fault("it ends too early"));
        };
        self.rest = rest;
        Ok(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let Some((bytes, rest)) = self.rest.split_first_chunk() else {
            return Err(self.fault("it ends too early"));
        };
        self.rest = rest;
        Ok(*bytes)
    }

    pub(crate) fn part(&mut self, count: usize) -> Decoded<Self> {
        Ok(Self { rest: self.bytes(count)?, lacking: self.lacking })
    }

    pub(crate) fn skip(&mut self, count: usize) -> Decoded<()> {
        self.bytes(count).map(drop)
    }

    /// Skips padding that may be missing at the end.
    pub(crate) fn skip_up_to(&mut self, count: usize) {
        self.rest = &self.rest[count.min(self.rest.len())..];
    }

    pub(crate) fn u8(&mut self) -> Decoded<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Decoded<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Decoded<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Decoded<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A number of up to 16 bytes.
    pub(crate) fn number(&mut self, bytes: usize) -> Decoded<u128> {
        Ok(self.bytes(bytes)?.iter().fold(0, |value, byte| value << 8 | u128::from(*byte)))
    }

    /// An item that begins with its kind and its length, both counted; padding up to a multiple of 8
    /// behind it is skipped. Hands back kind and contents.
    pub(crate) fn property(&mut self) -> Decoded<(u16, Self)> {
        let kind = self.u16()?;
        let length = usize::from(self.u16()?);
        let inside = length.checked_sub(4).ok_or(self.fault("a length is too small"))?;
        let inside = self.part(inside)?;
        self.skip_up_to(length.next_multiple_of(8) - length);
        Ok((kind, inside))
    }
}

/// Writing at the end of a message.
pub(crate) trait Put {
    fn u8(&mut self, value: u8);
    fn u16(&mut self, value: u16);
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
    fn zeros(&mut self, count: usize);
    /// The low bytes of a number.
    fn number(&mut self, value: u128, bytes: usize);
    /// Text in a field of fixed size, cut at a letter so that a zero remains behind it.
    fn text(&mut self, text: &str, size: usize);
    /// Zeros until what began at `start` is a multiple of 8 long.
    fn pad(&mut self, start: usize);
    /// Writes at `at` how many bytes there are from `start` on.
    fn length(&mut self, at: usize, start: usize);
    /// Begins an item with its kind and length; [`Put::close`] fills in the latter.
    fn open(&mut self, kind: u16) -> usize;
    /// Ends what `open` began; the length is without padding.
    fn close(&mut self, start: usize);
    /// A whole item of a number, whose length counts its padding.
    fn property(&mut self, kind: u16, value: &[u8]);
    /// A whole item of any number of bytes, whose length does not count its padding.
    fn long_property(&mut self, kind: u16, value: &[u8]);
}

impl Put for Vec<u8> {
    fn u8(&mut self, value: u8) {
        self.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn zeros(&mut self, count: usize) {
        self.resize(self.len() + count, 0);
    }

    fn number(&mut self, value: u128, bytes: usize) {
        self.extend_from_slice(&value.to_be_bytes()[16 - bytes..]);
    }

    fn text(&mut self, text: &str, size: usize) {
        let cut = text.floor_char_boundary(size - 1);
        self.extend_from_slice(&text.as_bytes()[..cut]);
        self.zeros(size - cut);
    }

    fn pad(&mut self, start: usize) {
        let length = self.len() - start;
        self.zeros(length.next_multiple_of(8) - length);
    }

    fn length(&mut self, at: usize, start: usize) {
        // What is too long for its field is refused where a whole message is finished.
        let length = (self.len() - start).min(usize::from(u16::MAX)) as u16;
        self[at..at + 2].copy_from_slice(&length.to_be_bytes());
    }

    fn open(&mut self, kind: u16) -> usize {
        let start = self.len();
        self.u16(kind);
        self.u16(0);
        start
    }

    fn close(&mut self, start: usize) {
        self.length(start + 2, start);
    }

    fn property(&mut self, kind: u16, value: &[u8]) {
        let start = self.open(kind);
        self.extend_from_slice(value);
        self.pad(start);
        self.close(start);
    }

    fn long_property(&mut self, kind: u16, value: &[u8]) {
        let start = self.open(kind);
        self.extend_from_slice(value);
        self.close(start);
        self.pad(start);
    }
}

/// Text in a field of fixed size: up to its first zero.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The first port number of OpenFlow 1.0 that is no port.
const FIRST_RESERVED: u16 = 0xff00;
/// How far OpenFlow 1.1 moved those.
const RESERVED_OFFSET: u32 = 0xffff_0000;

/// A port as OpenFlow 1.0 numbers it. One that it has no number for is none (0xffff).
pub(crate) fn to_port16(port: u32) -> u16 {
    match u16::try_from(port) {
        Ok(number) if number < FIRST_RESERVED => number,
        _ => u16::try_from(port.wrapping_sub(RESERVED_OFFSET))
            .ok()
            .filter(|number| *number >= FIRST_RESERVED)
            .unwrap_or(u16::MAX),
    }
}

/// A port of OpenFlow 1.0 as later versions number it.
pub(crate) const fn from_port16(port: u16) -> u32 {
    if port < FIRST_RESERVED { port as u32 } else { port as u32 + RESERVED_OFFSET }
}
