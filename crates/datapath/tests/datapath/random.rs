//! Random tables, conversations and mangled frames, for tests of the whole datapath.

use std::net::Ipv4Addr;
use weir_datapath::Change;
use weir_flow::samples::Sampler;
use weir_flow::span::CUT;
use weir_flow::{Field, Key, Match, Subfield, compose, extract, ones};
use weir_openflow::{
    Action, Bucket, Flow, FlowMod, Group, GroupId, GroupKind, Instructions, MeterId, Names, PortNo, TableId,
    ToController,
};
use weir_wire::checksum;

/// Tables that random rules stand in.
const TABLES: u8 = 4;

/// Groups that random rules use, one of each kind.
pub(crate) const GROUPS: u32 = 4;

/// What random rules may do.
pub(crate) struct Draw<'a> {
    pub(crate) random: &'a mut Sampler,
    pub(crate) names: &'a Names,
    /// Keys like which some packets are.
    pub(crate) like: &'a [Key],
    /// Services that may be called at any stage: what they say depends on one packet, or one connection.
    pub(crate) services: &'a [&'a str],
    /// Services that all packets meet first, one after the other, in the order they came: what these say
    /// may depend on the packets before.
    pub(crate) spine: &'a [&'a str],
    /// Whether packets are copied.
    pub(crate) copies: bool,
    /// Meters that rules may name.
    pub(crate) meters: u32,
}

/// Fields of packets that rules look at and actions move.
const FIELDS: [Field; 22] = [
    Field::InPort,
    Field::EthDst,
    Field::EthSrc,
    Field::EthType,
    Field::VlanTci,
    Field::VlanVid,
    Field::MplsLabel,
    Field::MplsTtl,
    Field::MplsBos,
    Field::PbbIsid,
    Field::ArpTpa,
    Field::NwSrc,
    Field::NwDst,
    Field::NwProto,
    Field::NwTos,
    Field::NwTtl,
    Field::NwFrag,
    Field::TcpSrc,
    Field::TcpDst,
    Field::TcpFlags,
    Field::Ipv6Src,
    Field::Ipv6Dst,
];

/// Fields that hold what tables and services noted.
const NOTED: [Field; 10] = [
    Field::SfStage,
    Field::SfAction,
    Field::SfMetadata,
    Field::SfMetadata,
    Field::CtState,
    Field::CtZone,
    Field::CtNwSrc,
    Field::Reg0,
    Field::Reg3,
    Field::Metadata,
];

/// Fields that actions write.
const WRITTEN: [Field; 21] = [
    Field::EthDst,
    Field::EthSrc,
    Field::VlanVid,
    Field::VlanPcp,
    Field::NwSrc,
    Field::NwDst,
    Field::NwTtl,
    Field::NwTos,
    Field::TcpSrc,
    Field::TcpDst,
    Field::UdpSrc,
    Field::SctpDst,
    Field::Icmpv6Type,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::Ipv6Label,
    Field::MplsLabel,
    Field::ArpSpa,
    Field::NdTarget,
    Field::Reg0,
    Field::Metadata,
];

/// Values that are written and looked for more than others: zero, neighbour discovery, all ones.
const WELL_KNOWN: [u128; 3] = [0, 135, u128::MAX];

