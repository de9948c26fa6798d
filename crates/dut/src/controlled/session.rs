//! A connection with a switch.
//!
//! A thread reads it to its end: it answers echo requests at once, so that a switch which looks whether its controller
//! lives finds it alive while a trial runs, and keeps answers for whoever asked. What the switch says of its own accord
//! (packet-ins, changes of ports) is passed over. When the connection ends and nobody asked it to, the alarm is raised.

use super::NAME;
use super::address::Stream;
use crate::DutError;
use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_codec::{
    Body, Code, Desc, ErrorMessage, Features, FlowForm, Hello, Message, MultipartRequest, Port, Reply,
    Request, Version, decode, encode, frame,
};
use weir_openflow::PortNo;

/// The version that is spoken.
const VERSION: Version = Version::V13;

/// How long a switch may leave a question unanswered.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it may take over changes of its tables.
const CHANGING: Duration = Duration::from_secs(120);

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;

/// What the reader has for whoever asks.
type Heard = Result<Message, Unread>;

/// A message that could not be read.
#[derive(Debug)]
struct Unread {
    xid: u32,
    why: String,
}

/// A connection.
pub(super) struct Session {
    socket: Arc<Mutex<Stream>>,
    heard: Receiver<Heard>,
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
    next: u32,
}

#[derive(Default)]
struct Shared {
    /// Why it ended.
    ended: Mutex<Option<String>>,
    /// The lab ends it.
    leaving: AtomicBool,
}

impl Session {
    /// Greets the switch, and agrees on a version.
    pub(super) fn begin(stream: Stream, alarm: Arc<AtomicBool>) -> Result<Self, String> {
        let reading = stream.try_clone().map_err(|error| error.to_string())?;
        let (said, heard) = channel();
        let socket = Arc::new(Mutex::new(stream));
        let shared = Arc::new(Shared::default());
        let reader = Reader { stream: reading, answers: Arc::clone(&socket), said };
        let known = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("weir-controller".into()).spawn(move || {
            let why = reader.read();
            *known.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            if !known.leaving.load(Ordering::SeqCst) {
                alarm.store(true, Ordering::SeqCst);
            }
        });
        let reader = Some(thread.map_err(|error| error.to_string())?);
        let session = Self { socket, heard, shared, reader, next: 1 };
        session.send(0, Body::Hello(Hello::offering(&[VERSION])))?;
        match session.next_heard(PATIENCE)?.body {
            Body::Hello(theirs) if theirs.agree(&[VERSION]).is_some() => Ok(session),
            Body::Hello(theirs) => {
                // Its own way to learn why.
                let words = b"OpenFlow 1.3 only".to_vec();
                let number = Code::HelloIncompatible.number(VERSION);
                let _ = session.send(0, Body::Error(ErrorMessage { number, data: words }));
                Err(format!("it speaks {}, and the lab OpenFlow 1.3 alone", spoken(&theirs)))
            }
            Body::Error(error) => Err(format!("it refused OpenFlow 1.3: {}", refusal(&error))),
            other => Err(format!("it began with {} and not with a hello", kind(&other))),
        }
    }

    /// Why the connection ended; nothing while it stands.
    pub(super) fn ended(&self) -> Option<DutError> {
        let ended = self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ended.map(|reason| DutError::Network { what: format!("{NAME}: the switch"), reason })
    }

    /// Sends a message; the number that its answer will have.
    pub(super) fn say(&mut self, body: Body) -> Result<u32, String> {
        let xid = self.next;
        self.next = self.next.wrapping_add(1).max(1);
        self.send(xid, body)?;
        Ok(xid)
    }

    fn send(&self, xid: u32, body: Body) -> Result<(), String> {
        send(&self.socket, xid, body)
    }

