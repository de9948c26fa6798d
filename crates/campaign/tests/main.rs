//! Plans, and what is known of the machine.

mod bundles;
mod copies;
mod doctor;
mod environment;
mod graph;
mod machines;
mod plan;
mod queues;
mod servers;
