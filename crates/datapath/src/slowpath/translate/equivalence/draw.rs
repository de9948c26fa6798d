//! Random packets, and tables that have to do with them.

use super::*;

/// A packet to be looked up.
#[derive(Clone)]
pub(super) struct Sample {
    pub(super) key: Key,
    pub(super) layout: Layout,
    pub(super) frame: Vec<u8>,
}

pub(super) fn sample(random: &mut Sampler) -> Sample {
    let frame = if random.one_in(4) { random.mangled() } else { random.frame() };
    let mut key = Key::new();
    let layout = extract(&frame, 1 + random.below(4) as u32, &mut key);
    Sample { key, layout, frame }
}

fn any(random: &mut Sampler, from: &[Action]) -> Action {
    from[random.below(from.len())].clone()
}

/// Fields that rules look at and actions move.
pub(super) const FIELDS: [Field; 26] = [
    Field::InPort,
    Field::EthDst,
    Field::EthSrc,
    Field::EthType,
    Field::VlanTci,
    Field::VlanVid,
    Field::MplsLabel,
    Field::MplsTtl,
    Field::ArpTpa,
    Field::NwSrc,
    Field::NwDst,
    Field::NwProto,
    Field::NwTos,
    Field::NwTtl,
    Field::NwFrag,
    Field::TcpSrc,
    Field::TcpDst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::Reg0,
    Field::Reg3,
    Field::Metadata,
    Field::SfMetadata,
    Field::TcpFlags,
    Field::CtState,
    Field::CtMark,
];

fn mask_of(random: &mut Sampler, field: Field) -> u128 {
    let bits = field.bits() as usize;
    match random.below(4) {
        0 => ones(random.below(bits) as u32 + 1),
        1 => ones(field.bits()) & !ones(random.below(bits) as u32),
        2 => u128::from(random.bits()),
        _ => u128::MAX,
    }
}

fn matching(random: &mut Sampler, pool: &[Sample]) -> Match {
    let like = &pool[random.below(pool.len())].key;
    let mut matching = Match::any();
    for _ in 0..random.below(4) {
        let field = random.pick(&FIELDS);
        let mask = mask_of(random, field);
        let value = if random.one_in(6) { u128::from(random.bits()) } else { field.get(like) };
        matching.demand(field, value, mask);
    }
    matching
}

/// Fields that actions may write.
const WRITTEN: [Field; 14] = [
    Field::EthDst,
    Field::EthSrc,
    Field::VlanVid,
    Field::VlanPcp,
    Field::NwSrc,
    Field::NwDst,
    Field::NwTtl,
    Field::NwTos,
    Field::TcpDst,
    Field::UdpSrc,
    Field::Ipv6Dst,
    Field::MplsLabel,
    Field::Reg0,
    Field::Metadata,
];

fn action(random: &mut Sampler, table: u8) -> Action {
    let field = random.pick(&WRITTEN);
    let part = |random: &mut Sampler, field: Field, bits: u8| {
        let from = random.below(usize::from(field.about().bits - bits) + 1) as u8;
        Subfield { field, from, bits }
    };
    match random.below(25) {
        0..=3 => Action::Output(PortNo(1 + random.below(5) as u32)),
        4 => {
            let ports = [PortNo::IN_PORT, PortNo::ALL, PortNo::FLOOD, PortNo::NORMAL, PortNo::NORMAL];
            Action::Output(random.pick(&ports))
        }
        5 => Action::Controller(ToController::default()),
        6 => Action::Group(GroupId(1 + random.below(4) as u32)),
        7..=9 => {
            let (value, mask) = (u128::from(random.bits()), mask_of(random, field));
            Action::SetField { field, value, mask }
        }
        10 => {
            let bits = 1 + random.below(3) as u8;
            let from = random.pick(&FIELDS);
            let bits = bits.min(from.about().bits).min(field.about().bits);
            Action::Move { from: part(random, from, bits), to: part(random, field, bits) }
        }
        11 => Action::PushVlan(0x8100),
        12 => Action::PopVlan,
        13 => Action::PushMpls(0x8847),
        14 => Action::PopMpls(random.pick(&[0x0800, 0x86dd, 0x8847])),
        15 => Action::DecTtl(vec![]),
        16 => any(random, &[Action::DecMplsTtl, Action::CopyTtlOut, Action::CopyTtlIn, Action::PopPbb]),
        17 => Action::Clone(vec![Action::PopVlan, Action::Output(PortNo(2))]),
        18 => Action::Service { service: 1 + random.below(2) as u16, argument: 7 },
        19 => Action::OutputReg(Subfield { field: Field::Reg0, from: 0, bits: 3 }),
        20 => Action::PushPbb(0x88e7),
        21 => Action::Ct(Box::new(ct(random, table))),
        22 => Action::CtClear,
        23 => says_what_follows(random),
        // Only to later tables: where a loop is given up depends on how it was entered.
        _ if table < 4 => Action::Resubmit { port: None, table: Some(TableId(table + 1)) },
        _ => Action::Exit,
    }
}

