//! What a device sends that makes its own traffic: counted and compared by the lab ([`Sink`]), against every packet that
//! must come ([`Expectations`]).

mod expectations;
mod pipes;

pub use expectations::Expectations;
pub use pipes::Sink;
