//! The caches and the tables.

mod caches;
mod common;
mod tables;
