//! Switches that already run and speak OpenFlow, for real: the test starts them, the lab is their controller.

use crate::lab::{Lab, Working, check_counters, cores, wait_for, weir};
use crate::somebody_elses::Device;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use weir_testkit::Need;
use weir_trial::run::{Run, RunState};

/// Open vSwitch's database and daemon, in a network namespace and a folder of their own, with a bridge `br`.
struct Ovs {
    device: Device,
    folder: tempfile::TempDir,
}

impl Ovs {
    /// With these settings, and these words of `ovs-vsctl` about its ports; `{d}` is its folder.
    fn start(daemon: &str, settings: &str, ports: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = "cd {d} && export OVS_RUNDIR={d} OVS_DBDIR={d} OVS_LOGDIR={d}\n\
             ovsdb-tool create {d}/conf.db /usr/share/openvswitch/vswitch.ovsschema\n\
             setpriv --pdeathsig KILL -- ovsdb-server {d}/conf.db --remote=punix:{d}/db.sock --unixctl={d}/ovsdb.ctl >db.log 2>&1 &\n\
             until [ -S {d}/db.sock ]; do sleep 0.05; done\n\
             v=\"ovs-vsctl --db=unix:{d}/db.sock --no-wait\"; $v init -- set Open_vSwitch . {settings}\n\
             $v add-br br -- set Bridge br datapath_type=netdev fail-mode=secure {ports}\n\
             exec {daemon} unix:{d}/db.sock --unixctl={d}/v.ctl -vconsole:info >v.log 2>&1";
        let script =
            script.replace("{settings}", settings).replace("{ports}", ports).replace("{daemon}", daemon);
        let script = script.replace("{d}", &folder.path().display().to_string());
        let device = Device::start("unshare", &["--net", "sh", "-c", &script]);
        let ovs = Self { device, folder };
        wait_for("the bridge", || ovs.file("br.mgmt").exists().then_some(()));
        ovs
    }

