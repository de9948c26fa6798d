//! Metrics: requests to the endpoint, and its pages as Prometheus reads them.

use super::seeds;
use super::switch::Listening;
use crate::{Budget, Outcome, Target};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use weir_switch::{Stats, metrics};

/// How long a switch may be silent.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) const METRICS: Target = Target {
    name: "metrics",
    about: "requests to the metrics endpoint, several at once: each is answered in HTTP or hung up on, and then a right one is",
    budget: Budget::of(4 << 20, 1024, 4000, 8).within(Duration::from_secs(8), Duration::from_micros(200)),
    longest: 10_000,
    words: &[
        "GET /metrics HTTP/1.1",
        "\r\n",
        "\r\n\r\n",
        "HEAD ",
        "POST ",
        "/metrics?x=1",
        "HTTP/1.0",
        "Host: x",
        ": ",
        "\0",
        " ",
    ],
    seeds: || {
        seeds(&[
            "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n\0GET / HTTP/1.0\r\n\r\n\0POST /metrics HTTP/1.1\r\n\r\n",
            "nonsense\r\n\r\n\0HEAD /metrics?x=1 HTTP/1.1\r\n\r\n\0GET /metrics HTTP/1.1\r\n",
            "GET /metrics HTTP/1.1\n\n",
        ])
    },
    run: metrics_requests,
    workers: false,
};

fn metrics_requests(input: &[u8]) -> Outcome {
    Listening::with(|switch| {
        let requests = input.split(|byte| *byte == 0).take(8);
        let mut sockets: Vec<UnixStream> = requests.map(|request| ask(switch.metrics(), request)).collect();
        sockets.push(ask(switch.metrics(), b"GET /metrics HTTP/1.1\r\n\r\n"));
        let mut answers: Vec<String> = sockets.into_iter().map(hear).collect();
        let right = answers.pop().unwrap_or_default();
        assert!(
            right.starts_with("HTTP/1.1 200 OK\r\n") && right.contains("weir_switch_received_packets_total"),
            "{right}"
        );
        let status = |answer: &String| answer.get(..12).map(str::to_owned);
        for answer in &answers {
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 "), "{answer:?}");
        }
        Outcome::of(answers.iter().map(status).collect::<Vec<_>>())
    })
}

fn ask(path: &Path, request: &[u8]) -> UnixStream {
    let mut socket = UnixStream::connect(path).expect("the switch listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time");
    socket.set_write_timeout(Some(PATIENCE)).expect("a time");
    match socket.write_all(request) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
        Err(error) => panic!("the switch takes nothing: {error}"),
    }
    let _ = socket.shutdown(Shutdown::Write); // it may have hung up
    socket
}

fn hear(mut socket: UnixStream) -> String {
    let mut heard = Vec::new();
    match socket.read_to_end(&mut heard) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the switch does not hang up: {error}"),
    }
    String::from_utf8(heard).expect("metrics are text")
}

pub(super) const PROMETHEUS: Target = Target {
    name: "prometheus",
    about: "a ledger with any names and numbers in it, as Prometheus reads it: every line is a comment or a sample",
    budget: Budget::of(1 << 20, 6000, 20_000, 100)
        .within(Duration::from_millis(300), Duration::from_micros(100)),
    longest: 12 << 10,
    words: &[
        "\\n",
        "\\\"",
        "\\\\",
        "}",
        "{",
        "18446744073709551615",
        "\"name\":\"",
        "null",
        "-1",
        "1e308",
        "\\u0000",
        "\\r",
        "#",
        "# HELP x",
    ],
    seeds: || {
        let stats = super::switch::ledger();
        vec![serde_json::to_vec(&stats).expect("a ledger can be written"), b"{}".to_vec()]
    },
    run: |input| {
        let stats: Stats = match serde_json::from_slice(input) {
            Ok(stats) => stats,
            Err(error) => return Outcome::said(&error.to_string()),
        };
        let page = metrics::render(&stats);
        for line in page.lines() {
            is_line(line);
        }
        Outcome::of((page.lines().count() / 16, page.contains("\\n"), stats.ports.len().min(3)))
    },
    workers: false,
};

/// A line of the text format: a comment of a family, or a name, labels in quotes, and a number.
fn is_line(line: &str) {
    if let Some(comment) = line.strip_prefix("# ") {
        assert!(
            comment.starts_with("HELP weir_switch_") || comment.starts_with("TYPE weir_switch_"),
            "{line:?}"
        );
        return;
    }
    let mut letters = line.chars();
    let mut quoted = false;
    let mut name = String::new();
    let mut labels = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if quoted => assert!(matches!(letters.next(), Some('\\' | '"' | 'n')), "{line:?}"),
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' => labels = true,
            '}' => labels = false,
            ' ' if !labels => break,
            _ if !labels => name.push(letter),
            _ => assert!(letter.is_ascii_alphanumeric() || "_=,".contains(letter), "{line:?}"),
        }
    }
    assert!(!quoted && !labels && name.starts_with("weir_switch_"), "{line:?}");
    assert!(letters.as_str().parse::<f64>().is_ok(), "{line:?} ends in no number");
}
