//! What the switch does while none of its controllers is connected, if it is to do something (`fail-mode`
//! `standalone`; OpenFlow 1.3.5, section 6.4): it learns addresses and forwards by them.
//!
//! Two tables do that, filled from packets with unknown source addresses: the first knows where addresses are
//! and asks for what it does not know, the second sends to them and floods the rest. So forwarding is the
//! datapath's, and only a new address, or one that moved, comes here. What was in the tables is put aside when
//! that begins; when a controller comes back it is there again (section 6.3.2: entries remain), with counters
//! that begin anew, and what was learned is gone. Entries with a timeout do not come back: nobody knows whether
//! they would have been used.
//!
//! Cost: what is put aside is as large as the tables. Threads: the switch's.

use super::Agent;
use super::addresses::{Address, Addresses, Learned};
use std::time::{Duration, Instant};
use weir_flow::{Field, Match};
use weir_openflow::{
    Action, Change, Flow, FlowMod, Instructions, PacketIn, PortNo, Select, TableId, Tables, ToController,
};

/// How long controllers may be gone before the switch goes on alone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Seconds without a packet after which an address is forgotten (IEEE 802.1Q, section 8.8.3: ageing time).
const AGEING: u16 = 300;

/// The number by which the first table names this.
const LEARNER: u16 = 0xffff;

/// The mark of entries made here.
const COOKIE: u64 = 0x7765_6972_6c65_6172;

/// Where addresses are known.
const SOURCES: TableId = TableId(0);
/// Where packets are sent.
const DESTINATIONS: TableId = TableId(1);

/// Bits of addresses that are not forwarded (IEEE 802.1Q, table 8-1): 01:80:c2:00:00:00 to 0f.
const RESERVED: (u128, u128) = (0x0180_c200_0000, 0xffff_ffff_fff0);
/// The bit of addresses of groups.
const GROUP: u8 = 1;

/// The learning switch.
pub(super) struct Standalone {
    /// Whether it is to step in at all.
    wanted: bool,
    state: State,
    /// What was in the tables before it began.
    aside: Vec<Flow>,
}

enum State {
    /// Controllers are connected, or were a moment ago.
    Off,
    /// None has been connected since.
    Alone(Instant),
    /// It learns: where each address is.
    On(Addresses),
}

impl Standalone {
    pub(super) fn new(wanted: bool) -> Self {
        // A switch that begins has no controller.
        Self {
            wanted,
            state: if wanted { State::Alone(Instant::now()) } else { State::Off },
            aside: Vec::new(),
        }
    }

    pub(super) const fn is_on(&self) -> bool {
        matches!(self.state, State::On(_))
    }
}

fn flow(table: TableId, priority: u16, matching: Match, apply: Vec<Action>, goto: Option<TableId>) -> Flow {
    let instructions = Instructions { apply, goto, ..Instructions::default() };
    Flow { table, priority, matching, instructions, cookie: COOKIE, ..Flow::default() }
}

const fn add(flow: Flow) -> Change {
    Change::Flow(FlowMod::Add(flow))
}

/// Everything goes.
fn empty() -> Change {
    Change::Flow(FlowMod::Delete(Select::default()))
}

/// Everything goes; what a switch that knows no address does.
fn begin() -> Vec<Change> {
    let to = ToController { id: LEARNER, ..ToController::default() };
    let mut reserved = Match::any();
    reserved.demand(Field::EthDst, RESERVED.0, RESERVED.1);
    vec![
        empty(),
        add(flow(SOURCES, u16::MAX, reserved, Vec::new(), None)),
        add(flow(SOURCES, 0, Match::any(), vec![Action::Controller(to)], Some(DESTINATIONS))),
        add(flow(DESTINATIONS, 0, Match::any(), vec![Action::Output(PortNo::FLOOD)], None)),
    ]
}

fn matching(field: Field, address: [u8; 6]) -> Match {
    let mut out = Match::any();
    let value = address.iter().fold(0, |all, byte| all << 8 | u128::from(*byte));
    out.demand(field, value, u128::MAX);
    out
}

/// An entry goes.
fn delete(table: TableId, matching: Match) -> Change {
    let select = Select { table: Some(table), matching, strict: Some(1), ..Select::default() };
    Change::Flow(FlowMod::Delete(select))
}

/// What knows an address at a port.
fn at(address: Address, port: PortNo) -> Match {
    let mut from = matching(Field::EthSrc, address);
    from.demand(Field::InPort, u128::from(port.0), u128::MAX);
    from
}

