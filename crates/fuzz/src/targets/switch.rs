//! The switch's own doors: configuration and control socket; and a switch that listens, for others.

use super::{seeds, text};
use crate::{Budget, Outcome, Target, refused};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_switch::protocol::read_request;
use weir_switch::{About, Known, MetricsAt, MetricsServer, Request, Settings, Stats, Switch};

#[path = "../../../switch/tests/double/mod.rs"]
#[allow(dead_code, reason = "a part of what the switch's own tests use")]
mod double;

use double::{Bench, CONFIGURATION, Double};

pub(super) const CONFIG: Target = Target {
    name: "switch-config",
    about: "a switch's configuration: mistakes with their place, or settings that make sense",
    budget: Budget::of(1 << 20, 2048, 20_000, 64)
        .within(Duration::from_millis(300), Duration::from_micros(50)),
    longest: 4096,
    words: &[
        "[switch]\n",
        "[port.",
        "[service.",
        "[tables]\n",
        "[openflow]\n",
        "[learning]\n",
        "spec = ",
        "cores = [",
        "memory_mib = ",
        "kind = ",
        "settings = {",
        "limits = {",
        "flows = ",
        "listen = [",
        "controllers = [",
        "\"ptcp:\"",
        "true",
        "-1",
        "1e999",
        "[[",
        "]]",
        "\"\"\"",
        "'''",
        "1979-05-27",
        "number = ",
        "queues = ",
        "tcam = ",
        "metrics = ",
        "fail-mode",
        "=",
        "\n",
    ],
    seeds: || {
        seeds(&[
            CONFIGURATION,
            "[port.left]\nspec = \"null\"\n",
            "[openflow]\nlisten = [\"ptcp:6653:127.0.0.1\", \"punix:of.sock\"]\ncontrollers = [\"tcp:127.0.0.1:6653\"]\nmax_connections = 9\necho_seconds = 5\n",
        ])
    },
    run: |input| {
        let known = Known { kinds: vec!["conntrack", "counter", "noop"] };
        match Settings::parse(&text(input), Path::new("switch.toml"), &known) {
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains("switch.toml"), "{said}");
                Outcome::said(&said)
            }
            Ok(settings) => {
                settings.datapath(7);
                settings.eal();
                assert!(!settings.cores().is_empty());
                Outcome::of((settings.ports.len().min(4), settings.openflow.listen.len().min(3)))
            }
        }
    },
    workers: false,
};

const FLOW: &str = "table=1,priority=7,cookie=0x1/0xff,tcp,in_port=left,nw_src=198.18.0.0/15,tcp_dst=80 actions=dec_ttl,\
                    clone(push_vlan:0x8100,output:right),softflow:conntrack:65537,goto_table:2";

/// A switch with two ports.
pub(super) fn two_ports() -> Settings {
    double::settings("[port.left]\nspec = \"a\"\n[port.right]\nspec = \"b\"\n")
}

