//! Captures in, captures out, compared byte for byte with a reference that shares no code with the packet path.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_cpu::{Ticks, allowed_cores, pin};
use weir_dpdk::{Eal, EalConfig, Memory, PortConfig};
use weir_nf::{DropReason, Firewall, Function, L2Fwd, L3Fwd, Ledger, Program, ProgramConfig, ProgramError};
use weir_wire::table::{
    Action, FiveTuple, Route, Rule, first_match, has_ports, longest_match, next_hop_mac, port_mac,
};

pub(crate) type Frame = Vec<u8>;

pub(crate) fn eal() -> &'static Eal {
    Eal::init(EalConfig { memory: Memory::Normal, megabytes: 256, pci: false }).expect("EAL starts anywhere")
}

/// What a capture in the classic format begins with: little-endian, microseconds, Ethernet.
pub(crate) fn capture_header() -> Vec<u8> {
    let words: [u32; 6] = [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, 1];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A frame in such a capture.
pub(crate) fn record(frame: &[u8]) -> Vec<u8> {
    let head = [0, 0, frame.len() as u32, frame.len() as u32];
    head.iter().flat_map(|word| word.to_le_bytes()).chain(frame.iter().copied()).collect()
}

fn write_pcap(path: &Path, frames: &[Frame]) {
    let records = frames.iter().flat_map(|frame| record(frame));
    fs::write(path, capture_header().into_iter().chain(records).collect::<Vec<_>>()).unwrap();
}

pub(crate) fn read_pcap(path: &Path) -> Vec<Frame> {
    let bytes = fs::read(path).unwrap();
    let (mut rest, mut frames) = (&bytes[24..], Vec::new());
    while rest.len() >= 16 {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        frames.push(rest[16..16 + len].to_vec());
        rest = &rest[16 + len..];
    }
    frames
}

/// Runs captures through a function, one a port, and returns what left by each port.
fn through(name: &str, function: Function, input: &[Vec<Frame>; 2]) -> ([Vec<Frame>; 2], Ledger) {
    let folder = tempfile::tempdir().unwrap();
    let file = |what: &str, port: usize| folder.path().join(format!("{what}{port}.pcap"));
    let ports = [0, 1].map(|port| {
        write_pcap(&file("in", port), &input[port]);
        let (rx, tx) = (file("in", port), file("out", port));
        format!("net_pcap_{name}{port},rx_pcap={},tx_pcap={}", rx.display(), tx.display())
    });
    let config = ProgramConfig {
        ports: ports.into(),
        port: PortConfig::default(),
        buffers: 4096,
        cores: vec![allowed_cores()[0]],
        yields: false,
        fault: None,
    };
    let program = Program::start(eal(), function, &config).unwrap();
    let (total, begin) = (input.iter().map(Vec::len).sum::<usize>() as u64, Instant::now());
    while program.ledger().received() < total {
        assert!(begin.elapsed() < Duration::from_secs(20) && program.is_running());
        std::thread::sleep(Duration::from_millis(5));
    }
    let (ledger, missing) = program.stop().unwrap();
    assert_eq!(missing, 0, "packet buffers that did not come back");
    assert_eq!(ledger.received(), ledger.sent() + ledger.dropped());
    let output = [0, 1].map(|port| read_pcap(&file("out", port)));
    for port in 0..2 {
        assert_eq!(ledger.ports[port].received, input[port].len() as u64);
        assert_eq!(ledger.ports[port].sent, output[port].len() as u64);
    }
    (output, ledger)
}

/// A small generator of test data (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn checksum(header: &[u8]) -> u16 {
    let sum: u64 = header.chunks(2).map(|pair| u64::from(pair[0]) * 256 + u64::from(pair[1])).sum();
    let folded = match sum % 65_535 {
        0 if sum > 0 => 65_535,
        folded => folded,
    };
    !(folded as u16)
}

