//! What it costs to keep a port apart: a trusted and an untrusted vhost port of the same guest, in turns.
//!
//! The guest costs next to nothing: it says of the same packets that they are there again, fifteen thousand times a second.
//! Its helper runs on the first core that this process may use, the worker on the last: with two cores, the guest and
//! what else the machine does share the helper's. What is printed is the table of docs/untrusted.md.

use super::guest::Guest;
use super::{Ports, Switch, capture};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Rounds of each measurement, and how long one takes.
const ROUNDS: usize = 7;
const TIME: Duration = Duration::from_millis(1200);

/// Which way packets go.
#[derive(Clone, Copy, Debug)]
enum Way {
    FromGuest,
    ToGuest,
}

/// Millions of packets a second through a guest's port.
fn rate(port: &str, way: Way, bytes: usize) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    capture(folder.path(), bytes);
    let socket = folder.path().join("guest.sock");
    let (other, flow) = match way {
        Way::FromGuest => ("other=null", "in_port=guest,actions=output:other"),
        Way::ToGuest => ("other=trace:in.pcap,loop", "in_port=other,actions=output:guest"),
    };
    let switch = Switch::start_in(folder, &[&format!("guest={port}"), other], &[flow]);
    let mut guest = Guest::connect(&socket);
    switch.wait("the guest's link", |ports| ports.port("guest")["link_up"] == true);
    guest.make_room();
    match way {
        Way::FromGuest => guest.fill(bytes),
        Way::ToGuest => {}
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                guest.go_on(matches!(way, Way::FromGuest));
                std::thread::sleep(Duration::from_micros(10));
            }
        });
        let read = |ports: Ports| {
            let count = match way {
                Way::FromGuest => ports.count("guest", "received"),
                Way::ToGuest => ports.count("guest", "sent"),
            };
            (count, ports.0["uptime_ns"].as_u64().unwrap())
        };
        std::thread::sleep(TIME / 4);
        let (count, begin) = read(switch.ports());
        std::thread::sleep(TIME);
        let (after, end) = read(switch.ports());
        stop.store(true, Ordering::Relaxed);
        (after - count) as f64 * 1e3 / (end - begin) as f64
    })
}

/// Median, least and most, in words.
pub(super) fn spread(mut rates: Vec<f64>) -> String {
    rates.sort_by(f64::total_cmp);
    format!("{:.2} ({:.2} to {:.2})", rates[rates.len() / 2], rates[0], rates[rates.len() - 1])
}

#[test]
#[ignore = "two minutes, and it means something only on a machine that does nothing else"]
fn an_untrusted_ports_rate_beside_a_trusted_ones() {
    let mut table = String::from(
        "| way, frame | trusted, Mpps | untrusted, Mpps | ratio of a pair |\n|---|---|---|---|\n",
    );
    for (way, name) in [(Way::FromGuest, "from the guest"), (Way::ToGuest, "to the guest")] {
        for bytes in [60, 1514] {
            let (mut trusted, mut untrusted) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                trusted.push(rate("net_vhost0,iface=guest.sock", way, bytes));
                untrusted.push(rate("untrusted:net_vhost0,iface=guest.sock", way, bytes));
            }
            assert!(
                trusted.iter().chain(&untrusted).all(|rate| *rate > 0.0),
                "{name}: {trusted:?}, {untrusted:?}"
            );
            let pairs: Vec<f64> = trusted.iter().zip(&untrusted).map(|(t, u)| u / t).collect();
            let [t, u, r] = [trusted, untrusted, pairs].map(spread);
            let _ = writeln!(table, "| {name}, {bytes} B | {t} | {u} | {r} |");
        }
    }
    println!("{table}");
}
