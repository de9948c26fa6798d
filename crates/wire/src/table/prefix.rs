//! IPv4 prefixes (RFC 4632, section 3.1): `198.18.0.0/15`.

use super::EntryError;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// An IPv4 prefix: the addresses that share its leading bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ipv4Prefix {
    address: u32,
    len: u8,
}

/// An address and a length that make no prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// The length.
    #[error("prefix length `{0}` is not 0 to 32")]
    Len(u8),
    /// Address bits behind the prefix.
    #[error("{address}/{len} has bits set behind the prefix; {prefix} would do", prefix = Ipv4Prefix::covering(*.address, *.len))]
    HostBits {
        /// The address.
        address: Ipv4Addr,
        /// The length.
        len: u8,
    },
}

impl Ipv4Prefix {
    /// Every address: `0.0.0.0/0`.
    pub const ANY: Self = Self { address: 0, len: 0 };

    /// A prefix; address bits behind `len` must be zero.
    pub fn new(address: Ipv4Addr, len: u8) -> Result<Self, PrefixError> {
        if len > 32 {
            return Err(PrefixError::Len(len));
        }
        let prefix = Self::covering(address, len);
        if prefix.address() == address { Ok(prefix) } else { Err(PrefixError::HostBits { address, len }) }
    }

    /// The prefix of that length (at most 32) that holds the address.
    pub fn covering(address: Ipv4Addr, len: u8) -> Self {
        let len = len.min(32);
        Self { address: address.to_bits() & mask(len), len }
    }

    /// Its first address.
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address)
    }

    /// Its last address.
    pub fn last(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address | !mask(self.len))
    }

    /// Leading bits that are fixed, 0 to 32.
    pub const fn bits(self) -> u8 {
        self.len
    }

    /// Whether it holds the address.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        address.to_bits() & mask(self.len) == self.address
    }

    /// Its two halves; nothing for a single address.
    pub fn halves(self) -> Option<[Self; 2]> {
        let len = self.len + 1;
        (len <= 32)
            .then(|| [self.address, self.address | 1 << (32 - len)].map(|address| Self { address, len }))
    }
}

/// The netmask of a length up to 32.
const fn mask(len: u8) -> u32 {
    match len {
        0 => 0,
        len => u32::MAX << (32 - len),
    }
}

impl fmt::Display for Ipv4Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.address(), self.len))
    }
}

impl FromStr for Ipv4Prefix {
    type Err = EntryError;

    /// Reads `198.18.0.0/15`, a single address, or `any`.
    fn from_str(text: &str) -> Result<Self, EntryError> {
        if text == "any" {
            return Ok(Self::ANY);
        }
        let (address, len) = text.split_once('/').unwrap_or((text, "32"));
        let address = address
            .parse()
            .map_err(|_| EntryError(format!("`{address}` is no IPv4 address such as 198.18.0.1")))?;
        let len = len.parse().map_err(|_| EntryError(format!("prefix length `{len}` is not 0 to 32")))?;
        Self::new(address, len).map_err(|error| EntryError(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_and_printed() {
        for text in ["198.18.0.0/15", "0.0.0.0/0", "1.2.3.4/32", "128.0.0.0/1"] {
            assert_eq!(text.parse::<Ipv4Prefix>().unwrap().to_string(), text);
        }
        assert_eq!("any".parse(), Ok(Ipv4Prefix::ANY));
        assert_eq!("1.2.3.4".parse::<Ipv4Prefix>().unwrap().bits(), 32);
    }

    #[test]
    fn wrong_prefixes_are_refused_with_the_reason() {
        for (text, reason) in [
            ("198.18.1.0/16", "198.18.0.0/16 would do"),
            ("1.2.3/8", "no IPv4 address"),
            ("1.2.3.4/33", "0 to 32"),
        ] {
            let error = text.parse::<Ipv4Prefix>().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn halves_cover_the_whole_and_end_at_single_addresses() {
        let prefix: Ipv4Prefix = "198.18.0.0/15".parse().unwrap();
        let [low, high] = prefix.halves().unwrap();
        assert_eq!((low.to_string().as_str(), high.to_string().as_str()), ("198.18.0.0/16", "198.19.0.0/16"));
        assert_eq!(high.last(), prefix.last());
        assert_eq!("1.2.3.4/32".parse::<Ipv4Prefix>().unwrap().halves(), None);
        assert!(Ipv4Prefix::ANY.contains(Ipv4Addr::BROADCAST));
    }
}