    /// Its userspace datapath on the interfaces that the lab makes.
    fn on_interfaces() -> Self {
        let port = |n| format!("-- add-port br weir{n} -- set Interface weir{n} ofport_request={}", 11 - n);
        Self::start("ovs-vswitchd", "other_config:x=y", &format!("{} {}", port(0), port(1)))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn namespace(&self) -> String {
        format!("[external]\nnamespace = \"/proc/{}/ns/net\"\nwait_seconds = 20", self.device.pid())
    }

    /// Its flows, without counters.
    fn flows(&self) -> String {
        self.ofctl(&["dump-flows", "--no-stats"], &[])
    }

    fn ofctl(&self, command: &[&str], arguments: &[&str]) -> String {
        let bridge = format!("unix:{}", self.file("br.mgmt").display());
        let output = Command::new("ovs-ofctl").args(command).arg(bridge).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", crate::lab::told(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn has_ovs() -> bool {
    weir_testkit::needs!(
        Need::Root,
        Need::Namespaces,
        Need::Program("ovs-vswitchd", "openvswitch-switch-dpdk")
    )
}

/// A plan for a switch at a place; short trials at a load that every machine carries.
fn plan(place: &str, nfs: &[&str], wiring: &str, end: &str) -> Lab {
    Lab::new(&format!(
        "nf = {nfs:?}\ndut = \"openflow:{place}\"\nsize = 128\ntrace = \"flows:100\"\nwiring = {wiring:?}\n\
         huge_pages = false\nself_check = false\n[latency]\nloads = [\"10kpps\"]\nduration = \"100ms\"\n{end}\n"
    ))
}

/// Every function was measured, all packets of the untimed pass right, and the switch's own counters agree.
fn measured(lab: &Lab, points: usize) -> Run {
    let run = lab.measure(0);
    assert_eq!((run.state, run.points.len()), (RunState::Finished, points));
    for point in &run.points {
        assert_eq!(point.error, None, "{:?}", point.key);
        assert!(point.packets.as_ref().is_some_and(|packets| packets.compared > 0), "{:?}", point.packets);
        assert!(point.trials.iter().all(|trial| trial.result.total().received > 0), "{:?}", point.key);
        check_counters(point);
    }
    assert_eq!((lab.devices(), lab.leftovers()), (Vec::new(), Vec::<PathBuf>::new()));
    run
}

const ALL: [&str; 3] = ["l2fwd", "l3fwd:10", "firewall:10"];

#[test]
fn open_vswitch_that_runs_on_interfaces_is_every_function_and_is_left_as_it_was() {
    if !has_ovs() {
        return;
    }
    let _cores = cores();
    let ovs = Ovs::on_interfaces();
    let lab = plan(&format!("unix:{}", ovs.file("br.mgmt").display()), &ALL, "veth", &ovs.namespace());
    let text = std::fs::read_to_string(lab.file("plan.toml")).unwrap();
    // Port 0 of the lab is the bridge's port 11; and the tester is looped onto itself before, as it is usually.
    let text = text.replace("br.mgmt", "br.mgmt+ports=weir0/10").replace("self_check = false\n", "");
    std::fs::write(lab.file("plan.toml"), text).unwrap();
    let run = measured(&lab, ALL.len());
    let version = run.points[0].dut_version.clone().unwrap();
    assert!(
        version.contains("Open vSwitch") && version.contains("ports weir0 (11) and weir1 (10)"),
        "{version}"
    );
    let dut = run.points[0].trials[0].result.dut.as_ref().unwrap();
    assert!(dut.details.keys().any(|name| name == "table 0 lookups"), "{dut:?}");
    assert_eq!(ovs.flows().lines().filter(|line| line.contains("actions")).count(), 0, "{}", ovs.flows());
}

#[test]
fn entries_of_somebody_else_are_refused_or_put_back() {
    if !has_ovs() {
        return;
    }
    let _cores = cores();
    // Two of them: this datapath does not take up an interface that went and came again.
    let [ovs, other] = [Ovs::on_interfaces(), Ovs::on_interfaces()];
    for ovs in [&ovs, &other] {
        ovs.ofctl(&["add-flow"], &["cookie=0x7,priority=77,tcp,tp_dst=80,actions=output:10"]);
    }
    let before = ovs.flows();
    let place = format!("unix:{}+ports=11/10", ovs.file("br.mgmt").display());
    let lab = plan(&place, &["l2fwd"], "veth", &ovs.namespace());
    let error = lab.measure(1).points[0].error.clone().unwrap();
    assert!(error.contains("1 entries of somebody else") && error.contains("tp_dst=80"), "{error}");
    assert!(error.contains("+replace"), "{error}");
    assert_eq!(ovs.flows(), before);
    let place = format!("unix:{}+ports=11/10+replace", other.file("br.mgmt").display());
    measured(&plan(&place, &["l2fwd"], "veth", &other.namespace()), 1);
    assert_eq!(other.flows(), before);
}

#[test]
fn a_switch_that_connects_to_the_lab_is_measured_over_sockets() {
    if !has_ovs() {
        return;
    }
    let _cores = cores();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let port = |n| {
        format!(
            "-- add-port br p{n} -- set Interface p{n} type=dpdkvhostuserclient ofport_request={} options:vhost-server-path={}",
            n + 1,
            file(&format!("{n}.sock"))
        )
    };
    let settings = "other_config:dpdk-init=true other_config:dpdk-lcore-mask=0x1 other_config:pmd-cpu-mask=0x2 other_config:pmd-maxsleep=200 \
                    other_config:per-port-memory=true \
                    other_config:dpdk-extra='\"--no-huge --legacy-mem --no-shconf --no-pci --no-telemetry -m 512\"'";
    // It lets a controller at a path of the file system be at this one alone.
    let controller = "-- set-controller br unix:{d}/br.controller -- set Controller br max_backoff=1000";
    let daemon = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
    let ovs = Ovs::start(daemon, settings, &format!("{} {} {controller}", port(0), port(1)));
    let external = format!(
        "[external]\nsockets = [\"{}\", \"{}\"]\nwait_seconds = 30\n[vhost]\nserver = \"lab\"",
        file("0.sock"),
        file("1.sock")
    );
    let place = format!("punix:{}", ovs.file("br.controller").display());
    // All of them over interfaces, above; twice, as it is met again.
    measured(&plan(&place, &["l2fwd", "firewall:10"], "vhost", &external), 2);
}

/// A port of this machine that nobody listens at.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Weir's own switch over vhost, with these options.
fn weirs(folder: &tempfile::TempDir, options: &[&str]) -> (Device, String) {
    let socket = |n| folder.path().join(format!("{n}.sock")).display().to_string();
    let port = |n| format!("net_vhost{n},iface={},queues=1,client=0", socket(n));
    let (first, second) = (port(0), port(1));
    let ports = ["--port", first.as_str(), "--port", second.as_str()];
    let own = ["switch", "--control", "none", "--poll", "adaptive", "--core", "1"];
    let arguments = [own.as_slice(), &ports, options].concat();
    let program = weir().get_program().to_str().unwrap().to_owned();
    let device = Device::start(&program, &arguments);
    (device, format!("[external]\nsockets = [\"{}\", \"{}\"]\nwait_seconds = 20", socket(0), socket(1)))
}

#[test]
fn weirs_switch_is_measured_by_a_lab_that_connects_and_by_one_that_is_connected_to() {
    let _cores = cores();
    for passive in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let (option, place) = match passive {
            false => (
                ["--listen", &format!("ptcp:{port}:127.0.0.1")].map(str::to_owned),
                format!("tcp:127.0.0.1:{port}"),
            ),
            true => (
                ["--controller", &format!("tcp:127.0.0.1:{port}")].map(str::to_owned),
                format!("ptcp:{port}"),
            ),
        };
        let (_device, external) = weirs(&folder, &option.each_ref().map(String::as_str));
        // Who connects makes no difference to a function: all of them once.
        let nfs = if passive { &["l3fwd:10"][..] } else { &ALL };
        let run = measured(&plan(&place, nfs, "vhost", &external), nfs.len());
        assert!(
            run.points[0].dut_version.as_ref().unwrap().contains("datapath"),
            "{:?}",
            run.points[0].dut_version
        );
    }
}

#[test]
fn a_switch_that_dies_in_mid_trial_fails_its_points_by_name() {
    let _cores = cores();
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let (device, external) = weirs(&folder, &["--listen", &format!("ptcp:{port}:127.0.0.1")]);
    let external = external.replace("20", "2");
    let lab = plan(&format!("tcp:127.0.0.1:{port}"), &["l2fwd"], "vhost", &external);
    let text = std::fs::read_to_string(lab.file("plan.toml")).unwrap();
    let text =
        text.replace("\"100ms\"", "\"2s\"").replace("[\"10kpps\"]", "[\"10kpps\", \"11kpps\", \"12kpps\"]");
    std::fs::write(lab.file("plan.toml"), text.replace("128", "[128, 256]")).unwrap();
    let mut working = Working::start(&mut lab.bench());
    lab.mid_trial(&mut working, 0);
    kill(Pid::from_raw(device.pid() as i32), Signal::SIGKILL).unwrap();
    assert_eq!(working.end().status.code(), Some(1));
    let run = lab.stored().unwrap();
    let errors: Vec<String> = run.points.iter().map(|point| point.error.clone().unwrap()).collect();
    assert!(
        errors[0].contains("closed the connection") || errors[0].contains("the connection broke"),
        "{errors:?}"
    );
    assert!(
        errors[1].contains(&format!("no switch that speaks OpenFlow 1.3 came to tcp:127.0.0.1:{port}")),
        "{errors:?}"
    );
    assert_eq!((lab.devices(), lab.leftovers()), (Vec::new(), Vec::<PathBuf>::new()));
}

#[test]
fn a_flow_that_a_switch_refuses_is_named_and_nothing_stays() {
    if !has_ovs() {
        return;
    }
    let _cores = cores();
    let ovs = Ovs::on_interfaces();
    // A table with room for one entry: the second is refused.
    let database = format!("--db=unix:{}", ovs.file("db.sock").display());
    let limits = [
        "--",
        "--id=@t",
        "create",
        "Flow_Table",
        "flow_limit=1",
        "overflow_policy=refuse",
        "--",
        "set",
        "Bridge",
        "br",
        "flow_tables:0=@t",
    ];
    let output = Command::new("ovs-vsctl").arg(database).args(limits).output().unwrap();
    assert!(output.status.success(), "{}", crate::lab::told(&output));
    let place = format!("unix:{}+ports=11/10", ovs.file("br.mgmt").display());
    let lab = plan(&place, &["l2fwd"], "veth", &ovs.namespace());
    let error = lab.measure(1).points[0].error.clone().unwrap();
    assert!(error.contains("it refused the flow `") && error.contains("TableFull"), "{error}");
    assert_eq!(ovs.flows().lines().filter(|line| line.contains("actions")).count(), 0, "{}", ovs.flows());
}
