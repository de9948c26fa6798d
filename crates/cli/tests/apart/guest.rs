//! A guest behind a vhost socket, as its hypervisor speaks for it: it sends packets, lies in its rings, and takes its
//! memory away. It maps nothing: it writes its memory through the file that the switch maps. So it can also keep a ring busy
//! at next to no cost, by saying of the same packets that they are there again.

use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use weir_dpdk::send_with;

/// Requests of the vhost-user protocol.
const GET_FEATURES: u32 = 1;
const SET_FEATURES: u32 = 2;
const SET_OWNER: u32 = 3;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const SET_VRING_BASE: u32 = 10;
const SET_VRING_KICK: u32 = 12;
const SET_VRING_CALL: u32 = 13;

/// Version 1 of the protocol, in each message's flags.
const VERSION: u32 = 1;
/// `VIRTIO_F_VERSION_1`.
const MODERN: u64 = 1 << 32;
/// Instead of an event's descriptor: there is none.
const NO_EVENT: u64 = 1 << 8;

/// Bytes of its memory, and where its hypervisor says to have it.
const MEMORY: u64 = 8 << 20;
const ADDRESS: u64 = 0x7000_0000_0000;
/// Descriptors of each of its two rings.
const RING: u16 = 1024;
/// Where a ring's parts lie, and where the next ring's.
const AVAILABLE: u64 = 16 << 10;
const USED: u64 = 20 << 10;
const NEXT_RING: u64 = 32 << 10;
/// Where its packets lie, those that it sends and those that it has room for, and how far apart.
const PACKETS: u64 = 1 << 20;
const ROOM: u64 = 4 << 20;
const APART: u64 = 2048;
/// Bytes of the header before each packet.
const HEADER: usize = 12;
/// The rings by which it receives and by which it sends.
const RECEIVES: u64 = 0;
const SENDS: u64 = 1;
/// The device may write there.
const WRITE: u16 = 2;

/// See the module.
pub(super) struct Guest {
    stream: UnixStream,
    memory: File,
    /// Packets that it has sent.
    sent: u16,
}

impl Guest {
    /// Connects to a port that waits for it.
    pub(super) fn connect(socket: &Path) -> Self {
        Self::try_connect(socket).expect("a port waits for its guest")
    }

    /// The same; nothing where nobody listens, or the other ends at once.
    pub(super) fn try_connect(socket: &Path) -> Option<Self> {
        let stream = UnixStream::connect(socket).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let memory = File::from(memfd_create(c"guest", MFdFlags::MFD_CLOEXEC).unwrap());
        memory.set_len(MEMORY).unwrap();
        let mut guest = Self { stream, memory, sent: 0 };
        guest.shake_hands()?;
        Some(guest)
    }

    fn shake_hands(&mut self) -> Option<()> {
        self.say(GET_FEATURES, &[])?;
        let mut answer = [0; 20];
        self.stream.read_exact(&mut answer).ok()?;
        let offered = u64::from_le_bytes(answer[12..].try_into().unwrap());
        assert_eq!(offered & MODERN, MODERN, "{offered:x}");
        self.say(SET_FEATURES, &MODERN.to_le_bytes())?;
        self.say(SET_OWNER, &[])?;
        // One region: where the guest has it, its length, where the hypervisor has it, and where in the file.
        let region = [1, 0, MEMORY, ADDRESS, 0].map(u64::to_le_bytes).concat();
        let message = [head(SET_MEM_TABLE, region.len()), region].concat();
        send_with(&self.stream, &message, &[self.memory.as_fd()]).ok()?;
        for ring in 0..2_u64 {
            let at = ADDRESS + ring * NEXT_RING;
            let index = (ring as u32).to_le_bytes();
            self.say(SET_VRING_NUM, &[index, u32::from(RING).to_le_bytes()].concat())?;
            self.say(SET_VRING_BASE, &[index, [0; 4]].concat())?;
            let addresses = [at, at + USED, at + AVAILABLE, 0].map(u64::to_le_bytes).concat();
            self.say(SET_VRING_ADDR, &[&index[..], &[0; 4], &addresses].concat())?;
            self.say(SET_VRING_CALL, &(ring | NO_EVENT).to_le_bytes())?;
            self.say(SET_VRING_KICK, &(ring | NO_EVENT).to_le_bytes())?;
        }
        Some(())
    }