pub(super) const CONTROL: Target = Target {
    name: "control",
    about: "lines at the control socket, one behind the other, to one switch: answered or refused with a sentence",
    budget: Budget::of(512 << 10, 6000, 8000, 128)
        .within(Duration::from_millis(300), Duration::from_micros(100)),
    longest: 4096,
    words: &[
        "{\"command\":\"",
        "add-flow",
        "add-flows",
        "replace-flows",
        "mod-flows",
        "del-flows",
        "dump-flows",
        "add-group",
        "add-port",
        "del-port",
        "service",
        "dump-conntrack",
        "flush-conntrack",
        "trace",
        "capture",
        "release",
        "stats",
        "show",
        "null",
        "[]",
        "{}",
        "\n",
        "\"strict\":true",
        "\"id\":",
        "packet-out",
        "show-learned",
        "\\u0000",
        "\"frame\":\"",
        "\"limit\":1",
        "\"from\":",
    ],
    seeds: || {
        let lines = [
            format!(r#"{{"command": "add-flow", "flow": "{FLOW}"}}"#),
            format!(r#"{{"command": "add-flows", "flows": "{FLOW}\ndelete tcp\nmodify_strict {FLOW}"}}"#),
            format!(r#"{{"command": "replace-flows", "flows": "{FLOW}", "name": "flows.txt"}}"#),
            r#"{"command": "del-flows", "flow": "table=1,udp,out_port=left,out_group=3"}"#.to_owned(),
            r#"{"id": 7, "command": "dump-flows", "flow": "table=1,ipv6,ipv6_src=2001:db8::/32"}"#.to_owned(),
            r#"{"command": "add-group", "group": "group_id=1,type=select,bucket=weight:3,actions=output:left"}"#.to_owned(),
            r#"{"command": "add-meter", "meter": "meter=1,kbps,burst,bands=type=drop,rate=100,burst_size=7"}"#.to_owned(),
            r#"{"command": "add-port", "name": "middle", "spec": "trace:a.pcap,tx=b.pcap", "queues": 2}"#.to_owned(),
            r#"{"command": "del-port", "port": "middle"}"#.to_owned(),
            r#"{"command": "service", "service": "conntrack", "action": "dump", "argument": {"zone": 1}}"#.to_owned(),
            r#"{"command": "dump-conntrack", "selection": {"protocol": "tcp", "source": "10.0.0.1"}}"#.to_owned(),
            r#"{"command": "trace", "packet": "in_port=left,icmp6,ipv6_src=fe80::1,icmpv6_type=135,nd_target=fe80::2"}"#.to_owned(),
            r#"{"command": "trace", "frame": "020000000002 020000000001 0800 45000026000000004011f96ec6120001c6130001", "in_port": "left"}"#.to_owned(),
            r#"{"command": "capture", "port": "left", "matching": "tcp,tcp_dst=80", "snap": 64, "count": 3}"#.to_owned(),
            r#"{"id": [1, {"a": null}], "command": "stats"}"#.to_owned(),
        ];
        let mut seeds: Vec<Vec<u8>> = lines.iter().map(|line| line.clone().into_bytes()).collect();
        seeds.extend(lines.chunks(4).map(|some| some.join("\n").into_bytes()));
        seeds
    },
    run: control,
    workers: false,
};

fn control(input: &[u8]) -> Outcome {
    let settings = two_ports();
    let loader_settings = settings.clone();
    let loader = Box::new(move || Ok(loader_settings.clone()));
    let mut switch = Switch::new(Double::new(), settings, loader, About::default()).expect("two ports");
    let mut came = Vec::new();
    for line in text(input).lines().take(32) {
        let request = read_request(line).map_err(|(_, error)| error);
        came.push(
            match request.and_then(|(_, request)| match request {
                // They end the switch, or wait for what comes.
                Request::Stop {} | Request::Monitor {} => Ok(None),
                request => switch.answer(request).map(Some),
            }) {
                Ok(_) => Outcome::of(0),
                Err(error) => refused(&error, input),
            },
        );
    }
    // It still answers.
    switch.answer(Request::Show {}).expect("what has happened leaves a switch that answers");
    Outcome::of(came)
}

/// A switch without a datapath that listens for controllers and for who asks for metrics.
pub(super) struct Listening {
    bench: Bench,
    metrics: MetricsServer,
    folder: tempfile::TempDir,
    used: u32,
}

/// Inputs that one switch is used for: what controllers leave behind adds up.
const USES: u32 = 300;

impl Listening {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = two_ports();
        let listen = format!("punix:{}", folder.path().join("of").display());
        settings.openflow.listen = vec![listen.parse().expect("an address")];
        let bench = Bench::new(settings);
        let at = MetricsAt::Unix(folder.path().join("metrics"));
        let metrics = MetricsServer::listen(&at, bench.asks.clone()).expect("it listens");
        Self { bench, metrics, folder, used: 0 }
    }

    /// Calls with the switch of this thread.
    pub(super) fn with<T>(call: impl FnOnce(&Self) -> T) -> T {
        thread_local! {
            static SWITCH: RefCell<Option<Listening>> = const { RefCell::new(None) };
        }
        SWITCH.with_borrow_mut(|switch| {
            if switch.as_ref().is_some_and(|switch| switch.used >= USES) {
                *switch = None;
            }
            let switch = switch.get_or_insert_with(Self::new);
            switch.used += 1;
            let answer = call(switch);
            switch.bench.behind.lock().unwrap_or_else(std::sync::PoisonError::into_inner).applied.clear();
            answer
        })
    }

    /// Where controllers connect.
    pub(super) fn openflow(&self) -> PathBuf {
        self.folder.path().join("of")
    }

    /// Where metrics are asked for.
    pub(super) fn metrics(&self) -> &Path {
        match self.metrics.at() {
            MetricsAt::Unix(path) => path,
            MetricsAt::Tcp(_) => unreachable!("it listens at a Unix socket"),
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Whoever waits in the thread of the switch is told; a switch that has died says so elsewhere.
        let _ = weir_switch::ask(&self.bench.asks, Request::Stop {});
    }
}

/// The ledger of a switch with two ports.
pub(super) fn ledger() -> Stats {
    let settings = two_ports();
    let loader_settings = settings.clone();
    let loader = Box::new(move || Ok(loader_settings.clone()));
    let mut switch = Switch::new(Double::new(), settings, loader, About::default()).expect("two ports");
    switch.stats().expect("a ledger")
}
