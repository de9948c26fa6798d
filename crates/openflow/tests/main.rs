//! Flows as text.

mod against_ovs;
mod lines;
mod round_trip;
mod text;
