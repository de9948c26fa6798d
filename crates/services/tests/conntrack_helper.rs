//! Helpers as hosts meet them: FTP and TFTP through a router with a firewall, translated and not.
//!
//! Both hosts keep their own addresses and sequence numbers, and take a packet only if it is in them: what the
//! router does in between must not show but where it should, in the announcement that the other side reads.

use crate::support::gateway::{Gateway, Rules, Talk, Way as _, at, segment};
use crate::support::{ACK, PSH, SYN, extract, ip, udp};
use serde_json::{Value, json};
use std::net::SocketAddr;
use weir_flow::Field;
use weir_openflow::{Nat, NatRange, Tracking};
use weir_services::Verdict;
use weir_units::Nanos;

const PUBLIC: &str = "203.0.113.1";

/// A client inside that is translated, and has logged in.
fn logged_in(router: &mut Gateway, client: &str, port: u16) -> Talk {
    let (own, seen) = (format!("{client}:{port}"), format!("{PUBLIC}:{port}"));
    let server = "203.0.113.80:21";
    let mut talk = Talk::new([&own, server], [server, &seen], true);
    talk.open(router).unwrap();
    assert_eq!(talk.line(router, 1, "220 hello\r\n"), "220 hello\r\n");
    talk
}

#[test]
fn a_server_connects_to_a_translated_client_where_it_said_and_nobody_else_does() {
    let mut router = Gateway::new(Rules::source(PUBLIC));
    let mut talk = logged_in(&mut router, "192.168.1.11", 40_000);
    let elsewhere = segment(at("203.0.113.80:20"), at("203.0.113.1:51213"), SYN, (1, 0), b"");
    assert_eq!(router.forward(elsewhere.clone(), false), None, "nothing was announced yet");
    assert_eq!(talk.line(&mut router, 0, "PORT 192,168,1,11,200,13\r\n"), "PORT 203,0,113,1,200,13\r\n");
    assert_eq!(talk.line(&mut router, 1, "200 fine\r\n"), "200 fine\r\n");
    let stranger = segment(at("203.0.113.81:20"), at("203.0.113.1:51213"), SYN, (1, 0), b"");
    assert_eq!(router.forward(stranger, false), None, "it was said to another");

    let owners = router.group.owners().unwrap();
    let owner = |frame: &[u8]| {
        let (key, layout) = extract(frame);
        owners.of(frame, layout, &key)
    };
    assert_eq!(owner(&elsewhere), Some(1), "wherever the first packet comes to, it is handed over");
    let mut data =
        Talk::new(["203.0.113.80:20", "203.0.113.1:51213"], ["192.168.1.11:51213", "203.0.113.80:20"], false);
    data.open(&mut router).unwrap();
    assert_eq!(owner(&data.frame(0, ACK, b"")), Some(1), "and so are those that follow");
    assert_eq!(router.state & 0x2e, 0x26, "established, and related");
    assert_eq!(data.say(&mut router, 0, ACK, b"a file").unwrap(), b"a file");
    assert_eq!(router.state & 0x2f, 0x26);
    assert_eq!(data.say(&mut router, 1, ACK, b"").unwrap(), b"");
    assert_eq!(router.state & 0x2f, 0x2e);
    let parents = [(Field::CtNwSrc, 0xc0a8_010b), (Field::CtTpDst, 21), (Field::CtMark, 77)];
    for (field, value) in parents {
        assert_eq!(field.get(&router.key), value, "{}", field.name());
    }

    assert_eq!(talk.line(&mut router, 0, "NOOP\r\n"), "NOOP\r\n");
    let mut again =
        Talk::new(["203.0.113.80:22", "203.0.113.1:51213"], ["192.168.1.11:1", "1.1.1.1:1"], false);
    assert_eq!(again.open(&mut router), None, "one announcement is of one connection");
    assert_eq!((router.counter("helper-expected"), router.counter("helper-related")), (1, 1));
    let texts: Vec<String> =
        router.dump().iter().map(|one| one["text"].as_str().unwrap().to_owned()).collect();
    let control = "tcp,orig=(src=192.168.1.11,dst=203.0.113.80,sport=40000,dport=21),\
                   reply=(src=203.0.113.80,dst=203.0.113.1,sport=21,dport=40000),zone=1,mark=77,\
                   protoinfo=(state=ESTABLISHED),helper=ftp";
    let file = "tcp,orig=(src=203.0.113.80,dst=203.0.113.1,sport=20,dport=51213),\
                reply=(src=192.168.1.11,dst=203.0.113.80,sport=51213,dport=20),zone=1,mark=77,\
                protoinfo=(state=ESTABLISHED)";
    assert_eq!(texts, [control, file]);
    assert_eq!(router.dump()[1]["parent"]["source"], "192.168.1.11");
    router.service.command("flush", &Value::Null).unwrap();
    assert_eq!(owner(&elsewhere), None, "nothing is left of it");
}

