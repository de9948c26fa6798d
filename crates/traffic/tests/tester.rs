//! The tester over ports that need no device: one that gives back what it is sent, one that takes
//! everything and gives nothing.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_dpdk::{Eal, EalConfig, Memory, Pool, Port, PortConfig, allowed_cores};
use weir_traffic::check::PassFrames;
use weir_traffic::probes::probes;
use weir_traffic::trace::TraceSpec;
use weir_traffic::{DirectionSetup, Sender, Shape, Tester, TesterError};
use weir_trial::{Fault, Nf, Oracle, PacketCheck, TrialSpec};
use weir_units::{FrameSize, Nanos, Pps};

/// A tester of one direction over one port.
fn tester(spec: &str) -> Tester {
    let eal = Eal::init(EalConfig { memory: Memory::Normal, megabytes: 256, pci: false })
        .expect("EAL starts anywhere");
    let pool = Pool::new(eal, 8_192, FrameSize::new(1522).unwrap()).unwrap();
    let mut port = Port::open(spec, PortConfig::default(), &pool).unwrap();
    let (receiver, tx) = port.take_queue().unwrap();
    let source = TraceSpec::parse("flows:100").unwrap().build().unwrap();
    let sender = Sender::new(source, tx, &pool, Shape::Constant, NonZeroU32::MIN, 1);
    let core = *allowed_cores().last().unwrap();
    Tester::new(eal, core, vec![port], vec![receiver], vec![DirectionSetup { sender, to: 0 }])
}

fn pass(tester: &mut Tester, nf: Nf) -> PacketCheck {
    let own = probes(nf, &[[2; 12]]).remove(0);
    let frames = vec![PassFrames::new(None, own)];
    tester.verify(Arc::new(Oracle::new(nf)), frames, &Arc::default()).unwrap()
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
        let (sample, came) = (result.packets.as_ref().unwrap(), result.total().received);
        assert!(came > 0 && sample.compared > 0 && sample.compared <= 520, "{sample} of {came}");
        assert_eq!(faults(sample), [Fault::Port], "{sample}");
        assert_eq!(sample.wrong[0].count, sample.compared);
        assert!(
            result.total().foreign == 0 && result.total().duplicated == 0,
            "the counts alone see nothing"
        );
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
    let check = tester.verify(Arc::new(Oracle::new(Nf::L2Fwd)), frames, &Arc::default()).unwrap();
    assert_eq!(faults(&check), [Fault::Missing], "{check}");
    assert_eq!(check.wrong[0].count, check.compared);
    assert!(check.compared > 500 && check.compared < sent, "{check}");
    assert!(check.remark.as_ref().is_some_and(|remark| remark.contains("given up after")), "{check}");
}

#[test]
fn a_pass_that_is_stopped_says_so() {
    let mut tester = tester("net_null_stopped,no-rx=1");
    let stop = Arc::new(AtomicBool::new(false));
    stop.store(true, Ordering::Relaxed);
    let frames = vec![PassFrames::new(None, probes(Nf::L2Fwd, &[[2; 12]]).remove(0))];
    let stopped = tester.verify(Arc::new(Oracle::new(Nf::L2Fwd)), frames, &stop);
    assert!(matches!(stopped, Err(TesterError::Stopped)));
}