    fn say(&mut self, request: u32, payload: &[u8]) -> Option<()> {
        self.stream.write_all(&[head(request, payload.len()), payload.to_vec()].concat()).ok()
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    fn descriptor(&self, ring: u64, place: u16, (address, length, flags, next): (u64, u32, u16, u16)) {
        let at = ring * NEXT_RING + u64::from(place) * 16;
        let bytes =
            [&address.to_le_bytes()[..], &length.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()];
        self.write(at, &bytes.concat());
    }

    /// Sends so many packets of so many bytes, no more than its ring holds.
    pub(super) fn send(&mut self, packets: u16, bytes: usize) {
        for _ in 0..packets {
            let place = self.sent % RING;
            self.packet(place, bytes);
            self.sent = self.sent.wrapping_add(1);
        }
        self.available(SENDS, self.sent);
    }

    /// Writes a packet and its descriptor, and where the driver finds them.
    fn packet(&self, place: u16, bytes: usize) {
        let at = PACKETS + u64::from(place) * APART;
        let mut packet = vec![0; HEADER + bytes];
        packet[HEADER..HEADER + 6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        self.write(at, &packet);
        self.descriptor(SENDS, place, (at, packet.len() as u32, 0, 0));
        self.entry(SENDS, place);
    }

    fn entry(&self, ring: u64, place: u16) {
        let at = ring * NEXT_RING + AVAILABLE + 4 + u64::from(place) * 2;
        self.write(at, &place.to_le_bytes());
    }

    /// Says how many descriptors it has made available.
    fn available(&self, ring: u64, count: u16) {
        self.write(ring * NEXT_RING + AVAILABLE + 2, &count.to_le_bytes());
    }

    /// How many the driver says to be done with.
    fn used(&self, ring: u64) -> u16 {
        let mut bytes = [0; 2];
        self.memory.read_exact_at(&mut bytes, ring * NEXT_RING + USED + 2).unwrap();
        u16::from_le_bytes(bytes)
    }

    /// Makes room for packets in all of its ring.
    pub(super) fn make_room(&self) {
        for place in 0..RING {
            let at = ROOM + u64::from(place) * APART;
            self.descriptor(RECEIVES, place, (at, APART as u32, WRITE, 0));
            self.entry(RECEIVES, place);
        }
        self.available(RECEIVES, RING);
    }

    /// Fills all of its ring with packets of so many bytes.
    pub(super) fn fill(&mut self, bytes: usize) {
        (0..RING).for_each(|place| self.packet(place, bytes));
        self.available(SENDS, RING);
    }

    /// Has all of a ring be there again: the packets that it sends, or the room for packets.
    pub(super) fn go_on(&self, sends: bool) {
        let ring = if sends { SENDS } else { RECEIVES };
        self.available(ring, self.used(ring).wrapping_add(RING));
    }

    /// Writes nonsense into its ring: addresses outside of its memory, lengths without end, chains that bite their own
    /// tails, tables within tables, places that there are not.
    pub(super) fn lie(&mut self, mut below: impl FnMut(u64) -> u64) {
        for _ in 0..64 {
            let place = below(RING.into()) as u16;
            let address = match below(4) {
                0 => below(MEMORY),
                1 => MEMORY - below(64),
                2 => u64::MAX - below(4096),
                _ => ADDRESS + below(1 << 40),
            };
            let length = [0, 1, 11, 12, 60, 65_535, u32::MAX][below(7) as usize];
            // NEXT, WRITE and INDIRECT, in any combination.
            self.descriptor(
                SENDS,
                place,
                (address, length, below(8) as u16, below(2 * u64::from(RING)) as u16),
            );
            let entry = SENDS * NEXT_RING + AVAILABLE + 4 + below(RING.into()) * 2;
            self.write(entry, &(below(2 * u64::from(RING)) as u16).to_le_bytes());
        }
        self.sent = self.sent.wrapping_add(below(1 << 12) as u16);
        self.available(SENDS, self.sent);
    }

    /// Makes its memory shorter: whoever reads it gets SIGBUS. Returns its connection.
    pub(super) fn take_memory_away(self) -> UnixStream {
        self.memory.set_len(0).unwrap();
        self.stream
    }
}

fn head(request: u32, bytes: usize) -> Vec<u8> {
    [request, VERSION, bytes as u32].map(u32::to_le_bytes).concat()
}
