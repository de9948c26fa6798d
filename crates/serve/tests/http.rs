//! The protocol, and clients that mean no good.

use crate::common::{Answer, Site, small, store};
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};
use weir_serve::{Limits, Options, Server};
use weir_store::{Store, StoreError};

#[test]
fn answers_are_those_of_http() {
    let site = Site::of(&[small("otter", 1)]);
    for path in ["/runs", "/runs/otter", "/runs/otter/run.json", "/figures/throughput-l2fwd.svg?run=otter"] {
        let (get, head) = (site.get(path), site.ask("HEAD", path, ""));
        assert_eq!((get.status, head.status, head.body.as_str()), (200, 200, ""), "{path}");
        assert_eq!(get.header("content-length"), head.header("content-length"), "{path}");
        assert_eq!(get.header("content-length").unwrap(), get.body.len().to_string(), "{path}");
        for name in
            ["etag", "cache-control", "content-type", "content-security-policy", "x-content-type-options"]
        {
            assert_eq!(get.header(name), head.header(name), "{path}: {name}");
            assert!(get.header(name).is_some(), "{path} has no {name}");
        }
    }
    for path in ["/", "/runs", "/runs/otter", "/static/site.js"] {
        let answer = site.ask("POST", path, "Content-Length: 0\r\n");
        assert_eq!((answer.status, answer.header("allow")), (405, Some("get,head")), "{path}");
        assert!(answer.body.contains("cannot be asked with POST"), "{}", answer.body);
    }
    let missing = site.ask("GET", "/nowhere", "");
    assert_eq!(
        (missing.status, missing.body.as_str()),
        (404, "there is nothing at /nowhere\n"),
        "plain for programs"
    );
    assert_eq!(missing.header("content-type"), Some("text/plain; charset=utf-8"));
    let missing = site.get("/runs/weasel");
    assert_eq!(missing.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(
        missing.body.contains("No run matches `weasel`") && missing.body.contains("href=\"/runs\""),
        "and help for people"
    );
    assert_eq!(missing.header("cache-control"), Some("no-store"));
    assert_eq!(site.ask("HEAD", "/nowhere", "").body, "");
}

#[test]
fn an_answer_that_the_client_has_is_not_sent_again() {
    let site = Site::of(&[small("otter", 1)]);
    for path in ["/runs", "/runs/otter", "/runs/otter/points/0"] {
        let tag = site.get(path).header("etag").unwrap().to_owned();
        assert!(tag.starts_with('"') && tag.len() == 26, "{tag}");
        let same = site.ask("GET", path, &format!("If-None-Match: \"x\", W/{tag}\r\n"));
        assert_eq!((same.status, same.body.as_str()), (304, ""), "{path}");
        let other = site.ask("GET", path, "If-None-Match: \"other\", W/\"another\"\r\n");
        assert_eq!(other.status, 200);
        let known = site.ask("GET", path, "If-None-Match: *\r\n");
        assert_eq!((known.status, known.body.as_str()), (304, ""), "{path}");
        assert!(known.header("etag").is_some() && known.header("content-length").is_none());
    }
    let page = site.get("/runs").page();
    let style =
        page.split('"').find(|part| part.starts_with("/static/site.") && part.ends_with(".css")).unwrap();
    assert!(site.get(style).header("cache-control").unwrap().contains("immutable"));
    assert_eq!(site.get("/static/site.000000000000.css").status, 404);
}

#[test]
fn nothing_of_the_file_system_is_reached() {
    let site = Site::of(&[small("otter", 1)]);
    for path in [
        "/static/../../../../etc/passwd",
        "/static/..%2f..%2f..%2fetc%2fpasswd",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/runs/..%2f..%2fetc%2fpasswd",
        "/runs/%2Fetc%2Fpasswd/run.json",
        "/runs/otter/..%2f..%2fweir.db",
        "//etc/passwd",
        "/runs/%00",
        "/runs/%ff%fe",
        "/figures/..%2fweir.db?run=otter",
        "/figures/x.svg?run=%2Fetc%2Fpasswd",
    ] {
        let answer = site.get(path);
        assert!((400..500).contains(&answer.status), "{path}: {}", answer.status);
        assert!(!answer.body.contains("root:"), "{path}");
    }
}

#[test]
fn who_asks_by_another_name_is_refused() {
    let site = Site::of(&[small("otter", 1)]);
    let asked = |lines: &str| site.say(&format!("GET /runs HTTP/1.1\r\n{lines}Connection: close\r\n\r\n"));
    for host in ["localhost", "127.0.0.1:80", "[::1]:1"] {
        assert_eq!(asked(&format!("Host: {host}\r\n")).status, 200, "{host}");
    }
    for host in ["evil.example", "evil.example:8080", "127.0.0.1.evil.example"] {
        let answer = asked(&format!("Host: {host}\r\n"));
        assert!(
            answer.status == 421 && answer.body.contains("weir serve --host NAME"),
            "{host}: {}",
            answer.body
        );
    }
    assert_eq!(asked("").status, 400);
    assert_eq!(asked("Host: localhost\r\nHost: evil.example\r\n").status, 421);
    let whole =
        site.say("GET http://evil.example/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(whole.status, 421);
}

#[test]
fn what_is_no_request_or_too_long_ends_without_harm() {
    let site = Site::of(&[small("otter", 1)]);
    for nonsense in [
        "\r\n\r\n\r\n",
        "\u{16}\u{3}\u{1}hello\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
    ] {
        let mut stream = site.connect();
        stream.write_all(nonsense.as_bytes()).unwrap();
        let _ = stream.shutdown(std::net::Shutdown::Write);
        assert!(matches!(Answer::read(stream).status, 0 | 400 | 505), "{nonsense:?}");
    }
    let long = site.get(&format!("/runs?q={}", "x".repeat(40_000)));
    assert!(matches!(long.status, 0 | 414 | 431), "{}", long.status);
    let many = site.ask("GET", "/runs", &"X-Header: x\r\n".repeat(400));
    assert!(matches!(many.status, 0 | 431), "{}", many.status);
    let body = site.ask("GET", "/runs", "Content-Length: 99999999999\r\n");
    assert_eq!(body.status, 200, "a body that nobody asked for is not read");
    assert_eq!(site.get("/runs").status, 200);
}

#[test]
fn silent_and_slow_clients_keep_nobody_out() {
    let limits = Limits { connections: 8, head: Duration::from_millis(400), ..Limits::default() };
    let site = Site::with(&[small("otter", 1)], limits);
    let mut silent: Vec<_> = (0..100).map(|_| site.connect()).collect();
    for stream in &mut silent {
        // Some of them say a little. Those that were sent away do not matter.
        let _ = stream.write_all(b"GET /runs HTTP/1.1\r\nHost: loc");
    }
    assert_eq!(site.get("/runs").status, 200, "a hundred silent clients on eight places");
    let begin = Instant::now();
    for stream in &mut silent {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(
        begin.elapsed() < Duration::from_secs(20),
        "they are left soon, and the test's time limit is a minute"
    );
    assert_eq!(site.get("/runs").status, 200);
}

#[test]
fn a_server_that_is_stopped_ends_what_it_began() {
    let site = Site::of(&[small("otter", 1)]);
    let mut idle = site.connect();
    let address = site.address;
    let asked: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = site.connect();
            stream.write_all(b"GET /runs/otter HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            // Its answer has begun, so the server has the request.
            let mut first = [0; 1];
            stream.read_exact(&mut first).unwrap();
            stream
        })
        .collect();
    site.stop();
    for stream in asked {
        let answer = Answer::read(stream);
        assert!(answer.body.ends_with("</html>"), "an answer was cut off");
    }
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).unwrap();
    let begin = Instant::now();
    drop(site);
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn stores_that_cannot_be_served_are_refused_before_anything_is() {
    let folder = tempfile::tempdir().unwrap();
    let serve = |path: std::path::PathBuf| {
        let open = std::sync::Arc::new(move || Store::open_existing(Some(&path)));
        Server::bind("127.0.0.1:0", Options::default(), open, std::sync::Arc::new(crate::common::Lines))
            .map(drop)
    };
    let refused = |path: std::path::PathBuf| serve(path).unwrap_err().to_string();
    assert!(refused(folder.path().join("none.db")).contains("there is no store at"));
    let notes = folder.path().join("notes.txt");
    std::fs::write(&notes, "These are notes, and no database at all.").unwrap();
    assert!(refused(notes).contains("first bytes are not SQLite's"));
    let newer = store(folder.path(), &[]);
    let connection = rusqlite::Connection::open(&newer).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    assert!(matches!(serve(newer).unwrap_err(), weir_serve::ServeError::Store(StoreError::Newer { .. })));
    let other = tempfile::tempdir().unwrap();
    let there = store(other.path(), &[]);
    let open = move || Store::open_existing(Some(&there));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let again = Server::bind(
        &address,
        Options::default(),
        std::sync::Arc::new(open),
        std::sync::Arc::new(crate::common::Lines),
    );
    assert!(again.map(drop).unwrap_err().to_string().contains("--listen ADDRESS:PORT"));
}

#[test]
fn two_servers_read_one_file_while_it_is_written() {
    let site = Site::of(&[small("otter", 1)]);
    let path = site.folder.path().join("weir.db");
    let limits = Limits { fresh: Duration::ZERO, ..Limits::default() };
    let other = Site::over(tempfile::tempdir().unwrap(), path, limits);
    let writer = std::thread::spawn({
        let folder = site.folder.path().to_owned();
        move || (2..8).for_each(|number| drop(store(&folder, &[small(&format!("vole{number}"), number)])))
    });
    while !writer.is_finished() {
        for site in [&site, &other] {
            assert_eq!((site.get("/runs").status, site.get("/runs/@last").status), (200, 200));
        }
    }
    writer.join().unwrap();
    for site in [&site, &other] {
        assert!(site.get("/runs").page().contains("7 runs"));
    }
}
