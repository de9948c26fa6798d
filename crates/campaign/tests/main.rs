//! Plans, and what is known of the machine.

mod copies;
mod doctor;
mod environment;
mod machines;
mod plan;