/// One of the fields that say what follows them, set or moved to, whole or in part.
fn says_what_follows(random: &mut Sampler) -> Action {
    let (field, values): (Field, &[u128]) = match random.below(3) {
        0 => (Field::EthType, &[0x0800, 0x86dd, 0x0806, 0x8847, 0x8100, 0x88e7, 0x1234, 0x05ff]),
        1 => (Field::NwProto, &[0, 1, 6, 17, 44, 58, 132, 200]),
        _ => (Field::MplsBos, &[0, 1]),
    };
    if random.one_in(6) {
        let part = |field| Subfield { field, from: 0, bits: 1 };
        return Action::Move { from: part(random.pick(&FIELDS)), to: part(field) };
    }
    let mask = if random.one_in(4) { mask_of(random, field) } else { u128::MAX };
    Action::SetField { field, value: random.pick(values), mask }
}

/// Connection tracking, that goes on at a later table or behind it.
fn ct(random: &mut Sampler, table: u8) -> Ct {
    let reg = Subfield { field: Field::Reg0, from: 0, bits: 16 };
    let from = Subfield { field: random.pick(&[Field::NwSrc, Field::Reg3, Field::TunId]), from: 4, bits: 8 };
    let to = Subfield { field: Field::CtMark, from: random.below(24) as u8, bits: 8 };
    let set = Action::SetField { field: Field::CtLabel, value: u128::from(random.bits()), mask: u128::MAX };
    let mut steps = vec![CtStep::Set(Action::Move { from, to }), CtStep::Set(set)];
    steps.truncate(random.below(3));
    if random.one_in(2) {
        steps.push(CtStep::Nat(Nat::default()));
    }
    Ct {
        commit: true,
        force: random.one_in(2),
        zone: if random.one_in(2) { CtZone::Bits(reg) } else { CtZone::Number(random.below(3) as u16) },
        table: (table < 4 && random.one_in(2)).then(|| TableId(table + 1)),
        helper: 0,
        steps,
    }
}

/// An entry whose packets meet a dimension or two of some conjunctions, or one to which such lead.
fn of_conjunction(random: &mut Sampler, pool: &[Sample]) -> Flow {
    let table = random.below(3) as u8;
    let id = |random: &mut Sampler| 1 + random.below(3) as u32;
    let mut matching = Match::any();
    let instructions = if random.one_in(4) {
        matching.demand(Field::ConjId, id(random).into(), u128::MAX);
        let apply = (0..1 + random.below(2)).map(|_| action(random, table)).collect();
        Instructions { apply, goto: Some(TableId(table + 1)), ..Instructions::default() }
    } else {
        let conjunction = |random: &mut Sampler| {
            let (id, dimensions) = (id(random), 2);
            Action::Conjunction(Conjunction { id, dimension: 1 + random.below(2) as u8, dimensions })
        };
        let apply = (0..1 + random.below(2)).map(|_| conjunction(random)).collect();
        Instructions { apply, ..Instructions::default() }
    };
    let like = &pool[random.below(pool.len())].key;
    let field = random.pick(&FIELDS);
    let mask = if random.one_in(2) { 1 } else { mask_of(random, field) };
    matching.demand(field, field.get(like), mask);
    let priority = 1 + random.below(5) as u16;
    Flow { table: TableId(table), priority, matching, instructions, ..Flow::default() }
}

pub(super) fn flow(random: &mut Sampler, pool: &[Sample]) -> Flow {
    if random.one_in(3) {
        return of_conjunction(random, pool);
    }
    let table = random.below(5) as u8;
    let apply = (0..random.below(4)).map(|_| action(random, table)).collect();
    let write =
        [Action::PopVlan, Action::PushVlan(0x8100), Action::Output(PortNo(3)), Action::DecTtl(vec![])];
    let write = (0..random.below(3)).map(|_| any(random, &write)).collect();
    let goto = (table < 4 && !random.one_in(3)).then(|| TableId(table + 1));
    let metadata = random.one_in(4).then(|| (random.bits() & 7, 7));
    let instructions = Instructions { apply, write, goto, metadata, clear: random.one_in(8), meter: None };
    let priority = random.below(5) as u16;
    Flow {
        table: TableId(table),
        priority,
        matching: matching(random, pool),
        instructions,
        ..Flow::default()
    }
}

pub(super) fn group(random: &mut Sampler, id: u32) -> Group {
    let kinds = [GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover];
    let kind = kinds[id as usize % 4];
    let count = if kind == GroupKind::Indirect { 1 } else { 1 + random.below(3) };
    let bucket = |id: usize| Bucket {
        id: id as u32,
        weight: 1,
        watch_port: (kind == GroupKind::FastFailover).then_some(PortNo(1 + id as u32)),
        watch_group: None,
        actions: vec![
            any(random, &[Action::PopVlan, Action::DecTtl(vec![]), Action::PushVlan(0x8100)]),
            Action::Output(PortNo(1 + id as u32)),
        ],
    };
    Group { id: GroupId(id), kind, buckets: (0..count).map(bucket).collect() }
}
