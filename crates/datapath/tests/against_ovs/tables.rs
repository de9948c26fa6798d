//! Random flows and groups in text, as both switches read it: matches that fit some packet, and actions
//! whose prerequisites the match or an action before has (OpenFlow 1.3.5, section 5.12).

use crate::frames::Sample;
use crate::known::{FIELDS, Known};
use weir_flow::samples::Sampler;
use weir_flow::{Field, Match, Needs, Subfield, ones};
use weir_openflow::{Action, Instructions, Names, match_text};

/// Tables in use, from 0.
pub(crate) const TABLES: usize = 5;

/// Groups: one of each kind.
const GROUPS: usize = 4;

/// How buckets of a select group are marked, in the Ethernet source's upper five bytes: which of them
/// takes a packet is each switch's own choice.
pub(crate) const CHOSEN: [u8; 5] = [0x02, 0x5e, 0x1e, 0xc7, 0x00];

/// The source of tables for some packets.
pub(crate) struct Tables<'a> {
    pub(crate) random: &'a mut Sampler,
    pub(crate) pool: &'a [Sample],
    /// Whether flows write action sets, or pop labels. Open vSwitch 3.1 aborts where a packet has to be
    /// recirculated, as behind popped labels, with an action set that is longer than the actions left.
    pub(crate) sets: bool,
}

