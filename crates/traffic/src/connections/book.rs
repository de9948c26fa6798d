//! The book of a trial's connections: where each of them stands, what comes next of it, and what is wrong with what came.
//!
//! It knows no port and no clock: frames are shown to it with the time, and what it has to say goes to a [`Wire`]. Cost: a
//! look at a packet is one comparison of its bytes and one line of the book; nothing allocates but where something is
//! wrong, or a function translates (a place in a hash table a connection).

use super::frames::{BYTES, Said, Step};
use super::script::{Packet, Script, place};
use crate::histogram::Delays;
use rustc_hash::FxHashMap;
use weir_cpu::Ticks;
use weir_trial::compare::{compare, describe};
use weir_trial::{ConnectionSpec, Expected, Fault, PacketCheck};
use weir_wire::tcp::flags;

/// Takes packets to be sent.
pub(super) trait Wire {
    /// A packet into one of the device's ports.
    fn send(&mut self, port: u8, packet: Packet<'_>);
}

/// Address and port.
type End = (u32, u16);

/// Where a connection stands: the packet that came last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Unborn,
    Begun,
    Came(Step),
    Over,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    stage: Stage,
    /// It was reset because it stood still, and stays where it stood.
    broken: bool,
    /// A reset of it came through the device, which knows now that it is over.
    reset: bool,
    /// Address and port that stand for the client outside.
    public: End,
    /// When its SYN was sent.
    began: Ticks,
}

/// What came by a port of the tester.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Came {
    pub(super) right: u64,
    pub(super) duplicated: u64,
    pub(super) late: u64,
    pub(super) foreign: u64,
    pub(super) damaged: u64,
}

/// The book.
#[derive(Debug)]
pub(super) struct Book<'a> {
    script: &'a Script,
    asked: ConnectionSpec,
    /// Number of the first connection, among all of a device's life.
    first: u64,
    connections: Vec<Connection>,
    begun: usize,
    /// Whose outside address and port are taken, towards which server.
    taken: FxHashMap<(End, End), usize>,
    pub(super) came: [Came; 2],
    pub(super) opened: u64,
    pub(super) proved: u64,
    pub(super) whole: u64,
    /// Connections that were broken off, and those of them of which a reset came through the device.
    pub(super) broken: u64,
    pub(super) reset: u64,
    pub(super) setup: Delays,
    pub(super) check: PacketCheck,
}

impl<'a> Book<'a> {
    pub(super) fn new(script: &'a Script, first: u64, asked: ConnectionSpec) -> Self {
        let unborn =
            Connection { stage: Stage::Unborn, broken: false, reset: false, public: (0, 0), began: Ticks(0) };
        let mut taken = FxHashMap::default();
        if script.pool().is_some() {
            taken.reserve(asked.count as usize);
        }
        Self {
            script,
            asked,
            first,
            connections: vec![unborn; asked.count as usize],
            begun: 0,
            taken,
            came: [Came::default(); 2],
            opened: 0,
            proved: 0,
            whole: 0,
            broken: 0,
            reset: 0,
            setup: Delays::new(),
            check: PacketCheck::default(),
        }
    }

    pub(super) fn asked(&self) -> ConnectionSpec {
        self.asked
    }

    /// Connections that began.
    pub(super) fn begun(&self) -> usize {
        self.begun
    }

    /// Begins the next connection; there is one.
    #[inline]
    pub(super) fn begin(&mut self, now: Ticks, wire: &mut impl Wire) {
        let place = self.begun;
        self.begun += 1;
        let connection = &mut self.connections[place];
        (connection.stage, connection.began) = (Stage::Begun, now);
        self.say(place, Step::Syn, wire);
    }

    /// Has what was lost of the opening of a connection sent again, as TCP does (RFC 9293, section 3.8.1).
    pub(super) fn open_again(&mut self, place: usize, wire: &mut impl Wire) {
        match self.connections[place].stage {
            Stage::Begun => self.say(place, Step::Syn, wire),
            Stage::Came(Step::Syn) => self.say(place, Step::SynAck, wire),
            Stage::Came(Step::SynAck) => self.say(place, Step::Ack, wire),
            _ => {}
        }
    }