impl Draw<'_> {
    /// Groups and flows that make a table of random rules, to be added to empty tables.
    pub(crate) fn changes(&mut self) -> Vec<Change> {
        let mut changes: Vec<Change> = (1..=GROUPS).map(|id| Change::SetGroup(self.group(id))).collect();
        for stage in 0..self.spine.len() {
            changes.extend(self.stage(stage).into_iter().map(|flow| Change::Flow(FlowMod::Add(flow))));
        }
        // No two have one priority: which of those that overlap then matches is nobody's promise.
        let mut priorities: Vec<u16> = (1..=5 + self.random.below(40) as u16).collect();
        while !priorities.is_empty() {
            let priority = priorities.swap_remove(self.random.below(priorities.len()));
            changes.push(Change::Flow(FlowMod::Add(self.flow(priority))));
        }
        // Most packets that come out of many services leave, and most others find something. Copies of copies
        // of many stages would fill the whole pool with each packet.
        let stages = if !self.copies && self.random.one_in(8) { 40 } else { self.spine.len() as u128 + 3 };
        let mut late = Match::any();
        late.demand(Field::SfStage, stages, u128::MAX);
        let default = |priority: u16, matching: Match| Flow {
            priority,
            matching,
            instructions: Instructions { apply: vec![output(2)], ..Instructions::default() },
            ..Flow::default()
        };
        changes.push(Change::Flow(FlowMod::Add(default(900, late))));
        if !self.random.one_in(3) {
            changes.push(Change::Flow(FlowMod::Add(default(0, Match::any()))));
        }
        changes
    }

    /// A stage of the spine: some rules edit packets by their headers, and all send them to the service.
    fn stage(&mut self, stage: usize) -> Vec<Flow> {
        let service = self.call(self.spine[stage]);
        let flow = |priority: u16, matching: Match, apply: Vec<Action>| Flow {
            priority,
            matching,
            instructions: Instructions { apply, ..Instructions::default() },
            ..Flow::default()
        };
        let mut at = Match::any();
        at.demand(Field::SfStage, stage as u128, u128::MAX);
        let mut flows = vec![flow(1000, at.clone(), vec![service.clone()])];
        for priority in 0..self.random.below(4) as u16 {
            let mut matching = at.clone();
            self.narrow(&mut matching, &FIELDS);
            let mut apply: Vec<Action> = (0..self.random.below(3)).map(|_| self.edit()).collect();
            apply.push(service.clone());
            flows.push(flow(1001 + priority, matching, apply));
        }
        flows
    }

    fn flow(&mut self, priority: u16) -> Flow {
        let table = self.random.below(usize::from(TABLES)) as u8;
        let mut matching = Match::any();
        if self.random.one_in(2) {
            let stage = self.spine.len() + self.random.below(4);
            matching.demand(Field::SfStage, stage as u128, u128::MAX);
        }
        self.narrow(&mut matching, &FIELDS);
        self.narrow(&mut matching, &NOTED);
        let mut apply: Vec<Action> = (0..self.random.below(4)).map(|_| self.edit()).collect();
        let mut instructions = Instructions::default();
        match self.random.below(8) {
            0..3 if table + 1 < TABLES => instructions.goto = Some(TableId(table + 1)),
            0..5 if !self.services.is_empty() => {
                let service = self.random.pick(self.services);
                apply.push(self.call(service));
            }
            7 => apply.push(Action::Group(GroupId(1 + self.random.below(GROUPS as usize) as u32))),
            _ => apply.push(self.port()),
        }
        if self.copies {
            self.copying(&mut apply, &mut instructions, table);
        }
        if self.random.one_in(4) {
            instructions.metadata = Some((self.random.bits() & 7, 7));
        }
        if self.meters > 0 && self.random.one_in(6) {
            instructions.meter = Some(MeterId(1 + self.random.below(self.meters as usize) as u32));
        }
        instructions.apply = apply;
        Flow { table: TableId(table), priority, matching, instructions, ..Flow::default() }
    }

    /// Flows for [`twins`]: headers are written, pushed and popped in front of a service, and looked at behind it.
    pub(crate) fn behind_a_service(&mut self) -> Vec<Change> {
        const WRITTEN: [Field; 6] =
            [Field::TcpDst, Field::UdpDst, Field::SctpDst, Field::IcmpType, Field::Icmpv6Type, Field::NwTtl];
        const SEEN: [Field; 7] = [
            Field::TcpDst,
            Field::TcpSrc,
            Field::NwTtl,
            Field::NwProto,
            Field::NwDst,
            Field::Ipv6Dst,
            Field::NdTarget,
        ];
        let flow = |priority: usize, matching: Match, apply: Vec<Action>| {
            let instructions = Instructions { apply, ..Instructions::default() };
            let flow = Flow { priority: priority as u16, matching, instructions, ..Flow::default() };
            Change::Flow(FlowMod::Add(flow))
        };
        let of_stage = |stage: u128| {
            let mut matching = Match::any();
            matching.demand(Field::SfStage, stage, u128::MAX);
            matching
        };
        let mut before: Vec<Action> = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            before.push(match self.random.below(6) {
                0 => Action::PopMpls(self.random.pick(&[0x0800, 0x86dd])),
                1 => Action::PushVlan(0x8100),
                2 => Action::DecTtl(vec![]),
                _ => {
                    let (field, value) = (self.random.pick(&WRITTEN), self.random.pick(&WELL_KNOWN));
                    Action::SetField { field, value, mask: u128::MAX }
                }
            });
        }
        before.push(self.call("noop"));
        let mut changes = vec![flow(1, of_stage(0), before), flow(0, Match::any(), vec![output(2)])];
        for priority in 1..6 {
            let mut matching = of_stage(1);
            let field = self.random.pick(&SEEN);
            let like = &self.like[self.random.below(self.like.len())];
            let value = if self.random.one_in(2) { self.random.pick(&WELL_KNOWN) } else { field.get(like) };
            let bits = if self.random.one_in(2) { 1 } else { u128::MAX };
            matching.demand(field, value, bits);
            changes.push(flow(priority, matching, vec![output(1 + self.random.below(4) as u32)]));
        }
        changes
    }

    /// Actions on copies, and an action set, in front of and behind what the rule does.
    fn copying(&mut self, apply: &mut Vec<Action>, instructions: &mut Instructions, table: u8) {
        for _ in 0..self.random.below(3) {
            let at = self.random.below(apply.len() + 1);
            let action = match self.random.below(8) {
                0 => Action::Output(self.random.pick(&[PortNo::ALL, PortNo::FLOOD, PortNo::IN_PORT])),
                1 => Action::Controller(ToController::default()),
                2 => Action::Clone(vec![self.edit(), self.port()]),
                3 if !self.services.is_empty() && self.random.one_in(4) => {
                    let service = self.random.pick(self.services);
                    Action::Clone(vec![self.edit(), self.call(service)])
                }
                4 if table + 1 < TABLES && self.random.one_in(2) => {
                    Action::Resubmit { port: None, table: Some(TableId(table + 1)) }
                }
                5 => Action::Exit,
                6 => Action::OutputReg(Subfield { field: Field::Reg0, from: 0, bits: 3 }),
                _ => self.port(),
            };
            apply.insert(at, action);
        }
        let set = [Action::PopVlan, Action::PushVlan(0x8100), output(3), Action::DecTtl(vec![])];
        instructions.write =
            (0..self.random.below(3)).map(|_| set[self.random.below(set.len())].clone()).collect();
        instructions.clear = self.random.one_in(8);
    }

    /// Demands of some of these fields.
    fn narrow(&mut self, matching: &mut Match, fields: &[Field]) {
        for _ in 0..self.random.below(3) {
            let field = self.random.pick(fields);
            let like = &self.like[self.random.below(self.like.len())];
            let value = match field {
                // What an action may have written.
                _ if WRITTEN.contains(&field) && self.random.one_in(3) => self.random.pick(&WELL_KNOWN),
                Field::SfMetadata | Field::CtZone | Field::CtState => self.random.below(4) as u128,
                Field::SfStage => self.random.below(6) as u128,
                Field::SfAction => self.random.below(14) as u128,
                _ if self.random.one_in(6) => u128::from(self.random.bits()),
                _ => field.get(like),
            };
            let mask = self.mask(field);
            matching.demand(field, value, mask);
        }
    }

    fn mask(&mut self, field: Field) -> u128 {
        let bits = field.bits() as usize;
        match self.random.below(5) {
            0 => ones(self.random.below(bits) as u32 + 1),
            1 => ones(field.bits()) & !ones(self.random.below(bits) as u32),
            2 => u128::from(self.random.bits()),
            _ => u128::MAX,
        }
    }

    fn part(&mut self, field: Field, bits: u8) -> Subfield {
        let from = self.random.below(usize::from(field.about().bits - bits) + 1) as u8;
        Subfield { field, from, bits }
    }

    /// An action that changes the packet, or what is noted of it.
    fn edit(&mut self) -> Action {
        let field = self.random.pick(&WRITTEN);
        match self.random.below(18) {
            0..8 => {
                let value = if self.random.one_in(2) {
                    self.random.pick(&WELL_KNOWN)
                } else {
                    u128::from(self.random.bits())
                };
                let mask = self.mask(field);
                Action::SetField { field, value, mask }
            }
            8..10 => {
                let from = if self.random.one_in(2) { Field::SfMetadata } else { self.random.pick(&FIELDS) };
                let bits = 1 + self.random.below(3) as u8;
                let bits = bits.min(from.about().bits).min(field.about().bits);
                Action::Move { from: self.part(from, bits), to: self.part(field, bits) }
            }
            10 => Action::PushVlan(self.random.pick(&[0x8100, 0x88a8])),
            11 => Action::PopVlan,
            12 => Action::PushMpls(0x8847),
            13 => Action::PopMpls(self.random.pick(&[0x0800, 0x86dd, 0x8847])),
            14 => Action::DecTtl(vec![]),
            15 => Action::SetVlanVid(self.random.bits() as u16 & 0xfff),
            16 if self.random.one_in(2) => Action::PushPbb(0x88e7),
            16 => Action::PopPbb,
            _ => match self.random.below(5) {
                0 => Action::DecMplsTtl,
                1 => Action::CopyTtlOut,
                2 => Action::CopyTtlIn,
                3 => Action::SetNwTtl(self.random.bits() as u8),
                _ => Action::SetMplsTtl(self.random.bits() as u8),
            },
        }
    }

    fn port(&mut self) -> Action {
        output(1 + self.random.below(5) as u32)
    }

    fn call(&mut self, name: &str) -> Action {
        let service = self.names.service(name).expect("the test has configured it");
        // For a tracker: most packets may open a connection; two zones. For memory they would be reads.
        let argument = u32::from(!self.random.one_in(4)) | (self.random.below(2) as u32) << 16;
        let argument = if name == "block" { argument & 1 } else { argument };
        Action::Service { service, argument }
    }

    fn group(&mut self, id: u32) -> Group {
        let kinds = [GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover, GroupKind::All];
        let kind = kinds[(id as usize - 1) % kinds.len()];
        let kind = if kind == GroupKind::All && !self.copies { GroupKind::Select } else { kind };
        let count = if kind == GroupKind::Indirect { 1 } else { 1 + self.random.below(3) as u32 };
        let bucket = |id: u32| Bucket {
            id,
            weight: 1 + self.random.below(3) as u16,
            watch_port: (kind == GroupKind::FastFailover).then_some(PortNo(1 + id)),
            watch_group: None,
            actions: vec![self.edit(), output(1 + id)],
        };
        Group { id: GroupId(id), kind, buckets: (0..count).map(bucket).collect() }
    }
}

