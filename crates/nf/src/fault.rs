//! Faults on purpose: a device that does wrong, so that a tester can be tested.
//!
//! A [`Fault`] names what goes wrong and with which share of the packets: `corrupt:1e-6` flips a bit
//! in one of a million, drawn by chance, the same at each start. It acts where packets leave, on the worker's thread; a program without a
//! fault is compiled without it. Injected losses are counted as [`DropReason::Injected`], so that the
//! ledger still adds up, as are packets held back that the end of the program finds; copies are not counted at all, as a
//! device that makes them would not.

mod frames;

use crate::ledger::Counters;
use crate::verdict::{DropReason, PORTS};
use crate::wire::{Ports, Wire};
use std::collections::VecDeque;
use std::fmt;
use std::process::{Child, Command};
use std::str::FromStr;
use weir_cpu::Ticks;
use weir_dpdk::{Burst, Pool};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// Packets vanish.
    Drop,
    /// Packets leave twice.
    Duplicate,
    /// Packets leave after their successors.
    Reorder,
    /// Packets wait [`DELAY_TICKS`].
    Delay,
    /// One bit is flipped, anywhere.
    Corrupt,
    /// The time to live is raised by one again.
    NoTtl,
    /// The IPv4 checksum is broken.
    BadChecksum,
    /// Denied packets pass.
    Leak,
    /// Packets leave with the content of old ones.
    Stale,
    /// The process aborts.
    Crash,
    /// The worker stops working and the process lives on.
    Hang,
    /// A child process is left behind.
    Fork,
    /// The log is flooded: a thousand lines at a time.
    Chatter,
    /// The worker does nothing for this share of its time.
    Slow,
    /// Counters are read while traffic runs: the program answers with what it read the time before.
    OldCounters,
    /// Packets that left 70,000 packets before leave once more.
    Replay,
    /// Source and destination address change places: every checksum stays right.
    Swap,
    /// The UDP checksum says that there is none, and a byte of the payload is broken.
    NoChecksum,
    /// The last bytes of packets, where a tester may have written when it sent them, say a later time.
    Young,
    /// Counters say more than was forwarded, by this share.
    Boast,
    /// In full bursts only the first packet is looked up; the others go where it goes.
    SkipLookups,
    /// This share of the flows gets nothing through, after the first 200,000 packets.
    Starve,
    /// Packets that leave by port 1 vanish; by port 0 none does.
    OneWay,
    /// Of several pairs of ports, the last of the first half and the last of all change places, from the start and with all packets: what
    /// one bundle of a host's chains sends leaves by another's port.
    Cross,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [Self; 24] = [
        Self::Drop,
        Self::Duplicate,
        Self::Reorder,
        Self::Delay,
        Self::Corrupt,
        Self::NoTtl,
        Self::BadChecksum,
        Self::Leak,
        Self::Stale,
        Self::Crash,
        Self::Hang,
        Self::Fork,
        Self::Chatter,
        Self::Slow,
        Self::OldCounters,
        Self::Replay,
        Self::Swap,
        Self::NoChecksum,
        Self::Young,
        Self::Boast,
        Self::SkipLookups,
        Self::Starve,
        Self::OneWay,
        Self::Cross,
    ];

    /// The name people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Duplicate => "duplicate",
            Self::Reorder => "reorder",
            Self::Delay => "delay",
            Self::Corrupt => "corrupt",
            Self::NoTtl => "no-ttl",
            Self::BadChecksum => "bad-checksum",
            Self::Leak => "leak",
            Self::Stale => "stale",
            Self::Crash => "crash",
            Self::Hang => "hang",
            Self::Fork => "fork",
            Self::Chatter => "chatter",
            Self::Slow => "slow",
            Self::OldCounters => "old-counters",
            Self::Replay => "replay",
            Self::Swap => "swap",
            Self::NoChecksum => "no-checksum",
            Self::Young => "young",
            Self::Boast => "boast",
            Self::SkipLookups => "skip-lookups",
            Self::Starve => "starve",
            Self::OneWay => "one-way",
            Self::Cross => "cross",
        }
    }
}

