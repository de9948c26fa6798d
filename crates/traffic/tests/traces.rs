//! The named traces: counts, addresses, checksums, sizes, seeds.

use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_traffic::stamp::{Stamp, StampSlot};
use weir_traffic::trace::synthetic::LEAST_PORT;
use weir_traffic::trace::{
    Direction, FrameTable, Laps, Sizes, TAIL, TraceInfo, TraceOptions, TraceSpec, VlanChange,
};
use weir_units::FrameSize;
use weir_wire::stamp::Key;
use weir_wire::{Dissection, EthernetView, Ipv4View, ipv4};

const NFPA: [&str; 8] = ["simple", "tr2e", "tr2i", "tr3e", "tr3i", "tr4e", "tr5ul", "tr5dl"];

fn spec(name: &str) -> TraceSpec {
    TraceSpec::parse(name).unwrap()
}

fn table(name: &str) -> FrameTable {
    spec(name).build_table().unwrap()
}

fn size(bytes: u32) -> FrameSize {
    FrameSize::new(bytes).unwrap()
}

#[test]
fn every_named_trace_holds_what_its_paper_counts_in_both_directions() {
    for name in NFPA.into_iter().chain(["t3", "flows:777", "flows:123456"]) {
        for direction in Direction::BOTH {
            let info = TraceInfo::of(&spec(name).direction(direction)).unwrap();
            assert!(info.checks.len() >= 3, "{name}: nothing was checked");
            assert!(info.is_as_claimed(), "{name} {direction:?}: {:#?}", info.checks);
            assert_eq!(info.stampable, info.packets, "{name}");
        }
    }
}

#[test]
fn the_uplink_and_downlink_traces_are_the_paper_s_two() {
    let up = TraceInfo::of(&spec("tr5ul")).unwrap();
    assert_eq!((up.flows, up.source_addresses, up.destination_addresses), (64_500, 64_500, 6_450));
    let down = TraceInfo::of(&spec("tr5dl")).unwrap();
    assert_eq!((down.flows, down.source_addresses, down.destination_addresses), (64_500, 6_450, 1));
    assert_eq!(down.source_ports, 10, "ten flows a source, told apart by their ports");
}

#[test]
fn softflow_s_t2_has_the_paper_s_conversations() {
    let info = TraceInfo::of(&spec("t2")).unwrap();
    assert!(info.is_as_claimed(), "{:#?}", info.checks);
    assert_eq!((info.conversations.tcp, info.conversations.udp), (100_000, 75_000));
    assert_eq!((info.conversations.median, info.conversations.max, info.addresses), (10, 99_000, 11_000));
    assert!((info.conversations.mean - 42.0).abs() < 0.01, "{}", info.conversations.mean);
    assert_eq!((info.frame_sizes.min, info.frame_sizes.max), (64, 64));
}

#[test]
fn every_nfpa_size_is_made_as_asked() {
    for bytes in Sizes::NFPA.into_iter().chain([65, 68, 1518, 9022]) {
        let spec = spec("tr2i").sizes(size(u32::from(bytes)));
        let table = spec.build_table().unwrap();
        assert_eq!(table.uniform_len(), Some(bytes - 4), "in memory: without FCS");
        assert!((table.mean_frame_bytes() - f64::from(bytes)).abs() < 1e-9);
        let frame = table.frame(3);
        assert_eq!(frame.len(), usize::from(bytes) - 4);
        assert_eq!(frame.tail, &TAIL[..frame.len().saturating_sub(64)]);
        assert!(TraceInfo::of_table(&spec, &table).is_as_claimed());
    }
}

#[test]
fn mixes_keep_their_shares_and_every_flow() {
    for (name, flows) in [("simple", 1), ("tr3i", 10_000), ("t3", 32)] {
        for mix in ["imix", "web", "gateway"] {
            let info = TraceInfo::of(&spec(name).sizes(mix.parse::<Sizes>().unwrap())).unwrap();
            assert_eq!(info.flows, flows, "{name} {mix}");
            assert!(info.is_as_claimed(), "{name} {mix}: {:#?}", info.checks);
        }
    }
}