/// An address is behind a port.
fn learned(address: Address, port: PortNo, learned: Learned) -> Vec<Change> {
    let Learned { before, evicted } = learned;
    let mut changes: Vec<Change> =
        before.map(|before| delete(SOURCES, at(address, before))).into_iter().collect();
    if let Some((other, place)) = evicted {
        changes.push(delete(SOURCES, at(other, place)));
        changes.push(delete(DESTINATIONS, matching(Field::EthDst, other)));
    }
    // Whoever is silent is forgotten; the first table tells when.
    let from = at(address, port);
    let known = Flow { idle_timeout: AGEING, ..flow(SOURCES, 1, from, Vec::new(), Some(DESTINATIONS)) };
    let to = matching(Field::EthDst, address);
    changes.push(add(known));
    changes.push(add(flow(DESTINATIONS, 1, to, vec![Action::Output(port)], None)));
    changes
}

impl Agent {
    /// Whether it is to forward by itself when controllers are gone.
    pub const fn may_stand_alone(&self) -> bool {
        self.standalone.wanted
    }

    /// A controller came or went.
    pub(super) fn controllers_changed(&mut self, plane: &mut impl Tables) {
        if !self.standalone.wanted {
            return;
        }
        let connected = self.peers.values().any(super::Peer::was_called);
        match (&self.standalone.state, connected) {
            (State::On(_), true) => {
                let aside = std::mem::take(&mut self.standalone.aside).into_iter().map(add);
                let changes: Vec<Change> = std::iter::once(empty()).chain(aside).collect();
                // What does not go now is in the way of what the controller says, and it will see it; what
                // cannot come back any more lacks its group or meter.
                let _ = plane.apply_each(changes, false);
                self.standalone.state = State::Off;
            }
            (State::Alone(_), true) => self.standalone.state = State::Off,
            (State::Off, false) => self.standalone.state = State::Alone(Instant::now()),
            (State::On(_) | State::Alone(_), false) | (State::Off, true) => {}
        }
    }

    /// Begins to learn when controllers have been gone for long enough.
    pub(super) fn learning_is_due(&mut self, plane: &mut impl Tables, now: Instant) {
        if let State::Alone(since) = self.standalone.state
            && now.saturating_duration_since(since) >= PATIENCE
            && let Ok(there) = plane.flows()
            && plane.apply_all(begin(), false).is_ok()
        {
            let stays = |flow: &Flow| flow.idle_timeout == 0 && flow.hard_timeout == 0;
            self.standalone.aside = there.into_iter().map(|stats| stats.flow).filter(stays).collect();
            self.standalone.state = State::On(Addresses::default());
        }
    }

    /// Learns from packets whose source address is not known where they came in, of each port as many a second
    /// as controllers would be told of.
    pub(super) fn learn(&mut self, packets: &[PacketIn], plane: &mut impl Tables) {
        let State::On(known) = &mut self.standalone.state else { return };
        let (mut changes, now) = (Vec::new(), Instant::now());
        for packet in packets.iter().filter(|packet| packet.to.id == LEARNER) {
            let Some(&address) = packet.frame.get(6..).and_then(|rest| rest.first_chunk::<6>()) else {
                continue;
            };
            if address[0] & GROUP == 0
                && self.limits.admit(packet.in_port, now)
                && let Some(new) = known.learn(address, packet.in_port)
            {
                changes.extend(learned(address, packet.in_port, new));
            }
        }
        if !changes.is_empty() {
            // What cannot be learned is flooded, and comes here again.
            let _ = plane.apply_each(changes, false);
        }
    }

    /// An address was silent for long enough to be forgotten.
    pub(super) fn forget(&mut self, flow: &Flow, plane: &mut impl Tables) {
        let State::On(known) = &mut self.standalone.state else { return };
        let (source, mask) = flow.matching.field(Field::EthSrc);
        if flow.cookie != COOKIE || flow.table != SOURCES || mask == 0 {
            return;
        }
        let bytes = source.to_be_bytes();
        let Some(&address) = bytes.last_chunk::<6>() else { return };
        let (port, _) = flow.matching.field(Field::InPort);
        if known.port(address).is_some_and(|at| u128::from(at.0) == port) {
            known.forget(address);
            let gone = delete(DESTINATIONS, matching(Field::EthDst, address));
            let _ = plane.apply_each(vec![gone], false);
        }
    }
}