/// A fault: what, and with one of how many packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// It goes wrong with one packet of so many.
    pub every: u64,
}

/// A text that names no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no fault; write KIND or KIND:SHARE with a share of the packets above 0 and up to 1, such as corrupt:1e-6; \
     kinds are {}",
    FaultKind::ALL.map(FaultKind::name).join(", ")
)]
pub struct ParseFaultError {
    text: String,
}

impl FromStr for Fault {
    type Err = ParseFaultError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseFaultError { text: text.to_owned() };
        let (name, share) = text.split_once(':').unwrap_or((text, "1"));
        let kind = FaultKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(error)?;
        let share: f64 = share.parse().map_err(|_| error())?;
        if !(share > 0.0 && share <= 1.0) {
            return Err(error());
        }
        Ok(Self { kind, every: (1.0 / share).round() as u64 })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:1/{}", self.kind.name(), self.every)
    }
}

/// How long a delayed packet waits, in TSC ticks: some ten milliseconds on the machines of the day.
pub const DELAY_TICKS: u64 = 30_000_000;

/// The longest work, in TSC ticks, that a [`FaultKind::Slow`] device slows down at once.
const LONGEST_WORK: u64 = 100_000;

/// Where the choice of packets and bits begins: no small number, whose successors would be small as well.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Packets after which a [`FaultKind::Starve`] device begins: more than a tester may look at in peace.
const STARVES_AFTER: u64 = 200_000;

/// How far behind the packets lie that a [`FaultKind::Replay`] device sends again.
const REPLAY_BEHIND: usize = 70_000;

/// Old packets that a [`FaultKind::Stale`] device remembers.
const MEMORY: usize = 64;

/// A [`Fault`] at work.
#[derive(Debug)]
pub(crate) struct Saboteur {
    fault: Fault,
    pool: Pool,
    /// Packets until the next that goes wrong.
    left: u64,
    /// Packets that leave later, and from when on.
    held: [Burst; PORTS],
    due: Ticks,
    /// The first packets there were.
    old: Vec<Vec<u8>>,
    /// The last [`REPLAY_BEHIND`] packets of each port.
    last: [VecDeque<Vec<u8>>; PORTS],
    /// Packets that left so far, of a device that starves flows.
    left_before: u64,
    /// State of the choice of bits.
    random: u64,
    child: Option<Child>,
    /// When the worker last went back to work.
    since: Ticks,
}

impl Saboteur {
    pub(crate) fn new(fault: Fault, pool: Pool) -> Self {
        let held = [const { Burst::new() }; PORTS];
        let mut saboteur = Self {
            fault,
            pool,
            left: 0,
            held,
            due: Ticks(u64::MAX),
            old: Vec::with_capacity(MEMORY),
            last: Default::default(),
            left_before: 0,
            random: SEED,
            child: None,
            since: Ticks::now(),
        };
        saboteur.left = saboteur.distance();
        saboteur
    }

    /// How many packets on the next one goes wrong: by chance, so that every packet has the same share.
    fn distance(&mut self) -> u64 {
        if self.fault.every == 1 {
            return 1;
        }
        let drawn = (self.below(1 << 53) + 1) as f64 / 2.0_f64.powi(53);
        1 + (drawn.ln() / (-1.0 / self.fault.every as f64).ln_1p()) as u64
    }

    /// Places in a burst of so many packets that go wrong.
    fn victims(&mut self, packets: usize) -> Vec<usize> {
        let mut places = Vec::new();
        for place in 0..packets {
            self.left -= 1;
            if self.left == 0 {
                self.left = self.distance();
                places.push(place);
            }
        }
        places
    }

