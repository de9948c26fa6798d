//! Connections: bounded in number, and each in what it may keep us waiting for.
//!
//! A client that sends the head of its request slowly, or nothing, is left after [`crate::Limits::head`]. Where all places are
//! taken, the connection that has been idle longest makes room, so that a thousand silent clients keep nobody out; only if every
//! one is being answered a new client is sent away with 503.

use crate::central::who::Peer;
use crate::site::{Limits, Open, Options, Site};
use crate::{Program, guard, pages};
use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use weir_store::StoreError;

/// Longest life of a connection: whoever reads an answer too slowly is left too.
const LIFE: Duration = Duration::from_secs(600);
/// What a client is told for which there is no place.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be had.
    #[error("cannot listen on {listen}: {why}; name another with --listen ADDRESS:PORT")]
    Listen {
        /// What was asked for.
        listen: String,
        /// What the system said.
        why: String,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system gave no threads.
    #[error("the server cannot start: {0}")]
    Start(std::io::Error),
}

/// Ends a server, from any thread.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Stop {
    /// Ends it now: nothing new is taken, and what is under way has [`crate::Limits::grace`] left.
    pub fn now(&self) {
        self.0.send_replace(true);
    }

    /// Waits for the end.
    pub(crate) async fn wait(&self) {
        // The sender lives as long as we do.
        let _ = self.0.subscribe().wait_for(|stopped| *stopped).await;
    }
}

/// A server that listens, and does not answer yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    site: Arc<Site>,
}

