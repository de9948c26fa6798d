//! Addresses that `NORMAL` learned, for whoever asks at the control socket.

use crate::plane::Plane;
use crate::switch::Switch;
use serde_json::{Value, json};
use weir_datapath::LearnedAddress;

/// An Ethernet address as people write it.
fn text(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

impl<P: Plane> Switch<P> {
    /// All of them by VLAN and address, with what happened to addresses so far.
    pub(crate) fn dump_addresses(&mut self) -> Result<Value, String> {
        let learned = self.plane.learned().map_err(|error| error.to_string())?;
        let (config, counts) = self.plane.learning();
        let one = |one: &LearnedAddress| {
            let port = self.ports.get(&one.port).map(|port| port.name.as_str());
            json!({
                "vlan": one.vlan,
                "address": text(one.address),
                "port": one.port.0,
                "port_name": port,
                "age_seconds": one.age.as_secs(),
            })
        };
        Ok(json!({
            "addresses": learned.iter().map(one).collect::<Vec<_>>(),
            "most": config.most,
            "ageing_seconds": config.ageing.as_secs(),
            "learned": counts.learned,
            "moved": counts.moved,
            "expired": counts.expired,
            "evicted": counts.evicted,
        }))
    }

    /// Forgets those of a VLAN, of a port, or all.
    pub(crate) fn flush_addresses(
        &mut self,
        vlan: Option<u16>,
        port: Option<String>,
    ) -> Result<Value, String> {
        if let Some(vlan) = vlan.filter(|vlan| *vlan > 4095) {
            return Err(format!(
                "there is no VLAN {vlan}; VLANs are 1 to 4095, and 0 for packets without a tag"
            ));
        }
        let port = port.map(|port| self.port(&port)).transpose()?;
        let flushed = self.plane.forget_learned(vlan, port).map_err(|error| error.to_string())?;
        Ok(json!({ "flushed": flushed }))
    }
}
