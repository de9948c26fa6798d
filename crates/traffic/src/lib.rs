//! Traffic: what is sent, how it is paced, and how it is known again.
//!
//! - [`trace`]: traces by name and captures, as frames in memory or as a stream;
//! - [`stamp`]: trial, sequence number and time in the last bytes of a frame;
//! - [`Shape`]: how packets are spread over time; [`Sender`]: one direction's sending half;
//! - [`Tester`]: generator and sink on one pinned thread, from which a trial's counts come;
//! - [`check`]: the untimed pass that compares every packet; [`probes`]: packets that reach into a
//!   function's tables; a sample of each timed trial is compared as well.

pub mod check;
mod intact;
mod pacer;
pub mod probes;
mod sample;
mod sender;
mod sink;
pub mod stamp;
mod tester;
pub mod trace;
mod verify;

pub use pacer::{CATCH_UP, ParseShapeError, Shape};
pub use sender::Sender;
pub use sink::WINDOW;
pub use tester::{DirectionSetup, Drain, MOST_PAUSED, Tester, TesterError};
