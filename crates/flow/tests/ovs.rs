//! Open vSwitch reads the same fields out of the same frames (`ovs-ofctl parse-pcap`).
//!
//! Skipped, and said to be, where it is not installed (`./x setup --peers` does); an error in CI.

use std::fs::File;
use std::io::BufWriter;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;
use weir_flow::samples::Sampler;
use weir_flow::span::{CUT, INNER_TCI, INNER_TPID, OUTER_TPID, PORTS, SECOND_LABEL, THIRD_LABEL};
use weir_flow::{Field, Key, extract};
use weir_units::Nanos;
use weir_wire::MacAddress;
use weir_wire::pcap::{CaptureWriter, Format};

const FRAMES: usize = 40_000;

const IGMP: u128 = 2;

/// Whether it is here.
fn installed() -> bool {
    weir_testkit::needs!(weir_testkit::Need::Program("ovs-ofctl", "openvswitch-switch"))
}

/// EtherType and IP protocol of a word that stands for both.
fn kind(word: &str) -> Option<(u128, u128)> {
    Some(match word {
        "ip" => (0x0800, 0),
        "icmp" => (0x0800, 1),
        "igmp" => (0x0800, 2),
        "tcp" => (0x0800, 6),
        "udp" => (0x0800, 17),
        "sctp" => (0x0800, 132),
        "ipv6" => (0x86dd, 0),
        "tcp6" => (0x86dd, 6),
        "udp6" => (0x86dd, 17),
        "icmp6" => (0x86dd, 58),
        "sctp6" => (0x86dd, 132),
        "arp" => (0x0806, 0),
        "rarp" => (0x8035, 0),
        "mpls" => (0x8847, 0),
        "mplsm" => (0x8848, 0),
        _ => return None,
    })
}

fn number(text: &str) -> u128 {
    let hex = text.strip_prefix("0x");
    hex.map_or_else(|| text.parse(), |hex| u128::from_str_radix(hex, 16))
        .unwrap_or_else(|_| panic!("`{text}`"))
}

fn tcp_flags(text: &str) -> u128 {
    const NAMES: [&str; 9] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns"];
    let flag = |word: &str| match NAMES.iter().position(|name| *name == word) {
        Some(bit) => 1 << bit,
        None => {
            u128::from_str_radix(word.trim_matches(['[', ']']), 16).unwrap_or_else(|_| panic!("`{text}`"))
        }
    };
    text.split('|').map(flag).sum()
}

fn value(text: &str) -> u128 {
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return u32::from(address).into();
    }
    if let Ok(address) = text.parse::<MacAddress>() {
        return address.0.iter().fold(0, |value, &byte| value << 8 | u128::from(byte));
    }
    text.parse::<Ipv6Addr>().map_or_else(|_| number(text), u128::from)
}

/// The key that a line says. Of tags, a key knows here no TPID: Open vSwitch does not print them.
fn key_of(line: &str) -> Key {
    let mut key = Key::new();
    let mut inner = 0;
    for item in line.split(',') {
        let Some((name, text)) = item.split_once('=') else {
            let (ether_type, protocol) = kind(item).unwrap_or_else(|| panic!("`{item}` in `{line}`"));
            Field::EthType.set(&mut key, ether_type);
            Field::NwProto.set(&mut key, protocol);
            continue;
        };
        match name {
            "in_port" => {}
            // A protocol that is only payload to us.
            name if name.starts_with("nsh_") => {}
            "dl_vlan" => Field::VlanTci.set_masked(&mut key, number(text) | 0x1000, 0x1fff),
            "dl_vlan1" => inner |= number(text) | 0x1000,
            "dl_vlan_pcp1" => inner |= number(text) << 13,
            "vlan_tci1" => inner |= number(text),
            "nw_tos" => Field::NwTos.set(&mut key, number(text) >> 2),
            "nw_frag" => {
                let names = ["no", "first", "", "later"];
                let bits = names.iter().position(|name| *name == text).unwrap_or_else(|| panic!("`{line}`"));
                Field::NwFrag.set(&mut key, bits as u128);
            }
            "tcp_flags" => Field::TcpFlags.set(&mut key, tcp_flags(text)),
            "tp_src" => Field::TcpSrc.set(&mut key, number(text)),
            "tp_dst" => Field::TcpDst.set(&mut key, number(text)),
            // Of solicitations and advertisements Open vSwitch knows two fields more.
            "nd_reserved" | "nd_options_type" => {}
            "mpls_lse1" => SECOND_LABEL.set(&mut key, number(text) as u64),
            "mpls_lse2" => THIRD_LABEL.set(&mut key, number(text) as u64),
            _ => {
                let field = Field::named(name).unwrap_or_else(|| panic!("`{name}` in `{line}`"));
                field.set(&mut key, value(text));
            }
        }
    }
    INNER_TCI.set(&mut key, inner as u64);
    let foreign = matches!((Field::EthType.get(&key), Field::NwProto.get(&key)), (0x0800, 58) | (0x86dd, 1));
    if Field::NwProto.get(&key) == IGMP || foreign {
        // Type and code of IGMP have no field of ours, and ICMP belongs to its version of IP.
        PORTS.set(&mut key, 0);
        [Field::NdTarget, Field::NdSll, Field::NdTll].iter().for_each(|field| field.set(&mut key, 0));
    }
    key
}

/// What Open vSwitch does not have or print is left out of our key.
fn comparable(key: &Key) -> Key {
    let mut key = key.clone();
    [OUTER_TPID, INNER_TPID, CUT].iter().for_each(|span| span.set(&mut key, 0));
    Field::Ipv6Exthdr.set(&mut key, 0);
    Field::PbbIsid.set(&mut key, 0);
    if matches!(Field::EthType.get(&key), 0x0806 | 0x8035) && Field::ArpOp.get(&key) > 255 {
        Field::ArpOp.set(&mut key, 0);
    }
    key
}

#[test]
fn open_vswitch_finds_the_same_fields() {
    if !installed() {
        return;
    }
    let mut sampler = Sampler::new(11);
    let mut frames: Vec<Vec<u8>> =
        (0..FRAMES).map(|number| if number % 2 == 0 { sampler.frame() } else { sampler.mangled() }).collect();
    // It makes a frame of fewer bytes longer.
    frames.retain(|frame| frame.len() >= 14);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.pcap");
    let file = BufWriter::new(File::create(&path).unwrap());
    let mut capture = CaptureWriter::new(file, Format::Pcap).unwrap();
    for frame in &frames {
        capture.write(Nanos(0), frame).unwrap();
    }
    capture.finish().unwrap();
    let output = Command::new("ovs-ofctl").arg("parse-pcap").arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), frames.len());
    for (line, frame) in lines.iter().zip(&frames) {
        let mut key = Key::new();
        extract(frame, 0, &mut key);
        assert_eq!(comparable(&key), key_of(line), "{line}\n{frame:02x?}");
    }
}
