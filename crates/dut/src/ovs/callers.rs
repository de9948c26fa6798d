//! Ports of the bridge that connect to a peer's socket: each is told where that is once it is there.
//!
//! Why: DPDK's vhost library (22.11) tries a socket when it is told of it, and then once a second. A peer that waits at each of
//! its sockets until somebody has come, as DPDK's virtio-user driver does, would start a second later for each of its ports.
//!
//! Threads: one, asleep most of the time, until all sockets are there or it is dropped.

use super::instance::Writer;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often sockets that are not there yet are looked for.
const LOOK: Duration = Duration::from_millis(5);

/// A port that connects, and to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) port: String,
    pub(super) socket: PathBuf,
}

impl Caller {
    /// How `ovs-vsctl` is told to have it connect.
    fn words(&self) -> Vec<String> {
        let path = format!("options:vhost-server-path=\"{}\"", self.socket.display());
        ["--", "set", "Interface", &self.port, &path].map(str::to_owned).to_vec()
    }
}

/// Looks for the sockets of some ports until it is dropped.
#[derive(Debug)]
pub(super) struct Callers {
    over: Arc<AtomicBool>,
    failed: Arc<OnceLock<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Callers {
    /// Begins to; without ports there is nothing to do.
    pub(super) fn start(callers: Vec<Caller>, writer: Writer) -> Self {
        let (over, failed) = (Arc::<AtomicBool>::default(), Arc::<OnceLock<String>>::default());
        let (end, tell) = (Arc::clone(&over), Arc::clone(&failed));
        let thread = (!callers.is_empty()).then(|| {
            std::thread::spawn(move || {
                if let Err(reason) = tell_all(callers, &writer, &end) {
                    let _ = tell.set(reason); // the first is the only one
                }
            })
        });
        Self { over, failed, thread }
    }

    /// Why a port could not be told; nothing where that went well so far.
    pub(super) fn failed(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it tells what fails, and a panic is told already
        }
    }
}

/// Tells each port of its socket as soon as that is there.
fn tell_all(mut callers: Vec<Caller>, writer: &Writer, over: &AtomicBool) -> Result<(), String> {
    while !callers.is_empty() && !over.load(Ordering::Relaxed) {
        let there: Vec<Caller> = callers.extract_if(.., |caller| caller.socket.exists()).collect();
        let words: Vec<String> = there.iter().flat_map(Caller::words).collect();
        if let Some((_, words)) = words.split_first() {
            writer.write(words)?;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use std::time::Instant;

    fn wait(what: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        while !what() {
            assert!(Instant::now() < end, "it did not come about");
            std::thread::sleep(LOOK);
        }
    }

    #[test]
    fn a_port_is_told_when_its_socket_is_there_and_what_is_refused_is_told_on() {
        let folder = Folder::new().unwrap();
        let caller = Caller { port: "p0".to_owned(), socket: folder.file("a.sock") };
        // Nobody answers there.
        let nobody = Writer::new(&format!("unix:{}", folder.file("db.sock").display()), 0);
        let callers = Callers::start(vec![caller.clone()], nobody);
        std::thread::sleep(4 * LOOK);
        assert_eq!(callers.failed(), None, "its socket is not there");
        folder.write("a.sock", "").unwrap();
        wait(|| callers.failed().is_some());
        let why = callers.failed().unwrap_or_default();
        assert!(why.contains("ovs-vsctl") || why.contains("database connection"), "{why}");
        drop(callers);
        assert_eq!(caller.words()[..4], ["--", "set", "Interface", "p0"]);
    }

    #[test]
    fn one_that_waits_for_sockets_ends_when_it_is_dropped() {
        let folder = Folder::new().unwrap();
        let caller = Caller { port: "p0".to_owned(), socket: folder.file("never.sock") };
        drop(Callers::start(vec![caller], Writer::new("unix:nowhere", 0)));
        let none = Callers::start(Vec::new(), Writer::new("unix:nowhere", 0));
        assert!(none.thread.is_none() && none.failed().is_none());
    }
}
