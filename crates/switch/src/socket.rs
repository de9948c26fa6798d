//! The control socket: a Unix socket that only its owner may use.
//!
//! Threads: one that accepts, and one a client (`MOST_CLIENTS` at most). A client's thread reads a
//! line, asks the switch, and writes the answer; a client that reads slowly holds up its own thread,
//! for `PATIENCE` a write, and nothing else. Only processes of the same user, or of root, are served:
//! the folder, the socket's mode and the peer's credentials are all looked at.

use crate::protocol::{CapturedLine, LONGEST_REQUEST, Request, read_request, to_hex};
use crate::switch::{Answer, Ask, Inbound};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Uid;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write};
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use weir_agent::private::{SocketError, bind_private, is_ours};
use weir_datapath::Captured;

/// Clients that are served at once.
pub(crate) const MOST_CLIENTS: usize = 32;

/// Longest wait for a client to take what it asked for.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often threads look whether they are to end.
const LOOK: Duration = Duration::from_millis(100);

/// Where the control socket is when nobody says: in the user's runtime folder.
pub fn default_path() -> PathBuf {
    let user = Uid::effective();
    let folder = match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("weir"),
        None if user.is_root() => PathBuf::from("/run/weir"),
        None => std::env::temp_dir().join(format!("weir-{user}")),
    };
    folder.join("switch.sock")
}

/// A control socket. Dropping it ends its threads and removes it.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    clients: Mutex<BTreeMap<u64, UnixStream>>,
}

