//! The registry: one word a service.

use crate::Registration;
use crate::{balancer::BALANCER, counter::COUNTER, memory::MEMORY, noop::NOOP, transcoder::TRANSCODER};

/// Every kind of service.
pub const SERVICES: &[&Registration] = &[&NOOP, &COUNTER, &MEMORY, &BALANCER, &TRANSCODER];

/// The kind of this name.
pub fn registered(kind: &str) -> Option<&'static Registration> {
    SERVICES.iter().copied().find(|registration| registration.kind == kind)
}
