//! Where clients come in: connections bounded in number (`places`), and each in what it may keep us waiting for (`connection`).

mod connection;
mod places;

use crate::site::{Open, Options, Site};
use crate::{Program, guard, pages};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use connection::Reception;
use places::Places;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use weir_store::StoreError;
use weir_tls::OwnCertificate;

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
        let secure = site.options.is_secure();
        site.start.iter_mut().for_each(|start| start.door.at(address.port(), secure));
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
    let tls = site.options.tls.clone();
    let acceptor = tls.as_ref().map(OwnCertificate::config).transpose().map_err(std::io::Error::other)?;
    let reception = Reception { router, limits, tls: acceptor.map(TlsAcceptor::from), stop: stop.clone() };
    if let Some(certificate) = tls {
        tokio::spawn(renew(certificate, limits.certificate));
    }
    // Whoever asks meanwhile, and meets what keeps it from being read, is told.
    tokio::spawn(pages::prepare(Arc::clone(&site)));
    let places = Places::new(limits.connections);
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
                connections.spawn(reception.clone().receive(stream, peer, place));
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

/// Takes a renewed certificate up, as long as the server runs.
async fn renew(certificate: OwnCertificate, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let certificate = certificate.clone();
        match tokio::task::spawn_blocking(move || certificate.look_again()).await {
            Ok(Ok(true)) => eprintln!("weir: the certificate was renewed"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => eprintln!("weir: {error}; the certificate stays the one of before"),
            Err(_) => return,
        }
    }
}
