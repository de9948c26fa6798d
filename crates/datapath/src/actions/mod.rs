//! Actions: what a megaflow does to its packets, as operations that were compiled by the slow path.
//!
//! - [`program`]: operations, cut into segments at services; [`call`]: what services are asked; [`plans`]: those that megaflows share;
//! - [`simple`]: the few that the fast path can do by itself;
//! - [`execute`]: one packet's operations, to its disposition, [`choose`], its bucket of a select group; [`edit`], [`header`]: bytes of packets;
//! - [`egress`]: where packets leave; [`punts`]: the queue to the controller.
//!
//! Threads: a worker's; the queue to the controller is shared.

pub(super) mod call;
pub(super) mod choose;
pub mod edit;
pub(super) mod egress;
pub(super) mod execute;
pub(super) mod header;
pub(super) mod plans;
pub(super) mod program;
pub(super) mod punts;
pub(super) mod simple;
