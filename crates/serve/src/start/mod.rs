//! Measuring from the page: who may (`door`), a plan as a form (`form`), one measurement at a time (`queue`).
//!
//! Nothing of this is there unless the server was started with `--allow-runs`. What runs is `weir bench`, as a child process
//! with the same database: a server that ends, or is replaced, takes no run with it that it does not interrupt first.

pub(crate) mod door;
pub(crate) mod form;
pub(crate) mod queue;

use std::path::PathBuf;

/// What the server needs to measure.
#[derive(Clone, Debug)]
pub struct Runs {
    /// The program `weir`.
    pub program: PathBuf,
    /// Arguments that name the database: `--db`, `FILE`.
    pub database: Vec<std::ffi::OsString>,
    /// What opens the door; a random one where none is given.
    pub token: Option<String>,
}

/// All of it.
pub(crate) struct Start {
    pub(crate) door: door::Door,
    pub(crate) form: form::Form,
    pub(crate) queue: queue::Queue,
}
