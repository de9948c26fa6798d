//! A switch whose controllers are all gone, and to which one comes back.

use crate::controller::{Controller, packet, packet_out};
use crate::rig::Rig;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};
use weir_codec::{FlowQuery, Reply, Request, Version};
use weir_openflow::{Action, PortNo};
use weir_switch::FailMode;

/// A controller that the switch connects to.
pub(crate) fn called(path: &Path, version: Version) -> (UnixListener, Controller) {
    let listener = UnixListener::bind(path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    let stream: UnixStream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) => assert!(Instant::now() < end, "the switch does not come: {error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    stream.set_nonblocking(false).unwrap();
    (listener, Controller::at(stream, version))
}

/// A frame from one host to another.
fn frame(from: u8, to: u8) -> Vec<u8> {
    let mut frame = packet(64);
    (frame[5], frame[11]) = (to, from);
    frame
}

/// Packets that ports 1 to 4 have sent.
fn sent(visitor: &mut Controller) -> [u64; 4] {
    match visitor.multipart(Request::Port(PortNo::ANY)) {
        Reply::Port(ports) => [1, 2, 3, 4].map(|number| {
            ports.iter().find(|port| port.number == PortNo(number)).map_or(0, |port| port.tx_packets)
        }),
        other => panic!("{other:?}"),
    }
}

/// Which ports a packet leaves by.
fn leaves(visitor: &mut Controller, in_port: u32, data: Vec<u8>) -> Vec<u32> {
    let before = sent(visitor);
    visitor.say(packet_out(in_port, vec![Action::Output(PortNo::TABLE)], data));
    assert_eq!(visitor.until_done(), []);
    let after = sent(visitor);
    (1..=4).filter(|port| after[*port as usize - 1] > before[*port as usize - 1]).collect()
}

fn entries(visitor: &mut Controller) -> usize {
    match visitor.multipart(Request::Flow(FlowQuery::default())) {
        Reply::Flow(_, flows) => flows.len(),
        other => panic!("{other:?}"),
    }
}

/// Waits for something that a visitor can see.
fn until(what: &str, visitor: &mut Controller, is: impl Fn(&mut Controller) -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is(visitor) {
        assert!(Instant::now() < end, "waited for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn without_a_controller_the_switch_learns_and_goes_back_to_its_rules_when_one_returns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("controller");
    let rig = Rig::with(|openflow| {
        openflow.controllers = vec![format!("unix:{}", path.display()).parse().unwrap()];
        openflow.fail_mode = FailMode::Standalone;
        openflow.echo = Duration::from_secs(3600);
    });
    let (listener, mut controller) = called(&path, Version::V13);
    controller.add("in_port=1,actions=output:3");
    controller.add("priority=2,dl_type=0x9999,actions=drop");
    controller.add("priority=3,dl_type=0x9998,idle_timeout=600,actions=drop");
    let mut visitor = Controller::new(&rig, Version::V13);
    assert_eq!(leaves(&mut visitor, 1, frame(1, 2)), [3], "the controller's rules hold");
    assert!(leaves(&mut visitor, 2, frame(2, 1)).is_empty());
    // The visitor stays, and is no controller of the switch's own.
    drop((listener, controller));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(leaves(&mut visitor, 1, frame(1, 2)), [3], "they hold for a while yet");
    until("the switch to go on alone", &mut visitor, |visitor| {
        leaves(visitor, 1, frame(7, 8)) == [2, 3, 4] // of hosts that are not asked about below
    });
    assert_eq!(leaves(&mut visitor, 1, frame(1, 2)), [2, 3, 4], "nobody knows where it is: to all");
    let learned = |in_port, from, to, ports: &'static [u32]| {
        move |visitor: &mut Controller| leaves(visitor, in_port, frame(from, to)) == ports
    };
    until("the first host to be known", &mut visitor, learned(2, 2, 1, &[1]));
    until("the second host to be known", &mut visitor, learned(1, 1, 2, &[2]));
    until("a host that moves to be known", &mut visitor, learned(4, 2, 1, &[1]));
    until("it to be found there", &mut visitor, learned(1, 1, 2, &[4]));
    let (_listener, mut controller) = called(&path, Version::V13);
    until("the rules to be back", &mut visitor, |visitor| entries(visitor) == 2);
    assert_eq!(leaves(&mut visitor, 1, frame(1, 2)), [3]);
    assert!(leaves(&mut visitor, 2, frame(2, 1)).is_empty(), "nothing that was learned is left");
    controller.add("in_port=2,actions=output:1");
    assert_eq!(leaves(&mut visitor, 2, frame(2, 1)), [1]);
}
