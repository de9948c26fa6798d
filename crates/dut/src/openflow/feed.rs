//! Changes of flow entries while a device forwards, as a controller sends them: OpenFlow 1.3 over the device's
//! socket, one change and a barrier at a time, so many a second.
//!
//! The entries are those of [`super::entries`], each added, modified and deleted, then the next one. A device that is
//! frozen, or slow, is waited for; what it missed is not made up for, and [`Feed::done`] says how many changes came to
//! their barrier. As many as a device takes: [`super::churn`].
//!
//! One thread, on the core that the device does not forward on.

use super::controller::{Controller, message};
use super::entries::Place;
use crate::DutError;
use crate::cpu::keep_to;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_codec::Body;

/// Most changes a second that can be asked for.
pub(crate) const MOST_CHANGES: u32 = 100_000;
/// Periods by which a change may be late and is still made up for.
const LATE: u32 = 10;

/// A controller at work.
pub(crate) struct Feed {
    rate: u32,
    shared: Arc<Shared>,
    socket: UnixStream,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    done: AtomicU64,
    stop: AtomicBool,
    /// Why it ended, where nobody asked it to.
    failed: OnceLock<String>,
}

impl Feed {
    /// Connects to a device, and changes the entries of a table so often from then on.
    pub(crate) fn start(
        dut: &'static str,
        socket: &Path,
        (table, rate): (u8, u32),
        core: usize,
    ) -> Result<Self, DutError> {
        let wrong = |error: std::io::Error| DutError::Answer {
            dut,
            answer: format!("{}: {error}", socket.display()),
            expected: "an OpenFlow switch behind its socket",
        };
        let mut controller = Controller::connect(socket, None).map_err(wrong)?;
        let socket = controller.handle().map_err(wrong)?;
        let shared = Arc::new(Shared::default());
        let its = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            keep_to(core);
            if let Err(why) = work(&mut controller, Place::route(table), rate, &its)
                && !its.stop.load(Ordering::Relaxed)
            {
                let _ = its.failed.set(why);
            }
        });
        Ok(Self { rate, shared, socket, thread: Some(thread) })
    }

    /// Changes that came to their barrier since its start; why it ended, where it did.
    pub(crate) fn done(&self) -> Result<u64, &str> {
        match self.shared.failed.get() {
            Some(why) => Err(why),
            None => Ok(self.shared.done.load(Ordering::Relaxed)),
        }
    }

    /// Changes a second that were asked for.
    pub(crate) fn rate(&self) -> u32 {
        self.rate
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let _ = self.socket.shutdown(Shutdown::Both); // it may be closed already
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it cannot panic on bytes that it only compares
        }
    }
}

/// Changes entries until it is told to stop, or the connection ends.
fn work(controller: &mut Controller, place: Place, rate: u32, shared: &Shared) -> Result<(), String> {
    controller.hello()?;
    let (turn, barrier) = (place.turn(), message(Body::BarrierRequest));
    let period = Duration::from_secs(1) / rate;
    let mut due = Instant::now();
    for change in turn.iter().cycle() {
        controller.send(&[change.as_slice(), &barrier].concat())?;
        controller.wait_for_barrier()?;
        shared.done.fetch_add(1, Ordering::Relaxed);
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        let now = Instant::now();
        due = (due + period).max(now.checked_sub(period * LATE).unwrap_or(now));
        std::thread::sleep(due.saturating_duration_since(now));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::controller::tests::switch;
    use super::*;
    use weir_codec::{Code, ErrorMessage, Message, Version};

    fn feed(folder: &tempfile::TempDir, rate: u32) -> Feed {
        Feed::start("test", &folder.path().join("of"), (1, rate), 0).unwrap()
    }

    fn count(got: &[Message], what: impl Fn(&Body) -> bool) -> usize {
        got.iter().filter(|message| what(&message.body)).count()
    }

    #[test]
    fn a_route_comes_changes_and_goes_at_the_rate_that_was_asked_for() {
        let over = |got: &[Message]| count(got, |body| *body == Body::EchoReply(b"!".to_vec())) == 31;
        let (folder, switch) = switch(Body::BarrierReply, over);
        let begin = Instant::now();
        let feed = feed(&folder, 1000);
        let got = switch.join().unwrap();
        assert!(begin.elapsed() >= Duration::from_millis(30 - u64::from(LATE)), "not faster than asked for");
        drop(feed);
        assert!(matches!(got[0].body, Body::Hello(_)));
        assert_eq!(
            count(&got, |body| matches!(body, Body::FlowMod(change) if change.table.unwrap().0 == 1)),
            31
        );
    }

    #[test]
    fn a_refused_change_ends_it_and_says_so() {
        let number = Code::FlowTableFull.number(Version::V13);
        let (folder, switch) = switch(Body::Error(ErrorMessage { number, data: Vec::new() }), |_| false);
        let feed = feed(&folder, 1000);
        let told = loop {
            match feed.done() {
                Ok(_) => std::thread::sleep(Duration::from_millis(1)),
                Err(why) => break why.to_owned(),
            }
        };
        assert!(told.contains("refused a change"), "{told}");
        drop(feed);
        drop(switch.join());
    }

    #[test]
    fn a_device_that_never_answers_is_left_when_asked_to() {
        let (folder, switch) = switch(Body::FeaturesRequest, |_| false);
        let feed = feed(&folder, 1000);
        assert_eq!(feed.done(), Ok(0));
        drop(feed);
        drop(switch.join());
    }
}