impl Server {
    /// Listens on `ADDRESS:PORT`; port 0 takes a free one. The store must be there.
    pub fn bind(
        listen: &str,
        options: Options,
        open: Open,
        program: Arc<dyn Program>,
    ) -> Result<Self, ServeError> {
        let refused = |why: &dyn std::fmt::Display| ServeError::Listen {
            listen: listen.to_owned(),
            why: why.to_string(),
        };
        let addresses: Vec<SocketAddr> = listen.to_socket_addrs().map_err(|error| refused(&error))?.collect();
        let mut site = Site::new(options, open, program)?;
        let listener = TcpListener::bind(addresses.as_slice()).map_err(|error| refused(&error))?;
        listener.set_nonblocking(true).map_err(ServeError::Start)?;
        let address = listener.local_addr().map_err(ServeError::Start)?;
        site.start.iter_mut().for_each(|start| start.door.at(address.port()));
        Ok(Self { listener, address, site: Arc::new(site) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The token of whoever may measure; nothing where nobody may.
    pub fn token(&self) -> Option<&str> {
        self.site.start.as_ref().map(|start| start.door.token())
    }

    /// Answers until it is stopped.
    pub fn run(self, stop: &Stop) -> Result<(), ServeError> {
        let limits = self.site.options.limits;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(limits.readers + 12)
            .thread_name("weir-serve")
            .enable_all()
            .build()
            .map_err(ServeError::Start)?;
        let served = runtime.block_on(serve(self.listener, Arc::clone(&self.site), stop.clone()));
        runtime.shutdown_timeout(limits.grace);
        served.map_err(ServeError::Start)
    }
}

fn router(site: &Arc<Site>) -> Router {
    pages::routes()
        .layer(axum::middleware::from_fn_with_state(Arc::clone(site), guard::guard))
        .layer(DefaultBodyLimit::max(site.options.limits.body_bytes))
        .with_state(Arc::clone(site))
}

async fn serve(listener: TcpListener, site: Arc<Site>, stop: Stop) -> std::io::Result<()> {
    let (router, limits) = (router(&site), site.options.limits);
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(Places { most: limits.connections.max(1), ..Places::default() });
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.wait() => break,
        };
        while connections.try_join_next().is_some() {}
        match stream {
            Ok((stream, peer)) => {
                let Some(place) = places.take() else {
                    // As much as fits into the socket's buffer, and no waiting.
                    let _ = stream.try_write(FULL);
                    continue;
                };
                connections.spawn(connection((stream, peer), router.clone(), place, limits, stop.clone()));
            }
            // No descriptor left, most likely: connections that end give some back.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    drop(listener);
    site.stop.now();
    // What is being measured is interrupted, and ends while answers are sent.
    let of_queue = Arc::clone(&site);
    let queue =
        tokio::task::spawn_blocking(move || of_queue.start.iter().for_each(|start| start.queue.end()));
    let ended = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(limits.grace, ended).await;
    let _ = queue.await;
    Ok(())
}

/// One connection, until it ends, its place is needed, or the server stops.
async fn connection(
    (stream, peer): (TcpStream, SocketAddr),
    router: Router,
    place: Place,
    limits: Limits,
    stop: Stop,
) {
    let _ = stream.set_nodelay(true);
    let seat = Arc::clone(&place.seat);
    let inner = TowerToHyperService::new(router);
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        let (working, answer) = (seat.work(), inner.call(request.map(Body::new)));
        async move {
            let answer = answer.await;
            drop(working);
            answer
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(limits.head_bytes.max(8192))
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = place.seat.leave.notified() => return,
        () = stop.wait() => {}
        () = tokio::time::sleep(LIFE) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(limits.grace, connection).await;
}

/// The places of connections.
#[derive(Default)]
struct Places {
    most: usize,
    next: AtomicU64,
    taken: Mutex<BTreeMap<u64, Arc<Seat>>>,
}

/// What is known of a connection.
struct Seat {
    /// Requests of it that are being answered.
    working: AtomicUsize,
    /// When it last began or ended one, milliseconds since `begun`.
    last: AtomicU64,
    begun: Instant,
    leave: Notify,
}

impl Seat {
    fn touch(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Says that a request is being answered, for as long as what it gives lives.
    fn work(self: &Arc<Self>) -> Working {
        self.working.fetch_add(1, Ordering::Relaxed);
        self.touch();
        Working(Arc::clone(self))
    }

    /// How long nothing happened; nothing while it is being answered.
    fn idle(&self) -> Option<Duration> {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        (self.working.load(Ordering::Relaxed) == 0).then(|| self.begun.elapsed().saturating_sub(last))
    }
}

/// A request that is being answered.
struct Working(Arc<Seat>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.touch();
        self.0.working.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A place that is taken, until this goes.
struct Place {
    number: u64,
    seat: Arc<Seat>,
    of: Arc<Places>,
}

impl Places {
    /// A place; where there is none, that of whoever has been idle longest. Nothing where nobody is idle.
    fn take(self: &Arc<Self>) -> Option<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.len() >= self.most {
            let idle = taken.iter().filter_map(|(number, seat)| Some((seat.idle()?, *number)));
            let (_, number) = idle.max()?;
            if let Some(seat) = taken.remove(&number) {
                seat.leave.notify_one();
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let seat = Arc::new(Seat {
            working: AtomicUsize::new(0),
            last: AtomicU64::new(0),
            begun: Instant::now(),
            leave: Notify::new(),
        });
        taken.insert(number, Arc::clone(&seat));
        Some(Place { number, seat, of: Arc::clone(self) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_longest_idle_is_taken_and_never_one_that_is_answered() {
        let places = Arc::new(Places { most: 2, ..Places::default() });
        let (first, second) = (places.take().unwrap(), places.take().unwrap());
        std::thread::sleep(Duration::from_millis(5));
        drop(first.seat.work());
        let third = places.take().unwrap();
        let there = || places.taken.lock().unwrap().keys().copied().collect::<Vec<_>>();
        assert_eq!(there(), [first.number, third.number], "the second was idle longer");
        let (_a, _b) = (first.seat.work(), third.seat.work());
        assert!(places.take().is_none());
        drop(second);
        assert_eq!(there().len(), 2, "a place that was taken away is not given back twice");
        drop(third);
        assert_eq!(there(), [first.number]);
    }
}
