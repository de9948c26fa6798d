//! Taps at the edges of the program, against what stands in the captures that left it.
//!
//! Packets come through a pipe, from which a port takes whole bursts: so a test says exactly which burst is the first
//! that the worker polls for after taps went on or off.

use crate::pcap::{Frame, capture_header, eal, read_pcap, record};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use weir_cpu::{Ticks, allowed_cores};
use weir_dpdk::{BURST, PortConfig};
use weir_nf::{
    DELAY_TICKS, DropReason, EARLY, Edge, Function, L2Fwd, LONGEST, Ledger, PortTaps, Program, ProgramConfig,
};
use weir_wire::stamp::{Key, Stamp};

const KEY: Key = Key::new([0x1111, 0x2222_0000, 0x3333, 0x4444_0000_0000, 0x5555]);
const OTHER: Key = Key::new([0x1111, 0x2222_0000, 0x3333, 0x4444_0000_0000, 0x5556]);

/// How old stamps are when their frames are made, in TSC ticks.
const AGE: u64 = 1_000_000;

/// A program between a pipe, port 0, and whatever port 1 is.
struct Rig {
    folder: tempfile::TempDir,
    program: Program,
    frames: Sender<Vec<Frame>>,
    writer: JoinHandle<()>,
    written: u64,
}

impl Rig {
    /// The folder has the pipe; port 1 writes a capture there, or is a socket there that nobody listens at.
    fn start(name: &str, fault: Option<&str>, listens: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (frames, inbox) = mpsc::channel::<Vec<Frame>>();
        let writer = thread::spawn({
            let pipe = pipe.clone();
            move || {
                let mut pipe = File::options().write(true).open(pipe).unwrap();
                pipe.write_all(&capture_header()).unwrap();
                for frame in inbox.into_iter().flatten() {
                    pipe.write_all(&record(&frame)).unwrap();
                }
            }
        });
        let port = if listens {
            format!("net_pcap_{name}1,tx_pcap={}", output(folder.path()).display())
        } else {
            format!("net_vhost_{name}1,iface={}", folder.path().join("socket").display())
        };
        let config = ProgramConfig {
            ports: [format!("net_pcap_{name}0,rx_pcap={}", pipe.display()), port].into(),
            port: PortConfig::default(),
            buffers: 4096,
            cores: vec![allowed_cores()[0]],
            yields: false,
            fault: fault.map(|fault| fault.parse().unwrap()),
        };
        let program = Program::start(eal(), Function::L2Fwd(L2Fwd), &config).unwrap();
        Self { folder, program, frames, writer, written: 0 }
    }

