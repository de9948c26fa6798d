//! Calls of a gRPC server: one question, one answer, over HTTP/2 without TLS.
//!
//! This is the part of gRPC that a client of unary calls needs ("gRPC over HTTP2", PROTOCOL-HTTP2.md): a POST whose body is
//! a message behind five bytes, an answer of the same form, and a status in its trailers. The HTTP/2 is the crate `h2`'s.
//!
//! Threads: none; the connection is served while a call waits.

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use prost::Message;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// How long a call may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How long a connection may take to be made.
const CONNECTING: Duration = Duration::from_secs(2);

/// Longest answer, in bytes.
const LONGEST: usize = 16 << 20;

/// Bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// gRPC's status codes.
const STATUS: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A Unix socket.
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let place = match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Self::Unix(path.into()),
            Some(("tcp", address)) => {
                let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
                if port.and_then(|(_, port)| port.parse::<u16>().ok()).is_none() {
                    return Err(format!("`{text}` names no host and port; write tcp:127.0.0.1:10514"));
                }
                Self::Tcp(address.to_owned())
            }
            _ => return Err(format!("`{text}` is no place of a bessd; write tcp:HOST:PORT or unix:PATH")),
        };
        Ok(place)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// A call that brought no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The server has a status other than OK.
    Status(u16, String),
    /// There is no connection any more, or never was one.
    Broken(String),
    /// What came is no gRPC.
    Nonsense(String),
    /// Nothing came.
    Late,
}

impl Failure {
    fn broken(error: impl fmt::Display) -> Self {
        Self::Broken(error.to_string())
    }

    /// Of HTTP/2: bytes that are none are nonsense, all else a connection that broke.
    fn of(error: h2::Error) -> Self {
        match error.reason() {
            Some(h2::Reason::PROTOCOL_ERROR | h2::Reason::FRAME_SIZE_ERROR) => {
                Self::Nonsense(format!("no HTTP/2: {error}"))
            }
            _ => Self::broken(error),
        }
    }
}

/// The name of a status.
pub(super) fn status(code: u16) -> &'static str {
    STATUS.get(usize::from(code)).copied().unwrap_or("a status of its own")
}

/// A connection.
pub(super) struct Channel {
    runtime: Runtime,
    requests: SendRequest<Bytes>,
    /// The service's name, with its package.
    service: &'static str,
}

impl Channel {
    /// Connects.
    pub(super) fn open(place: &Place, service: &'static str) -> Result<Self, Failure> {
        let runtime =
            Builder::new_current_thread().enable_io().enable_time().build().map_err(Failure::broken)?;
        let connecting = async {
            match place {
                Place::Unix(path) => {
                    handshake(UnixStream::connect(path).await.map_err(Failure::broken)?).await
                }
                Place::Tcp(address) => {
                    handshake(TcpStream::connect(address).await.map_err(Failure::broken)?).await
                }
            }
        };
        let requests = runtime.block_on(async { timeout(CONNECTING, connecting).await });
        Ok(Self { requests: requests.map_err(|_| Failure::Late)??, runtime, service })
    }

    /// Asks, and waits for the answer.
    pub(super) fn call<A: Message + Default>(
        &mut self,
        method: &str,
        question: &impl Message,
        patience: Duration,
    ) -> Result<A, Failure> {
        let path = format!("http://localhost/{}/{method}", self.service);
        let call = unary(&self.requests, &path, framed(question));
        let answer = self.runtime.block_on(async { timeout(patience, call).await });
        let answer = answer.map_err(|_| Failure::Late)??;
        let message = unframed(&answer).ok_or_else(|| Failure::Nonsense(shown(&answer)))?;
        A::decode(message).map_err(|error| Failure::Nonsense(error.to_string()))
    }
}

async fn handshake<S>(stream: S) -> Result<SendRequest<Bytes>, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (requests, connection) = h2::client::handshake(stream).await.map_err(Failure::of)?;
    // Why it ended is what the call says that finds it ended.
    tokio::spawn(connection);
    Ok(requests)
}

async fn unary(requests: &SendRequest<Bytes>, path: &str, body: Bytes) -> Result<Vec<u8>, Failure> {
    let request = Request::post(path).header("content-type", "application/grpc").header("te", "trailers");
    let request = request.body(()).map_err(Failure::broken)?;
    let mut ready = requests.clone().ready().await.map_err(Failure::of)?;
    let (response, mut stream) = ready.send_request(request, false).map_err(Failure::of)?;
    stream.send_data(body, true).map_err(Failure::of)?;
    let response = response.await.map_err(Failure::of)?;
    if !response.status().is_success() {
        return Err(Failure::Nonsense(format!("HTTP status {}", response.status())));
    }
    refused(response.headers())?;
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.map_err(Failure::of)?;
        bytes.extend_from_slice(&chunk);
        if bytes.len() > LONGEST {
            return Err(Failure::Nonsense(format!("more than {LONGEST} bytes")));
        }
        body.flow_control().release_capacity(chunk.len()).map_err(Failure::of)?;
    }
    let trailers = body.trailers().await.map_err(Failure::of)?.unwrap_or_default();
    refused(&trailers)?;
    Ok(bytes)
}

/// The status in headers or trailers, where it is not OK.
fn refused(headers: &HeaderMap) -> Result<(), Failure> {
    let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let Some(code) = text("grpc-status") else { return Ok(()) };
    match code.parse() {
        Ok(0) => Ok(()),
        Ok(code) => Err(Failure::Status(code, unescaped(&text("grpc-message").unwrap_or_default()))),
        Err(_) => Err(Failure::Nonsense(format!("grpc-status {code}"))),
    }
}

/// A status' message, in which some bytes are written as `%` and two digits.
fn unescaped(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| byte == b'%') {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &behind[2..];
            }
            None => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A message behind its prefix.
pub(super) fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX + length);
    bytes.put_u8(0);
    bytes.put_u32(length as u32);
    bytes.put_slice(&message.encode_to_vec());
    bytes.freeze()
}

/// The one message in a body that is not compressed.
pub(super) fn unframed(bytes: &[u8]) -> Option<&[u8]> {
    let (prefix, message) = bytes.split_first_chunk::<PREFIX>()?;
    let [0, a, b, c, d] = *prefix else { return None };
    (u32::from_be_bytes([a, b, c, d]) as usize == message.len()).then_some(message)
}

/// The beginning of what came.
fn shown(bytes: &[u8]) -> String {
    const SHOWN: usize = 40;
    bytes[..bytes.len().min(SHOWN)].escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_printed_and_mistakes_named() {
        for text in ["unix:/t/bess.sock", "tcp:127.0.0.1:10514", "tcp:[::1]:7"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        for wrong in ["", "bess.sock", "unix:", "tcp:host", "tcp::7", "tcp:host:x", "udp:host:7"] {
            let error = wrong.parse::<Place>().unwrap_err();
            assert!(error.contains("tcp:"), "{error}");
        }
    }

    #[test]
    fn a_message_has_its_length_before_it() {
        let framed = framed(&"ab".to_owned());
        assert_eq!(&framed[..], [0, 0, 0, 0, 4, 10, 2, b'a', b'b']);
        assert_eq!(unframed(&framed), Some(&framed[5..]));
        for wrong in [&framed[..8], &[1, 0, 0, 0, 0], b"", b"HTTP/1.1 400"] {
            assert_eq!(unframed(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_status_message_is_unescaped() {
        assert_eq!(unescaped("no%20port%3A \u{fc}%2"), "no port: \u{fc}%2");
        assert_eq!((status(12), status(77)), ("UNIMPLEMENTED", "a status of its own"));
    }
}
