//! The tester over ports that need no device: one that gives back what it is sent, one that takes
//! everything and gives nothing.

use std::fs::File;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_cpu::allowed_cores;
use weir_dpdk::{Eal, EalConfig, Memory, Pool, Port, PortConfig, Worker};
use weir_traffic::check::PassFrames;
use weir_traffic::probes::probes;
use weir_traffic::trace::TraceSpec;
use weir_traffic::{DirectionSetup, LONGEST_PASS, Layout, Sender, Shape, Tester, TesterError};
use weir_trial::{DirectionCounts, Fault, Nf, Oracle, PacketCheck, TrialSpec};
use weir_units::{FrameSize, Nanos, Pps};
use weir_wire::pcap::{CaptureReader, CaptureWriter, Format};

/// A tester of one direction over one port, with a thread a core named.
fn tester_on(spec: &str, cores: &[usize]) -> Tester {
    let eal = Eal::init(EalConfig { memory: Memory::Normal, megabytes: 256, pci: false })
        .expect("EAL starts anywhere");
    let pool = Pool::new(eal, 8_192, FrameSize::new(1522).unwrap()).unwrap();
    // Two senders, each with a queue, where they have threads of their own: not every driver has two queues.
    let layout = Layout::of(cores, 1, &[0], if cores.len() > 2 { 2 } else { 1 });
    let config = PortConfig { queues: layout.streams as u16, ..PortConfig::default() };
    let mut port = Port::open(spec, config, &pool).unwrap();
    let (receivers, queues): (Vec<_>, Vec<_>) = std::iter::from_fn(|| port.take_queue()).unzip();
    let shares = TraceSpec::parse("flows:100").unwrap().build().unwrap().shares(layout.streams);
    let senders = shares.into_iter().zip(queues);
    let senders =
        senders.map(|(share, tx)| Sender::new(share, tx, &pool, Shape::Constant, NonZeroU32::MIN, 1));
    let directions = vec![DirectionSetup { senders: senders.collect(), from: 0, to: 0 }];
    Tester::new(eal, &layout, vec![port], vec![receivers], directions)
}

fn tester(spec: &str) -> Tester {
    tester_on(spec, &[*allowed_cores().last().unwrap()])
}

fn pass(tester: &mut Tester, nf: Nf) -> PacketCheck {
    let own = probes(nf, &[[2; 12]]).remove(0);
    let frames = vec![PassFrames::new(None, own)];
    tester.verify(Arc::new(Oracle::new(nf)), frames, LONGEST_PASS, &Arc::default()).unwrap()
}

fn faults(check: &PacketCheck) -> Vec<Fault> {
    check.wrong.iter().map(|wrong| wrong.fault).collect()
}

#[test]
fn a_wire_back_to_the_sender_is_no_forwarder_in_the_pass_and_in_every_sample() {
    let mut tester = tester("net_ring_back");
    let check = pass(&mut tester, Nf::L2Fwd);
    assert_eq!(faults(&check), [Fault::Port], "{check}");
    assert_eq!(check.wrong[0].count, check.compared);
    assert!(check.wrong[0].example.contains("left by port 0, must leave by port 1"), "{check}");

    let spec = TrialSpec { load: Pps(100_000.0), duration: Nanos(100_000_000) };
    let result = tester.run(spec, &Arc::default()).unwrap();
    assert_eq!(result.packets, None, "without an oracle nothing is compared");
    tester.compare_with(Arc::new(Oracle::new(Nf::L2Fwd)));
    for _ in 0..3 {
        let result = tester.run(spec, &Arc::default()).unwrap();
        let (sample, total) = (result.packets.as_ref().unwrap(), result.total());
        // Each packet is compared, none of them came by the port that it must; some are named.
        assert!(total.received == 0 && total.damaged > 0 && total.foreign == 0, "{sample} of {total:?}");
        assert_eq!(sample.compared, total.damaged, "{total:?}");
        assert_eq!(faults(sample), [Fault::Port], "{sample}");
        assert!(sample.wrong[0].count <= total.damaged, "{sample}");
        assert_eq!(total.duplicated, 0, "the counts alone see nothing");
    }
    // A router does not send back what it did not change, either.
    let check = pass(&mut tester, Nf::L3Fwd { routes: 10 });
    assert!(faults(&check).contains(&Fault::Ttl) && faults(&check).contains(&Fault::Port), "{check}");
    let denied = pass(&mut tester, Nf::Firewall { rules: 20 });
    assert!(faults(&denied).contains(&Fault::Denied), "{denied}");
}

