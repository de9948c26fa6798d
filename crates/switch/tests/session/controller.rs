//! A controller by hand, at the switch's Unix socket.

use crate::rig::Rig;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use weir_codec::{
    AsyncConfig, AsyncKind, Body, Code, ErrorNumber, FlowMod, Hello, Message, MultipartReply,
    MultipartRequest, PacketOut, Reply, Request, Version, decode, encode, frame,
};
use weir_flow::Match;
use weir_openflow::{Action, Flow, Names, PortNo};

pub(crate) struct Controller {
    stream: UnixStream,
    received: Vec<u8>,
    pub(crate) version: Version,
    xid: u32,
}

impl Controller {
    pub(crate) fn new(rig: &Rig, version: Version) -> Self {
        Self::at(UnixStream::connect(rig.socket()).unwrap(), version)
    }

    /// At the other end of a connection.
    pub(crate) fn at(stream: UnixStream, version: Version) -> Self {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut controller = Self { stream, received: Vec::new(), version, xid: 1 };
        controller.say(Body::Hello(Hello::offering(&[version])));
        assert!(matches!(controller.hear().body, Body::Hello(_)));
        controller
    }

    /// Says something; its transaction.
    pub(crate) fn say(&mut self, body: Body) -> u32 {
        self.xid += 1;
        let mut bytes = Vec::new();
        encode(&Message::new(self.version, self.xid, body), &mut bytes).unwrap();
        self.stream.write_all(&bytes).unwrap();
        self.xid
    }

    /// Says whatever these bytes say.
    pub(crate) fn say_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Says many things in a row, each with the next transaction.
    pub(crate) fn say_all(&mut self, bodies: impl Iterator<Item = Body>) {
        let mut bytes = Vec::new();
        for body in bodies {
            self.xid += 1;
            encode(&Message::new(self.version, self.xid, body), &mut bytes).unwrap();
        }
        self.stream.write_all(&bytes).unwrap();
    }

    /// The transaction of what is said next.
    pub(crate) const fn next_xid(&self) -> u32 {
        self.xid + 1
    }

    /// The next message.
    pub(crate) fn hear(&mut self) -> Message {
        loop {
            if let Some(message) = frame(&self.received).unwrap() {
                let length = message.len();
                let message = decode(message).unwrap();
                self.received.drain(..length);
                return message;
            }
            let mut bytes = [0; 65_536];
            match self.stream.read(&mut bytes) {
                Ok(0) => panic!("the switch hung up"),
                Ok(length) => self.received.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("nothing is heard: {error}"),
            }
        }
    }

    /// What is said until all is done that was asked so far.
    pub(crate) fn until_done(&mut self) -> Vec<Message> {
        let xid = self.say(Body::BarrierRequest);
        let mut heard = Vec::new();
        loop {
            let message = self.hear();
            if message.body == Body::BarrierReply {
                assert_eq!(message.xid, xid);
                return heard;
            }
            heard.push(message);
        }
    }

    /// Asks something that has one answer.
    pub(crate) fn ask(&mut self, body: Body) -> Body {
        let xid = self.say(body);
        let answer = self.hear();
        assert_eq!(answer.xid, xid, "{answer:?}");
        answer.body
    }

    pub(crate) fn multipart(&mut self, request: Request) -> Reply {
        let request = MultipartRequest { more: false, request };
        match self.ask(Body::MultipartRequest(request)) {
            Body::MultipartReply(MultipartReply { reply, .. }) => reply,
            other => panic!("{other:?}"),
        }
    }

    /// Asks something that is refused; with what.
    pub(crate) fn refused(&mut self, body: Body) -> ErrorNumber {
        let xid = self.say(body);
        let heard = self.until_done();
        match heard.as_slice() {
            [Message { xid: of, body: Body::Error(error), .. }] if *of == xid => {
                assert!(error.data.len() >= 8, "the message that failed is quoted");
                error.number
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn refuses(&mut self, body: Body, code: Code) {
        let said = format!("{body:?}");
        assert_eq!(self.refused(body), code.number(self.version), "{said}");
    }

    /// Is told nothing that it did not ask for.
    pub(crate) fn deaf_to_events(&mut self) {
        let mut config = AsyncConfig::default();
        for kind in [AsyncKind::PacketIn, AsyncKind::PortStatus, AsyncKind::FlowRemoved] {
            config.set(kind, false, 0);
            config.set(kind, true, 0);
        }
        self.say(Body::SetAsync(config));
    }

    /// Adds a flow, written as text.
    pub(crate) fn add(&mut self, flow: &str) {
        self.say(flow_mod(flow));
        assert_eq!(self.until_done(), [], "{flow}");
    }

    /// Sends a packet through the tables as if it came in by a port.
    pub(crate) fn send(&mut self, in_port: u32, data: Vec<u8>) {
        self.say(packet_out(in_port, vec![Action::Output(PortNo::TABLE)], data));
    }
}

/// The message that adds a flow.
pub(crate) fn flow_mod(flow: &str) -> Body {
    let Flow { table, matching, priority, instructions, cookie, idle_timeout, hard_timeout, flags, .. } =
        Flow::parse(flow, &Names::default()).unwrap();
    Body::FlowMod(FlowMod {
        table: Some(table),
        matching,
        priority,
        instructions,
        cookie,
        idle_timeout,
        hard_timeout,
        flags,
        ..FlowMod::default()
    })
}

pub(crate) fn packet_out(in_port: u32, actions: Vec<Action>, data: Vec<u8>) -> Body {
    Body::PacketOut(PacketOut { buffer: None, in_port: PortNo(in_port), fields: Match::any(), actions, data })
}

/// A frame of this many bytes from one host to another.
pub(crate) fn packet(bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    frame.resize(bytes, 0x5a);
    frame
}
