//! A peer of a memif port that speaks its protocol by hand, sends packets, and lies: DPDK's driver uses what it says
//! without a look.

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use weir_dpdk::send_with;

/// Bytes of each message.
const MESSAGE: usize = 128;
/// Kinds of messages.
const ACK: u16 = 1;
const HELLO: u16 = 2;
const INIT: u16 = 3;
const ADD_REGION: u16 = 4;
const ADD_RING: u16 = 5;
const CONNECT: u16 = 6;
const CONNECTED: u16 = 7;
const DISCONNECT: u16 = 8;
/// Version 2.0.
const VERSION: u16 = 0x200;
const COOKIE: u32 = 0x03e3_1f20;
/// No interrupts are wanted.
const MASKED: u16 = 1;

/// Bytes of its one region, and of the ring by which it sends; the other follows, then a packet.
const REGION: u64 = 1 << 20;
const RING: u64 = 4096;
const PACKET: u32 = 64 << 10;
/// Descriptors of a ring, as a power of two.
const DESCRIPTORS: u8 = 4;
/// Where a ring has its head and its descriptors.
const HEAD: u64 = 6;
const FIRST: u64 = 128;

/// See the module.
pub(super) struct Peer {
    stream: UnixStream,
    memory: File,
    sent: u16,
}

impl Peer {
    /// Connects to a port that listens; nothing where nobody does, or it ends meanwhile.
    pub(super) fn connect(path: &Path) -> Option<Self> {
        let own = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        connect(own.as_raw_fd(), &UnixAddr::new(path).unwrap()).ok()?;
        let stream = UnixStream::from(own);
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let memory = File::from(memfd_create(c"memif", MFdFlags::MFD_CLOEXEC).unwrap());
        memory.set_len(REGION).unwrap();
        let mut peer = Self { stream, memory, sent: 0 };
        peer.shake_hands()?;
        Some(peer)
    }

    fn shake_hands(&mut self) -> Option<()> {
        for ring in [0, RING] {
            self.write(ring, &COOKIE.to_le_bytes());
            self.write(ring + 4, &MASKED.to_le_bytes());
        }
        self.hear(HELLO)?;
        // Version, interface 0, Ethernet, no secret, no name.
        self.say(INIT, &[&VERSION.to_le_bytes(), &0_u32.to_le_bytes()], false)?;
        self.hear(ACK)?;
        self.say(ADD_REGION, &[&0_u16.to_le_bytes(), &REGION.to_le_bytes()], true)?;
        self.hear(ACK)?;
        for (sends, at) in [(1_u16, 0), (0, RING as u32)] {
            // Which way, ring 0, region 0, where in it, how many descriptors.
            let parts: [&[u8]; 4] = [&sends.to_le_bytes(), &[0; 4], &at.to_le_bytes(), &[DESCRIPTORS]];
            self.say(ADD_RING, &parts, true)?;
            self.hear(ACK)?;
        }
        self.say(CONNECT, &[b"peer"], false)?;
        self.hear(CONNECTED)
    }

    /// Says something, with or without its memory's descriptor.
    fn say(&mut self, kind: u16, parts: &[&[u8]], with_memory: bool) -> Option<()> {
        let mut message = [&kind.to_le_bytes()[..], &parts.concat()].concat();
        message.resize(MESSAGE, 0);
        if with_memory {
            send_with(&self.stream, &message, &[self.memory.as_fd()]).ok()
        } else {
            self.stream.write_all(&message).ok()
        }
    }

    fn hear(&mut self, kind: u16) -> Option<()> {
        let mut message = [0; MESSAGE];
        self.stream.read_exact(&mut message).ok()?;
        let said = u16::from_le_bytes([message[0], message[1]]);
        // DPDK listens before it knows of the interface, and hangs up then.
        if said == DISCONNECT {
            return None;
        }
        assert_eq!(said, kind, "{message:?}");
        Some(())
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    /// Sends what a region has at a place.
    fn send_from(&mut self, region: u16, offset: u32, length: u32) {
        let at = FIRST + u64::from(self.sent % (1 << DESCRIPTORS)) * 16;
        let parts: [&[u8]; 5] = [
            &0_u16.to_le_bytes(),
            &region.to_le_bytes(),
            &length.to_le_bytes(),
            &offset.to_le_bytes(),
            &0_u32.to_le_bytes(),
        ];
        self.write(at, &parts.concat());
        self.sent += 1;
        self.write(HEAD, &self.sent.to_le_bytes());
    }

    /// Sends a packet.
    pub(super) fn send(&mut self) {
        self.write(PACKET.into(), &[2; 60]);
        self.send_from(0, PACKET, 60);
    }

    /// Sends what lies in a region that there is not.
    pub(super) fn lie(&mut self) {
        self.send_from(200, 0, 60);
    }
}
