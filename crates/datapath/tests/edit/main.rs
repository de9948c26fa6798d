//! Packets are edited, and bytes, layout and key stay in step.

mod defaults;
mod dpdk;
mod ovs;
mod random;
mod rewrites;

use weir_datapath::edit::{self, Rewrite};
use weir_flow::ipv6::Chain;
use weir_flow::samples::Sampler;
use weir_flow::{Field, Key, Layout, Mask, PACKET_BITS, WORDS, extract};
use weir_packet::{DropReason, Frame};
use weir_wire::checksum::{fold, sum};
use weir_wire::crc32c::crc32c;

/// A packet with its layout and key.
#[derive(Clone, Debug, PartialEq)]
struct Packet<F = Vec<u8>> {
    frame: F,
    layout: Layout,
    key: Key,
}

impl<F: Frame> Packet<F> {
    fn new(frame: F) -> Self {
        let mut key = Key::new();
        let layout = extract(frame.bytes(), 7, &mut key);
        Self { frame, layout, key }
    }

    fn apply(&mut self, edit: &Edit) -> Result<(), DropReason> {
        apply_to(&mut self.frame, &mut self.layout, &mut self.key, edit)
    }

    fn get<const N: usize>(&self, fields: [Field; N]) -> [u128; N] {
        fields.map(|field| field.get(&self.key))
    }

    /// Key and layout are those of the frame; what is not the packet's is as in `before`.
    fn is_in_step(&self, before: &Key) -> bool {
        let mut key = Key::new();
        let layout = extract(self.frame.bytes(), 0, &mut key);
        let same = |place: usize| {
            let packet = PACKET_BITS.get(place).copied().unwrap_or(0);
            let expected = (key.word(place) & packet) | (before.word(place) & !packet);
            self.key.word(place) == expected
        };
        layout == self.layout && (0..WORDS).all(same)
    }

    /// By how much the IPv4 header's checksum is wrong, and the transport header's: 0 where it is right,
    /// nothing where there is none.
    fn wrong(&self) -> (Option<u32>, Option<u32>) {
        let (bytes, layout) = (self.frame.bytes(), self.layout);
        if layout.network == 0 || !matches!(Field::EthType.get(&self.key), 0x0800 | 0x86dd) {
            return (None, None);
        }
        let off = |total: u32| 0xffff - u32::from(fold(total));
        let network = usize::from(layout.network);
        let [ether_type, protocol] = self.get([Field::EthType, Field::NwProto]);
        let ihl = usize::from(bytes[network] & 0xf) * 4;
        let header = (ether_type == 0x0800).then(|| off(sum(&bytes[network..network + ihl])));
        if layout.transport == 0 {
            return (header, None);
        }
        let body = &bytes[usize::from(layout.transport)..usize::from(layout.end)];
        let packet = &bytes[..usize::from(layout.end)];
        let chain = Chain::walk(packet, network + 40, bytes[network + 6]);
        let addresses = match ether_type {
            0x0800 => sum(&bytes[network + 12..network + 20]),
            // Its checksum is about an address in the routing header: see `rewrites`.
            _ if chain.unwrap().routed => return (header, None),
            _ => sum(&bytes[network + 8..network + 40]),
        };
        let pseudo = addresses + body.len() as u32 + protocol as u32;
        let transport = match protocol {
            1 => Some(off(sum(body))),
            17 if body[6..8] == [0, 0] => None,
            6 | 17 | 58 => Some(off(pseudo + sum(body))),
            132 => {
                let found = u32::from_le_bytes(body[8..12].try_into().unwrap());
                let mut copy = body.to_vec();
                copy[8..12].fill(0);
                Some(found ^ crc32c(&copy))
            }
            _ => None,
        };
        (header, transport)
    }
}

#[derive(Clone, Debug)]
enum Edit {
    Rewrite(Box<(Rewrite, Key, Mask)>),
    DecTtl,
    DecMplsTtl,
    CopyTtlOut,
    CopyTtlIn,
    PushVlan(u16),
    PopVlan,
    PushMpls(u16),
    PopMpls(u16),
    PushPbb(u16),
    PopPbb,
    SetEtherType(u16),
    SetBottom(bool),
    SetProtocol(u8),
}

impl Edit {
    /// Whether what follows is something else afterwards.
    fn says_what_follows(&self) -> bool {
        matches!(self, Self::SetEtherType(_) | Self::SetBottom(_) | Self::SetProtocol(_))
    }
}

