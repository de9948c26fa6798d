//! The control thread's side: what its owner asks of a datapath, and how that is brought to the workers.
//!
//! - [`datapath`]: the datapath from outside, with its ports ([`ports`]) and its registry of services ([`known`]);
//! - [`tables`], [`groups`]: changes of the tables, on a draft; [`commit`]: from a list of changes to a new snapshot;
//! - [`learning`]: addresses that `NORMAL` forwards by;
//! - [`expiry`], [`evict`]: entries that go by themselves, or to make room; [`plan`]: a reload, all or nothing;
//! - [`asking`]: what is asked of all workers at once; [`vitals`]: whether they live;
//! - [`ledger`], [`trace`] in [`traced`]'s words, [`openflow`]: what the owner is told.
//!
//! Threads: one owner, who calls. Nothing here runs on a worker.

mod as_tables;
pub(super) mod asking;
pub(super) mod commit;
pub(super) mod datapath;
pub(super) mod evict;
pub(super) mod expiry;
pub(super) mod groups;
pub(super) mod known;
pub(super) mod learning;
pub(super) mod ledger;
pub(super) mod openflow;
pub(super) mod plan;
pub(super) mod ports;
pub(super) mod tables;
pub(super) mod trace;
pub(super) mod traced;
pub(super) mod vitals;
