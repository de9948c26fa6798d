//! `policer`: a token bucket. What goes over the rate is dropped, or marked with another DSCP.
//!
//! Each worker polices what it receives: the rate is per worker. Cost: some ten cycles a packet, no
//! allocation.

use std::any::Any;
use std::sync::Arc;
use weir_flow::Field;
use weir_packet::DropReason;
use weir_services::{
    Burst, ConfigError, Group, GroupConfig, Registration, Service, Slot, Verdict, one_number, schema,
};
use weir_units::Nanos;
use weir_wire::checksum;

/// The kind: what the registry lists.
pub(crate) const POLICER: Registration = Registration {
    kind: "policer",
    about: "drops or marks what goes over a rate",
    rewrites: &[Field::NwTos],
    coalesces: true,
    by_flow: false,
    members: &[],
    arguments: one_number,
    schema: schema::<Settings>,
    build,
};

/// What can be set; the comments are the schema's descriptions.
#[derive(Clone, Copy, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// Bytes a second and worker that may pass.
    rate: u64,
    /// Bytes that may pass at once after a pause.
    burst: u64,
    /// The DSCP, 0 to 63, for IPv4 packets over the rate; without it, and for all other packets over
    /// the rate, they are dropped.
    mark: Option<u8>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { rate: 1_000_000, burst: 10_000, mark: None }
    }
}

/// The group: what is configured, and shared by the instances.
struct Policers(Settings);

fn build(config: &GroupConfig<'_>) -> Result<Arc<dyn Group>, ConfigError> {
    let settings: Settings = config.settings()?;
    match settings.mark {
        Some(mark @ 64..) => Err(config.error(format!("`mark` must be a DSCP, 0 to 63, not {mark}"))),
        _ => Ok(Arc::new(Policers(settings))),
    }
}

impl Group for Policers {
    fn instance(&self, _worker: usize) -> Box<dyn Service> {
        let full = u128::from(self.0.burst) * u128::from(Nanos::PER_SECOND);
        Box::new(Policer { settings: self.0, full, credit: full, last: None, over: 0 })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The instance: what one worker knows.
struct Policer {
    settings: Settings,
    /// The most credit there can be.
    full: u128,
    /// Thousand-millionths of a byte, so that a slow rate earns something in a microsecond.
    credit: u128,
    last: Option<Nanos>,
    over: u64,
}

impl Service for Policer {
    fn process(&mut self, burst: &mut Burst<'_, '_>) {
        let elapsed = burst.now.0.saturating_sub(self.last.unwrap_or(burst.now).0);
        self.last = Some(burst.now);
        let earned = u128::from(elapsed) * u128::from(self.settings.rate);
        self.credit = self.full.min(self.credit + earned);
        while let Some(slot) = burst.next() {
            let price = slot.frame.len() as u128 * u128::from(Nanos::PER_SECOND);
            if self.credit >= price {
                self.credit -= price;
                // As always: the packet may go on by what its megaflow learnt.
                slot.coalesce = true;
            } else {
                self.over += 1;
                self.punish(slot);
            }
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("over", self.over)]
    }
}

impl Policer {
    fn punish(&self, slot: &mut Slot<'_>) {
        let at = usize::from(slot.layout.network);
        let is_ipv4 = Field::EthType.get(slot.key) == 0x0800 && at != 0;
        let header = slot.frame.get_mut(at..at + 20).filter(|_| is_ipv4);
        let (Some(mark), Some(header)) = (self.settings.mark, header) else {
            slot.verdict = Verdict::Drop(DropReason::ByService);
            return;
        };
        let old = [header[0], header[1]];
        header[1] = mark << 2 | header[1] & 3;
        let field = u16::from_be_bytes([header[10], header[11]]);
        let field = checksum::update(field, &old, &[header[0], header[1]]);
        header[10..12].copy_from_slice(&field.to_be_bytes());
        // The key must say what the packet says. `coalesce` stays false: tables that look at the DSCP
        // are to see the new one.
        Field::NwTos.set(slot.key, mark.into());
    }
}
