//! Where runs are kept: one SQLite file, or a database on a PostgreSQL server, every trial and histogram in it.
//!
//! - Writing: [`Store::begin_run`] → [`Store::add_point`] → [`Store::add_trial`]… →
//!   [`Store::finish_point`] → [`Store::end_run`]. Each call is one durable transaction (write-ahead
//!   log, `synchronous=FULL`): when it returns, a SIGKILL or a power cut loses nothing of it.
//! - Going on: [`Store::resume_run`] takes a run up again; [`Store::add_point`] on a point that was
//!   cut off keeps its trials, marked as superseded, and counts on from them.
//! - Taking in: [`Store::import`] a run of another database, which a [`bundle`] brought.
//! - A server for several (the feature `central`): [`accounts`], [`Store::push`], and [`Store::view`], by which alone such a server
//!   reads; [`Store::copy_into`] for backups.
//! - Reading: [`Store::runs`], [`Store::find`], [`Store::load`], with [`Selector`]s as people type them;
//!   [`Store::outline`] and [`Store::facts`] where many runs are listed again and again.
//!
//! Cost: one `fsync` a call, some milliseconds on a disk, so never call it while traffic flows.
//! Threads and processes: a [`Store`] belongs to one thread; any number of processes may hold the
//! same file open and write side by side, each waiting up to [`BUSY_TIMEOUT`] for its turn. A
//! campaign holds a lock file beside the database while it lives, so that a run being measured can
//! be told from one that was cut off, and no two campaigns go on with the same run.

#[cfg(feature = "central")]
pub mod accounts;
pub mod bundle;
mod catalogue;
#[cfg(feature = "central")]
mod copy;
mod engine;
mod error;
mod import;
mod lock;
mod migrations;
mod name;
mod open;
#[cfg(feature = "central")]
mod push;
mod read;
mod rows;
mod select;
mod share;
#[cfg(feature = "central")]
mod view;
mod write;

pub use catalogue::{Facts, Outline};
#[cfg(feature = "central")]
pub use copy::Copied;
pub use error::{StoreError, StoreResult};
pub use import::{Imported, Origin};
pub use migrations::VERSION;
pub use open::{BUSY_TIMEOUT, Store, beside, default_path, server_of, without_password};
#[cfg(feature = "central")]
pub use push::Push;
pub use read::{Progress, RunSummary};
pub use select::{ParseSelectorError, Selector};
pub use share::{ParseVisibilityError, Share, Visibility};
#[cfg(feature = "central")]
pub use view::{View, Viewer};
pub use write::{NewRun, OpenPoint, Outcome, RunId};
