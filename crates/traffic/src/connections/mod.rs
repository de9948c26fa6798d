//! TCP connections through a device that tracks them: both ends, each of which speaks when the other was heard.
//!
//! - [`script`]: what is said, and what the function must make of each packet, asked of the oracle beforehand;
//! - [`frames`]: the packets, as templates;
//! - [`book`]: where each connection stands, and what is wrong with what came;
//! - [`run`]: the loop over the tester's ports.
//!
//! No packet of a connection needs a stamp: the first sequence number of the client is the connection's, and every packet
//! carries it or acknowledges it, whatever a device makes of addresses and ports. So frames are the least of Ethernet, as
//! those of real handshakes, and every byte of every packet is compared with what must come.

mod book;
mod frames;
mod run;
mod script;

pub use script::Script;
pub(crate) use script::opens;
