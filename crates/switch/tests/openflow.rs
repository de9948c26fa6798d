//! Connections with controllers over real sockets: hello, echoes, bounds, hostile and dying peers, reloading.

use crate::peer::{Bench, Peer, encoded, settings, tcp};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_codec::{Body, Hello, Message, Version};
use weir_switch::{BEHIND, ChannelSettings, Channels, ConnectionId, Heard, MOST_WAITING};

#[test]
fn requests_are_told_in_order_and_answers_arrive() {
    let bench = Bench::listening();
    let mut peer = tcp(&bench.address());
    peer.hello(Version::V13);
    let (connection, version, line) = bench.opened();
    assert_eq!((connection, version), (ConnectionId(1), Version::V13));
    for xid in 0..200 {
        let body = if xid % 2 == 0 { Body::BarrierRequest } else { Body::FeaturesRequest };
        peer.say(Version::V13, xid, body);
    }
    for xid in 0..200 {
        let (of, message) = bench.message();
        assert_eq!((of, message.xid), (connection, xid));
        if message.body == Body::BarrierRequest {
            line.answer(encoded(version, xid, Body::BarrierReply));
        }
    }
    for xid in (0..200).step_by(2) {
        assert_eq!(peer.hear().unwrap(), Message::new(Version::V13, xid, Body::BarrierReply));
    }
    peer.say(Version::V13, 7, Body::EchoRequest(b"Weir".to_vec()));
    assert_eq!(peer.hear().unwrap(), Message::new(Version::V13, 7, Body::EchoReply(b"Weir".to_vec())));
    bench.wait("the counters", |status| status[0].connections[0].messages_out == 102);
    let row = bench.row(0);
    let shown = &row.connections[0];
    assert_eq!((shown.version.as_str(), shown.messages_in, shown.refused), ("1.3", 202, 0));
    assert!(shown.peer.starts_with("tcp:127.0.0.1:"), "{shown:?}");
    line.answer(encoded(version, 9, Body::BarrierReply));
    line.close();
    assert_eq!(peer.hear().unwrap().xid, 9, "what was queued is sent first");
    assert_eq!(peer.hear(), None);
    drop(peer);
    assert_eq!(bench.closed(), (connection, "closed by the switch".to_owned()));
    assert_eq!(bench.row(0).connections, []);
}

#[test]
fn what_was_sent_before_hanging_up_is_told() {
    let bench = Bench::listening();
    let mut peer = tcp(&bench.address());
    peer.say(Version::V10, 1, Body::Hello(Hello::offering(&[Version::V10])));
    (0..1000).for_each(|xid| peer.say(Version::V10, xid, Body::BarrierRequest));
    peer.stream.write_all(&[1, 18, 0]).unwrap();
    peer.stream.shutdown(Shutdown::Write).unwrap();
    let (connection, ..) = bench.opened();
    for xid in 0..1000 {
        assert_eq!(bench.message().1.xid, xid);
    }
    assert_eq!(bench.closed(), (connection, "it hung up within a message".to_owned()));
}

#[test]
fn what_does_not_decode_is_refused_and_a_bundle_that_lacks_it_is_named() {
    let bench = Bench::listening();
    let mut peer = tcp(&bench.address());
    peer.hello(Version::V14);
    let (connection, ..) = bench.opened();
    // An unknown type; a bundle-add whose message inside is cut short; an error that nobody can read.
    peer.stream.write_all(&[5, 99, 0, 8, 0, 0, 0, 3]).unwrap();
    peer.stream
        .write_all(&[5, 34, 0, 24, 0, 0, 0, 4, 0, 0, 0, 77, 0, 0, 0, 0, 5, 14, 0, 8, 0, 0, 0, 4])
        .unwrap();
    peer.stream.write_all(&[5, 1, 0, 9, 0, 0, 0, 5, 0]).unwrap();
    peer.say(Version::V14, 6, Body::BarrierRequest);
    let first = peer.hear().unwrap();
    let number = weir_codec::Code::BadType.number(Version::V14);
    assert!(matches!(&first.body, Body::Error(error) if error.number == number), "{first:?}");
    let second = peer.hear().unwrap();
    assert!(second.xid == 4 && matches!(second.body, Body::Error(_)), "{second:?}");
    match bench.heard() {
        Heard::Spoilt { connection: of, bundle } => assert_eq!((of, bundle), (connection, 77)),
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.message().1.xid, 6);
    assert_eq!(bench.row(0).connections[0].refused, 3);
}

