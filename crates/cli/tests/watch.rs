//! `weir switch stats --watch` on a terminal, which script(1) makes.

use crate::lab::{wait_for, weir};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_units::Nanos;
use weir_wire::pcap::{CaptureWriter, Format};

/// Enters and leaves the screen of full-screen programs (xterm's private mode 1049).
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

struct Switch(Child);

impl Switch {
    /// A switch that drops what comes, again and again, in this folder.
    fn start(folder: &Path) -> Self {
        let capture = std::fs::File::create(folder.join("in.pcap")).unwrap();
        let mut capture = CaptureWriter::new(capture, Format::Pcap).unwrap();
        capture.write(Nanos(1), &[0; 60]).unwrap();
        capture.finish().unwrap();
        let mut command = weir();
        command.args([
            "switch",
            "--port",
            "in=trace:in.pcap,loop,rate=10kpps",
            "--poll=adaptive",
            "--control",
        ]);
        command.arg(folder.join("control"));
        let child = command.current_dir(folder).stdout(Stdio::null()).spawn().unwrap();
        wait_for("the switch", || folder.join("control").exists().then_some(()));
        Self(child)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `weir switch stats --watch` on a terminal.
struct Watching {
    script: Child,
    /// What it wrote.
    screen: Arc<Mutex<String>>,
}

impl Watching {
    fn start(folder: &Path) -> Self {
        let line =
            format!("exec {} switch stats --watch --every 0.1 --control control", env!("CARGO_BIN_EXE_weir"));
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).current_dir(folder).env("TERM", "xterm");
        let mut script = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut output, screen) = (script.stdout.take().unwrap(), Arc::new(Mutex::new(String::new())));
        let copy = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                copy.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { script, screen }
    }

    fn written(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    /// Waits until this word was written: of blanks between words only the cursor's way over them is.
    fn shows(&self, part: &str) {
        wait_for(&format!("{part:?} on the screen"), || self.written().contains(part).then_some(()));
    }

    fn press(&mut self, keys: &str) {
        self.script.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for its end: the exit code, and what it wrote after it gave the screen back.
    fn end(mut self) -> (Option<i32>, String) {
        let status = wait_for("the end", || self.script.try_wait().unwrap());
        // What was written last is read soon after.
        std::thread::sleep(Duration::from_millis(100));
        let written = self.written();
        assert!(written.contains(ENTER), "{written:?}");
        let (_, after) = written.rsplit_once(LEAVE).unwrap_or_else(|| panic!("{written:?}"));
        (status.code(), after.to_owned())
    }
}

#[test]
fn a_key_ends_watching_and_gives_the_terminal_back() {
    let folder = tempfile::tempdir().unwrap();
    let _switch = Switch::start(folder.path());
    let mut watching = Watching::start(folder.path());
    watching.shows("received");
    watching.shows("dropped");
    watching.press(" ");
    watching.shows("held");
    watching.press("q");
    assert_eq!(watching.end().0, Some(0));
}

#[test]
fn the_end_of_the_switch_ends_watching_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let switch = Switch::start(folder.path());
    let watching = Watching::start(folder.path());
    watching.shows("dropped");
    drop(switch);
    let (code, after) = watching.end();
    assert_eq!(code, Some(1), "{after}");
    assert!(after.contains("error: "), "{after:?}");
}

#[test]
fn a_signal_ends_watching_and_gives_the_terminal_back() {
    let folder = tempfile::tempdir().unwrap();
    let _switch = Switch::start(folder.path());
    let watching = Watching::start(folder.path());
    watching.shows("dropped");
    let killed = Command::new("pkill").args(["-TERM", "-P", &watching.script.id().to_string()]).status();
    assert!(killed.unwrap().success());
    assert_eq!(watching.end().0, Some(0));
}
