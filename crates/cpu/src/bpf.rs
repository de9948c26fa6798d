//! Programs for the kernel (BPF), without a library: loaded, given tables, attached to interfaces.
//!
//! What is made here is an open file, and goes when it is closed, however the process ends: a program leaves its
//! interface with its [`BpfLink`].

use std::ffi::{CString, c_long, c_void};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// Commands of the system call (`bpf(2)`).
const MAP_CREATE: c_long = 0;
const MAP_UPDATE: c_long = 2;
const PROGRAM_LOAD: c_long = 5;
const LINK_CREATE: c_long = 28;

/// The kind of table that finds the longest prefix (`BPF_MAP_TYPE_LPM_TRIE`), and what it must be made with.
const LPM_TRIE: u32 = 11;
const NO_PREALLOC: u32 = 1;

/// The kind of program that sees packets at an interface before the stack (`BPF_PROG_TYPE_XDP`), and its place.
const XDP: u32 = 6;
const AT_XDP: u32 = 37;
/// It is to be run by the interface's driver (`XDP_FLAGS_DRV_MODE`).
const IN_DRIVER: u32 = 1 << 2;

/// Bytes kept of what the kernel says of a program that it refuses.
const LOG: usize = 1 << 20;
/// Bytes of its end that are passed on.
const LAST_WORDS: usize = 400;

/// Bytes of the call's argument; what this program does not name is zero.
const ARGUMENT: usize = 128;
/// Bytes of a program's name, its end included.
const NAME: usize = 16;

/// The call's argument: integers at their places.
#[repr(C, align(8))]
struct Argument([u8; ARGUMENT]);

impl Argument {
    const fn new() -> Self {
        Self([0; ARGUMENT])
    }

    fn with(mut self, at: usize, bytes: &[u8]) -> Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    fn u32(self, at: usize, value: u32) -> Self {
        self.with(at, &value.to_ne_bytes())
    }

    fn address<T>(self, at: usize, of: *const T) -> Self {
        self.with(at, &(of as u64).to_ne_bytes())
    }
}

