//! What FTP says of data connections on its control connection (RFC 959, sections 3.2 and 4.1.2; RFC 2428 for
//! IPv6): where the next one will go to.
//!
//! | who says it | line | what |
//! |---|---|---|
//! | client | `PORT 192,0,2,1,4,1` | the server connects to the client: address, and port in two bytes |
//! | client | `EPRT \|2\|2001:db8::1\|1025\|` | the same, IPv4 (1) or IPv6 (2) |
//! | server | `227 Entering Passive Mode (192,0,2,2,4,1)` | the client connects to the server |
//! | server | `229 Entering Extended Passive Mode (\|\|\|1025\|)` | the same, at the address it speaks to already |
//!
//! Only a line that is whole, from the first byte of a segment or behind another line, is read, and what
//! is not written exactly so is no announcement. Of a 227, the numbers begin with the first digit (RFC 1123,
//! section 4.1.2.6): servers put other words around them.
//!
//! Cost: a look at the first bytes of each line. Threads: none; plain data.

use arrayvec::ArrayVec;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// How an announcement is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `192,0,2,1,4,1`.
    Bytes,
    /// `|2|2001:db8::1|1025|`, with this delimiter.
    Named(u8),
    /// `|||1025|`, likewise.
    Nameless(u8),
}

/// An announced data connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) form: Form,
    /// To whom it will go; none, and it is who says so.
    pub(super) address: Option<IpAddr>,
    /// To which port.
    pub(super) port: u16,
    /// Where in the data that is written.
    pub(super) place: Range<usize>,
}

/// The first announcement in what one side sent; `client` says which.
pub(super) fn read(data: &[u8], client: bool) -> Option<Announced> {
    let mut from = 0;
    while let Some(length) = data[from..].iter().position(|&byte| byte == b'\n') {
        let line = &data[from..from + length];
        let found = if client { command(line) } else { reply(line) };
        if let Some(found) = found {
            let place = found.place.start + from..found.place.end + from;
            return Some(Announced { place, ..found });
        }
        from += length + 1;
    }
    None
}

/// A line of the client, without its end.
fn command(line: &[u8]) -> Option<Announced> {
    let (word, rest) = (line.get(..5)?, line.len().min(5));
    if word.eq_ignore_ascii_case(b"PORT ") {
        bytes(line, rest)
    } else if word.eq_ignore_ascii_case(b"EPRT ") {
        named(line, rest)
    } else {
        None
    }
}

/// A line of the server, without its end.
fn reply(line: &[u8]) -> Option<Announced> {
    match line.get(..4)? {
        b"227 " => bytes(line, 4 + line[4..].iter().position(u8::is_ascii_digit)?),
        b"229 " => nameless(line, 5 + line[4..].iter().position(|&byte| byte == b'(')?),
        _ => None,
    }
}

/// Whether a byte can stand between parts: not if addresses and numbers are written with it.
fn delimits(byte: u8) -> bool {
    byte.is_ascii_punctuation() && !matches!(byte, b'.' | b':')
}