    /// The next answer of any kind.
    fn next_heard(&self, patience: Duration) -> Result<Message, String> {
        match self.heard.recv_timeout(patience) {
            Ok(Ok(message)) => Ok(message),
            Ok(Err(unread)) => Err(format!("it sent what cannot be read: {}", unread.why)),
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("it did not answer within {} s", patience.as_secs()))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let ended = self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Err(ended.unwrap_or_else(|| "the connection ended".to_owned()))
            }
        }
    }

    /// Asks, and waits for the first part of the answer to just that.
    fn ask(&mut self, body: Body) -> Result<Message, String> {
        let xid = self.say(body)?;
        self.answer(xid)
    }

    fn answer(&self, xid: u32) -> Result<Message, String> {
        loop {
            match self.heard.recv_timeout(PATIENCE) {
                // What is not about this was asked by one that gave up.
                Ok(Ok(message)) if message.xid != xid => {}
                Ok(Err(unread)) if unread.xid != xid => {}
                Ok(Ok(Message { body: Body::Error(error), .. })) => {
                    return Err(format!("it refused the question: {}", refusal(&error)));
                }
                Ok(Ok(message)) => return Ok(message),
                Ok(Err(unread)) => return Err(format!("it answered what cannot be read: {}", unread.why)),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("it did not answer within {} s", PATIENCE.as_secs()));
                }
                Err(RecvTimeoutError::Disconnected) => return self.next_heard(PATIENCE),
            }
        }
    }

    /// A multipart answer, its parts joined.
    pub(super) fn part(&mut self, request: Request) -> Result<Reply, String> {
        let xid = self.say(Body::MultipartRequest(MultipartRequest { more: false, request }))?;
        let mut whole: Option<Reply> = None;
        loop {
            let Body::MultipartReply(part) = self.answer(xid)?.body else {
                return Err("it answered something else".to_owned());
            };
            let all = match whole.take() {
                None => part.reply,
                Some(before) => joined(before, part.reply)?,
            };
            if !part.more {
                return Ok(all);
            }
            whole = Some(all);
        }
    }

    pub(super) fn features(&mut self) -> Result<Features, String> {
        match self.ask(Body::FeaturesRequest)?.body {
            Body::FeaturesReply(features) => Ok(features),
            other => Err(format!("it answered {} where its features were asked for", kind(&other))),
        }
    }

    pub(super) fn desc(&mut self) -> Option<Desc> {
        match self.part(Request::Desc) {
            Ok(Reply::Desc(desc)) => Some(desc),
            _ => None,
        }
    }

    pub(super) fn ports(&mut self) -> Result<Vec<Port>, String> {
        match self.part(Request::PortDesc(PortNo::ANY))? {
            Reply::PortDesc(ports) => Ok(ports),
            _ => Err("it did not answer with its ports".to_owned()),
        }
    }

    /// Waits until all before is done; what was refused meanwhile, by its number.
    pub(super) fn barrier(&mut self) -> Result<Vec<(u32, String)>, String> {
        let xid = self.say(Body::BarrierRequest)?;
        let mut refused = Vec::new();
        loop {
            let Message { xid: about, body, .. } = self.next_heard(CHANGING)?;
            match body {
                Body::BarrierReply if about == xid => return Ok(refused),
                Body::Error(error) => refused.push((about, refusal(&error))),
                _ => {}
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.leaving.store(true, Ordering::SeqCst);
        self.socket.lock().unwrap_or_else(PoisonError::into_inner).shutdown();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join(); // it has nothing left to say
        }
    }
}

/// Writes one message whole, beside whatever else is written.
fn send(socket: &Mutex<Stream>, xid: u32, body: Body) -> Result<(), String> {
    let mut bytes = Vec::new();
    encode(&Message::new(VERSION, xid, body), &mut bytes)
        .map_err(|error| format!("OpenFlow 1.3 has no way to say it: {error}"))?;
    let mut socket = socket.lock().unwrap_or_else(PoisonError::into_inner);
    socket.write_all(&bytes).map_err(|error| format!("the connection: {error}"))
}

/// Parts of one answer, in order.
fn joined(before: Reply, more: Reply) -> Result<Reply, String> {
    Ok(match (before, more) {
        (Reply::Flow(form, mut all), Reply::Flow(_, more)) => {
            all.extend(more);
            Reply::Flow(form, all)
        }
        (Reply::Port(mut all), Reply::Port(more)) => {
            all.extend(more);
            Reply::Port(all)
        }
        (Reply::PortDesc(mut all), Reply::PortDesc(more)) => {
            all.extend(more);
            Reply::PortDesc(all)
        }
        (Reply::Table(mut all), Reply::Table(more)) => {
            all.extend(more);
            Reply::Table(all)
        }
        _ => return Err("parts of its answer are about different things".to_owned()),
    })
}

/// The reader's end.
struct Reader {
    stream: Stream,
    answers: Arc<Mutex<Stream>>,
    said: Sender<Heard>,
}

impl Reader {
    /// Reads until the connection ends; why it did.
    fn read(mut self) -> String {
        let (mut unread, mut chunk) = (Vec::new(), vec![0; CHUNK]);
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return "closed the connection".to_owned(),
                Ok(count) => unread.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return format!("the connection broke: {error}"),
            }
            let mut from = 0;
            loop {
                match frame(&unread[from..]) {
                    Ok(None) => break,
                    Ok(Some(bytes)) => {
                        from += bytes.len();
                        if let Err(why) = self.take(bytes) {
                            return why;
                        }
                    }
                    Err(bad) => return format!("sent what is no OpenFlow: {bad}"),
                }
            }
            unread.drain(..from);
        }
    }

    /// A whole message.
    fn take(&self, bytes: &[u8]) -> Result<(), String> {
        let heard = match decode(bytes) {
            Ok(Message { body: Body::EchoRequest(data), xid, .. }) => {
                return send(&self.answers, xid, Body::EchoReply(data));
            }
            // What it says of its own accord.
            Ok(Message { body: Body::PacketIn(_) | Body::PortStatus(_) | Body::FlowRemoved(_), .. }) => {
                return Ok(());
            }
            Ok(message) => Ok(message),
            Err(error) => Err(Unread { xid: error.xid, why: error.to_string() }),
        };
        self.said.send(heard).map_err(|_| "nobody listens any more".to_owned())
    }
}

