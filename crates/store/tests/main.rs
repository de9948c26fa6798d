//! Runs on disk.

mod bundles;
mod campaigns;
mod catalogue;
mod central;
mod common;
mod conformance;
mod imports;
mod mistakes;
mod servers;
mod upgrade;
