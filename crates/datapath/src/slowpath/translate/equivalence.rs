//! Whatever a megaflow answers, the tables would: random tables and packets, and no exceptions.
//!
//! `WEIR_PACKETS` says how many packets are looked up; without it, enough to see most mistakes within
//! seconds. `WEIR_SEED` draws others. A difference is told with both translations' stories.

mod draw;
mod regressions;

use super::*;
use crate::classify::table_walk::{self, TableWalk};
use crate::control::tables::Draft;
use crate::model::addresses::{Learned, Name};
use crate::model::entries::{PortInfo, ServiceInfo};
use crate::model::requests::Change;
use crate::slowpath::explain::Story;
use draw::{FIELDS, Sample, flow, group, sample};
use weir_classifier::Megaflows;
use weir_flow::samples::Sampler;
use weir_flow::{Seed, Subfield, WORDS, compose, extract, extract_again, ones};
use weir_openflow::{
    Bucket, Conjunction, Ct, CtStep, CtZone, Flow, FlowMod, Group, GroupId, GroupKind, Instructions, Names,
    Nat, PortNo, ToController,
};
use weir_units::Nanos;

/// Empty tables, with ports and services.
fn empty(seed: u64) -> Pipeline {
    let info = |rewrites| Some(ServiceInfo::new(rewrites, true, |_| Ok(())));
    let services = vec![info(&[]), info(&[Field::NwDst])];
    let mut pipeline = Pipeline::new(Seed::new(seed), services, true);
    pipeline.tracker = Some(1);
    for number in 1..5 {
        let info = PortInfo {
            number: PortNo(number),
            index: number as u16,
            up: number != 4,
            flags: crate::PortFlags::default(),
        };
        pipeline.ports.insert(PortNo(number), info);
    }
    pipeline
}

fn pipeline(random: &mut Sampler, pool: &[Sample]) -> Pipeline {
    let mut draft = Draft::new(empty(random.bits()), Nanos(0));
    for id in 1..5 {
        draft.change(Change::SetGroup(group(random, id))).unwrap();
    }
    for _ in 0..5 + random.below(60) {
        draft.change(Change::Flow(FlowMod::Add(flow(random, pool)))).unwrap();
    }
    draft.pipeline.look_who_lives();
    for _ in 0..random.below(12) {
        let sample = &pool[random.below(pool.len())];
        let field = random.pick(&[Field::EthDst, Field::EthSrc]);
        let (address, vlan) = (field.get(&sample.key) as u64, Field::VlanTci.get(&sample.key) as u16 & 0xfff);
        let (name, port) = (Name { vlan, address }, PortNo(1 + random.below(4) as u32));
        let learned = Learned { name, port, counts: Arc::default(), since: Nanos(0) };
        draft.pipeline.addresses.put(Arc::new(learned));
    }
    draft.pipeline
}

fn outcome(
    pipeline: &Pipeline,
    sample: &Sample,
    store: &mut FrozenStore,
    frozen: Option<&Frozen>,
) -> Outcome {
    outcome_told(pipeline, sample, store, frozen, Watch::Nobody)
}

fn outcome_told(
    pipeline: &Pipeline,
    sample: &Sample,
    store: &mut FrozenStore,
    frozen: Option<&Frozen>,
    watch: Watch<'_>,
) -> Outcome {
    let as_it_came = Origins::default();
    let subject = Subject {
        key: &sample.key,
        layout: sample.layout,
        frame: &sample.frame,
        origins: &as_it_came,
        begin: Begin::at(frozen),
    };
    translate(pipeline, &subject, store, watch)
}

/// A translation in words: the packet, what the tables did with it, and which bits mattered.
fn told(pipeline: &Pipeline, sample: &Sample, store: &mut FrozenStore) -> String {
    let mut story = Story::default();
    let made = outcome_told(pipeline, sample, store, None, Watch::Story(&mut story));
    let Sample { key, layout, frame } = sample;
    let (ops, lines, reasons) = (&made.segment.ops, story.lines(&Names::default()), story.reasons());
    format!("{key:?}\n{layout:?}\n{frame:02x?}\n{ops:?}\n{lines:#?}\n{reasons:#?}")
}

/// What operations do to one packet: each thing that leaves, as bytes, and who is credited.
#[derive(Debug, Default, PartialEq)]
struct Effect {
    leaves: Vec<(String, Vec<u8>)>,
    credits: Vec<String>,
    /// Whether it ended on the way, cut short or too old: entries behind that are credited for it as
    /// for others of its megaflow.
    ended: bool,
}

struct Model<'a> {
    pipeline: &'a Pipeline,
    store: &'a mut FrozenStore,
    effect: Effect,
}

