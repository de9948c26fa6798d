//! Flow keys: what a packet looks like to the tables, field by field.
//!
//! - [`Key`], [`Mask`]: all fields of a packet as 64-bit words, and which bits of them matter;
//! - [`Field`], [`Subfield`]: the fields by name, their places and prerequisites: one table, of which also
//!   [`PACKET_BITS`], [`SETTABLE`] and [`ONE_STAGE`] are made, and the [spans](span) of a key's words;
//! - [`Match`]: what a flow entry demands;
//! - [`extract()`], [`compose()`]: from a frame to its key, and back;
//! - [`Layout`]: where a packet's headers start; [`ipv6`], [`neighbour`], [`protocol`]: what else
//!   has to be known of headers to change them;
//! - [`Splice`]: bytes of a segment that give way to others;
//! - [`samples`]: random frames for tests;
//! - [`Seed`]: the keyed hash; [`Pairs`]: pairs of addresses that state is kept of.
//!
//! Costs and threads: plain data, nothing allocates but [`Match`], [`compose()`] and [`samples`].

mod compose;
mod extract;
mod field;
pub mod ipv6;
mod key;
mod layout;
mod matching;
pub mod neighbour;
mod pairs;
pub mod protocol;
pub mod samples;
mod seed;
mod splice;
mod typed;

pub use compose::compose;
pub use extract::{
    Extractor, HeaderMask, MAX_FRAME, MaskedHeader, WithExtractor, extract, extract_again, words,
};
pub use field::derived::{ONE_STAGE, PACKET_BITS, PACKET_WORDS, SETTABLE};
pub use field::span;
pub use field::{About, Field, Form, Layer, Needs, Rounding, Source, Span, Subfield, ones};
pub use key::{HEAD, Key, Mask, WORDS, places};
pub use layout::Layout;
pub use matching::{Match, Term};
pub use pairs::Pairs;
pub use seed::{Seed, spread};
pub use splice::{MOST_SPLICED, Splice};
