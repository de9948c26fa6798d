//! Open vSwitch's own datapath turns the same packets into the same bytes.
//!
//! It runs as any user, over ports in memory. Skipped, and said to be, where it is not installed
//! (`./x setup --peers` does); an error in CI.
//!
//! Left out is where Open vSwitch 3.1 does harm: IPv4 fragments other than the first, in whose payload it
//! changes what it takes for a checksum; IPv6 addresses of packets with a routing header that has further
//! to go, or with a fragment header in a packet that is whole, whose checksum it leaves; and neighbour
//! messages with several addresses, of which it changes the first. And tags with the drop eligible
//! indicator, which it clears when it sets the VLAN, and Weir keeps.

use super::*;
use Field::*;
use std::fs::File;
use std::io::BufReader;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_testkit::Need;
use weir_wire::pcap::CaptureReader;

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// Frames that each port gets.
const FRAMES: usize = 400;
/// Frames at a time: a port in memory holds 100.
const AT_ONCE: usize = 50;
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether it is here.
fn installed() -> bool {
    weir_testkit::needs!(Need::Program("ovs-vswitchd", "openvswitch-switch"), Need::File(SCHEMA))
}

/// What a flow does: which packets match in Open vSwitch's words and in ours, and what is done to them.
struct Case {
    flow: &'static str,
    matches: fn(&Packet) -> bool,
    edits: Vec<Edit>,
}

fn is<const TYPE: u128, const PROTOCOL: u128>(packet: &Packet) -> bool {
    packet.get([EthType, NwProto]) == [TYPE, PROTOCOL]
}

fn is_type<const TYPE: u128>(packet: &Packet) -> bool {
    packet.get([EthType]) == [TYPE]
}

fn is_tagged(packet: &Packet) -> bool {
    packet.get([VlanTci])[0] & 0x1000 != 0
}

fn is_neighbour<const TYPE: u128>(packet: &Packet) -> bool {
    is::<0x86dd, 58>(packet)
        && packet.get([Icmpv6Type, Icmpv6Code]) == [TYPE, 0]
        && packet.layout.transport != 0
}

