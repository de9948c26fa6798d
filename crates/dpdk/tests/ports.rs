//! The safe layer over real DPDK drivers, without huge pages, as any user.
//!
//! Every scenario ends by counting the pool: no packet may be out.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_dpdk::{Burst, Eal, EalConfig, Memory, Pool, Port, PortConfig, PortError, Worker};
use weir_units::FrameSize;

fn eal() -> &'static Eal {
    Eal::init(EalConfig { memory: Memory::Normal, megabytes: 256, pci: false }).expect("EAL starts anywhere")
}

fn pool() -> Pool {
    Pool::new(eal(), 4096, FrameSize::MIN).expect("memory for a small pool")
}

/// Runs the body as DPDK wants it: on a registered thread, one a test.
fn on_worker(body: impl FnOnce() + Send + 'static) {
    let core = weir_cpu::allowed_cores()[0];
    Worker::spawn(eal(), "test", core, body).unwrap().join().unwrap();
}

fn fill(pool: &Pool, burst: &mut Burst, count: usize, byte: u8) {
    assert!(pool.fill(burst, count));
    burst.iter_mut().for_each(|packet| packet.set_len(60).fill(byte));
}

#[test]
fn packets_go_round_a_ring_and_the_pool_is_whole_again() {
    let pool = pool();
    let inner = pool.clone();
    on_worker(move || {
        let mut port = Port::open("net_ring_a", PortConfig::default(), &inner).unwrap();
        let (mut rx, mut tx) = port.take_queue().unwrap();
        assert!(port.take_queue().is_none(), "a queue is handed out once");
        let mut burst = Burst::new();
        let mut received = 0;
        for round in 0..1000_u32 {
            fill(&inner, &mut burst, 32, round as u8);
            assert_eq!(tx.transmit(&mut burst), 32);
            assert!(burst.is_empty(), "what was sent is gone");
            received += rx.receive(&mut burst);
            assert!(burst.iter().all(|packet| packet.data() == [round as u8; 60]));
            burst.clear();
        }
        assert_eq!(received, 32_000);
        assert_eq!(port.stats().sent, 32_000);
    });
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn what_a_full_port_does_not_take_stays_in_the_burst() {
    let pool = pool();
    let inner = pool.clone();
    on_worker(move || {
        let mut port = Port::open("net_ring_b", PortConfig::default(), &inner).unwrap();
        let (mut rx, mut tx) = port.take_queue().unwrap();
        let mut burst = Burst::new();
        let mut sent = 0;
        while burst.is_empty() {
            fill(&inner, &mut burst, 32, 7);
            sent += tx.transmit(&mut burst);
        }
        assert_eq!(inner.in_use() as usize, sent + burst.len());
        burst.drop_front(3);
        burst.clear();
        let mut received = 0;
        while rx.receive(&mut burst) > 0 {
            received += burst.len();
            burst.clear();
        }
        assert_eq!(received, sent);
    });
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_burst_is_distributed_in_order_and_the_refused_are_freed() {
    let pool = pool();
    let inner = pool.clone();
    on_worker(move || {
        let mut burst = Burst::new();
        assert!(inner.fill(&mut burst, 32));
        for (index, packet) in burst.iter_mut().enumerate() {
            packet.set_len(60).fill(index as u8);
        }
        let mut out = [Burst::new(), Burst::new()];
        let freed = burst.distribute(&mut out, |index, _| [Some(0), Some(1), None, Some(9)][index % 4]);
        assert_eq!((freed, burst.len(), out[0].len(), out[1].len()), (16, 0, 8, 8));
        let seen: Vec<u8> = out[1].iter().map(|packet| packet.data()[0]).collect();
        assert_eq!(seen, [1, 5, 9, 13, 17, 21, 25, 29]);
        let one = out[0].pop().unwrap();
        assert_eq!(one.data()[0], 28);
        assert!(out[1].push(one).is_ok());
        assert_eq!(inner.in_use(), 16);
    });
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn an_empty_pool_says_so_and_gives_nothing() {
    let pool = Pool::new(eal(), 63, FrameSize::MIN).unwrap();
    let mut bursts: Vec<Burst> = Vec::new();
    loop {
        let mut burst = Burst::new();
        if !pool.fill(&mut burst, 32) {
            assert!(burst.is_empty(), "all or none");
            break;
        }
        bursts.push(burst);
    }
    assert_eq!(pool.in_use() as usize, bursts.len() * 32);
    drop(bursts);
    assert_eq!(pool.in_use(), 0);
}

/// Moves packets both ways between two ports, and returns how many came over in each direction.
fn exchange(a: &mut Port, b: &mut Port, pool: &Pool, packets: usize) -> [usize; 2] {
    a.wait_link(Duration::from_secs(10)).unwrap();
    b.wait_link(Duration::from_secs(10)).unwrap();
    let mut ends = [a.take_queue().unwrap(), b.take_queue().unwrap()];
    let (mut sent, mut received) = ([0; 2], [0; 2]);
    let mut burst = Burst::new();
    let start = Instant::now();
    while received.iter().any(|count| *count < packets) {
        assert!(start.elapsed() < Duration::from_secs(20), "only {received:?} of {packets} came over");
        for end in 0..2 {
            if sent[end] < packets {
                fill(pool, &mut burst, 32.min(packets - sent[end]), end as u8 + 1);
                sent[end] += ends[end].1.transmit(&mut burst);
                burst.clear();
            }
            ends[end].0.receive(&mut burst);
            let other = 2 - end as u8;
            assert!(burst.iter().all(|packet| packet.data() == [other; 60]));
            received[end] += burst.len();
            burst.clear();
        }
    }
    received
}

fn vhost_pair(folder: &Path, number: u32, vhost_is_server: bool) {
    let socket = folder.join(format!("s{number}"));
    let (vhost, virtio) = (
        format!(
            "net_vhost{number},iface={}{}",
            socket.display(),
            if vhost_is_server { "" } else { ",client=1" }
        ),
        format!(
            "net_virtio_user{number},path={},queue_size=1024{}",
            socket.display(),
            if vhost_is_server { "" } else { ",server=1" }
        ),
    );
    let pool = pool();
    let inner = pool.clone();
    on_worker(move || {
        let open = |spec: &str| Port::open(spec, PortConfig::default(), &inner).unwrap();
        // vhost first: as a client it tries again and again, while a virtio-user server blocks
        // until its client comes.
        let mut ends = [&vhost, &virtio].map(|spec| open(spec));
        let [a, b] = &mut ends;
        assert_eq!(exchange(a, b, &inner, 10_000), [10_000, 10_000]);
    });
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn vhost_and_virtio_user_exchange_packets_with_either_side_the_server() {
    let folder = tempfile::tempdir().unwrap();
    vhost_pair(folder.path(), 10, true);
    vhost_pair(folder.path(), 11, false);
}

/// The vhost library polls for a second at a time, and each pair's poll begins when the one before it is up.
#[test]
fn a_peer_of_a_vhost_port_that_listens_waits_for_no_poll() {
    let (folder, pool) = (tempfile::tempdir().unwrap(), pool());
    let mut waits: Vec<Duration> = Vec::new();
    for number in 20..25 {
        let socket = folder.path().join(format!("s{number}")).display().to_string();
        let open = |spec: String| Port::open(&spec, PortConfig::default(), &pool).unwrap();
        let vhost = open(format!("net_vhost{number},iface={socket}"));
        let begin = Instant::now();
        let virtio = open(format!("net_virtio_user{number},path={socket},queue_size=1024"));
        for port in [&vhost, &virtio] {
            port.wait_link(Duration::from_secs(20)).unwrap();
        }
        waits.push(begin.elapsed());
    }
    // The first may come while the thread is being started; and others may have the cores for a while.
    waits.sort();
    assert!(waits[1] < Duration::from_millis(500), "{waits:?}");
}

#[test]
fn a_memif_port_is_polled_while_peers_come_and_go() {
    let pool = pool();
    let folder = tempfile::tempdir().unwrap();
    let spec = |role: &str| {
        let socket = folder.path().join("held");
        format!("net_memif_{role},role={role},socket={},socket-abstract=no", socket.display())
    };
    let mut server = Port::open(&spec("server"), PortConfig::default(), &pool).unwrap();
    let (mut rx, mut tx) = server.take_queue().unwrap();
    let (ours, stop) = (pool.clone(), Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let core = weir_cpu::allowed_cores()[0];
    // It never stops to poll, so that many peers go in the middle of a burst.
    let poller = Worker::spawn(eal(), "test", core, move || {
        let (mut burst, mut received) = (Burst::new(), 0);
        while !stopped.load(Ordering::Relaxed) {
            received += rx.receive(&mut burst);
            burst.clear();
            if ours.fill(&mut burst, 32) {
                burst.iter_mut().for_each(|packet| packet.set_len(60).fill(1));
                tx.transmit(&mut burst);
            }
            burst.clear();
        }
        received
    })
    .unwrap();
    let until = |up: bool| {
        let start = Instant::now();
        while server.link_up() != up {
            assert!(start.elapsed() < Duration::from_secs(20), "the link does not become {up}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let mut sent = 0;
    for _ in 0..40 {
        let mut client = Port::open(&spec("client"), PortConfig::default(), &pool).unwrap();
        until(true);
        let (mut rx, mut tx) = client.take_queue().unwrap();
        let start = Instant::now();
        let mut burst = Burst::new();
        while start.elapsed() < Duration::from_millis(10) {
            fill(&pool, &mut burst, 32, 2);
            sent += tx.transmit(&mut burst);
            burst.clear();
            rx.receive(&mut burst);
            burst.clear();
        }
        drop((rx, tx, client));
        until(false);
    }
    stop.store(true, Ordering::Relaxed);
    let received = poller.join().unwrap();
    assert!(received > 0 && received <= sent, "{received} of {sent}");
    drop(server);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn swapping_what_two_references_point_to_leaves_every_packet_in_its_place() {
    let pool = pool();
    let mut burst = Burst::new();
    assert!(pool.fill(&mut burst, 2));
    burst.iter_mut().zip([60, 100]).for_each(|(packet, len)| packet.set_len(len).fill(len as u8));
    let places: Vec<*const u8> = burst.iter().map(|packet| packet.data().as_ptr()).collect();
    {
        let mut packets = burst.iter_mut();
        let (one, other) = (packets.next().unwrap(), packets.next().unwrap());
        std::mem::swap(one, other);
    }
    let now: Vec<(*const u8, usize, u8)> =
        burst.iter().map(|packet| (packet.data().as_ptr(), packet.len(), packet.data()[0])).collect();
    assert_eq!(now, [(places[0], 60, 60), (places[1], 100, 100)], "an mbuf has the buffer it was made with");
    assert_eq!(size_of::<weir_dpdk::Packet>(), 0);
    burst.clear();
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn packets_that_are_too_long_leave_a_burst_and_the_others_stay_in_order() {
    let pool = pool();
    let mut burst = Burst::new();
    assert!(pool.fill(&mut burst, 6));
    burst.iter_mut().zip([60, 1519, 1518, 1600, 61, 62]).for_each(|(packet, len)| {
        packet.set_len(len);
    });
    assert_eq!(burst.drop_longer(1518), (2, 1519 + 1600));
    assert_eq!(burst.iter().map(weir_dpdk::Packet::len).collect::<Vec<_>>(), [60, 1518, 61, 62]);
    assert_eq!(pool.in_use(), 4);
    burst.clear();
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn memif_ports_exchange_packets() {
    let folder = tempfile::tempdir().unwrap();
    let spec = |number: u32, role: &str| {
        let socket = folder.path().join("memif");
        format!("net_memif{number},role={role},socket={},socket-abstract=no,rsize=11", socket.display())
    };
    let (server, client) = (spec(0, "server"), spec(1, "client"));
    let pool = pool();
    let inner = pool.clone();
    on_worker(move || {
        let mut server = Port::open(&server, PortConfig::default(), &inner).unwrap();
        let mut client = Port::open(&client, PortConfig::default(), &inner).unwrap();
        assert_eq!(exchange(&mut server, &mut client, &inner, 10_000), [10_000, 10_000]);
    });
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_wrong_port_string_is_refused_with_the_forms_that_work() {
    let pool = pool();
    let error = |spec: &str| Port::open(spec, PortConfig::default(), &pool).unwrap_err();
    assert!(matches!(error("eth0"), PortError::Name(_)));
    assert!(error("eth0").to_string().contains("net_vhost0,iface=PATH"));
    assert!(matches!(error("net_nonsense0"), PortError::Attach { .. }));
    let missing = error("net_pcap_x,rx_pcap=/nowhere/trace.pcap").to_string();
    assert!(missing.contains("net_pcap_x") && missing.contains("/nowhere/trace.pcap"), "{missing}");
}

#[test]
fn a_port_name_in_use_is_refused_and_free_again_after_closing() {
    let pool = pool();
    let open = || Port::open("net_null_c", PortConfig::default(), &pool);
    let first = open().unwrap();
    assert!(open().unwrap_err().to_string().contains("exists"), "{}", open().unwrap_err());
    drop(first);
    drop(open().unwrap());
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_port_outlives_itself_while_a_queue_is_held() {
    let pool = pool();
    let mut port = Port::open("net_null_d", PortConfig::default(), &pool).unwrap();
    let (mut rx, _tx) = port.take_queue().unwrap();
    drop(port);
    let mut burst = Burst::new();
    assert_eq!(rx.receive(&mut burst), 32, "the null port still receives");
    drop((burst, rx, _tx));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_second_configuration_and_too_much_memory_are_refused_with_advice() {
    eal();
    let other = EalConfig { memory: Memory::Normal, megabytes: 64, pci: false };
    assert!(Eal::init(other).unwrap_err().to_string().contains("already"));
    let error = Pool::new(eal(), 1_000_000, FrameSize::MIN).unwrap_err().to_string();
    assert!(error.contains("256 MiB") && error.contains("1000000"), "{error}");
}

#[test]
fn a_core_that_is_not_there_is_refused_with_those_that_are() {
    let error = Worker::spawn(eal(), "test", 1023, || ()).unwrap().join().unwrap_err().to_string();
    assert!(error.contains("1023") && error.contains("cores ["), "{error}");
}

#[test]
fn a_panic_on_a_worker_is_returned_as_an_error() {
    let core = weir_cpu::allowed_cores()[0];
    let worker = Worker::spawn(eal(), "test", core, || panic!("on purpose")).unwrap();
    assert!(worker.join().unwrap_err().to_string().contains("on purpose"));
}

#[test]
fn drivers_without_a_table_of_flows_say_that_they_do_not_mark() {
    let pool = pool();
    for spec in ["net_null7", "net_ring_marks"] {
        let port = Port::open(spec, PortConfig::default(), &pool).unwrap();
        let error = port.offers_marks().unwrap_err().to_string();
        assert!(error.contains(spec) && error.contains("does not offer to mark packets"), "{error}");
        let headers = weir_dpdk::Headers::default();
        assert!(port.mark_rule(&headers, &headers, 1).is_err());
    }
}

#[test]
fn a_mark_is_there_until_it_is_taken_away() {
    let pool = pool();
    let mut burst = Burst::new();
    fill(&pool, &mut burst, 1, 0);
    let packet = burst.get_mut(0).unwrap();
    assert_eq!(packet.mark(), None);
    packet.set_mark(Some(0xffff_fffe));
    assert_eq!(packet.mark(), Some(0xffff_fffe));
    packet.set_mark(None);
    assert_eq!(packet.mark(), None);
}