#[test]
fn a_device_that_forwards_nothing_is_given_up_before_long_and_everything_is_missing() {
    let mut tester = tester("net_null_silent,no-rx=1");
    let lists = probes(Nf::Firewall { rules: 1 }, &[[2; 12]]);
    let own: Vec<Vec<u8>> = std::iter::repeat_n(lists.concat(), 10).flatten().collect();
    let sent = own.len() as u64;
    let frames = vec![PassFrames::new(None, own)];
    let check =
        tester.verify(Arc::new(Oracle::new(Nf::L2Fwd)), frames, LONGEST_PASS, &Arc::default()).unwrap();
    assert_eq!(faults(&check), [Fault::Missing], "{check}");
    assert_eq!(check.wrong[0].count, check.compared);
    assert!(check.compared > 500 && check.compared < sent, "{check}");
    assert!(check.remark.as_ref().is_some_and(|remark| remark.contains("given up after")), "{check}");
}

#[test]
fn the_first_packets_are_sent_again_and_again_to_a_device_that_does_not_forward_yet() {
    let folder = tempfile::tempdir().unwrap();
    let [empty, sent] = ["empty", "sent"].map(|name| folder.path().join(name));
    CaptureWriter::new(File::create(&empty).unwrap(), Format::Pcap).unwrap().finish().unwrap();
    let mut tester = tester(&format!("net_pcap_deaf,rx_pcap={},tx_pcap={}", empty.display(), sent.display()));
    let chunk = probes(Nf::L2Fwd, &[[2; 12]]).remove(0).into_iter().cycle().take(64).collect();
    let frames = vec![PassFrames::new(None, chunk)];
    let check =
        tester.verify(Arc::new(Oracle::new(Nf::L2Fwd)), frames, LONGEST_PASS, &Arc::default()).unwrap();
    assert_eq!((faults(&check), check.wrong[0].count), (vec![Fault::Missing], 64), "{check}");
    drop(tester);
    let mut capture = CaptureReader::new(File::open(&sent).unwrap()).unwrap();
    while capture.next_packet().unwrap().is_some() {}
    // Eight times in the second that it may stand still, and three times before they are called missing.
    assert_eq!(capture.packets(), (8 + 3) * 64);
}

#[test]
fn a_pass_that_takes_too_long_leaves_the_rest_out_and_says_how_much() {
    let mut tester = tester("net_null_slow,no-rx=1");
    let own: Vec<Vec<u8>> = probes(Nf::L2Fwd, &[[2; 12]]).remove(0).into_iter().cycle().take(200).collect();
    // The first chunk, of which nothing comes, is waited for a second.
    let (frames, longest) = (vec![PassFrames::new(None, own)], Nanos(100_000_000));
    let check = tester.verify(Arc::new(Oracle::new(Nf::L2Fwd)), frames, longest, &Arc::default()).unwrap();
    assert_eq!(check.remark.as_deref(), Some("ended after 100 ms: 64 of 200 packets"));
    // What was not sent is not missing.
    assert_eq!((faults(&check), check.wrong[0].count), (vec![Fault::Missing], 64), "{check}");
    assert_eq!(check.compared, 64, "{check}");
}

#[test]
fn a_pass_that_is_stopped_says_so() {
    let mut tester = tester("net_null_stopped,no-rx=1");
    let stop = Arc::new(AtomicBool::new(false));
    stop.store(true, Ordering::Relaxed);
    let frames = vec![PassFrames::new(None, probes(Nf::L2Fwd, &[[2; 12]]).remove(0))];
    let stopped = tester.verify(Arc::new(Oracle::new(Nf::L2Fwd)), frames, LONGEST_PASS, &stop);
    assert!(matches!(stopped, Err(TesterError::Stopped)));
}

/// Takes a core away from whoever runs there: 4 ms of every 20, until the flag is raised.
fn neighbour(core: usize, stop: &Arc<AtomicBool>) -> Worker<()> {
    let stop = Arc::clone(stop);
    let eal = Eal::init(EalConfig { memory: Memory::Normal, megabytes: 256, pci: false }).unwrap();
    let body = move || {
        while !stop.load(Ordering::Relaxed) {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(4) {
                std::hint::spin_loop();
            }
            std::thread::sleep(Duration::from_millis(16));
        }
    };
    Worker::spawn(eal, "neighbour", core, body).unwrap()
}

