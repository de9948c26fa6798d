//! `rules:N`: packets that hit the entries of a flow table of a user's own.
//!
//! Entries are taken round in an order drawn by the seed, so that each is hit when there are as many flows as
//! entries. A packet has the bits that its entry demands; of the rest, addresses are hosts of the test network
//! (RFC 2544), ports 1024 and above, drawn; bits behind a mask are a corner of the entry (all zeros or all ones)
//! or drawn, a third each, as ClassBench's trace generator picks corners. An entry of a higher priority may take
//! the packet: the reference knows. Entries that demand another input port, or a register or metadata, which no
//! packet brings, are hit as far as the rest of their match goes.
//!
//! A packet that the table sends back out of the side it came in by is left out: at the wire the tester takes it for
//! one that nobody sent.
//!
//! How often a packet's flow was seen before is the number's affair: with more flows than a device's caches hold
//! every packet is of a flow that they forgot; with few, flows repeat.

use super::synthetic::{PORT_0_MAC, PORT_1_MAC, TTL, destination_address, source_address};
use super::table::TableBuilder;
use super::{Direction, FrameTable, Sizes, TraceError, TraceSpec};
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use weir_flow::{Field, Key, compose, ones};
use weir_trial::{Expected, FlowEntry, Oracle};
use weir_units::FCS_BYTES;
use weir_wire::{EtherType, ipv4};

/// Hosts of each side that packets are drawn from.
const HOSTS: u32 = 65_534;

/// Draws for each flow before the table is taken to send nearly everything back.
const DRAWS: u64 = 64;

/// Fields of a packet that its entry may leave open, and that are drawn then.
const ADDRESSED: [Field; 4] = [Field::NwSrc, Field::NwDst, Field::TcpSrc, Field::TcpDst];

/// Builds a trace of so many flows.
pub(super) fn build(spec: &TraceSpec, flows: u32) -> Result<FrameTable, TraceError> {
    let refuse = |reason: &str| TraceError::Option {
        name: spec.name.to_string(),
        option: "flow table",
        reason: reason.to_owned(),
    };
    let tables = spec.tables.and_then(|nf| Some((nf, nf.flow_file()?)));
    let (nf, file) =
        tables.ok_or_else(|| refuse("is that of a plan's function; write nf = \"flows:FILE\""))?;
    let Sizes::Fixed(size) = spec.sizes else { return Err(spec.wrong_sizes("64 to 9022")) };
    let port = spec.direction.index() as u128 + 1;
    let comes_in = |entry: &&FlowEntry| {
        let (value, mask) = entry.flow.matching.field(Field::InPort);
        mask == 0 || value == port
    };
    let mut entries: Vec<&FlowEntry> = file.entries().iter().filter(comes_in).collect();
    if entries.is_empty() {
        return Err(refuse(&format!("has no entry for packets that come in by port {port}")));
    }
    let mut random = ChaCha8Rng::seed_from_u64(spec.seed ^ port as u64);
    entries.shuffle(&mut random);
    let mut builder = TableBuilder::with_own_bytes();
    let room = usize::from(size.bytes() - FCS_BYTES);
    let (oracle, side) = (Oracle::new(nf), spec.direction.index() as u8);
    let (mut left, mut tries) = (flows, DRAWS.saturating_mul(u64::from(flows)).max(entries.len() as u64));
    for entry in entries.iter().cycle() {
        let key = packet(entry, spec.direction, &mut random);
        let payload = vec![0; room];
        let headers = compose(&key, &payload).len().saturating_sub(room);
        let frame = compose(&key, &payload[..room.saturating_sub(headers)]);
        let comes_back =
            matches!(oracle.expected(side, &frame), Expected::Forward { port, .. } if port == side);
        if !comes_back {
            builder.push_frame(&frame);
            left -= 1;
        }
        tries -= 1;
        if left == 0 {
            break;
        }
        if tries == 0 {
            return Err(refuse(&format!("sends nearly all packets of port {port} back out of port {port}")));
        }
    }
    Ok(builder.build().expect("a trace has at least one flow"))
}

