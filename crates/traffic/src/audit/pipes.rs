//! The sink of an audited device over `fed`: all that it sends is written, as captures, into named pipes, and
//! read here to the last byte.
//!
//! A device whose sink is full waits, so no packet is lost on the way, and what the lab counts is what the
//! device sent. Each port has a pipe and a thread that reads it; while the audit looks, each frame is held
//! against what the function must make of the trace's packets ([`Expectations`]).

use super::expectations::{Expectations, Seen};
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_trial::PacketCheck;

/// Bytes of a capture's header, and of each packet's (libpcap's file format).
const FILE_HEADER: usize = 24;
const PACKET_HEADER: usize = 16;
/// How a capture begins: with times in nanoseconds, or in microseconds, written on this machine.
const MAGICS: [u32; 2] = [0xa1b2_3c4d, 0xa1b2_c3d4];
/// Longest frame that is believed.
const LONGEST: usize = 65_536;
/// What is read at once.
const CHUNK: usize = 1 << 18;
/// A pipe's own room, which the device has filled and the lab has not yet read (pipe(7)).
const PIPE: u64 = 1 << 16;
/// Packets of a burst that a device may have counted and not yet written, or the reverse.
const BURST: u64 = 64;
/// How long a pipe without a writer is left alone, and one that is empty at most.
const NAP: Duration = Duration::from_millis(1);

/// Takes a stream of captures apart, however it is cut into pieces. A device may close its capture and begin
/// another one.
#[derive(Debug, Default)]
struct Parser {
    rest: Vec<u8>,
}

impl Parser {
    /// Takes bytes in; `each` gets every whole frame. An error says what is no capture.
    fn take(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), String> {
        self.rest.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(first) = self.rest.get(at..at + PACKET_HEADER) {
            let word = |place: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| first[place + byte]));
            if MAGICS.contains(&word(0)) {
                if self.rest.len() < at + FILE_HEADER {
                    break;
                }
                at += FILE_HEADER;
                continue;
            }
            let length = word(8) as usize;
            if length > LONGEST {
                return Err(format!("a packet of {length} bytes stands in the device's capture"));
            }
            let Some(frame) = self.rest.get(at + PACKET_HEADER..at + PACKET_HEADER + length) else { break };
            each(frame);
            at += PACKET_HEADER + length;
        }
        self.rest.drain(..at);
        Ok(())
    }
}

/// What threads and audit share.
#[derive(Debug, Default)]
struct Shared {
    counted: AtomicU64,
    looks: AtomicBool,
    stop: AtomicBool,
}

/// The pipes of all ports.
#[derive(Debug)]
pub struct Sink {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<(Seen, PacketCheck)>>,
    expectations: Arc<Expectations>,
}

impl Sink {
    /// Makes a pipe for each port in a folder, and reads them from now on. Returns their paths beside it.
    pub fn open(
        folder: &Path,
        ports: u8,
        expectations: Expectations,
    ) -> Result<(Self, Vec<PathBuf>), String> {
        let (shared, expectations) = (Arc::new(Shared::default()), Arc::new(expectations));
        let mut sink = Self { shared, threads: Vec::new(), expectations };
        let mut paths = Vec::new();
        for port in 0..ports {
            let path = folder.join(format!("sink{port}.pcap"));
            let failed = |why: String| format!("{}: {why}", path.display());
            mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).map_err(|error| failed(error.to_string()))?;
            // Opened before the device opens it to write, which would wait for us.
            let options = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&path);
            let pipe = options.map_err(|error| failed(error.to_string()))?;
            let (shared, expectations) = (Arc::clone(&sink.shared), Arc::clone(&sink.expectations));
            sink.threads.push(std::thread::spawn(move || read(pipe, port, &shared, &expectations)));
            paths.push(path);
        }
        Ok((sink, paths))
    }

    /// Packets that came so far.
    pub fn counted(&self) -> u64 {
        self.shared.counted.load(Ordering::Acquire)
    }

    /// Packets by which the count may lag behind a device that says the truth: what its pipes and its bursts
    /// hold, and what a thread has read of a pipe, at most all that was in it, and not yet counted.
    pub fn slack(&self) -> u64 {
        let a_port = 2 * PIPE / (PACKET_HEADER as u64 + self.expectations.shortest()) + BURST;
        a_port * self.threads.len() as u64
    }

    /// Begins or ends to look at each packet.
    pub fn look(&self, whether: bool) {
        self.shared.looks.store(whether, Ordering::Release);
    }

    /// Ends the reading, and says what all packets that were looked at came to, and how many left by each port.
    pub fn finish(mut self) -> (PacketCheck, Vec<u64>) {
        self.shared.stop.store(true, Ordering::Release);
        let (mut seen, mut check) = (self.expectations.nothing_seen(), PacketCheck::default());
        let mut by_port = Vec::new();
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok((own, found)) => {
                    seen.add(&own);
                    by_port.push(found.compared);
                    check.merge(found);
                }
                Err(_) => {
                    by_port.push(0);
                    check.remark("a thread of the sink ended early");
                }
            }
        }
        self.expectations.starved(&seen, &mut check);
        (check, by_port)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Waits until the device has written, or for a nap: whoever looks into an empty pipe again and again takes a core.
