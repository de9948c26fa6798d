//! VPP's start-up file, and a network function as commands of its command line.
//!
//! `l2fwd` connects two interfaces (`l2 xconnect`), `l3fwd:N` is N routes of its IP table whose neighbours are set by hand, and
//! `firewall:N` a list of its ACL plugin. A chain is one of these between the two interfaces, with the lists of the functions
//! before and behind it on the interface they stand at: on what comes in there, and on what leaves.

use crate::StartRequest;
use crate::eal::{self, RING, Vdev};
use crate::l3fwd::mac;
use std::path::Path;
use weir_trial::Nf;
use weir_wire::table::{Action, Ports, Rule, next_hop_mac, port_mac};

/// What VPP may have for its heap, in MiB, beside a trace that it feeds itself with; it takes what it uses.
const HEAP_MEGABYTES: u64 = 1024;

/// What its counters may take: those of each route are among them.
const COUNTERS: &str = "128M";

/// Bytes that a packet of a fed trace takes beside its own.
const TRACE_OVERHEAD: u64 = 64;

/// Plugins that are loaded; all others stay out.
const PLUGINS: [&str; 3] = ["memif", "vhost", "acl"];

/// As many packets as a source sends before it stops: never.
const FOR_EVER: u64 = 1_000_000_000_000_000;

/// A router takes only what is addressed to it. The lab's packets, the same for every device, have the addresses of
/// hosts behind the ports (`crates/traffic/src/trace/synthetic.rs`), and those that another router of a chain sends
/// have its next hops'.
fn addressed() -> [[u8; 6]; 4] {
    [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], next_hop_mac(1), next_hop_mac(0)]
}

/// A step of what makes a function.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// A command that prints nothing.
    Command(String),
    /// Commands that are read from a file of this name.
    File(String, String),
}

/// What makes a port.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Port {
    /// Commands that print nothing.
    pub(super) commands: Vec<String>,
    /// The interface's name.
    pub(super) named: Named,
    /// What begins to feed it, where it feeds itself.
    pub(super) feed: Option<String>,
}

/// Where an interface's name comes from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Named {
    /// From its numbers.
    As(String),
    /// It is what this command, the last one, prints.
    By(String),
}

/// The functions of a chain by what VPP makes of them: a router at most, and a list on either side of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Row {
    router: Option<Nf>,
    /// Next to the first port, and next to the second.
    lists: [Option<Nf>; 2],
}

/// Whether a function can be made of it; the reason where not.
pub(super) fn supports(nf: Nf) -> Result<(), String> {
    let row = Row::of(nf)?;
    row.lists.iter().flatten().try_for_each(|list| entries(*list).map(drop))
}

impl Row {
    fn of(nf: Nf) -> Result<Self, String> {
        let (mut router, mut sides) = (None, [Vec::new(), Vec::new()]);
        for member in nf.members() {
            match member {
                Nf::L2Fwd => {}
                Nf::L3Fwd { .. } if router.is_none() => router = Some(member),
                Nf::Firewall { .. } => sides[usize::from(router.is_some())].push(member),
                Nf::L3Fwd { .. } => return Err(too_much("a second router")),
                _ => return Err(crate::wants_tables(super::NAME, member)),
            }
        }
        if router.is_none()
            && let [first, second] = sides[0][..]
        {
            return Ok(Self { router, lists: [Some(first), Some(second)] });
        }
        if sides.iter().any(|side| side.len() > 1) {
            return Err(too_much("a second list of rules at one interface"));
        }
        Ok(Self { router, lists: sides.map(|side| side.first().copied()) })
    }
}

fn too_much(what: &str) -> String {
    format!(
        "vpp is one router or wire between two ports, with a list of rules at each, which leaves no room for {what}; take another \
         deployment"
    )
}

