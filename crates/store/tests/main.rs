//! Runs on disk.

mod campaigns;
mod common;
mod conformance;
mod mistakes;
mod upgrade;