fn cases() -> Vec<Case> {
    let case = |flow, matches, edits| Case { flow, matches, edits };
    vec![
        case(
            "actions=mod_dl_src:02:00:00:00:00:01,mod_dl_dst:02:00:00:00:00:02",
            |_| true,
            vec![setting(&[(EthSrc, 0x0200_0000_0001), (EthDst, 0x0200_0000_0002)])],
        ),
        case("ip,actions=mod_nw_src:10.9.8.7", is_type::<0x0800>, vec![setting(&[(NwSrc, 0x0a09_0807)])]),
        case(
            "ip,actions=set_field:10.9.0.0/16->nw_dst,mod_nw_tos:32,set_field:1->nw_ecn,mod_nw_ttl:77",
            is_type::<0x0800>,
            vec![masked(NwDst, 0x0a09_0000, 0xffff_0000), setting(&[(NwTos, 8), (NwEcn, 1), (NwTtl, 77)])],
        ),
        case(
            "udp,actions=mod_tp_src:7,mod_tp_dst:65535",
            is::<0x0800, 17>,
            vec![setting(&[(UdpSrc, 7), (UdpDst, 65_535)])],
        ),
        case(
            "tcp,actions=mod_tp_dst:443,mod_nw_dst:1.2.3.4",
            is::<0x0800, 6>,
            vec![setting(&[(TcpDst, 443), (NwDst, 0x0102_0304)])],
        ),
        case("sctp,actions=mod_tp_src:5000", is::<0x0800, 132>, vec![setting(&[(SctpSrc, 5000)])]),
        case(
            "icmp,actions=set_field:3->icmp_type,set_field:1->icmp_code",
            is::<0x0800, 1>,
            vec![setting(&[(IcmpType, 3), (IcmpCode, 1)])],
        ),
        case("ip,actions=dec_ttl", is_type::<0x0800>, vec![Edit::DecTtl]),
        case("ipv6,actions=dec_ttl", is_type::<0x86dd>, vec![Edit::DecTtl]),
        case(
            "ipv6,actions=set_field:2001:db8::1->ipv6_src,set_field:2001:db8::2->ipv6_dst,set_field:7->ipv6_label",
            is_type::<0x86dd>,
            vec![setting(&[
                (Ipv6Src, 0x2001_0db8 << 96 | 1),
                (Ipv6Dst, 0x2001_0db8 << 96 | 2),
                (Ipv6Label, 7),
            ])],
        ),
        case(
            "udp6,actions=set_field:9->udp_src,set_field:2001:db8::2->ipv6_dst",
            is::<0x86dd, 17>,
            vec![setting(&[(UdpSrc, 9), (Ipv6Dst, 0x2001_0db8 << 96 | 2)])],
        ),
        case(
            "tcp6,actions=mod_tp_dst:443,mod_nw_tos:8",
            is::<0x86dd, 6>,
            vec![setting(&[(TcpDst, 443), (NwTos, 2)])],
        ),
        case(
            "icmp6,icmp_type=135,icmp_code=0,actions=set_field:fe80::7->nd_target,set_field:02:00:00:00:00:07->nd_sll",
            is_neighbour::<135>,
            vec![setting(&[(NdTarget, 0xfe80 << 112 | 7), (NdSll, 0x0200_0000_0007)])],
        ),
        case(
            "icmp6,icmp_type=136,icmp_code=0,actions=set_field:02:00:00:00:00:07->nd_tll",
            is_neighbour::<136>,
            vec![setting(&[(NdTll, 0x0200_0000_0007)])],
        ),
        case(
            "arp,actions=set_field:2->arp_op,set_field:10.0.0.9->arp_spa,set_field:02:00:00:00:00:09->arp_sha",
            is_type::<0x0806>,
            vec![setting(&[(ArpOp, 2), (ArpSpa, 0x0a00_0009), (ArpSha, 0x0200_0000_0009)])],
        ),
        case("vlan_tci=0x1000/0x1000,actions=strip_vlan", is_tagged, vec![Edit::PopVlan]),
        case(
            "vlan_tci=0x1000/0x1000,actions=mod_vlan_vid:100,mod_vlan_pcp:3",
            is_tagged,
            vec![setting(&[(VlanTci, 0x7064)])],
        ),
        case(
            "vlan_tci=0x0000/0x1fff,actions=push_vlan:0x88a8,set_field:4197->vlan_vid",
            |packet| packet.get([VlanTci]) == [0],
            vec![Edit::PushVlan(0x88a8), setting(&[(VlanVid, 0x1065)])],
        ),
        case(
            "mpls,actions=set_field:99->mpls_label,set_field:5->mpls_tc,set_mpls_ttl:9",
            is_type::<0x8847>,
            vec![setting(&[(MplsLabel, 99), (MplsTc, 5), (MplsTtl, 9)])],
        ),
        // Its megaflow leaves out the label that it writes, unless that is set, too.
        case(
            "mpls,mpls_bos=0,actions=dec_mpls_ttl,set_field:99->mpls_label,set_field:5->mpls_tc",
            |packet| packet.get([EthType, MplsBos]) == [0x8847, 0],
            vec![Edit::DecMplsTtl, setting(&[(MplsLabel, 99), (MplsTc, 5)])],
        ),
        case(
            "mpls,mpls_bos=1,actions=pop_mpls:0x0800",
            |packet| packet.get([EthType, MplsBos]) == [0x8847, 1],
            vec![Edit::PopMpls(0x0800)],
        ),
        case(
            "mpls,mpls_bos=1,actions=push_mpls:0x8848",
            |packet| is_type::<0x8847>(packet) && packet.get([MplsBos]) == [1],
            vec![Edit::PushMpls(0x8848)],
        ),
        case(
            "ip,actions=push_mpls:0x8847,set_field:16->mpls_label,set_field:0->mpls_tc,set_mpls_ttl:33",
            is_type::<0x0800>,
            vec![Edit::PushMpls(0x8847), setting(&[(MplsLabel, 16), (MplsTtl, 33)])],
        ),
    ]
}

fn masked(field: Field, number: u128, bits: u128) -> Edit {
    let (mut value, mut mask) = (Key::new(), Mask::new());
    field.set_masked(&mut value, number, bits);
    field.examine(&mut mask, bits);
    rewrite(value, mask)
}

