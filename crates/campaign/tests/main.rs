//! Plans, and what is known of the machine.

mod doctor;
mod environment;
mod machines;
mod plan;
