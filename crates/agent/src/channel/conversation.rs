//! What a connection makes of the bytes it receives: hello, echoes, and the requests that go on.
//!
//! Pure: bytes in, bytes out; no clock, no socket. Requests are handed on as bytes and decoded where they are
//! told (`backlog`), so that what waits costs what it is long, however hostile.
//!
//! Memory: the beginning of one message at most, 64 KiB.

use weir_codec::{
    Body, Code, ErrorMessage, HEADER, Header, Hello, Message, Version, decode, encode, frame, refuse,
};

/// Numbers of messages that the channel itself deals with (OpenFlow 1.3.5, section 7.1; the same in all
/// versions).
const HELLO: u8 = 0;
const ERROR: u8 = 1;
const ECHO_REQUEST: u8 = 2;
const ECHO_REPLY: u8 = 3;

/// The transaction of what the channel says by itself.
const XID: u32 = 0;

/// One side of a connection.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    version: Option<Version>,
    /// The beginning of a message whose end is not here yet.
    begun: Vec<u8>,
}

/// What was made of received bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    /// What is to be answered at once.
    pub(super) replies: Vec<u8>,
    /// Whole messages for the switch.
    pub(super) requests: Vec<u8>,
    /// The version, if it was agreed on now.
    pub(super) opened: Option<Version>,
    /// Messages that came, of any kind.
    pub(super) messages: u64,
    /// Messages of these that were refused.
    pub(super) refused: u64,
    /// Why the connection is to end, once the replies are sent.
    pub(super) end: Option<String>,
}

impl Conversation {
    /// What is said first.
    pub(super) fn hello() -> Vec<u8> {
        encoded(&Message::new(Version::V15, XID, Body::Hello(Hello::offering(Version::ALL))))
    }

    /// Are you there?
    pub(super) fn echo_request(&self) -> Vec<u8> {
        let version = self.version.unwrap_or(Version::V10);
        encoded(&Message::new(version, XID, Body::EchoRequest(Vec::new())))
    }

