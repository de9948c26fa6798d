//! Ports over the kernel's interfaces, in a network namespace of the test's own: what a program of the system
//! sends by one end of a veth pair, a port at the other end receives as the wire would carry it.

use nix::sched::{CloneFlags, unshare};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_dpdk::{Burst, Eal, EalConfig, Memory, Pool, PortConfig};
use weir_port::{OpenPort, Rx, TooLong, Tx, open};
use weir_testkit::Need;
use weir_units::FrameSize;
use weir_wire::{Dissection, checksum};

fn pool() -> Pool {
    let config = EalConfig { memory: Memory::Normal, megabytes: 256, pci: false };
    Pool::new(Eal::init(config).expect("EAL starts anywhere"), 8192, FrameSize::MIN).expect("memory")
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip runs");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs the body in a namespace of its own.
fn alone(body: impl FnOnce(&Pool) + Send + 'static) {
    let pool = pool();
    let inner = pool.clone();
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        body(&inner);
    });
    thread.join().unwrap();
    assert_eq!(pool.in_use(), 0, "packet buffers are missing");
}

fn can_run() -> bool {
    weir_testkit::needs!(Need::Root, Need::Namespaces, Need::Program("ip", "iproute2"))
}

/// A port at `far`, and a host at `near` that has an address and knows the other's MAC address.
fn host_and_port(pool: &Pool, spec: &str) -> (OpenPort, Rx, Tx) {
    ip("link add near type veth peer name far");
    ip("addr add 10.7.0.1/24 dev near");
    ip("link set far up");
    ip("link set near up");
    ip("neigh add 10.7.0.2 lladdr 02:00:00:00:00:02 dev near");
    let mut port = open(spec, PortConfig::default(), pool).unwrap();
    let (rx, tx) = port.take_queue().unwrap();
    // The kernel tells of a carrier some time after it is there.
    let begin = Instant::now();
    while !port.link_up() {
        assert!(begin.elapsed() < Duration::from_secs(20), "its link is down");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_ne!(port.mac(), [0; 6]);
    (port, rx, tx)
}

/// What comes in until so many frames did, and what was too long.
fn receive(rx: &mut Rx, frames: usize) -> (Vec<Vec<u8>>, TooLong) {
    let (mut all, mut too_long, begin) = (Vec::new(), TooLong::default(), Instant::now());
    while all.len() + (too_long.packets as usize) < frames {
        assert!(begin.elapsed() < Duration::from_secs(20), "{} of {frames} came", all.len());
        let mut burst = Burst::new();
        rx.receive(&mut burst);
        let more = rx.take_too_long();
        too_long = TooLong { packets: too_long.packets + more.packets, bytes: too_long.bytes + more.bytes };
        all.extend(burst.iter().map(|packet| packet.data().to_vec()));
    }
    (all, too_long)
}

/// Whether the transport checksum of a frame of IPv4 is right.
fn is_right(frame: &[u8]) -> bool {
    let network = Dissection::of(frame).network.unwrap();
    let header = usize::from(frame[network.offset] & 15) * 4;
    let body = &frame[network.offset + header..network.end];
    let (std::net::IpAddr::V4(from), std::net::IpAddr::V4(to)) = (network.source, network.destination) else {
        panic!("IPv4 only")
    };
    let pseudo = checksum::pseudo_ipv4(from, to, network.protocol, body.len() as u16);
    checksum::checksum(&frame[network.offset..network.offset + header]) == 0
        && checksum::finish(pseudo + u32::from(checksum::fold(checksum::sum(body)))) == 0
}

fn datagram(len: usize) {
    let socket = UdpSocket::bind("10.7.0.1:0").unwrap();
    socket.send_to(&vec![0x5a; len], "10.7.0.2:9").unwrap();
}

#[test]
fn fragments_come_in_as_fragments_and_checksums_are_complete() {
    if !can_run() {
        return;
    }
    alone(|pool| {
        for spec in ["af_packet:far", "net_af_packet0,iface=far,blocksz=4096,framesz=2048,framecnt=1024"] {
            let (port, mut rx, tx) = host_and_port(pool, spec);
            datagram(100);
            let (frames, _) = receive(&mut rx, 1);
            assert!(frames[0].len() == 142 && is_right(&frames[0]), "{frames:02x?}");
            datagram(4000);
            let (frames, too_long) = receive(&mut rx, 3);
            let lens: Vec<usize> = frames.iter().map(Vec::len).collect();
            assert_eq!((lens, too_long), (vec![1514, 1514, 1082], TooLong::default()));
            assert!(frames.iter().all(|frame| Dissection::of(frame).network.unwrap().fragment));
            let stats = port.stats();
            assert_eq!((stats.received, stats.received_bytes, stats.missed), (4, 142 + 1514 * 2 + 1082, 0));
            drop((rx, tx, port));
            ip("link del near");
        }
    });
}

#[test]
fn a_frame_has_the_vlan_tags_that_it_was_sent_with() {
    if !can_run() {
        return;
    }
    alone(|pool| {
        let (_port, mut rx, _tx) = host_and_port(pool, "af_packet:far");
        let mut near = open("af_packet:near", PortConfig::default(), pool).unwrap();
        let (_, mut tx) = near.take_queue().unwrap();
        // The kernel takes an outer tag out of what comes in, and keeps it beside the frame.
        let mut wanted = Vec::new();
        for tags in [&[][..], &[0x8100, 0x6007], &[0x88a8, 5, 0x8100, 9]] {
            let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
            frame.extend(tags.iter().flat_map(|word: &u16| word.to_be_bytes()));
            frame.extend([0x88, 0xb5]);
            frame.extend((0..80).map(|at| at + tags.len() as u8));
            let mut burst = Burst::new();
            burst.push(pool.packet(&frame).unwrap()).unwrap();
            assert_eq!(tx.transmit(&mut burst), 1);
            wanted.push(frame);
        }
        assert_eq!(receive(&mut rx, 3).0, wanted);
    });
}

/// Gives each frame back with its addresses swapped, so that a host that talks to 10.7.0.2 talks to itself.
fn reflect(rx: &mut Rx, tx: &mut Tx, done: &AtomicBool) -> (usize, usize, u64) {
    let (mut longest, mut count, mut too_long) = (0, 0, 0);
    let mut burst = Burst::new();
    while !done.load(Ordering::Relaxed) {
        rx.receive(&mut burst);
        too_long += rx.take_too_long().packets;
        for packet in burst.iter_mut() {
            let frame = packet.data_mut();
            longest = longest.max(frame.len());
            assert!(frame[12..14] == [8, 0] && is_right(frame), "{frame:02x?}");
            let (to, from) = frame[..12].split_at_mut(6);
            to.swap_with_slice(from);
            // 10.7.0.1 to 10.7.0.2 becomes 10.7.0.2 to 10.7.0.1: the sums stay.
            let (from, to) = frame[26..34].split_at_mut(4);
            from.swap_with_slice(to);
            count += 1;
        }
        while !burst.is_empty() && !done.load(Ordering::Relaxed) {
            tx.transmit(&mut burst);
        }
        burst.clear();
    }
    (longest, count, too_long)
}

#[test]
fn a_stream_that_its_sender_leaves_to_be_cut_arrives_whole() {
    if !can_run() {
        return;
    }
    alone(|pool| {
        let (_port, mut rx, mut tx) = host_and_port(pool, "af_packet:far");
        let done = AtomicBool::new(false);
        let listener = TcpListener::bind("10.7.0.1:7000").unwrap();
        let (longest, count, too_long) = std::thread::scope(|scope| {
            let reflecting = scope.spawn(|| reflect(&mut rx, &mut tx, &done));
            let sent: Vec<u8> = (0..4_000_000_u32).map(|at| (at % 253) as u8).collect();
            let expected = sent.clone();
            let writer = scope.spawn(move || {
                let mut stream = TcpStream::connect(SocketAddr::from(([10, 7, 0, 2], 7000))).unwrap();
                stream.write_all(&sent).unwrap();
            });
            let (mut stream, from) = listener.accept().unwrap();
            assert_eq!(from.ip().to_string(), "10.7.0.2");
            let mut got = Vec::new();
            stream.read_to_end(&mut got).unwrap();
            writer.join().unwrap();
            drop(stream);
            std::thread::sleep(Duration::from_millis(50));
            done.store(true, Ordering::Relaxed);
            assert!(got == expected, "{} of {} bytes", got.len(), expected.len());
            reflecting.join().unwrap()
        });
        // None was longer than the wire carries, and the interface had handed over some that were.
        assert!(longest <= 1514 && count > 2700 && too_long == 0, "{longest} {count} {too_long}");
    });
}

#[test]
fn what_is_longer_than_the_ports_or_the_interface_take_is_counted_and_the_rest_passes() {
    if !can_run() {
        return;
    }
    alone(|pool| {
        let (port, mut rx, mut tx) = host_and_port(pool, "af_packet:far");
        ip("link set near mtu 9000");
        ip("link set far mtu 9000");
        for len in [100, 5000, 200] {
            datagram(len);
        }
        let (frames, too_long) = receive(&mut rx, 3);
        assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [142, 242]);
        assert_eq!((too_long.packets, too_long.bytes), (1, 5042));
        ip("link set far mtu 1400");
        // The other way: an MTU of 1400 takes 1414 bytes, and four more of a tag.
        let mut near = open("af_packet:near", PortConfig::default(), pool).unwrap();
        let (mut seen, _) = near.take_queue().unwrap();
        let mut burst = Burst::new();
        for len in [60, 1419, 1414, 1600, 61] {
            let mut frame = vec![0; len];
            frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
            frame[12..14].copy_from_slice(&[0x88, 0xb5]);
            burst.push(pool.packet(&frame).unwrap()).unwrap();
        }
        assert_eq!(tx.transmit(&mut burst), 3);
        assert!(burst.is_empty());
        assert_eq!(tx.take_too_long(), TooLong { packets: 2, bytes: 1419 + 1600 });
        assert_eq!((port.stats().sent, port.stats().sent_bytes), (3, 60 + 1414 + 61));
        let lens: Vec<usize> = receive(&mut seen, 3).0.iter().map(Vec::len).collect();
        assert_eq!(lens, [60, 1414, 61]);
        ip("link set far down");
        assert!(!port.link_up());
    });
}

