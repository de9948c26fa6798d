//! Traffic: what is sent, how it is paced, and how it is known again.
//!
//! - [`trace`]: traces by name and captures, as frames in memory or as a stream;
//! - [`stamp`]: trial, sequence number and time in the last bytes of a frame;
//! - [`Shape`]: how packets are spread over time; [`Sender`]: one direction's sending half;
//! - [`Tester`]: generator and sink on pinned threads ([`Layout`]), from which a trial's counts come;
//! - [`Probing`]: packets beside a trial's schedule, and sleep on a shared core;
//! - [`check`]: the untimed pass that compares every packet; [`probes`]: packets that reach into a
//!   function's tables; a sample of each timed trial is compared as well;
//! - [`audit`]: all packets of a device that makes its own traffic, read from its captures.

pub mod audit;
mod chatter;
pub mod check;
mod connections;
mod each;
mod histogram;
mod intact;
mod lane;
mod layout;
mod numbers;
mod pacer;
pub mod probes;
mod probing;
mod recall;
mod receiver;
mod sample;
mod sender;
mod sink;
pub mod stamp;
mod tester;
pub mod trace;
mod verify;
mod waits;
mod watch;
mod windows;

pub use connections::Script;
pub use lane::Drain;
pub use layout::{LanePlan, Layout};
pub use numbers::WINDOW;
pub use pacer::{ParseShapeError, Shape};
pub use probing::Probing;
pub use receiver::{HeldTo, Receiver};
pub use sender::Sender;
pub use tester::{DirectionSetup, Tester, TesterError};
pub use verify::LONGEST_PASS;
