//! Ports of untrusted peers in the built switch: their helper is killed, their guests come, go, lie and take their memory
//! away, and the trusted port beside them loses nothing.

mod attacks;
mod guest;
mod memif;
mod rates;

use crate::lab::{told, wait_for, weir};
use guest::Guest;
use memif::Peer;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use serde_json::Value;
use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use weir_testkit::{Dice, seed};
use weir_units::Nanos;
use weir_wire::pcap::{CaptureWriter, Format};

/// A switch whose trusted port replays a capture without end; killed when a test fails.
struct Switch {
    child: Child,
    folder: tempfile::TempDir,
}

/// The program that is tested: what was built with the tests, or, to be measured, what `WEIR_PROGRAM` names.
fn program() -> Command {
    env::var_os("WEIR_PROGRAM").map_or_else(weir, Command::new)
}

/// What a switch says of its ports.
struct Ports(Value);

impl Ports {
    fn port(&self, name: &str) -> &Value {
        let ports = self.0["ports"].as_array().unwrap();
        ports.iter().find(|port| port["name"] == name).unwrap()
    }

    fn count(&self, name: &str, what: &str) -> u64 {
        self.port(name)[what].as_u64().unwrap()
    }

    fn fault(&self, name: &str, what: &str) -> u64 {
        self.port(name)["faults"][what].as_u64().unwrap()
    }

    /// Every packet of the trusted port went on, and every packet at all ended once.
    fn nothing_is_lost(&self) {
        assert_eq!(self.count("trusted", "received"), self.count("sink", "sent"), "{:#}", self.0);
        assert_eq!(self.count("sink", "send_dropped") + self.count("trusted", "missed"), 0, "{:#}", self.0);
        for worker in self.0["workers"].as_array().unwrap() {
            let count = |key: &str| worker[key].as_u64().unwrap();
            let dropped: u64 =
                worker["dropped"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
            assert_eq!(
                count("received") + count("copied"),
                count("sent") + dropped + count("held"),
                "{worker:#}"
            );
        }
    }
}

impl Switch {
    /// With a trusted port beside these, at which packets come as fast as they are taken.
    fn start(ports: &[&str], flows: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        capture(folder.path(), 60);
        let ports = [&["trusted=trace:in.pcap,loop", "sink=null"][..], ports].concat();
        let flows = [&["in_port=trusted,actions=output:sink"][..], flows].concat();
        Self::start_in(folder, &ports, &flows)
    }

    fn start_in(folder: tempfile::TempDir, ports: &[&str], flows: &[&str]) -> Self {
        let mut command = program();
        command
            .args(["switch", "--poll", "adaptive", "--control"])
            .arg(folder.path().join("control"))
            .current_dir(folder.path());
        // A memif port's path has to be whole.
        let whole = |port: &&str| port.replace("FOLDER", &folder.path().display().to_string());
        command.args(ports.iter().flat_map(|port| ["--port".to_owned(), whole(port)]));
        command.args(flows.iter().flat_map(|flow| ["--flow", flow]));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut headline, mut output) = (String::new(), BufReader::new(child.stdout.take().unwrap()));
        output.read_line(&mut headline).unwrap();
        assert!(headline.contains("Ctrl-C ends it"), "{headline:?}");
        child.stdout = Some(output.into_inner());
        Self { child, folder }
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = weir();
        command.arg("switch").args(arguments).arg("--control").arg(self.folder().join("control"));
        command.current_dir(self.folder()).output().unwrap()
    }