fn wait(pipe: &File) {
    let mut written = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    // What it was that ended the wait, the next reading says.
    let _ = poll(&mut written, PollTimeout::try_from(NAP).unwrap_or(PollTimeout::ZERO));
}

/// Reads a port's pipe until told to stop.
fn read(mut pipe: File, port: u8, shared: &Shared, expectations: &Expectations) -> (Seen, PacketCheck) {
    let (mut parser, mut chunk) = (Parser::default(), vec![0; CHUNK]);
    let (mut seen, mut check) = (expectations.nothing_seen(), PacketCheck::default());
    while !shared.stop.load(Ordering::Acquire) {
        match pipe.read(&mut chunk) {
            // No writer: not opened yet, or closed again.
            Ok(0) => std::thread::sleep(NAP),
            Ok(count) => {
                let looks = shared.looks.load(Ordering::Acquire);
                let mut packets = 0;
                let taken = parser.take(&chunk[..count], |frame| {
                    packets += 1;
                    if looks {
                        expectations.look(port, frame, &mut seen, &mut check);
                    }
                });
                shared.counted.fetch_add(packets, Ordering::Release);
                if let Err(why) = taken {
                    check.remark(why);
                    parser = Parser::default();
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait(&pipe),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                check.remark(format!("the sink could not be read: {error}"));
                break;
            }
        }
    }
    (seen, check)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Vec<u8> {
        let mut bytes = MAGICS[0].to_ne_bytes().to_vec();
        bytes.resize(FILE_HEADER, 0);
        bytes
    }

    fn packet(frame: &[u8]) -> Vec<u8> {
        let length = (frame.len() as u32).to_ne_bytes();
        [&[9, 0, 0, 0, 0, 0, 0, 0], length.as_slice(), length.as_slice(), frame].concat()
    }

    #[test]
    fn captures_are_taken_apart_however_they_are_cut_and_may_begin_anew() {
        let frames = [vec![1; 60], vec![2; 1500], vec![3; 61]];
        let first = [header(), packet(&frames[0]), packet(&frames[1])].concat();
        let stream = [first, header(), packet(&frames[2])].concat();
        for cut in [1, 7, 16, 24, 100, 5000] {
            let (mut parser, mut found) = (Parser::default(), Vec::new());
            for piece in stream.chunks(cut) {
                parser.take(piece, |frame| found.push(frame.to_vec())).unwrap();
            }
            assert_eq!(found, frames, "pieces of {cut} bytes");
        }
    }

    #[test]
    fn what_is_no_capture_is_said() {
        let mut lie = packet(&[1; 60]);
        lie[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
        let why = Parser::default().take(&lie, |_| panic!("there is no frame")).unwrap_err();
        assert!(why.contains("4294967295"), "{why}");
    }

    #[test]
    fn a_pipe_is_counted_to_the_last_packet_and_a_full_one_waits() {
        use std::io::Write as _;
        let folder = tempfile::tempdir().unwrap();
        let (sink, paths) = Sink::open(folder.path(), 1, Expectations::default()).unwrap();
        let mut pipe = OpenOptions::new().write(true).open(&paths[0]).unwrap();
        pipe.write_all(&header()).unwrap();
        for _ in 0..10_000 {
            pipe.write_all(&packet(&[7; 60])).unwrap(); // ten times a pipe's room
        }
        drop(pipe);
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while sink.counted() < 10_000 && std::time::Instant::now() < end {
            std::thread::sleep(NAP);
        }
        assert_eq!(sink.counted(), 10_000);
        assert_eq!(sink.finish(), (PacketCheck::default(), vec![0]), "nobody looked");
    }
}
