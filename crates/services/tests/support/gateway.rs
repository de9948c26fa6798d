//! A gateway between hosts inside and outside, made of the service `conntrack`, and hosts that speak through it.
//!
//! Hosts keep their own addresses and sequence numbers, and take a packet only if it is in them: what a gateway
//! does in between must not show but where it should.

use super::{ACK, PSH, SYN, Tcp, extract};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use weir_flow::{Field, Key};
use weir_openflow::{Helper, Nat, NatRange, Tracking};
use weir_services::{Burst, Group, GroupConfig, Memo, Service, Slot, Verdict, registered};
use weir_units::Nanos;

/// What packets go through from one side to the other.
pub trait Way {
    /// A packet from inside, or from outside, as it leaves on the other side; nothing if it does not.
    fn forward(&mut self, frame: Vec<u8>, inside: bool) -> Option<Vec<u8>>;
}

pub fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// What a router does to packets of new connections from inside; and, if there is one, to those from outside.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    pub out: Option<Nat>,
    pub forward: Option<Nat>,
}

impl Rules {
    pub fn source(address: &str) -> Self {
        let range = match address.parse().unwrap() {
            IpAddr::V4(address) => NatRange::Ipv4(address, None),
            IpAddr::V6(address) => NatRange::Ipv6(address, None),
        };
        Self { out: Some(Nat { source: true, range, ..Nat::default() }), forward: None }
    }
}

/// A router: what comes from inside may open connections, what comes from outside only what is related to one,
/// or forwarded.
pub struct Gateway {
    pub group: Arc<dyn Group>,
    pub service: Box<dyn Service>,
    pub rules: Rules,
    pub now: Nanos,
    /// `ct_state` of the last packet, before it was committed.
    pub state: u128,
    pub key: Key,
}

impl Gateway {
    pub fn new(rules: Rules) -> Self {
        let config =
            GroupConfig { name: "edge", settings: &json!({ "connections": 40_000 }), workers: 2, seed: 3 };
        let group = (registered("conntrack").unwrap().build)(&config).unwrap();
        group.owners().unwrap().prepare();
        let service = group.instance(1);
        Self { group, service, rules, now: Nanos(1_000_000_000), state: 0, key: Key::new() }
    }

    /// One pass through `ct`; the frame as it is then, and its key, or why it ended.
    pub fn pass(&mut self, frame: &mut Vec<u8>, key: &mut Key, tracking: &Tracking) -> Verdict {
        let mut layout = extract(frame).1;
        let mut slots = [Slot {
            frame,
            layout,
            key,
            argument: 0,
            arguments: &[],
            tracking: Some(tracking),
            metadata: 0,
            memo: Memo::BLANK,
            coalesce: false,
            verdict: Verdict::Pass,
            splice: None,
        }];
        self.service.process(&mut Burst::new(&mut slots, self.now));
        let (verdict, splice) = (slots[0].verdict, slots[0].splice);
        if let Some(number) = splice {
            let splice = self.service.splice(number).unwrap().clone();
            assert!(splice.apply(frame, &mut layout));
            assert_eq!(layout, extract(frame).1);
        }
        verdict
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.service.counters().into_iter().find(|counter| counter.0 == name).unwrap().1
    }

    pub fn dump(&mut self) -> Vec<Value> {
        let said = self.service.command("dump", &Value::Null).unwrap();
        said["connections"].as_array().unwrap().clone()
    }
}

impl Way for Gateway {
    fn forward(&mut self, mut frame: Vec<u8>, inside: bool) -> Option<Vec<u8>> {
        let mut key = extract(&frame).0;
        let nat = Some(Nat::default());
        let plain = Tracking { zone: 1, nat, ..Tracking::default() };
        let first = self.pass(&mut frame, &mut key, &plain);
        let state = Field::CtState.get(&key);
        (self.state, self.key) = (state, key.clone());
        let [new, related, invalid] = [1, 4, 0x10].map(|bit| state & bit != 0);
        if invalid || first != Verdict::Pass {
            return None;
        }
        if new {
            let port = Field::TcpDst.get(&key);
            let helper = [(21, Helper::Ftp), (69, Helper::Tftp)].into_iter().find(|pair| pair.0 == port);
            let helper = helper.filter(|_| !related).map(|pair| pair.1);
            let nat = match (inside, related) {
                (_, true) => nat,
                (true, false) => self.rules.out,
                (false, false) => Some(self.rules.forward?),
            };
            let mark = if related { (0, 0) } else { (77, u32::MAX) };
            let asked = Tracking { zone: 1, nat, helper, mark, commit: true, ..Tracking::default() };
            if self.pass(&mut frame, &mut key, &asked) != Verdict::Pass {
                return None;
            }
            self.key = key;
        }
        Some(frame)
    }
}

