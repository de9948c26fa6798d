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
//! The instructions are the fastest that the CPU has ([`weir_cpu::aes::Kernel`]) unless
//! [`Settings::kernel`] names others; the counter `kernel-...` says by its name which they are.
//!
//! Cost: about a quarter of a cycle a byte with VAES and AVX-512 and bursts of 32, the sums included
//! (`benches/services.rs`); ten times that for bursts of a packet or two, as CBC then waits for
//! itself. No allocation.

mod payload;

use crate::{Burst, ConfigError, Group, GroupConfig, Registration, Service, Slot, one_number, schema};
use payload::Payload;
use std::any::Any;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_cpu::aes::{Aes128Cbc, BLOCK, Kernel, Text};

/// Packets that are transcoded together: as many as the widest kernel has lanes.
const TOGETHER: usize = 32;

/// The kind.
pub(crate) const TRANSCODER: Registration = Registration {
    kind: "transcoder",
    about: "encrypts or decrypts the payload of TCP and UDP packets by AES-128-CBC",
    rewrites: &[],
    coalesces: true,
    by_flow: false,
    members: &[],
    arguments: one_number,
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

/// Instructions to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Instructions {
    /// VAES and AVX-512.
    VaesAvx512,
    /// VAES and AVX2.
    VaesAvx2,
    /// AES-NI.
    AesNi,
    /// None that every x86-64 CPU does not have.
    Portable,
}

impl Instructions {
    fn kernel(self) -> Kernel {
        match self {
            Self::VaesAvx512 => Kernel::VaesAvx512,
            Self::VaesAvx2 => Kernel::VaesAvx2,
            Self::AesNi => Kernel::AesNi,
            Self::Portable => Kernel::Portable,
        }
    }
}

/// What can be set.
#[derive(Clone, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// The key: 32 hexadecimal digits. Either this or `key_file` must be given. It is no secret to whoever reads
    /// the configuration; a command line does not take it, as all users of a machine can read those.
    #[schemars(regex(pattern = "^[0-9a-fA-F]{32}$"))]
    key: Option<String>,
    /// A file that holds the key, 32 hexadecimal digits, which nobody but its owner may read (mode 0600). Read when
    /// the service is built.
    key_file: Option<PathBuf>,
    /// The vector that each packet begins with: 32 hexadecimal digits. By default that of the example in NIST
    /// SP 800-38A: it is no secret.
    #[schemars(regex(pattern = "^[0-9a-fA-F]{32}$"))]
    iv: String,
    /// Which way.
    mode: Mode,
    /// The instructions to encrypt and decrypt by, for comparing them. By default the fastest that the
    /// CPU has.
    kernel: Option<Instructions>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            key: None,
            key_file: None,
            iv: "000102030405060708090a0b0c0d0e0f".to_owned(),
            mode: Mode::Encrypt,
            kernel: None,
        }
    }
}

struct Transcoders {
    cbc: Aes128Cbc,
    iv: [u8; BLOCK],
    mode: Mode,
}

fn build(config: &GroupConfig<'_>) -> Result<Arc<dyn Group>, ConfigError> {
    let settings: Settings = config.settings()?;
    let read = |name: &str, text: &str| {
        // What is given is left out of the message: it may be a key.
        block(text).ok_or_else(|| config.error(format!("`{name}` must be 32 hexadecimal digits (16 bytes)")))
    };
    let key = match (&settings.key, &settings.key_file) {
        (Some(key), None) => read("key", key)?,
        (None, Some(path)) => {
            read("key_file", key_in(path).map_err(|reason| config.error(reason))?.trim_end())?
        }
        (Some(_), Some(_)) => return Err(config.error("`key` and `key_file` exclude each other")),
        (None, None) => {
            return Err(config.error(
                "it has no key; give `key_file`, a file of mode 0600 with 32 hexadecimal digits \
                 (`openssl rand -hex 16` makes some)",
            ));
        }
    };
    let iv = read("iv", &settings.iv)?;
    let kernel = settings.kernel.map_or_else(Kernel::best, Instructions::kernel);
    if !kernel.is_available() {
        let (wanted, best) = (kernel.name(), Kernel::best().name());
        return Err(config.error(format!(
            "this CPU lacks the instructions of kernel `{wanted}`; leave `kernel` out to have `{best}`"
        )));
    }
    Ok(Arc::new(Transcoders { cbc: Aes128Cbc::on(kernel, key), iv, mode: settings.mode }))
}

/// What a key's file holds.
fn key_in(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let fault = |error: std::io::Error| format!("`key_file` {shown}: {error}");
    let file = File::open(path).map_err(fault)?;
    let mode = file.metadata().map_err(fault)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "`key_file` {shown} has mode {mode:04o}, so that others than its owner can read or write it; \
             `chmod 600 {shown}` mends that"
        ));
    }
    let mut text = String::new();
    // A little more than there should be, and no more whatever the file is.
    file.take(64).read_to_string(&mut text).map_err(fault)?;
    Ok(text)
}

/// The block that 32 hexadecimal digits write.
fn block(text: &str) -> Option<[u8; BLOCK]> {
    let digits = text.len() == 2 * BLOCK && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|_| digits)?;
    Some(number.to_be_bytes())
}

impl Group for Transcoders {
    fn instance(&self, _worker: usize) -> Box<dyn Service> {
        Box::new(Transcoder {
            cbc: self.cbc.clone(),
            iv: self.iv,
            mode: self.mode,
            packets: 0,
            bytes: 0,
            untouched: 0,
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct Transcoder {
    cbc: Aes128Cbc,
    iv: [u8; BLOCK],
    mode: Mode,
    packets: u64,
    bytes: u64,
    untouched: u64,
}

impl Transcoder {
    fn transcode(&mut self, slots: &mut [Slot<'_>]) {
        let count = slots.len();
        let mut found = [None; TOGETHER];
        let mut texts: [Text<'_>; TOGETHER] = std::array::from_fn(|_| Text::default());
        for ((slot, found), text) in slots.iter_mut().zip(&mut found).zip(&mut texts) {
            slot.coalesce = true;
            *found = Payload::of(slot);
            match found {
                Some(payload) => {
                    *text = Text::new(self.iv, payload.blocks(slot.frame));
                    self.packets += 1;
                    self.bytes += size_of_val(text.blocks) as u64;
                }
                None => self.untouched += 1,
            }
        }
        let given = &mut texts[..count];
        match self.mode {
            Mode::Encrypt => self.cbc.encrypt(given),
            Mode::Decrypt => self.cbc.decrypt(given),
        }
        let changes = texts.map(|text| text.change);
        for ((slot, found), change) in slots.iter_mut().zip(found).zip(changes) {
            if let Some(payload) = found {
                payload.mend(slot.frame, change);
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
        let kernel = match self.cbc.kernel() {
            Kernel::VaesAvx512 => "kernel-vaes-avx512",
            Kernel::VaesAvx2 => "kernel-vaes-avx2",
            Kernel::AesNi => "kernel-aes-ni",
            Kernel::Portable => "kernel-portable",
        };
        vec![("transcoded", self.packets), ("bytes", self.bytes), ("untouched", self.untouched), (kernel, 1)]
    }
}