impl Tables<'_> {
    /// Groups, which flows refer to by numbers from 1.
    pub(crate) fn groups(&mut self) -> Vec<String> {
        // Those that are referred to come first.
        (1..=GROUPS).rev().map(|id| self.group(id)).collect()
    }

    fn group(&mut self, id: usize) -> String {
        let kind = ["all", "indirect", "ff", "select"][id - 1];
        let count = if kind == "indirect" { 1 } else { 1 + self.random.below(3) };
        let mut text = format!("group_id={id},type={kind}");
        let nothing = Known::NOTHING;
        let port = 1 + self.random.below(4);
        for bucket in 0..count {
            text += &format!(",bucket=bucket_id:{bucket},");
            if kind == "ff" {
                // Port 7 is not there, and so not alive.
                text += &format!("watch_port:{},", self.random.pick(&[1, 2, 7]));
            }
            if kind == "select" {
                let mark = CHOSEN.map(|byte| format!("{byte:02x}")).join(":");
                text += &format!("actions=set_field:{mark}:{bucket:02x}->eth_src,output:{port}");
                continue;
            }
            let mut actions = vec![format!("output:{}", 1 + self.random.below(5))];
            for _ in 0..self.random.below(3) {
                let action = match self.random.below(3) {
                    // Groups refer only to those behind them.
                    0 if id < GROUPS && bucket == 0 => {
                        format!("group:{}", id + 1 + self.random.below(GROUPS - id))
                    }
                    1 if self.random.one_in(4) => self.push_vlan(&mut nothing.clone()).join(","),
                    _ => self.set_field(nothing),
                };
                actions.push(action);
            }
            if self.random.one_in(2) {
                actions.reverse();
            }
            text += &format!("actions={}", actions.join(","));
        }
        text
    }

    /// Flows, each a line and of a priority of its own: which of two that overlap wins is undefined
    /// otherwise (OpenFlow 1.3.5, section 5.3).
    pub(crate) fn flows(&mut self) -> Vec<String> {
        let count = 5 + self.random.below(60);
        let mut flows: Vec<String> = (1..=count).map(|priority| self.flow(priority)).collect();
        // Some packets should get far.
        for table in 0..TABLES {
            let next = if table + 1 < TABLES { format!(",goto_table:{}", table + 1) } else { String::new() };
            let action = format!("output:{}", 1 + self.random.below(4));
            flows.push(format!("table={table},priority=0 actions={action}{next}"));
        }
        flows
    }

    fn flow(&mut self, priority: usize) -> String {
        let table = self.random.below(TABLES);
        let (matching, mut known) = self.matching();
        let mut line = format!("table={table},priority={priority}");
        if !matching.is_empty() {
            line += &format!(",{matching}");
        }
        let mut words: Vec<String> = Vec::new();
        for _ in 0..self.random.below(5) {
            words.extend(self.action(&mut known, table));
        }
        if self.random.one_in(8) {
            words.push("clear_actions".to_owned());
        }
        if self.sets && self.random.one_in(3) {
            words.push(self.write_actions(known));
        }
        if self.random.one_in(5) {
            words.push(format!("write_metadata:{:#x}/{:#x}", self.random.bits() & 15, 15));
        }
        if table + 1 < TABLES && !self.random.one_in(3) {
            let next = table + 1 + self.random.below(TABLES - table - 1);
            words.push(format!("goto_table:{next}"));
        }
        if words.is_empty() {
            words.push("drop".to_owned());
        }
        format!("{line} actions={}", words.join(","))
    }

    fn matching(&mut self) -> (String, Known) {
        let like = self.random.below(self.pool.len());
        self.matching_like(like)
    }

    /// What some packet matches, mostly, by its place in the pool.
    pub(crate) fn matching_like(&mut self, like: usize) -> (String, Known) {
        let sample = &self.pool[like];
        let (key, in_port) = (&sample.key, sample.in_port);
        let mut known = Known::NOTHING;
        let mut matching = Match::any();
        if self.random.one_in(5) {
            matching.demand(Field::InPort, in_port.into(), u128::MAX);
        }
        let depth = self.random.below(5);
        if depth > 0 {
            known.ether_type = Field::EthType.get(key) as u16;
            matching.demand(Field::EthType, known.ether_type.into(), u128::MAX);
        }
        if depth > 1 && known.ip() {
            known.protocol = Field::NwProto.get(key) as u8;
            matching.demand(Field::NwProto, known.protocol.into(), u128::MAX);
        }
        let kind = Field::Icmpv6Type.get(key) as u8;
        let code = Field::Icmpv6Code.get(key);
        if depth > 2 && known.has(Needs::Icmpv6) && matches!(kind, 135 | 136) && code == 0 {
            known.neighbour = kind;
            matching.demand(Field::Icmpv6Type, kind.into(), u128::MAX);
            matching.demand(Field::Icmpv6Code, 0, u128::MAX);
        }
        if depth > 1 && known.mpls() {
            let bottom = Field::MplsBos.get(key);
            known.bottom = Some(bottom == 1);
            matching.demand(Field::MplsBos, bottom, u128::MAX);
        }
        if self.random.one_in(3) {
            let tag = Field::VlanTci.get(key) & 0x1000;
            known.tag = Some(tag != 0);
            matching.demand(Field::VlanTci, tag, if tag == 0 { 0xffff } else { 0x1000 });
        }
        for _ in 0..self.random.below(4) {
            let field = self.random.pick(FIELDS);
            if field == Field::MplsBos
                || !known.has(field.about().needs)
                || matches!(field, Field::VlanTci | Field::VlanVid) && known.tag.is_some()
                || matches!(field, Field::Icmpv6Type | Field::Icmpv6Code) && known.neighbour != 0
            {
                continue;
            }
            let like = field.get(key);
            let value = if self.random.one_in(6) { self.random.bits().into() } else { like };
            let value = if field == Field::ArpOp { value & 0xff } else { value };
            if let Field::NwFrag = field {
                // Later fragments have no ports that the rest of the match could ask for.
                let kinds = [(0, 3), (1, 1), (1, 3), (0, 2), (3, 3)];
                let (value, mask) = self.random.pick(&kinds[..if known.protocol == 0 { 5 } else { 4 }]);
                matching.demand(field, value, mask);
                continue;
            }
            let mask = if field.about().maskable { self.mask(field) } else { u128::MAX };
            if matches!(field, Field::VlanTci | Field::VlanVid) {
                // Only a tag has other bits; OpenFlow 1.5 cannot say some bits of its priority.
                let priority = if mask & 0xe000 == 0 { 0 } else { 0xe000 };
                let mask = if value == 0 { 0x1000 } else { mask | 0x1000 | priority };
                matching.demand(field, if value == 0 { 0 } else { value | 0x1000 }, mask);
                known.tag = Some(value != 0);
                continue;
            }
            matching.demand(field, value, mask);
        }
        (match_text(&matching, &Names::default()), known)
    }

    fn mask(&mut self, field: Field) -> u128 {
        let bits = field.bits() as usize;
        let mask = match self.random.below(4) {
            0 => ones(self.random.below(bits) as u32 + 1),
            1 => ones(field.bits()) & !ones(self.random.below(bits) as u32),
            2 => u128::from(self.random.bits()) << (self.random.below(2) * 64),
            _ => u128::MAX,
        };
        match field {
            // Open vSwitch takes decimal digits after a slash for the length of a prefix, though more follow.
            Field::Ipv6Src | Field::Ipv6Dst | Field::NdTarget if mask >> 96 != 0 => mask | 0xf << 124,
            _ if mask & ones(field.bits()) == 0 => u128::MAX,
            _ => mask,
        }
    }

    fn set_field(&mut self, known: Known) -> String {
        let field = loop {
            let field = self.random.pick(FIELDS);
            if known.may_write(field) && field != Field::VlanTci {
                break field;
            }
        };
        let mask = if field.about().maskable { self.mask(field) } else { u128::MAX } & ones(field.bits());
        let random = u128::from(self.random.bits()) | u128::from(self.random.bits()) << 64;
        let mut value = random & mask;
        let mut mask = mask;
        if field == Field::ArpOp {
            // Open vSwitch has 8 bits of it.
            value &= 0xff;
        }
        if field == Field::VlanVid {
            // Its presence bit is not to be changed.
            (value, mask) = (value & 0xfff | 0x1000, mask & 0xfff | 0x1000);
        }
        text(&Action::SetField { field, value, mask })
    }

    /// An action of the list, or some that belong together.
    fn action(&mut self, known: &mut Known, table: usize) -> Vec<String> {
        let one = |word: &str| vec![word.to_owned()];
        match self.random.below(30) {
            0..6 => vec![format!("output:{}", 1 + self.random.below(5))],
            6 => one(self.random.pick(&["in_port", "all", "flood", "controller", "LOCAL"])),
            7 | 8 => vec![format!("group:{}", 1 + self.random.below(GROUPS))],
            9..14 => vec![self.set_field(*known)],
            14 => vec![self.older(*known)],
            15 | 16 => vec![self.moved(*known)],
            17 if known.tag == Some(false) || known.tag.is_none() && self.random.one_in(4) => {
                self.push_vlan(known)
            }
            18 if known.tag == Some(true) => {
                known.tag = None;
                one(self.random.pick(&["pop_vlan", "strip_vlan"]))
            }
            19 => self.push_mpls(known),
            // What a pop leaves where the EtherType does not fit is each switch's own choice.
            20 if known.mpls() && known.bottom.is_some() && !self.sets => {
                let below =
                    if known.bottom == Some(true) { self.random.pick(&[0x0800, 0x86dd]) } else { 0x8847 };
                *known = Known { tag: known.tag, ether_type: below, ..Known::NOTHING };
                vec![format!("pop_mpls:{below:#06x}")]
            }
            21 if known.mpls() => one("dec_mpls_ttl"),
            21 | 22 if known.ip() => one("dec_ttl"),
            23 if table + 1 < TABLES => {
                let next = table + 1 + self.random.below(TABLES - table - 1);
                // What it does to the packet is not known here.
                *known = Known { tag: None, ..Known::NOTHING };
                let port = self.random.pick(&["", "", "1", "3"]);
                vec![format!("resubmit({port},{next})")]
            }
            24 => {
                // What recirculates in a clone, as behind popped labels, ends all else in Open vSwitch 3.1.
                let mut inside = Known { bottom: None, ..*known };
                let mut words = Vec::new();
                for _ in 0..1 + self.random.below(3) {
                    words.extend(self.action(&mut inside, table));
                }
                vec![format!("clone({})", words.join(","))]
            }
            25 => vec![text(&Action::OutputReg(Subfield { field: Field::Reg0, from: 4, bits: 3 }))],
            26 => vec![format!("set_field:{}->reg0", self.random.below(6) * 16)],
            // With an action set, Open vSwitch 3.1 does not do what `ovs-actions(7)` says of it: to do the set.
            27 if self.random.one_in(4) && !self.sets => one("exit"),
            28 => vec![format!("load:{}->NXM_OF_IN_PORT[]", self.random.below(5))],
            _ => vec![format!("output:{}", 1 + self.random.below(4))],
        }
    }

    /// The words of OpenFlow 1.0.
    fn older(&mut self, known: Known) -> String {
        let bits = self.random.bits();
        let byte = bits as u8;
        let address = std::net::Ipv4Addr::from(bits as u32);
        let mut words = vec![
            format!("mod_dl_src:02:00:00:00:00:{byte:02x}"),
            format!("mod_dl_dst:02:00:00:00:01:{byte:02x}"),
        ];
        if known.has(Needs::Ipv4) {
            words.extend([format!("mod_nw_src:{address}"), format!("mod_nw_dst:{address}")]);
        }
        if known.ip() {
            words.extend([
                format!("mod_nw_tos:{}", byte & 0xfc),
                format!("mod_nw_ecn:{}", byte & 3),
                format!("mod_nw_ttl:{byte}"),
            ]);
        }
        if [Needs::Tcp, Needs::Udp, Needs::Sctp].into_iter().any(|needs| known.has(needs)) {
            words.extend([format!("mod_tp_src:{}", bits as u16), format!("mod_tp_dst:{}", bits as u16)]);
        }
        if known.tag == Some(true) {
            words.extend([format!("mod_vlan_vid:{}", bits & 0xfff), format!("mod_vlan_pcp:{}", bits & 7)]);
        }
        if known.mpls() {
            words.extend([
                format!("set_mpls_label:{}", bits & 0xf_ffff),
                format!("set_mpls_tc:{}", bits & 7),
                format!("set_mpls_ttl:{byte}"),
            ]);
        }
        words.swap_remove(self.random.below(words.len()))
    }

    /// `move` or `load`.
    fn moved(&mut self, known: Known) -> String {
        let mut field = |write: bool| loop {
            let field = self.random.pick(FIELDS);
            let fits = if write { known.may_write(field) } else { known.has(field.about().needs) };
            // Of the operation Open vSwitch has 8 bits.
            if fits && !matches!(field, Field::VlanVid | Field::VlanTci | Field::ArpOp) {
                break field;
            }
        };
        let (from, to) = (field(false), field(true));
        let bits = (1 + self.random.below(64)) as u8;
        let bits = bits.min(from.about().bits).min(to.about().bits);
        let random = &mut *self.random;
        let mut part = |field: Field| {
            let from = random.below(usize::from(field.about().bits - bits) + 1) as u8;
            Subfield { field, from, bits }
        };
        let (from, to) = (part(from), part(to));
        if self.random.one_in(2) {
            return text(&Action::Move { from, to });
        }
        let value = u128::from(self.random.bits()) & ones(u32::from(bits));
        text(&Action::Load { value, to })
    }

    /// A tag whose fields are all set: those of the tag behind it are copied by OpenFlow (1.3.5, section
    /// 5.12.1), and not by Open vSwitch.
    fn push_vlan(&mut self, known: &mut Known) -> Vec<String> {
        known.tag = Some(true);
        vec![
            format!("push_vlan:{}", self.random.pick(&["0x8100", "0x8100", "0x88a8"])),
            format!("set_field:{}->vlan_vid", 0x1000 | self.random.below(4096)),
            format!("set_field:{}->vlan_pcp", self.random.below(8)),
        ]
    }

    /// A label whose fields are all set: with what it begins is each switch's own choice.
    fn push_mpls(&mut self, known: &mut Known) -> Vec<String> {
        let ether_type = self.random.pick(&[0x8847, 0x8847, 0x8848]);
        *known = Known { tag: known.tag, ether_type, ..Known::NOTHING };
        vec![
            format!("push_mpls:{ether_type:#06x}"),
            format!("set_field:{}->mpls_label", self.random.below(1 << 20)),
            format!("set_field:{}->mpls_tc", self.random.below(8)),
            format!("set_field:{}->mpls_ttl", self.random.below(256)),
        ]
    }

    fn write_actions(&mut self, mut known: Known) -> String {
        let mut words = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            match self.random.below(8) {
                0..3 => words.push(format!("output:{}", 1 + self.random.below(5))),
                3 => words.push(format!("group:{}", 1 + self.random.below(GROUPS))),
                4 if known.tag == Some(true) => {
                    known.tag = None;
                    words.push("pop_vlan".to_owned());
                }
                5 if known.tag == Some(false) || known.tag.is_none() && self.random.one_in(4) => {
                    words.extend(self.push_vlan(&mut known));
                }
                6 if known.ip() => words.push("dec_ttl".to_owned()),
                _ => words.push(self.set_field(known)),
            }
        }
        format!("write_actions({})", words.join(","))
    }
}

fn text(action: &Action) -> String {
    let instructions = Instructions { apply: vec![action.clone()], ..Instructions::default() };
    instructions.text(&Match::any(), &Names::default())
}
