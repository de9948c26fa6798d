//! Linux as a router with connection tracking, in network namespaces of its own.
//!
//! Two namespaces hold two veth pairs. In one, raw sockets send and receive what hosts inside and
//! outside would; in the other the kernel routes between them and writes into each packet's DSCP what
//! its connection tracking says of it. A packet without DSCP at the other end was never tracked; one
//! that does not come was refused.
//!
//! The thread that has it stays on one processor: a veth pair hands a packet over on the processor that
//! sent it, so packets are judged in the order in which they were sent, whatever way they go.

use nix::ifaddrs::getifaddrs;
use nix::sched::{CloneFlags, CpuSet, sched_getaffinity, sched_setaffinity, setns, unshare};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, socket};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weir_testkit::Need;

/// Packets sent before those that came through are read: less than a socket's buffer.
const BATCH: usize = 32;

/// What Linux says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// It did not come through: new, from outside.
    Refused,
    New,
    Established,
    EstablishedReply,
    Related,
    RelatedReply,
    Invalid,
    Untracked,
}

const CLASSES: [Class; 8] = [
    Class::Refused,
    Class::New,
    Class::Established,
    Class::EstablishedReply,
    Class::Related,
    Class::RelatedReply,
    Class::Invalid,
    Class::Untracked,
];

/// The port outside that may open connections too, for those that are opened by both.
pub const CROSSING: u16 = 80;

/// Port of the packets that end a batch, which are not tracked.
const END: u16 = 9;

fn rules() -> String {
    let mut rules = format!(
        "table inet weir {{
           chain before {{ type filter hook prerouting priority -400; udp dport {END} notrack; }}
           chain forward {{ type filter hook forward priority 0; policy drop;
             udp dport {END} accept
             iifname \"port1\" tcp sport {CROSSING} tcp flags & (syn | ack) == syn ct state new jump verdict
             iifname \"port1\" ct state new drop
             jump verdict
           }}
           chain verdict {{\n"
    );
    let matches = [
        (Class::New, "ct state new"),
        (Class::Established, "ct state established ct direction original"),
        (Class::EstablishedReply, "ct state established ct direction reply"),
        (Class::Related, "ct state related ct direction original"),
        (Class::RelatedReply, "ct state related ct direction reply"),
        (Class::Invalid, "ct state invalid"),
        (Class::Untracked, "ct state untracked"),
    ];
    for (class, matches) in matches {
        for (family, field) in [("ipv4", "ip"), ("ipv6", "ip6")] {
            let class = class as u8;
            rules += &format!("meta nfproto {family} {matches} {field} dscp set {class} accept\n");
        }
    }
    rules + "}\n}\n"
}

/// The router, and the ends of its links: `port0` is inside.
pub struct Router {
    /// Keeps the router's namespace.
    far: File,
    ports: [OwnedFd; 2],
}

fn run(program: &str, arguments: &[&str], input: &str) {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program}: {}\n{input}", String::from_utf8_lossy(&output.stderr));
}

fn within<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        });
        inside.join().unwrap()
    })
}

/// Whether there can be a router here.
pub fn has_linux() -> bool {
    weir_testkit::needs!(
        Need::Root,
        Need::Namespaces,
        Need::Program("ip", "iproute2"),
        Need::Program("nft", "nftables"),
    )
}

