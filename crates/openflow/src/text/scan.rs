//! Words of the text: keys and values, parentheses, quotes, numbers.
//!
//! A key ends at `:`, `=`, `(`, a comma or white space. After `:` or `=` its value ends at a comma or
//! white space outside parentheses and quotes, after `(` at the matching `)`.

use super::error::{Fault, Parsed};

/// A key and its value; the value is empty where there is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    /// What stands before `:`, `=` or `(`.
    pub(super) key: &'a str,
    /// What stands behind.
    pub(super) value: &'a str,
    /// Both.
    pub(super) whole: &'a str,
}

/// The pairs of a text.
pub(super) struct Pairs<'a> {
    rest: &'a str,
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_gap(byte: u8) -> bool {
    byte == b',' || is_space(byte)
}

impl<'a> Pairs<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self { rest: text }
    }
}

/// The length of a quoted name at the front, or 1 for a quote that nothing ends.
fn quoted(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    1
}

/// How far a value goes: to the first byte that ends it and is not within parentheses or quotes.
fn length(text: &[u8], ends: impl Fn(u8) -> bool) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < text.len() {
        match text[at] {
            byte if depth == 0 && ends(byte) => return at,
            b'"' => at += quoted(&text[at..]) - 1,
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    text.len()
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Pair<'a>;

    fn next(&mut self) -> Option<Pair<'a>> {
        let text = self.rest.trim_start_matches([',', ' ', '\t', '\r', '\n']);
        let bytes = text.as_bytes();
        if bytes.is_empty() {
            return None;
        }
        let key = length_of_key(bytes);
        let delimiter = bytes.get(key).copied();
        let start = (key + 1).min(bytes.len());
        let end = match delimiter {
            Some(b':' | b'=') => start + length(&bytes[start..], is_gap),
            Some(b'(') => {
                let close = start + length(&bytes[start..], |byte| byte == b')');
                if bytes[close..].starts_with(b")->") {
                    close + length(&bytes[close..], is_gap)
                } else {
                    close
                }
            }
            _ => key,
        };
        let value = if end > key { &text[start..end] } else { "" };
        let closed = usize::from(delimiter == Some(b'(') && bytes.get(end) == Some(&b')'));
        self.rest = &text[end + closed..];
        Some(Pair { key: &text[..key], value, whole: &text[..end + closed] })
    }
}

/// What stands up to the next comma outside quotes, and what stands behind it.
pub(super) fn up_to_comma(text: &str) -> (&str, &str) {
    let end = length(text.as_bytes(), |byte| byte == b',');
    (text[..end].trim(), text.get(end + 1..).unwrap_or(""))
}

/// What stands up to the next colon outside quotes, and what stands behind it, if there is one.
pub(super) fn up_to_colon(text: &str) -> (&str, Option<&str>) {
    let end = length(text.as_bytes(), |byte| byte == b':');
    (text[..end].trim(), text.get(end + 1..))
}

fn length_of_key(bytes: &[u8]) -> usize {
    if bytes[0] == b'"' {
        return quoted(bytes);
    }
    let ends = |byte: &u8| matches!(byte, b':' | b'=' | b'(') || is_gap(*byte);
    // A stray delimiter is a key of its own, so that every step goes on.
    bytes.iter().position(ends).unwrap_or(bytes.len())
}

/// Why a number is none.
pub(super) enum NoNumber {
    /// It is not written like one.
    Syntax,
    /// It has more bits than are asked for.
    Size,
}

/// A number as C writes them: `0x` before hexadecimal, `0` before octal digits.
pub(super) fn number(text: &str) -> Result<u128, NoNumber> {
    let (digits, radix) = if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        (hex, 16)
    } else if text.len() > 1 && text.starts_with('0') {
        (&text[1..], 8)
    } else {
        (text, 10)
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(NoNumber::Syntax);
    }
    u128::from_str_radix(digits, radix).map_err(|_| NoNumber::Size)
}

/// A number of at most so many bits.
pub(super) fn number_of(text: &str, bits: u32) -> Parsed<u128> {
    if bits == 64 && text == "-1" {
        return Ok(u128::from(u64::MAX));
    }
    match number(text) {
        Ok(value) if value <= weir_flow::ones(bits) => Ok(value),
        Err(NoNumber::Syntax) => Err(Fault::new(text, "this is not a number")
            .mend("write it decimal, or hexadecimal with 0x in front")),
        _ => {
            let most = weir_flow::ones(bits);
            Err(Fault::new(text, format!("this does not fit into {bits} bits"))
                .mend(format!("the greatest is {most} ({most:#x})")))
        }
    }
}

/// A number of 8 bits.
pub(super) fn number_u8(text: &str) -> Parsed<u8> {
    Ok(number_of(text, 8)? as u8)
}

/// A number of 16 bits.
pub(super) fn number_u16(text: &str) -> Parsed<u16> {
    Ok(number_of(text, 16)? as u16)
}

/// A number of 32 bits.
pub(super) fn number_u32(text: &str) -> Parsed<u32> {
    Ok(number_of(text, 32)? as u32)
}

/// A number of 64 bits.
pub(super) fn number_u64(text: &str) -> Parsed<u64> {
    Ok(number_of(text, 64)? as u64)
}

/// Bytes in hexadecimal, two digits each; dots and spaces between them do not matter.
pub(super) fn hex_bytes(text: &str) -> Parsed<Vec<u8>> {
    let wrong =
        || Fault::new(text, "these are no bytes").mend("write two hexadecimal digits a byte: 01.02.ff");
    let digits: Vec<u32> = text
        .chars()
        .filter(|letter| !matches!(letter, '.' | ' ' | '\t'))
        .map(|letter| letter.to_digit(16).ok_or_else(wrong))
        .collect::<Parsed<_>>()?;
    if !digits.len().is_multiple_of(2) {
        return Err(wrong());
    }
    Ok(digits.chunks_exact(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect())
}