#[test]
fn two_clients_that_name_the_same_port_get_different_ones() {
    let mut router = Gateway::new(Rules::source(PUBLIC));
    let mut first = logged_in(&mut router, "192.168.1.11", 40_000);
    let mut second = logged_in(&mut router, "192.168.1.112", 40_001);
    assert_eq!(first.line(&mut router, 0, "PORT 192,168,1,11,3,255\r\n"), "PORT 192,168,1,11,3,255\r\n");
    assert_eq!(router.counter("helper-ignored"), 1, "a port below 1024");
    let [one, two] = [&mut first, &mut second].map(|talk| {
        let own = talk.0[0].own.ip().to_string().replace('.', ",");
        // Long, short, long: numbers move back and forth.
        talk.line(&mut router, 0, &format!("EPRT |1|{}|65535|\r\n", talk.0[0].own.ip()));
        talk.line(&mut router, 0, &format!("PORT {own},4,0\r\n"));
        talk.line(&mut router, 0, &format!("EPRT |1|{}|51213|\r\n", talk.0[0].own.ip()))
    });
    assert_eq!(
        (one.as_str(), two.as_str()),
        ("EPRT |1|203.0.113.1|51213|\r\n", "EPRT |1|203.0.113.1|51214|\r\n")
    );
    let mut data = Talk::new(
        ["203.0.113.80:20", "203.0.113.1:51214"],
        ["192.168.1.112:51213", "203.0.113.80:20"],
        false,
    );
    data.open(&mut router).unwrap();
    // The same port of the server for the first client as well: another of its own would be the same tuple.
    let mut data =
        Talk::new(["203.0.113.80:20", "203.0.113.1:51213"], ["192.168.1.11:51213", "203.0.113.80:20"], false);
    data.open(&mut router).unwrap();
}

#[test]
fn what_is_sent_again_is_the_same_again() {
    let mut router = Gateway::new(Rules::source(PUBLIC));
    let mut talk = logged_in(&mut router, "192.168.1.11", 40_000);
    let text = b"PORT 192,168,1,11,200,13\r\n";
    let frame = talk.frame(0, ACK | PSH, text);
    let first = router.forward(frame.clone(), true).unwrap();
    assert_eq!(router.forward(frame.clone(), true).unwrap(), first);
    assert_eq!(router.counter("helper-expected"), 1);
    let read = talk.say(&mut router, 0, ACK | PSH, text).unwrap();
    assert_eq!(read, b"PORT 203,0,113,1,200,13\r\n");
    talk.say(&mut router, 1, ACK, b"").unwrap();
    // Also behind the connection that it announced, and behind other commands.
    let mut data =
        Talk::new(["203.0.113.80:20", "203.0.113.1:51213"], ["192.168.1.11:51213", "203.0.113.80:20"], false);
    data.open(&mut router).unwrap();
    talk.line(&mut router, 0, "RETR a\r\n");
    let again = router.forward(frame, true).unwrap();
    assert_eq!(again[54..], first[54..]);
    assert_eq!(again[38..42], first[38..42], "its number");
}

