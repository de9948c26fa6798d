//! The metrics endpoint: one `GET /metrics` a connection, over HTTP/1.1 as far as that takes, at a TCP address or a
//! Unix socket that is its owner's alone.
//!
//! Why by hand: a scrape is one request line, headers to be skipped and one answer that closes the
//! connection; a server crate brings threads, keep-alive and chunks that nobody asks for here.
//!
//! Bounds: `CLIENTS` at once, `PATIENCE` for a client's whole request and as long for its answer, `LONGEST` bytes of
//! a request. Where all are there, the one that has waited longest without having asked makes room, so that silent
//! clients only push out each other. A page is made once in `FRESH` at most, however many ask.
//!
//! Threads: one that accepts, and one a client.

use crate::metrics;
use crate::protocol::Request;
use crate::socket::ask;
use crate::stats::Stats;
use crate::switch::{Answer, Inbound};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use weir_agent::private::{bind_private, is_ours};

/// Clients that are served at once.
const CLIENTS: usize = 16;

/// Time that a client has for its request, and for taking the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest request with its headers, in bytes.
const LONGEST: usize = 8192;

/// How long a page is given to others that ask.
const FRESH: Duration = Duration::from_millis(100);

/// How often the thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Where metrics are served: `ADDRESS:PORT` or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricsAt {
    /// TCP; port 0 for any that is free. Whoever reaches it may read.
    Tcp(SocketAddr),
    /// A Unix socket, for processes of the switch's user and root.
    Unix(PathBuf),
}

impl FromStr for MetricsAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err(format!("`{text}`: a path follows")),
            Some(path) => Ok(Self::Unix(PathBuf::from(path))),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                format!("`{text}` is no address and port, such as 127.0.0.1:9464, and not unix:PATH")
            }),
        }
    }
}

impl fmt::Display for MetricsAt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(out, "http://{address}/metrics"),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

impl MetricsAt {
    /// Whether other machines may reach it.
    pub const fn is_public(&self) -> bool {
        matches!(self, Self::Tcp(address) if !address.ip().is_loopback())
    }
}

/// A metrics endpoint. Dropping it ends it.
#[derive(Debug)]
pub struct MetricsServer {
    at: MetricsAt,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn listen(at: &MetricsAt, asks: SyncSender<Inbound>) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("metrics at {at}: {error}"));
        let door = Door::open(at).map_err(named)?;
        let at = door.at(at)?;
        let stop = Arc::new(AtomicBool::new(false));
        let inner = stop.clone();
        let scraper = Arc::new(Scraper { asks, page: Mutex::default() });
        let hall = Arc::new(Hall::default());
        let thread = thread::Builder::new().name("weir-metrics".into()).spawn(move || {
            while !inner.load(Ordering::Relaxed) {
                match door.accept() {
                    // A client that breaks off is its own affair.
                    Ok(client) => drop(hall.take(client, &scraper)),
                    Err(_) => thread::sleep(LOOK),
                }
            }
        })?;
        Ok(Self { at, stop, thread: Some(thread) })
    }

    /// Where it listens: the port that was free, if it was to be any.
    pub const fn at(&self) -> &MetricsAt {
        &self.at
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there was printed when it happened.
            let _ = thread.join();
        }
        if let MetricsAt::Unix(path) = &self.at {
            let _ = std::fs::remove_file(path); // somebody may have been quicker
        }
    }
}

enum Door {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Door {
    fn open(at: &MetricsAt) -> io::Result<Self> {
        let door = match at {
            MetricsAt::Tcp(address) => Self::Tcp(TcpListener::bind(address)?),
            MetricsAt::Unix(path) => {
                let listener = bind_private(path).map_err(|error| io::Error::other(error.reason()))?;
                Self::Unix(listener)
            }
        };
        match &door {
            Self::Tcp(listener) => listener.set_nonblocking(true)?,
            Self::Unix(listener) => listener.set_nonblocking(true)?,
        }
        Ok(door)
    }

    fn at(&self, asked: &MetricsAt) -> io::Result<MetricsAt> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(MetricsAt::Tcp),
            Self::Unix(_) => Ok(asked.clone()),
        }
    }

    fn accept(&self) -> io::Result<Client> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Ok(Client::Tcp(stream))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                if !is_ours(&stream)? {
                    return Err(ErrorKind::PermissionDenied.into());
                }
                stream.set_nonblocking(false)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Ok(Client::Unix(stream))
            }
        }
    }
}

#[derive(Debug)]
enum Client {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Client {
    fn again(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }

    fn waits(&self, most: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(Some(most)),
            Self::Unix(stream) => stream.set_read_timeout(Some(most)),
        }
    }