impl Model<'_> {
    fn credit(&mut self, outcome: &Outcome) {
        outcome.segment.credits.iter().for_each(|credit| self.credit_one(credit));
    }

    fn credit_one(&mut self, credit: &Credit) {
        self.effect.credits.push(match credit {
            Credit::Entry(entry) => format!("{:p}", Arc::as_ptr(entry)),
            Credit::Miss(table) => format!("miss {table}"),
            Credit::Counts(counts) => format!("{:p}", Arc::as_ptr(counts)),
        });
    }

    fn leave(&mut self, how: String, frame: &[u8]) {
        self.effect.leaves.push((how, frame.to_vec()));
    }

    fn run(&mut self, ops: &[Op], mut packet: Sample) {
        for op in ops {
            match op {
                Op::Copy(port) | Op::Forward(port) => self.leave(format!("port {port}"), &packet.frame),
                Op::Controller(_) | Op::Punt(_) => self.leave("controller".to_owned(), &packet.frame),
                Op::Drop(reason) => self.leave(format!("{reason:?}"), &[]),
                Op::Service(service, argument) => {
                    self.leave(format!("service {service} {argument}"), &packet.frame);
                }
                Op::Tell(told) => {
                    self.leave(format!("service {} {:?}", told.service, told.arguments), &packet.frame);
                }
                Op::Clone(ops) => self.run(ops, packet.clone()),
                Op::Select(select) | Op::SelectCopy(select) => {
                    self.leave(format!("select {:?}", select.slots), &packet.frame);
                    for choice in &select.choices {
                        self.run(&choice.ops, packet.clone());
                    }
                }
                Op::Track(call) => {
                    self.leave(format!("{:?}", call.tracking), &packet.frame);
                    // A tracker whose word depends on the packet.
                    let state =
                        if call.tracking.forgets { 0 } else { 0x20 | Field::NwDst.get(&packet.key) & 3 };
                    Field::CtState.set(&mut packet.key, state);
                    Field::CtMark
                        .set(&mut packet.key, if state == 0 { 0 } else { call.tracking.mark.0.into() });
                    Field::RecircId.set(&mut packet.key, u128::from(call.next.0));
                    let frozen = self.store.get(call.next.0).expect("the call keeps it");
                    let next = outcome(self.pipeline, &packet, self.store, Some(&frozen));
                    self.credit(&next);
                    return self.run(&next.segment.ops, packet);
                }
                Op::Recirculate(id) => {
                    Field::RecircId.set(&mut packet.key, u128::from(id.0));
                    let frozen = self.store.get(id.0).expect("the operation keeps it");
                    let next = outcome(self.pipeline, &packet, self.store, Some(&frozen));
                    self.credit(&next);
                    return self.run(&next.segment.ops, packet);
                }
                Op::Meter(_) => unreachable!("these tables have no meters"),
                Op::Rewrite(_) | Op::Header(_) | Op::DecTtl(_) | Op::DecMplsTtl(_) => {
                    let Sample { frame, layout, key } = &mut packet;
                    if let Err(reason) = crate::actions::execute::on_bytes(op, frame, layout, key) {
                        self.effect.ended = true;
                        return self.leave(format!("{reason:?}"), &[]);
                    }
                }
            }
        }
    }
}

fn effect(pipeline: &Pipeline, outcome: &Outcome, packet: &Sample, store: &mut FrozenStore) -> Effect {
    let mut model = Model { pipeline, store, effect: Effect::default() };
    model.credit(outcome);
    model.run(&outcome.segment.ops, packet.clone());
    settled(model.effect)
}

/// Without what is all the same to wire and ledger.
fn settled(mut effect: Effect) -> Effect {
    if effect.ended {
        effect.credits.clear();
    }
    // A copy that goes round again is credited when it does, before or after what follows it.
    effect.credits.sort();
    // Whether the packet itself is the last copy or ends behind it is all the same to the wire.
    if effect.leaves.iter().any(|(_, frame)| !frame.is_empty()) {
        effect.leaves.retain(|(_, frame)| !frame.is_empty());
    }
    effect
}

/// Whether two effects are one to the wire and to the ledger.
///
/// Of a packet that ends on the way, cut short or too old, only what leaves is asked: the reason is that of
/// whichever operation found out first. Where nothing leaves, the one may have a reason more: a copy that
/// only ends is not made where that is known beforehand.
fn same(a: &Effect, b: &Effect) -> bool {
    let leaves = |effect: &Effect| -> Vec<(String, Vec<u8>)> {
        effect.leaves.iter().filter(|(_, frame)| !frame.is_empty()).cloned().collect()
    };
    let within = |a: &Effect, b: &Effect| a.leaves.iter().all(|end| b.leaves.contains(end));
    let (left, right) = (leaves(a), leaves(b));
    if a.ended || b.ended {
        return left == right;
    }
    a.credits == b.credits && left == right && (!left.is_empty() || within(a, b) || within(b, a))
}

