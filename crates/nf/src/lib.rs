//! Weir's own network functions: small, fast, run to completion.
//!
//! The NFs of the field's benchmarks (L2 forwarding, L3 forwarding, firewall), as a program of
//! their own: a device under test that is always at hand, and the function that runs behind
//! virtual ports in chains. One worker thread polls two ports, and takes each burst from
//! receiving to sending before it asks for the next.
//!
//! - [`NetworkFunction`]: judges a burst, one [`Verdict`] a packet. [`L2Fwd`], [`L3Fwd`] and
//!   [`Firewall`] are the three there are; the worker's loop is compiled once for each.
//! - `lpm`, `acl`: the tables behind the latter two, each tested against the plain meaning of its
//!   entries.
//! - [`Fault`]: what the program does wrong on purpose, to test testers.
//! - [`Taps`]: counts and delays of a tester's packets where they come and go.
//! - [`Program`], [`Ledger`]: pairs of ports and the worker between them, and what it counts: every
//!   packet received is sent, or dropped for a [`DropReason`].
//!
//! Cost: two ports' I/O, plus some cycles a packet that each function's module states.

mod acl;
mod fault;
mod firewall;
mod forwarder;
mod ipv4;
mod l2fwd;
mod l3fwd;
mod ledger;
mod lpm;
mod program;
mod tap;
mod verdict;
mod wire;

pub use acl::AclError;
pub use fault::{DELAY_TICKS, Fault, FaultKind, ParseFaultError};
pub use firewall::Firewall;
pub use l2fwd::L2Fwd;
pub use l3fwd::L3Fwd;
pub use ledger::{Ledger, PortLedger};
pub use lpm::LpmError;
pub use program::{Function, Meter, Program, ProgramConfig, ProgramError};
pub use tap::{Bucket, EARLY, Edge, LONGEST, PortTaps, Taps};
pub use verdict::{DropReason, NetworkFunction, Outcome, PORTS, Verdict, Verdicts, other_port};
