//! Offloads of the interfaces of the `veth` wiring, set at all four ends and looked at afterwards. They go with the
//! interfaces, so there is nothing to put back.

use super::{INTERFACES, VethPairs};
use crate::DutError;
use weir_trial::Offloads;

impl VethPairs {
    /// Sets offloads at all ends; what stood there and stands there now, for the result. Nothing where none is named.
    ///
    /// # Errors
    ///
    /// Names the end and the offload that the kernel did not take.
    pub fn set_offloads(&self, offloads: &Offloads) -> Result<Option<String>, DutError> {
        if offloads.is_empty() {
            return Ok(None);
        }
        let mut told = Vec::new();
        let own = INTERFACES.map(str::to_owned);
        for (side, namespace, names) in [("lab", &self.lab, &own), ("device", &*self.dut, &self.far)] {
            let set = namespace.within(|| names.iter().map(|name| set(name, offloads)).collect());
            let set: Vec<String> = set.map_err(|reason| DutError::Network {
                what: format!("offloads of the {side}'s interfaces cannot be set"),
                reason,
            })?;
            told.extend(names.iter().zip(set).map(|(name, set)| format!("{name} of the {side}: {set}")));
        }
        Ok(Some(told.join("; ")))
    }
}

/// Sets the offloads of an interface of this thread's namespace.
fn set(interface: &str, offloads: &Offloads) -> Result<String, String> {
    let on = |on: bool| if on { "on" } else { "off" };
    let mut told = Vec::new();
    for (offload, wanted) in offloads.iter() {
        let name = offload.name();
        let refused = |error: std::io::Error| format!("{interface}: {name}: {error}");
        let before = weir_cpu::offload(interface, name).map_err(refused)?;
        weir_cpu::set_offload(interface, name, wanted).map_err(refused)?;
        told.push(format!("{name} {} (was {})", on(wanted), on(before)));
    }
    // All of them at the end: one may take another with it.
    for (offload, wanted) in offloads.iter() {
        let name = offload.name();
        let now =
            weir_cpu::offload(interface, name).map_err(|error| format!("{interface}: {name}: {error}"))?;
        if now != wanted {
            return Err(format!("{interface}: {name} is {}, and was to be {}", on(now), on(wanted)));
        }
    }
    Ok(told.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wiring::Veth;
    use weir_units::FrameSize;

    #[test]
    fn offloads_are_set_at_all_ends_and_what_cannot_be_is_named() {
        if !weir_testkit::needs!(weir_testkit::Need::Root, weir_testkit::Need::Namespaces) {
            return;
        }
        let pairs = Veth::default().lay(FrameSize::MIN).unwrap();
        assert_eq!(pairs.set_offloads(&Offloads::default()).unwrap(), None);
        let told = pairs.set_offloads(&"tso=off+gro=on".parse().unwrap()).unwrap().unwrap();
        assert!(told.contains("port0 of the lab: tso off (was on), gro on"), "{told}");
        assert!(told.contains("port1 of the device: tso off (was on), gro on"), "{told}");
        for namespace in [&pairs.lab, &*pairs.dut] {
            let now =
                namespace.within(|| weir_cpu::offload("port1", "tso").map_err(|error| error.to_string()));
            assert_eq!(now, Ok(false));
        }
        // Segments are not cut by a card that cannot gather them.
        let error = pairs.set_offloads(&"sg=off+tso=on".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("port0") && error.contains("tso"), "{error}");
    }
}
