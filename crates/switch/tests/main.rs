//! The switch from outside: its configuration, its control socket, and controllers.

mod config;
mod control;
mod double;
mod fuzz;
mod openflow;
mod openflow_tls;
mod peer;
