//! What a running switch may do: its user, its capabilities and the system calls of each of its threads, as the kernel
//! says them.

use crate::lab::{told, wait_for, weir};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use weir_testkit::Need;

/// Bits of capabilities, as `/proc` has them.
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
const SYS_MODULE: u64 = 1 << 16;
const SYS_PTRACE: u64 = 1 << 19;
const SYS_ADMIN: u64 = 1 << 21;

/// A switch in a folder of root's that others may enter; killed when a test fails.
struct Switch {
    child: Child,
    headline: String,
}

impl Switch {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = weir();
        command
            .args(["switch", "--poll", "adaptive", "--flow", "actions=drop"])
            .args(arguments)
            .current_dir(folder);
        command.arg("--control").arg(folder.join("control"));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut headline, mut output) = (String::new(), BufReader::new(child.stdout.take().unwrap()));
        output.read_line(&mut headline).unwrap();
        assert!(headline.contains("Ctrl-C ends it"), "{headline:?}");
        child.stdout = Some(output.into_inner());
        Self { child, headline }
    }

    /// By thread: its name, and what the kernel says of it.
    fn threads(&self) -> Vec<(String, BTreeMap<String, String>)> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let read = |task: fs::DirEntry| {
            let text = fs::read_to_string(task.path().join("status")).ok()?;
            let pairs = text.lines().filter_map(|line| line.split_once(":\t"));
            let said: BTreeMap<String, String> =
                pairs.map(|(key, value)| (key.to_owned(), value.trim().to_owned())).collect();
            Some((said["Name"].clone(), said))
        };
        tasks.filter_map(|task| read(task.unwrap())).collect()
    }

    fn ctl(&self, folder: &Path, arguments: &[&str]) -> Output {
        let mut command = weir();
        command.args(["switch", "ctl"]).args(arguments).arg("--control").arg(folder.join("control"));
        command.current_dir(folder).output().unwrap()
    }

    fn stop(mut self) {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).unwrap();
        let status = wait_for("the switch's end", || self.child.try_wait().unwrap());
        assert!(status.success(), "{status:?}");
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn capabilities(said: &BTreeMap<String, String>, set: &str) -> u64 {
    u64::from_str_radix(&said[set], 16).unwrap()
}

/// Root's folder, and in it one of nobody's.
fn folders() -> (tempfile::TempDir, User) {
    let (folder, nobody) = (tempfile::tempdir().unwrap(), User::from_name("nobody").unwrap().unwrap());
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let own = folder.path().join("own");
    fs::create_dir(&own).unwrap();
    chown(&own, Some(nobody.uid.as_raw()), Some(nobody.gid.as_raw())).unwrap();
    (folder, nobody)
}

#[test]
fn a_switch_becomes_a_user_and_keeps_what_its_kinds_of_ports_need() {
    if !weir_testkit::needs!(Need::Root) {
        return;
    }
    let (folder, nobody) = folders();
    let folder = folder.path();
    let switch = Switch::start(
        folder,
        &["--user", "nobody", "--port", "a=net_vhost0,iface=own/a", "--port", "raw=af_packet:lo"],
    );
    assert!(
        switch.headline.contains("as user nobody with cap_net_admin, cap_net_raw;"),
        "{}",
        switch.headline
    );
    let threads = switch.threads();
    assert!(threads.iter().any(|(name, _)| name.starts_with("weir-worker")), "{threads:?}");
    for (name, said) in &threads {
        let all_four = vec![nobody.uid.to_string(); 4].join("\t");
        assert_eq!(said["Uid"], all_four, "{name}");
        assert_eq!((said["NoNewPrivs"].as_str(), said["Seccomp"].as_str()), ("1", "2"), "{name}");
        // The main thread, which opens ports, is called as the program; what it starts later has what it has.
        let is_main = ["weir", "weir-signals", "weir-events"].contains(&name.as_str());
        let wanted = if is_main { NET_ADMIN | NET_RAW } else { 0 };
        assert_eq!(capabilities(said, "CapPrm"), wanted, "{name}");
        assert_eq!(capabilities(said, "CapEff"), wanted, "{name}");
    }
    assert_eq!(fs::metadata(folder.join("control")).unwrap().uid(), nobody.uid.as_raw());
    // What comes later is opened with those rights, and no others.
    for port in ["net_vhost1,iface=own/b", "af_packet:lo", "trace:,tx=own/out.pcap", "null"] {
        let name = format!("later-{}", port.split([':', ',']).next().unwrap());
        let added = switch.ctl(folder, &["add-port", &name, port]);
        assert!(added.status.success(), "{port}: {}", told(&added));
        let removed = switch.ctl(folder, &["del-port", &name]);
        assert!(removed.status.success(), "{port}: {}", told(&removed));
    }
    let refused = switch.ctl(folder, &["add-port", "x", "trace:,tx=out.pcap"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("Permission denied"), "{}", told(&refused));
    switch.stop();
}

#[test]
fn a_switch_that_stays_root_gives_up_what_no_port_needs_and_filters_its_system_calls() {
    if !weir_testkit::needs!(Need::Root) {
        return;
    }
    let (folder, _) = folders();
    let folder = folder.path();
    let ports = ["--port", "a=net_vhost0,iface=a", "--port", "b=trace:,tx=b.pcap"];
    let switch = Switch::start(folder, &ports);
    for (name, said) in switch.threads() {
        let gone = SYS_ADMIN | SYS_PTRACE | SYS_MODULE;
        assert_eq!(capabilities(&said, "CapPrm") & gone, 0, "{name}");
        assert_eq!(capabilities(&said, "CapBnd") & gone, 0, "{name}");
        let is_worker = name.starts_with("weir-worker");
        assert!(!is_worker || capabilities(&said, "CapPrm") == 0, "{said:?}");
        // Workers have one more.
        let filters = if is_worker { "3" } else { "2" };
        let told = ["NoNewPrivs", "Seccomp", "Seccomp_filters"].map(|key| said[key].as_str());
        assert_eq!(told, ["1", "2", filters], "{name}");
    }
    switch.stop();
    let switch = Switch::start(folder, &["--no-seccomp", "--port", "null"]);
    assert!(switch.headline.contains("system calls not filtered"), "{}", switch.headline);
    for (name, said) in switch.threads() {
        assert_eq!((said["Seccomp"].as_str(), said["NoNewPrivs"].as_str()), ("0", "1"), "{name}");
        assert!(!name.starts_with("weir-worker") || capabilities(&said, "CapPrm") == 0, "{said:?}");
    }
    switch.stop();
}

#[test]
fn a_user_that_a_switch_cannot_become_is_named() {
    for (user, why) in [("root", "name a user without rights"), ("nobody-at-all", "there is no such user")] {
        let output = weir().args(["switch", "--user", user, "--port", "null"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        assert!(said.contains(&format!("--user {user}")) && said.contains(why), "{said}");
    }
}