/// The start-up file. Words stand apart, as VPP splits it at white space.
pub(super) fn start_up(request: &StartRequest<'_>, socket: &Path) -> String {
    let folder = request.folder.path().display();
    let pages = if request.huge_pages { "default-hugepage" } else { "default" };
    let workers = if request.core == request.control_core {
        String::new()
    } else {
        format!("  corelist-workers {}\n", request.core)
    };
    let trace = u64::from(request.buffers) * (u64::from(request.max_frame.bytes()) + TRACE_OVERHEAD);
    format!(
        "unix {{\n  nodaemon\n  nosyslog\n  runtime-dir {folder}\n  cli-listen {}\n  cli-no-banner\n  cli-no-pager\n}}\n\
         cpu {{\n  main-core {}\n{workers}}}\n\
         memory {{\n  main-heap-size {}M\n}}\n\
         buffers {{\n  buffers-per-numa {}\n  page-size {pages}\n}}\n\
         statseg {{\n  size {COUNTERS}\n}}\n{}",
        socket.display(),
        request.control_core,
        HEAP_MEGABYTES + trace.div_ceil(1 << 20),
        eal::buffers(request) - request.buffers,
        plugins(&PLUGINS),
    )
}

/// The start-up file of one that only says which version it is: it reads the commands in a file, which print that.
pub(super) fn start_up_for_version(folder: &Path, commands: &Path) -> String {
    format!(
        "unix {{\n  nodaemon\n  nosyslog\n  runtime-dir {}\n  exec {}\n}}\n\
         buffers {{\n  buffers-per-numa 1024\n  page-size default\n}}\n{}",
        folder.display(),
        commands.display(),
        plugins(&[]),
    )
}

fn plugins(names: &[&str]) -> String {
    let names: String =
        names.iter().map(|name| format!("  plugin {name}_plugin.so {{ enable }}\n")).collect();
    format!("plugins {{\n  plugin default {{ disable }}\n{names}}}\n")
}

/// Whether it can have a port; the reason where not.
pub(super) fn can_have(port: &str) -> Result<(), String> {
    match Vdev::new(port).driver() {
        "net_vhost" | "net_memif" | "net_pcap" | "net_null" => Ok(()),
        "net_virtio_user" => {
            let reason = "without DPDK it has the vhost-user back end alone: leave `backend` to the device, and in a chain let \
                          it be the host, or take the deployment vale or inline";
            Err(reason.to_owned())
        }
        other => Err(format!("it has no port `{other}` without DPDK")),
    }
}

/// What makes a port, of a router with its address.
pub(super) fn port(number: usize, port: &str, nf: Nf) -> Port {
    let address = nf.members().iter().any(|member| matches!(member, Nf::L3Fwd { .. }));
    let address = address.then(|| mac(port_mac((number % 2) as u8)));
    let addressed = |key: &str| address.as_ref().map_or_else(String::new, |mac| format!(" {key} {mac}"));
    let vdev = Vdev::new(port);
    let option = |key| vdev.option(key).unwrap_or_default();
    match vdev.driver() {
        "net_vhost" => {
            let server = if option("client") == "1" { "" } else { " server" };
            let command =
                format!("create vhost-user socket {}{server}{}", option("iface"), addressed("hwaddr"));
            Port { commands: Vec::new(), named: Named::By(command), feed: None }
        }
        "net_memif" => {
            let (socket, id) = (number + 1, option("id"));
            let role = if option("role") == "server" { "master" } else { "slave" };
            let commands = vec![
                format!("create memif socket id {socket} filename {}", option("socket")),
                format!(
                    "create interface memif id {id} socket-id {socket} {role} ring-size {RING} buffer-size {} no-zero-copy{}",
                    option("bsize"),
                    addressed("hw-addr")
                ),
            ];
            Port { commands, named: Named::As(format!("memif{socket}/{id}")), feed: None }
        }
        _ => generator(number, vdev, &addressed("hw-addr")),
    }
}

/// What it is told to write into instead of a sink, which is there already: it refuses that, but opens the name it was given
/// at the first packet only, and by then it leads to the sink.
pub(super) fn capture(sink: &str) -> String {
    format!("{sink}.of-vpp.pcap")
}