/// Another packet that differs from this one in bits outside a mask only; nothing where the bits that
/// were flipped make no packet, or change what the mask names.
fn flip(random: &mut Sampler, packet: &Sample, mask: &Mask) -> Option<Sample> {
    let mut flipped = packet.clone();
    for _ in 0..1 + random.below(6) {
        let place = random.below(WORDS);
        let bits = random.bits() & random.bits() & !mask.word(place);
        flipped.key.set_word(place, flipped.key.word(place) ^ bits);
    }
    // No packet comes with one.
    Field::ConjId.set(&mut flipped.key, 0);
    flipped.frame = compose(&flipped.key, &[7; 20]);
    flipped.layout = extract_again(&flipped.frame, &mut flipped.key);
    flipped.key.agrees(&packet.key, mask).then_some(flipped)
}

/// Asserts that what was made for one packet does to another what is made for that.
fn check(
    pipeline: &Pipeline,
    made: (&Sample, &Outcome),
    packet: (&Sample, &Outcome),
    store: &mut FrozenStore,
) {
    let said = effect(pipeline, made.1, packet.0, store);
    let wanted = effect(pipeline, packet.1, packet.0, store);
    if !same(&said, &wanted) {
        let stories = [made.0, packet.0].map(|sample| told(pipeline, sample, store));
        panic!("{said:?}\n{wanted:?}\n\nmade for:\n{}\ndone to:\n{}", stories[0], stories[1]);
    }
}

/// Whether a packet can go directly; if so, what becomes of it is what the translation says, and the same
/// entries are credited.
fn goes_the_same_way(
    map: &mut TableWalk,
    pipeline: &Pipeline,
    packet: &Sample,
    fresh: &Outcome,
    store: &mut FrozenStore,
) -> bool {
    let Sample { key, layout, frame } = packet;
    let Some(end) = map.find(pipeline, &table_walk::Packet { key, layout: *layout, frame }, store) else {
        return false;
    };
    let mut said = Model { pipeline, store, effect: Effect::default() };
    for credit in map.counted(end) {
        said.credit_one(&credit);
    }
    let ops = &map.end(end).expect("it was found").ops;
    said.run(ops, packet.clone());
    let mut said = settled(said.effect);
    let mut wanted = effect(pipeline, fresh, packet, store);
    said.credits.sort();
    wanted.credits.sort();
    assert!(same(&said, &wanted), "{said:?}\n{wanted:?}\n{ops:?}\n{:?}\n{key:?}", fresh.segment.ops);
    true
}

#[test]
fn a_megaflow_answers_as_the_tables_do_and_no_bit_outside_its_mask_matters() {
    let mut random = Sampler::new(weir_testkit::seed(0x5eed));
    let packets = weir_testkit::asked("WEIR_PACKETS", 200_000);
    let (mut looked_up, mut hits, mut flips, mut direct) = (0, 0, 0, 0);
    // How many tables can be gone through directly differs with the seed: more are drawn until a quarter was.
    while looked_up < packets || (direct * 4 <= packets && looked_up < 2 * packets) {
        let pool: Vec<Sample> = (0..60).map(|_| sample(&mut random)).collect();
        let pipeline = pipeline(&mut random, &pool);
        let mut store = FrozenStore::default();
        let mut megaflows = Megaflows::new(Seed::new(1), 4096);
        let mut map = TableWalk::new();
        map.keep_up(&pipeline, Nanos(0));
        for _ in 0..300 {
            let mut packet = pool[random.below(pool.len())].clone();
            if random.one_in(2) {
                let field = random.pick(&FIELDS);
                let value = u128::from(random.bits());
                field.set(&mut packet.key, value);
                packet.frame = compose(&packet.key, &[7; 20]);
                let in_port = Field::InPort.get(&packet.key) as u32;
                packet.layout = extract(&packet.frame, in_port, &mut packet.key);
            }
            let fresh = outcome(&pipeline, &packet, &mut store, None);
            looked_up += 1;
            direct += u64::from(goes_the_same_way(&mut map, &pipeline, &packet, &fresh, &mut store));
            if let Some(handle) = megaflows.find(&packet.key) {
                let (first, cached): &(Sample, Outcome) = megaflows.get(handle).unwrap();
                check(&pipeline, (first, cached), (&packet, &fresh), &mut store);
                hits += 1;
                continue;
            }
            for _ in 0..3 {
                let Some(flipped) = flip(&mut random, &packet, &fresh.examined) else { continue };
                let other = outcome(&pipeline, &flipped, &mut store, None);
                check(&pipeline, (&packet, &fresh), (&flipped, &other), &mut store);
                flips += 1;
            }
            let (key, mask) = (packet.key.clone(), fresh.examined.clone());
            megaflows.insert(&key, &mask, (packet, fresh));
        }
    }
    println!(
        "{looked_up} packets, {hits} answered by megaflows, {flips} with bits flipped, {direct} directly"
    );
    assert!(direct * 4 > packets, "{direct} of {looked_up} directly, of {packets} asked for");
    assert!(hits * 10 > looked_up && flips > looked_up / 10, "{hits} hits, {flips} flips of {looked_up}");
}
