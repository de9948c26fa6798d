//! `noop`: passes every packet, always coalesced. What it costs is what calling a service costs
//! (SoftFlow's pipeline D).
//!
//! It keeps nothing and ignores its argument. Cost: a store a packet.

use crate::{Burst, ConfigError, Group, GroupConfig, Registration, Service, one_number, schema};
use std::any::Any;
use std::sync::Arc;

/// The kind.
pub(crate) const NOOP: Registration = Registration {
    kind: "noop",
    about: "passes every packet; for measuring what a stage costs",
    rewrites: &[],
    coalesces: true,
    by_flow: false,
    members: &[],
    arguments: one_number,
    schema: schema::<Settings>,
    build,
};

/// `noop` has no settings.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Settings {}

struct Noop;

fn build(config: &GroupConfig<'_>) -> Result<Arc<dyn Group>, ConfigError> {
    let Settings {} = config.settings()?;
    Ok(Arc::new(Noop))
}

impl Group for Noop {
    fn instance(&self, _worker: usize) -> Box<dyn Service> {
        Box::new(Self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Service for Noop {
    fn process(&mut self, burst: &mut Burst<'_, '_>) {
        for slot in burst.rest() {
            slot.coalesce = true;
        }
    }
}
