//! Conjunctive matches, beside Open vSwitch: flows that are dimensions of some conjunctions, flows to which these lead,
//! and ordinary ones of priorities between and above, in random tables.
//!
//! What Open vSwitch calls unpredictable is not drawn: of conjunctions of one priority that overlap, each demands a
//! port of its own; and ordinary flows have each a priority of their own. Nor are a flow with `conjunction` and one without
//! that have the same match: Open vSwitch 3.1 looks at the flow of the highest priority of a match alone when it looks
//! for `conj_id`, so that one with `conjunction` hides one without, which `ovs-fields(7)` does not say.

use crate::frames::Sample;
use crate::ours::Ours;
use crate::ovs::{self, Ovs};
use crate::tables::{TABLES, Tables};
use crate::{PACKETS, POOL, Pair, Round};
use std::collections::{BTreeMap, BTreeSet};
use weir_flow::Match;
use weir_flow::samples::Sampler;
use weir_openflow::{Names, parse_match};

/// Rounds where `WEIR_ROUNDS` does not say how many.
const ROUNDS: u64 = 60;

/// Conjunctions of a table, by number; those of two neighbours have one priority.
const IDS: usize = 6;

/// Dimensions of a conjunction: the same for all of its flows.
const fn dimensions(id: usize) -> usize {
    2 + id / 2 % 2
}

/// The priority of a conjunction's flows.
const fn priority(id: usize) -> usize {
    20 + 10 * (id / 2)
}

/// A match with more in it.
fn with(more: &str, matching: &str) -> String {
    match matching {
        "" => more.to_owned(),
        matching => format!("{more},{matching}"),
    }
}

struct Drawn<'a> {
    tables: Tables<'a>,
    /// Priorities of flows without conjunctions.
    used: BTreeSet<(usize, usize)>,
    flows: BTreeMap<(usize, usize, String), String>,
    /// Whether flows of a table and match are with `conjunction`.
    kinds: BTreeMap<(usize, Match), bool>,
}

impl Drawn<'_> {
    /// Flows of one table.
    fn table(&mut self, table: usize) {
        for id in 0..IDS {
            // What meets all of its dimensions is like this one.
            let like = self.tables.random.below(POOL);
            let port = 1 + id % 2;
            for dimension in 1..=dimensions(id) {
                for other in 0..1 + self.tables.random.below(4) {
                    let like = if other == 0 { like } else { self.tables.random.below(POOL) };
                    self.dimension(table, (id, dimension), (like, port));
                }
            }
            for _ in 0..self.tables.random.below(3) {
                let like = self.tables.random.below(POOL);
                let matching = match self.tables.random.one_in(2) {
                    true => self.tables.matching_like(like).0,
                    false => String::new(),
                };
                let priority = self.own_priority(table);
                let to = self.to(table);
                self.add((table, priority), with(&format!("conj_id={}", id + 1), &matching), to);
            }
        }
        for _ in 0..self.tables.random.below(8) {
            let like = self.tables.random.below(POOL);
            let (matching, _) = self.tables.matching_like(like);
            let priority = self.own_priority(table);
            let to = self.to(table);
            self.add((table, priority), matching, to);
        }
    }

    /// A priority that no other flow without conjunctions has.
    fn own_priority(&mut self, table: usize) -> usize {
        loop {
            let priority = 1 + self.tables.random.below(60);
            if self.used.insert((table, priority)) {
                return priority;
            }
        }
    }

    /// A flow that is a dimension of a conjunction, and sometimes one of its neighbour's.
    fn dimension(&mut self, table: usize, (id, dimension): (usize, usize), (like, port): (usize, usize)) {
        let (mut matching, _) = self.tables.matching_like(like);
        let mut actions = vec![format!("conjunction({},{dimension}/{})", id + 1, dimensions(id))];
        // In the first dimension neighbours differ; in others a flow may be of both.
        if dimension == 1 {
            if matching.contains("in_port") {
                return;
            }
            matching = with(&format!("in_port={port}"), &matching);
        } else if self.tables.random.one_in(3) {
            actions.push(format!("conjunction({},{dimension}/{})", (id ^ 1) + 1, dimensions(id)));
        }
        if self.tables.random.one_in(8) {
            actions.push("note:01.02".to_owned());
        }
        self.add((table, priority(id)), matching, actions.join(","));
    }

    /// Where packets go that a flow matches.
    fn to(&mut self, table: usize) -> String {
        let output = format!("output:{}", 1 + self.tables.random.below(4));
        match self.tables.random.below(4) {
            0 if table + 1 < TABLES => format!("{output},goto_table:{}", table + 1),
            1 if table + 1 < TABLES => {
                format!("set_field:{}->reg0,resubmit(,{})", self.tables.random.below(4), table + 1)
            }
            2 => format!("set_field:02:00:00:00:00:0{}->eth_src,{output}", self.tables.random.below(10)),
            _ => output,
        }
    }

    /// One flow of each table, priority and match.
    fn add(&mut self, (table, priority): (usize, usize), matching: String, actions: String) {
        let found = parse_match(&matching, &Names::default()).unwrap();
        let is_soft = actions.starts_with("conjunction");
        if *self.kinds.entry((table, found)).or_insert(is_soft) != is_soft {
            return;
        }
        let line = with(&format!("table={table},priority={priority}"), &matching);
        self.flows.insert((table, priority, matching), format!("{line} actions={actions}"));
    }
}