impl Shared {
    fn clients(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, UnixStream>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl ControlSocket {
    /// Listens at a path; its folder is made where it is not there.
    ///
    /// # Errors
    /// A folder that others can write to, a socket in use, or what the system says.
    pub fn listen(path: &Path, asks: SyncSender<Inbound>) -> Result<Self, SocketError> {
        let system = |error| SocketError::System { path: path.to_owned(), error };
        let listener = bind_private(path)?;
        listener.set_nonblocking(true).map_err(system)?;
        let shared = Arc::new(Shared::default());
        let inner = shared.clone();
        let acceptor = thread::Builder::new()
            .name("weir-control".into())
            .spawn(move || accept(&listener, &inner, &asks))
            .map_err(system)?;
        Ok(Self { path: path.to_owned(), shared, acceptor: Some(acceptor) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(acceptor) = self.acceptor.take() {
            // A panic there was printed when it happened.
            let _ = acceptor.join();
        }
        for client in self.shared.clients().values() {
            // What was answered is still read; nothing more is taken.
            let _ = client.shutdown(Shutdown::Read);
        }
        let _ = fs::remove_file(&self.path); // somebody may have been quicker
    }
}

/// Takes clients until the socket is dropped.
fn accept(listener: &UnixListener, shared: &Arc<Shared>, asks: &SyncSender<Inbound>) {
    let mut number = 0;
    while !shared.stopping() {
        let mut wait = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO);
        if !matches!(poll(&mut wait, timeout), Ok(1..)) {
            continue;
        }
        let Ok((stream, _)) = listener.accept() else { continue };
        number += 1;
        if take(stream, number, shared, asks).is_err() {
            // It is gone already, or the system is short of something: no reason to burn a core.
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Starts serving a client.
fn take(stream: UnixStream, number: u64, shared: &Arc<Shared>, asks: &SyncSender<Inbound>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    if !is_ours(&stream)? {
        return refuse(&stream, "this switch belongs to another user");
    }
    let mut clients = shared.clients();
    if clients.len() >= MOST_CLIENTS {
        return refuse(&stream, &format!("{MOST_CLIENTS} clients are served already; try again later"));
    }
    clients.insert(number, stream.try_clone()?);
    drop(clients);
    let (inner, asks) = (shared.clone(), asks.clone());
    let spawned = thread::Builder::new().name("weir-client".into()).spawn(move || {
        // What ends a client's thread is that the client is gone, or does not read: nobody to be told.
        let _ = serve(&stream, &inner, &asks);
        let _ = stream.shutdown(Shutdown::Both);
        inner.clients().remove(&number);
    });
    let Err(error) = spawned else { return Ok(()) };
    let client = shared.clients().remove(&number);
    if let Some(client) = client {
        refuse(&client, &format!("no thread can be started for another client: {error}"))?;
    }
    Err(error)
}

fn refuse(stream: &UnixStream, reason: &str) -> io::Result<()> {
    line(&mut &*stream, &json!({ "id": null, "ok": false, "error": reason }))
}

fn line(out: &mut impl Write, value: &Value) -> io::Result<()> {
    let mut text = value.to_string();
    text.push('\n');
    out.write_all(text.as_bytes())
}

/// Answers a client's requests, one after the other, until it is gone.
fn serve(stream: &UnixStream, shared: &Shared, asks: &SyncSender<Inbound>) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut out = stream;
    loop {
        let mut bytes = Vec::new();
        let read = reader.by_ref().take(LONGEST_REQUEST + 1).read_until(b'\n', &mut bytes)?;
        if read == 0 || shared.stopping() {
            return Ok(());
        }
        if read as u64 > LONGEST_REQUEST {
            return refuse(stream, &format!("a request has at most {LONGEST_REQUEST} bytes"));
        }
        let text = String::from_utf8_lossy(&bytes);
        if text.trim().is_empty() {
            continue;
        }
        let (id, request) = match read_request(text.trim()) {
            Ok(read) => read,
            Err((id, error)) => {
                line(&mut out, &json!({ "id": id, "ok": false, "error": error }))?;
                continue;
            }
        };
        let most = match &request {
            Request::Capture { count, .. } if *count > 0 => *count,
            _ => u64::MAX,
        };
        match ask(asks, request) {
            Err(error) => line(&mut out, &json!({ "id": id, "ok": false, "error": error }))?,
            Ok(Answer::Value(result)) => line(&mut out, &json!({ "id": id, "ok": true, "result": result }))?,
            Ok(Answer::Capture(packets)) => stream_lines(stream, shared, &id, &packets, most, captured)?,
            Ok(Answer::Monitor(events)) => stream_lines(stream, shared, &id, &events, most, |event| event)?,
        }
    }
}

/// Asks the switch and waits for its answer.
///
/// # Errors
/// What the switch says, or that it is stopping.
pub fn ask(asks: &SyncSender<Inbound>, request: Request) -> Result<Answer, String> {
    const STOPPED: &str = "the switch is stopping";
    let (reply, answer) = sync_channel(1);
    asks.send(Ask { request, reply }.into()).map_err(|_| STOPPED.to_owned())?;
    answer.recv().unwrap_or_else(|_| Err(STOPPED.to_owned()))
}

fn captured(packet: Captured) -> Value {
    let line = CapturedLine {
        port: packet.port.0,
        sent: packet.sent,
        unix_ns: packet.unix_ns,
        length: packet.length,
        frame: to_hex(&packet.bytes),
    };
    json!(line)
}

/// Writes what comes, as it comes, until enough, or the client or the switch is gone.
fn stream_lines<T>(
    stream: &UnixStream,
    shared: &Shared,
    id: &Value,
    coming: &Receiver<T>,
    most: u64,
    show: impl Fn(T) -> Value,
) -> io::Result<()> {
    let mut out = BufWriter::new(stream);
    line(&mut out, &json!({ "id": id, "ok": true, "result": null }))?;
    let mut written = 0;
    let end = loop {
        if written == most {
            break "enough";
        }
        let next = coming.try_recv().or_else(|_| {
            out.flush().map_err(|_| RecvTimeoutError::Disconnected)?;
            coming.recv_timeout(LOOK)
        });
        match next {
            Ok(what) => {
                line(&mut out, &json!({ "id": id, "event": show(what) }))?;
                written += 1;
            }
            Err(RecvTimeoutError::Timeout) if shared.stopping() => break "the switch is stopping",
            Err(RecvTimeoutError::Timeout) if gone(stream) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break "the switch is stopping",
        }
    };
    line(&mut out, &json!({ "id": id, "end": end }))?;
    out.flush()
}

/// Whether the other end was closed.
fn gone(stream: &UnixStream) -> bool {
    let mut look = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    let over = PollFlags::POLLHUP | PollFlags::POLLERR;
    matches!(poll(&mut look, PollTimeout::ZERO), Ok(1..))
        && look[0].revents().is_some_and(|events| events.intersects(over))
}