    fn hang_up(&self) {
        // It may be gone already.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for Client {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Clients that are being served, in the order they came.
#[derive(Default)]
struct Hall {
    here: Mutex<BTreeMap<u64, Guest>>,
    came: Mutex<u64>,
}

struct Guest {
    client: Client,
    /// Whether its request is whole.
    asked: bool,
}

impl Hall {
    fn here(&self) -> MutexGuard<'_, BTreeMap<u64, Guest>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a client in a thread of its own, if there is room or somebody silent makes some.
    fn take(self: &Arc<Self>, mut client: Client, scraper: &Arc<Scraper>) -> io::Result<()> {
        let number = {
            let mut came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
            *came += 1;
            *came
        };
        let mut here = self.here();
        if here.len() >= CLIENTS {
            let silent = here.iter().find(|(_, guest)| !guest.asked).map(|(number, _)| *number);
            match silent.and_then(|silent| here.remove(&silent)) {
                Some(silent) => silent.client.hang_up(),
                None => {
                    drop(here);
                    return answer(
                        &mut client,
                        false,
                        "503 Service Unavailable",
                        "text/plain",
                        "too many ask\n",
                    );
                }
            }
        }
        here.insert(number, Guest { client: client.again()?, asked: false });
        drop(here);
        let (hall, scraper) = (self.clone(), scraper.clone());
        let spawned = thread::Builder::new().name("weir-scrape".into()).spawn(move || {
            let asked = || {
                if let Some(guest) = hall.here().get_mut(&number) {
                    guest.asked = true;
                }
            };
            // A client that breaks off is its own affair.
            let _ = serve(&mut client, asked, &scraper);
            client.hang_up();
            hall.here().remove(&number);
        });
        if spawned.is_err() {
            self.here().remove(&number);
        }
        spawned.map(drop)
    }
}

fn serve(client: &mut Client, asked: impl FnOnce(), scraper: &Scraper) -> io::Result<()> {
    let head = read_head(client)?;
    asked();
    let (status, content_type, body) = match head.lines().next().map(request_line) {
        Some(Some(("GET" | "HEAD", "/metrics"))) => match scraper.page() {
            Ok(page) => ("200 OK", metrics::CONTENT_TYPE, page),
            Err(error) => ("503 Service Unavailable", "text/plain", format!("{error}\n").into()),
        },
        Some(Some(("GET" | "HEAD", _))) => {
            ("404 Not Found", "text/plain", "metrics are at /metrics\n".into())
        }
        Some(Some(_)) => ("405 Method Not Allowed", "text/plain", "only GET is understood\n".into()),
        _ => ("400 Bad Request", "text/plain", "that is no HTTP request\n".into()),
    };
    answer(client, head.starts_with("HEAD "), status, content_type, &body)
}

fn answer(client: &mut Client, head: bool, status: &str, content_type: &str, body: &str) -> io::Result<()> {
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let headers = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        body.len()
    );
    client.write_all(headers.as_bytes())?;
    client.write_all(if head { b"" } else { body.as_bytes() })
}

/// The method and the path without a query.
fn request_line(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/1.") {
        return None;
    }
    Some((method, target.split('?').next().unwrap_or_default()))
}

/// The request line and headers, up to the empty line.
fn read_head(client: &mut Client) -> io::Result<String> {
    let begin = Instant::now();
    let mut head = Vec::new();
    let mut some = [0; 1024];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let left = PATIENCE.saturating_sub(begin.elapsed());
        if left.is_zero() || head.len() > LONGEST {
            return Err(ErrorKind::TimedOut.into());
        }
        client.waits(left)?;
        match client.read(&mut some)? {
            0 => break,
            read => head.extend_from_slice(&some[..read]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// What makes the page.
struct Scraper {
    asks: SyncSender<Inbound>,
    /// The last one, and when it was made.
    page: Mutex<Option<(Instant, Arc<str>)>>,
}

impl Scraper {
    /// The page. Who asks while it is being made gets that one.
    fn page(&self) -> Result<Arc<str>, String> {
        let mut last = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, page)) = last.as_ref().filter(|(made, _)| made.elapsed() < FRESH) {
            return Ok(page.clone());
        }
        let page: Arc<str> = match ask(&self.asks, Request::Stats { without_tables: false })? {
            Answer::Value(stats) => {
                let stats: Stats = serde_json::from_value(stats).map_err(|error| error.to_string())?;
                metrics::render(&stats).into()
            }
            other => return Err(format!("{other:?} is no ledger")),
        };
        *last = Some((Instant::now(), page.clone()));
        Ok(page)
    }
}