fn output(port: u32) -> Action {
    Action::Output(PortNo(port))
}

/// The keys of some frames.
pub(crate) fn keys<'f>(frames: impl IntoIterator<Item = &'f Vec<u8>>) -> Vec<Key> {
    let key = |frame: &Vec<u8>| {
        let mut key = Key::new();
        extract(frame, 1, &mut key);
        key
    };
    frames.into_iter().map(key).collect()
}

/// A frame with its port.
pub(crate) type Incoming = (PortNo, Vec<u8>);

/// A conversation: frames of both sides, in their order.
pub(crate) fn conversation(random: &mut Sampler) -> Vec<Incoming> {
    let sides = [random.below(4) as u32, 4 + random.below(4) as u32].map(|host| 0xc612_0000 + host);
    let ports = [1024 + random.below(8) as u16, 80 + random.below(2) as u16];
    let tag = random.one_in(4).then(|| 0x1000 | random.below(8) as u128);
    let speak = |random: &mut Sampler, from: usize, rest: &[(Field, u128)], sequence: (u32, u32), len| {
        let to = 1 - from;
        let mut key = Key::new();
        let own = [
            (Field::EthDst, 0x0200_0000_0000 + to as u128),
            (Field::EthSrc, 0x0200_0000_0000 + from as u128),
            (Field::EthType, 0x0800),
            (Field::NwSrc, u128::from(sides[from])),
            (Field::NwDst, u128::from(sides[to])),
            (Field::NwTtl, 64),
        ];
        for (field, value) in own.iter().chain(rest).chain(tag.map(|tci| (Field::VlanTci, tci)).iter()) {
            field.set(&mut key, *value);
        }
        let payload = random.random(len);
        let mut frame = compose(&key, &payload);
        number(&mut frame, sequence);
        (PortNo(1 + from as u32), frame)
    };
    let mut frames = Vec::new();
    match random.below(3) {
        0 => {
            for _ in 0..2 + random.below(6) {
                let from = random.below(2);
                let [source, destination] = [ports[from], ports[1 - from]].map(u128::from);
                let fields = [(Field::NwProto, 17), (Field::UdpSrc, source), (Field::UdpDst, destination)];
                let len = random.below(64);
                frames.push(speak(random, from, &fields, (0, 0), len));
            }
        }
        1 => {
            for _ in 0..2 + random.below(4) {
                let from = random.below(2);
                let kind = if from == 0 { 8 } else { 0 };
                frames.push(speak(random, from, &[(Field::NwProto, 1), (Field::IcmpType, kind)], (0, 0), 20));
            }
        }
        _ => {
            let mut next = [random.bits() as u32, random.bits() as u32];
            for step in 0..4 + random.below(8) {
                let (from, flags, len) = match step {
                    0 => (0, 0x002, 0),
                    1 => (1, 0x012, 0),
                    _ => {
                        (random.below(2), random.pick(&[0x010, 0x018, 0x018, 0x011, 0x014]), random.below(64))
                    }
                };
                let [source, destination] = [ports[from], ports[1 - from]].map(u128::from);
                let fields = [
                    (Field::NwProto, 6),
                    (Field::TcpSrc, source),
                    (Field::TcpDst, destination),
                    (Field::TcpFlags, flags),
                ];
                let seen = if flags & 0x010 == 0 { 0 } else { next[1 - from] };
                // Now and then a number is far off.
                let off = if random.one_in(10) { random.bits() as u32 } else { 0 };
                frames.push(speak(random, from, &fields, (next[from].wrapping_add(off), seen), len));
                next[from] = next[from].wrapping_add(len as u32 + u32::from(flags & 3 != 0));
            }
        }
    }
    frames
}

