//! Where a device that somebody else started meets the lab: the lab makes its ends, says what to connect to them,
//! and waits.
//!
//! Sockets lie where the plan says, not in a folder that goes. Interfaces (`veth`) are laid once and stay until the
//! lab ends, whatever the number of points: a device that lost its interface would not take it up again.

use super::{Memif, Side, Vhost, WiringKind};
use crate::DutError;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a socket is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// Longest path of a socket, in bytes (`sun_path` without its end).
const LONGEST_SOCKET: usize = 107;

/// Longest name of an interface, in bytes (`IFNAMSIZ` without its end).
const LONGEST_INTERFACE: usize = 15;

/// What a plan says of a device that somebody else started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// What it is, kept with every result.
    pub description: String,
    /// Sockets of port 0 and port 1 (`vhost`, `memif`).
    pub sockets: [PathBuf; 2],
    /// The device's ends of the veth pairs of port 0 and port 1.
    pub interfaces: [String; 2],
    /// The network namespace that they lie in, a name of `ip netns` or a path; none for the lab's own.
    pub namespace: Option<String>,
    /// A command that prints its counters, a line a port, as words; none where nothing is known of them.
    pub counters: Option<Vec<String>>,
    /// A command that succeeds once it forwards, as words; it is run before the lab opens its ports.
    pub ready: Option<Vec<String>>,
    /// How long it may take to come.
    pub wait: Duration,
}

impl Default for External {
    fn default() -> Self {
        let folder = std::env::temp_dir();
        Self {
            description: "a box on the wire, not described".to_owned(),
            sockets: ["weir0.sock", "weir1.sock"].map(|name| folder.join(name)),
            interfaces: ["weir0", "weir1"].map(str::to_owned),
            namespace: None,
            counters: None,
            ready: None,
            wait: Duration::from_secs(60),
        }
    }
}

impl External {
    /// The mistake in it, where there is one.
    pub fn check(&self) -> Result<(), String> {
        if self.sockets[0] == self.sockets[1] {
            return Err("`sockets`: both ports have the same; each port has a socket of its own".to_owned());
        }
        for socket in &self.sockets {
            let length = socket.as_os_str().len();
            if length == 0 || length > LONGEST_SOCKET {
                return Err(format!(
                    "`sockets`: `{}` has {length} bytes; the path of a socket has 1 to {LONGEST_SOCKET}",
                    socket.display()
                ));
            }
        }
        if self.interfaces[0] == self.interfaces[1] {
            return Err("`interfaces`: both ports have the same; each port has one of its own".to_owned());
        }
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || c == '/' || c == ':';
        for name in &self.interfaces {
            if name.is_empty()
                || name.len() > LONGEST_INTERFACE
                || name.starts_with('.')
                || name.contains(is_odd)
            {
                return Err(format!(
                    "`interfaces`: `{name}` cannot be an interface; a name has 1 to {LONGEST_INTERFACE} bytes, no \
                     space, `/` or `:`"
                ));
            }
        }
        let is_empty = |words: &Option<Vec<String>>| words.as_ref().is_some_and(Vec::is_empty);
        if is_empty(&self.counters) {
            return Err("`counters` is empty; write a command that prints a line a port".to_owned());
        }
        if is_empty(&self.ready) {
            return Err("`ready` is empty; write a command that succeeds once the device forwards".to_owned());
        }
        Ok(())
    }

    /// What has to be connected to the lab, in words.
    pub fn told(&self, wiring: WiringKind, vhost: Vhost, memif: Memif) -> String {
        let [first, second] = self.sockets.each_ref().map(|path| path.display());
        let listens = |server| match server {
            Side::Dut => "listens at",
            Side::Lab => "connects to",
        };
        match wiring {
            WiringKind::Vhost => {
                let end = match vhost.backend {
                    Side::Dut => "a vhost-user port",
                    Side::Lab => "a virtio-user port",
                };
                format!(
                    "the device has {end} that {} {first} as port 0, and {second} as port 1",
                    listens(vhost.server)
                )
            }
            WiringKind::Memif => format!(
                "the device has a memif that {} {first} with interface id 0 as port 0, and {second} with interface \
                 id 1 as port 1",
                listens(memif.server)
            ),
            WiringKind::Veth => {
                let [first, second] = &self.interfaces;
                let inside =
                    self.namespace.as_ref().map_or_else(String::new, |name| format!(" in namespace {name}"));
                format!("the device takes interface {first} as port 0 and {second} as port 1{inside}")
            }
            WiringKind::Nic => "the device is cabled to the ports of [nic]".to_owned(),
            WiringKind::Fed => "the device feeds itself".to_owned(),
        }
    }