fn round(number: usize, random: &mut Sampler, first: u32) -> Round {
    let pool: Vec<Sample> = (0..POOL).map(|_| Sample::random(random, false)).collect();
    let tables = Tables { random, pool: &pool, sets: false };
    let kinds = (0..TABLES).map(|table| ((table, Match::any()), false)).collect();
    let mut drawn = Drawn { tables, used: BTreeSet::new(), flows: BTreeMap::new(), kinds };
    (0..TABLES).for_each(|table| drawn.table(table));
    let mut flows: Vec<String> = drawn.flows.into_values().collect();
    flows.extend(
        (0..TABLES).map(|table| format!("table={table},priority=0 actions=output:{}", 1 + table % 4)),
    );
    let mut packets = Vec::new();
    while packets.len() < PACKETS {
        let like = &pool[random.below(POOL)];
        let sample = if random.one_in(4) { &like.other(random) } else { like };
        let in_port = if random.one_in(2) { sample.in_port } else { 1 + random.below(2) as u32 };
        packets.push((in_port, sample.numbered(first + packets.len() as u32)));
    }
    Round { number, groups: Vec::new(), flows, packets }
}

#[test]
fn open_vswitch_finds_the_same_flows_by_conjunctions() {
    if !ovs::installed() {
        return;
    }
    let rounds = weir_testkit::asked("WEIR_ROUNDS", ROUNDS) as usize;
    let mut random = Sampler::new(weir_testkit::asked("WEIR_OVS_SEED", 0xc0));
    let mut pair = Pair { ovs: Ovs::start(), ours: Ours::start(true), differences: BTreeMap::new(), left: 0 };
    let (mut flows, mut by_conjunction) = (0, 0);
    for number in 0..rounds {
        let round = round(number, &mut random, (number * PACKETS) as u32);
        flows += round.flows.len();
        pair.compare(&round);
        let decided = |at: &&crate::ovs::At| pair.ours.explain(at).contains("conjunction ");
        by_conjunction += round.packets.iter().step_by(20).filter(decided).count();
    }
    pair.ours.stop();
    let packets = rounds * PACKETS;
    println!(
        "{packets} packets through {rounds} tables of {flows} flows; of every twentieth packet {by_conjunction} met a \
         conjunction; different for a reason: {:?}",
        pair.differences
    );
    assert!(by_conjunction * 20 * 40 > packets, "{by_conjunction} packets met conjunctions");
    assert!(pair.differences.values().sum::<u64>() * 50 <= packets as u64, "{:?}", pair.differences);
}