    /// A number below `limit` (xorshift64, Marsaglia 2003).
    fn below(&mut self, limit: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % limit.max(1) as u64) as usize
    }

    fn remember(&mut self, burst: &Burst) {
        let room = MEMORY - self.old.len();
        self.old.extend(burst.iter().take(room).map(|packet| packet.data().to_vec()));
    }

    /// Changes a frame in place.
    fn mangle(&mut self, frame: &mut [u8]) {
        match self.fault.kind {
            FaultKind::Corrupt => {
                let bit = self.below(frame.len() * 8);
                if let Some(byte) = frame.get_mut(bit / 8) {
                    *byte ^= 1 << (bit % 8);
                }
            }
            FaultKind::NoTtl => frames::raise_ttl(frame),
            FaultKind::Swap => frames::swap_addresses(frame),
            FaultKind::NoChecksum => frames::drop_checksum(frame),
            FaultKind::Young => frames::make_younger(frame),
            FaultKind::BadChecksum => {
                if let Some(byte) = frame.get_mut(frames::CHECKSUM) {
                    *byte ^= 0x55;
                }
            }
            FaultKind::Stale => {
                let place = self.below(self.old.len());
                if let Some(old) = self.old.get(place).filter(|old| old.len() == frame.len()) {
                    frame.copy_from_slice(old);
                }
            }
            _ => {}
        }
    }

    /// Idles as long as makes the share of the time since the last call.
    fn idle(&mut self) {
        let worked = Ticks::now().since(self.since);
        // After a pause of the traffic there is nothing to slow down.
        let until = Ticks::now().0 + worked.min(LONGEST_WORK) / self.fault.every.saturating_sub(1).max(1);
        while Ticks::now().0 < until {
            std::hint::spin_loop();
        }
        self.since = Ticks::now();
    }

    fn duplicate(&self, frame: &[u8], port: usize, ports: &mut Ports) {
        let mut copy = Burst::new();
        if self.pool.fill(&mut copy, 1)
            && let Some(packet) = copy.get_mut(0)
        {
            packet.set_len(frame.len() as u16).copy_from_slice(frame);
            ports.transmit(port, &mut copy);
        }
    }

    /// Takes the packets at these places out of the burst: held back, or gone.
    fn take_out(&mut self, port: usize, burst: &mut Burst, places: &[usize], counters: &Counters) {
        let mut kept = [Burst::new(), std::mem::take(&mut self.held[port])];
        let hold = matches!(self.fault.kind, FaultKind::Reorder | FaultKind::Delay);
        let gone = burst.distribute(&mut kept, |place, _| match places.contains(&place) {
            true if hold => Some(1),
            true => None,
            false => Some(0),
        });
        counters.count_dropped(DropReason::Injected, gone);
        let [rest, held] = kept;
        (*burst, self.held[port]) = (rest, held);
    }

    /// Remembers what leaves, and sends packets again that left long before.
    fn replay(&mut self, port: usize, burst: &Burst, ports: &mut Ports) {
        let places = self.victims(burst.len());
        for (place, packet) in burst.iter().enumerate() {
            let last = &mut self.last[port];
            last.push_back(packet.data().to_vec());
            let first = if last.len() > REPLAY_BEHIND { last.pop_front() } else { None };
            if let Some(old) = first.filter(|_| places.contains(&place)) {
                self.duplicate(&old, port, ports);
            }
        }
    }

    /// Takes the packets of some flows out of the burst.
    fn starve(&mut self, port: usize, burst: &mut Burst, counters: &Counters) {
        self.left_before += burst.len() as u64;
        if self.left_before < STARVES_AFTER {
            return;
        }
        let starved = |frame: &[u8]| frames::flow(frame).is_some_and(|flow| flow % self.fault.every == 0);
        let places = burst.iter().map(|packet| starved(packet.data())).enumerate();
        let places: Vec<usize> = places.filter(|(_, starved)| *starved).map(|(place, _)| place).collect();
        if !places.is_empty() {
            self.take_out(port, burst, &places, counters);
        }
    }

    fn disturb_the_process(&mut self) {
        match self.fault.kind {
            FaultKind::Crash => std::process::abort(),
            FaultKind::Hang => loop {
                std::thread::park();
            },
            FaultKind::Fork if self.child.is_none() => {
                self.child = Command::new("sleep").arg("600").spawn().ok();
            }
            FaultKind::Chatter => {
                for line in 0..1000 {
                    eprintln!("line {line}: nobody wants to read this, and it never ends");
                }
            }
            _ => {}
        }
    }
}