/// Whether Open vSwitch treats the packet as its own documents say.
fn is_sound(packet: &Packet) -> bool {
    let layout = packet.layout;
    let [ether_type, frag, exthdr] = packet.get([EthType, NwFrag, Ipv6Exthdr]);
    let snap = packet.frame[..usize::from(layout.ether_type)].ends_with(&[0xaa, 0xaa, 3, 0, 0, 0]);
    let network = usize::from(layout.network);
    let routed = ether_type == 0x86dd
        && network != 0
        && Chain::walk(&packet.frame[..usize::from(layout.end)], network + 40, packet.frame[network + 6])
            .is_some_and(|chain| chain.routed);
    // A fragment header of a whole packet; or several headers, one of which may be such.
    let atomic = exthdr & 0x10 != 0 && (frag == 0 || exthdr & 0x80 != 0);
    let later = ether_type == 0x0800 && frag & 2 != 0;
    let neighbour = is_neighbour::<135>(packet) || is_neighbour::<136>(packet);
    let eligible = is_tagged(packet) && packet.frame[14] & 0x10 != 0;
    !(eligible || snap || routed || atomic || later || (neighbour && link_addresses(packet) > 1))
}

/// Options of a neighbour message that have link-layer addresses.
fn link_addresses(packet: &Packet) -> usize {
    let message = &packet.frame[usize::from(packet.layout.transport)..usize::from(packet.layout.end)];
    let mut options = message.get(24..).unwrap_or_default();
    let mut count = 0;
    while let [kind, units, ..] = *options {
        count += usize::from(matches!(kind, 1 | 2));
        options = options.get(usize::from(units.max(1)) * 8..).unwrap_or_default();
    }
    count
}