/// The fields of a packet that an entry matches.
fn packet(entry: &FlowEntry, direction: Direction, random: &mut ChaCha8Rng) -> Key {
    let (value, mask) = (entry.flow.matching.key(), entry.flow.matching.mask());
    let mut key = Key::new();
    let [to, from] = match direction {
        Direction::Forward => [PORT_1_MAC, PORT_0_MAC],
        Direction::Reverse => [PORT_0_MAC, PORT_1_MAC],
    };
    let mac = |mac: weir_wire::MacAddress| mac.0.iter().fold(0, |bits, byte| bits << 8 | u128::from(*byte));
    let mut source = u128::from(source_address(random.random_range(0..HOSTS), HOSTS).to_bits());
    let mut destination = u128::from(destination_address(random.random_range(0..HOSTS), HOSTS).to_bits());
    if direction == Direction::Reverse {
        std::mem::swap(&mut source, &mut destination);
    }
    let mut port = || u128::from(random.random_range(1024..=u16::MAX));
    let open = [
        (Field::EthDst, mac(to)),
        (Field::EthSrc, mac(from)),
        (Field::EthType, u128::from(EtherType::IPV4.0)),
        (Field::NwProto, u128::from(ipv4::UDP)),
        (Field::NwTtl, u128::from(TTL)),
        (Field::NwSrc, source),
        (Field::NwDst, destination),
        (Field::TcpSrc, port()),
        (Field::TcpDst, port()),
    ];
    open.iter().for_each(|(field, value)| field.set(&mut key, *value));
    for field in Field::ALL.iter().copied().filter(|field| field.is_owner()) {
        let demanded = field.mask_of(&mask);
        if demanded == 0 {
            continue;
        }
        field.set_masked(&mut key, field.get(&value), demanded);
        let rest = ones(field.bits()) & !demanded;
        if ADDRESSED.contains(&field) && rest != 0 {
            let corner = match random.random_range(0..3_u32) {
                0 => 0,
                1 => rest,
                _ => u128::from(random.random::<u64>()) & rest,
            };
            field.set_masked(&mut key, corner, rest);
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceName;
    use weir_trial::{FlowFile, Nf};
    use weir_units::FrameSize;

    const FLOWS: &str = "in_port=1,priority=9,udp,tp_dst=53,actions=output:2\n\
                         in_port=1,priority=8,tcp,nw_dst=10.1.0.0/16,tp_src=0x400/0xfc00,actions=output:2\n\
                         in_port=2,priority=8,icmp,nw_src=192.0.2.0/24,icmp_type=8,actions=output:1\n\
                         in_port=2,priority=7,dl_vlan=100,ip,nw_proto=47,actions=output:1\n\
                         in_port=2,priority=6,udp,tp_src=9,actions=in_port\n\
                         in_port=1,priority=6,arp,arp_op=1,actions=output:2\n";

    fn nf() -> Nf {
        Nf::Flows(FlowFile::of("rules", "rules", FLOWS.to_owned()).unwrap())
    }

    fn spec(flows: u32, direction: Direction) -> TraceSpec {
        TraceSpec::of(TraceName::Rules(flows)).over(nf()).direction(direction)
    }

    #[test]
    fn every_packet_is_as_long_as_asked_and_hits_an_entry() {
        let oracle = Oracle::new(nf());
        for (direction, lines) in [(Direction::Forward, 3), (Direction::Reverse, 2)] {
            for size in [64, 512] {
                let table = spec(300, direction).sizes(FrameSize::new(size).unwrap()).build_table().unwrap();
                let mut kinds = std::collections::BTreeSet::new();
                for place in 0..table.len() {
                    let frame = table.frame(place).to_vec();
                    let expected = oracle.expected(direction.index() as u8, &frame);
                    let to = 1 - direction.index() as u8;
                    assert!(
                        matches!(expected, Expected::Forward { port, .. } if port == to),
                        "{frame:02x?}: {expected:?}"
                    );
                    // ARP has no payload.
                    let is_arp = frame[12..14] == [8, 6];
                    assert_eq!(frame.len(), if is_arp { 60 } else { size as usize - 4 });
                    kinds.insert(if is_arp { [8, 6, 0] } else { [frame[12], frame[13], frame[23]] });
                }
                assert_eq!(kinds.len(), lines, "{kinds:?}");
            }
        }
    }

    #[test]
    fn one_seed_has_one_trace_and_a_file_without_entries_for_a_side_is_refused() {
        let hash = |seed| spec(100, Direction::Forward).seed(seed).build_table().unwrap().hash();
        assert_eq!(hash(1), hash(1));
        assert_ne!(hash(1), hash(2));
        let one = FlowFile::of("one", "one", "in_port=1,actions=output:2\n".to_owned()).unwrap();
        let reverse = TraceSpec::of(TraceName::Rules(1)).over(Nf::Flows(one)).direction(Direction::Reverse);
        assert!(reverse.build_table().unwrap_err().to_string().contains("port 2"));
        let without = TraceSpec::of(TraceName::Rules(1)).build_table().unwrap_err().to_string();
        assert!(without.contains("flows:FILE"), "{without}");
        let back = FlowFile::of("back", "back", "actions=in_port\n".to_owned()).unwrap();
        let back = TraceSpec::of(TraceName::Rules(1)).over(Nf::Flows(back)).build_table().unwrap_err();
        assert!(back.to_string().contains("back out of port 1"), "{back}");
        assert!(TraceName::Rules(1).suits(Nf::L2Fwd).is_err());
        assert!(TraceName::Rules(1).suits(nf()).is_ok());
    }
}
