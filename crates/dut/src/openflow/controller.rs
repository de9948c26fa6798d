//! A controller's end of a connection: OpenFlow 1.3 over a device's own socket, in the words of `weir-codec`.
//!
//! Costs and threads: what asks waits for the answer, on its own thread.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use weir_codec::{Body, FlowCommand, FlowMod, Hello, Message, Version, decode, encode, frame};
use weir_openflow::{Flow, Names};

/// The version that is spoken.
const VERSION: Version = Version::V13;

/// A connection with a device.
#[derive(Debug)]
pub(crate) struct Controller {
    socket: UnixStream,
    unread: Vec<u8>,
}

impl Controller {
    /// Connects; a device that says nothing for this long, where it is given, has failed.
    pub(crate) fn connect(socket: &Path, patience: Option<Duration>) -> std::io::Result<Self> {
        let socket = UnixStream::connect(socket)?;
        socket.set_read_timeout(patience)?;
        Ok(Self { socket, unread: Vec::new() })
    }

    /// A handle by which another thread ends the connection.
    pub(crate) fn handle(&self) -> std::io::Result<UnixStream> {
        self.socket.try_clone()
    }

    /// Says which version it speaks.
    pub(crate) fn hello(&mut self) -> Result<(), String> {
        self.send(&message(Body::Hello(Hello::offering(&[VERSION]))))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.socket.write_all(bytes).map_err(|error| format!("the connection to it: {error}"))
    }

    /// Waits until the device says that all before the oldest barrier is done; what it refused meanwhile is an error.
    pub(crate) fn wait_for_barrier(&mut self) -> Result<(), String> {
        loop {
            match self.receive()?.body {
                Body::BarrierReply => return Ok(()),
                Body::EchoRequest(data) => self.send(&message(Body::EchoReply(data)))?,
                Body::Error(error) => return Err(format!("it refused a change: {:?}", error.number)),
                _ => {}
            }
        }
    }

    /// The next message.
    pub(crate) fn receive(&mut self) -> Result<Message, String> {
        loop {
            let whole = frame(&self.unread).map_err(|error| error.to_string())?.map(<[u8]>::len);
            if let Some(length) = whole {
                let rest = self.unread.split_off(length);
                let bytes = std::mem::replace(&mut self.unread, rest);
                return decode(&bytes).map_err(|error| format!("it sent what cannot be read: {error}"));
            }
            let mut bytes = [0; 4096];
            match self.socket.read(&mut bytes) {
                Ok(0) => return Err("it closed the connection".to_owned()),
                Ok(count) => self.unread.extend(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err("it did not answer a barrier in time".to_owned());
                }
                Err(error) => return Err(format!("the connection to it: {error}")),
            }
        }
    }
}

/// A message as bytes.
pub(crate) fn message(body: Body) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&Message::new(VERSION, 0, body), &mut bytes).expect("the lab says what OpenFlow 1.3 has");
    bytes
}

/// A change of flow entries as bytes; the entry as `ovs-ofctl add-flow` reads it.
pub(crate) fn change(command: FlowCommand, entry: &str) -> Vec<u8> {
    let flow = Flow::parse(entry, &Names::default()).expect("the lab writes entries that can be read");
    let Flow { table, priority, matching, instructions, .. } = flow;
    let table = Some(table);
    message(Body::FlowMod(FlowMod { command, table, matching, priority, instructions, ..FlowMod::default() }))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread::JoinHandle;

    /// A switch that reads messages until the connection ends, or `over` says so of what it got, and answers
    /// barriers with this. What it was sent.
    pub(crate) fn switch(
        answer: Body,
        over: impl Fn(&[Message]) -> bool + Send + 'static,
    ) -> (tempfile::TempDir, JoinHandle<Vec<Message>>) {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("of")).unwrap();
        let thread = std::thread::spawn(move || {
            let (socket, _) = listener.accept().unwrap();
            let mut end = Controller { socket, unread: Vec::new() };
            let mut got = Vec::new();
            while let Ok(said) = end.receive() {
                let barrier = said.body == Body::BarrierRequest;
                got.push(said);
                if barrier {
                    let echo = message(Body::EchoRequest(b"!".to_vec()));
                    if end.send(&[echo, message(answer.clone())].concat()).is_err() {
                        break;
                    }
                }
                if over(&got) {
                    break;
                }
            }
            got
        });
        (folder, thread)
    }

    #[test]
    fn a_device_that_never_answers_is_not_waited_for_for_ever() {
        let (folder, switch) = switch(Body::BarrierReply, |_| false);
        let mut end = Controller::connect(&folder.path().join("of"), Some(Duration::from_millis(5))).unwrap();
        end.hello().unwrap();
        let said = end.wait_for_barrier().unwrap_err();
        assert!(said.contains("in time"), "{said}");
        drop(end);
        assert_eq!(switch.join().unwrap().len(), 1);
    }
}