    /// Whether one is open and not proved.
    pub(super) fn is_open(&self, place: usize) -> bool {
        self.connections[place].stage == Stage::Came(Step::Ack)
    }

    /// Has the server of an open connection answer.
    pub(super) fn prove(&mut self, place: usize, wire: &mut impl Wire) {
        self.say(place, Step::Answer, wire);
    }

    /// Whether one that began is still to be broken off: it is not over, and no reset of it came through the device. One whose
    /// SYN never came is broken off once, as the device may not know of it.
    pub(super) fn is_unfinished(&self, place: usize) -> bool {
        let Connection { stage, broken, reset, .. } = self.connections[place];
        match stage {
            Stage::Unborn | Stage::Over => false,
            Stage::Begun => !broken,
            Stage::Came(_) => !reset,
        }
    }

    /// Breaks a connection off that is unfinished, from both ends, so that the device forgets it.
    pub(super) fn break_off(&mut self, place: usize, wire: &mut impl Wire) {
        if !self.is_unfinished(place) {
            return;
        }
        let Connection { stage, broken, public, .. } = self.connections[place];
        self.broken += u64::from(!broken);
        self.connections[place].broken = true;
        let of = (self.first + place as u64, public);
        for reset in self.resets(stage) {
            wire.send(reset.0.from(), self.script.reset(of, reset));
        }
    }

    /// The resets of a connection that stands at a stage. Of one whose SYN did not come the server refuses it, as the client's
    /// reset would be the first that a device sees of it where the SYN was lost before; behind a translator nobody knows where
    /// that server would send to.
    fn resets(&self, stage: Stage) -> impl Iterator<Item = (Step, u32, Option<u32>)> + use<> {
        let both = match stage {
            Stage::Came(step) => step.resets(self.asked.held).map(Some),
            Stage::Begun if self.script.pool().is_none() => {
                [None, Some(Step::Syn.resets(self.asked.held)[1])]
            }
            Stage::Begun | Stage::Unborn | Stage::Over => [None, None],
        };
        both.into_iter().flatten()
    }

    /// A reset of a connection that was broken off came.
    fn reset_came(&mut self, place: usize, step: Step, (port, frame): (u8, &[u8])) {
        let Connection { stage, public, reset: known, .. } = self.connections[place];
        let Some(reset) = self.resets(stage).find(|reset| reset.0 == step) else {
            return self.strange(port, frame);
        };
        let (out, must) = self.script.reset_comes((self.first + place as u64, public), reset);
        if out != port || !must.template.is(must.own, frame) {
            return self.wrong((out, must), (port, frame));
        }
        self.came[usize::from(port)].right += 1;
        self.check.compared += 1;
        self.reset += u64::from(!known);
        self.connections[place].reset = true;
    }

    #[inline]
    fn say(&self, place: usize, step: Step, wire: &mut impl Wire) {
        let of = (self.first + place as u64, self.connections[place].public);
        wire.send(step.from(), self.script.sent(of, step, self.asked.held));
    }

    /// A frame came to the tester's port.
    #[inline]
    pub(super) fn came(&mut self, (port, frame): (u8, &[u8]), now: Ticks, wire: &mut impl Wire) {
        let from = 1 - port;
        let Some(said) = Said::read(frame) else { return self.strange(port, frame) };
        let number = if from == 0 { said.sequence } else { said.acknowledgement };
        let place = place(self.first, number);
        let Some(Connection { stage, broken, .. }) = self.connections.get(place).copied() else {
            self.came[usize::from(port)].late += 1;
            return;
        };
        // The last of a connection that is over may come once more.
        let last = stage == Stage::Came(Step::FinAck) || stage == Stage::Over && !self.asked.held;
        let step = said.step(from, last).filter(|_| stage != Stage::Unborn);
        let Some(step) = step else { return self.strange(port, frame) };
        match step {
            Step::Reset | Step::ResetBack if broken => return self.reset_came(place, step, (port, frame)),
            Step::ResetBack => return self.strange(port, frame),
            _ => {}
        }
        if stage == Stage::Begun && step == Step::Syn {
            self.learn(place, (port, frame), said);
        }
        let of = (self.first + place as u64, self.connections[place].public);
        let (out, must) = self.script.comes(of, step, self.asked.held);
        if out != port || !must.template.is(must.own, frame) {
            return self.wrong((out, must), (port, frame));
        }
        if broken {
            // What was still on its way is nobody's any more.
            self.came[usize::from(port)].late += 1;
            return;
        }
        if stage > self.before(step) {
            self.came[usize::from(port)].duplicated += 1;
            return;
        }
        self.came[usize::from(port)].right += 1;
        self.check.compared += 1;
        if stage < self.before(step) {
            // What it follows was lost, which has failed its connection.
            return;
        }
        self.connections[place].stage = Stage::Came(step);
        self.go_on(place, step, now, wire);
    }

