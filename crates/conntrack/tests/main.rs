//! Connection tracking: what the tracker says of packets, beside a model of it and beside Linux.

mod linux;
mod model;
mod states;
mod support;
