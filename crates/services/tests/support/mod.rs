//! What the tests of connection tracking as a service share.

#![allow(unreachable_pub, reason = "each test file takes what it needs")]

pub mod gateway;
#[allow(dead_code, reason = "the tracker's own tests use the rest")]
#[path = "../../../conntrack/tests/support/router.rs"]
pub mod router;

pub use weir_frames::{ACK, FIN, PSH, SYN, Tcp, echo, extract, ip, seal, tcp, udp, unreachable, v4, v6};