#[test]
fn a_peer_without_a_common_version_is_told_and_closed() {
    let bench = Bench::listening();
    let mut peer = tcp(&bench.address());
    peer.stream.write_all(&[3, 0, 0, 16, 0, 0, 0, 7, 0, 1, 0, 8, 0, 0, 0, 8]).unwrap();
    assert!(matches!(peer.hear().unwrap().body, Body::Hello(_)));
    let Body::Error(error) = peer.hear().unwrap().body else { panic!("an error") };
    assert!(String::from_utf8_lossy(&error.data).contains("1.0, 1.3, 1.4 and 1.5"));
    assert_eq!(peer.hear(), None);
    drop(peer);
    bench.wait("the end", |status| status[0].last_end.is_some());
    assert_eq!(bench.row(0).last_end.unwrap(), "no version in common: it speaks versions 0x03");
    bench.silent(Duration::from_millis(50));
}

#[test]
fn silence_is_asked_about_and_then_ends_the_connection() {
    let short = ChannelSettings { echo: Duration::from_millis(100), ..settings(&["ptcp:0:127.0.0.1"], &[]) };
    let bench = Bench::new(&short);
    let (mut answers, mut silent) = (tcp(&bench.address()), tcp(&bench.address()));
    answers.hello(Version::V13);
    let (answering, ..) = bench.opened();
    silent.hello(Version::V13);
    bench.opened();
    // Who connects by itself has twelve times as long to answer.
    for _ in 0..12 {
        let asked = answers.hear().unwrap();
        assert_eq!(asked.body, Body::EchoRequest(vec![]));
        answers.say(Version::V13, asked.xid, Body::EchoReply(vec![]));
    }
    let (connection, why) = bench.closed();
    assert_eq!((connection.0, why.as_str()), (answering.0 + 1, "it does not answer echo requests"));
    assert_eq!(silent.hear().unwrap().body, Body::EchoRequest(vec![]));
    assert_eq!(silent.hear(), None);
    assert_eq!(bench.row(0).connections.len(), 1, "the other is still there");
}

#[test]
fn a_unix_socket_is_its_owners_and_goes_with_its_switch() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("of.sock");
    let bench = Bench::new(&settings(&[&format!("punix:{}", path.display())], &[]));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let mut peer = Peer::new(UnixStream::connect(&path).unwrap());
    peer.hello(Version::V15);
    bench.opened();
    let (sender, _inbox) = sync_channel::<Heard>(1);
    let second = Channels::start(&settings(&[&format!("punix:{}", path.display())], &[]), sender);
    assert!(second.unwrap_err().to_string().contains("a switch answers there already"));
    drop(bench);
    assert_eq!(peer.hear(), None);
    assert!(!path.exists());
}

#[test]
fn controllers_are_connected_to_again_when_they_come_back() {
    let controller = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = controller.local_addr().unwrap();
    let bench =
        Bench::new(&settings(&[], &[&format!("tcp:localhost:{}", address.port()), "tcp:127.0.0.1:1"]));
    let accept = |listener: &TcpListener| {
        let mut peer = Peer::new(listener.accept().unwrap().0);
        peer.hello(Version::V13);
        peer
    };
    let peer = accept(&controller);
    let (first, ..) = bench.opened();
    drop((peer, controller));
    assert_eq!(bench.closed().0, first);
    bench.wait("attempts that fail", |status| {
        status.iter().all(|row| row.last_end.as_deref().is_some_and(|why| why.contains("refused")))
    });
    let again = TcpListener::bind(address).unwrap();
    let _peer = accept(&again);
    let (second, ..) = bench.opened();
    assert!(second > first, "numbers are never used twice");
    let status = bench.channels.status();
    assert!(status[0].retry_ms.is_none() && status[0].connects >= 2, "{status:?}");
    assert!(status[1].retry_ms.is_some() && status[1].connections.is_empty(), "{status:?}");
}