fn mend(frame: &mut [u8]) {
    let end = 14 + usize::from(frame[14] % 16) * 4;
    frame[24..26].fill(0);
    let sum = checksum(&frame[14..end]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// Packets of all kinds, good and malformed. The source MAC names the port and the packet's number.
fn packets(port: u8, count: u32) -> Vec<Frame> {
    let mut random = Random(2544 + u64::from(port));
    let make = |number: u32| {
        let mut frame = vec![0_u8; 60 + random.below(3) as usize * 300];
        frame[..6].copy_from_slice(&port_mac(port));
        frame[6] = 0x10 + port;
        frame[8..12].copy_from_slice(&number.to_be_bytes());
        frame[12..16].copy_from_slice(&[8, 0, 0x45, random.below(256) as u8]);
        let length = (frame.len() - 14) as u16;
        frame[16..18].copy_from_slice(&length.to_be_bytes());
        frame[18..20].copy_from_slice(&(number as u16).to_be_bytes());
        frame[22] = [64, 255, 2, 1, 0, 64, 64, 64][random.below(8) as usize];
        frame[23] = [17, 17, 17, 6, 1, 132][random.below(6) as usize];
        for address in [26, 30] {
            let network = [198, 18 + random.below(2) as u8];
            frame[address..address + 2].copy_from_slice(&network);
            frame[address + 2..address + 4].copy_from_slice(&(random.below(65_536) as u16).to_be_bytes());
        }
        frame[34..36].copy_from_slice(&(1024 + random.below(60_000) as u16).to_be_bytes());
        frame[36..38].copy_from_slice(&(random.below(1100) as u16).to_be_bytes());
        match random.below(20) {
            0 => frame[12] = 0x86,
            1 => frame[14] = 0x65,
            2 => frame[14] = 0x43,
            3 => frame[17] = 7,
            4 => frame[30] = 9,
            5 => frame[21] = 3, // a later fragment
            6 => {
                frame[14] = 0x47; // two words of options
                frame[34..42].copy_from_slice(&[1, 1, 1, 0, 4, 1, 0, 53]);
            }
            7 => frame.truncate(34),
            8 => frame.truncate(20),
            _ => {}
        }
        if frame.len() >= 42 && frame[14] % 16 >= 5 {
            mend(&mut frame);
        }
        if random.below(20) == 0 && frame.len() > 24 {
            frame[24] ^= 0x40;
        }
        frame
    };
    (0..count).map(make).collect()
}

/// What must become of a packet.
type Expected = Result<(u8, Frame), DropReason>;

/// Length of a valid IPv4 header, the slow way.
fn valid(frame: &[u8]) -> Result<usize, DropReason> {
    if frame.len() < 14 {
        return Err(DropReason::TooShort);
    }
    if frame[12..14] != [8, 0] {
        return Err(DropReason::NotIpv4);
    }
    if frame.len() < 34 {
        return Err(DropReason::TooShort);
    }
    let (version, words) = (frame[14] / 16, usize::from(frame[14] % 16));
    let total = usize::from(frame[16]) * 256 + usize::from(frame[17]);
    if version != 4 || words < 5 || total < words * 4 {
        return Err(DropReason::BadHeader);
    }
    if frame.len() < 14 + words * 4 { Err(DropReason::TooShort) } else { Ok(words * 4) }
}

fn address(frame: &[u8], offset: usize) -> Ipv4Addr {
    let bytes: [u8; 4] = frame[offset..offset + 4].try_into().unwrap();
    Ipv4Addr::from(bytes)
}

fn routed(routes: &[Route], frame: &Frame) -> Expected {
    let length = valid(frame)?;
    let mut sent = frame.clone();
    mend(&mut sent);
    if sent != *frame || length == 0 {
        return Err(DropReason::BadChecksum);
    }
    if frame[22] < 2 {
        return Err(DropReason::TtlExpired);
    }
    let route = longest_match(routes, address(frame, 30)).ok_or(DropReason::NoRoute)?;
    sent[..6].copy_from_slice(&next_hop_mac(route.port));
    sent[6..12].copy_from_slice(&port_mac(route.port));
    sent[22] -= 1;
    mend(&mut sent);
    Ok((route.port, sent))
}

fn filtered(rules: &[Rule], port: u8, frame: &Frame) -> Expected {
    let length = valid(frame)?;
    let later = frame[20] & 0x1f != 0 || frame[21] != 0;
    let ports = if has_ports(frame[23]) && !later {
        let total = usize::from(frame[16]) * 256 + usize::from(frame[17]);
        let ports = frame.get(14 + length..18 + length).filter(|_| total >= length + 4);
        let ports = ports.ok_or(DropReason::TooShort)?;
        let number = |at: usize| u16::from(ports[at]) * 256 + u16::from(ports[at + 1]);
        Some((number(0), number(2)))
    } else {
        None
    };
    let tuple =
        FiveTuple { protocol: frame[23], source: address(frame, 26), destination: address(frame, 30), ports };
    match first_match(rules, &tuple).map(|rule| rule.action) {
        Some(Action::Allow) => Ok((1 - port, frame.clone())),
        _ => Err(DropReason::Denied),
    }
}

/// Compares what left, and why the rest did not, with what each packet should have become.
fn compare(
    input: &[Vec<Frame>; 2],
    output: &[Vec<Frame>; 2],
    ledger: &Ledger,
    expect: impl Fn(u8, &Frame) -> Expected,
) {
    let mut sent = [Vec::new(), Vec::new()];
    let mut drops: BTreeMap<&str, u64> = DropReason::ALL.map(|reason| (reason.name(), 0)).into();
    for (port, frames) in (0_u8..).zip(input) {
        for frame in frames {
            match expect(port, frame) {
                Ok((out, frame)) => sent[usize::from(out)].push(frame),
                Err(reason) => *drops.get_mut(reason.name()).unwrap() += 1,
            }
        }
    }
    assert_eq!(
        ledger.drops().map(|(reason, packets)| (reason.name(), packets)).collect::<BTreeMap<_, _>>(),
        drops
    );
    for port in 0..2 {
        // Bursts of the two ports may interleave anyhow, so the whole is compared sorted.
        let (mut seen, mut expected) = (output[port].clone(), sent[port].clone());
        seen.sort();
        expected.sort();
        assert!(seen == expected, "port {port}: {} packets left, {} should have", seen.len(), expected.len());
    }
}

#[test]
fn l2fwd_moves_every_packet_to_the_port_opposite_in_order_and_unchanged() {
    let input = [packets(0, 3000), packets(1, 2000)];
    let (output, ledger) = through("l2", Function::L2Fwd(L2Fwd), &input);
    assert_eq!(ledger.dropped(), 0);
    assert!(output[1] == input[0] && output[0] == input[1]);
}

#[test]
fn l3fwd_routes_each_packet_as_the_slow_router_does() {
    let lines =
        ["198.18.0.0/16 0", "198.19.0.0/16 1", "198.19.64.0/18 0", "198.19.64.128/25 1", "198.18.7.0/24 1"];
    let routes: Vec<Route> = lines.map(|line| line.parse().unwrap()).into();
    let input = [packets(0, 3000), packets(1, 2000)];
    let (output, ledger) = through("l3", Function::L3Fwd(Box::new(L3Fwd::new(&routes).unwrap())), &input);
    compare(&input, &output, &ledger, |_, frame| routed(&routes, frame));
    assert!(ledger.drops().filter(|(_, packets)| *packets > 10).count() >= 6, "{ledger:?}");
    assert!(ledger.ports.iter().all(|port| port.sent > 500), "{ledger:?}");
}

#[test]
fn the_firewall_filters_each_packet_as_the_slow_one_does() {
    let lines = [
        "deny udp 198.18.0.0/16 any 198.19.0.0/16 0-511",
        "allow tcp 198.18.0.0/17 1024-30000 any any",
        "deny 132 any any any any",
        "deny any any any 198.18.0.0/16 1000-65535",
        "allow icmp any any any any",
        "allow any any any any any",
    ];
    let rules: Vec<Rule> = lines.map(|line| line.parse().unwrap()).into();
    let input = [packets(0, 3000), packets(1, 2000)];
    let (output, ledger) =
        through("fw", Function::Firewall(Box::new(Firewall::new(&rules).unwrap())), &input);
    compare(&input, &output, &ledger, |port, frame| filtered(&rules, port, frame));
    let denied = ledger.drops().find(|(reason, _)| *reason == DropReason::Denied).unwrap().1;
    assert!(denied > 500 && ledger.sent() > 500, "{ledger:?}");
}

#[test]
fn a_port_that_takes_nothing_costs_packets_that_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pcap");
    write_pcap(&input, &packets(0, 1000));
    // Nobody is at the other end of the socket, so the port takes nothing.
    let socket = folder.path().join("socket");
    let ports = [
        format!("net_pcap_full,rx_pcap={}", input.display()),
        format!("net_vhost_full,iface={}", socket.display()),
    ];
    let config = ProgramConfig {
        ports: ports.into(),
        port: PortConfig::default(),
        buffers: 4096,
        cores: vec![allowed_cores()[0]],
        yields: false,
        fault: None,
    };
    let program = Program::start(eal(), Function::L2Fwd(L2Fwd), &config).unwrap();
    let begin = Instant::now();
    while program.ledger().ports[0].received < 1000 {
        assert!(begin.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
    }
    let (ledger, missing) = program.stop().unwrap();
    let refused = ledger.drops().find(|(reason, _)| *reason == DropReason::TransmitFull);
    assert_eq!(refused, Some((DropReason::TransmitFull, 1000)));
    assert_eq!(ledger.ports.map(|port| port.refused), [0, 1000]);
    assert_eq!((ledger.received(), ledger.dropped(), missing), (1000, 1000, 0));
}

#[test]
fn a_program_that_yields_lets_others_poll_on_its_core_and_counts_none_of_their_time() {
    const TURN: u64 = 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pcap");
    write_pcap(&input, &packets(0, 20_000));
    let core = allowed_cores()[0];
    let config = ProgramConfig {
        ports: [format!("net_pcap_yields,rx_pcap={}", input.display()), "net_null_yields,no-rx=1".to_owned()]
            .into(),
        port: PortConfig::default(),
        buffers: 4096,
        cores: vec![core],
        yields: true,
        fault: None,
    };
    let done = Arc::<AtomicBool>::default();
    let other = std::thread::spawn({
        let done = done.clone();
        move || {
            pin(core).unwrap();
            let mut turns = 0;
            while !done.load(Ordering::Relaxed) {
                let begin = Ticks::now();
                while Ticks::now().since(begin) < TURN {}
                turns += 1;
                std::thread::yield_now();
            }
            turns
        }
    });
    let program = Program::start(eal(), Function::L2Fwd(L2Fwd), &config).unwrap();
    let begin = Instant::now();
    while program.ledger().ports[0].received < 20_000 {
        assert!(begin.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
    done.store(true, Ordering::Relaxed);
    let turns = other.join().unwrap();
    let (ledger, missing) = program.stop().unwrap();
    assert_eq!((ledger.received(), missing), (ledger.sent() + ledger.dropped(), 0));
    // The packets are more than 600 rounds, 16 of them a turn.
    assert!(turns > 20, "{turns} turns");
    assert!(ledger.busy_cycles > 0 && ledger.busy_cycles < turns * TURN, "{turns} turns, {ledger:?}");
}

#[test]
fn a_core_or_port_that_is_not_there_is_refused_before_anything_flows() {
    let config = |port: &str, core| ProgramConfig {
        ports: vec![port.to_owned(), "net_null_refused".to_owned()],
        port: PortConfig::default(),
        buffers: 4096,
        cores: vec![core],
        yields: false,
        fault: None,
    };
    let start = |config| Program::start(eal(), Function::L2Fwd(L2Fwd), &config).unwrap_err();
    let error = start(config("net_null_x", 1023));
    assert!(matches!(error, ProgramError::Worker(_)) && error.to_string().contains("1023"), "{error}");
    let error = start(config("net_pcap_missing,rx_pcap=/nowhere/in.pcap", allowed_cores()[0]));
    assert!(
        matches!(error, ProgramError::Port(_)) && error.to_string().contains("/nowhere/in.pcap"),
        "{error}"
    );
}

#[test]
fn queues_are_shared_out_among_workers_and_their_ledgers_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = |queue: u32| folder.path().join(format!("in{queue}.pcap"));
    (0..3).for_each(|queue| write_pcap(&file(queue), &packets(0, 1000 * (queue + 1))));
    let captures = [0, 1, 2].map(|queue| format!(",rx_pcap={}", file(queue).display())).concat();
    let config = |cores: &[usize]| ProgramConfig {
        ports: vec![
            format!("net_pcap_shared{}{captures}", cores.len()),
            format!("net_null_shared{},no-rx=1", cores.len()),
        ],
        port: PortConfig { queues: 3, ..PortConfig::default() },
        buffers: 16_384,
        cores: cores.to_vec(),
        yields: true,
        fault: None,
    };
    let core = allowed_cores()[0];
    for workers in [1, 2] {
        let program = Program::start(eal(), Function::L2Fwd(L2Fwd), &config(&vec![core; workers])).unwrap();
        assert_eq!(program.threads().len(), workers);
        let begin = Instant::now();
        while program.ledger().received() < 6000 {
            assert!(begin.elapsed() < Duration::from_secs(20) && program.is_running());
            std::thread::sleep(Duration::from_millis(5));
        }
        let (ledger, missing) = program.stop().unwrap();
        assert_eq!((ledger.ports[0].received, ledger.ports[1].sent, missing), (6000, 6000, 0), "{ledger:?}");
    }
    let none = Program::start(eal(), Function::L2Fwd(L2Fwd), &config(&[])).unwrap_err();
    assert!(matches!(none, ProgramError::NoCore), "{none}");
}
