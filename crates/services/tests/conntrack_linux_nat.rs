//! Translation and the FTP helper against Linux's own: the same packets through a router in network namespaces
//! and through the service, and of each the same bytes come out, but for what routers change anyway (time to
//! live, addresses of cards, the class by which Linux says what it thought).
//!
//! Needs root, `ip` and `nft`; says so and is skipped without.

use crate::support::gateway::{Gateway, Rules, Talk, Way, at, segment};
use crate::support::router::{Class, Router, has_linux};
use crate::support::{ACK, FIN, PSH, SYN, echo, udp, unreachable, v4, v6};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use std::net::{IpAddr, SocketAddr};

/// The router's addresses outside, to which sources are translated.
const PUBLIC: [&str; 2] = ["10.0.1.254", "fd00:0:0:1::254"];

/// What `ct_state` is in Linux's words.
fn class(state: u128) -> Class {
    match (state & 0x02 != 0, state & 0x04 != 0, state & 0x08 != 0) {
        _ if state & 0x10 != 0 => Class::Invalid,
        (true, _, false) => Class::Established,
        (true, _, true) => Class::EstablishedReply,
        (false, true, false) => Class::Related,
        (false, true, true) => Class::RelatedReply,
        (false, false, _) => Class::New,
    }
}

/// Addresses, protocol, and what the packet carries; of TCP without the checksum, which Linux leaves to a card's
/// hardware where it rewrote data, and which hosts check here.
fn essence(frame: &[u8]) -> Vec<u8> {
    let length = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    let (addresses, protocol, carried) = if frame[12] == 0x86 {
        (&frame[22..54], frame[20], &frame[54..54 + length(18)])
    } else {
        (&frame[26..34], frame[23], &frame[34..14 + length(16)])
    };
    let mut carried = carried.to_vec();
    if protocol == 6 {
        carried[16..18].fill(0);
    }
    [addresses, &[protocol], &carried].concat()
}

/// Both, side by side.
struct Both {
    linux: Router,
    ours: Gateway,
    passed: usize,
    refused: usize,
}

impl Way for Both {
    fn forward(&mut self, frame: Vec<u8>, inside: bool) -> Option<Vec<u8>> {
        let v6 = frame[12] == 0x86;
        self.ours.rules = Rules::source(PUBLIC[usize::from(v6)]);
        let theirs = self.linux.pass(usize::from(!inside), &frame);
        // Linux lets through what it finds invalid here, untranslated.
        let theirs = theirs.filter(|(class, _)| *class != Class::Invalid);
        let ours = self.ours.forward(frame.clone(), inside);
        let said = ours.as_ref().map(|frame| (class(self.ours.state), essence(frame)));
        let wanted = theirs.as_ref().map(|(class, frame)| (*class, essence(frame)));
        assert_eq!(said, wanted, "inside: {inside}, {frame:02x?}");
        *if ours.is_some() { &mut self.passed } else { &mut self.refused } += 1;
        ours
    }
}

/// Runs on a thread of its own, as the router takes it; tells how many packets passed, and how many did not.
fn with_both(body: impl FnOnce(&mut Both) + Send + 'static) -> Option<(usize, usize)> {
    if !has_linux() {
        return None;
    }
    let thread = std::thread::spawn(move || {
        let linux = Router::build(false);
        linux.translate(PUBLIC);
        let ours = Gateway::new(Rules::default());
        let mut both = Both { linux, ours, passed: 0, refused: 0 };
        body(&mut both);
        (both.passed, both.refused)
    });
    let counted = thread.join().unwrap();
    println!("{} packets passed, {} did not", counted.0, counted.1);
    Some(counted)
}

/// A host inside, one outside, and the first as the other sees it, with these ports.
fn ends(random: &mut ChaCha8Rng, port: u16, service: u16) -> [SocketAddr; 3] {
    let (host, server) = (random.random_range(1..4), random.random_range(20..22));
    if random.random() {
        let seen = SocketAddr::new(PUBLIC[1].parse().unwrap(), port);
        [v6(host, port), v6(server, service), seen]
    } else {
        let seen = SocketAddr::new(PUBLIC[0].parse().unwrap(), port);
        [v4(host as u8, port), v4(server as u8, service), seen]
    }
}

fn talk([client, server, seen]: [SocketAddr; 3]) -> Talk {
    let [client, server, seen] = [client, server, seen].map(|end| end.to_string());
    Talk::new([&client, &server], [&server, &seen], true)
}