/// Makes the call. Every address in the argument must be of memory that lives until it returns, and is as long as the
/// argument says; memory that the kernel writes must be ours to write.
unsafe fn call(command: c_long, argument: &Argument) -> io::Result<c_long> {
    let place: *const c_void = argument.0.as_ptr().cast();
    // SAFETY: the argument is as long as it is said to be, and what it points to is the caller's promise.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, place, ARGUMENT) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(descriptor: c_long) -> io::Result<OwnedFd> {
    let descriptor = i32::try_from(descriptor).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// A table from prefixes to values.
#[derive(Debug)]
pub struct BpfPrefixes {
    file: OwnedFd,
    value: usize,
}

impl BpfPrefixes {
    /// Bytes of a key: how many bits of the address count, in the machine's order, and the address.
    const KEY: usize = 8;

    /// A table of IPv4 prefixes for values of so many bytes, with room for so many entries.
    ///
    /// # Errors
    ///
    /// The system's: no right to it (CAP_BPF), no memory.
    pub fn new(value: usize, room: u32) -> io::Result<Self> {
        let argument = Argument::new()
            .u32(0, LPM_TRIE)
            .u32(4, Self::KEY as u32)
            .u32(8, u32::try_from(value).map_err(io::Error::other)?)
            .u32(12, room)
            .u32(16, NO_PREALLOC);
        // SAFETY: the argument holds no address.
        let file = owned(unsafe { call(MAP_CREATE, &argument) }?)?;
        Ok(Self { file, value })
    }

    /// Puts an entry in.
    ///
    /// # Errors
    ///
    /// The system's, and a value that is not as long as the table's.
    pub fn insert(&self, address: [u8; 4], bits: u8, value: &[u8]) -> io::Result<()> {
        if value.len() != self.value {
            let why = format!("a value of {} bytes, where the table has {}", value.len(), self.value);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut key = [0; Self::KEY];
        key[..4].copy_from_slice(&u32::from(bits).to_ne_bytes());
        key[4..].copy_from_slice(&address);
        let argument = Argument::new()
            .u32(0, self.file.as_raw_fd() as u32)
            .address(8, key.as_ptr())
            .address(16, value.as_ptr());
        // SAFETY: key and value live beyond the call, and are as long as the table's.
        unsafe { call(MAP_UPDATE, &argument) }.map(drop)
    }

    /// Its number, which a program names it by.
    pub fn number(&self) -> i32 {
        self.file.as_raw_fd()
    }
}

/// A program, loaded.
#[derive(Debug)]
pub struct BpfProgram(OwnedFd);

impl BpfProgram {
    /// Loads a program for packets at an interface (XDP). Instructions are as the kernel has them, eight bytes each.
    ///
    /// # Errors
    ///
    /// The system's, with the end of what it said of the program: no right to it (CAP_BPF, CAP_NET_ADMIN), or a program
    /// that it cannot prove to be harmless.
    pub fn xdp(name: &str, instructions: &[[u8; 8]]) -> io::Result<Self> {
        let license = CString::new("Dual MIT/GPL").map_err(io::Error::other)?;
        let count = u32::try_from(instructions.len()).map_err(io::Error::other)?;
        let mut short = [0; NAME];
        let kept = name.bytes().filter(u8::is_ascii_alphanumeric).take(NAME - 1);
        kept.zip(&mut short).for_each(|(byte, place)| *place = byte);
        let plain = Argument::new()
            .u32(0, XDP)
            .u32(4, count)
            .address(8, instructions.as_ptr())
            .address(16, license.as_ptr())
            .with(48, &short)
            .u32(68, AT_XDP);
        // SAFETY: instructions and license live beyond the call, and `count` is how many there are.
        let refused = match unsafe { call(PROGRAM_LOAD, &plain) } {
            Ok(descriptor) => return owned(descriptor).map(Self),
            Err(error) => error,
        };
        let mut log = vec![0_u8; LOG];
        let told = plain.u32(24, 1).u32(28, LOG as u32).address(32, log.as_mut_ptr());
        // SAFETY: as above; the log is ours, and as long as is said.
        if let Ok(descriptor) = unsafe { call(PROGRAM_LOAD, &told) } {
            return owned(descriptor).map(Self);
        }
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let said = String::from_utf8_lossy(&log[end.saturating_sub(LAST_WORDS)..end]).trim().to_owned();
        Err(io::Error::new(refused.kind(), format!("{refused}; {said}")))
    }

    /// Attaches it to an interface of this thread's namespace, by its number, in the driver.
    ///
    /// # Errors
    ///
    /// The system's: the driver has no place for it, or another program is there.
    pub fn attach(&self, interface: u32) -> io::Result<BpfLink> {
        let argument = Argument::new()
            .u32(0, self.0.as_raw_fd() as u32)
            .u32(4, interface)
            .u32(8, AT_XDP)
            .u32(12, IN_DRIVER);
        // SAFETY: the argument holds no address.
        owned(unsafe { call(LINK_CREATE, &argument) }?).map(BpfLink)
    }
}

/// A program at an interface, which leaves it when this is dropped.
#[derive(Debug)]
pub struct BpfLink(#[expect(dead_code, reason = "held for as long as the program is to stay")] OwnedFd);

#[cfg(test)]
mod tests {
    use super::*;

    /// `r0 = 2 (XDP_PASS); exit`, and the same without a value to return.
    const PASS: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 2, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];

    fn may() -> bool {
        // What the machine allows is looked for where programs are run for real; here both answers are one.
        BpfProgram::xdp("test", &PASS).is_ok()
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn a_program_that_is_wrong_is_refused_with_the_kernels_words() {
        let error = BpfProgram::xdp("wrong", &PASS[1..]).unwrap_err().to_string();
        assert!(!may() || error.contains("R0 !read_ok"), "{error}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn a_table_takes_values_of_its_length_alone() {
        let Ok(table) = BpfPrefixes::new(16, 4) else {
            assert!(!may());
            return;
        };
        table.insert([198, 18, 0, 0], 15, &[1; 16]).unwrap();
        assert!(table.insert([198, 18, 0, 0], 33, &[1; 16]).is_err(), "no address has so many bits");
        let error = table.insert([198, 18, 0, 0], 16, &[1; 8]).unwrap_err().to_string();
        assert!(error.contains("8 bytes"), "{error}");
    }
}
