//! The metrics endpoint: one `GET /metrics` a connection, over HTTP/1.1 as far as that takes.
//!
//! Why by hand: a scrape is one request line, headers to be skipped and one answer that closes the
//! connection; a server crate brings threads, keep-alive and chunks that nobody asks for here.
//! Threads: one, which serves a client after the other; a client gets `PATIENCE` for its whole
//! request, so that none keeps the others waiting for longer.

use crate::metrics;
use crate::protocol::Request;
use crate::socket::ask;
use crate::stats::Stats;
use crate::switch::{Answer, Inbound};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time that a client has for its request, and for taking the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest request with its headers, in bytes.
const LONGEST: usize = 8192;

/// How often the thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// A metrics endpoint. Dropping it ends it.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens at an address; port 0 for any that is free.
    ///
    /// # Errors
    /// What the system says.
    pub fn listen(address: SocketAddr, asks: SyncSender<Inbound>) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("metrics at {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(named)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let inner = stop.clone();
        let thread = thread::Builder::new().name("weir-metrics".into()).spawn(move || {
            while !inner.load(Ordering::Relaxed) {
                match listener.accept() {
                    // A client that breaks off is its own affair.
                    Ok((stream, _)) => drop(serve(stream, &asks)),
                    Err(_) => thread::sleep(LOOK),
                }
            }
        })?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there was printed when it happened.
            let _ = thread.join();
        }
    }
}

fn serve(mut stream: TcpStream, asks: &SyncSender<Inbound>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = read_head(&mut stream)?;
    let (status, content_type, body) = match head.lines().next().map(request_line) {
        Some(Some(("GET" | "HEAD", "/metrics"))) => match scrape(asks) {
            Ok(page) => ("200 OK", metrics::CONTENT_TYPE, page),
            Err(error) => ("503 Service Unavailable", "text/plain", format!("{error}\n")),
        },
        Some(Some(("GET" | "HEAD", _))) => {
            ("404 Not Found", "text/plain", "metrics are at /metrics\n".to_owned())
        }
        Some(Some(_)) => ("405 Method Not Allowed", "text/plain", "only GET is understood\n".to_owned()),
        _ => ("400 Bad Request", "text/plain", "that is no HTTP request\n".to_owned()),
    };
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let headers = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        body.len()
    );
    let body = if head.starts_with("HEAD ") { "" } else { &body };
    stream.write_all(headers.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()
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
fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let begin = Instant::now();
    let mut head = Vec::new();
    let mut some = [0; 1024];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let left = PATIENCE.saturating_sub(begin.elapsed());
        if left.is_zero() || head.len() > LONGEST {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut some)? {
            0 => break,
            read => head.extend_from_slice(&some[..read]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn scrape(asks: &SyncSender<Inbound>) -> Result<String, String> {
    match ask(asks, Request::Stats { without_tables: false })? {
        Answer::Value(stats) => {
            let stats: Stats = serde_json::from_value(stats).map_err(|error| error.to_string())?;
            Ok(metrics::render(&stats))
        }
        other => Err(format!("{other:?} is no ledger")),
    }
}