#[test]
fn a_client_connects_to_where_a_server_listens_also_behind_a_forwarded_port() {
    let mut router = Gateway::new(Rules::source(PUBLIC));
    let mut talk = logged_in(&mut router, "192.168.1.11", 40_000);
    for (said, port) in [
        ("227 Entering Passive Mode (203,0,113,80,200,14).\r\n", 51214),
        ("229 Entering Extended Passive Mode (|||51215|)\r\n", 51215),
    ] {
        assert_eq!(talk.line(&mut router, 1, said), said, "the server is not translated");
        let server = format!("203.0.113.80:{port}");
        let mut data = Talk::new(["192.168.1.11:45000", &server], [&server, "203.0.113.1:45000"], true);
        data.open(&mut router).unwrap();
        assert_eq!(router.state & 0x2f, 0x26);
    }

    // The server inside, its port forwarded by another name.
    let range = NatRange::Ipv4([10, 0, 0, 5].into(), None);
    let forward = Nat { destination: true, range, ..Nat::default() };
    let mut router = Gateway::new(Rules { forward: Some(forward), ..Rules::source(PUBLIC) });
    let mut talk =
        Talk::new(["198.51.100.7:999", "203.0.113.1:21"], ["10.0.0.5:21", "198.51.100.7:999"], false);
    talk.open(&mut router).unwrap();
    let read = talk.line(&mut router, 1, "227 Entering Passive Mode (10,0,0,5,200,14).\r\n");
    assert_eq!(read, "227 Entering Passive Mode (203,0,113,1,200,14).\r\n");
    router.rules.forward = None;
    let mut data =
        Talk::new(["198.51.100.7:998", "203.0.113.1:51214"], ["10.0.0.5:51214", "198.51.100.7:998"], false);
    data.open(&mut router).unwrap();
    assert_eq!(talk.line(&mut router, 0, "QUIT\r\n"), "QUIT\r\n");
}

#[test]
fn ipv6_is_announced_and_translated_like_ipv4() {
    let mut router = Gateway::new(Rules::source("2001:db8::1"));
    let server = "[2001:db8:1::80]:21";
    let mut talk = Talk::new(["[fd00::11]:40000", server], [server, "[2001:db8::1]:40000"], true);
    talk.open(&mut router).unwrap();
    talk.line(&mut router, 1, "220 hello\r\n");
    assert_eq!(talk.line(&mut router, 0, "EPRT |2|fd00::11|51213|\r\n"), "EPRT |2|2001:db8::1|51213|\r\n");
    let ends = [["[2001:db8:1::80]:20", "[2001:db8::1]:51213"], ["[fd00::11]:51213", "[2001:db8:1::80]:20"]];
    let mut data = Talk::new(ends[0], ends[1], false);
    data.open(&mut router).unwrap();
    assert_eq!(
        Field::CtIpv6Src.get(&router.key),
        "fd00::11".parse::<std::net::Ipv6Addr>().unwrap().to_bits()
    );
    talk.line(&mut router, 1, "229 fine (|||51215|)\r\n");
    let port = "[2001:db8:1::80]:51215";
    Talk::new(["[fd00::11]:45000", port], [port, "[2001:db8::1]:45000"], true).open(&mut router).unwrap();
    assert_eq!(router.state & 0x2f, 0x26);
}

#[test]
fn without_translation_nothing_is_changed_and_the_same_is_expected() {
    let mut router = Gateway::new(Rules::default());
    let ends = [["192.168.1.11:40000", "203.0.113.80:21"], ["203.0.113.80:21", "192.168.1.11:40000"]];
    let mut talk = Talk::new(ends[0], ends[1], true);
    talk.open(&mut router).unwrap();
    for line in ["PORT 192,168,1,11,200,13\r\n", "PORT 192,168,1,12,200,14\r\n"] {
        assert_eq!(talk.line(&mut router, 0, line), line);
    }
    assert_eq!(router.counter("helper-ignored"), 1, "the address of another host");
    let ends = [["203.0.113.80:20", "192.168.1.11:51213"], ["192.168.1.11:51213", "203.0.113.80:20"]];
    Talk::new(ends[0], ends[1], false).open(&mut router).unwrap();
    assert_eq!(router.state & 0x2f, 0x26);
}

