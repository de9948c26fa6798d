//! Clients that are slow on purpose: each ends at a bound, which these tests set low, and keeps nobody else waiting.

use crate::central::{Central, bundle};
use crate::common::{Answer, Site, run, small};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};
use weir_serve::{Limits, Pushes};

/// Far beyond every bound that is set here: a connection that is not left by then never would be.
const NEVER: Duration = Duration::from_secs(45);

/// Sends one letter after another until the server has had enough; what it said.
fn trickle(mut stream: TcpStream) -> Answer {
    let begin = Instant::now();
    stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let mut said = Vec::new();
    let mut part = [0; 4096];
    while stream.write_all(b"x").is_ok() {
        assert!(begin.elapsed() < NEVER, "it is listened to without an end");
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(bytes) => said.extend_from_slice(&part[..bytes]),
            // Nothing was said in the time that the next letter waits.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    Answer::of(&said)
}

#[test]
fn a_head_that_never_ends_is_left() {
    let limits = Limits { head: Duration::from_millis(300), ..Limits::default() };
    let site = Site::with(&[small("otter", 1)], limits);
    for begun in ["", "GET /runs HTTP/1.1\r\nHost: localhost\r\nX-Long: "] {
        let mut stream = site.connect();
        stream.write_all(begun.as_bytes()).unwrap();
        assert!(matches!(trickle(stream).status, 0 | 408), "{begun}");
    }
    // Nor is whoever asks once and then says nothing more.
    let mut stream = site.connect();
    stream.write_all(b"GET /runs HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(Answer::read(stream).status, 200, "it is read to the connection's end");
    assert_eq!(site.get("/runs").status, 200);
}

#[test]
fn a_form_that_trickles_in_is_left() {
    // Long enough that other answers are given on a busy machine.
    let limits = Limits { answer: Duration::from_secs(2), ..Limits::default() };
    let central = Central::with(&[small("otter", 1)], Pushes::default(), limits);
    let host = central.site.address;
    let mut stream = central.site.connect();
    let head = format!(
        "POST /account/enter HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: 100000\r\n\r\ntoken="
    );
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(trickle(stream).status, 503);
}

/// The head of a push of so many bytes.
fn head(central: &Central, bytes: usize) -> String {
    format!(
        "POST /api/v1/runs HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\nContent-Length: {bytes}\r\n\r\n",
        central.site.address, central.mine
    )
}

#[test]
fn a_bundle_that_stops_coming_or_trickles_in_is_left_and_its_place_is_free() {
    let (soon, late) = (Duration::from_millis(200), Duration::from_secs(600));
    let silent = Limits { push_silence: soon, push_start: late, ..Limits::default() };
    let slow = Limits { push_silence: late, push_start: soon, push_speed: 1 << 20, ..Limits::default() };
    let good = bundle(&small("otter", 1));
    for (limits, trickles) in [(silent, false), (slow, true)] {
        let central = Central::with(&[], Pushes::default(), limits);
        // Of one account four may come at a time: were a place kept, the fifth would be refused.
        for _ in 0..5 {
            let mut stream = central.site.connect();
            stream.write_all(head(&central, good.len()).as_bytes()).unwrap();
            stream.write_all(&good[..100]).unwrap();
            let answer = if trickles { trickle(stream) } else { Answer::read(stream) };
            assert!(
                answer.status == 408 && answer.body.contains("nothing of it was kept"),
                "{}",
                answer.body
            );
        }
        let pushed = central.ask("POST", "/api/v1/runs", Some(&central.mine), &good);
        assert_eq!(pushed.status, 201, "{}", pushed.body);
    }
}

#[test]
fn whoever_asks_and_never_reads_is_left() {
    let limits = Limits { stall: Duration::from_millis(300), ..Limits::default() };
    let site = Site::with(&[run("otter", 1, 1.0)], limits);
    let bytes = site.get("/runs/otter").page().len();
    // More than the buffers of two sockets take, asked for at once.
    let requests = (64 << 20) / bytes + 1;
    let mut stream = site.connect();
    let asked = "GET /runs/otter HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(requests);
    stream.write_all(asked.as_bytes()).unwrap();
    let mut ended = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    let patience = PollTimeout::try_from(NEVER).unwrap();
    assert_eq!(poll(&mut ended, patience).unwrap(), 1, "it is waited for without an end");
    let how = ended[0].revents().unwrap();
    assert!(how.intersects(PollFlags::POLLERR | PollFlags::POLLHUP), "{how:?}");
    assert_eq!(site.get("/runs").status, 200);
}

#[test]
fn a_connection_that_asks_without_an_end_is_left_between_two_answers() {
    let limits = Limits { life: Duration::from_millis(300), ..Limits::default() };
    let site = Site::with(&[small("otter", 1)], limits);
    let begin = Instant::now();
    let mut stream = site.connect();
    let mut said = Vec::new();
    let mut part = [0; 65_536];
    // One request after another, each when something of the answer before has come.
    while stream.write_all(b"GET /runs HTTP/1.1\r\nHost: localhost\r\n\r\n").is_ok() {
        assert!(begin.elapsed() < NEVER, "it is answered without an end");
        match stream.read(&mut part) {
            Ok(0) | Err(_) => break,
            Ok(bytes) => said.extend_from_slice(&part[..bytes]),
        }
    }
    assert_eq!(Answer::of(&said).status, 200);
    assert_eq!(site.get("/runs").status, 200);
}