/// A port of its packet generator: source of a capture, sink, or both.
fn generator(number: usize, vdev: Vdev<'_>, address: &str) -> Port {
    let mut commands = vec![format!("create packet-generator interface pg{number}{address}")];
    if let Some(path) = vdev.option("tx_pcap") {
        commands.push(format!("packet-generator capture pg{number} pcap {}", capture(path)));
    }
    let feed = vdev.option("rx_pcap").map(|path| {
        commands.push(format!(
            "packet-generator new name feed{number} limit {FOR_EVER} source pg{number} node ethernet-input worker 0 pcap {path}"
        ));
        format!("packet-generator enable-stream feed{number}")
    });
    Port { commands, named: Named::As(format!("pg{number}")), feed }
}

/// What makes a function between pairs of interfaces, which are up at the end.
pub(super) fn function(nf: Nf, interfaces: &[String]) -> Result<Vec<Step>, String> {
    let row = Row::of(nf)?;
    let mut steps = Vec::new();
    for pair in interfaces.chunks_exact(2) {
        match row.router {
            Some(router) => steps.extend(routes(router, pair)),
            None => {
                let wires = [(0, 1), (1, 0)]
                    .map(|(from, to)| format!("set interface l2 xconnect {} {}", pair[from], pair[to]));
                steps.extend(wires.map(Step::Command));
            }
        }
    }
    steps.extend(lists(row, interfaces)?);
    steps.extend(interfaces.iter().map(|name| Step::Command(format!("set interface state {name} up"))));
    Ok(steps)
}

/// Routes, and neighbours in networks for documentation (RFC 5737), which no trace holds.
fn routes(router: Nf, pair: &[String]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut command = |text| steps.push(Step::Command(text));
    for (port, name) in (0_u8..).zip(pair) {
        for address in addressed() {
            command(format!("set interface secondary-mac-address {name} {} add", mac(address)));
        }
        command(format!("set interface ip address {name} 192.0.2.{}/30", 4 * port + 1));
        command(format!("ip neighbor {name} {} {} static", hop(port), mac(next_hop_mac(port))));
    }
    let route = |route: &weir_wire::table::Route| {
        format!("ip route add {} via {} {}\n", route.prefix, hop(route.port), pair[usize::from(route.port)])
    };
    let routes = router.routes().iter().map(route).collect();
    steps.push(Step::File("routes.cli".to_owned(), routes));
    steps
}

fn hop(port: u8) -> String {
    format!("192.0.2.{}", 4 * port + 2)
}

/// The lists of rules. One by itself is looked at where packets come in; one of a row also where they leave by its interface.
fn lists(row: Row, interfaces: &[String]) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let alone = row.router.is_none() && row.lists.iter().flatten().count() == 1;
    // VPP numbers its lists as they come.
    for (number, (side, list)) in
        (0..2).zip(row.lists).filter_map(|(side, list)| Some((side, list?))).enumerate()
    {
        let text = format!("set acl-plugin acl {}\n", entries(list)?.join(", "));
        steps.push(Step::File(format!("rules{number}.cli"), text));
        let here = |(place, _): &(usize, &String)| alone || place % 2 == side;
        for (_, name) in interfaces.iter().enumerate().filter(here) {
            let ways: &[&str] = if alone { &["input"] } else { &["input", "output"] };
            steps.extend(
                ways.iter()
                    .map(|way| Step::Command(format!("set acl-plugin interface {name} {way} acl {number}"))),
            );
        }
    }
    Ok(steps)
}

/// The rules of a list, as the ACL plugin reads them.
fn entries(list: Nf) -> Result<Vec<String>, String> {
    list.rules().iter().map(entry).collect()
}