#[test]
fn a_line_in_the_midst_of_data_or_with_a_wrong_checksum_announces_nothing() {
    let mut router = Gateway::new(Rules::source(PUBLIC));
    let mut talk = logged_in(&mut router, "192.168.1.11", 40_000);
    let line = "PORT 192,168,1,11,200,13\r\n";
    assert_eq!(talk.line(&mut router, 0, "NOOP "), "NOOP ");
    let mut frame = talk.frame(0, ACK | PSH, line.as_bytes());
    let arrived = router.forward(frame.clone(), true).unwrap();
    assert_eq!(arrived[54..], frame[54..], "the line began before");
    // The line is over: the next one counts, but for a checksum that its receiver refuses.
    talk.line(&mut router, 0, line);
    frame = talk.frame(0, ACK | PSH, line.as_bytes());
    frame[50] ^= 1;
    let arrived = router.forward(frame.clone(), true).unwrap();
    assert_eq!((&arrived[54..], router.counter("helper-expected")), (&frame[54..], 0));
    assert_eq!(talk.line(&mut router, 0, line), "PORT 203,0,113,1,200,13\r\n");
}

#[test]
fn an_expectation_lasts_five_minutes_and_no_longer_than_its_control_connection() {
    let mut router = Gateway::new(Rules::source(PUBLIC));
    let syn = segment(at("203.0.113.80:20"), at("203.0.113.1:51213"), SYN, (1, 0), b"");
    let mut talk = logged_in(&mut router, "192.168.1.11", 40_000);
    talk.line(&mut router, 0, "PORT 192,168,1,11,200,13\r\n");
    router.now.0 += 299 * Nanos::PER_SECOND;
    let mut key = extract(&syn).0;
    let looked = Tracking { zone: 1, nat: Some(Nat::default()), ..Tracking::default() };
    assert_eq!(router.pass(&mut syn.clone(), &mut key, &looked), Verdict::Pass);
    assert_eq!(Field::CtState.get(&key), 0x25, "new and related, and not kept yet");
    assert_eq!(Field::CtNwSrc.get(&key), 0xc0a8_010b, "it shows the connection that announced it");
    router.now.0 += 2 * Nanos::PER_SECOND;
    assert_eq!(router.forward(syn.clone(), false), None);
    talk.line(&mut router, 0, "PORT 192,168,1,11,200,13\r\n");
    router.service.command("flush", &Value::Null).unwrap();
    assert_eq!(router.forward(syn, false), None);
}

#[test]
fn control_connections_are_bounded_and_one_too_many_is_refused() {
    let mut router = Gateway::new(Rules::source(PUBLIC));
    let syn = |number: u32| {
        let [_, _, high, low] = number.to_be_bytes();
        let client = SocketAddr::from(([192, 168, high, low], 1024 + number as u16));
        segment(client, at("203.0.113.80:21"), SYN, (1, 0), b"")
    };
    let most = 1 << 14;
    assert!((0..most).all(|number| router.forward(syn(number), true).is_some()));
    assert_eq!(router.forward(syn(most), true), None);
    assert_eq!(router.counter("limit-helper"), 1);
    let web = segment(at("192.168.250.1:9"), at("203.0.113.80:80"), SYN, (1, 0), b"");
    assert!(router.forward(web, true).is_some(), "others are as free as before");
    router.service.command("flush", &json!({ "source": "192.168.0.1" })).unwrap();
    assert!(router.forward(syn(most), true).is_some());
}

#[test]
fn tftp_is_answered_from_another_port() {
    let mut router = Gateway::new(Rules::source(PUBLIC));
    let request = |from: SocketAddr, to: SocketAddr| {
        let mut body = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
        body.extend([0, 20, 0, 0]);
        body.extend(*b"\x00\x01file\x00octet");
        ip(from.ip(), to.ip(), 17, body, Some(6))
    };
    let (client, server) = (at("192.168.1.11:2000"), at("203.0.113.80:69"));
    let seen = at("203.0.113.1:2000");
    let answer = udp(at("203.0.113.80:3000"), seen, 40);
    assert_eq!(router.forward(answer.clone(), false), None);
    assert_eq!(router.forward(request(client, server), true).unwrap(), request(seen, server));
    assert_eq!(router.forward(answer, false).unwrap(), udp(at("203.0.113.80:3000"), client, 40));
    let acknowledged = udp(client, at("203.0.113.80:3000"), 4);
    assert_eq!(router.forward(acknowledged, true).unwrap(), udp(seen, at("203.0.113.80:3000"), 4));
    assert_eq!(router.state & 0x2f, 0x2e);
}