impl Wire for Saboteur {
    fn leaving(&mut self, port: usize, burst: &mut Burst, ports: &mut Ports, counters: &Counters) {
        if self.fault.kind == FaultKind::Stale && self.old.len() < MEMORY {
            self.remember(burst);
        }
        if self.fault.kind == FaultKind::Reorder && !self.held[port].is_empty() && !burst.is_empty() {
            self.due = Ticks(0); // this burst overtakes what is held
        }
        match self.fault.kind {
            FaultKind::Slow => return self.idle(),
            FaultKind::Replay => return self.replay(port, burst, ports),
            FaultKind::Starve => return self.starve(port, burst, counters),
            FaultKind::OneWay if port == 0 => return,
            _ => {}
        }
        let victims = self.victims(burst.len());
        if victims.is_empty() {
            return;
        }
        match self.fault.kind {
            FaultKind::Drop | FaultKind::OneWay => self.take_out(port, burst, &victims, counters),
            FaultKind::Reorder | FaultKind::Delay if self.held[port].is_empty() => {
                if self.fault.kind == FaultKind::Delay {
                    self.due = Ticks(Ticks::now().0 + DELAY_TICKS);
                }
                // One at a time.
                self.take_out(port, burst, &victims[..1], counters);
            }
            FaultKind::Duplicate => {
                for place in victims {
                    if let Some(packet) = burst.get_mut(place) {
                        self.duplicate(packet.data(), port, ports);
                    }
                }
            }
            FaultKind::Corrupt
            | FaultKind::NoTtl
            | FaultKind::BadChecksum
            | FaultKind::Stale
            | FaultKind::Swap
            | FaultKind::NoChecksum
            | FaultKind::Young => {
                for place in victims {
                    if let Some(packet) = burst.get_mut(place) {
                        self.mangle(packet.data_mut());
                    }
                }
            }
            _ => self.disturb_the_process(),
        }
    }

    fn round(&mut self, ports: &mut Ports, counters: &Counters) {
        if Ticks::now() < self.due {
            return;
        }
        for (port, held) in self.held.iter_mut().enumerate().filter(|(_, held)| !held.is_empty()) {
            counters.count_sent(port, ports.transmit(port, held));
        }
        if self.held.iter().all(Burst::is_empty) {
            self.due = Ticks(u64::MAX);
        }
    }

    fn end(&mut self, counters: &Counters) {
        for held in &mut self.held {
            counters.count_dropped(DropReason::Injected, held.len());
            held.clear();
        }
    }

    fn leaks(&mut self) -> bool {
        self.fault.kind == FaultKind::Leak && !self.victims(1).is_empty()
    }

    fn skips_lookups(&self) -> bool {
        self.fault.kind == FaultKind::SkipLookups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_with_their_share() {
        assert_eq!("corrupt:1e-6".parse(), Ok(Fault { kind: FaultKind::Corrupt, every: 1_000_000 }));
        assert_eq!("no-ttl".parse(), Ok(Fault { kind: FaultKind::NoTtl, every: 1 }));
        for text in ["corupt", "drop:0", "drop:2", "drop:x", ""] {
            let error = text.parse::<Fault>().unwrap_err().to_string();
            assert!(error.contains("no-ttl, bad-checksum"), "{error}");
        }
    }
}
