//! The registry: one word a service.

use crate::Registration;

/// Every kind of service.
pub const SERVICES: &[&Registration] = &[&crate::conntrack::CONNTRACK];

/// The kind of this name.
pub fn registered(kind: &str) -> Option<&'static Registration> {
    SERVICES.iter().copied().find(|registration| registration.kind == kind)
}
