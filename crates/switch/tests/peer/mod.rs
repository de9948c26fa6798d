//! Controllers by hand, and the switch's end of their connections.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use weir_codec::{Body, Hello, Message, Version, decode, encode, frame};
use weir_switch::{ChannelSettings, ChannelStatus, Channels, ConnectionId, Heard, Line};

/// What a controller sends and receives, by hand.
pub(crate) struct Peer<S> {
    pub(crate) stream: S,
    pub(crate) received: Vec<u8>,
}

impl<S: Read + Write> Peer<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, received: Vec::new() }
    }

    pub(crate) fn say(&mut self, version: Version, xid: u32, body: Body) {
        let mut bytes = Vec::new();
        encode(&Message::new(version, xid, body), &mut bytes).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    pub(crate) fn hello(&mut self, version: Version) {
        self.say(version, 1, Body::Hello(Hello::offering(&[version])));
        let hello = self.hear().expect("a hello");
        assert!(matches!(hello.body, Body::Hello(_)), "{hello:?}");
    }

    /// The next message; none if the other side hung up.
    pub(crate) fn hear(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = frame(&self.received).unwrap() {
                let length = message.len();
                let message = decode(message).unwrap();
                self.received.drain(..length);
                return Some(message);
            }
            let mut bytes = [0; 65_536];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(length) => self.received.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

pub(crate) fn tcp(address: &str) -> Peer<TcpStream> {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    Peer::new(stream)
}

/// Channels, and the switch's end of them.
pub(crate) struct Bench {
    pub(crate) channels: Channels,
    pub(crate) inbox: Receiver<Heard>,
}

pub(crate) fn settings(listen: &[&str], controllers: &[&str]) -> ChannelSettings {
    ChannelSettings {
        listen: listen.iter().map(|text| text.parse().unwrap()).collect(),
        controllers: controllers.iter().map(|text| text.parse().unwrap()).collect(),
        ..ChannelSettings::default()
    }
}

impl Bench {
    pub(crate) fn new(settings: &ChannelSettings) -> Self {
        let (sender, inbox) = sync_channel(4);
        Self { channels: Channels::start(settings, sender).unwrap(), inbox }
    }

    pub(crate) fn listening() -> Self {
        Self::new(&settings(&["ptcp:0:127.0.0.1"], &[]))
    }

    pub(crate) fn row(&self, endpoint: usize) -> ChannelStatus {
        self.channels.status()[endpoint].clone()
    }

    pub(crate) fn address(&self) -> String {
        self.row(0).address.unwrap()
    }

    pub(crate) fn heard(&self) -> Heard {
        self.inbox.recv_timeout(Duration::from_secs(10)).expect("something is heard")
    }

    pub(crate) fn opened(&self) -> (ConnectionId, Version, Line) {
        match self.heard() {
            Heard::Opened { connection, version, line, .. } => (connection, version, line),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn message(&self) -> (ConnectionId, Message) {
        match self.heard() {
            Heard::Message { connection, message } => (connection, message),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn closed(&self) -> (ConnectionId, String) {
        match self.heard() {
            Heard::Closed { connection, why } => (connection, why),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn silent(&self, time: Duration) {
        match self.inbox.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => {}
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the status is so.
    pub(crate) fn wait(&self, what: &str, is: impl Fn(&[ChannelStatus]) -> bool) {
        let begin = Instant::now();
        while !is(&self.channels.status()) {
            assert!(
                begin.elapsed() < Duration::from_secs(10),
                "waited for {what}: {:?}",
                self.channels.status()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

pub(crate) fn encoded(version: Version, xid: u32, body: Body) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&Message::new(version, xid, body), &mut bytes).unwrap();
    bytes
}
