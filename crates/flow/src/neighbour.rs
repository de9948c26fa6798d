//! Where the fields of neighbour discovery are in a message (RFC 4861, sections 4.3, 4.4 and 4.6.1).

use crate::protocol::{NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION};

const TARGET: usize = 8;
const OPTIONS: usize = TARGET + 16;
/// Options are counted in units of as many bytes.
const UNIT: usize = 8;
const SOURCE_ADDRESS: u8 = 1;
const TARGET_ADDRESS: u8 = 2;

/// Offsets into an ICMPv6 message, from its type on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Neighbour {
    /// The target address, 16 bytes.
    pub target: Option<usize>,
    /// The address in the source link-layer address option (`nd_sll`), 6 bytes.
    pub source: Option<usize>,
    /// The address in the target link-layer address option (`nd_tll`), 6 bytes.
    pub destination: Option<usize>,
}

impl Neighbour {
    /// Whether a type and a code mean a solicitation or an advertisement.
    pub const fn is(kind: u8, code: u8) -> bool {
        matches!(kind, NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT) && code == 0
    }

    /// Finds them in a message that ends with its packet.
    ///
    /// As in Open vSwitch, either type of message may have either option; options end where one is cut
    /// off or says that it is empty; and a message that has an option twice, the first time with an
    /// address other than zero, has no field at all.
    pub fn find(message: &[u8]) -> Self {
        if message.len() < OPTIONS {
            return Self::default();
        }
        let mut found = Self { target: Some(TARGET), ..Self::default() };
        let mut at = OPTIONS;
        while let Some(option) = message.get(at..).and_then(<[u8]>::first_chunk::<UNIT>) {
            let len = usize::from(option[1]) * UNIT;
            if len == 0 || len > message.len() - at {
                break;
            }
            let place = match option[0] {
                SOURCE_ADDRESS => Some(&mut found.source),
                TARGET_ADDRESS => Some(&mut found.destination),
                _ => None,
            };
            if let Some(place) = place.filter(|_| len == UNIT) {
                if place.is_some_and(|place| message[place..place + 6] != [0; 6]) {
                    return Self::default();
                }
                *place = Some(at + 2);
            }
            at += len;
        }
        found
    }
}