    /// Whether a message has begun and not ended.
    pub(super) const fn is_within_message(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Takes bytes as they come.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Received {
        let mut received = Received::default();
        if self.begun.is_empty() {
            let used = self.cut(bytes, &mut received);
            self.begun.extend_from_slice(&bytes[used..]);
        } else {
            self.begun.extend_from_slice(bytes);
            let begun = std::mem::take(&mut self.begun);
            let used = self.cut(&begun, &mut received);
            if used < begun.len() {
                self.begun = begun[used..].to_vec();
            }
        }
        if received.end.is_some() {
            self.begun = Vec::new();
        }
        received
    }

    /// Deals with all messages that are whole; hands back how many bytes they are.
    fn cut(&mut self, bytes: &[u8], received: &mut Received) -> usize {
        let mut used = 0;
        while received.end.is_none() {
            match frame(&bytes[used..]) {
                Ok(Some(message)) => {
                    used += message.len();
                    received.messages += 1;
                    self.message(message, received);
                }
                Ok(None) => break,
                Err(bad) => {
                    received.refused += 1;
                    received.end = Some(bad.to_string());
                }
            }
        }
        used
    }

    fn message(&mut self, message: &[u8], received: &mut Received) {
        let Some(header) = Header::peek(message) else { return };
        let Some(version) = self.version else { return self.first(header, message, received) };
        match header.kind {
            // Said again: it has nothing new to say (OpenFlow 1.3.5, section 6.3.1).
            HELLO => {}
            // An error is never answered, or two sides would go on for ever.
            ERROR if header.version != version.number() => received.refused += 1,
            _ if header.version != version.number() => {
                received.refused += 1;
                let refusal = refuse(version, header.xid, Code::BadVersion, message);
                received.replies.extend(encoded(&refusal));
            }
            ECHO_REQUEST => {
                let start = received.replies.len();
                received.replies.extend_from_slice(message);
                received.replies[start + 1] = ECHO_REPLY;
            }
            ECHO_REPLY => {}
            _ => received.requests.extend_from_slice(message),
        }
    }

    /// The first message, which must be a hello.
    fn first(&mut self, header: Header, message: &[u8], received: &mut Received) {
        let answer_in = Version::near(header.version);
        match decode(message).map(|message| message.body) {
            Ok(Body::Hello(hello)) => match hello.agree(Version::ALL) {
                Some(version) => {
                    self.version = Some(version);
                    received.opened = Some(version);
                }
                None => {
                    let words = "this switch speaks OpenFlow 1.0, 1.3, 1.4 and 1.5";
                    let number = Code::HelloIncompatible.number(answer_in);
                    let error = ErrorMessage { number, data: words.as_bytes().to_vec() };
                    let refusal = Message::new(answer_in, header.xid, Body::Error(error));
                    received.replies.extend(encoded(&refusal));
                    received.refused += 1;
                    received.end = Some(format!("no version in common: it speaks {}", spoken(hello)));
                }
            },
            Ok(Body::Error(error)) => {
                received.end = Some(format!("it refused the hello: {}", words(&error)));
            }
            _ => {
                received.replies.extend(encoded(&refuse(answer_in, header.xid, Code::BadType, message)));
                received.refused += 1;
                received.end = Some(format!(
                    "its first message is not a hello, but has version {} and type {}",
                    header.version, header.kind
                ));
            }
        }
    }
}

/// Versions of a hello, by the numbers of the wire.
fn spoken(hello: Hello) -> String {
    match hello.bitmap {
        None => format!("versions up to number {:#04x}", hello.greatest),
        Some(0) => "none".to_owned(),
        Some(bitmap) => {
            let numbers = (0..32).filter(|bit| bitmap & 1 << bit != 0);
            let numbers: Vec<String> = numbers.map(|number| format!("{number:#04x}")).collect();
            format!("versions {}", numbers.join(", "))
        }
    }
}

/// An error for people: its number, and its text if it is one.
fn words(error: &ErrorMessage) -> String {
    /// Bytes of a text that are shown.
    const SHOWN: usize = 200;
    let text = String::from_utf8_lossy(&error.data[..error.data.len().min(SHOWN)]);
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("{:?} {text}", error.number).trim_end().to_owned()
}

/// The bytes of a message of the channel's own, none of which is too long or unsayable.
pub(super) fn encoded(message: &Message) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + weir_codec::ERROR_DATA);
    let said = encode(message, &mut out);
    debug_assert!(said.is_ok(), "{said:?}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello(versions: &[Version]) -> Vec<u8> {
        encoded(&Message::new(Version::V13, 7, Body::Hello(Hello::offering(versions))))
    }

    fn open() -> Conversation {
        let mut conversation = Conversation::default();
        let received = conversation.receive(&hello(&[Version::V13]));
        assert_eq!(received.opened, Some(Version::V13));
        conversation
    }

    fn errors(mut replies: &[u8]) -> Vec<(u8, u32, ErrorMessage)> {
        let mut found = Vec::new();
        while let Some(message) = frame(replies).unwrap() {
            replies = &replies[message.len()..];
            let version = message[0];
            match decode(message).unwrap() {
                Message { xid, body: Body::Error(error), .. } => found.push((version, xid, error)),
                other => panic!("{other:?}"),
            }
        }
        found
    }

    #[test]
    fn the_greatest_version_of_both_bitmaps_or_the_lesser_header_is_agreed_on() {
        for (said, agreed) in [
            (hello(Version::ALL), Version::V15),
            (hello(&[Version::V10, Version::V13]), Version::V13),
            (vec![1, 0, 0, 8, 0, 0, 0, 1], Version::V10),
            (vec![4, 0, 0, 8, 0, 0, 0, 1], Version::V13),
            (vec![9, 0, 0, 8, 0, 0, 0, 1], Version::V15),
            // A greater version in the header, 1.3 and 1.6 in the bitmap.
            (vec![7, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x90], Version::V13),
        ] {
            let received = Conversation::default().receive(&said);
            assert_eq!((received.opened, received.end), (Some(agreed), None), "{said:?}");
        }
    }

    #[test]
    fn a_side_without_a_common_version_is_told_so_in_words() {
        let only_12 = [3, 0, 0, 16, 0, 0, 0, 7, 0, 1, 0, 8, 0, 0, 0, 8];
        let received = Conversation::default().receive(&only_12);
        assert_eq!(received.end.as_deref(), Some("no version in common: it speaks versions 0x03"));
        let (version, xid, error) = errors(&received.replies).remove(0);
        assert_eq!((version, xid, error.number), (1, 7, Code::HelloIncompatible.number(Version::V10)));
        assert_eq!(error.data, b"this switch speaks OpenFlow 1.0, 1.3, 1.4 and 1.5");
        let received = Conversation::default().receive(&[2, 0, 0, 8, 0, 0, 0, 9]);
        assert_eq!(
            received.end.as_deref(),
            Some("no version in common: it speaks versions up to number 0x02")
        );
    }

    #[test]
    fn whoever_does_not_begin_with_a_hello_is_refused() {
        let received = Conversation::default().receive(&[4, 5, 0, 8, 0, 0, 0, 3]);
        let (version, xid, error) = errors(&received.replies).remove(0);
        assert_eq!((version, xid, error.number), (4, 3, Code::BadType.number(Version::V13)));
        assert!(received.end.unwrap().contains("not a hello, but has version 4 and type 5"));
        let text = "no common version";
        let number = Code::HelloIncompatible.number(Version::V13);
        let error = ErrorMessage { number, data: text.as_bytes().to_vec() };
        let received =
            Conversation::default().receive(&encoded(&Message::new(Version::V13, 0, Body::Error(error))));
        assert!(received.end.unwrap().ends_with(text), "its reason is passed on");
        assert!(received.replies.is_empty(), "an error is not answered");
        let received = Conversation::default().receive(b"GET / HTTP/1.1\r\nHost: weir\r\n\r\n");
        assert_eq!(received.end, None, "a message of 8239 bytes, as it seems: the rest is waited for");
    }

    #[test]
    fn echoes_are_answered_with_their_bytes_and_requests_go_on() {
        let mut conversation = open();
        let echo = [4, 2, 0, 11, 0, 0, 0, 5, 1, 2, 3];
        let barrier = [4, 20, 0, 8, 0, 0, 0, 6];
        let reply = [4, 3, 0, 8, 0, 0, 0, 0];
        let received = conversation.receive(&[&echo[..], &barrier, &reply, &barrier].concat());
        assert_eq!(received.replies, [4, 3, 0, 11, 0, 0, 0, 5, 1, 2, 3]);
        assert_eq!(received.requests, [barrier, barrier].concat());
        assert_eq!((received.messages, received.refused, received.end), (4, 0, None));
        let hello_again = conversation.receive(&hello(&[Version::V10]));
        assert_eq!(hello_again, Received { messages: 1, ..Received::default() });
        assert_eq!(conversation.echo_request(), [4, 2, 0, 8, 0, 0, 0, 0]);
    }

    #[test]
    fn another_version_than_agreed_on_is_refused_and_an_error_is_not_answered() {
        let mut conversation = open();
        let received = conversation.receive(&[1, 5, 0, 8, 0, 0, 0, 8]);
        let (version, xid, error) = errors(&received.replies).remove(0);
        assert_eq!((version, xid, error.number), (4, 8, Code::BadVersion.number(Version::V13)));
        assert_eq!((received.refused, received.end), (1, None));
        let received = conversation.receive(&[1, 1, 0, 12, 0, 0, 0, 8, 0, 1, 0, 1]);
        assert_eq!((received.refused, received.replies), (1, vec![]));
        assert!(conversation.receive(&[4, 20, 0, 7, 0, 0, 0, 9]).end.unwrap().contains("7 bytes long"));
    }

    proptest! {
        #[test]
        fn bytes_may_come_in_any_pieces(cuts in prop::collection::vec(1..40_usize, 1..60)) {
            let mut stream = hello(&[Version::V13]);
            stream.extend([4, 2, 0, 8, 0, 0, 0, 1]);
            for xid in 0..60_u8 {
                stream.extend([4, 20, 0, 8 + xid, 0, 0, 0, xid]);
                stream.resize(stream.len() + usize::from(xid), xid);
            }
            let whole = Conversation::default().receive(&stream);
            let mut conversation = Conversation::default();
            let mut pieces = Received::default();
            let (mut at, mut cuts) = (0, cuts.iter().cycle());
            while at < stream.len() {
                let end = (at + cuts.next().unwrap()).min(stream.len());
                let piece = conversation.receive(&stream[at..end]);
                at = end;
                pieces.replies.extend(piece.replies);
                pieces.requests.extend(piece.requests);
                pieces.opened = pieces.opened.or(piece.opened);
                pieces.messages += piece.messages;
            }
            prop_assert_eq!(pieces, whole);
        }

        #[test]
        fn random_bytes_never_cost_more_than_they_are_long(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
            let mut conversation = open();
            for piece in bytes.chunks(97) {
                let received = conversation.receive(piece);
                prop_assert!(received.requests.len() <= bytes.len());
                prop_assert!(conversation.begun.len() <= bytes.len());
                if received.end.is_some() {
                    break;
                }
            }
        }
    }
}
