//! Ports of every kind over real packet memory; every scenario ends by counting the pool.

use std::fs;
use std::io::BufWriter;
use std::path::Path;
use std::time::{Duration, Instant};
use weir_dpdk::{BURST, Burst, Eal, EalConfig, Memory, Pool, PortConfig, Worker};
use weir_port::{OpenPort, Rx, Tx, open};
use weir_units::{FrameSize, Nanos};
use weir_wire::pcap::{CaptureReader, CaptureWriter, Format};

fn pool() -> Pool {
    let config = EalConfig { memory: Memory::Normal, megabytes: 256, pci: false };
    Pool::new(Eal::init(config).expect("EAL starts anywhere"), 2048, FrameSize::MIN).expect("memory")
}

/// Runs the body as a switch's worker would, and counts the pool.
fn on_worker(body: impl FnOnce(&Pool) + Send + 'static) {
    let pool = pool();
    let inner = pool.clone();
    let core = weir_cpu::allowed_cores()[0];
    Worker::spawn(pool.eal(), "test", core, move || body(&inner)).unwrap().join().unwrap();
    assert_eq!(pool.in_use(), 0, "packet buffers are missing");
}

/// A frame of UDP between two hosts, numbered.
fn frame(number: u16) -> Vec<u8> {
    let mut frame = vec![0_u8; 60 + usize::from(number % 100)];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&46_u16.to_be_bytes());
    frame[23] = 17;
    let (low, high) = ([10, 0, 0, (number % 16) as u8], [10, 1, 0, 1]);
    let (source, destination) =
        if number.is_multiple_of(2) { (low, high) } else { (high, [10, 0, 0, (number % 16) as u8]) };
    frame[26..30].copy_from_slice(&source);
    frame[30..34].copy_from_slice(&destination);
    frame[38..40].copy_from_slice(&26_u16.to_be_bytes());
    frame[50..52].copy_from_slice(&number.to_be_bytes());
    frame
}

fn write(path: &Path, frames: impl Iterator<Item = Vec<u8>>) {
    let mut writer =
        CaptureWriter::new(BufWriter::new(fs::File::create(path).unwrap()), Format::Pcap).unwrap();
    for frame in frames {
        writer.write(Nanos(0), &frame).unwrap();
    }
    writer.finish().unwrap();
}

fn read(path: &Path) -> (Format, Vec<Vec<u8>>) {
    let mut reader = CaptureReader::new(fs::File::open(path).unwrap()).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        assert!(packet.timestamp.is_some_and(|time| time > Nanos(1_600_000_000 * Nanos::PER_SECOND)));
        frames.push(packet.data.to_vec());
    }
    (reader.format(), frames)
}

fn queues(port: &mut OpenPort) -> Vec<(Rx, Tx)> {
    std::iter::from_fn(|| port.take_queue()).collect()
}

#[test]
fn a_replayed_capture_that_is_sent_on_is_written_whole_and_in_order() {
    on_worker(|pool| {
        for (name, format) in [("out.pcap", Format::Pcap), ("out.pcapng", Format::Pcapng)] {
            let folder = tempfile::tempdir().unwrap();
            let (input, output) = (folder.path().join("in.pcap"), folder.path().join(name));
            write(&input, (0..1000).map(frame));
            let spec = format!("trace:{},tx={}", input.display(), output.display());
            let mut port = open(&spec, PortConfig::default(), pool).unwrap();
            assert!((port.queues(), port.link_up(), port.spec()) == (1, true, spec.as_str()));
            let (mut rx, mut tx) = port.take_queue().unwrap();
            let mut burst = Burst::new();
            while rx.receive(&mut burst) > 0 {
                let held = burst.len();
                assert_eq!(tx.transmit(&mut burst), held);
                assert!(burst.is_empty());
            }
            let stats = port.stats();
            assert_eq!((stats.received, stats.sent, stats.send_errors), (1000, 1000, 0));
            let bytes: usize = (0..1000).map(|number| frame(number).len()).sum();
            assert_eq!((stats.received_bytes, stats.sent_bytes), (bytes as u64, bytes as u64));
            drop((port, rx, tx));
            assert_eq!(read(&output), (format, (0..1000).map(frame).collect()));
        }
    });
}