    /// Has frames received, in whole bursts, behind one of which the worker may have been waiting before.
    fn feed(&mut self, frames: Vec<Frame>) {
        assert!(frames.len().is_multiple_of(BURST));
        let plain = vec![vec![0x55; 60]; BURST];
        self.written += (plain.len() + frames.len()) as u64;
        self.frames.send([plain, frames].concat()).unwrap();
        let begin = Instant::now();
        while self.program.ledger().received() < self.written {
            assert!(begin.elapsed() < Duration::from_secs(20) && self.program.is_running());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends it all: what the taps say, the ledger, and the frames that left.
    fn stop(self) -> ([PortTaps; 2], Ledger, Vec<Frame>) {
        let Self { folder, program, frames, writer, written } = self;
        drop(frames);
        writer.join().unwrap();
        let taps = program.taps();
        let (ledger, missing) = program.stop().unwrap();
        assert_eq!(missing, 0, "packet buffers that did not come back");
        assert_eq!((ledger.received(), ledger.sent() + ledger.dropped()), (written, written));
        let output = output(folder.path());
        (taps.read().unwrap(), ledger, if output.exists() { read_pcap(&output) } else { Vec::new() })
    }
}

fn output(folder: &Path) -> PathBuf {
    folder.join("out.pcap")
}

/// A frame of so many bytes, stamped at this time.
fn stamped(bytes: usize, sequence: u64, tsc: u64, key: &Key) -> Frame {
    let mut frame = vec![0x55; bytes];
    Stamp { trial: 9, sequence, tsc }.write(&mut frame, key);
    frame
}

/// Frames of several sizes, stamped [`AGE`] ago.
fn old(count: usize) -> Vec<Frame> {
    let tsc = Ticks::now().0 - AGE;
    (0..count).map(|number| stamped(60 + number % 7 * 100, number as u64, tsc, &KEY)).collect()
}

fn packets(ports: &[PortTaps; 2]) -> [[u64; 2]; 2] {
    ports.each_ref().map(|port| [port.received.packets(), port.sent.packets()])
}

/// Packets in buckets of at least this delay.
fn above(edge: &Edge, ticks: u64) -> u64 {
    edge.buckets.iter().filter(|bucket| bucket.from >= ticks).map(|bucket| bucket.packets).sum()
}

#[test]
fn stamped_packets_count_where_they_come_and_leave_and_nothing_else_does() {
    let mut rig = Rig::start("edges", None, true);
    assert_eq!(rig.program.taps().read(), None);
    rig.program.taps().switch_on(KEY);
    let now = Ticks::now().0;
    let strange = [
        stamped(100, 1, now, &OTHER),
        stamped(100, 1, now + (1 << 40), &KEY),
        stamped(100, 1, now - LONGEST - EARLY, &KEY),
        stamped(17, 1, now, &KEY),
        vec![0xff; 14],
        vec![0; 1_500],
        old(1)[0][..59].to_vec(),
        [&old(1)[0][..], &[0; 4]].concat(),
    ];
    rig.feed([old(20 * BURST - strange.len()), strange.to_vec()].concat());
    let begin = Ticks::now();
    let (taps, ledger, left) = rig.stop();
    let stamped = 20 * BURST as u64 - strange.len() as u64;
    assert_eq!(packets(&taps), [[stamped, 0], [0, stamped]]);
    assert_eq!((ledger.sent(), left.len()), (21 * BURST as u64, 21 * BURST));
    let most = begin.since(Ticks(now)) + AGE;
    let (came, went) = (&taps[0].received, &taps[1].sent);
    assert!(came.ticks >= stamped * AGE && came.ticks < went.ticks, "{came:?} {went:?}");
    assert!(went.ticks <= stamped * most, "{went:?}, {most}");
    // A bucket is a sixteenth wide.
    assert_eq!(above(came, AGE - AGE / 16), stamped, "{came:?}");
    assert_eq!(above(went, most + 1), 0, "{went:?}");
}

#[test]
fn taps_that_are_off_count_nothing_and_forget_nothing() {
    let mut rig = Rig::start("off", None, true);
    rig.feed(old(10 * BURST));
    assert_eq!(rig.program.taps().read(), None);
    rig.program.taps().switch_on(KEY);
    rig.feed(old(3 * BURST));
    rig.program.taps().switch_off();
    rig.feed(old(10 * BURST));
    rig.program.taps().switch_on(OTHER);
    rig.feed(old(10 * BURST));
    rig.program.taps().switch_on(KEY);
    rig.feed(old(2 * BURST));
    let (taps, ledger, _) = rig.stop();
    assert_eq!(packets(&taps), [[5 * BURST as u64, 0], [0, 5 * BURST as u64]]);
    assert_eq!(ledger.received(), 40 * BURST as u64);
}

#[test]
fn what_a_fault_makes_of_packets_is_what_the_tap_behind_it_sees() {
    const FED: u64 = 100 * BURST as u64;
    for fault in ["drop:0.05", "duplicate:0.05", "delay:0.05", "reorder:0.05", "corrupt:0.2", "one-way"] {
        let mut rig = Rig::start(fault.split([':', '-']).next().unwrap(), Some(fault), true);
        rig.program.taps().switch_on(KEY);
        // What is held back leaves behind the next burst; the first may be one without a stamp.
        for frames in [FED / 2, FED / 2, 0] {
            rig.feed(old(frames as usize));
            thread::sleep(Duration::from_millis(50));
        }
        let (taps, ledger, left) = rig.stop();
        let mine = left.iter().filter(|frame| Stamp::read(frame, &KEY).is_some()).count() as u64;
        assert_eq!(packets(&taps), [[FED, 0], [0, mine]], "{fault}");
        let injected = ledger.drops().find(|(reason, _)| *reason == DropReason::Injected).unwrap().1;
        assert!(
            match fault.split(':').next().unwrap() {
                "drop" => mine < FED && mine + injected >= FED,
                "duplicate" => mine > FED && left.len() as u64 > ledger.sent(),
                "delay" => mine + injected >= FED && above(&taps[1].sent, DELAY_TICKS) > 0,
                "reorder" => mine + injected >= FED && mine > FED - BURST as u64,
                "corrupt" => mine < FED && left.len() as u64 == FED + 3 * BURST as u64,
                _ => mine == 0 && ledger.sent() == 0,
            },
            "{fault}: {mine} of {FED} left, {ledger:?}"
        );
    }
}

#[test]
fn what_a_port_refuses_has_come_and_not_left() {
    let mut rig = Rig::start("refused", None, false);
    rig.program.taps().switch_on(KEY);
    rig.feed(old(4 * BURST));
    let (taps, ledger, _) = rig.stop();
    assert_eq!(packets(&taps), [[4 * BURST as u64, 0], [0, 0]]);
    assert_eq!(taps[1].sent.ticks, 0);
    assert_eq!(ledger.ports.map(|port| port.refused), [0, 5 * BURST as u64]);
}