#[test]
fn who_does_not_read_is_read_no_further_and_loses_what_it_did_not_ask_for() {
    let short = ChannelSettings { echo: Duration::from_secs(2), ..settings(&["ptcp:0:127.0.0.1"], &[]) };
    let bench = Bench::new(&short);
    let mut peer = tcp(&bench.address());
    peer.hello(Version::V13);
    let (_, version, line) = bench.opened();
    let reply = encoded(version, 1, Body::EchoReply(vec![0; 60_000]));
    // Until the queue stays full because the kernel's buffers are.
    let mut told = Instant::now();
    while told.elapsed() < Duration::from_secs(1) {
        if line.tell(reply.clone()) {
            told = Instant::now();
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    bench.wait("the numbers", |status| {
        let shown = &status[0].connections[0];
        shown.untold > 0 && shown.waiting > BEHIND as u64
    });
    peer.say(Version::V13, 5, Body::BarrierRequest);
    bench.silent(Duration::from_millis(300));
    let (_, why) = bench.closed();
    assert_eq!(why, "it does not read what it asked for", "what it said was not worth telling");
    assert!(!line.tell(reply));
}

#[test]
fn one_that_reads_late_gets_all_of_its_answers_and_is_read_again() {
    let bench = Bench::listening();
    let mut peer = tcp(&bench.address());
    peer.hello(Version::V13);
    let (_, version, line) = bench.opened();
    let long = 20 << 20;
    let answer = encoded(version, 1, Body::EchoReply(vec![7; 65_000]));
    (0..long / answer.len()).for_each(|_| line.answer(answer.clone()));
    peer.say(Version::V13, 5, Body::BarrierRequest);
    bench.silent(Duration::from_millis(100));
    for _ in 0..long / answer.len() {
        assert_eq!(peer.hear().unwrap().body, Body::EchoReply(vec![7; 65_000]));
    }
    assert_eq!(bench.message().1.xid, 5);
    line.answer(vec![0; MOST_WAITING + 1]);
    assert!(bench.closed().1.contains("too much waits for it"));
}

#[test]
fn a_thousand_connections_take_no_more_than_the_limit_and_controllers_still_work() {
    let few = ChannelSettings { max_connections: 8, ..settings(&["ptcp:0:127.0.0.1"], &[]) };
    let bench = Bench::new(&few);
    let mut peer = tcp(&bench.address());
    peer.hello(Version::V13);
    let (connection, ..) = bench.opened();
    // The others that there is room for: they stay, since they say hello.
    let guests: Vec<_> = (0..7)
        .map(|_| {
            let mut guest = tcp(&bench.address());
            guest.hello(Version::V13);
            bench.opened();
            guest
        })
        .collect();
    let crowd: Vec<TcpStream> = (0..1000).filter_map(|_| TcpStream::connect(bench.address()).ok()).collect();
    bench.wait("the refusals", |status| status[0].refused >= crowd.len() as u64);
    peer.say(Version::V13, 3, Body::BarrierRequest);
    let (of, message) = bench.message();
    assert_eq!((of, message.xid), (connection, 3));
    let row = bench.row(0);
    assert_eq!((row.connects, row.refused), (1008, 1000));
    drop((crowd, guests));
    // There is room again as soon as the others are gone.
    let begin = Instant::now();
    loop {
        let mut next = tcp(&bench.address());
        next.stream.write_all(&[4, 0, 0, 8, 0, 0, 0, 1]).unwrap();
        if next.hear().is_some() {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}

/// Says hello at an address, and waits until an echo is answered.
fn greeted(address: &str) -> bool {
    let mut peer = tcp(address);
    let hello = encoded(Version::V13, 1, Body::Hello(Hello::offering(&[Version::V13])));
    let echo = encoded(Version::V13, 2, Body::EchoRequest(b"there".to_vec()));
    if peer.stream.write_all(&[hello, echo].concat()).is_err() {
        return false;
    }
    std::iter::from_fn(|| peer.hear()).any(|message| message.body == Body::EchoReply(b"there".to_vec()))
}

/// Takes what is heard, as a switch does.
fn taken(bench: Bench) -> (String, impl FnOnce() -> Bench) {
    let address = bench.address();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = stop.clone();
    let taker = std::thread::spawn(move || {
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            let _ = bench.inbox.recv_timeout(Duration::from_millis(10));
        }
        bench
    });
    (address, move || {
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        taker.join().expect("it only listens")
    })
}

#[test]
fn silent_connections_lock_nobody_out_however_many_there_are() {
    let (address, back) = taken(Bench::listening());
    let held: Vec<TcpStream> = (0..weir_switch::MAX_CONNECTIONS)
        .map(|_| TcpStream::connect(&address).expect("it listens"))
        .collect();
    assert!((0..39).all(|_| greeted(&address)), "with all slots silent");
    // Five hundred a second and more, each kept.
    let flood = address.clone();
    let flooding = std::thread::spawn(move || {
        let mut kept = Vec::new();
        for _ in 0..1000 {
            kept.extend(TcpStream::connect(&flood));
            std::thread::sleep(Duration::from_millis(1));
        }
        kept.len()
    });
    let mut probes = 0;
    while !flooding.is_finished() {
        assert!(greeted(&address), "probe {probes} while they come");
        probes += 1;
    }
    assert!(flooding.join().expect("it ends") > 900 && probes > 5, "{probes} probes");
    let row = back().row(0);
    assert!(row.evicted > 900 && row.refused == 0, "{row:?}");
    drop(held);
}

#[test]
fn kinds_of_sockets_have_slots_of_their_own() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("of");
    let unix = format!("punix:{}", path.display());
    let settings = ChannelSettings { max_connections: 4, ..settings(&["ptcp:0:127.0.0.1", &unix], &[]) };
    let (address, back) = taken(Bench::new(&settings));
    let mut open: Vec<_> = (0..4).map(|_| tcp(&address)).collect();
    for peer in &mut open {
        peer.hello(Version::V13);
        // What is answered behind a hello has seen it: one that did not yet would make room.
        peer.say(Version::V13, 2, Body::EchoRequest(vec![]));
        assert_eq!(peer.hear().unwrap().body, Body::EchoReply(vec![]));
    }
    let mut refused = tcp(&address);
    assert_eq!(refused.hear(), None, "all slots of TCP are taken");
    for _ in 0..4 {
        Peer::new(UnixStream::connect(&path).unwrap()).hello(Version::V13);
    }
    let bench = back();
    assert_eq!((bench.row(0).refused, bench.row(0).evicted, bench.row(1).refused), (1, 0, 0));
}

#[test]
fn a_slow_greeting_has_a_time_limit_and_takes_nobodys_turn() {
    let bench = Bench::listening();
    let mut slow = tcp(&bench.address());
    slow.stream.write_all(&[4, 0, 0]).unwrap();
    let mut peer = tcp(&bench.address());
    peer.hello(Version::V13);
    bench.opened();
    let begin = Instant::now();
    assert!(matches!(slow.hear().unwrap().body, Body::Hello(_)));
    assert_eq!(slow.hear(), None);
    assert!(begin.elapsed() > Duration::from_secs(3));
    bench.wait("the reason", |status| status[0].last_end.is_some());
    assert_eq!(bench.row(0).last_end.unwrap(), "it said no hello in time");
}

#[test]
fn a_busy_switch_holds_up_requests_but_no_echoes() {
    let bench = Bench::listening();
    let (mut flooding, mut quiet) = (tcp(&bench.address()), tcp(&bench.address()));
    flooding.hello(Version::V13);
    let (flood, ..) = bench.opened();
    quiet.hello(Version::V13);
    bench.opened();
    // The switch takes nothing: one floods until it cannot write any more.
    flooding.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let barriers = encoded(Version::V13, 1, Body::BarrierRequest).repeat(8192);
    let mut written = 0;
    while let Ok(length) = flooding.stream.write(&barriers) {
        written += length;
        assert!(written < 64 << 20, "it is read on and on");
    }
    quiet.say(Version::V13, 8, Body::EchoRequest(vec![]));
    assert_eq!(quiet.hear().unwrap().body, Body::EchoReply(vec![]));
    quiet.say(Version::V13, 9, Body::BarrierRequest);
    // Each has its turn: the quiet one need not wait for the flood to end.
    let mut before = 0;
    loop {
        let (of, message) = bench.message();
        if of != flood {
            assert_eq!(message.xid, 9);
            break;
        }
        before += 1;
    }
    let flooded = written / 8;
    assert!(before < flooded / 4, "{before} of {flooded} messages of the flood came first");
}

#[test]
fn who_takes_what_is_heard_may_poll_by_itself_and_is_stood_in_for_while_it_is_away() {
    let mut bench = Bench::listening();
    let mut peer = tcp(&bench.address());
    peer.hello(Version::V13);
    bench.opened();
    for xid in 1..=50 {
        peer.say(Version::V13, xid, Body::BarrierRequest);
        let end = Instant::now() + Duration::from_secs(10);
        let heard = loop {
            bench.channels.attend(Duration::from_millis(100));
            match bench.inbox.try_recv() {
                Ok(heard) => break heard,
                Err(_) => assert!(Instant::now() < end, "request {xid} is not heard"),
            }
        };
        assert!(matches!(&heard, Heard::Message { message, .. } if message.xid == xid), "{heard:?}");
    }
    // It goes without a word.
    peer.say(Version::V13, 98, Body::EchoRequest(vec![]));
    assert_eq!(peer.hear().unwrap().body, Body::EchoReply(vec![]));
    peer.say(Version::V13, 99, Body::BarrierRequest);
    assert_eq!(bench.message().1.xid, 99);
    // It comes back, and says that it goes.
    bench.channels.attend(Duration::from_millis(1));
    bench.channels.leave();
    peer.say(Version::V13, 100, Body::BarrierRequest);
    assert_eq!(bench.message().1.xid, 100);
}

#[test]
fn random_bytes_by_the_megabyte_end_in_refusals_and_nothing_else() {
    use rand_bytes::Rng;
    let bench = Bench::listening();
    let mut random = Rng(7);
    for round in 0..60 {
        let mut peer = tcp(&bench.address());
        peer.stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
        if round % 3 > 0 {
            peer.hello(Version::V13);
        }
        let mut bytes = random.bytes(64 << 10);
        if round % 3 == 2 {
            // Well framed, so that each message is looked into.
            let mut at = 0;
            while at + 8 < bytes.len() {
                let length = (8 + bytes[at] as usize).min(bytes.len() - at);
                let kind = bytes[at + 1] % 36;
                bytes[at..at + 4].copy_from_slice(&[4, kind, 0, length as u8]);
                if length > 255 {
                    bytes[at + 2] = 1;
                }
                at += length;
            }
        }
        let mut reader = peer.stream.try_clone().unwrap();
        // The other side hangs up at the first length that cannot be: writing may fail.
        let writer = std::thread::spawn(move || {
            let _ = peer.stream.write_all(&bytes);
            let _ = peer.stream.shutdown(Shutdown::Write);
        });
        let drain = std::thread::spawn(move || {
            let mut sink = Vec::new();
            let _ = reader.read_to_end(&mut sink);
        });
        writer.join().unwrap();
        while !drain.is_finished() {
            let _ = bench.inbox.recv_timeout(Duration::from_millis(1));
        }
        drain.join().unwrap();
    }
    while bench.inbox.recv_timeout(Duration::from_millis(200)).is_ok() {}
    let mut peer = tcp(&bench.address());
    peer.hello(Version::V13);
    bench.opened();
    assert_eq!(bench.row(0).connects, 61);
}

/// Bytes that are the same each time.
mod rand_bytes {
    pub(crate) struct Rng(pub(crate) u64);

    impl Rng {
        pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
            (0..count)
                .map(|_| {
                    self.0 ^= self.0 << 13;
                    self.0 ^= self.0 >> 7;
                    self.0 ^= self.0 << 17;
                    (self.0 >> 32) as u8
                })
                .collect()
        }
    }
}

#[test]
fn a_reload_touches_only_the_endpoints_that_change() {
    let controller = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("tcp:{}", controller.local_addr().unwrap());
    let mut bench = Bench::new(&settings(&["ptcp:0:127.0.0.1"], &[&to]));
    let mut stays = Peer::new(controller.accept().unwrap().0);
    stays.hello(Version::V13);
    let (staying, ..) = bench.opened();
    let mut goes = tcp(&bench.address());
    goes.hello(Version::V13);
    let (going, ..) = bench.opened();
    let port = bench.address().rsplit_once(':').unwrap().1.to_owned();
    // The same port at all addresses: the old listener is in the way until it is gone.
    let done = bench.channels.reconfigure(&settings(&[&format!("ptcp:{port}:127.0.0.2")], &[&to])).unwrap();
    assert_eq!(done, ["ptcp:0:127.0.0.1 closed", &format!("ptcp:{port}:127.0.0.2 opened")]);
    assert_eq!(bench.closed(), (going, "its endpoint is not configured any more".to_owned()));
    assert_eq!(goes.hear(), None);
    stays.say(Version::V13, 4, Body::BarrierRequest);
    assert_eq!(bench.message().0, staying);
    let taken = TcpListener::bind("127.0.0.3:0").unwrap();
    let wrong = settings(&[&format!("ptcp:{}:127.0.0.3", taken.local_addr().unwrap().port())], &[&to]);
    let error = bench.channels.reconfigure(&wrong).unwrap_err().to_string();
    assert!(error.contains("name another port"), "{error}");
    let mut back = tcp(&format!("127.0.0.2:{port}"));
    back.hello(Version::V10);
    bench.opened();
    let with_tls = bench.channels.reconfigure(&settings(&["pssl:0"], &[&to])).unwrap_err().to_string();
    assert!(with_tls.contains("name private_key, certificate and ca_cert under [openflow]"), "{with_tls}");
    assert_eq!(bench.channels.reconfigure(&settings(&[], &[])).unwrap().len(), 2);
    assert_eq!((stays.hear(), bench.channels.status().len()), (None, 0));
}

#[test]
fn ending_does_not_wait_for_a_switch_that_takes_nothing() {
    let bench = Bench::listening();
    let mut peer = tcp(&bench.address());
    peer.hello(Version::V13);
    (0..1000).for_each(|xid| peer.say(Version::V13, xid, Body::BarrierRequest));
    let (silent, ..) = bench.opened();
    // Telling has begun, and nobody takes more.
    assert_eq!(bench.message().0, silent);
    bench.wait("requests", |status| status[0].connections.iter().any(|shown| shown.messages_in > 900));
    let begin = Instant::now();
    let Bench { channels, inbox } = bench;
    drop(channels);
    assert!(begin.elapsed() < Duration::from_secs(5));
    // On a busy machine the switch asked meanwhile whether the peer is there.
    while let Some(message) = peer.hear() {
        assert!(matches!(message.body, Body::EchoRequest(_)), "{message:?}");
    }
    // What the inbox has place for, and the one that stood before it.
    assert!(
        inbox.iter().all(|heard| matches!(heard, Heard::Message { connection, .. } if connection == silent))
    );
}