#[test]
fn addresses_follow_rfc_2544_and_the_reverse_direction_mirrors_every_frame() {
    for name in ["tr3i", "tr5ul", "tr2e", "flows:60000", "t3"] {
        let forward = table(name);
        let reverse = spec(name).direction(Direction::Reverse).build_table().unwrap();
        assert_eq!(forward.len(), reverse.len());
        for i in (0..forward.len()).step_by(97) {
            let (there, back) = (forward.frame(i).to_vec(), reverse.frame(i).to_vec());
            let (a, b) = (Dissection::of(&there), Dissection::of(&back));
            let (a_net, b_net) = (a.network.unwrap(), b.network.unwrap());
            let IpAddr::V4(source) = a_net.source else { panic!() };
            let IpAddr::V4(destination) = a_net.destination else { panic!() };
            assert_eq!(
                (source.octets()[..2].to_vec(), destination.octets()[..2].to_vec()),
                (vec![198, 18], vec![198, 19])
            );
            assert_eq!((a_net.source, a_net.destination), (b_net.destination, b_net.source));
            let (a_l4, b_l4) = (a.transport.unwrap(), b.transport.unwrap());
            assert_eq!((a_l4.source, a_l4.destination), (b_l4.destination, b_l4.source));
            assert!(a_l4.source >= LEAST_PORT && a_l4.destination >= LEAST_PORT);
            let (a_eth, b_eth) =
                (EthernetView::checked(&there).unwrap(), EthernetView::checked(&back).unwrap());
            assert_eq!((a_eth.source(), a_eth.destination()), (b_eth.destination(), b_eth.source()));
            assert!(a_eth.source().is_local() && a_eth.destination().is_local());
            assert!(!a_eth.source().is_multicast() && !a_eth.destination().is_multicast());
        }
    }
}

#[test]
fn any_equal_split_of_the_range_gets_equal_shares_of_the_addresses() {
    for (name, addresses) in [("tr2i", 100), ("tr3i", 10_000), ("flows:50000", 50_000)] {
        let table = table(name);
        for prefixes in [2_usize, 10, 16, 256] {
            let mut shares = BTreeMap::new();
            for i in 0..table.len() {
                let frame = table.frame(i).to_vec();
                let destination = Ipv4View::checked(&frame[14..]).unwrap().destination().octets();
                let host = usize::from(u16::from_be_bytes([destination[2], destination[3]]));
                *shares.entry(host * prefixes / 65_536).or_insert(0_usize) += 1;
            }
            let fair = addresses / prefixes;
            for share in shares.values() {
                assert!(
                    share.abs_diff(fair) <= 2,
                    "{name} over {prefixes} prefixes: {share}, fair is {fair}"
                );
            }
        }
    }
}

#[test]
fn every_frame_has_right_checksums_and_the_slot_the_table_says() {
    for name in ["simple", "tr3e", "tr5dl", "t2", "t1"] {
        for direction in Direction::BOTH {
            let table = spec(name).direction(direction).build_table().unwrap();
            let step = (table.distinct() / 2_000).max(1);
            for index in (0..table.distinct()).step_by(step) {
                let frame = table.distinct_frame(index).to_vec();
                check_frame(name, &frame);
            }
            for i in (0..table.len()).step_by((table.len() / 2_000).max(1)) {
                assert_eq!(table.slot(i), StampSlot::of(&table.frame(i).to_vec()), "{name} packet {i}");
            }
        }
    }
}