#[test]
fn several_queues_share_the_frames_of_an_interface_by_flow() {
    if !can_run() {
        return;
    }
    alone(|pool| {
        ip("link add near type veth peer name far");
        ip("addr add 10.7.0.1/24 dev near");
        ip("link set far up");
        ip("link set near up");
        ip("neigh add 10.7.0.2 lladdr 02:00:00:00:00:02 dev near");
        let mut port =
            open("af_packet:far", PortConfig { queues: 2, ..PortConfig::default() }, pool).unwrap();
        let mut queues: Vec<(Rx, Tx)> = std::iter::from_fn(|| port.take_queue()).collect();
        assert_eq!((port.queues(), queues.len()), (2, 2));
        let sockets: Vec<UdpSocket> = (0..40).map(|_| UdpSocket::bind("10.7.0.1:0").unwrap()).collect();
        for _ in 0..3 {
            for socket in &sockets {
                socket.send_to(&[1; 50], "10.7.0.2:9").unwrap();
            }
        }
        let mut ports_of = [Vec::new(), Vec::new()];
        let begin = Instant::now();
        while ports_of.iter().map(Vec::len).sum::<usize>() < 120 {
            assert!(begin.elapsed() < Duration::from_secs(20), "{ports_of:?}");
            for ((rx, _), ports) in queues.iter_mut().zip(&mut ports_of) {
                let mut burst = Burst::new();
                rx.receive(&mut burst);
                ports.extend(
                    burst.iter().map(|packet| Dissection::of(packet.data()).transport.unwrap().source),
                );
            }
        }
        assert!(ports_of.iter().all(|ports| !ports.is_empty()), "{ports_of:?}");
        assert!(ports_of[0].iter().all(|port| !ports_of[1].contains(port)), "a flow has one queue");
        assert_eq!(port.stats().received, 120);
    });
}
