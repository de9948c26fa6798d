//! What a packet that goes elsewhere has with it: what the connection tracker or a service is asked, and the number by
//! which the slow path knows what is left to do when the packet is back.
//!
//! The slow path makes them and keeps each once (`slowpath/translate/frozen.rs`), as long as operations refer to it.

use std::sync::Arc;
use weir_openflow::{Arguments, Tracking};

/// The number that packets come back with from a recirculation (`recirc_id`); never that of something else before it.
#[derive(Debug)]
pub(crate) struct RecirculationId(pub(crate) u32);

/// What is asked of the connection tracker, and where packets go on.
#[derive(Debug)]
pub(crate) struct Call {
    /// Its number among those of the worker.
    pub(crate) number: u32,
    /// The service.
    pub(crate) service: u16,
    pub(crate) tracking: Tracking,
    pub(crate) next: Arc<RecirculationId>,
}

/// What a service is told, where that is more than a number.
#[derive(Debug)]
pub(crate) struct Telling {
    /// Its number among those of the worker.
    pub(crate) number: u32,
    /// The service.
    pub(crate) service: u16,
    pub(crate) arguments: Arguments,
}