#[test]
fn translated_packets_are_those_of_linux() {
    let counted = with_both(|both| {
        let mut random = ChaCha8Rng::seed_from_u64(61);
        for number in 0..40 {
            let [client, server, seen] = ends(&mut random, 2000 + number, 80);
            match number % 4 {
                0 => {
                    let mut talk = talk([client, server, seen]);
                    talk.open(both).unwrap();
                    for _ in 0..6 {
                        let side = usize::from(random.random::<bool>());
                        let data: Vec<u8> =
                            (0..random.random_range(0..300)).map(|_| random.random()).collect();
                        talk.say(both, side, ACK | PSH, &data).unwrap();
                    }
                    // What nobody asked for.
                    let stray = segment(server, SocketAddr::new(seen.ip(), 3000 + number), SYN, (1, 0), b"");
                    assert_eq!(both.forward(stray, false), None);
                }
                1 => {
                    let asked = both.forward(udp(client, server, 30), true).unwrap();
                    assert_eq!(asked, udp(seen, server, 30));
                    both.forward(unreachable(server.ip(), seen.ip(), &asked, 48), false).unwrap();
                    both.forward(udp(server, seen, 31), false).unwrap();
                    both.forward(udp(client, server, 32), true).unwrap();
                    assert_eq!(both.forward(udp(server, SocketAddr::new(seen.ip(), 9), 33), false), None);
                }
                2 => {
                    both.forward(echo(client.ip(), server.ip(), false, number), true).unwrap();
                    both.forward(echo(server.ip(), seen.ip(), true, number), false).unwrap();
                    assert_eq!(both.forward(echo(server.ip(), seen.ip(), true, 999), false), None);
                }
                _ => {
                    let mut talk = talk([client, server, seen]);
                    talk.open(both).unwrap();
                    let big = talk.frame(1, ACK, &[7; 90]);
                    let arrived = both.forward(big, false).unwrap();
                    // The host inside, or a router behind it, cannot take it.
                    both.forward(unreachable(client.ip(), server.ip(), &arrived, 68), true).unwrap();
                }
            }
        }
    });
    assert!(counted.is_none_or(|(passed, refused)| passed > 150 && refused > 20), "{counted:?}");
}

/// A data connection is opened by either side, and carries data both ways.
fn carry(both: &mut Both, opener: [SocketAddr; 2], other: [SocketAddr; 2], inside: bool) {
    let [a, b, c, d] = [opener[0], opener[1], other[0], other[1]].map(|end| end.to_string());
    let mut data = Talk::new([&a, &b], [&c, &d], inside);
    data.open(both).unwrap();
    data.say(both, 0, ACK | PSH, b"a file").unwrap();
    data.say(both, 1, ACK, b"").unwrap();
    data.say(both, 1, ACK | PSH, b"another").unwrap();
    data.say(both, 0, ACK | FIN, b"").unwrap();
}

/// An address with commas, and a port in two bytes.
fn bytes(address: IpAddr, port: u16) -> String {
    format!("{},{},{}", address.to_string().replace('.', ","), port >> 8, port & 0xff)
}

#[test]
fn what_ftp_announces_is_expected_and_rewritten_as_by_linux() {
    let counted = with_both(|both| {
        let mut random = ChaCha8Rng::seed_from_u64(62);
        let mut port = 20_000;
        for number in 0..16 {
            let [client, server, seen] = ends(&mut random, 40_000 + number, 21);
            let mut talk = talk([client, server, seen]);
            talk.open(both).unwrap();
            talk.line(both, 1, "220 hello\r\n");
            talk.line(both, 0, "USER anonymous\r\n");
            talk.line(both, 1, "230 welcome\r\n");
            for _ in 0..5 {
                port += 1;
                let moved = |end: SocketAddr, port: u16| SocketAddr::new(end.ip(), port);
                let (there, back) =
                    ([moved(server, 20), moved(seen, port)], [moved(client, port), moved(server, 20)]);
                // Linux writes IPv6 addresses otherwise.
                let way = if client.is_ipv6() { 3 } else { random.random_range(0..5) };
                match way {
                    0 | 1 => {
                        let line = if way == 0 {
                            format!("PORT {}\r\n", bytes(client.ip(), port))
                        } else {
                            format!("EPRT |1|{}|{port}|\r\n", client.ip())
                        };
                        let frame = talk.frame(0, ACK | PSH, line.as_bytes());
                        // Sent, lost behind the router, and sent again.
                        both.forward(frame, true).unwrap();
                        talk.line(both, 0, &line);
                        talk.line(both, 1, "200 fine\r\n");
                        carry(both, there, back, false);
                    }
                    2 | 3 => {
                        let line = if way == 2 {
                            format!("227 Entering Passive Mode ({}).\r\n", bytes(server.ip(), port))
                        } else {
                            format!("229 Entering Extended Passive Mode (|||{port}|)\r\n")
                        };
                        talk.line(both, 0, if way == 2 { "PASV\r\n" } else { "EPSV\r\n" });
                        talk.line(both, 1, &line);
                        let own = [moved(client, port + 1000), moved(server, port)];
                        carry(both, own, [moved(server, port), moved(seen, port + 1000)], true);
                    }
                    _ => {
                        // Of another host.
                        talk.line(both, 0, &format!("PORT {}\r\n", bytes(v4(9, 0).ip(), port)));
                        let syn = segment(there[0], there[1], SYN, (1, 0), b"");
                        assert_eq!(both.forward(syn, false), None);
                    }
                }
                talk.line(both, 1, "226 done\r\n");
            }
            talk.line(both, 0, "QUIT\r\n");
        }
        assert!(both.ours.counter("helper-related") > 50);
        let stray = segment(at("10.0.1.20:20"), at("10.0.1.254:19999"), SYN, (1, 0), b"");
        assert_eq!(both.forward(stray, false), None);
    });
    assert!(counted.is_none_or(|(passed, refused)| passed > 900 && refused > 3), "{counted:?}");
}