fn entry(rule: &Rule) -> Result<String, String> {
    let action = match rule.action {
        Action::Allow => "permit",
        Action::Deny => "deny",
    };
    let mut text = format!("{action} src {} dst {}", rule.source, rule.destination);
    match (rule.protocol, rule.source_ports, rule.destination_ports) {
        (Some(protocol), ..) => text += &format!(" proto {protocol}"),
        (None, Ports::Any, Ports::Any) => {}
        _ => return Err(format!("its lists know ports only with a protocol, unlike `{rule}`")),
    }
    for (key, ports) in [("sport", rule.source_ports), ("dport", rule.destination_ports)] {
        if let Ports::Range { first, last } = ports {
            text += &format!(" {key} {first}-{last}");
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eal::tests::request;
    use crate::folder::Folder;

    const L2: Nf = Nf::L2Fwd;
    const L3: Nf = Nf::L3Fwd { routes: 2 };

    /// The commands of a function, and the files that are read.
    fn made(nf: &str) -> (Vec<String>, Vec<String>) {
        let names = ["memif1/0".to_owned(), "memif2/1".to_owned()];
        let (mut commands, mut files) = (Vec::new(), Vec::new());
        for step in function(nf.parse().unwrap(), &names).unwrap() {
            match step {
                Step::Command(command) => commands.push(command),
                Step::File(name, text) => files.push(format!("{name}: {text}")),
            }
        }
        (commands, files)
    }

    #[test]
    fn ports_are_made_by_their_drivers_commands() {
        let vhost = "net_vhost0,iface=/t/link0.sock,queues=1,client=0";
        let by = |command: &str| Named::By(command.to_owned());
        assert_eq!(port(0, vhost, L2).named, by("create vhost-user socket /t/link0.sock server"));
        assert_eq!(
            port(1, &vhost.replace("client=0", "client=1"), L3).named,
            by("create vhost-user socket /t/link0.sock hwaddr 02:00:00:00:01:01")
        );
        let memif = "net_memif1,role=server,id=1,socket=/t/link1.sock,socket-abstract=no,rsize=10,bsize=2048";
        let made = port(1, memif, L2);
        assert_eq!((made.named, made.feed), (Named::As("memif2/1".to_owned()), None));
        assert_eq!(
            made.commands,
            [
                "create memif socket id 2 filename /t/link1.sock",
                "create interface memif id 1 socket-id 2 master ring-size 1024 buffer-size 2048 no-zero-copy"
            ]
        );
        assert!(can_have("net_virtio_user0,path=/t/s").unwrap_err().contains("back end alone"));
        assert!(can_have("net_af_packet0,iface=e").unwrap_err().contains("net_af_packet"));
    }

    #[test]
    fn a_port_that_feeds_itself_is_a_stream_of_the_packet_generator() {
        let made = port(0, "net_pcap0,rx_pcap=/t/a.pcap,infinite_rx=1,tx_pcap=/t/0", L3);
        assert_eq!(
            made.commands,
            [
                "create packet-generator interface pg0 hw-addr 02:00:00:00:01:00",
                "packet-generator capture pg0 pcap /t/0.of-vpp.pcap",
                "packet-generator new name feed0 limit 1000000000000000 source pg0 node ethernet-input worker 0 pcap /t/a.pcap"
            ]
        );
        assert_eq!(made.feed.as_deref(), Some("packet-generator enable-stream feed0"));
        let sink = port(1, "net_null1,no-rx=1", L2);
        assert_eq!((sink.commands.len(), sink.named, sink.feed), (1, Named::As("pg1".to_owned()), None));
    }

    #[test]
    fn functions_are_commands() {
        let (wire, files) = made("l2fwd");
        assert_eq!(
            wire,
            [
                "set interface l2 xconnect memif1/0 memif2/1",
                "set interface l2 xconnect memif2/1 memif1/0",
                "set interface state memif1/0 up",
                "set interface state memif2/1 up",
            ]
        );
        assert!(files.is_empty());
        let (routed, files) = made("l3fwd:2");
        for command in [
            "set interface secondary-mac-address memif1/0 02:00:00:00:00:02 add",
            "set interface ip address memif2/1 192.0.2.5/30",
            "ip neighbor memif2/1 192.0.2.6 02:00:00:00:02:01 static",
        ] {
            assert!(routed.iter().any(|found| found == command), "{command}: {routed:?}");
        }
        assert!(files[0].starts_with("routes.cli: ip route add 198."), "{files:?}");
        assert!(files[0].contains("ip route add 198.19.0.0/16 via 192.0.2.6 memif2/1\n"), "{files:?}");
        let (filtered, files) = made("firewall:2");
        assert_eq!(
            filtered[2..4],
            [
                "set acl-plugin interface memif1/0 input acl 0",
                "set acl-plugin interface memif2/1 input acl 0"
            ]
        );
        assert!(files[0].ends_with(", permit src 0.0.0.0/0 dst 0.0.0.0/0\n"), "{files:?}");
    }

    #[test]
    fn the_lists_of_a_chain_are_looked_at_by_what_comes_in_and_leaves_at_their_interface() {
        let at = |name: &str, list: usize| {
            ["input", "output"]
                .map(|way| format!("set acl-plugin interface {name} {way} acl {list}"))
                .to_vec()
        };
        let lists = |nf: &str| -> Vec<String> {
            made(nf).0.into_iter().filter(|command| command.contains("acl-plugin")).collect()
        };
        assert_eq!(lists("firewall:2+l3fwd:2+l2fwd"), at("memif1/0", 0));
        assert_eq!(lists("l3fwd:2+firewall:2"), at("memif2/1", 0));
        let both = [at("memif1/0", 0), at("memif2/1", 1)].concat();
        assert_eq!(lists("firewall:2+l3fwd:2+firewall:3"), both);
        assert_eq!(lists("firewall:2+l2fwd+firewall:3"), both);
        for (nf, says) in [
            ("l3fwd:2+l3fwd:3", "a second router"),
            ("firewall:2+firewall:3+l3fwd:2", "a second list"),
            ("firewall:2+firewall:3+firewall:4", "a second list"),
            ("l2fwd+pipeline-a:16", "pipeline-a"),
        ] {
            let error = supports(nf.parse().unwrap()).unwrap_err();
            assert!(error.contains(says), "{nf}: {error}");
        }
        assert!(supports(Nf::Nat { addresses: 1 }).unwrap_err().contains("tracks no connections"));
    }

    #[test]
    fn a_rule_is_an_entry_and_ports_need_a_protocol() {
        let of = |text: &str| entry(&text.parse().unwrap());
        assert_eq!(
            of("deny udp 198.18.4.0/24 1024-65535 198.19.0.0/20 53").unwrap(),
            "deny src 198.18.4.0/24 dst 198.19.0.0/20 proto 17 sport 1024-65535 dport 53-53"
        );
        assert!(of("deny any any 7 any any").unwrap_err().contains("protocol"));
    }

    #[test]
    fn the_start_up_file_states_cores_memory_socket_and_plugins() {
        let folder = Folder::new().unwrap();
        let text = |request: &StartRequest<'_>| start_up(request, "/t/cli.sock".as_ref());
        let mut request = request(L2, &[], &folder);
        let plain = text(&request);
        for part in [
            "cli-listen /t/cli.sock",
            "main-core 2\n  corelist-workers 3\n}",
            "main-heap-size 1024M",
            "buffers-per-numa 16384",
            "page-size default\n",
            "plugin default { disable }",
            "plugin acl_plugin.so { enable }",
        ] {
            assert!(plain.contains(part), "{part}: {plain}");
        }
        request.buffers = 1 << 20;
        assert!(text(&request).contains("main-heap-size 1152M"), "a fed trace lies on the heap");
        request.control_core = request.core;
        assert!(!text(&request).contains("corelist-workers"), "one core has one thread");
        request.huge_pages = true;
        assert!(text(&request).contains("page-size default-hugepage"));
    }
}
