//! Tracked connections that controllers have forgotten (`NXT_CT_FLUSH`, `NXT_CT_FLUSH_ZONE`).

use crate::tracker::{TRACKER, flush};
use serde_json::{Map, Value};
use weir_codec::{Code, CtFlush, CtTuple};
use weir_openflow::Tables;

/// Forgets the connections that a message names.
///
/// # Errors
/// No service that tracks.
pub(super) fn forget(wanted: &CtFlush, plane: &mut impl Tables) -> Result<(), Code> {
    flush(plane, TRACKER, selection(wanted)).map(drop).map_err(|_| Code::BadExperimenterType)
}

/// The same in the words of the tracker's own command. What a message does not say may be anything.
fn selection(wanted: &CtFlush) -> Map<String, Value> {
    let CtFlush { protocol, zone, original, reply } = *wanted;
    let mut selection = ends(&original.unwrap_or_default());
    let known = [("zone", zone.map(Value::from)), ("protocol", (protocol != 0).then(|| protocol.into()))];
    selection.extend(known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    if let Some(reply) = reply {
        selection.insert("reply".to_owned(), ends(&reply).into());
    }
    selection
}

/// One direction of a connection.
fn ends(tuple: &CtTuple) -> Map<String, Value> {
    let address = |address: std::net::Ipv6Addr| Value::from(address.to_canonical().to_string());
    let known = [
        ("source", tuple.source.map(address)),
        ("destination", tuple.destination.map(address)),
        ("source_port", tuple.source_port.map(Value::from)),
        ("destination_port", tuple.destination_port.map(Value::from)),
        ("icmp_id", tuple.icmp_id.map(Value::from)),
        ("icmp_type", tuple.icmp_type.map(Value::from)),
        ("icmp_code", tuple.icmp_code.map(Value::from)),
    ];
    known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
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
        assert_eq!(Value::Object(selection(&wanted)), expected);
        assert_eq!(selection(&CtFlush::default()), Map::new());
        let ping =
            Some(CtTuple { icmp_id: Some(7), icmp_type: Some(8), icmp_code: Some(0), ..CtTuple::default() });
        let reply = CtFlush { original: ping, reply: original, ..CtFlush::default() };
        let expected = serde_json::json!({
            "icmp_id": 7, "icmp_type": 8, "icmp_code": 0,
            "reply": { "source": "198.18.0.1", "destination_port": 80 }
        });
        assert_eq!(Value::Object(selection(&reply)), expected);
    }
}
