//! Devices that somebody else started, for real: the test starts them, and the lab only meets them.

use crate::lab::{Lab, check_counters, check_sums, cores, told};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use weir_testkit::Need;
use weir_trial::run::{Run, RunState};

/// A device of the test's own, ended with it.
pub(crate) struct Device(Child);

impl Device {
    pub(crate) fn start(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", program]).args(arguments);
        // Its input stays open: a forwarder with a prompt ends with it.
        Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Whether a worker of DPDK has been busy for 20 ms.
    fn forwards(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().flatten();
        tasks.map(|task| task.path()).any(|task| {
            let text = |file: &str| std::fs::read_to_string(task.join(file)).unwrap_or_default();
            let ran = text("schedstat").split_whitespace().next().and_then(|ran| ran.parse::<u64>().ok());
            text("comm").contains("worker") && ran.is_some_and(|ran| ran > 20_000_000)
        })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// DPDK's forwarder with these ports, which forwards from the start.
fn forwarder(ports: [String; 2]) -> Device {
    let [first, second] = ports;
    let arguments = [
        "-l",
        "0,1",
        "--main-lcore",
        "0",
        "-m",
        "256",
        "--no-huge",
        "--no-shconf",
        "--no-pci",
        "--no-telemetry",
        "--vdev",
        &first,
        "--vdev",
        &second,
        "--",
        "-i",
        "--nb-cores=1",
        "--auto-start",
        "--no-mlockall",
        "--disable-link-check",
        "--total-num-mbufs=16384",
    ];
    Device::start("dpdk-testpmd", &arguments)
}

/// A plan of one point; `{folder}` in the end stands for the lab's folder.
fn plan(wiring: &str, end: &str) -> Lab {
    plan_of("size = 64\nself_check = false", wiring, end)
}

/// Two points, so that a device is met twice.
const TWICE: &str = "size = [64, 128]\nself_check = false";

fn plan_of(axes: &str, wiring: &str, end: &str) -> Lab {
    let lab = Lab::new("");
    let plan = format!(
        "nf = \"l2fwd\"\ndut = \"external\"\n{axes}\ntrace = \"flows:100\"\nwiring = {wiring:?}\n\
         huge_pages = false\n[latency]\nloads = [\"20kpps\"]\nduration = \"80ms\"\n{end}\n"
    );
    std::fs::write(lab.file("plan.toml"), plan.replace("{folder}", &folder(&lab))).unwrap();
    lab
}

fn folder(lab: &Lab) -> String {
    lab.file("").display().to_string()
}

/// Packets came back at both points, all of the untimed pass right, and nothing is left of the lab.
fn met(lab: &Lab) -> Run {
    let run = lab.measure(0);
    assert_eq!(run.state, RunState::Finished);
    for point in &run.points {
        assert_eq!(point.error, None, "{:?}", point.key);
        assert!(point.packets.as_ref().is_some_and(|packets| packets.compared > 0), "{:?}", point.packets);
        check_sums(point);
        assert!(point.trials.iter().all(|trial| trial.result.total().received > 0), "{:?}", point.key);
    }
    assert_eq!((lab.devices(), lab.leftovers()), (Vec::new(), Vec::<PathBuf>::new()));
    run
}

const SOCKETS: &str = "[external]\ndescription = \"a forwarder\"\nsockets = [\"{folder}a.sock\", \"{folder}b.sock\"]\nwait_seconds = 20";

#[test]
fn a_forwarder_of_somebody_else_is_met_over_sockets_whoever_listens() {
    if !weir_testkit::needs!(Need::Program("dpdk-testpmd", "dpdk-dev")) {
        return;
    }
    let _cores = cores();
    let vhost =
        |client| move |path: &str, n: usize| format!("net_vhost{n},iface={path},queues=1,client={client}");
    let user = |server: &'static str| {
        move |path: &str, n: usize| format!("net_virtio_user{n},path={path},queues=1{server}")
    };
    let memif = |role: &'static str| {
        move |path: &str, n: usize| {
            format!("net_memif{n},role={role},id={n},socket={path},socket-abstract=no")
        }
    };
    type Port = Box<dyn Fn(&str, usize) -> String>;
    let kinds: [(&str, &str, Port); 4] = [
        ("vhost", "", Box::new(vhost(0))),
        ("vhost", "[vhost]\nserver = \"lab\"", Box::new(vhost(1))),
        ("vhost", "[vhost]\nlab = \"vhost\"", Box::new(user(",server=1"))),
        ("memif", "", Box::new(memif("server"))),
    ];
    for (wiring, sides, port) in kinds {
        // Once the tester is looped onto itself before, as it is usually.
        let axes = if sides.is_empty() && wiring == "vhost" { "size = [64, 128]" } else { TWICE };
        let lab = plan_of(axes, wiring, &format!("{SOCKETS}\n{sides}"));
        let sockets = ["a.sock", "b.sock"].map(|name| lab.file(name).display().to_string());
        let mut device = forwarder(std::array::from_fn(|n| port(&sockets[n], n)));
        if wiring == "memif" {
            // Who comes before it has its queues is turned away, and tries once.
            crate::lab::wait_for("the forwarder", || device.forwards().then_some(()));
        }
        let run = met(&lab);
        assert_eq!(run.points[0].dut_version.as_deref(), Some("a forwarder"));
        assert!(run.points[0].trials[0].result.dut.is_none(), "nothing is known of its counters");
        assert!(wiring == "memif" || device.is_alive(), "{wiring} {sides}");
    }
    // DPDK's client tries once: it comes when the lab listens.
    let lab = plan("memif", &format!("{SOCKETS}\n[memif]\nserver = \"lab\""));
    // The device is this thread's: it goes with the thread that started it.
    std::thread::scope(|scope| {
        let measured = scope.spawn(|| met(&lab));
        let sockets = ["a.sock", "b.sock"].map(|name| lab.file(name));
        crate::lab::wait_for("the lab's sockets", || sockets.iter().all(|path| path.exists()).then_some(()));
        let _device =
            forwarder(std::array::from_fn(|n| memif("client")(&sockets[n].display().to_string(), n)));
        assert_eq!(measured.join().unwrap().points.len(), 1);
    });
}

/// A bridge in a namespace of its own, which takes the interfaces when they come; the namespace's path.
fn bridge() -> (Device, String) {
    let script = "ip link add span type bridge stp_state 0 mcast_snooping 0 && echo 1 > /proc/sys/net/ipv6/conf/span/disable_ipv6\n\
                  ip link set span up\nfor name in weir0 weir1; do until ip link set $name master span 2>/dev/null; do sleep 0.1; done; done\n\
                  exec sleep 1000";
    let device = Device::start("unshare", &["--net", "sh", "-c", script]);
    let namespace = format!("/proc/{}/ns/net", device.pid());
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    crate::lab::wait_for("the namespace", || {
        std::fs::read_link(&namespace).ok().filter(|found| *found != own)
    });
    (device, namespace)
}

#[test]
fn interfaces_are_laid_for_a_bridge_of_somebody_else_and_its_counters_asked() {
    if !weir_testkit::needs!(Need::Root, Need::Namespaces, Need::Program("ip", "iproute2")) {
        return;
    }
    let _cores = cores();
    let (mut device, namespace) = bridge();
    let inside = format!("\"nsenter\", \"--net={namespace}\"");
    let external = format!(
        "[external]\nnamespace = {namespace:?}\n\
         ready = [{inside}, \"sh\", \"-c\", \"test $(ip link show master span | grep -c weir) = 2\"]\n\
         counters = [{inside}, \"awk\", \"/weir0:/ {{a = $3 \\\" \\\" $11}} /weir1:/ {{b = $3 \\\" \\\" $11}} END {{print a; print b}}\", \"/proc/thread-self/net/dev\"]"
    );
    let lab = plan_of(TWICE, "veth", &external);
    met(&lab).points.iter().for_each(check_counters);
    assert!(device.is_alive());
    let left =
        Command::new("nsenter").arg(format!("--net={namespace}")).args(["ip", "link"]).output().unwrap();
    crate::lab::wait_for("the end of the interfaces", || {
        let now =
            Command::new("nsenter").arg(format!("--net={namespace}")).args(["ip", "link"]).output().unwrap();
        (!told(&now).contains("weir0")).then_some(())
    });
    assert!(left.status.success());
}

/// Devices that do not come: nothing forwards, so the cores are not held, and it runs beside tests that measure.
mod absent {
    use super::*;