    /// Waits until the device listens at its sockets; false where the time was over before.
    ///
    /// # Errors
    ///
    /// When `stop` is raised, or something that is no socket is in the way.
    pub fn wait_for_sockets(&self, stop: &AtomicBool) -> Result<bool, DutError> {
        let end = Instant::now() + self.wait;
        for socket in &self.sockets {
            while !is_socket(socket)? {
                if stop.load(Ordering::Relaxed) {
                    return Err(DutError::Interrupted { dut: crate::external::NAME });
                }
                if Instant::now() > end {
                    return Ok(false);
                }
                std::thread::sleep(LOOK);
            }
        }
        // It listens a moment after its socket is there.
        std::thread::sleep(LOOK);
        Ok(true)
    }
}

/// Whether there is a socket; something else in its place is a mistake.
fn is_socket(path: &Path) -> Result<bool, DutError> {
    use std::os::unix::fs::FileTypeExt as _;
    match std::fs::metadata(path) {
        Ok(found) if found.file_type().is_socket() => Ok(true),
        Ok(_) => {
            Err(DutError::File { path: path.to_owned(), reason: "is no socket; name another".to_owned() })
        }
        Err(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_to_be_connected_is_told_for_each_wiring_and_side() {
        let external = External {
            sockets: ["/t/0".into(), "/t/1".into()],
            namespace: Some("box".to_owned()),
            ..External::default()
        };
        let told =
            |wiring, backend, server| external.told(wiring, Vhost { backend, server }, Memif { server });
        for (wiring, backend, server, says) in [
            (WiringKind::Vhost, Side::Dut, Side::Lab, "a vhost-user port that connects to /t/0 as port 0"),
            (WiringKind::Vhost, Side::Lab, Side::Dut, "a virtio-user port that listens at /t/0"),
            (WiringKind::Memif, Side::Dut, Side::Dut, "listens at /t/0 with interface id 0"),
            (WiringKind::Veth, Side::Dut, Side::Dut, "weir0 as port 0 and weir1 as port 1 in namespace box"),
        ] {
            let told = told(wiring, backend, server);
            assert!(told.contains(says), "{told}");
        }
    }

    #[test]
    fn a_device_that_never_listens_is_not_waited_for_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let sockets = [folder.path().join("0"), folder.path().join("1")];
        let external = External { sockets: sockets.clone(), wait: LOOK, ..External::default() };
        let stop = AtomicBool::new(false);
        let _first = std::os::unix::net::UnixListener::bind(&sockets[0]).unwrap();
        assert!(!external.wait_for_sockets(&stop).unwrap(), "the second is not there");
        stop.store(true, Ordering::Relaxed);
        assert!(external.wait_for_sockets(&stop).unwrap_err().is_interrupt());
        std::fs::write(&sockets[1], "").unwrap();
        let error = external.wait_for_sockets(&stop).unwrap_err().to_string();
        assert!(error.contains("is no socket"), "{error}");
        std::fs::remove_file(&sockets[1]).unwrap();
        let _second = std::os::unix::net::UnixListener::bind(&sockets[1]).unwrap();
        assert!(external.wait_for_sockets(&stop).unwrap());
    }

    #[test]
    fn mistakes_name_the_key() {
        let with = |change: fn(&mut External)| {
            let mut external = External::default();
            change(&mut external);
            external.check().unwrap_err()
        };
        assert_eq!(External::default().check(), Ok(()));
        for (mistake, says) in [
            (with(|it| it.sockets[1] = it.sockets[0].clone()), "`sockets`: both"),
            (with(|it| it.sockets[1] = "/x".repeat(60).into()), "120 bytes"),
            (with(|it| it.interfaces[1] = it.interfaces[0].clone()), "`interfaces`: both"),
            (with(|it| it.interfaces[1] = "a/b".to_owned()), "`a/b` cannot be"),
            (with(|it| it.interfaces[1] = "sixteen-letters-".to_owned()), "1 to 15"),
            (with(|it| it.counters = Some(Vec::new())), "`counters` is empty"),
        ] {
            assert!(mistake.contains(says), "{says}: {mistake}");
        }
    }
}