fn check_frame(name: &str, frame: &[u8]) {
    let view = Ipv4View::checked(&frame[14..]).unwrap();
    assert!(view.checksum_is_right(), "{name}");
    let segment = view.payload();
    let pseudo = weir_wire::checksum::pseudo_ipv4(
        view.source(),
        view.destination(),
        view.protocol(),
        segment.len() as u16,
    );
    assert!([ipv4::TCP, ipv4::UDP].contains(&view.protocol()), "{name}");
    let sum = weir_wire::checksum::finish(pseudo + weir_wire::checksum::sum(segment));
    assert_eq!(sum, 0, "{name}: L4 checksum");
    assert!(view.protocol() != ipv4::UDP || segment[6..8] != [0, 0], "{name}: zero means none");
}

#[test]
fn the_same_seed_makes_the_same_bytes_and_another_seed_others() {
    for (name, sizes) in [("tr3i", "64"), ("tr2i", "imix"), ("simple", "web"), ("t2", "64")] {
        let spec = spec(name).sizes(sizes.parse::<Sizes>().unwrap());
        let first = spec.build_table().unwrap();
        assert_eq!(first, spec.build_table().unwrap(), "{name}");
        assert_eq!(first.hash(), spec.build().unwrap().trace_hash(), "{name}");
        let other = spec.clone().seed(7).build_table().unwrap();
        assert_ne!(first.hash(), other.hash(), "{name}");
    }
    // A change to these bytes makes stored runs incomparable: it must be meant.
    let hash = table("tr3i").hash().to_string();
    assert_eq!(hash, "a30186d4395d745cd8e47c55b866fdbfdee71c53a5eb5aee9fd5f8e366deb631");
}

