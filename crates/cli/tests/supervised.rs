//! A switch under a supervisor: a worker that goes round no more ends the process, and whatever killed it, the
//! next start finds its way clear.

use crate::lab::{wait_for, weir};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// An instruction that jumps to itself.
#[cfg(target_arch = "x86_64")]
const JUMP_TO_ITSELF: [u8; 2] = [0xeb, 0xfe];
#[cfg(target_arch = "aarch64")]
const JUMP_TO_ITSELF: [u8; 4] = [0, 0, 0, 0x14];

/// A switch with a vhost socket, a memif socket and a control socket in a folder, once it forwards; killed when a
/// test fails.
struct Switch(Child);

impl Switch {
    fn start(folder: &Path) -> Self {
        let file = |name: &str| folder.join(name).display().to_string();
        let vhost = format!("net_vhost0,iface={}", file("vhost"));
        let memif = format!("net_memif0,role=server,socket-abstract=no,socket={}", file("memif"));
        let mut child = weir()
            .args(["switch", "--poll", "adaptive", "--flow", "actions=drop", "--control", &file("control")])
            .args(["--port", &vhost, "--port", &memif])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut headline = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut headline).unwrap();
        let mut switch = Self(child);
        if !headline.contains("Ctrl-C ends it") {
            let (code, told) = switch.ended();
            panic!("{headline:?}, {code:?}: {told}");
        }
        // Whoever writes to it is not to find it closed.
        switch.0.stdout = Some(output.into_inner());
        switch
    }

    /// Has its workers never come round again: the code that they run in every round jumps to itself.
    fn hang(&self) {
        let program = env!("CARGO_BIN_EXE_weir");
        let symbols = Command::new("nm").arg(program).output().expect("nm comes with the linker");
        let symbols = String::from_utf8(symbols.stdout).unwrap();
        let named = |line: &&str| line.contains("what_is_due") && line.contains("Worker");
        let found: Vec<&str> = symbols.lines().filter(named).collect();
        let [line] = found[..] else { panic!("one function of that name: {found:?}") };
        let offset = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.0.id())).unwrap();
        let first = maps.lines().find(|line| line.ends_with(program)).expect("the program is mapped");
        // A program that lies where it is linked to (ELF's ET_EXEC, 2) is named by its addresses themselves.
        let mut header = [0; 18];
        fs::File::open(program).unwrap().read_exact(&mut header).unwrap();
        let base = match header[16] {
            2 => 0,
            _ => u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap(),
        };
        let memory = fs::File::options().write(true).open(format!("/proc/{}/mem", self.0.id())).unwrap();
        memory.write_all_at(&JUMP_TO_ITSELF, base + offset).unwrap();
    }

    /// Waits for its end: the exit code, and what it said.
    fn ended(&mut self) -> (Option<i32>, String) {
        let status = wait_for("the switch's end", || self.0.try_wait().unwrap());
        let mut told = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        (status.code(), told)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_worker_that_comes_round_no_more_ends_the_process_and_the_next_start_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut switch = Switch::start(folder.path());
    switch.hang();
    let (code, told) = switch.ended();
    assert_eq!(code, Some(70), "{told}");
    for part in ["worker 0 on core", "in an endless loop", "to be started anew", "the sum is"] {
        assert!(told.contains(part), "{part:?} is not in\n{told}");
    }
    assert!(folder.path().join("vhost").exists(), "it had no time to remove its sockets");
    // Killed without a word: the same.
    let mut switch = Switch::start(folder.path());
    switch.0.kill().unwrap();
    switch.0.wait().unwrap();
    for socket in ["vhost", "memif", "control"] {
        assert!(folder.path().join(socket).exists(), "{socket} was left over");
    }
    drop(Switch::start(folder.path()));
}

#[test]
fn a_switch_outlives_whoever_reads_what_it_prints_and_obeys_signals_still() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    let folder = tempfile::tempdir().unwrap();
    let control = folder.path().join("control");
    let mut child = weir()
        .args([
            "switch",
            "--flow",
            "actions=drop",
            "--port",
            "null",
            "--control",
            &control.display().to_string(),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    let mut switch = Switch(child);
    wait_for("the control socket", || control.exists().then_some(()));
    let pid = Pid::from_raw(switch.0.id().cast_signed());
    // Without a configuration there is nothing to be read again, which it says to nobody.
    for signal in [Signal::SIGHUP, Signal::SIGHUP, Signal::SIGTERM] {
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(switch.0.try_wait().unwrap(), None, "it goes on");
        kill(pid, signal).unwrap();
    }
    let status = wait_for("the switch's end", || switch.0.try_wait().unwrap());
    assert!(status.code().is_some_and(|code| code < 2), "{status}");
}

#[test]
fn a_socket_that_another_switch_holds_is_left_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let first = Switch::start(folder.path());
    for (port, socket) in [
        (format!("net_vhost0,iface={}", folder.path().join("vhost").display()), "vhost"),
        (
            format!(
                "net_memif0,role=server,socket-abstract=no,socket={}",
                folder.path().join("memif").display()
            ),
            "memif",
        ),
    ] {
        let arguments = ["switch", "--control", "none", "--flow", "actions=drop", "--port", &port];
        let output = weir().args(arguments).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("in use") && told.contains(socket), "{told}");
        assert!(folder.path().join(socket).exists());
    }
    drop(first);
}
