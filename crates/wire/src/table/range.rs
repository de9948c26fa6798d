//! Ranges of ports, for tables that match values under masks.

/// Bits of a transport port.
pub const PORT_BITS: u32 = 16;

/// The fewest aligned powers of two that make up a range: value, and how many leading bits count.
pub fn pieces(first: u16, last: u16) -> Vec<(u16, u32)> {
    let (mut next, end) = (u32::from(first), u32::from(last) + 1);
    let mut found = Vec::new();
    while next < end {
        let aligned = next.trailing_zeros().min(PORT_BITS);
        let fits = (end - next).ilog2();
        let free = aligned.min(fits);
        found.push((next as u16, PORT_BITS - free));
        next += 1 << free;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_of_ports_is_made_up_exactly_and_by_as_few_masks_as_there_can_be() {
        for (first, last, count) in [
            (0, 65_535, 1),
            (1024, 65_535, 6),
            (49_152, 65_535, 1),
            (53, 53, 1),
            (20, 21, 1),
            (1, 65_534, 30),
        ] {
            let pieces = pieces(first, last);
            let mut next = u32::from(first);
            for (value, bits) in &pieces {
                let size = 1_u32 << (16 - bits);
                assert_eq!((u32::from(*value), next % size), (next, 0), "{first}-{last}");
                next += size;
            }
            assert_eq!((next, pieces.len()), (u32::from(last) + 1, count), "{first}-{last}");
        }
    }
}
