//! Tracked connections that controllers have forgotten (`NXT_CT_FLUSH`, `NXT_CT_FLUSH_ZONE`).

use crate::connections::{TRACKER, flush};
use crate::plane::Plane;
use serde_json::{Map, Value};
use weir_codec::{Code, CtFlush, CtTuple};

/// Forgets the connections that a message names.
///
/// # Errors
/// Connections named by what the tracker does not find them by (their reply direction, ICMP's fields), or
/// no service that tracks.
pub(super) fn forget(wanted: &CtFlush, plane: &mut impl Plane) -> Result<(), Code> {
    let selection = selection(wanted).ok_or(Code::BadExperimenterType)?;
    flush(plane, TRACKER, selection).map(drop).map_err(|_| Code::BadExperimenterType)
}

/// The same in the words of the tracker's own command; nothing where it has none.
fn selection(wanted: &CtFlush) -> Option<Map<String, Value>> {
    let CtFlush { protocol, zone, original, reply } = *wanted;
    let original = original.unwrap_or_default();
    if reply.is_some_and(|tuple| tuple != CtTuple::default()) {
        return None;
    }
    let CtTuple { source, destination, source_port, destination_port, icmp_id, icmp_type, icmp_code } =
        original;
    if icmp_id.is_some() || icmp_type.is_some() || icmp_code.is_some() {
        return None;
    }
    let address = |address: std::net::Ipv6Addr| Value::from(address.to_canonical().to_string());
    let known = [
        ("zone", zone.map(Value::from)),
        ("protocol", (protocol != 0).then(|| protocol.into())),
        ("source", source.map(address)),
        ("destination", destination.map(address)),
        ("source_port", source_port.map(Value::from)),
        ("destination_port", destination_port.map(Value::from)),
    ];
    Some(known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_becomes_a_selection_of_what_it_names() {
        let source = Some("::ffff:198.18.0.1".parse().unwrap());
        let original = Some(CtTuple { source, destination_port: Some(80), ..CtTuple::default() });
        let wanted = CtFlush { protocol: 6, zone: Some(3), original, reply: None };
        let expected = serde_json::json!({
            "zone": 3, "protocol": 6, "source": "198.18.0.1", "destination_port": 80
        });
        assert_eq!(selection(&wanted).map(Value::Object), Some(expected));
        assert_eq!(selection(&CtFlush::default()), Some(Map::new()));
        let reply = CtFlush { reply: original, ..CtFlush::default() };
        assert_eq!(selection(&reply), None);
    }
}