impl Router {
    /// Builds it around the calling thread, which enters a namespace and stays on one processor.
    pub fn build(loose: bool) -> Self {
        let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let first = (0..CpuSet::count()).find(|&cpu| allowed.is_set(cpu).unwrap()).unwrap();
        let mut one = CpuSet::new();
        one.set(first).unwrap();
        sched_setaffinity(Pid::from_raw(0), &one).unwrap();
        let far = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            File::open("/proc/thread-self/ns/net").unwrap()
        });
        let far = far.join().unwrap();
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), far.as_raw_fd());
        fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        let mut near = String::new();
        for port in ["port0", "port1"] {
            near += &format!(
                "link add {port} type veth peer name {port} address 02:00:00:00:00:01 netns {path}\n"
            );
            near += &format!("link set {port} up\n");
        }
        run("ip", &["-batch", "-"], &near);
        within(&far, || Self::configure(loose));
        Self { far, ports: ["port0", "port1"].map(open) }
    }

    fn configure(loose: bool) {
        for (name, value) in [
            ("net/ipv4/ip_forward", "1"),
            ("net/ipv4/conf/all/rp_filter", "0"),
            ("net/ipv4/conf/default/rp_filter", "0"),
            ("net/ipv6/conf/all/forwarding", "1"),
            ("net/ipv6/conf/default/accept_dad", "0"),
            ("net/ipv6/conf/all/accept_dad", "0"),
        ] {
            fs::write(format!("/proc/sys/{name}"), value).unwrap();
        }
        let mut batch = String::new();
        for (port, hosts) in [(0, [1, 2, 3, 9]), (1, [20, 21, 77, 99])] {
            batch += &format!("address add 10.0.{port}.254/24 dev port{port}\n");
            batch += &format!("address add fd00:0:0:{port}::254/64 dev port{port} nodad\n");
            batch += &format!("link set port{port} up\n");
            for host in hosts {
                let mac = format!("lladdr 02:00:00:00:01:{host:02} dev port{port} nud permanent");
                batch += &format!("neigh add 10.0.{port}.{host} {mac}\n");
                batch += &format!("neigh add fd00:0:0:{port}::{host:x} {mac}\n");
            }
        }
        run("ip", &["-batch", "-"], &batch);
        run("nft", &["-f", "-"], &rules());
        fs::write("/proc/sys/net/netfilter/nf_conntrack_tcp_loose", if loose { "1" } else { "0" }).unwrap();
    }

    /// From now on sources inside are translated to an address, IPv4 or IPv6, and FTP has its helper.
    pub fn translate(&self, to: [&str; 2]) {
        let rules = format!(
            "table inet translation {{
               ct helper ftp {{ type \"ftp\" protocol tcp; }}
               chain helpers {{ type filter hook prerouting priority 0; tcp dport 21 ct helper set \"ftp\"; }}
               chain back {{ type nat hook prerouting priority dstnat; }}
               chain out {{ type nat hook postrouting priority srcnat;
                 oifname \"port1\" ip saddr 10.0.0.0/24 snat ip to {}
                 oifname \"port1\" ip6 saddr fd00::/64 snat ip6 to {}
               }}
             }}\n",
            to[0], to[1],
        );
        within(&self.far, || run("nft", &["-f", "-"], &rules));
    }

    /// Sends a packet from inside (0) or outside (1); what came out at the other side, and of which class.
    pub fn pass(&self, side: usize, frame: &[u8]) -> Option<(Class, Vec<u8>)> {
        const NUMBER: u16 = 7;
        self.send(side, numbered(frame, NUMBER));
        let mut found = self.collect().into_iter();
        let (_, frame) = found.find(|(number, _)| *number == NUMBER)?;
        Some((class(&frame), frame))
    }

    /// Sends each packet from inside (0) or outside (1), and tells what Linux made of it. Packets must
    /// be unfragmented IP; their identification or flow label is overwritten by their number.
    pub fn judge(&self, packets: &[(usize, Vec<u8>)]) -> Vec<Class> {
        let mut classes = Vec::new();
        for batch in packets.chunks(BATCH) {
            let mut found = vec![Class::Refused; batch.len()];
            for (number, (side, frame)) in batch.iter().enumerate() {
                self.send(*side, numbered(frame, number as u16));
            }
            for (number, frame) in self.collect() {
                found[usize::from(number)] = class(&frame);
            }
            classes.extend(found);
        }
        classes
    }

    /// Sends fragments as they are, and tells how many bytes of IP payload came out at the other side
    /// with this identification, and their class.
    pub fn judge_fragments(&self, side: usize, fragments: &[Vec<u8>]) -> (usize, Class) {
        for fragment in fragments {
            self.send(side, fragment.clone());
        }
        let mut bytes = 0;
        let mut last = Class::Refused;
        for (_, frame) in self.collect() {
            let (head, total) =
                if frame[12] == 0x86 { (14 + 48, frame.len()) } else { (14 + 20, frame.len()) };
            bytes += total - head;
            last = class(&frame);
        }
        (bytes, last)
    }

    fn send(&self, side: usize, frame: Vec<u8>) {
        let sent = send(self.ports[side].as_raw_fd(), &frame, MsgFlags::empty()).unwrap();
        assert_eq!(sent, frame.len());
    }

    /// What came through, until both ends' last packets are there.
    fn collect(&self) -> Vec<(u16, Vec<u8>)> {
        let ends = [(super::v4(1, END), super::v4(20, END)), (super::v4(20, END), super::v4(1, END))];
        for (side, (from, to)) in ends.into_iter().enumerate() {
            self.send(side, super::udp(from, to, 0));
        }
        let (mut open, mut found, mut buffer) = ([true; 2], Vec::new(), vec![0; 2048]);
        let start = Instant::now();
        while open.contains(&true) {
            assert!(start.elapsed() < Duration::from_secs(10), "the router does not forward");
            for (side, port) in self.ports.iter().enumerate() {
                while let Ok(length) = recv(port.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                    let frame = &buffer[..length];
                    // Only what the router sent on; not what the kernel says of itself.
                    if length < 34 || frame[6..12] != [2, 0, 0, 0, 0, 1] || frame[0..5] != [2, 0, 0, 0, 1] {
                        continue;
                    }
                    let ended = frame[12] == 8 && frame[23] == 17 && frame[36..38] == END.to_be_bytes();
                    if ended {
                        open[side] = false;
                        continue;
                    }
                    let at = if frame[12] == 0x86 { 16 } else { 18 };
                    found.push((u16::from_be_bytes([frame[at], frame[at + 1]]), frame.to_vec()));
                }
            }
        }
        found
    }
}

fn open(name: &str) -> OwnedFd {
    let fd =
        socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll).unwrap();
    let mut interfaces = getifaddrs().unwrap();
    let link = interfaces.find_map(|interface| {
        let address = interface.address.filter(|_| interface.interface_name == name)?;
        address.as_link_addr().copied()
    });
    // Without a protocol in the address, the socket keeps its own.
    bind(fd.as_raw_fd(), &link.expect("the port is there")).unwrap();
    fd
}

/// The frame with a number in its identification (IPv4) or flow label (IPv6).
fn numbered(frame: &[u8], number: u16) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if frame[12] == 0x86 {
        frame[16..18].copy_from_slice(&number.to_be_bytes());
    } else {
        frame[18..20].copy_from_slice(&number.to_be_bytes());
        super::seal(&mut frame);
    }
    frame
}

fn class(frame: &[u8]) -> Class {
    let tos = if frame[12] == 0x86 { frame[14] << 4 | frame[15] >> 4 } else { frame[15] };
    CLASSES[usize::from(tos >> 2)]
}
