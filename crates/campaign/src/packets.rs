//! Right packets: the untimed pass before a point's first trial.
//!
//! A wired device is sent every packet by the tester, few at a time. A fed one has no tester at its
//! wire: it is started once more before the timed start, over ports that read the same packets from
//! captures once and write what they are given to others, which are compared when it has stopped.
//! Both ways the same book is kept ([`Examiner`]).

use crate::rig::{Flags, Rig, RigError, RigSetup};
use crate::traffic::TrafficError;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_dpdk::Eal;
use weir_dut::folder::Folder;
use weir_dut::wiring::{WiringKind, recording_ports};
use weir_dut::{RunningDut, StartRequest};
use weir_traffic::check::Examiner;
use weir_trial::{Fault, Oracle, PacketCheck};
use weir_units::Nanos;
use weir_wire::pcap::{CaptureReader, CaptureWriter, Format};

/// Ports of a device.
const PORTS: usize = 2;
/// A device whose counters stand still for so long has done what it will do.
const STILL: Duration = Duration::from_millis(1_500);
/// Longest time that a device may take over its captures.
const LONGEST: Duration = Duration::from_secs(120);
/// Passes over captures before a packet is called missing: the machine may have stood still.
const ATTEMPTS: u32 = 2;

/// How many of the packets are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// None: the plan does without.
    Nothing,
    /// A sample of every trial.
    Samples,
    /// All in an untimed pass before the first trial, and a sample of every trial.
    All,
}

impl Extent {
    /// The extent of a repeat, counted from 0: the untimed pass is run once.
    pub(crate) fn of_repeat(number: u32, wanted: bool) -> Self {
        match (wanted, number) {
            (false, _) => Self::Nothing,
            (true, 0) => Self::All,
            (true, _) => Self::Samples,
        }
    }
}

/// Wires a device up, and compares its packets as far as is asked for.
pub(crate) fn wire_up(
    eal: &'static Eal,
    setup: &RigSetup<'_>,
    number: u32,
    flags: &Flags,
    extent: Extent,
) -> Result<(Rig, Option<PacketCheck>), RigError> {
    if extent == Extent::Nothing {
        return Ok((Rig::wire_up(eal, setup, number, flags)?, None));
    }
    let oracle = Arc::new(Oracle::new(setup.nf));
    if extent == Extent::Samples {
        let mut rig = Rig::wire_up(eal, setup, number, flags)?;
        if let Rig::Wired(wired) = &mut rig {
            wired.compare_with(oracle);
        }
        return Ok((rig, None));
    }
    if setup.wiring == WiringKind::Fed {
        let checked = over_captures(setup, flags, &oracle)?;
        return Ok((Rig::wire_up(eal, setup, number, flags)?, Some(checked)));
    }
    let frames = setup.traffic.pass(setup.nf)?;
    let mut rig = Rig::wire_up(eal, setup, number, flags)?;
    let checked = match &mut rig {
        Rig::Wired(wired) => Some(wired.verify(oracle, frames)?),
        Rig::Fed(_) | Rig::Simulated(_) => None,
    };
    Ok((rig, checked))
}

/// What a reader of the point's results must be told; nothing when all packets were right.
pub(crate) fn remark(check: &PacketCheck) -> Option<String> {
    let wrong = (!check.is_right())
        .then(|| format!("the packets are wrong, so no rate of this point may be ranked: {check}"));
    let none = (check.is_right() && check.compared == 0).then(|| format!("no packet was compared: {check}"));
    wrong.or(none)
}

/// The untimed pass of a device that feeds itself, again when packets are missing.
fn over_captures(setup: &RigSetup<'_>, flags: &Flags, oracle: &Arc<Oracle>) -> Result<PacketCheck, RigError> {
    for attempt in 1.. {
        let check = pass(setup, flags, oracle)?;
        let missing = check.wrong.iter().any(|wrong| wrong.fault == Fault::Missing);
        if !missing || attempt == ATTEMPTS {
            return Ok(check);
        }
    }
    unreachable!("the last attempt is never repeated")
}