/// The versions of a hello, as people name them.
fn spoken(hello: &Hello) -> String {
    let name = |number: u8| format!("OpenFlow 1.{}", number.saturating_sub(1));
    match hello.bitmap {
        Some(bits) => {
            let all: Vec<String> =
                (1..32).filter(|bit| bits & 1 << bit != 0).map(|bit| name(bit as u8)).collect();
            all.join(", ")
        }
        None => format!("{} at most", name(hello.greatest)),
    }
}

/// An error, with its name where it has one.
fn refusal(error: &ErrorMessage) -> String {
    let known = Code::ALL.iter().find(|code| code.number(VERSION) == error.number);
    known.map_or_else(|| format!("{:?}", error.number), |code| format!("{code:?} ({:?})", error.number))
}

/// A message's kind, for words.
fn kind(body: &Body) -> String {
    let text = format!("{body:?}");
    text.split(['(', ' ', '{']).next().unwrap_or_default().to_owned()
}

/// All entries of any table.
pub(super) fn all_entries() -> Request {
    Request::Flow(weir_codec::FlowQuery { form: FlowForm::Standard, ..weir_codec::FlowQuery::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    /// A switch that says these bytes, then what `then` does with its socket.
    fn switch(first: Vec<u8>, then: impl FnOnce(UnixStream) + Send + 'static) -> (Stream, JoinHandle<()>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || {
            theirs.write_all(&first).unwrap();
            then(theirs);
        });
        (Stream::Unix(ours), thread)
    }

    fn bytes(xid: u32, body: Body) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(&Message::new(VERSION, xid, body), &mut bytes).unwrap();
        bytes
    }

    fn hello() -> Vec<u8> {
        bytes(0, Body::Hello(Hello::offering(&[VERSION])))
    }

    #[test]
    fn a_switch_of_another_version_or_that_is_none_is_named() {
        let old = bytes(0, Body::Hello(Hello { greatest: 1, bitmap: None }));
        let newer = bytes(0, Body::Hello(Hello { greatest: 6, bitmap: Some(1 << 5 | 1 << 6) }));
        let early = bytes(0, Body::BarrierReply);
        for (said, says) in [
            (old, "it speaks OpenFlow 1.0 at most"),
            (newer, "it speaks OpenFlow 1.4, OpenFlow 1.5, and the lab"),
            (early, "began with BarrierReply"),
            (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), ""),
        ] {
            let (stream, thread) = switch(said, |mut socket| drop(socket.read(&mut [0; 64])));
            let error = Session::begin(stream, Arc::default()).err().unwrap();
            assert!(error.contains(says) && !error.is_empty(), "{says}: {error}");
            thread.join().unwrap();
        }
    }

    #[test]
    fn echoes_are_answered_while_nobody_asks_and_the_end_raises_the_alarm() {
        let alarm = Arc::new(AtomicBool::new(false));
        let echo = bytes(7, Body::EchoRequest(b"alive?".to_vec()));
        let (begun, is_begun) = std::sync::mpsc::channel::<()>();
        let (stream, thread) = switch([hello(), echo].concat(), move |mut socket| {
            let mut got = Vec::new();
            while !got.windows(6).any(|part| part == b"alive?") {
                let mut some = [0; 256];
                let count = socket.read(&mut some).unwrap();
                got.extend_from_slice(&some[..count]);
            }
            let _ = is_begun.recv(); // until the sender is dropped
        });
        let session = Session::begin(stream, Arc::clone(&alarm)).unwrap();
        drop(begun);
        thread.join().unwrap();
        let end = Instant::now() + PATIENCE;
        while !alarm.load(Ordering::SeqCst) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        let ended = session.ended().unwrap().to_string();
        assert!(alarm.load(Ordering::SeqCst) && ended.contains("closed the connection"), "{ended}");
    }

    #[test]
    fn leaving_raises_no_alarm() {
        let alarm = Arc::new(AtomicBool::new(false));
        let (stream, thread) = switch(hello(), |mut socket| while socket.read(&mut [0; 64]).unwrap() > 0 {});
        drop(Session::begin(stream, Arc::clone(&alarm)).unwrap());
        thread.join().unwrap();
        assert!(!alarm.load(Ordering::SeqCst));
    }
}
