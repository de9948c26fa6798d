//! Flow keys: what a packet looks like to the tables, field by field.
//!
//! - [`Key`], [`Mask`]: all fields of a packet as 64-bit words, and which bits of them matter;
//! - [`Field`], [`Subfield`]: the fields by name, their places and prerequisites;
//! - [`Match`]: what a flow entry demands;
//! - [`Layout`]: where a packet's headers start;
//! - [`Seed`]: the keyed hash.
//!
//! Costs and threads: plain data, nothing allocates but [`Match`].

mod field;
mod key;
mod layout;
mod matching;
mod seed;

pub use field::{About, Field, Form, Needs, Subfield, ones};
pub use key::{HEAD, Key, Mask, WORDS, places};
pub use layout::Layout;
pub use matching::{Match, Term};
pub use seed::Seed;