fn pass(setup: &RigSetup<'_>, flags: &Flags, oracle: &Arc<Oracle>) -> Result<PacketCheck, RigError> {
    flags.rearm();
    let folder = Folder::new()?;
    let mut book = Examiner::new(Arc::clone(oracle), setup.traffic.pass(setup.nf)?, 1);
    let captures: Vec<(PathBuf, PathBuf)> = (0..PORTS)
        .map(|port| (folder.file(&format!("in{port}.pcap")), folder.file(&format!("out{port}.pcap"))))
        .collect();
    let total = write(&mut book, &captures)?;
    let ports = recording_ports(&captures);
    let request = StartRequest {
        nf: setup.nf,
        variant: setup.variant,
        ports: &ports,
        core: setup.cores.dut,
        control_core: setup.cores.control,
        huge_pages: setup.huge_pages,
        buffers: 0,
        max_frame: setup.traffic.max_frame(),
        folder: &folder,
        namespace: None,
        description: "",
        alarm: Arc::clone(&flags.stop),
    };
    match setup.adapter.start(&request) {
        Ok(dut) => {
            if let Some(why) = until_still(dut, total, flags)? {
                book.remark(why);
            }
        }
        Err(error) if flags.interrupted.load(Ordering::Relaxed) => return Err(error.into()),
        Err(error) => {
            let remark = Some(format!("the untimed pass could not be run: {error}"));
            return Ok(PacketCheck { remark, ..PacketCheck::default() });
        }
    }
    for (port, (_, out)) in captures.iter().enumerate() {
        if let Err(reason) = read(out, |frame| book.came(port, frame)) {
            book.remark(format!("what port {port} wrote cannot be read to its end: {reason}"));
        }
    }
    Ok(book.finish())
}

/// Writes what each port is to read. Returns how many packets that is.
fn write(book: &mut Examiner, captures: &[(PathBuf, PathBuf)]) -> Result<u64, RigError> {
    let failed = |path: &Path, reason: String| {
        RigError::Traffic(TrafficError::Write { path: path.to_path_buf(), reason })
    };
    let mut writers = Vec::new();
    for (path, _) in captures {
        let file = File::create(path).map_err(|error| failed(path, error.to_string()))?;
        let writer = CaptureWriter::new(BufWriter::new(file), Format::Pcap);
        writers.push((path, writer.map_err(|error| failed(path, error.to_string()))?));
    }
    let mut total = 0;
    for item in book.items() {
        let Some((path, writer)) = writers.get_mut(item.direction) else { continue };
        let (frame, _) = book.send(item);
        writer.write(Nanos(total * 1_000), &frame).map_err(|error| failed(path, error.to_string()))?;
        total += 1;
    }
    for (path, writer) in writers {
        writer.finish().map_err(|error| failed(path, error.to_string()))?;
    }
    Ok(total)
}

/// Waits until the device has received everything and its counters stand still, and stops it. Says
/// why it did not get there, where it did not.
fn until_still(mut dut: Box<dyn RunningDut>, total: u64, flags: &Flags) -> Result<Option<String>, RigError> {
    let (begin, mut last) = (Instant::now(), Instant::now());
    let mut seen = (0, 0);
    let why = loop {
        if flags.interrupted.load(Ordering::Relaxed) {
            return Err(RigError::Interrupted);
        }
        if let Some(error) = dut.ended() {
            // Some devices end with their input; what they wrote says whether they did their work.
            return Ok(Some(format!("the device ended by itself: {error}")));
        }
        let Ok(counters) = dut.counters() else { break Some("the device did not tell its counters") };
        let now = (counters.received, counters.sent);
        if now != seen {
            (seen, last) = (now, Instant::now());
        }
        // The last packets it received may not be sent yet.
        let patience = if counters.received >= total { STILL / 10 } else { STILL };
        if last.elapsed() > patience {
            break None;
        }
        if begin.elapsed() > LONGEST {
            break Some("the device was stopped in the midst of its captures");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    dut.stop()?;
    Ok(why.map(str::to_owned))
}

fn read(path: &Path, mut came: impl FnMut(&[u8])) -> Result<(), String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut reader = CaptureReader::new(file).map_err(|error| error.to_string())?;
    while let Some(packet) = reader.next_packet().map_err(|error| error.to_string())? {
        came(packet.data);
    }
    Ok(())
}
