//! A helper's own program: DPDK with one port, and the rings to the switch.
//!
//! What it gives up, and when ([`Step`]): before its port is open all that opening does not take, and before it serves
//! the port all that serving does not take. Between the two a peer can be there already, for some milliseconds.
//! When memory ends, the system takes helpers first; nothing of one is written to a disk when it dies.

use super::connects;
use super::lines::NEW_LINE;
use super::ring::{Consumer, Lie, Producer, Shape, Told, Way};
use crate::{OpenPort, Rx, Tx, open};
use nix::sys::prctl;
use nix::unistd::{dup2_stderr, dup2_stdout};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::{Duration, Instant};
use weir_cpu::{allowed_cores, fine_timers, give_way};
use weir_dpdk::{BURST, Burst, Eal, EalConfig, Memory, Pool, PortConfig, SharedWords, Worker};
use weir_units::FrameSize;

/// Packet buffers: drivers for shared memory keep none.
const BUFFERS: u32 = 2048;
/// Mebibytes beside them.
const SPARE_MIB: u32 = 64;
/// Rounds without a packet after which the helper rests, and for how long.
const IDLE: u32 = 256;
const REST: Duration = Duration::from_micros(50);
/// Rounds between two looks at link, driver and clock, of a helper that is busy.
const LOOK: u64 = 256;
/// Letters of what is told of a failure.
const WORDS: usize = 4 << 10;
/// How long it may take to close its port once the switch is done with it.
const GRACE: Duration = Duration::from_millis(400);

/// What a helper is to serve.
#[derive(Clone, Debug)]
pub struct HelperConfig {
    /// DPDK's string of the port.
    pub port: String,
    /// Its queues.
    pub queues: u16,
    /// Descriptors of each.
    pub descriptors: u16,
    /// The longest frame.
    pub max_frame: FrameSize,
    /// The core; the first that it may use, if none, and no worker if there is another.
    pub core: Option<usize>,
    /// Cores of the switch's workers, to whom it gives way.
    pub workers: Vec<usize>,
}

/// When a helper gives up what it needs no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Its port is opened next.
    Open,
    /// Its port is served next, on this thread.
    Serve {
        /// Whether the port connects to its peer's socket, time and again.
        connects: bool,
    },
}

/// Gives up what is not needed for a step and all behind it.
pub type GiveUp = fn(Step) -> Result<(), String>;

impl HelperConfig {
    fn core(&self) -> usize {
        let allowed = allowed_cores();
        let free = allowed.iter().find(|core| !self.workers.contains(core));
        self.core.or(free.copied()).or(allowed.first().copied()).unwrap_or(0)
    }
}

/// Serves a port until the switch is done with it: standard input is the stream to the switch, standard output the
/// memory.
///
/// # Errors
/// What was told to the switch.
pub fn serve(config: &HelperConfig, give_up: GiveUp) -> Result<(), String> {
    let told = |error: io::Error| error.to_string();
    // A precaution: where the system has it not, the port can be served all the same.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().map_err(told)?);
    let served = prepare(config, &stream, give_up).and_then(|(eal, body)| {
        let worker =
            Worker::spawn(eal, "weir-helper", config.core(), body).map_err(|error| error.to_string())?;
        worker.join().map_err(|error| error.to_string())?
    });
    if let Err(error) = &served {
        let words: String = error.chars().take(WORDS).map(|c| if c == '\n' { NEW_LINE } else { c }).collect();
        // The switch may be gone.
        let _ = writeln!(&stream, "failed {words}");
    }
    served
}

type Body = Box<dyn FnOnce() -> Result<(), String> + Send>;

/// All that is done before packets are.
fn prepare(
    config: &HelperConfig,
    stream: &UnixStream,
    give_up: GiveUp,
) -> Result<(&'static Eal, Body), String> {
    let told = |error: io::Error| error.to_string();
    let HelperConfig { queues, descriptors, max_frame, .. } = *config;
    let shape = Shape::new(queues, descriptors, max_frame.bytes());
    let memory = io::stdout().as_fd().try_clone_to_owned().map_err(told)?;
    // DPDK writes there now and then.
    let nowhere = File::options().write(true).open("/dev/null").map_err(told)?;
    dup2_stdout(&nowhere).map_err(|error| error.to_string())?;
    let memory = Arc::new(SharedWords::open(memory, shape.words()).map_err(told)?);
    let megabytes = Pool::megabytes(BUFFERS, max_frame.bytes()) as u32 + SPARE_MIB;
    let eal = Eal::init(EalConfig { memory: Memory::Normal, megabytes, pci: false })
        .map_err(|error| error.to_string())?;
    let pool = Pool::new(eal, BUFFERS, max_frame).map_err(|error| error.to_string())?;
    let setup = PortConfig { queues, descriptors, max_frame };
    let stop = until_told(stream)?;
    let shares = config.workers.contains(&config.core());
    let (port, mut ready) = (config.port.clone(), stream.try_clone().map_err(told)?);
    let body = move || {
        // A thread that shares a worker's core takes what the worker leaves.
        if shares {
            give_way().map_err(told)?;
        }
        // Nor does another process of this user look into it from now on.
        let _ = prctl::set_dumpable(false);
        let connects = connects(&port);
        give_up(Step::Open)?;
        let mut port = open(&port, setup, &pool).map_err(|error| error.to_string())?;
        let ends = std::iter::from_fn(|| port.take_queue()).enumerate();
        let lanes: Vec<Lane> = ends.map(|(queue, ends)| Lane::new(ends, &memory, shape, queue)).collect();
        // Nothing that it says from now on is for a terminal or a log.
        dup2_stderr(&nowhere).map_err(|error| error.to_string())?;
        drop(nowhere);
        give_up(Step::Serve { connects })?;
        writeln!(ready, "ready {}", lanes.len()).map_err(|error| error.to_string())?;
        Loop { port, pool, memory, stop, missed: 0, unsent: 0 }.run(lanes)
    };
    Ok((eal, Box::new(body)))
}

