//! The datapath's side of services.
//!
//! - [`Services`]: the instances that a worker has;
//! - [`stage`]: a packet's key, one stage on.
//!
//! What a service is, and the services themselves, are in the crate `weir-services`.

pub(super) mod stage;

use weir_services::{Host, HostReport};
use weir_units::Nanos;

/// A worker's instances of services, by number from 1; nothing where a service has gone.
#[derive(Default)]
pub(super) struct Services(Vec<Option<Box<Host>>>);

impl Services {
    /// The instance of this number.
    #[inline]
    pub(super) fn get(&mut self, number: u16) -> Option<&mut Host> {
        self.0.get_mut(usize::from(number).checked_sub(1)?)?.as_deref_mut()
    }

    /// An instance comes in the place of a number, or goes. Returns what was there.
    pub(super) fn replace(&mut self, number: u16, host: Option<Box<Host>>) -> Option<Box<Host>> {
        let at = usize::from(number).saturating_sub(1);
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        std::mem::replace(&mut self.0[at], host)
    }

    /// Lets each do a little of what is due.
    pub(super) fn tick(&mut self, now: Nanos) {
        for service in self.0.iter_mut().flatten() {
            service.tick(now);
        }
    }

    /// What each tells of itself.
    pub(super) fn report(&self) -> Vec<Option<HostReport>> {
        self.0.iter().map(|host| host.as_deref().map(Host::report)).collect()
    }
}