    #[test]
    fn a_device_that_does_not_come_is_told_with_what_had_to_be_connected() {
        let sockets = SOCKETS.replace("20", "1");
        for (wiring, sides, says) in [
            ("vhost", "", "the device has a vhost-user port that listens at"),
            ("vhost", "[vhost]\nserver = \"lab\"", "the device has a vhost-user port that connects to"),
            (
                "vhost",
                "[vhost]\nlab = \"vhost\"\nserver = \"lab\"",
                "the device has a virtio-user port that connects to",
            ),
            ("memif", "", "the device has a memif that listens at"),
            ("memif", "[memif]\nserver = \"lab\"", "with interface id 0 as port 0"),
        ] {
            let lab = plan(wiring, &format!("{sockets}\n{sides}"));
            let output = lab.bench().output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{}", told(&output));
            assert!(told(&output).contains("to connect"), "{}", told(&output));
            let error = lab.stored().unwrap().points[0].error.clone().unwrap();
            assert!(error.contains("no device came within 1s") && error.contains(says), "{error}");
            assert!(
                error.contains(&format!("{}b.sock as port 1", folder(&lab))) || wiring == "memif",
                "{error}"
            );
            assert!(["a.sock", "b.sock"].iter().all(|name| !Path::new(&lab.file(name)).exists()), "{sides}");
        }
    }
}

#[test]
fn what_is_wrong_with_the_interfaces_or_the_counters_is_named() {
    if !weir_testkit::needs!(Need::Root, Need::Namespaces, Need::Program("ip", "iproute2")) {
        return;
    }
    let _cores = cores();
    for (keys, says) in [
        ("namespace = \"no-such\"", "/run/netns/no-such cannot be opened"),
        ("interfaces = [\"lo\", \"weir1\"]", "File exists"),
        ("ready = [\"sh\", \"-c\", \"echo no bridge >&2; exit 3\"]\nwait_seconds = 1", "no bridge"),
    ] {
        let lab = plan("veth", &format!("[external]\n{keys}"));
        let run = lab.measure(1);
        let error = run.points[0].error.as_ref().unwrap();
        assert!(error.contains(says), "{says}: {error}");
    }
}
