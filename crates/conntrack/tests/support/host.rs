//! A small TCP endpoint, written from RFC 9293 alone: it sends within the window it was given, accepts
//! what is in order, acknowledges, retransmits from the oldest byte, probes, closes. It knows nothing
//! of how a tracker reasons.

use super::{ACK, FIN, RST, SYN, Tcp};
use rand::{Rng, RngExt as _};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Open,
}

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct Host {
    pub phase: Phase,
    /// First number.
    pub initial: u32,
    /// Oldest unacknowledged, next new.
    pub una: u32,
    pub next: u32,
    pub received: u32,
    /// Bytes it takes in advance, and of them those that nobody has read.
    pub buffer: u32,
    pub unread: u32,
    /// Right edge that was advertised: it never moves back but by scaling's rounding.
    edge: u32,
    pub scale: Option<u8>,
    their_scale: Option<u8>,
    window: u32,
    mss: u32,
    /// Bytes to be sent behind `next`.
    pub todo: u32,
    pub fin_wanted: bool,
    pub fin_sent: bool,
    pub fin_received: bool,
    sack: bool,
}

fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl Host {
    pub fn random(rng: &mut impl Rng, phase: Phase) -> Self {
        // Often close to where numbers wrap around.
        let initial: u32 =
            if rng.random_bool(0.3) { 0_u32.wrapping_sub(rng.random_range(0..3000)) } else { rng.random() };
        let scale = rng.random_bool(0.7).then(|| rng.random_range(0..=9));
        Self {
            phase,
            initial,
            una: initial,
            next: initial,
            received: 0,
            buffer: if rng.random_bool(0.2) {
                rng.random_range(1..2000)
            } else {
                rng.random_range(2000..200_000)
            },
            unread: 0,
            edge: 0,
            scale,
            their_scale: None,
            window: 0,
            mss: rng.random_range(100..1400),
            todo: rng.random_range(0..60_000),
            fin_wanted: true,
            fin_sent: false,
            fin_received: false,
            sack: rng.random(),
        }
    }

    fn scaled(&self) -> bool {
        self.scale.is_some() && self.their_scale.is_some()
    }

    /// The widest window that it may have advertised, in bytes, rounded down as scaling does.
    pub fn widest_window(&self) -> u32 {
        let shift = if self.scaled() { self.scale.unwrap_or(0) } else { 0 };
        (self.buffer >> shift).min(0xffff) << shift
    }

    fn segment(&mut self, flags: u8, seq: u32, length: u32) -> Tcp {
        let syn = flags & SYN != 0;
        let free = self.buffer - self.unread.min(self.buffer);
        let kept = if before(self.received, self.edge) { self.edge.wrapping_sub(self.received) } else { 0 };
        let window = free.max(kept);
        let shift = if syn || !self.scaled() { 0 } else { self.scale.unwrap_or(0) };
        let field = (window >> shift).min(0xffff) as u16;
        if flags & ACK != 0 {
            let edge = self.received.wrapping_add(u32::from(field) << shift);
            if before(self.edge, edge) {
                self.edge = edge;
            }
        }
        Tcp {
            flags,
            seq,
            ack: if flags & ACK == 0 { 0 } else { self.received },
            window: field,
            length: length as usize,
            scale: if syn { self.scale } else { None },
            sack: syn && self.sack,
        }
    }

    /// Its SYN, or the SYN with the ACK.
    pub fn open(&mut self) -> Tcp {
        self.next = self.initial.wrapping_add(1);
        match self.phase {
            Phase::Closed | Phase::Listen | Phase::SynSent => {
                self.phase = Phase::SynSent;
                self.edge = self.buffer.min(0xffff);
                self.segment(SYN, self.initial, 0)
            }
            _ => self.segment(SYN | ACK, self.initial, 0),
        }
    }

    pub fn acknowledge(&mut self) -> Tcp {
        self.segment(ACK, self.next, 0)
    }

    /// A reset as an application causes it.
    pub fn abort(&mut self) -> Tcp {
        self.phase = Phase::Closed;
        self.segment(RST | ACK, self.next, 0)
    }

    /// New data or a FIN, as far as the window allows.
    pub fn transmit(&mut self) -> Option<Tcp> {
        if self.phase != Phase::Open || self.fin_sent {
            return None;
        }
        let limit = self.una.wrapping_add(self.window);
        let room = if before(self.next, limit) { limit.wrapping_sub(self.next) } else { 0 };
        let length = self.todo.min(self.mss).min(room);
        let seq = self.next;
        let fin = self.fin_wanted && length == self.todo && room > length;
        if length == 0 && !fin {
            return None;
        }
        self.todo -= length;
        self.fin_sent = fin;
        self.next = seq.wrapping_add(length + u32::from(fin));
        Some(self.segment(if fin { FIN | ACK } else { ACK }, seq, length))
    }

    /// The oldest of what is not acknowledged; a probe, if there is nothing but a closed window.
    pub fn timeout(&mut self, keep_alive: bool) -> Option<Tcp> {
        match self.phase {
            Phase::SynSent | Phase::SynReceived => return Some(self.open()),
            Phase::Open => {}
            _ => return None,
        }
        let outstanding = self.next.wrapping_sub(self.una);
        let data = outstanding - u32::from(self.fin_sent && outstanding > 0);
        if outstanding > 0 {
            let length = data.min(self.mss);
            let fin = self.fin_sent && length == data;
            return Some(self.segment(if fin { FIN | ACK } else { ACK }, self.una, length));
        }
        if self.todo > 0 && self.window == 0 && !keep_alive {
            // Window probe: one byte that may be refused (RFC 9293, section 3.8.6.1).
            self.todo -= 1;
            self.next = self.next.wrapping_add(1);
            return Some(self.segment(ACK, self.una, 1));
        }
        keep_alive.then(|| self.segment(ACK, self.una.wrapping_sub(1), 0))
    }

    /// The application reads.
    pub fn read(&mut self, bytes: u32) -> Option<Tcp> {
        let was_closed = self.unread >= self.buffer;
        self.unread -= bytes.min(self.unread);
        (self.phase == Phase::Open && was_closed && self.unread < self.buffer).then(|| self.acknowledge())
    }

    fn heard_syn(&mut self, segment: &Tcp) {
        self.received = segment.seq.wrapping_add(1);
        self.edge = self.received.wrapping_add(self.buffer.min(0xffff));
        self.their_scale = segment.scale;
        self.window = u32::from(segment.window);
    }

    /// What it answers.
    pub fn receive(&mut self, segment: &Tcp) -> Option<Tcp> {
        let (syn, ack, rst) = (segment.flags & SYN != 0, segment.flags & ACK != 0, segment.flags & RST != 0);
        match self.phase {
            Phase::Closed => {
                if rst {
                    return None;
                }
                return Some(if ack {
                    Tcp { flags: RST, seq: segment.ack, ..Tcp::default() }
                } else {
                    let length = segment.length as u32 + u32::from(syn);
                    Tcp { flags: RST | ACK, ack: segment.seq.wrapping_add(length), ..Tcp::default() }
                });
            }
            Phase::Listen => {
                if syn && !ack && !rst {
                    self.heard_syn(segment);
                    self.phase = Phase::SynReceived;
                    return Some(self.open());
                }
                return None;
            }
            Phase::SynSent => {
                let acks = ack && segment.ack == self.next;
                if rst {
                    if acks {
                        self.phase = Phase::Closed;
                    }
                    return None;
                }
                if ack && !acks {
                    return Some(Tcp { flags: RST, seq: segment.ack, ..Tcp::default() });
                }
                if !syn {
                    return None;
                }
                self.heard_syn(segment);
                if acks {
                    self.una = segment.ack;
                    self.phase = Phase::Open;
                    return Some(self.acknowledge());
                }
                self.phase = Phase::SynReceived;
                return Some(self.open());
            }
            Phase::SynReceived | Phase::Open => {}
        }
        let length = segment.length as u32 + u32::from(segment.flags & FIN != 0) + u32::from(syn);
        let room = self.edge.wrapping_sub(self.received);
        let ahead = segment.seq.wrapping_sub(self.received);
        if rst {
            if ahead == 0 {
                self.phase = Phase::Closed;
                return None;
            }
            return (ahead < room).then(|| self.acknowledge());
        }
        if syn {
            return Some(if self.phase == Phase::SynReceived { self.open() } else { self.acknowledge() });
        }
        if !ack {
            return None;
        }
        if !before(self.next, segment.ack) && !before(segment.ack, self.una) {
            if self.phase == Phase::SynReceived && segment.ack != self.initial {
                self.phase = Phase::Open;
            }
            self.una = segment.ack;
            self.window =
                u32::from(segment.window) << if self.scaled() { self.their_scale.unwrap_or(0) } else { 0 };
        }
        if length == 0 {
            // Outside the window even an empty segment is answered (RFC 9293, section 3.10.7.4).
            let outside = ahead != 0 && ahead >= room;
            return outside.then(|| self.acknowledge());
        }
        let end = segment.seq.wrapping_add(segment.length as u32);
        if !before(self.received, segment.seq) {
            let edge = self.received.wrapping_add(room);
            let taken = if before(edge, end) { edge } else { end };
            if before(self.received, taken) && !self.fin_received {
                self.unread += taken.wrapping_sub(self.received);
                self.received = taken;
            }
            if segment.flags & FIN != 0 && self.received == end && !self.fin_received {
                self.fin_received = true;
                self.received = self.received.wrapping_add(1);
            }
        }
        Some(self.acknowledge())
    }

    /// Whether it sent all, and all of it arrived.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Closed || self.fin_sent && self.una == self.next && self.fin_received
    }
}
