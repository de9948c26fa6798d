//! Offloads of network interfaces, asked and set as `ethtool -k` and `-K` do it.
//!
//! Threads: any; the interface is one of the calling thread's network namespace. Setting takes `CAP_NET_ADMIN` there.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

/// The ioctl of `ethtool(8)` (linux/sockios.h).
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// The commands that read and set an offload (linux/ethtool.h), by its short name there.
const COMMANDS: [(&str, u32, u32); 6] = [
    ("rx", 0x14, 0x15),
    ("tx", 0x16, 0x17),
    ("sg", 0x18, 0x19),
    ("tso", 0x1e, 0x1f),
    ("gso", 0x23, 0x24),
    ("gro", 0x2b, 0x2c),
];

/// A command and its value, as the kernel reads and writes them.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Whether an offload of an interface is on.
///
/// # Errors
///
/// The system's reason, for example that there is no such interface, or no such offload.
pub fn offload(interface: &str, name: &str) -> io::Result<bool> {
    let (_, read, _) = commands(name)?;
    Ok(ask(interface, EthtoolValue { command: read, data: 0 })?.data != 0)
}

/// Switches an offload of an interface on or off. Whether it took, [`offload`] says.
///
/// # Errors
///
/// The system's reason.
pub fn set_offload(interface: &str, name: &str, on: bool) -> io::Result<()> {
    let (_, _, set) = commands(name)?;
    ask(interface, EthtoolValue { command: set, data: u32::from(on) }).map(drop)
}

fn commands(name: &str) -> io::Result<(&'static str, u32, u32)> {
    let found = COMMANDS.into_iter().find(|(known, ..)| *known == name);
    found.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("no offload is named {name}")))
}

fn ask(interface: &str, mut value: EthtoolValue) -> io::Result<EthtoolValue> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    // SAFETY: an ifreq is plain data, for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero, which ends the name.
    if interface.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the interface's name is too long"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: both structures outlive the call; the kernel writes into them as far as the command says, a value of the
    // size of `EthtoolValue`.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn the_loopback_interface_tells_its_offloads_and_what_is_not_there_is_an_error() {
        assert!(offload("lo", "gro").is_ok() && offload("lo", "tso").is_ok());
        assert!(offload("no-such-if", "gro").is_err());
        assert_eq!(
            offload("a-name-that-is-too-long", "gro").unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
        assert!(offload("lo", "lro").unwrap_err().to_string().contains("lro"));
    }
}