    fn ports(&self) -> Ports {
        let output = self.run(&["stats", "--json"]);
        Ports(serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(&output))))
    }

    fn wait(&self, what: &str, is_so: impl Fn(&Ports) -> bool) -> Ports {
        wait_for(what, || Some(self.ports()).filter(&is_so))
    }

    /// Numbers of the processes that serve its ports.
    fn helpers(&self) -> Vec<u32> {
        let below = |process: u32| -> Vec<u32> {
            let path = format!("/proc/{process}/task/{process}/children");
            let of_others = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
            let text = of_others.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
            let text = text.chain(fs::read_to_string(path).ok()).collect::<Vec<_>>().join(" ");
            text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
        };
        let mut found: Vec<u32> = below(self.child.id()).into_iter().flat_map(below).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// A capture of frames of so many bytes, `in.pcap`.
fn capture(folder: &Path, bytes: usize) {
    let capture = fs::File::create(folder.join("in.pcap")).unwrap();
    let mut capture = CaptureWriter::new(capture, Format::Pcap).unwrap();
    (0..64_u8).for_each(|number| capture.write(Nanos(1), &vec![number; bytes]).unwrap());
    capture.finish().unwrap();
}

impl Drop for Switch {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(process: u32, signal: Signal) {
    // It may have ended.
    let _ = kill(Pid::from_raw(process as i32), signal);
}

#[test]
fn a_helper_that_dies_costs_its_ports_packets_in_flight_and_is_started_again() {
    let switch =
        Switch::start(&["guest=untrusted:net_vhost0,iface=guest.sock"], &["in_port=guest,actions=in_port"]);
    let socket = switch.folder().join("guest.sock");
    let mut guest = Guest::connect(&socket);
    switch.wait("the guest's link", |ports| ports.port("guest")["link_up"] == true);
    for (round, how) in [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGKILL].iter().enumerate() {
        let before = echoed(&switch, &mut guest);
        let helpers = switch.helpers();
        let [helper] = helpers[..] else { panic!("one helper: {helpers:?}") };
        // The first SIGSEGV or SIGBUS that is no fault is taken by Rust's guard of the stack, and only the next one kills.
        wait_for("its end", || {
            signal(helper, *how);
            (!switch.helpers().contains(&helper)).then_some(())
        });
        let after = switch.wait("another", |ports| ports.fault("guest", "restarts") > round as u64);
        assert!(after.count("trusted", "received") >= before.count("trusted", "received"));
        // What came went back to the guest, which has no room for it: all of it was the helper's when it ended.
        let (sent, undelivered) = (before.count("guest", "sent"), after.fault("guest", "undelivered"));
        assert_eq!((undelivered, after.fault("guest", "unsent")), (sent, 0), "{:#}", after.0);
        let other =
            wait_for("another helper", || switch.helpers().first().copied().filter(|new| *new != helper));
        assert_ne!(other, helper);
        // A guest that starts again finds the socket.
        guest = wait_for("the socket", || Guest::try_connect(&socket));
        switch.wait("the guest's link again", |ports| ports.port("guest")["link_up"] == true);
    }
    let last = echoed(&switch, &mut guest);
    last.nothing_is_lost();
    assert_eq!((last.fault("guest", "restarts"), last.fault("guest", "lies")), (3, 0), "{:#}", last.0);
    assert!(last.count("guest", "sent") > last.fault("guest", "undelivered"), "{:#}", last.0);
    let text = String::from_utf8(switch.run(&["stats"]).stdout).unwrap();
    assert!(text.contains("guest, its helpers: restarts 3"), "{text}");
}

/// Has a guest send until packets of its go back to it: the tables learn of a link within a tenth of a second. Returns
/// what the switch says once all that was sent has come.
fn echoed(switch: &Switch, guest: &mut Guest) -> Ports {
    let before = switch.ports();
    let (sent, mut received) = (before.count("guest", "sent"), before.count("guest", "received"));
    wait_for("packets that go back", || {
        guest.send(20, 60);
        received += 20;
        let now = switch.wait("the guest's packets", |ports| ports.count("guest", "received") >= received);
        Some(now).filter(|ports| ports.count("guest", "sent") > sent)
    })
}

/// What the kernel says of a helper: its threads open nothing, start nothing, and the one that has packets has no rights.
fn has_given_up(helper: u32) {
    let tasks = fs::read_dir(format!("/proc/{helper}/task")).unwrap();
    let of = |text: &str, key: &str| -> String {
        let line = text.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split_once(":\t")).map_or_else(String::new, |(_, value)| value.to_owned())
    };
    let mut serves = 0;
    for task in tasks {
        let text = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        // Two that a switch's control threads have, and its own.
        let filters = (of(&text, "NoNewPrivs"), of(&text, "Seccomp"), of(&text, "Seccomp_filters"));
        assert_eq!(filters, ("1".to_owned(), "2".to_owned(), "3".to_owned()), "{text}");
        let held = ["CapPrm", "CapBnd"].map(|set| u64::from_str_radix(&of(&text, set), 16).unwrap());
        if of(&text, "Name") == "weir-helper" {
            serves += 1;
            assert_eq!(held[0], 0, "{text}");
        }
        // Folders of others, for a socket in them. Who is not root keeps what none of it may have.
        let folders = 1 << 1;
        assert!(
            held[0] & !folders == 0 && (held[1] & !folders == 0 || !Uid::effective().is_root()),
            "{text}"
        );
    }
    assert_eq!(serves, 1);
    assert_eq!(fs::read_to_string(format!("/proc/{helper}/oom_score_adj")).unwrap().trim(), "1000");
}

#[test]
fn a_guest_that_takes_its_memory_away_or_lies_in_its_rings_costs_the_trusted_port_nothing() {
    let switch = Switch::start(
        &["a=untrusted:net_vhost0,iface=a.sock", "b=untrusted:net_vhost1,iface=b.sock"],
        &["in_port=a,actions=output:b", "in_port=b,actions=output:a"],
    );
    let (a, b) = (switch.folder().join("a.sock"), switch.folder().join("b.sock"));
    let mut liar = Guest::connect(&a);
    let mut honest = Guest::connect(&b);
    switch.wait("both links", |ports| ["a", "b"].iter().all(|name| ports.port(name)["link_up"] == true));
    honest.send(20, 60);
    switch.wait("honest packets", |ports| ports.count("b", "received") >= 20);
    // What descriptors, chains and numbers a driver must not believe.
    let mut dice = Dice::new(seed(14));
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(400) {
        liar.lie(|end| dice.below(end));
    }
    let then = switch.ports();
    then.nothing_is_lost();
    drop(liar);
    // Memory that is not there any more: whoever reads it dies.
    for round in 0..2 {
        let mut guest = wait_for("the socket", || Guest::try_connect(&a));
        let restarts = switch.ports().fault("a", "restarts");
        switch.wait("the link", |ports| ports.port("a")["link_up"] == true);
        guest.send(10, 60);
        // The connection stays: a hypervisor that means harm does not hang up.
        let _connection = guest.take_memory_away();
        let after = switch.wait("the helper's end", |ports| ports.fault("a", "restarts") > restarts);
        assert!(after.count("trusted", "received") > then.count("trusted", "received"), "round {round}");
    }
    honest.send(20, 60);
    let last = switch.wait("honest packets again", |ports| ports.count("b", "received") >= 40);
    assert_eq!(last.fault("b", "restarts"), 0, "the other guest's helper went on: {:#}", last.0);
    last.nothing_is_lost();
    // A guest that starts again finds the same helper.
    drop(honest);
    switch.wait("the link's end", |ports| ports.port("b")["link_up"] == false);
    let mut again = wait_for("the socket", || Guest::try_connect(&b));
    again.send(20, 60);
    let last = switch.wait("its packets", |ports| ports.count("b", "received") >= 60);
    assert_eq!((last.fault("b", "restarts"), last.count("b", "received")), (0, 60), "{:#}", last.0);
}

#[test]
fn a_memif_peer_that_lies_ends_its_own_helper_and_costs_the_trusted_port_nothing() {
    let switch = Switch::start(
        &["peer=untrusted:net_memif0,role=server,socket=FOLDER/memif,socket-abstract=no"],
        &["in_port=peer,actions=output:sink"],
    );
    let socket = switch.folder().join("memif");
    for round in 1..=2 {
        let mut peer = wait_for("the port", || Peer::connect(&socket));
        peer.send();
        let before = switch.wait("the peer's packet", |ports| ports.count("peer", "received") == round);
        peer.lie();
        let after = switch.wait("another helper", |ports| ports.fault("peer", "restarts") >= round);
        assert!(after.count("trusted", "received") > before.count("trusted", "received"));
        assert_eq!(after.port("peer")["trouble"], "its helper ended by SIGSEGV", "{:#}", after.0);
    }
    let mut last = wait_for("the port", || Peer::connect(&socket));
    last.send();
    let ports = switch.wait("the last packet", |ports| ports.count("peer", "received") == 3);
    let came = ports.count("trusted", "received") + ports.count("peer", "received");
    assert_eq!(
        (came, ports.count("sink", "send_dropped")),
        (ports.count("sink", "sent"), 0),
        "{:#}",
        ports.0
    );
    let text = String::from_utf8(switch.run(&["stats"]).stdout).unwrap();
    assert!(text.contains("peer: its helper ended by SIGSEGV"), "{text}");
}

#[test]
fn an_untrusted_memif_port_outlives_peers_that_are_killed() {
    let switch = Switch::start(
        &["peer=untrusted:net_memif0,role=server,socket=FOLDER/memif,socket-abstract=no"],
        &["in_port=peer,actions=output:sink"],
    );
    let memif = format!(
        "out=net_memif0,role=client,socket={},socket-abstract=no",
        switch.folder().join("memif").display()
    );
    let mut before = 0;
    for _ in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        capture(folder.path(), 60);
        let peer = Switch::start_in(
            folder,
            &["in=trace:in.pcap,loop,rate=100kpps", &memif],
            &["in_port=in,actions=output:out"],
        );
        switch.wait("packets of the peer", |ports| ports.count("peer", "received") > before + 2000);
        drop(peer);
        let down = switch.wait("the link's end", |ports| ports.port("peer")["link_up"] == false);
        before = down.count("peer", "received");
    }
    // Of what the last was sending nothing comes any more.
    let last = switch.ports();
    let came = last.count("trusted", "received") + last.count("peer", "received");
    assert_eq!((came, last.fault("peer", "restarts")), (last.count("sink", "sent"), 0), "{:#}", last.0);
}