fn apply_to<F: Frame + ?Sized>(
    frame: &mut F,
    layout: &mut Layout,
    key: &mut Key,
    edit: &Edit,
) -> Result<(), DropReason> {
    match edit {
        Edit::Rewrite(rewrite) => rewrite.0.apply(frame, layout, key),
        Edit::DecTtl => edit::dec_ttl(frame, layout, key),
        Edit::DecMplsTtl => edit::dec_mpls_ttl(frame, layout, key),
        Edit::CopyTtlOut => edit::copy_ttl_out(frame, layout, key),
        Edit::CopyTtlIn => edit::copy_ttl_in(frame, layout, key),
        Edit::PushVlan(tpid) => edit::push_vlan(frame, layout, key, *tpid),
        Edit::PopVlan => edit::pop_vlan(frame, layout, key),
        Edit::PushMpls(ether_type) => edit::push_mpls(frame, layout, key, *ether_type),
        Edit::PopMpls(ether_type) => edit::pop_mpls(frame, layout, key, *ether_type),
        Edit::PushPbb(ether_type) => edit::push_pbb(frame, layout, key, *ether_type),
        Edit::PopPbb => edit::pop_pbb(frame, layout, key),
        Edit::SetEtherType(ether_type) => edit::set_ether_type(frame, layout, key, *ether_type),
        Edit::SetBottom(bottom) => edit::set_bottom(frame, layout, key, *bottom),
        Edit::SetProtocol(protocol) => edit::set_protocol(frame, layout, key, *protocol),
    }
}

/// A rewrite that sets these fields.
fn setting(fields: &[(Field, u128)]) -> Edit {
    let (mut value, mut mask) = (Key::new(), Mask::new());
    for &(field, number) in fields {
        field.set(&mut value, number);
        field.examine(&mut mask, u128::MAX);
    }
    rewrite(value, mask)
}

fn rewrite(value: Key, mask: Mask) -> Edit {
    Edit::Rewrite(Box::new((Rewrite::compile(&value, &mask), value, mask)))
}

/// Fields of a packet with these prerequisites, about.
fn fields_of(key: &Key) -> &'static [Field] {
    use Field::*;
    match (EthType.get(key), NwProto.get(key)) {
        (0x0800, 1) => {
            &[EthDst, EthSrc, NwSrc, NwDst, NwTos, NwEcn, NwTtl, IcmpType, IcmpCode, VlanVid, Reg3]
        }
        (0x0800, _) => {
            &[EthDst, EthSrc, NwSrc, NwDst, NwTos, NwEcn, NwTtl, TcpSrc, TcpDst, VlanPcp, Metadata]
        }
        (0x86dd, 58) => &[
            EthDst, Ipv6Src, Ipv6Dst, Ipv6Label, NwTos, NwTtl, Icmpv6Type, Icmpv6Code, NdTarget, NdSll,
            NdTll, VlanTci,
        ],
        (0x86dd, _) => &[EthSrc, Ipv6Src, Ipv6Dst, Ipv6Label, NwTos, NwEcn, NwTtl, UdpSrc, UdpDst, VlanTci],
        (0x0806 | 0x8035, _) => &[EthDst, ArpOp, ArpSpa, ArpTpa, ArpSha, ArpTha, InPort, CtMark],
        (0x8847 | 0x8848, _) => &[EthDst, MplsLabel, MplsTc, MplsTtl, VlanTci, Xxreg1],
        (0x88e7, _) => &[EthDst, PbbIsid, VlanTci, SfMetadata],
        _ => &[EthDst, EthSrc, VlanTci, TunId, CtLabel],
    }
}

/// Some masked fields, mostly such as the packet has.
fn random_fields(sampler: &mut Sampler, key: &Key) -> (Key, Mask) {
    let (mut value, mut mask) = (Key::new(), Mask::new());
    for _ in 0..=sampler.below(4) {
        let field = if sampler.one_in(20) {
            Field::ALL[sampler.below(Field::ALL.len())]
        } else {
            sampler.pick(fields_of(key))
        };
        let random = |sampler: &mut Sampler| u128::from(sampler.bits()) << 64 | u128::from(sampler.bits());
        let number = match field {
            Field::Icmpv6Type if sampler.one_in(2) => 135,
            Field::VlanTci | Field::VlanVid if !sampler.one_in(4) => random(sampler) | 0x1000,
            _ if sampler.one_in(8) => sampler.pick(&[0, 1, u128::MAX]),
            _ => random(sampler),
        };
        let bits = if sampler.one_in(3) { random(sampler) } else { u128::MAX };
        field.set_masked(&mut value, number, bits);
        field.examine(&mut mask, bits);
    }
    (value, mask)
}

fn random_edit(sampler: &mut Sampler, key: &Key) -> Edit {
    match sampler.below(22) {
        0 => Edit::DecTtl,
        1 => Edit::DecMplsTtl,
        2 => Edit::CopyTtlOut,
        3 => Edit::CopyTtlIn,
        4 => Edit::PushVlan(sampler.pick(&[0x8100, 0x88a8, 0x8100, 0x9100])),
        5 | 6 => Edit::PopVlan,
        7 => Edit::PushMpls(sampler.pick(&[0x8847, 0x8848])),
        8 => Edit::PopMpls(sampler.pick(&[0x8847, 0x0800, 0x0800, 0x86dd, 0x0806, 5])),
        9 => Edit::PushPbb(0x88e7),
        10 => Edit::PopPbb,
        11 => Edit::SetEtherType(sampler.pick(&[0x0800, 0x86dd, 0x0806, 0x8847, 0x1234])),
        12 if sampler.one_in(2) => Edit::SetBottom(sampler.one_in(2)),
        12 => Edit::SetProtocol(sampler.pick(&[1, 6, 17, 58, 132, 200])),
        _ => {
            let (value, mask) = random_fields(sampler, key);
            rewrite(value, mask)
        }
    }
}
