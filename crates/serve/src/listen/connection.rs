//! One connection, and what it may keep us waiting for.
//!
//! | a client that | is left after |
//! |---|---|
//! | does not end the handshake of TLS | [`Limits::head`] |
//! | sends the head of a request slowly, or nothing after an answer | [`Limits::head`] |
//! | does not take what is sent to it | [`Limits::stall`] |
//! | takes it, or asks, without an end | [`Limits::life`] |
//!
//! How long a body and an answer may take is `guard`'s and `upload`'s to say. A connection that is left while it has bytes unsent is
//! reset, so that the kernel does not keep them for a client that may never read.

use super::Stop;
use super::places::Place;
use crate::central::who::Peer;
use crate::site::Limits;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::Future as _;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// What the first byte of a connection in TLS says: a handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;
/// What is said to whoever asks without TLS where there is TLS.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 50\r\n\r\n\
                       this server speaks TLS alone: write https:// here\n";

/// What receives connections.
#[derive(Clone)]
pub(super) struct Reception {
    pub(super) router: Router,
    pub(super) limits: Limits,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) stop: Stop,
}

impl Reception {
    /// Answers what is asked on a connection, until it ends, its place is needed, or the server stops.
    pub(super) async fn receive(self, stream: TcpStream, peer: SocketAddr, place: Place) {
        let _ = stream.set_nodelay(true);
        tokio::select! {
            () = place.seat.leave.notified() => {}
            () = self.spoken(stream, peer, &place) => {}
        }
    }

    async fn spoken(&self, stream: TcpStream, peer: SocketAddr, place: &Place) {
        let Some(tls) = &self.tls else {
            return self.http(Patient::new(stream, self.limits.stall), peer, place).await;
        };
        let mut first = [0; 1];
        match timeout(self.limits.head, stream.peek(&mut first)).await {
            Ok(Ok(1)) if first[0] == HANDSHAKE => {}
            Ok(Ok(1)) => return refuse(&stream),
            _ => return,
        }
        let accepted = tls.accept(Patient::new(stream, self.limits.stall));
        if let Ok(Ok(stream)) = timeout(self.limits.head, accepted).await {
            self.http(stream, peer, place).await;
        }
    }

    async fn http(&self, stream: impl AsyncRead + AsyncWrite + Unpin, peer: SocketAddr, place: &Place) {
        let inner = TowerToHyperService::new(self.router.clone());
        let service = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            let (working, answer) = (place.seat.work(), inner.call(request.map(Body::new)));
            async move {
                let answer = answer.await;
                drop(working);
                answer
            }
        });
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head)
            .max_buf_size(self.limits.head_bytes.max(8192));
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            _ = connection.as_mut() => return,
            () = self.stop.wait() => {}
            () = tokio::time::sleep(self.limits.life) => {}
        }
        connection.as_mut().graceful_shutdown();
        let _ = timeout(self.limits.grace, connection).await;
    }
}

/// Says that there is TLS here. What was sent is read first: a connection that is closed with bytes unread is reset, and the
/// answer with it.
fn refuse(stream: &TcpStream) {
    let mut asked = [0; 4096];
    while stream.try_read(&mut asked).is_ok_and(|bytes| bytes > 0) {}
    let _ = stream.try_write(PLAIN);
}

/// A connection that fails when nothing could be written to it for so long.
struct Patient {
    stream: TcpStream,
    patience: Duration,
    /// Runs while there are bytes that the client does not take.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn new(stream: TcpStream, patience: Duration) -> Self {
        Self { stream, patience, waiting: None }
    }

    fn pressed<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        if self.waiting.is_some() {
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.pressed(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.pressed(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