#[test]
fn an_untrusted_port_is_added_and_removed_while_the_switch_runs_and_mistakes_are_told() {
    let switch =
        Switch::start(&["a=untrusted:net_memif0,role=server,socket=FOLDER/a.sock,socket-abstract=no"], &[]);
    let [helper] = switch.helpers()[..] else { panic!("one helper") };
    has_given_up(helper);
    let added = switch.run(&["ctl", "add-port", "b", "untrusted:net_vhost1,iface=b.sock"]);
    assert!(added.status.success(), "{}", told(&added));
    assert!(switch.folder().join("b.sock").exists());
    assert_eq!(switch.helpers().len(), 2);
    for (port, why) in [
        ("untrusted:net_vhost2,iface=a.sock", "cannot make its socket"),
        ("untrusted:net_vhost2,ifac=c.sock", "net_vhost2"),
        ("untrusted:core=4095:net_vhost2,iface=c.sock", "core 4095"),
        ("untrusted:null", "does not share memory"),
    ] {
        let refused = switch.run(&["ctl", "add-port", "c", port]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains(why), "{port}: {}", told(&refused));
    }
    let removed = switch.run(&["ctl", "del-port", "b"]);
    assert!(removed.status.success(), "{}", told(&removed));
    assert!(!switch.folder().join("b.sock").exists(), "it is removed");
    assert_eq!(switch.helpers().len(), 1);
    let helpers = switch.helpers();
    drop(switch);
    wait_for("the helper's end with the switch", || {
        let ended = |process: &u32| !Path::new(&format!("/proc/{process}")).exists();
        helpers.iter().all(ended).then_some(())
    });
}