/// Writes sequence and acknowledgement numbers into a TCP packet over IPv4, and its checksum.
fn number(frame: &mut [u8], (sequence, acknowledged): (u32, u32)) {
    let mut key = Key::new();
    let layout = extract(frame, 0, &mut key);
    if Field::NwProto.get(&key) != 6 {
        return;
    }
    let segment = &mut frame[usize::from(layout.transport)..usize::from(layout.end)];
    segment[4..8].copy_from_slice(&sequence.to_be_bytes());
    segment[8..12].copy_from_slice(&acknowledged.to_be_bytes());
    segment[14..16].copy_from_slice(&0x4000_u16.to_be_bytes());
    segment[16..18].fill(0);
    let address = |field: Field| Ipv4Addr::from(field.get(&key) as u32);
    let (source, destination) = (address(Field::NwSrc), address(Field::NwDst));
    let sum = checksum::pseudo_ipv4(source, destination, 6, segment.len() as u16) + checksum::sum(segment);
    segment[16..18].copy_from_slice(&checksum::finish(sum).to_be_bytes());
}

/// Frames with one key, or keys that differ in one bit that no field has, of which each must be asked for
/// itself: whole and cut off in front of ports of zero; the same label over different packets; ICMPv6 that a
/// single action makes neighbour discovery.
pub(crate) fn twins(random: &mut Sampler) -> Vec<Vec<u8>> {
    let mut key = Key::new();
    let (ether_type, address) = random.pick(&[(0x0800, Field::NwDst), (0x86dd, Field::Ipv6Dst)]);
    let mut own = vec![(Field::EthType, ether_type), (Field::NwTtl, 64), (Field::EthDst, 0x0200_0000_0001)];
    match random.below(3) {
        0 => {
            own.push((Field::NwProto, random.pick(&[1, 6, 17, 58, 132])));
            own.iter().for_each(|(field, value)| field.set(&mut key, *value));
            let whole = compose(&key, &[7; 20]);
            CUT.set(&mut key, 1);
            vec![whole, compose(&key, &[])]
        }
        1 => {
            own.push((Field::NwProto, random.pick(&[6, 17, 47])));
            own.iter().for_each(|(field, value)| field.set(&mut key, *value));
            let mut labelled = |random: &mut Sampler| {
                address.set(&mut key, u128::from(random.bits()));
                let mut frame = compose(&key, &[7; 20]);
                frame.splice(12..14, [0x88, 0x47, 0, 1, 0x01, 64]);
                frame
            };
            vec![labelled(random), labelled(random)]
        }
        _ => {
            own[0].1 = 0x86dd;
            own.extend([(Field::NwProto, 58), (Field::Icmpv6Type, 1)]);
            own.iter().for_each(|(field, value)| field.set(&mut key, *value));
            vec![compose(&key, &random.random(40)), compose(&key, &random.random(40))]
        }
    }
}

/// A frame with something wrong: as [`Sampler::mangled`] has them; or the front of one frame with the rest
/// of another; or a frame cut at some byte, made long, or with bits flipped all over.
pub(crate) fn mangled(random: &mut Sampler) -> Vec<u8> {
    let mut frame = if random.one_in(2) { random.mangled() } else { random.frame() };
    match random.below(8) {
        0 => {
            let other = random.frame();
            frame.truncate(random.below(frame.len() + 1));
            frame.extend(&other[random.below(other.len())..]);
        }
        1 => frame.truncate(random.below(frame.len() + 1)),
        2 => {
            let count = random.below(1400);
            frame.extend(random.random(count));
        }
        3 if !frame.is_empty() => {
            for _ in 0..1 + random.below(16) {
                let at = random.below(frame.len());
                frame[at] ^= 1 << random.below(8);
            }
        }
        _ => {}
    }
    frame.truncate(1514);
    frame
}