/// In order, and each once.
fn sorted(pairs: impl Iterator<Item = (u32, u32)>) -> Vec<(u32, u32)> {
    let mut pairs: Vec<(u32, u32)> = pairs.collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

#[test]
fn a_chosen_seed_moves_all_addresses_and_keeps_the_shares_of_prefixes_and_the_answers() {
    // Source and destination, as numbers: of a million flows there are as many.
    let bits = |address| match address {
        IpAddr::V4(v4) => v4.to_bits(),
        IpAddr::V6(_) => panic!("{address}"),
    };
    for name in ["flows:10000", "tr2i", "tcp:1000", "t2"] {
        let pairs = |seed, direction| {
            let table = spec(name).seed(seed).direction(direction).build_table().unwrap();
            let pair = |place| {
                let network = Dissection::of(&table.frame(place).to_vec()).network.unwrap();
                (bits(network.source), bits(network.destination))
            };
            sorted((0..table.len()).map(pair))
        };
        let (usual, moved) = (pairs(1, Direction::Forward), pairs(7, Direction::Forward));
        assert!(
            usual == pairs(TraceSpec::DEFAULT_SEED, Direction::Forward),
            "{name}: plans have it as usual"
        );
        assert_eq!(usual.len(), moved.len(), "{name}");
        assert!(usual != moved, "{name}");
        let is_in = |address: u32, network: [u8; 2]| address.to_be_bytes()[..2] == network;
        assert!(moved.iter().all(|flow| is_in(flow.0, [198, 18]) && is_in(flow.1, [198, 19])), "{name}");
        let back = sorted(moved.iter().map(|flow| (flow.1, flow.0)));
        assert!(pairs(7, Direction::Reverse) == back, "{name}: both directions are moved alike");
    }
    // Evenly spread hosts stay so: sixteen prefixes have 625 of 10,000 each.
    let mut shares = [0; 16];
    flows("flows:10000", 7).iter().for_each(|flow| match flow.1 {
        IpAddr::V4(v4) => shares[usize::from(v4.octets()[2] >> 4)] += 1,
        IpAddr::V6(_) => panic!("{flow:?}"),
    });
    assert!(shares.iter().all(|share| (624..=626).contains(share)), "{shares:?}");
}

#[test]
fn a_trace_sent_once_ends_and_an_endless_one_starts_again() {
    let mut once =
        spec("tr2i").options(TraceOptions { laps: Laps::Once, ..Default::default() }).build().unwrap();
    assert_eq!(std::iter::from_fn(|| once.next_frame().map(|frame| frame.head.len())).count(), 100);
    let mut endless = spec("tr2i").build().unwrap();
    let first = endless.next_frame().unwrap().head.to_vec();
    (0..99).for_each(|_| assert!(endless.next_frame().is_some()));
    assert_eq!(endless.next_frame().unwrap().head, first);
}

#[test]
fn options_change_every_frame_and_impossible_ones_are_refused() {
    let mac = "02:aa:00:00:00:09".parse().unwrap();
    let options =
        TraceOptions { destination_mac: Some(mac), vlan: Some(VlanChange::Set(7)), ..Default::default() };
    let table = spec("tr2i").options(options.clone()).build_table().unwrap();
    let frame = table.frame(5).to_vec();
    assert_eq!(EthernetView::checked(&frame).unwrap().destination(), mac);
    assert_eq!((Dissection::of(&frame).tags, frame.len()), (1, 60), "the frame keeps its size");
    assert!(Ipv4View::checked(&frame[18..]).unwrap().checksum_is_right());
    assert_eq!(table.slot(5), StampSlot::None, "14 bytes of payload hold no stamp");

    let refused =
        |name: &str, options: TraceOptions| spec(name).options(options).build().unwrap_err().to_string();
    assert!(refused("tr3e", options).contains("destination MAC would make all flows one"));
    let vlan = |vlan| TraceOptions { vlan: Some(vlan), ..Default::default() };
    assert!(refused("simple", vlan(VlanChange::Push(4095))).contains("4095 is no VLAN; write 1 to 4094"));
    assert!(refused("simple", vlan(VlanChange::Pop)).contains("for captures"));
    let moved = TraceOptions::default().into_test_network(Direction::Forward);
    assert!(refused("simple", moved).contains("for captures"));
}

#[test]
fn unknown_names_and_sizes_say_what_there_is() {
    let error = |text: &str| TraceSpec::parse(text).unwrap_err().to_string();
    assert!(error("tr3l").contains("did you mean `tr3"), "{}", error("tr3l"));
    assert!(error("simpel").contains("did you mean `simple`?"));
    assert!(error("nothing-like-it").contains("simple, tr2e, tr2i"));
    assert!(!error("nothing-like-it").contains("did you mean"));
    for text in ["flows:0", "flows:1000001", "flows:", "flows:x"] {
        assert!(error(text).contains("N from 1 to 1000000"), "{text}: {}", error(text));
    }
    assert_eq!(TraceSpec::parse("flows:10k").unwrap(), spec("flows:10000"));
    let refused = |name: &str, sizes: &str| {
        spec(name).sizes(sizes.parse::<Sizes>().unwrap()).build().unwrap_err().to_string()
    };
    assert!(refused("t2", "128").contains("trace t2 has frames of its own (64)"));
    assert!(refused("t1", "64").contains("recorded"));
    assert!(refused("simple", "recorded").contains("64 to 9022, imix or web"));
}

#[test]
fn two_names_make_two_directions() {
    let [up, down] = TraceSpec::parse_pair("tr5ul|tr5dl").unwrap();
    assert_eq!((up.name.to_string(), up.direction), ("tr5ul".into(), Direction::Forward));
    assert_eq!((down.name.to_string(), down.direction), ("tr5dl".into(), Direction::Reverse));
    assert!(TraceSpec::parse_pair("tr5ul|nope").is_err());
}

/// A key of its own, not the process's: by chance one of 65,536 unstamped frames reads as stamped under any key, and under
/// this one none of these does.
const KEY: Key = Key::new([
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
]);

#[test]
fn no_unstamped_frame_looks_stamped() {
    for name in ["tr2i", "t2"] {
        let table = table(name);
        for index in (0..table.distinct()).step_by((table.distinct() / 5_000).max(1)) {
            assert_eq!(Stamp::read(&table.distinct_frame(index).to_vec(), &KEY), None, "{name}");
        }
    }
    for bytes in 82..600 {
        let frame = spec("simple").sizes(size(bytes)).build_table().unwrap().frame(0).to_vec();
        assert_eq!(Stamp::read(&frame, &KEY), None, "{bytes}");
    }
}

/// Source and destination address and port of each packet, in order.
fn flows(name: &str, seed: u64) -> Vec<(IpAddr, IpAddr, u16)> {
    let table = spec(name).seed(seed).build_table().unwrap();
    let flow = |place| {
        let frame = table.frame(place).to_vec();
        let network = Dissection::of(&frame).network.unwrap();
        (network.source, network.destination, u16::from_be_bytes([frame[34], frame[35]]))
    };
    (0..table.len()).map(flow).collect()
}

#[test]
fn shuffled_laps_hold_every_flow_once_in_an_order_of_their_own() {
    let packets = flows("shuffled:5000", 1);
    let laps: Vec<_> = packets.chunks(5000).collect();
    assert_eq!(laps.len(), 26, "what fits 131,072 packets");
    let sorted = |lap: &[(IpAddr, IpAddr, u16)]| {
        let mut lap = lap.to_vec();
        lap.sort();
        lap
    };
    for pair in laps.windows(2) {
        assert_eq!(sorted(pair[0]), sorted(pair[1]));
        assert_ne!(pair[0], pair[1]);
    }
    assert_ne!(packets, flows("shuffled:5000", 2), "another seed draws other orders");
    assert_eq!(flows("shuffled:65536", 1).len(), 2 * 65_536);
}

#[test]
fn popularity_follows_zipfs_law() {
    let mut counts: BTreeMap<(IpAddr, IpAddr, u16), f64> = BTreeMap::new();
    let packets = flows("zipf:1000", 1);
    packets.iter().for_each(|flow| *counts.entry(*flow).or_default() += 1.0);
    let mut counts: Vec<f64> = counts.into_values().collect();
    counts.sort_by(|a, b| b.total_cmp(a));
    let sum: f64 = (1..=1000).map(|rank| 1.0 / f64::from(rank)).sum();
    for rank in [1, 2, 10, 100] {
        let due = packets.len() as f64 / sum / rank as f64;
        let is = counts[rank - 1];
        assert!((is / due - 1.0).abs() < 0.15, "rank {rank}: {is} where {due} are due");
    }
}

#[test]
fn each_lap_has_the_same_addresses_and_other_ports() {
    let packets = flows("newports:3000", 1);
    let laps: Vec<_> = packets.chunks(3000).collect();
    assert_eq!(laps.len(), 43);
    for (one, next) in laps[0].iter().zip(laps[1]) {
        assert_eq!((one.0, one.1), (next.0, next.1));
        assert_ne!(one.2, next.2);
    }
    let info = TraceInfo::of(&spec("newports:3000")).unwrap();
    assert!(info.is_as_claimed(), "{:#?}", info.checks);
}

#[test]
fn tcp_connections_are_opened_and_ended() {
    let table = table("tcp:500");
    let mut flags: BTreeMap<(IpAddr, u16), Vec<u8>> = BTreeMap::new();
    for place in 0..table.len() {
        let frame = table.frame(place).to_vec();
        let network = Dissection::of(&frame).network.unwrap();
        let port = u16::from_be_bytes([frame[34], frame[35]]);
        flags.entry((network.source, port)).or_default().push(frame[47]);
    }
    assert_eq!(flags.len(), 500);
    for packets in flags.values() {
        assert_eq!(packets.len(), 10);
        assert_eq!((packets[0], packets[9]), (0x02, 0x11), "SYN first, FIN and ACK last");
        assert!(packets[1..9].iter().all(|flags| *flags == 0x10));
    }
    let info = TraceInfo::of(&spec("tcp:500")).unwrap();
    assert!(info.is_as_claimed(), "{:#?}", info.checks);
    for (name, says) in [("tcp:20001", "20000"), ("shuffled:65537", "65536"), ("zipf:0", "number of flows")] {
        let why = TraceSpec::parse(name).unwrap_err().to_string();
        assert!(why.contains(says), "{name}: {why}");
    }
}
