//! `transcoder`: AES-128-CBC over the payload of TCP and UDP packets, in place (SoftFlow, pipeline B).
//!
//! It is a workload, not a secure channel. A packet must keep its length and cannot carry a vector of
//! its own, so:
//!
//! - every packet begins with the same vector, [`Settings::iv`]: equal first blocks give equal
//!   ciphertext, and nothing is authenticated;
//! - whole blocks of 16 bytes are transcoded; the 0 to 15 bytes behind the last stay as they are, and so
//!   do payloads of less than a block;
//! - fragments and other protocols pass untouched.
//!
//! A transcoder in mode `decrypt` with the same key and vector undoes it, also when addresses, ports or
//! TTL were changed in between. `openssl enc -aes-128-cbc -nopad` with the same key and vector makes the
//! same bytes of the whole blocks.
//!
//! Transport checksums are updated; a UDP datagram without one stays without. Packets are coalesced:
//! their payload is no field.
//!
//! Cost: about a cycle a byte or less with AES-NI where bursts hold eight packets or more, plus two sums
//! over the payload. No allocation.

mod cbc;
mod payload;

use crate::{Burst, ConfigError, Group, GroupConfig, Registration, Service, Slot, schema};
use cbc::{BLOCK, Cbc};
use payload::Payload;
use std::any::Any;
use std::sync::Arc;

/// Packets that are transcoded together.
const TOGETHER: usize = 64;

/// The kind.
pub(crate) const TRANSCODER: Registration = Registration {
    kind: "transcoder",
    about: "encrypts or decrypts the payload of TCP and UDP packets by AES-128-CBC",
    rewrites: &[],
    coalesces: true,
    by_flow: false,
    schema: schema::<Settings>,
    build,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    /// Plain text comes in.
    #[default]
    Encrypt,
    /// What a transcoder in mode `encrypt` made comes in.
    Decrypt,
}

/// What can be set.
#[derive(Clone, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// The key: 32 hexadecimal digits. By default the example key of NIST SP 800-38A.
    #[schemars(regex(pattern = "^[0-9a-fA-F]{32}$"))]
    key: String,
    /// The vector that each packet begins with: 32 hexadecimal digits. By default that of the same
    /// example.
    #[schemars(regex(pattern = "^[0-9a-fA-F]{32}$"))]
    iv: String,
    /// Which way.
    mode: Mode,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            key: "2b7e151628aed2a6abf7158809cf4f3c".to_owned(),
            iv: "000102030405060708090a0b0c0d0e0f".to_owned(),
            mode: Mode::Encrypt,
        }
    }
}

struct Transcoders {
    cbc: Cbc,
    mode: Mode,
}

fn build(config: &GroupConfig<'_>) -> Result<Arc<dyn Group>, ConfigError> {
    let settings: Settings = config.settings()?;
    let read = |name: &str, text: &str| {
        // What is given is left out of the message: it may be a key.
        block(text).ok_or_else(|| config.error(format!("`{name}` must be 32 hexadecimal digits (16 bytes)")))
    };
    let cbc = Cbc::new(read("key", &settings.key)?, read("iv", &settings.iv)?);
    Ok(Arc::new(Transcoders { cbc, mode: settings.mode }))
}

/// The block that 32 hexadecimal digits write.
fn block(text: &str) -> Option<[u8; BLOCK]> {
    let digits = text.len() == 2 * BLOCK && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|_| digits)?;
    Some(number.to_be_bytes())
}

impl Group for Transcoders {
    fn instance(&self, _worker: usize) -> Box<dyn Service> {
        Box::new(Transcoder { cbc: self.cbc.clone(), mode: self.mode, packets: 0, bytes: 0, untouched: 0 })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct Transcoder {
    cbc: Cbc,
    mode: Mode,
    packets: u64,
    bytes: u64,
    untouched: u64,
}

impl Transcoder {
    fn transcode(&mut self, slots: &mut [Slot<'_>]) {
        let mut found = [None; TOGETHER];
        for (found, slot) in found.iter_mut().zip(&mut *slots) {
            slot.coalesce = true;
            *found = Payload::of(slot).map(|payload| (payload, payload.sum(slot.frame)));
            self.untouched += u64::from(found.is_none());
        }
        let texts = slots.iter_mut().zip(&found).filter_map(|(slot, found)| {
            let text = found.as_ref()?.0.blocks(slot.frame);
            self.packets += 1;
            self.bytes += size_of_val(text) as u64;
            Some(text)
        });
        match self.mode {
            Mode::Encrypt => self.cbc.encrypt(texts),
            Mode::Decrypt => self.cbc.decrypt(texts),
        }
        for (slot, found) in slots.iter_mut().zip(found) {
            if let Some((payload, before)) = found {
                payload.mend(slot.frame, before);
            }
        }
    }
}

impl Service for Transcoder {
    fn process(&mut self, burst: &mut Burst<'_, '_>) {
        for slots in burst.rest().chunks_mut(TOGETHER) {
            self.transcode(slots);
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("transcoded", self.packets), ("bytes", self.bytes), ("untouched", self.untouched)]
    }
}
