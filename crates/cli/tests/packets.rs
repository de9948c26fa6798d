//! Right packets: the oracle against the network functions themselves, and the untimed pass and the
//! samples of real campaigns.

use crate::lab::{Lab, cores, told};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_cpu::allowed_cores;
use weir_dpdk::{Eal, EalConfig, Memory, PortConfig};
use weir_nf::{Firewall, Function, L2Fwd, L3Fwd, Program, ProgramConfig};
use weir_traffic::check::{Examiner, PassFrames};
use weir_traffic::probes::probes;
use weir_trial::run::Run;
use weir_trial::{Fault, Nf, Oracle, PacketCheck};
use weir_units::Nanos;
use weir_wire::pcap::{CaptureReader, CaptureWriter, Format};

/// What leaves the function by each port.
type Output = [Vec<Vec<u8>>; 2];

fn eal() -> &'static Eal {
    Eal::init(EalConfig { memory: Memory::Normal, megabytes: 256, pci: false }).expect("EAL starts anywhere")
}

/// A small generator of test data (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// Probes of the function, many of them damaged, so that the drops of every reason come up.
fn hostile(nf: Nf) -> Vec<PassFrames> {
    let mut random = Random(2544);
    let mut lists = probes(nf, &[[2; 12], [6; 12]]);
    for list in &mut lists {
        let mut damaged: Vec<Vec<u8>> = (0..1_500).map(|_| list[random.below(list.len())].clone()).collect();
        for frame in &mut damaged {
            match random.below(12) {
                0 => frame[12] = 0x86,                                    // no IPv4
                1 => frame[14] = 0x65,                                    // another version
                2 => frame[14] = 0x43,                                    // a header of 12 bytes
                3 => frame[16..18].copy_from_slice(&[0, 7]),              // a length below the header's
                4 => frame[24] ^= 0x40,                                   // the checksum
                5 => frame[22] = random.below(3) as u8,                   // used up, but the checksum tells
                6 => frame[30] = 9,                                       // elsewhere, but the checksum tells
                7 => frame[21] = 3,                                       // a later fragment
                8 => frame[23] = [1, 132, 47][random.below(3)],           // other protocols
                9 => frame.extend([0; 9]),                                // padding
                10 => frame[14] = 0x46,                                   // options that were ports before
                _ => frame[26 + random.below(8)] ^= 1 << random.below(8), // addresses
            }
            if random.below(2) == 0 && frame[14] & 0xf >= 5 {
                let end = 14 + usize::from(frame[14] & 0xf) * 4;
                frame[24..26].fill(0);
                let sum = weir_wire::checksum::checksum(&frame[14..end]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
        }
        list.extend(damaged);
    }
    lists.into_iter().map(|own| PassFrames::new(None, own)).collect()
}

/// Sends everything in the book through the real function, over captures.
fn through(book: &mut Examiner, nf: Nf, name: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = |what: &str, port: usize| folder.path().join(format!("{what}{port}.pcap"));
    let mut writers = [0, 1].map(|port| {
        CaptureWriter::new(BufWriter::new(File::create(file("in", port)).unwrap()), Format::Pcap).unwrap()
    });
    let mut total = 0;
    for item in book.items() {
        let (frame, _) = book.send(item);
        writers[item.direction].write(Nanos(total), &frame).unwrap();
        total += 1;
    }
    writers.into_iter().for_each(|writer| drop(writer.finish().unwrap()));
    let ports = [0, 1].map(|port| {
        let (rx, tx) = (file("in", port), file("out", port));
        format!("net_pcap_{name}{port},rx_pcap={},tx_pcap={}", rx.display(), tx.display())
    });
    let function = match nf {
        Nf::L2Fwd => Function::L2Fwd(L2Fwd),
        Nf::L3Fwd { .. } => Function::L3Fwd(Box::new(L3Fwd::new(&nf.routes()).unwrap())),
        Nf::Firewall { .. } => Function::Firewall(Box::new(Firewall::new(&nf.rules()).unwrap())),
        _ => panic!("weir nf cannot be {nf}"),
    };
    let config = ProgramConfig {
        ports: ports.into(),
        port: PortConfig::default(),
        buffers: 4096,
        cores: vec![allowed_cores()[0]],
        yields: false,
        fault: None,
    };
    let program = Program::start(eal(), function, &config).unwrap();
    let begin = Instant::now();
    while program.ledger().received() < total {
        assert!(begin.elapsed() < Duration::from_secs(30) && program.is_running());
        std::thread::sleep(Duration::from_millis(5));
    }
    program.stop().unwrap();
    [0, 1].map(|port| read(&file("out", port)))
}

fn read(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = CaptureReader::new(File::open(path).unwrap()).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        frames.push(packet.data.to_vec());
    }
    frames
}

/// The check of the real function whose output `change` spoils.
fn checked(nf: &str, name: &str, change: impl FnOnce(&mut Output)) -> (PacketCheck, usize) {
    let nf: Nf = nf.parse().unwrap();
    let mut book = Examiner::new(Arc::new(Oracle::new(nf)), hostile(nf), 1);
    let sent = book.items().len();
    let mut output = through(&mut book, nf, name);
    change(&mut output);
    for (port, frames) in output.iter().enumerate() {
        frames.iter().for_each(|frame| book.came(port, frame));
    }
    (book.finish(), sent)
}

#[test]
fn oracle_and_network_functions_agree_about_every_packet() {
    let _cores = cores();
    for (nf, name) in
        [("l2fwd", "a"), ("l3fwd:1", "b"), ("l3fwd:1000", "c"), ("firewall:1", "d"), ("firewall:500", "e")]
    {
        let (check, sent) = checked(nf, name, |_| {});
        assert!(check.is_right(), "{nf}: {check}");
        // Some damaged packets are no IPv4 any more, which nobody decides about; most are.
        assert!(check.compared as usize > sent * 2 / 3, "{nf}: {check} of {sent}");
    }
}

#[test]
fn one_spoilt_packet_among_thousands_is_found() {
    let _cores = cores();
    let (check, _) = checked("l3fwd:10", "f", |output| output[1][500][22] -= 1);
    assert!(check.wrong.iter().any(|wrong| wrong.fault == Fault::Ttl && wrong.count == 1), "{check}");
    let (check, _) = checked("l2fwd", "g", |output| output[0].swap(500, 501));
    assert!(check.is_right() || check.wrong.iter().all(|wrong| wrong.fault == Fault::Order), "{check}");
    let (check, _) = checked("firewall:20", "h", |output| {
        let copy = output[0][100].clone();
        output[0].push(copy);
    });
    assert!(check.wrong.iter().any(|wrong| wrong.fault == Fault::Duplicate && wrong.count == 1), "{check}");
}

/// A method for those whose audit is looked at, and no trial.
const BRIEF: &str = "trials = 1\nduration = \"50ms\"";

fn plan(axes: &str) -> String {
    format!("{axes}\nhuge_pages = false\n[mrr]\ntrials = 2\nduration = \"100ms\"\nload = \"40kpps\"\n")
}

/// The same, where it is no matter what the tester can do by itself.
fn unchecked_tester(axes: &str) -> String {
    plan(&format!("{axes}\nself_check = false"))
}

/// Every point compared whole and right; returns the number of packets of each.
fn all_right(run: &Run) -> Vec<u64> {
    let compared = run.points.iter().map(|point| {
        assert_eq!(point.error, None, "{:?}", point.key);
        let check = point.packets.as_ref().unwrap_or_else(|| panic!("{:?} was not checked", point.key));
        assert!(check.is_right(), "{:?}: {check}", point.key);
        let cut = |remark: &String| remark.contains("the first 100000 of the trace's");
        assert!(check.remark.as_ref().is_none_or(cut), "{:?}: {check}", point.key);
        check.compared
    });
    compared.collect()
}

#[test]
fn every_packet_of_a_wired_device_is_compared_and_a_sample_of_every_trial() {
    let _cores = cores();
    for plan in [
        unchecked_tester("nf = [\"l2fwd\", \"l3fwd:100\", \"firewall:100\"]\nsize = 64\ntrace = \"tr3i\""),
        unchecked_tester(
            "nf = \"l3fwd:10\"\nsize = \"imix\"\ntrace = \"flows:100\"\nstamped = \"20%\"\ndirections = 1",
        ),
        unchecked_tester("nf = \"l2fwd\"\ndut = \"testpmd\"\nsize = 512\ntrace = \"simple\""),
        // In one direction: seven million frames are made and hashed for each.
        plan("nf = \"l2fwd\"\nsize = \"recorded\"\ntrace = \"t1\"\ndirections = 1"),
    ] {
        let run = Lab::new(&plan).measure(0);
        assert!(all_right(&run).iter().all(|compared| *compared > 300), "{plan}");
        for point in &run.points {
            for trial in &point.trials {
                let sample = trial
                    .result
                    .packets
                    .as_ref()
                    .unwrap_or_else(|| panic!("{:?} without a sample", point.key));
                assert!(sample.is_right(), "{:?}: {sample}", point.key);
                // The tester may be late on a busy machine: what came is what can be sampled.
                let came = trial.result.total().received;
                assert!(sample.compared > 0 || came < 1_000, "{:?}: {sample} of {came}", point.key);
            }
        }
    }
}

#[test]
fn the_untimed_pass_of_two_directions_compares_more_than_that_of_one() {
    let _cores = cores();
    let run = Lab::new(&unchecked_tester(
        "nf = [\"l2fwd\", \"l3fwd:10\"]\ndirections = [1, 2]\ntrace = \"flows:100\"\nsize = 64",
    ))
    .measure(0);
    let compared = all_right(&run);
    let [one, two, routed_one, routed_two] = compared[..] else { panic!("{compared:?}") };
    assert!(two > one && routed_two > routed_one, "{compared:?}");
}

#[test]
fn a_device_that_feeds_itself_is_looked_at_over_another_wiring_first() {
    let _cores = cores();
    for axes in [
        "nf = \"l2fwd\"\ndut = [\"nf\", \"testpmd\"]\ndirections = [1, 2]",
        "nf = [\"l3fwd:10\", \"firewall:50\"]\ndirections = 2",
    ] {
        let axes = format!("{axes}\nwiring = \"fed\"\ntrace = \"flows:100\"\nsize = 64");
        let run = Lab::new(&plan(&axes).replace("trials = 2\nduration = \"100ms\"", BRIEF)).measure(0);
        // The untimed pass compares some hundreds; the audit all that is forwarded at the full rate.
        let compared = all_right(&run);
        assert!(compared.iter().all(|compared| *compared > 50_000), "{compared:?}");
        for point in &run.points {
            let audit = point.packets.as_ref().unwrap().audit.as_ref().expect("an audit");
            let [left, right] = audit.by_port[..] else { panic!("{audit:?}") };
            match point.key.directions {
                // What enters by port 0 leaves by port 1.
                1 => assert!(left == 0 && right > 25_000, "{:?}: {audit:?}", point.key),
                _ => assert!(left.min(right) * 2 > left.max(right), "{:?}: {audit:?}", point.key),
            }
        }
    }
}

#[test]
fn a_plan_may_go_without_and_people_are_told_what_was_compared() {
    let _cores = cores();
    let axes = "nf = \"l2fwd\"\nsize = 64\ntrace = \"flows:10\"";
    let lab = Lab::new(&unchecked_tester(&format!("{axes}\ncheck = false")));
    let run = lab.measure(0);
    assert_eq!(run.points[0].packets, None);
    assert!(run.points[0].trials.iter().all(|trial| trial.result.packets.is_none()));

    let lab = Lab::new(&unchecked_tester(axes));
    lab.measure(0);
    let output = crate::lab::weir().args(["show", "--db"]).arg(lab.file("weir.db")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("packets  ") && text.contains(" compared, all right"), "{}", told(&output));
    let page = std::fs::read_to_string(lab.file("page.html")).unwrap();
    assert!(page.contains("No packet was wrong.") && page.contains("id=\"packets-table\""));
}
