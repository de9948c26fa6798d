//! Packets by which megaflows once answered wrongly.

use super::*;

/// A flow: what it demands of fields, as value and mask, and what it does.
type Rule<'a> = (&'a [(Field, u128, u128)], &'a [Action]);

/// Tables of one flow each, which match all packets but where something is demanded.
fn one_flow_a_table(flows: &[Rule<'_>]) -> Pipeline {
    let mut draft = Draft::new(empty(1), Nanos(0));
    for (table, (demands, apply)) in (0_u8..).zip(flows) {
        let mut matching = Match::any();
        demands.iter().for_each(|&(field, value, mask)| matching.demand(field, value, mask));
        let goto = (usize::from(table) + 1 < flows.len()).then(|| TableId(table + 1));
        let instructions = Instructions { apply: apply.to_vec(), goto, ..Instructions::default() };
        let flow = Flow { table: TableId(table), matching, instructions, ..Flow::default() };
        draft.change(Change::Flow(FlowMod::Add(flow))).unwrap();
    }
    draft.pipeline.look_who_lives();
    draft.pipeline
}

/// Has what is made for each of these packets done to each that its megaflow matches.
fn check_all(pipeline: &Pipeline, packets: &[Sample]) {
    let mut store = FrozenStore::default();
    let made: Vec<Outcome> = packets.iter().map(|one| outcome(pipeline, one, &mut store, None)).collect();
    for first in packets.iter().zip(&made) {
        let mask = &first.1.examined;
        for other in packets.iter().zip(&made).filter(|other| other.0.key.agrees(&first.0.key, mask)) {
            check(pipeline, first, other, &mut store);
        }
    }
}

fn sample_of(frame: Vec<u8>) -> Sample {
    let mut key = Key::new();
    let layout = extract(&frame, 1, &mut key);
    Sample { key, layout, frame }
}

#[test]
fn a_time_to_live_that_is_lowered_and_then_written_in_part_still_depends_on_all_of_it() {
    let part = Action::SetField { field: Field::NwTtl, value: 0, mask: 0x26 };
    let lowered = [Action::DecTtl(vec![]), part];
    let output = [Action::Output(PortNo(3))];
    let packets: Vec<Sample> = (0..=255)
        .map(|ttl| {
            let mut key = Key::new();
            for (field, value) in [(Field::EthType, 0x0800), (Field::NwProto, 47), (Field::NwTtl, ttl)] {
                field.set(&mut key, value);
            }
            sample_of(compose(&key, &[7; 20]))
        })
        .collect();
    for bit in 0..8 {
        let demand = [(Field::NwTtl, 1 << bit, 1 << bit)];
        check_all(&one_flow_a_table(&[(&[], &lowered), (&demand, &output)]), &packets);
    }
}

#[test]
fn a_tag_that_loses_its_presence_by_being_set_goes_and_shows_the_one_below() {
    let without_presence = Action::SetField { field: Field::VlanVid, value: 0xd89, mask: u128::MAX };
    let apply = [
        without_presence,
        Action::DecMplsTtl,
        Action::CopyTtlOut,
        Action::PopVlan,
        Action::PushVlan(0x8100),
        Action::Output(PortNo(3)),
    ];
    // Two tags and a label; below it IPv4, or nothing that has a time to live.
    let front = [
        [2; 12].as_slice(),
        &[0x81, 0x00, 0xb1, 0x15, 0x81, 0x00, 0x57, 0xc8, 0x88, 0x47, 0x49, 0xf7, 0x93, 0x4e],
    ]
    .concat();
    let ipv4 = [&[0x45, 0, 0, 20, 0, 0, 0, 0, 9, 47, 0, 0], [10; 8].as_slice()].concat();
    let packets = [ipv4, vec![7; 20]].map(|below| sample_of([front.clone(), below, vec![0; 20]].concat()));
    let pipeline = one_flow_a_table(&[(&[], &apply)]);
    check_all(&pipeline, &packets);
    let mut store = FrozenStore::default();
    let made = outcome(&pipeline, &packets[0], &mut store, None);
    let effect = effect(&pipeline, &made, &packets[0], &mut store);
    let left = sample_of(effect.leaves[0].1.clone());
    assert_eq!(Field::VlanTci.get(&left.key), 0x1000, "both tags went, and a new one came");
    assert_eq!((Field::EthType.get(&left.key), weir_flow::span::INNER_TCI.get(&left.key)), (0x8847, 0));
}

#[test]
fn a_packet_whose_header_is_malformed_does_not_decide_for_one_whose_fields_are_all_zero() {
    let apply = [
        Action::SetField { field: Field::NwTtl, value: 0xe0, mask: 0xe0 },
        Action::PushMpls(0x8847),
        Action::Output(PortNo(3)),
    ];
    let seen = [(Field::MplsTtl, 0xe0, u128::MAX)];
    let output = [Action::Output(PortNo(2))];
    let mut key = Key::new();
    Field::EthType.set(&mut key, 0x0800);
    let whole = sample_of(compose(&key, &[7; 20]));
    let cut = sample_of(whole.frame[..30].to_vec());
    assert_eq!(whole.key, cut.key, "the key does not tell them apart");
    check_all(&one_flow_a_table(&[(&[], &apply), (&seen, &output)]), &[whole, cut]);
}
