//! CRC32c, the checksum of SCTP (RFC 9260, appendix A): whole, and how it changes with some bytes.
//!
//! Costs: [`crc32c`] reads a table entry a byte; [`effect`] never reads what did not change, and takes
//! some hundred cycles whatever the length. No allocation, no state but constant tables.

/// The Castagnoli polynomial, its lowest power in the most significant bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// What a byte adds to the register.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = times_x(value);
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
};

/// x to the power of 8 times 2 to the power of n: what 2^n bytes of zeros multiply the register by.
const POWERS: [u32; 32] = {
    let mut powers = [1 << (31 - 8); 32];
    let mut n = 1;
    while n < 32 {
        powers[n] = times(powers[n - 1], powers[n - 1]);
        n += 1;
    }
    powers
};

const fn times_x(value: u32) -> u32 {
    (value >> 1) ^ if value & 1 == 1 { POLYNOMIAL } else { 0 }
}

/// The product of two polynomials, reduced.
const fn times(a: u32, mut b: u32) -> u32 {
    let (mut product, mut bit) = (0, 1 << 31);
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = times_x(b);
        bit >>= 1;
    }
    product
}

fn register(start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |crc, &byte| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)])
}

/// The CRC32c of bytes. SCTP sends it with its least significant byte first.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !register(!0, bytes)
}

/// By what the CRC32c of a message changes (exclusive or) when bytes in it change by `change` (exclusive
/// or), with `behind` bytes behind them.
pub fn effect(change: &[u8], behind: u32) -> u32 {
    let mut crc = register(0, change);
    for (n, &power) in POWERS.iter().enumerate() {
        if behind >> n & 1 == 1 {
            crc = times(crc, power);
        }
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_check_value_of_the_catalogue_is_met() {
        // RFC 3720, section B.4, and the usual check string.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    proptest! {
        #[test]
        fn the_effect_of_a_change_is_the_difference_of_the_checksums(
            before in proptest::collection::vec(any::<u8>(), 4..3000), change in any::<[u8; 4]>(), at in any::<u16>(),
        ) {
            let at = usize::from(at) % (before.len() - 3);
            let mut after = before.clone();
            after[at..at + 4].iter_mut().zip(change).for_each(|(byte, change)| *byte ^= change);
            let behind = u32::try_from(before.len() - at - 4).unwrap();
            prop_assert_eq!(crc32c(&before) ^ crc32c(&after), effect(&change, behind));
        }
    }
}