/// A number without a sign, and where it ends.
fn number(line: &[u8], from: usize) -> Option<(u16, usize)> {
    let digits = line[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = std::str::from_utf8(&line[from..from + digits]).ok()?;
    Some((text.parse().ok()?, from + digits))
}

/// Six numbers with commas between.
fn bytes(line: &[u8], from: usize) -> Option<Announced> {
    let (mut values, mut end) = ([0_u8; 6], from);
    for (at, value) in values.iter_mut().enumerate() {
        if at > 0 {
            line.get(end).filter(|byte| **byte == b',')?;
            end += 1;
        }
        let (number, behind) = number(line, end)?;
        (*value, end) = (u8::try_from(number).ok()?, behind);
    }
    let [a, b, c, d, high, low] = values;
    Some(Announced {
        form: Form::Bytes,
        address: Some(Ipv4Addr::new(a, b, c, d).into()),
        port: u16::from_be_bytes([high, low]),
        place: from..end,
    })
}

/// A delimiter, from which on: kind of address, address, port, each with the delimiter behind.
fn named(line: &[u8], from: usize) -> Option<Announced> {
    let delimiter = *line.get(from).filter(|byte| delimits(**byte))?;
    let mut parts = line[from + 1..].split(|&byte| byte == delimiter);
    let (kind, address, port) = (parts.next()?, parts.next()?, parts.next()?);
    let end = from + 1 + kind.len() + 1 + address.len() + 1 + port.len();
    if line.get(end) != Some(&delimiter) {
        return None;
    }
    let text = std::str::from_utf8(address).ok()?;
    let address = match kind {
        b"1" => IpAddr::from(text.parse::<Ipv4Addr>().ok()?),
        b"2" => IpAddr::from(text.parse::<Ipv6Addr>().ok()?),
        _ => return None,
    };
    let (port, behind) = number(line, end - port.len())?;
    let form = Form::Named(delimiter);
    (behind == end).then_some(Announced { form, address: Some(address), port, place: from..end + 1 })
}

/// The same with nothing but the port.
fn nameless(line: &[u8], from: usize) -> Option<Announced> {
    let delimiter = *line.get(from).filter(|byte| delimits(**byte))?;
    if line.get(from..from + 3)? != [delimiter; 3] {
        return None;
    }
    let (port, end) = number(line, from + 3)?;
    let closed = line.get(end..end + 2)? == [delimiter, b')'];
    let form = Form::Nameless(delimiter);
    closed.then_some(Announced { form, address: None, port, place: from..end + 1 })
}

impl Announced {
    /// The same with another address and port, as it is written.
    pub(super) fn write<const N: usize>(&self, address: IpAddr, port: u16) -> ArrayVec<u8, N> {
        let mut out = ArrayVec::new();
        // What fits into no packet is cut off; the longest is 49 bytes long.
        let _ = match (self.form, address) {
            (Form::Bytes, IpAddr::V4(address)) => {
                let [a, b, c, d] = address.octets();
                write!(out, "{a},{b},{c},{d},{},{}", port >> 8, port & 0xff)
            }
            (Form::Nameless(delimiter), _) => {
                let d = char::from(delimiter);
                write!(out, "{d}{d}{d}{port}{d}")
            }
            (Form::Named(delimiter), _) => {
                let (d, kind) = (char::from(delimiter), if address.is_ipv4() { 1 } else { 2 });
                write!(out, "{d}{kind}{d}{address}{d}{port}{d}")
            }
            (Form::Bytes, IpAddr::V6(_)) => Ok(()),
        };
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a line says: the address, the port, and the bytes that say it.
    fn said(line: &str, client: bool) -> Option<(Option<IpAddr>, u16, &str)> {
        let found = read(line.as_bytes(), client)?;
        Some((found.address, found.port, &line[found.place]))
    }

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn every_form_is_read_and_nothing_else() {
        for (client, line, wanted) in [
            (true, "PORT 192,168,1,11,200,13\r\n", (ip("192.168.1.11"), 51213, "192,168,1,11,200,13")),
            (true, "port 10,0,0,1,4,1\n", (ip("10.0.0.1"), 1025, "10,0,0,1,4,1")),
            (true, "EPRT |1|192.0.2.1|1026|\r\n", (ip("192.0.2.1"), 1026, "|1|192.0.2.1|1026|")),
            (true, "EPRT !2!2001:db8::1!1026!\r\n", (ip("2001:db8::1"), 1026, "!2!2001:db8::1!1026!")),
            (true, "TYPE I\r\nPORT 10,0,0,1,4,1\r\n", (ip("10.0.0.1"), 1025, "10,0,0,1,4,1")),
            (
                false,
                "227 Entering Passive Mode (192,0,2,2,4,1).\r\n",
                (ip("192.0.2.2"), 1025, "192,0,2,2,4,1"),
            ),
            (false, "227 =192,0,2,2,4,1\r\n", (ip("192.0.2.2"), 1025, "192,0,2,2,4,1")),
            (false, "229 Entering Extended Passive Mode (|||1025|)\r\n", (None, 1025, "|||1025|")),
            (false, "200-a\r\n229 EPSV (!!!65535!)\r\n", (None, 65535, "!!!65535!")),
        ] {
            assert_eq!(said(line, client), Some(wanted), "{line:?}");
            assert_eq!(said(line, !client), None, "said by the other side: {line:?}");
        }
        for line in [
            "PORT 192,168,1,11,200,13",
            "PORT 192,168,1,11,200\r\n",
            "PORT 192,168,1,256,200,13\r\n",
            "PORT 192.168.1.11.200.13\r\n",
            "PORT\r\n",
            "XPORT 10,0,0,1,4,1\r\n",
            "EPRT |3|192.0.2.1|1026|\r\n",
            "EPRT |2|192.0.2.1|1026|\r\n",
            "EPRT |1|192.0.2.1|1026\r\n",
            "EPRT |1|192.0.2.1|65536|\r\n",
            "EPRT \r\n",
            "",
        ] {
            assert_eq!(said(line, true), None, "{line:?}");
        }
        for line in [
            "229 (|||1025\r\n",
            "229 (||1025|)\r\n",
            "229 |||1025|\r\n",
            "227 none\r\n",
            "227-1,2,3,4,5,6\r\n",
        ] {
            assert_eq!(said(line, false), None, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(address: IpAddr, port: u16, form in 0..3, delimiter in 33_u8..46) {
            let line = match form {
                0 => "PORT 1,2,3,4,5,6\r\n".to_owned(),
                1 => format!("EPRT {0}1{0}1.2.3.4{0}9{0}\r\n", char::from(delimiter)),
                _ => format!("229 ({0}{0}{0}9{0})\r\n", char::from(delimiter)),
            };
            let client = form < 2;
            let found = read(line.as_bytes(), client).unwrap();
            let address = if form == 0 && address.is_ipv6() { IpAddr::from([9, 8, 7, 6]) } else { address };
            let bytes = found.write::<64>(address, port);
            let text = std::str::from_utf8(&bytes).unwrap();
            let changed = format!("{}{text}{}", &line[..found.place.start], &line[found.place.end..]);
            let again = said(&changed, client);
            prop_assert_eq!(again, Some(((form < 2).then_some(address), port, text)));
        }

        #[test]
        fn nothing_that_is_sent_is_a_mistake_of_ours(data: Vec<u8>, client: bool, line in 0..4_usize) {
            let front = [&b"PORT "[..], b"EPRT |2|", b"227 (", b"229 (|||"][line];
            let data = [front, &data[..], b"\n"].concat();
            if let Some(found) = read(&data, client) {
                prop_assert!(found.place.end <= data.len() && !found.place.is_empty());
            }
        }
    }
}