/// Whether the switch is done with this helper, or gone.
fn until_told(stream: &UnixStream) -> Result<Arc<AtomicBool>, String> {
    let mut stream = stream.try_clone().map_err(|error| error.to_string())?;
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    let wait = move || {
        // It says nothing, but ends.
        while stream.read(&mut [0; 64]).is_ok_and(|got| got > 0) {}
        told.store(true, Release);
        thread::sleep(GRACE);
        std::process::exit(1); // the loop did not come to its end
    };
    thread::Builder::new().name("weir-switch".into()).spawn(wait).map_err(|error| error.to_string())?;
    Ok(stop)
}

/// A queue of the port, and its rings.
struct Lane {
    rx: Rx,
    tx: Tx,
    into: Producer,
    from: Consumer,
    /// What the driver gave and the ring has no room for yet.
    inbound: Burst,
    /// What was copied from the ring and the driver has not taken yet: the slots are given back when it has.
    outbound: Burst,
}

impl Lane {
    fn new((rx, tx): (Rx, Tx), memory: &Arc<SharedWords>, shape: Shape, queue: usize) -> Self {
        Self {
            rx,
            tx,
            into: Producer::new(memory, shape, queue, Way::In),
            from: Consumer::new(memory, shape, queue, Way::Out),
            inbound: Burst::new(),
            outbound: Burst::new(),
        }
    }

    /// From the driver into the ring. Returns packets moved, and those that cannot be.
    fn inward(&mut self, longest: usize) -> Result<(usize, u64), Lie> {
        if self.inbound.is_empty() && self.rx.receive(&mut self.inbound) == 0 {
            return Ok((0, 0));
        }
        let mut missed = 0;
        if self
            .inbound
            .iter()
            .any(|packet| packet.is_chained() || packet.len() > longest || packet.is_empty())
        {
            let mut kept = [Burst::new()];
            missed = self.inbound.distribute(&mut kept, |_, packet| {
                (!packet.is_chained() && packet.len() <= longest && !packet.is_empty()).then_some(0)
            }) as u64;
            [self.inbound] = kept;
        }
        let count = self.into.free(self.inbound.len())?;
        self.inbound.iter().take(count).for_each(|packet| self.into.put(packet.data()));
        self.into.publish();
        self.inbound.drop_front(count);
        Ok((count, missed))
    }

    /// From the ring to the driver. Returns packets moved, and those that no peer was there for.
    fn outward(&mut self, pool: &Pool, is_up: bool) -> Result<(usize, u64), Lie> {
        if self.outbound.is_empty() {
            let ready = self.from.ready()?.min(BURST);
            if ready == 0 || !pool.fill(&mut self.outbound, ready) {
                return Ok((0, 0));
            }
            for (place, packet) in self.outbound.iter_mut().enumerate() {
                let length = self.from.length(place)?;
                self.from.copy(place, packet.set_len(length as u16)); // the pool was made for the longest
            }
        }
        let before = self.outbound.len();
        self.tx.transmit(&mut self.outbound);
        let mut unsent = 0;
        if !is_up {
            unsent = self.outbound.len() as u64;
            self.outbound.clear();
        }
        let done = before - self.outbound.len();
        self.from.advance(done);
        Ok((done, unsent))
    }
}

struct Loop {
    port: OpenPort,
    pool: Pool,
    memory: Arc<SharedWords>,
    stop: Arc<AtomicBool>,
    missed: u64,
    unsent: u64,
}

impl Loop {
    /// Moves packets until the switch is done with it.
    fn run(mut self, mut lanes: Vec<Lane>) -> Result<(), String> {
        fine_timers();
        let longest = usize::from(self.pool.room()).min(lanes.first().map_or(0, |lane| lane.into.longest()));
        let (mut rounds, mut idle, mut is_up) = (0_u64, 0_u32, self.tell());
        let mut looked = Instant::now();
        while !self.stop.load(Acquire) {
            let mut moved = 0;
            for lane in &mut lanes {
                let lied = |_: Lie| "the switch wrote what cannot be into the memory".to_owned();
                let (came, missed) = lane.inward(longest).map_err(lied)?;
                let (went, unsent) = lane.outward(&self.pool, is_up).map_err(lied)?;
                moved += came + went;
                self.missed += missed;
                self.unsent += unsent;
            }
            rounds += 1;
            Told::Rounds.write(&self.memory, rounds);
            if moved > 0 {
                idle = 0;
            } else if idle < IDLE {
                idle += 1;
            } else {
                thread::sleep(REST);
            }
            if rounds.is_multiple_of(LOOK) || idle == IDLE && looked.elapsed() > Duration::from_millis(1) {
                is_up = self.tell();
                looked = Instant::now();
            }
        }
        Ok(())
    }

    /// Says how it is; whether the link is up.
    fn tell(&self) -> bool {
        let is_up = self.port.link_up();
        let [a, b, c, d, e, f] = self.port.mac();
        Told::Mac.write(&self.memory, u64::from_le_bytes([a, b, c, d, e, f, 0, 0]));
        Told::Missed.write(&self.memory, self.missed + self.port.stats().missed);
        Told::Unsent.write(&self.memory, self.unsent);
        Told::Link.write(&self.memory, u64::from(is_up));
        is_up
    }
}