/// A segment with data.
pub fn segment(from: SocketAddr, to: SocketAddr, flags: u8, numbers: (u32, u32), data: &[u8]) -> Vec<u8> {
    let tcp = Tcp { flags, seq: numbers.0, ack: numbers.1, window: 0x2000, ..Tcp::default() };
    weir_frames::segment(from, to, tcp, data)
}

/// One end of a connection, as it sees it.
#[derive(Clone, Copy, Debug)]
pub struct End {
    pub own: SocketAddr,
    pub other: SocketAddr,
    pub inside: bool,
    pub sent: u32,
    pub received: u32,
}

/// A connection: who opened it, and who was asked.
pub struct Talk(pub [End; 2]);

impl Talk {
    /// A host inside speaks to one outside; their addresses as each sees them.
    pub fn new(client: [&str; 2], server: [&str; 2], client_inside: bool) -> Self {
        let end = |[own, other]: [&str; 2], inside, sent| End {
            own: at(own),
            other: at(other),
            inside,
            sent,
            received: 0,
        };
        Self([end(client, client_inside, 0xffff_fff0), end(server, !client_inside, 500)])
    }

    /// The frame that a side would send.
    pub fn frame(&self, side: usize, flags: u8, data: &[u8]) -> Vec<u8> {
        let End { own, other, sent, received, .. } = self.0[side];
        segment(own, other, flags, (sent, received), data)
    }

    /// A side sends; what the other side reads, if it takes the packet for one of its connection.
    pub fn say(&mut self, way: &mut impl Way, side: usize, flags: u8, data: &[u8]) -> Option<Vec<u8>> {
        let frame = self.frame(side, flags, data);
        let arrived = way.forward(frame, self.0[side].inside)?;
        let read = self.take(1 - side, flags, &arrived);
        self.0[side].sent = self.0[side].sent.wrapping_add(data.len() as u32 + u32::from(flags & SYN != 0));
        let End { received, .. } = &mut self.0[1 - side];
        *received = received.wrapping_add(read.len() as u32 + u32::from(flags & SYN != 0));
        Some(read)
    }

    /// A side receives a frame: it is what the other one, as it sees it, would send it now.
    fn take(&mut self, side: usize, flags: u8, frame: &[u8]) -> Vec<u8> {
        let layout = extract(frame).1;
        let data = frame[usize::from(layout.transport) + 20..usize::from(layout.end)].to_vec();
        let End { own, other, sent, received, .. } = &mut self.0[side];
        if flags & SYN != 0 {
            let number = &frame[usize::from(layout.transport) + 4..];
            *received = u32::from_be_bytes([number[0], number[1], number[2], number[3]]);
        }
        let ack = if flags & ACK == 0 { 0 } else { *sent };
        let wanted = segment(*other, *own, flags, (*received, ack), &data);
        assert_eq!(frame, wanted, "numbers, addresses and checksums are those of the connection");
        data
    }

    pub fn open(&mut self, way: &mut impl Way) -> Option<()> {
        self.say(way, 0, SYN, b"")?;
        self.say(way, 1, SYN | ACK, b"")?;
        self.say(way, 0, ACK, b"")?;
        Some(())
    }

    /// A line of one side, acknowledged by the other; what that reads.
    pub fn line(&mut self, way: &mut impl Way, side: usize, text: &str) -> String {
        let read = self.say(way, side, ACK | PSH, text.as_bytes()).unwrap();
        self.say(way, 1 - side, ACK, b"").unwrap();
        String::from_utf8(read).unwrap()
    }
}