fn adds_up(counts: &DirectionCounts) {
    assert_eq!(counts.intended, counts.sent + counts.refused + counts.unsent, "{counts:?}");
    assert_eq!((counts.received, counts.duplicated, counts.reordered), (counts.sent, 0, 0), "{counts:?}");
    assert_eq!((counts.late, counts.foreign, counts.damaged), (0, 0, 0), "{counts:?}");
}

#[test]
fn a_tester_whose_core_is_taken_away_says_so_and_what_it_could_not_do_does_not_count() {
    let core = *allowed_cores().last().unwrap();
    let mut tester = tester_on("net_ring_robbed", &[core]);
    let stop = Arc::new(AtomicBool::new(false));
    let neighbour = neighbour(core, &stop);
    let spec = TrialSpec { load: Pps(1_000_000.0), duration: Nanos(400_000_000) };
    let result = tester.run(spec, &Arc::default()).unwrap();
    stop.store(true, Ordering::Relaxed);
    neighbour.join().unwrap();

    let (total, windows) = (result.total(), result.windows.as_ref().unwrap());
    adds_up(&total);
    assert_eq!(total.intended, 400_000, "load times duration, whatever happened");
    assert!(total.unsent > 10_000, "a pause of 4 ms is 4,000 packets: {total:?}");
    assert!(windows.left_out >= 10 && windows.tester.count >= 5, "{windows:?}");
    assert!(windows.tester.longest >= Nanos(2_000_000), "{windows:?}");
    // What counts is a loop without loss; at most one packet in a thousand stands in a window by itself.
    assert!(windows.kept.0 > 0 && result.loss_ratio().0 < 1e-3, "{} of {windows:?}", result.loss_ratio());
    let account = result.account.as_ref().unwrap();
    assert!(account.poll_gaps.as_ref().unwrap().max >= Nanos(2_000_000));
    // Later than 0.5 ms nothing is sent but a burst that a pause caught at its very sending.
    let late = account.sent_late.as_ref().unwrap();
    assert!(late.percentiles[2] <= Nanos(550_000), "{late:?}");
    let delays =
        [&result.latency, &account.paused_delay].map(|delays| delays.as_ref().map_or(0, |one| one.count));
    assert_eq!(delays.iter().sum::<u64>(), total.received, "each delay is in one of both histograms");
    assert_eq!((account.negative_delays, account.wire_chatter), (0, 0));
    assert_eq!(account.planned.unwrap().packets, 400_000);
}

#[test]
fn several_threads_count_stamp_and_order_as_exactly_as_one() {
    let cores = allowed_cores();
    let (first, last) = (cores[0], *cores.last().unwrap());
    // A sender and a receiver, and two senders and a receiver: that they share a core changes nothing.
    for (number, threads) in [vec![first, last], vec![first, last, first, last]].into_iter().enumerate() {
        let mut tester = tester_on(&format!("net_ring_threads{number}"), &threads);
        let spec = TrialSpec { load: Pps(200_001.0), duration: Nanos(250_000_000) };
        for _ in 0..2 {
            let result = tester.run(spec, &Arc::default()).unwrap();
            let total = result.total();
            adds_up(&total);
            let planned = result.account.as_ref().unwrap().planned.unwrap();
            assert!(total.intended.abs_diff(50_000) <= 1 && planned.apart <= 2, "{total:?} {planned:?}");
            assert_eq!(total.stamped, total.sent + total.refused);
            let delays = [&result.latency, &result.account.as_ref().unwrap().paused_delay];
            let counted: u64 = delays.into_iter().flatten().map(|delays| delays.count).sum();
            assert_eq!(counted, total.received);
            let windows = result.windows.unwrap();
            assert!(windows.count > 100 && windows.total().intended() <= total.intended);
        }
        // A wire back to the sender: each packet is right but for its port, in either stream.
        tester.compare_with(Arc::new(Oracle::new(Nf::L2Fwd)));
        let result = tester.run(spec, &Arc::default()).unwrap();
        let (sample, total) = (result.packets.as_ref().unwrap(), result.total());
        assert_eq!((sample.compared, total.damaged), (total.sent, total.sent), "{total:?}");
        assert_eq!(faults(sample), [Fault::Port], "{sample}");
    }
}
