//! The OpenFlow agent: connections with controllers, and what they say to the switch.
//!
//! - `channel`: connections and bytes, in threads of its own; it tells the switch's thread what it heard
//!   ([`Heard`]) and takes what is to be said ([`Line`]);
//! - `session`: what each message means for the switch, on the switch's thread. It knows the switch as
//!   [`weir_openflow::Tables`], whatever forwards behind that;
//! - `tracker`: connections of a connection-tracking service, in parts; `private`: sockets of one user.

pub mod channel;
pub mod private;
pub mod session;
pub mod tracker;

use channel::Line;

/// A connection with a controller, numbered from 1, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What a channel tells the switch's thread.
#[derive(Debug)]
pub enum Heard {
    /// The hello is done.
    Opened {
        /// The connection.
        connection: ConnectionId,
        /// The version both sides agreed on.
        version: weir_codec::Version,
        /// The other side, for people.
        peer: String,
        /// Whether the switch connected to it, because it is one of its controllers.
        called: bool,
        /// Sends to it.
        line: Line,
    },
    /// A message, in the order it came. Echoes, hellos and messages that do not decode are answered by the
    /// channel and are not told.
    Message {
        /// The connection.
        connection: ConnectionId,
        /// The message, in the version agreed on.
        message: weir_codec::Message,
    },
    /// Changes of flows, groups and meters that came in a row, at once or for a bundle: so many are told
    /// together that whoever takes them is not woken for each.
    Changes {
        /// The connection.
        connection: ConnectionId,
        /// The messages, in their order.
        messages: Vec<weir_codec::Message>,
    },
    /// A message that was to become part of a bundle did not decode. It was answered; the bundle must not
    /// be committed.
    Spoilt {
        /// The connection.
        connection: ConnectionId,
        /// The bundle.
        bundle: u32,
    },
    /// It is gone; nothing comes of it any more.
    Closed {
        /// The connection.
        connection: ConnectionId,
        /// Why, for people.
        why: String,
    },
}