/// Its two daemons, which end when this does.
struct Daemons {
    folder: tempfile::TempDir,
    children: Vec<Child>,
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            // It may have ended by itself; either way it is reaped.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl Daemons {
    fn start() -> Self {
        let mut daemons = Self { folder: tempfile::tempdir().unwrap(), children: Vec::new() };
        let (database, socket) = (daemons.path("conf.db"), daemons.path("db.sock"));
        daemons.run("ovsdb-tool", &["create", &database, SCHEMA]);
        let control = format!("--unixctl={}", daemons.path("db.ctl"));
        daemons.spawn("ovsdb-server", &[&database, &format!("--remote=punix:{socket}"), &control]);
        daemons.wait_for("db.sock");
        daemons.vsctl(&["--no-wait", "init"]);
        let control = format!("--unixctl={}", daemons.path("vs.ctl"));
        let options = ["--enable-dummy=override", "--disable-system", &control];
        daemons.spawn("ovs-vswitchd", &[&[format!("unix:{socket}").as_str()], &options[..]].concat());
        daemons.wait_for("vs.ctl");
        daemons.vsctl(&["set", "Open_vSwitch", ".", "other_config:vlan-limit=0"]);
        daemons.vsctl(&[
            "add-br",
            "br0",
            "--",
            "set",
            "bridge",
            "br0",
            "datapath_type=dummy",
            "fail_mode=secure",
        ]);
        // By default it hides the ICMP types and ports of first fragments, too; OpenFlow does not (1.3.5, section
        // 7.3.2).
        daemons.run("ovs-ofctl", &["set-frags", &format!("unix:{}", daemons.path("br0.mgmt")), "nx-match"]);
        daemons
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        for name in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR"] {
            command.env(name, self.folder.path());
        }
        command
    }

    fn spawn(&mut self, program: &str, arguments: &[&str]) {
        let child = self.command(program, arguments).spawn().unwrap();
        self.children.push(child);
    }

    fn wait_for(&self, name: &str) {
        let start = Instant::now();
        while !self.folder.path().join(name).exists() {
            assert!(start.elapsed() < PATIENCE, "no {name} after {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let output = self.command(program, arguments).stderr(Stdio::piped()).output().unwrap();
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn vsctl(&self, arguments: &[&str]) {
        let database = format!("--db=unix:{}", self.path("db.sock"));
        self.run("ovs-vsctl", &[&["--timeout=30", database.as_str()], arguments].concat());
    }

    /// A port whose flow sends every packet back, to be kept.
    fn add_port(&self, number: usize, flow: &str) {
        let (name, request) = (format!("p{number}"), format!("ofport_request={number}"));
        let kept = format!("options:tx_pcap={}", self.path(&format!("{name}.pcap")));
        self.vsctl(&[
            "add-port",
            "br0",
            &name,
            "--",
            "set",
            "interface",
            &name,
            "type=dummy",
            &request,
            &kept,
        ]);
        let bridge = format!("unix:{}", self.path("br0.mgmt"));
        let flow = format!("in_port={number},{flow},in_port");
        self.run("ovs-ofctl", &["-O", "OpenFlow13", "add-flow", &bridge, &flow]);
    }

    fn receive(&self, number: usize, frames: &[Vec<u8>]) {
        let hex = |frame: &Vec<u8>| frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let (target, name) = (format!("--target={}", self.path("vs.ctl")), format!("p{number}"));
        let frames: Vec<String> = frames.iter().map(hex).collect();
        let mut arguments = vec![target.as_str(), "netdev-dummy/receive", &name];
        arguments.extend(frames.iter().map(String::as_str));
        self.run("ovs-appctl", &arguments);
    }

    /// What a port sent, as soon as there are so many packets, sorted.
    fn sent(&self, number: usize, count: usize) -> Vec<Vec<u8>> {
        let start = Instant::now();
        loop {
            let file = File::open(self.path(&format!("p{number}.pcap"))).unwrap();
            let mut frames = Vec::new();
            if let Ok(mut reader) = CaptureReader::new(BufReader::new(file)) {
                while let Ok(Some(packet)) = reader.next_packet() {
                    frames.push(packet.data.to_vec());
                }
            }
            if frames.len() >= count || start.elapsed() > PATIENCE {
                frames.sort();
                return frames;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What we make of a frame by a case; nothing where it does not match, or its time to live is used up.
fn ours(case: &Case, frame: &[u8]) -> Option<Vec<u8>> {
    let mut packet = Packet::new(frame.to_vec());
    if !(case.matches)(&packet) {
        return None;
    }
    for edit in &case.edits {
        match packet.apply(edit) {
            Ok(()) => {}
            Err(DropReason::TtlExpired) => return None,
            Err(other) => panic!("{}: {other:?} {packet:02x?}", case.flow),
        }
    }
    Some(packet.frame)
}

/// Whether the case's fields are all there; Open vSwitch goes on without.
fn applies(case: &Case, frame: &[u8]) -> bool {
    let mut packet = Packet::new(frame.to_vec());
    !(case.matches)(&packet)
        || case.edits.iter().all(|edit| !matches!(packet.apply(edit), Err(DropReason::NoSuchHeader)))
}

#[test]
fn open_vswitch_makes_the_same_bytes() {
    if !installed() {
        return;
    }
    let daemons = Daemons::start();
    let mut sampler = Sampler::new(weir_testkit::seed(51));
    let mut compared = 0;
    for (number, case) in (1..).zip(cases()) {
        daemons.add_port(number, case.flow);
        let mut frames = Vec::new();
        while frames.len() < FRAMES {
            let frame = sampler.frame();
            let packet = Packet::new(frame.clone());
            // Most that does not match is left out.
            let wanted = (case.matches)(&packet) || sampler.one_in(50);
            if wanted && is_sound(&packet) && applies(&case, &frame) {
                frames.push(frame);
            }
        }
        let mut expected: Vec<(Vec<u8>, &Vec<u8>)> =
            frames.iter().filter_map(|frame| Some((ours(&case, frame)?, frame))).collect();
        expected.sort();
        for (round, some) in frames.chunks(AT_ONCE).enumerate() {
            daemons.receive(number, some);
            // Its queue is empty again when what was to come is there.
            let mut until: Vec<_> = frames[..round * AT_ONCE + some.len()]
                .iter()
                .filter_map(|frame| Some((ours(&case, frame)?, frame)))
                .collect();
            let theirs = daemons.sent(number, until.len());
            if theirs.len() != until.len() {
                until.retain(|(frame, _)| !theirs.contains(frame));
                panic!(
                    "{}: {} sent, and of ours, with what they were made of, not {until:02x?}",
                    case.flow,
                    theirs.len()
                );
            }
        }
        let sent = daemons.sent(number, expected.len());
        assert_eq!(sent.len(), expected.len(), "{}", case.flow);
        for (theirs, (ours, before)) in sent.iter().zip(&expected) {
            assert!(
                ours == theirs,
                "{}\nfrom {before:02x?}\nours {ours:02x?}\ntheirs {theirs:02x?}",
                case.flow
            );
        }
        compared += sent.len();
    }
    assert!(compared > 5_000, "{compared}");
}