#[test]
fn a_looped_trace_never_ends_and_waits_when_the_pool_is_empty() {
    on_worker(|pool| {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("in.pcap");
        write(&input, (0..7).map(frame));
        let mut port = open(&format!("trace:{},loop", input.display()), PortConfig::default(), pool).unwrap();
        let (mut rx, mut tx) = port.take_queue().unwrap();
        let mut held = Vec::new();
        loop {
            let mut burst = Burst::new();
            if rx.receive(&mut burst) == 0 {
                break; // the pool is empty
            }
            held.push(burst);
        }
        let mut next = 0;
        for mut burst in held {
            for packet in burst.iter() {
                assert_eq!(packet.data(), frame(next), "what an empty pool delays is not skipped");
                next = (next + 1) % 7;
            }
            let count = burst.len();
            assert_eq!(tx.transmit(&mut burst), count);
        }
        let mut burst = Burst::new();
        assert_eq!(rx.receive(&mut burst), BURST);
        assert_eq!(burst.get_mut(0).unwrap().data(), frame(next));
    });
}

#[test]
fn a_burst_that_holds_packets_is_filled_up_behind_them() {
    on_worker(|pool| {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("in.pcap");
        write(&input, (0..100).map(frame));
        let mut port = open(&format!("trace:{}", input.display()), PortConfig::default(), pool).unwrap();
        let (mut rx, _tx) = port.take_queue().unwrap();
        let mut burst = Burst::new();
        burst.push(pool.packet(&[9; 60]).unwrap()).unwrap();
        assert_eq!(rx.receive(&mut burst), BURST - 1);
        assert_eq!(burst.get_mut(0).unwrap().data(), [9; 60]);
        assert_eq!(burst.get_mut(1).unwrap().data(), frame(0));
        assert_eq!(rx.receive(&mut burst), 0, "a full burst takes nothing");
    });
}

#[test]
fn both_directions_of_a_flow_come_in_at_one_queue() {
    on_worker(|pool| {
        let folder = tempfile::tempdir().unwrap();
        let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
        write(&input, (0..500).map(frame));
        let config = PortConfig { queues: 3, ..PortConfig::default() };
        let spec = format!("trace:{},tx={}", input.display(), output.display());
        let mut port = open(&spec, config, pool).unwrap();
        let mut places = std::collections::BTreeMap::new();
        let (mut total, mut used) = (0, 0);
        for (queue, (mut rx, mut tx)) in queues(&mut port).into_iter().enumerate() {
            let mut burst = Burst::new();
            let before = total;
            while rx.receive(&mut burst) > 0 {
                for packet in burst.iter() {
                    let (a, b) = (packet.data()[26..30].to_vec(), packet.data()[30..34].to_vec());
                    let pair = if a < b { (a, b) } else { (b, a) };
                    assert_eq!(*places.entry(pair).or_insert(queue), queue);
                }
                total += tx.transmit(&mut burst);
            }
            used += u32::from(total > before);
        }
        assert!(total == 500 && used >= 2, "{total} packets at {used} queues");
        assert_eq!((port.queues(), port.stats().received, port.stats().sent), (3, 500, 500));
        drop(port);
        assert_eq!(read(&output).1.len(), 500, "all queues write one capture");
    });
}

#[test]
fn a_frame_that_no_buffer_holds_has_its_turn_and_is_counted() {
    on_worker(|pool| {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("in.pcap");
        let long = |number: u16| number % 10 == 3;
        write(
            &input,
            (0..100)
                .map(|number| if long(number) { vec![7; 9000 + usize::from(number)] } else { frame(number) }),
        );
        let mut port = open(&format!("trace:{}", input.display()), PortConfig::default(), pool).unwrap();
        let (mut rx, _tx) = port.take_queue().unwrap();
        let (mut received, mut too_long) = (Vec::new(), weir_port::TooLong::default());
        loop {
            let mut burst = Burst::new();
            let count = rx.receive(&mut burst);
            let more = rx.take_too_long();
            too_long.packets += more.packets;
            too_long.bytes += more.bytes;
            received.extend(burst.iter().map(|packet| packet.data().to_vec()));
            if count == 0 && more.packets == 0 {
                break;
            }
        }
        assert!(received == (0..100).filter(|number| !long(*number)).map(frame).collect::<Vec<_>>());
        let bytes: u64 = (0..100).filter(|number| long(*number)).map(|number| 9000 + u64::from(number)).sum();
        assert_eq!((too_long.packets, too_long.bytes), (10, bytes));
        assert_eq!(port.stats().received, 90);
    });
}

