//! Advice over simulated runs, whose truth is known.

mod coverage;
mod lab;
mod papers;
mod questions;
