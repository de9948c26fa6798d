//! Lookups by the original tuple of a packet's connection (`resubmit(,TABLE,ct)`): the packet's own addresses, protocol
//! and ports change places with those of `ct_nw_src` and the like, and what such a lookup examines is examined where
//! the bits really are.

use weir_flow::{Field, Key, Mask};

/// A packet's own fields, and where its connection has them.
const PAIRS: [(Field, Field); 7] = [
    (Field::NwSrc, Field::CtNwSrc),
    (Field::NwDst, Field::CtNwDst),
    (Field::Ipv6Src, Field::CtIpv6Src),
    (Field::Ipv6Dst, Field::CtIpv6Dst),
    (Field::NwProto, Field::CtNwProto),
    (Field::TcpSrc, Field::CtTpSrc),
    (Field::TcpDst, Field::CtTpDst),
];

/// The key as such a lookup sees it.
pub(super) fn swap(key: &mut Key) {
    for (own, of_connection) in PAIRS {
        let (a, b) = (own.get(key), of_connection.get(key));
        own.set(key, b);
        of_connection.set(key, a);
    }
}

/// What was examined of that, in terms of the key as it is.
pub(super) fn swap_examined(examined: &mut Mask) {
    for (own, of_connection) in PAIRS {
        let (a, b) = (own.mask_of(examined), of_connection.mask_of(examined));
        for (field, bits) in [(own, a), (of_connection, b)] {
            for (place, _, bits) in field.spread(0, bits) {
                examined.remove(place, bits);
            }
        }
        own.examine(examined, b);
        of_connection.examine(examined, a);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_what_is_examined_of_them_change_places_and_back() {
        let (mut key, mut examined) = (Key::new(), Mask::new());
        Field::NwSrc.set(&mut key, 1);
        Field::CtNwSrc.set(&mut key, 2);
        Field::CtTpDst.set(&mut key, 80);
        Field::NwSrc.examine(&mut examined, 0xff00);
        Field::CtTpDst.examine(&mut examined, 0xffff);
        let (was, seen) = (key.clone(), examined.clone());
        swap(&mut key);
        swap_examined(&mut examined);
        assert_eq!((Field::NwSrc.get(&key), Field::CtNwSrc.get(&key), Field::TcpDst.get(&key)), (2, 1, 80));
        let bits = [Field::NwSrc, Field::CtNwSrc, Field::TcpDst, Field::CtTpDst];
        assert_eq!(bits.map(|field| field.mask_of(&examined)), [0, 0xff00, 0xffff, 0]);
        swap(&mut key);
        swap_examined(&mut examined);
        assert_eq!((key.words(), examined), (was.words(), seen));
    }
}