#[test]
fn a_rate_is_not_exceeded() {
    on_worker(|pool| {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("in.pcap");
        write(&input, (0..10).map(frame));
        let spec = format!("trace:{},loop,rate=10kpps", input.display());
        let mut port = open(&spec, PortConfig::default(), pool).unwrap();
        let (mut rx, _tx) = port.take_queue().unwrap();
        let begin = Instant::now();
        let mut received = 0;
        while begin.elapsed() < Duration::from_millis(50) {
            let mut burst = Burst::new();
            received += rx.receive(&mut burst);
        }
        let most = begin.elapsed().as_secs_f64() * 10_000.0 * 1.01 + 2.0;
        assert!(received > 0 && (received as f64) < most, "{received} packets, {most} allowed");
    });
}

#[test]
fn null_ports_give_nothing_and_take_everything() {
    on_worker(|pool| {
        let mut port = open("null", PortConfig { queues: 2, ..PortConfig::default() }, pool).unwrap();
        let (mut rx, mut tx) = port.take_queue().unwrap();
        let mut burst = Burst::new();
        assert_eq!(rx.receive(&mut burst), 0);
        assert!(pool.fill(&mut burst, BURST));
        assert_eq!(tx.transmit(&mut burst), BURST);
        assert!(
            burst.is_empty() && port.link_up() && port.take_queue().is_some() && port.take_queue().is_none()
        );
    });
}

#[test]
fn a_dpdk_port_gets_the_queues_its_driver_has() {
    on_worker(|pool| {
        let config = PortConfig { queues: 2, ..PortConfig::default() };
        let mut port = open("net_null_ports0", config, pool).unwrap();
        assert_eq!(port.queues(), 2);
        let (mut rx, mut tx) = port.take_queue().unwrap();
        let mut burst = Burst::new();
        assert!(rx.receive(&mut burst) > 0 && tx.transmit(&mut burst) > 0);
        drop((rx, tx, port));
        let port = open("net_ring_ports0", PortConfig { queues: 40, ..PortConfig::default() }, pool).unwrap();
        assert!((1..40).contains(&port.queues()), "net_ring has 16 queues at most");
    });
}

#[test]
fn what_cannot_be_opened_says_why() {
    on_worker(|pool| {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        fs::write(at("text"), "no capture at all").unwrap();
        write(Path::new(&at("empty.pcap")), std::iter::empty());
        write(Path::new(&at("long.pcap")), std::iter::once(vec![0; 9000]));
        write(Path::new(&at("good.pcap")), std::iter::once(vec![0; 60]));
        for (spec, why) in [
            (format!("trace:{}", at("absent")), "No such file"),
            (format!("trace:{}", at("text")), "neither pcap nor pcapng"),
            (format!("trace:{}", at("empty.pcap")), "holds no packet"),
            (format!("trace:{}", at("long.pcap")), "the longest has 9000: set max_frame as large"),
            ("af_packet:no-such".to_owned(), "`no-such`: there is no such interface"),
            (format!("trace:{},tx={}", at("good.pcap"), at("absent/x.pcap")), "No such file"),
            ("nul".to_owned(), "no driver has devices of that name"),
            ("net_vhos0,iface=/tmp/a".to_owned(), "did you mean `net_vhost0`?"),
        ] {
            let error = open(&spec, PortConfig::default(), pool).unwrap_err().to_string();
            assert!(error.contains(why), "{spec}: {error}");
        }
    });
}

#[test]
fn a_full_disk_is_a_port_that_takes_nothing_and_says_so() {
    if !Path::new("/dev/full").exists() {
        eprintln!("skipped: this machine has no /dev/full");
        return;
    }
    on_worker(|pool| {
        let mut port = open("trace:,tx=/dev/full", PortConfig::default(), pool).unwrap();
        let (_rx, mut tx) = port.take_queue().unwrap();
        let mut left = 0;
        for _ in 0..10_000 {
            let mut burst = Burst::new();
            assert!(pool.fill(&mut burst, BURST));
            burst.iter_mut().for_each(|packet| packet.set_len(1500).fill(1));
            tx.transmit(&mut burst);
            left += burst.len() as u64;
        }
        assert!(left > 0 && !port.link_up() && port.trouble().unwrap().contains("/dev/full"));
        assert_eq!(port.stats().sent + left, 320_000);
        assert_eq!(port.stats().send_errors, left);
    });
}
