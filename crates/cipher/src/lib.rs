//! What pipeline B's transcoder makes of a payload: AES-128 in cipher block chaining mode (NIST SP 800-38A,
//! section 6.2), in place.
//!
//! A packet keeps its length: the whole blocks of the payload are encrypted, bytes behind the last of
//! them stay. Key and initialisation vector are the first of the specification's own example (section
//! F.2.1) and the same for every packet, which protects nothing and is right for measuring: any packet can
//! be checked by itself. This is the lab's own copy, over a library; no device's code is in it.
//!
//! Cost: a few cycles a byte where the CPU has AES instructions. No state, no threads.

use aes::Aes128;
use aes::cipher::{BlockModeDecrypt as _, BlockModeEncrypt as _, KeyIvInit as _};
use weir_wire::Dissection;

/// Bytes of a block.
pub const BLOCK: usize = 16;
/// The key of every packet.
pub const KEY: [u8; BLOCK] = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c_u128.to_be_bytes();
/// The initialisation vector of every packet.
pub const VECTOR: [u8; BLOCK] = 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f_u128.to_be_bytes();

/// Encrypts the whole blocks of a payload.
pub fn encrypt(payload: &mut [u8]) {
    let mut cipher = cbc::Encryptor::<Aes128>::new(&KEY.into(), &VECTOR.into());
    for block in payload.as_chunks_mut::<BLOCK>().0 {
        cipher.encrypt_block(block.into());
    }
}

/// The last `N` bytes of a frame's payload as they were before it was encrypted; nothing where the frame
/// has no transport payload of that length at its end. Only the blocks that hold them are decrypted.
pub fn end_of<const N: usize>(frame: &[u8]) -> Option<[u8; N]> {
    let payload = frame.get(Dissection::of(frame).transport?.payload..)?;
    let start = payload.len().checked_sub(N)?;
    let blocks = payload.as_chunks::<BLOCK>().0;
    let first = start / BLOCK;
    let mut bytes = [0; N];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = payload[start + place];
    }
    let before = first.checked_sub(1).and_then(|before| blocks.get(before)).unwrap_or(&VECTOR);
    let mut cipher = cbc::Decryptor::<Aes128>::new(&KEY.into(), before.into());
    for (number, block) in blocks.iter().enumerate().skip(first) {
        let mut clear = *block;
        cipher.decrypt_block((&mut clear).into());
        for (offset, byte) in clear.into_iter().enumerate() {
            let at = number * BLOCK + offset;
            if let Some(place) = at.checked_sub(start).and_then(|place| bytes.get_mut(place)) {
                *place = byte;
            }
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt as _, SeedableRng as _};
    use weir_wire::{EtherType, EthernetRepr, Ipv4Repr, MacAddress, UdpRepr, ipv4};

    #[test]
    fn the_specifications_example_comes_out() {
        // SP 800-38A, section F.2.1: four blocks.
        let clear: [u128; 4] = [
            0x6bc1_bee2_2e40_9f96_e93d_7e11_7393_172a,
            0xae2d_8a57_1e03_ac9c_9eb7_6fac_45af_8e51,
            0x30c8_1c46_a35c_e411_e5fb_c119_1a0a_52ef,
            0xf69f_2445_df4f_9b17_ad2b_417b_e66c_3710,
        ];
        let cipher: [u128; 4] = [
            0x7649_abac_8119_b246_cee9_8e9b_12e9_197d,
            0x5086_cb9b_5072_19ee_95db_113a_9176_78b2,
            0x73be_d6b8_e3c1_743b_7116_e69e_2222_9516,
            0x3ff1_caa1_681f_ac09_120e_ca30_7586_e1a7,
        ];
        let mut payload = clear.map(u128::to_be_bytes).concat();
        payload.extend([1, 2, 3]);
        encrypt(&mut payload);
        assert_eq!(payload[..64], cipher.map(u128::to_be_bytes).concat());
        assert_eq!(payload[64..], [1, 2, 3], "what is no whole block stays");
    }

    #[test]
    fn the_end_of_a_payload_is_read_as_it_was_whatever_its_length() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        for len in 0..100_usize {
            let mut frame = vec![0_u8; 42 + len];
            let mac = MacAddress([2; 6]);
            EthernetRepr { destination: mac, source: mac, ether_type: EtherType::IPV4 }.emit(&mut frame);
            let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
            let header =
                Ipv4Repr { source, destination, protocol: ipv4::UDP, ttl: 9, payload_len: 8 + len as u16 };
            header.emit(&mut frame[14..]);
            UdpRepr { source: 1, destination: 2, payload_len: len as u16 }.emit(&mut frame[34..]);
            frame[42..].iter_mut().for_each(|byte| *byte = rng.random());
            let clear = frame.clone();
            encrypt(&mut frame[42..]);
            assert_eq!(len >= 16, frame != clear, "{len}");
            let end = (len >= 18).then(|| *clear.last_chunk::<18>().unwrap());
            assert_eq!(end_of::<18>(&frame), end, "{len}");
        }
    }
}