    /// Where a connection stands when a packet is due to come.
    const fn before(&self, step: Step) -> Stage {
        Stage::Came(match step {
            Step::Syn => return Stage::Begun,
            Step::SynAck => Step::Syn,
            Step::Ack => Step::SynAck,
            Step::Request => Step::Ack,
            Step::Answer if self.asked.held => Step::Ack,
            Step::Answer => Step::Request,
            Step::Fin | Step::Reset | Step::ResetBack => Step::Answer,
            Step::FinAck => Step::Fin,
            Step::LastAck => Step::FinAck,
        })
    }

    /// What the end to which a packet came has to say.
    #[inline]
    fn go_on(&mut self, place: usize, step: Step, now: Ticks, wire: &mut impl Wire) {
        match step {
            Step::Syn => self.say(place, Step::SynAck, wire),
            Step::SynAck => {
                self.setup.record(now.since(self.connections[place].began));
                self.say(place, Step::Ack, wire);
                if !self.asked.held {
                    self.say(place, Step::Request, wire);
                }
            }
            Step::Ack => self.opened += 1,
            Step::Request => self.say(place, Step::Answer, wire),
            Step::Answer if self.asked.held => {
                self.proved += 1;
                self.say(place, Step::Reset, wire);
            }
            Step::Answer => self.say(place, Step::Fin, wire),
            Step::Fin => self.say(place, Step::FinAck, wire),
            Step::FinAck => self.say(place, Step::LastAck, wire),
            Step::LastAck | Step::Reset | Step::ResetBack => {
                self.whole += 1;
                self.connections[place].stage = Stage::Over;
                if self.script.pool().is_some() {
                    let server = self.script.server(self.first + place as u64);
                    self.taken.remove(&(self.connections[place].public, server));
                }
            }
        }
    }

    /// Learns by which address and port a function lets a client speak: one of its own, and no other's that lives.
    fn learn(&mut self, place: usize, (port, frame): (u8, &[u8]), said: Said) {
        let Some(pool) = self.script.pool() else { return };
        if !pool.contains(&said.source.0) {
            let address = std::net::Ipv4Addr::from_bits(said.source.0);
            let example = || format!("{}, by port {port}: {address} is no public address", describe(frame));
            self.check.note(Fault::Header, example);
        }
        self.connections[place].public = said.source;
        let server = self.script.server(self.first + place as u64);
        if let Some(other) = self.taken.insert((said.source, server), place) {
            let example =
                || format!("{}: connection {other}, which lives, has that address and port", describe(frame));
            self.check.note(Fault::Header, example);
            self.came[usize::from(port)].damaged += 1;
        }
    }

    #[cold]
    fn wrong(&mut self, (out, must): (u8, Packet<'_>), (port, frame): (u8, &[u8])) {
        self.came[usize::from(port)].damaged += 1;
        self.check.compared += 1;
        let mut bytes = [0; BYTES];
        must.template.write(must.own, &mut bytes);
        let expected = Expected::Forward { port: out, frame: bytes.to_vec() };
        for (fault, example) in compare(&expected, frame, port) {
            self.check.note(fault, || example);
        }
    }

    /// A frame of no connection. What neighbours on a wire say by themselves is none of the device's.
    #[cold]
    fn strange(&mut self, port: u8, frame: &[u8]) {
        if crate::chatter::is_wire_chatter(frame) {
            return;
        }
        self.came[usize::from(port)].foreign += 1;
        let flags = Said::read(frame).map_or(0, |said| said.flags);
        let reset = if flags & flags::RST != 0 { ", a reset" } else { "" };
        self.check.note(Fault::Foreign, || format!("{}, by port {port}{reset}", describe(frame)));
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
