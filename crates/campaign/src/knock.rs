//! An end to waiting for a peer that does not come.
//!
//! A virtio-user port that listens blocks, inside DPDK, until its peer connects; neither Ctrl-C nor
//! the death of the DUT reaches it there. So somebody else knocks: connects and hangs up at once,
//! which the driver takes for a peer that failed. One thread, asleep but for a look every
//! [`LOOK`], and only while ports are being opened.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the knocker looks whether it is time.
const LOOK: Duration = Duration::from_millis(50);

/// Knocks at sockets once `stop` is raised or patience has run out.
pub(crate) struct Knocker {
    over: Arc<AtomicBool>,
    thread: JoinHandle<bool>,
}

impl Knocker {
    /// Starts to watch.
    pub(crate) fn start(sockets: Vec<PathBuf>, stop: Arc<AtomicBool>, patience: Duration) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let end = Instant::now() + patience;
        let thread = std::thread::spawn(move || {
            let mut knocked = false;
            while !seen.load(Ordering::Relaxed) {
                if stop.load(Ordering::Relaxed) || Instant::now() > end {
                    knocked = true;
                    // A socket that is not there yet, or not any more, keeps nobody waiting.
                    sockets.iter().for_each(|socket| drop(UnixStream::connect(socket)));
                }
                std::thread::park_timeout(LOOK);
            }
            knocked
        });
        Self { over, thread }
    }

    /// Stops to watch. Says whether it had to knock.
    pub(crate) fn end(self) -> bool {
        self.over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_listener_is_freed_by_the_stop_flag_and_by_the_end_of_patience() {
        let folder = tempfile::tempdir().unwrap();
        for (name, stopped, patience) in [("a", true, Duration::from_secs(60)), ("b", false, LOOK)] {
            let socket = folder.path().join(name);
            let listener = UnixListener::bind(&socket).unwrap();
            let knocker = Knocker::start(vec![socket], Arc::new(AtomicBool::new(stopped)), patience);
            let (mut peer, _) = listener.accept().unwrap();
            assert_eq!(peer.read(&mut [0]).unwrap(), 0, "it hangs up");
            assert!(knocker.end());
        }
    }

    #[test]
    fn nobody_knocks_while_there_is_patience() {
        let knocker = Knocker::start(vec![], Arc::new(AtomicBool::new(false)), Duration::from_secs(60));
        assert!(!knocker.end());
    }
}
