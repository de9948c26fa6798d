//! The registry: one word a service.

use crate::Registration;
use crate::quota::QUOTA;
use crate::transcoder::TRANSCODER;
use crate::{balancer::BALANCER, conntrack::CONNTRACK, counter::COUNTER, memory::MEMORY, noop::NOOP};

/// Every kind of service.
pub const SERVICES: &[&Registration] =
    &[&NOOP, &COUNTER, &CONNTRACK, &MEMORY, &BALANCER, &TRANSCODER, &QUOTA];

/// The kind of this name.
pub fn registered(kind: &str) -> Option<&'static Registration> {
    SERVICES.iter().copied().find(|registration| registration.kind == kind)
}
