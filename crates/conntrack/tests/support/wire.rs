//! A conversation of two endpoints over a network that loses, duplicates and reorders, before the
//! tracker and behind it; and forgers.

use super::host::{Host, Phase};
use super::{ACK, RST, SYN, Tcp};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// One conversation and the network between its ends and the tracker.
pub struct Wire {
    pub hosts: [Host; 2],
    pub ends: [SocketAddr; 2],
    /// On the way to the tracker, by sender; with each how often it was overtaken.
    pub before: [VecDeque<(Tcp, u32)>; 2],
    /// On the way from the tracker.
    behind: [VecDeque<Tcp>; 2],
    /// How many packets may come out of order or twice.
    disorder: f64,
    loss: f64,
    keep_alives: bool,
}

impl Wire {
    pub fn random(rng: &mut ChaCha8Rng, ends: [SocketAddr; 2]) -> Self {
        let simultaneous = rng.random_bool(0.1);
        let second = if simultaneous { Phase::Closed } else { Phase::Listen };
        let mut hosts = [Host::random(rng, Phase::Closed), Host::random(rng, second)];
        let mut before = [VecDeque::new(), VecDeque::new()];
        before[0].push_back((hosts[0].open(), 0));
        if simultaneous {
            before[1].push_back((hosts[1].open(), 0));
        }
        Self {
            hosts,
            ends,
            before,
            behind: [VecDeque::new(), VecDeque::new()],
            disorder: [0.0, 0.1, 0.3][rng.random_range(0..3)],
            loss: [0.0, 0.02, 0.2][rng.random_range(0..3)],
            keep_alives: rng.random(),
        }
    }

    /// The next packet that the tracker sees, with its sender's number; none when all is said.
    pub fn step(&mut self, rng: &mut ChaCha8Rng) -> Option<(usize, Tcp)> {
        for _ in 0..2000 {
            let side = usize::from(rng.random::<bool>());
            match rng.random_range(0..10) {
                0..=2 => {
                    if let Some(segment) = self.hosts[side].transmit() {
                        self.before[side].push_back((segment, 0));
                    }
                }
                3..=5 => {
                    if let Some(seen) = self.emerge(side, rng) {
                        return Some((side, seen));
                    }
                }
                6..=7 => self.deliver(side, rng),
                8 => {
                    let bytes = rng.random_range(0..20_000);
                    let answer = self.hosts[side].read(bytes);
                    self.before[side].extend(answer.map(|answer| (answer, 0)));
                }
                _ => {
                    let quiet = self.before.iter().all(VecDeque::is_empty)
                        && self.behind.iter().all(VecDeque::is_empty);
                    if self.hosts.iter().all(Host::is_done) && quiet {
                        return None;
                    }
                    if quiet {
                        let keep_alive = self.keep_alives && rng.random_bool(0.2);
                        self.before[side]
                            .extend(self.hosts[side].timeout(keep_alive).map(|segment| (segment, 0)));
                    }
                }
            }
        }
        None
    }

    /// A packet reaches the tracker: the first of its queue, or one that overtakes it.
    fn emerge(&mut self, side: usize, rng: &mut ChaCha8Rng) -> Option<Tcp> {
        let queue = &mut self.before[side];
        let disorderly = rng.random_bool(self.disorder);
        let mut at = 0;
        // What comes later than a window is rightly lost, so nothing is overtaken by more than that.
        let end = |(segment, _): &(Tcp, u32)| segment.seq.wrapping_add(segment.length as u32);
        let apart = |queue: &VecDeque<(Tcp, u32)>| end(&queue[1]).wrapping_sub(end(&queue[0])) as i32;
        let window = self.hosts[1 - side].widest_window() as i32;
        if disorderly && queue.len() > 1 && queue[0].1 < 3 && apart(queue) < window {
            at = 1;
            queue[0].1 += 1;
        }
        let (segment, _) = queue.remove(at)?;
        if disorderly && rng.random_bool(0.3) {
            queue.push_front((segment, 3));
        }
        if !rng.random_bool(self.loss) {
            self.behind[side].push_back(segment);
        }
        Some(segment)
    }

    /// A packet that the tracker passed reaches the other end.
    fn deliver(&mut self, side: usize, rng: &mut ChaCha8Rng) {
        let queue = &mut self.behind[side];
        let at = if queue.len() > 1 && rng.random_bool(self.disorder) { 1 } else { 0 };
        let Some(segment) = queue.remove(at) else { return };
        let answer = self.hosts[1 - side].receive(&segment);
        self.before[1 - side].extend(answer.map(|answer| (answer, 0)));
    }
}

/// Something that the side did not send and that lies far outside all windows.
pub fn forged(wire: &Wire, side: usize, rng: &mut ChaCha8Rng) -> Option<Tcp> {
    let (sender, receiver) = (&wire.hosts[side], &wire.hosts[1 - side]);
    if sender.phase != Phase::Open || receiver.phase != Phase::Open {
        return None;
    }
    let far = rng.random_range(16 << 20..(1_u32 << 31) - (16 << 20));
    let length = rng.random_range(0..1400);
    let (seq, ack) = (sender.next, receiver.una);
    Some(match rng.random_range(0..5) {
        0 => Tcp { flags: RST, seq: seq.wrapping_add(far), ..Tcp::default() },
        1 => Tcp { flags: RST, seq: seq.wrapping_sub(far), ..Tcp::default() },
        2 => Tcp { flags: ACK, seq: seq.wrapping_add(far), ack, window: 9, length, ..Tcp::default() },
        3 => Tcp { flags: ACK, seq, ack: ack.wrapping_add(far), window: 9, length, ..Tcp::default() },
        _ => Tcp { flags: SYN | ACK, seq: seq.wrapping_sub(far), ack, window: 9, ..Tcp::default() },
    })
}
