//! The caches and the tables.

mod caches;
mod common;
mod conjunctions;
mod tables;
