//! A device on another machine: a namespace that stands for one, and a machine over ssh; right packets, what that machine is with
//! the run, and nothing left behind there.

use crate::lab::{Lab, cores, run_of, wait_for};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use weir_testkit::Need;
use weir_trial::run::{Point, Run};

/// A load that the kernel's interfaces carry beside anything.
const METHOD: &str = "trace = \"flows:100\"\nsize = 64\nhuge_pages = false\nself_check = false\n\
                      [latency]\nloads = [\"5kpps\"]\nduration = \"200ms\"\n";

/// Network namespaces with names, gone with the test.
struct Namespaces(Vec<String>);

impl Namespaces {
    fn new(names: &[&str]) -> Self {
        let names: Vec<String> =
            names.iter().map(|name| format!("weir-{name}-{}", std::process::id())).collect();
        names.iter().for_each(|name| ip(&["netns", "add", name]));
        Self(names)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

fn ip(words: &[&str]) {
    let output = Command::new("ip").args(words).output().unwrap();
    assert!(output.status.success(), "ip {words:?}: {output:?}");
}

/// The names of the interfaces in a namespace.
fn interfaces(namespace: &str) -> String {
    let output = Command::new("ip").args(["-n", namespace, "-br", "link"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Asserts that packets were right, and that the record says where the device ran.
fn is_right(run: &Run, server: &str) {
    for point in &run.points {
        let who = point.key.device();
        assert_eq!(point.error, None, "{who}");
        assert!(who.ends_with(&format!(" at {server}")), "{who}");
        let check = point.packets.as_ref().unwrap_or_else(|| panic!("{who}: no packet was compared"));
        assert!(check.is_right() && check.compared > 100, "{who}: {check}");
        let machine = there(point);
        assert!(
            machine.starts_with(server) && machine.contains("kernel: Linux") && machine.contains("cores: "),
            "{machine}"
        );
        for trial in &point.trials {
            let total = trial.result.total();
            assert!(total.received > 20 && total.foreign == 0, "{who}: {total:?}");
            let dut = trial.result.dut.as_ref().unwrap();
            assert!(dut.received >= total.received, "it is asked for its counters there: {dut:?}");
        }
    }
}

/// What the record says of the machine.
fn there(point: &Point) -> &str {
    point.configuration.get("server").map_or("", String::as_str)
}

#[test]
fn a_device_runs_in_a_namespace_that_stands_for_a_machine_and_leaves_it_as_it_was() {
    let _cores = cores();
    if !weir_testkit::needs!(Need::Root, Need::Namespaces, Need::Program("ip", "iproute2")) {
        return;
    }
    let far = Namespaces::new(&["far"]);
    let (name, before) = (&far.0[0], interfaces(&far.0[0]));
    let axes = format!(
        "nf = \"l3fwd:10\"\ndut = [\"nf\", \"weir\"]\nwiring = \"veth\"\nserver = \"netns:{name}\"\n"
    );
    let run = Lab::new(&(axes + METHOD)).measure(0);
    is_right(&run, &format!("netns:{name}"));
    wait_for("the interfaces' end", || (interfaces(name) == before).then_some(()));
}

/// A machine of two namespaces: the lab's, and one in which an ssh server listens; between them a way to speak, and two links
/// for packets.
struct Machines {
    namespaces: Namespaces,
    server: Child,
    folder: tempfile::TempDir,
}

impl Machines {
    const PORT: &str = "2222";

    fn new() -> Self {
        let namespaces = Namespaces::new(&["near", "far"]);
        let [near, far] = [0, 1].map(|place| namespaces.0[place].as_str());
        for link in ["talk", "data0", "data1"] {
            ip(&[
                "-n", near, "link", "add", "name", link, "type", "veth", "peer", "name", link, "netns", far,
            ]);
        }
        for (namespace, address) in [(near, "192.0.2.1/24"), (far, "192.0.2.2/24")] {
            let quiet = ["netns", "exec", namespace, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"];
            ip(&quiet);
            ip(&["-n", namespace, "addr", "add", address, "dev", "talk"]);
            ["lo", "talk", "data0", "data1"]
                .iter()
                .for_each(|link| ip(&["-n", namespace, "link", "set", link, "up"]));
        }
        let folder = tempfile::tempdir().unwrap();
        let server = listen(far, folder.path());
        Self { namespaces, server, folder }
    }

    /// The lab's namespace, in which `weir bench` runs, with an `ssh` that knows the key.
    fn bench(&self, lab: &Lab) -> Command {
        let bench = lab.bench();
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.namespaces.0[0]])
            .arg(bench.get_program())
            .args(bench.get_args());
        for (name, value) in bench.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.folder.path().join("bin").display()));
        command.current_dir(lab.file(""));
        command
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Starts an ssh server in a namespace, with keys of its own, and makes an `ssh` that uses them.
fn listen(namespace: &str, folder: &Path) -> Child {
    let file = |name: &str| folder.join(name).display().to_string();
    for key in ["host", "user"] {
        let words = ["-q", "-t", "ed25519", "-N", "", "-f", &file(key)];
        assert!(Command::new("ssh-keygen").args(words).status().unwrap().success());
    }
    fs::copy(file("user.pub"), file("authorized")).unwrap();
    let config = format!(
        "Port {}\nListenAddress 192.0.2.2\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n",
        Machines::PORT,
        file("host"),
        file("authorized")
    );
    fs::write(file("sshd"), config).unwrap();
    fs::create_dir_all("/run/sshd").unwrap();
    fs::create_dir(file("bin")).unwrap();
    let client = format!(
        "#!/bin/sh\nexec /usr/bin/ssh -F none -i {} -oStrictHostKeyChecking=no -oUserKnownHostsFile={} \"$@\"\n",
        file("user"),
        file("known")
    );
    fs::write(file("bin/ssh"), client).unwrap();
    fs::set_permissions(file("bin/ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, "/usr/sbin/sshd", "-D", "-e", "-f", &file("sshd")]);
    let server = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the ssh server", || {
        let listens = Command::new("ip").args(["netns", "exec", namespace, "ss", "-Hlnt"]).output().unwrap();
        String::from_utf8_lossy(&listens.stdout).contains(":2222").then_some(())
    });
    server
}

#[test]
fn a_device_runs_on_a_machine_over_ssh_with_its_files_commands_and_end() {
    let _cores = cores();
    let (ssh, sshd) = (Need::Program("ssh", "openssh-client"), Need::Program("sshd", "openssh-server"));
    if !weir_testkit::needs!(Need::Root, Need::Namespaces, Need::Program("ip", "iproute2"), ssh, sshd) {
        return;
    }
    let machines = Machines::new();
    let place = format!("ssh://root@192.0.2.2:{}", Machines::PORT);
    let axes =
        format!("nf = \"l3fwd:10\"\ndut = [\"nf\", \"weir\"]\nwiring = \"nic\"\nserver = \"{place}\"\n");
    let ports = |first: u32| {
        format!("[\"net_af_packet{first},iface=data0\", \"net_af_packet{},iface=data1\"]", first + 1)
    };
    let nic = format!("[nic]\nlab = {}\ndut = {}\n", ports(10), ports(0));
    let lab = Lab::new(&format!("{axes}{METHOD}{nic}"));
    let run = run_of(&mut machines.bench(&lab), 0);
    is_right(&run, &place);
    for point in &run.points {
        assert!(point.configuration["cores"].contains("forwarding on"), "{:?}", point.configuration["cores"]);
    }
    assert!(run.points[1].configuration.contains_key("flows.txt"), "its flows went there");
    let folders = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let ours = folders.filter(|entry| entry.path().join("flows.txt").exists()).count();
    assert_eq!(ours, 0, "its folder there went with it");
    // A machine that does not answer is named, with what must work.
    let wrong = Lab::new(&format!("{axes}{METHOD}{nic}").replace("192.0.2.2:2222", "192.0.2.2:2223"));
    let run = run_of(&mut machines.bench(&wrong), 0);
    let error = run.points[0].error.as_deref().unwrap_or_default();
    assert!(
        error.contains("192.0.2.2:2223 cannot be reached") && error.contains("without a question"),
        "{error}"
    );
}
