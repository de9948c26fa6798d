//! Connections as people and programs read them, and the commands that ask for them.
//!
//! Commands run between bursts, on the worker, a step at a time: a step looks at [`LOOKS`] numbers of connections, and
//! finds `limit` connections at most; an answer's `next` is the number with which the next step begins, if there is
//! one. So packets wait for some 20 µs, however many connections there are and however few are meant, and for a few
//! more for each that is told of.

use super::connection::Connection;
use super::entry::Place;
use super::tracker::Tracker;
use super::tuple::Tuple;
use super::wheel::Tick;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt;
use std::net::IpAddr;

/// Numbers of connections that a step looks at.
const LOOKS: u32 = 2048;

/// What `dump` and `flush` are about. Fields that are left out match everything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Selection {
    /// Zone.
    zone: Option<u16>,
    /// Protocol: a name (`tcp`, `udp`, `icmp`, `icmpv6`, `sctp`) or a number.
    protocol: Option<Value>,
    /// Of the originator's packets.
    source: Option<IpAddr>,
    destination: Option<IpAddr>,
    source_port: Option<u16>,
    destination_port: Option<u16>,
    /// Of the answers, which differ where addresses are translated.
    reply: Ends,
    /// ICMP, of the originator's packets.
    icmp_id: Option<u16>,
    icmp_type: Option<u8>,
    icmp_code: Option<u8>,
    /// The first number looked at.
    from: From,
    /// Connections at most.
    limit: Option<u32>,
}

/// Where a step begins.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum From {
    /// At this number, of all workers.
    All(u32),
    /// At this number of each worker; nothing for one that is done.
    Each(Vec<Option<u32>>),
}

impl Default for From {
    fn default() -> Self {
        Self::All(0)
    }
}

/// What is asked of the tuple of one direction.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Ends {
    source: Option<IpAddr>,
    destination: Option<IpAddr>,
    source_port: Option<u16>,
    destination_port: Option<u16>,
    icmp_id: Option<u16>,
    icmp_type: Option<u8>,
    icmp_code: Option<u8>,
}

impl Ends {
    fn names(&self, tuple: &Tuple) -> bool {
        let ported = tuple.has_ports();
        let icmp = tuple.icmp();
        self.source.is_none_or(|source| source == tuple.source_address())
            && self.destination.is_none_or(|to| to == tuple.destination_address())
            && self.source_port.is_none_or(|port| ported && port == tuple.source_port)
            && self.destination_port.is_none_or(|port| ported && port == tuple.destination_port)
            && self.icmp_id.is_none_or(|id| icmp.is_some() && id == tuple.identifier())
            && self.icmp_type.is_none_or(|kind| icmp.is_some_and(|icmp| kind == icmp.0))
            && self.icmp_code.is_none_or(|code| icmp.is_some_and(|icmp| code == icmp.1))
    }
}

impl Selection {
    fn read(argument: &Value) -> Result<Self, String> {
        if argument.is_null() {
            return Ok(Self::default());
        }
        let selection: Self = serde_json::from_value(argument.clone()).map_err(|error| {
            format!(
                "{error}; allowed are `zone`, `protocol`, `source`, `destination`, `source_port`, \
                 `destination_port`, `icmp_id`, `icmp_type`, `icmp_code`, `reply` (a table of the same), \
                 `from` and `limit`"
            )
        })?;
        let known = match &selection.protocol {
            None => true,
            Some(Value::Number(number)) => number.as_u64().is_some_and(|number| number < 256),
            Some(Value::String(name)) => (0..=255).any(|protocol| protocol_name(protocol) == Some(name)),
            Some(_) => false,
        };
        if known {
            Ok(selection)
        } else {
            Err("`protocol` is a number up to 255, or one of tcp, udp, icmp, icmpv6, sctp".to_owned())
        }
    }

    fn names(&self, connection: &Connection) -> bool {
        let Tuple { protocol, .. } = connection.original;
        let Self { source, destination, source_port, destination_port, .. } = *self;
        let Self { icmp_id, icmp_type, icmp_code, .. } = *self;
        let original =
            Ends { source, destination, source_port, destination_port, icmp_id, icmp_type, icmp_code };
        let is_protocol = match &self.protocol {
            None => true,
            Some(Value::String(name)) => protocol_name(protocol) == Some(name),
            Some(number) => number.as_u64() == Some(u64::from(protocol)),
        };
        is_protocol
            && self.zone.is_none_or(|zone| zone == connection.zone)
            && original.names(&connection.original)
            && self.reply.names(&connection.reply)
    }

    /// Where a worker begins.
    fn begin(&self, worker: usize) -> Option<u32> {
        match &self.from {
            From::All(number) => Some(*number),
            From::Each(numbers) => numbers.get(worker).copied().flatten(),
        }
    }

    /// Does something with the connections that it names, for one step. How many they were, and where to go on.
    fn each(
        &self,
        (tracker, worker): (&mut Tracker, usize),
        now: Tick,
        mut what: impl FnMut(&mut Tracker, Place, &Connection),
    ) -> (u32, Option<u32>) {
        let Some(from) = self.begin(worker) else { return (0, None) };
        let (reach, end) = (tracker.reach(), from.saturating_add(LOOKS));
        let mut found = 0;
        for number in from..reach.min(end) {
            if self.limit.is_some_and(|limit| found >= limit) {
                return (found, Some(number));
            }
            let Some(place) = tracker.at(number, self.zone) else { continue };
            if let Some(connection) =
                tracker.connection(place, now).filter(|connection| self.names(connection))
            {
                what(tracker, place, &connection);
                found += 1;
            }
        }
        (found, (end < reach).then_some(end))
    }
}

/// Does what a command (`dump`, `flush`) asks of a worker's tracker.
///
/// # Errors
/// What is not understood, as a sentence.
pub fn command(
    (tracker, worker): (&mut Tracker, usize),
    now: Tick,
    command: &str,
    argument: &Value,
) -> Result<Value, String> {
    match command {
        "dump" => {
            let mut connections = Vec::new();
            let selection = Selection::read(argument)?;
            let (_, next) = selection.each((tracker, worker), now, |_, _, connection| {
                connections.push(connection.json());
            });
            Ok(json!({ "connections": connections, "next": next }))
        }
        "flush" => {
            let selection = Selection::read(argument)?;
            let (flushed, next) = selection.each((tracker, worker), now, |tracker, place, _| {
                tracker.end(place);
            });
            Ok(json!({ "flushed": flushed, "next": next }))
        }
        "stats" => {
            let counters: serde_json::Map<String, Value> =
                tracker.counters().all().map(|(name, count)| (name.to_owned(), count.into())).collect();
            Ok(json!({
                "connections": tracker.connections(),
                "half_open": tracker.half_open(),
                "limit": tracker.settings().connections,
                "memory": tracker.memory(),
                "counters": counters,
            }))
        }
        _ => Err(format!("`conntrack` has no command `{command}`; it has `dump`, `flush` and `stats`")),
    }
}

/// The name of a protocol in OVS's dumps.
fn protocol_name(protocol: u8) -> Option<&'static str> {
    match protocol {
        1 => Some("icmp"),
        6 => Some("tcp"),
        17 => Some("udp"),
        58 => Some("icmpv6"),
        132 => Some("sctp"),
        _ => None,
    }
}

impl Connection {
    /// As JSON, with OVS's line under `text`.
    pub fn json(&self) -> Value {
        let protocol = protocol_name(self.original.protocol)
            .map_or_else(|| Value::from(self.original.protocol), Value::from);
        let side = |counts: [u64; 2]| json!({ "packets": counts[0], "bytes": counts[1] });
        let mut value = json!({
            "protocol": protocol,
            "original": self.original.json(),
            "reply": self.reply.json(),
            "zone": self.zone,
            "mark": self.mark,
            "label": format!("{:#x}", self.label),
            "replied": self.replied,
            "half_open": self.half_open,
            "timeout": self.timeout,
            "text": self.to_string(),
        });
        if !self.state.name().is_empty() {
            value["state"] = self.state.name().into();
        }
        if let Some(helper) = self.helper {
            value["helper"] = helper.name().into();
        }
        if let Some(parent) = &self.parent {
            value["parent"] = parent.json();
        }
        if let Some([original, reply]) = self.counts {
            value["original"]["counts"] = side(original);
            value["reply"]["counts"] = side(reply);
        }
        if let Some(sides) = self.tcp {
            for (name, (scale, sack)) in ["original", "reply"].into_iter().zip(sides) {
                value[name]["window_scale"] = scale.into();
                value[name]["sack"] = sack.into();
            }
        }
        value
    }
}

/// OVS's line, as `ovs-appctl dpctl/dump-conntrack` prints it.
impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match protocol_name(self.original.protocol) {
            Some(name) => f.write_str(name)?,
            None => write!(f, "{}", self.original.protocol)?,
        }
        write!(f, ",orig=({}),reply=({})", self.original, self.reply)?;
        if self.zone != 0 {
            write!(f, ",zone={}", self.zone)?;
        }
        if self.mark != 0 {
            write!(f, ",mark={}", self.mark)?;
        }
        if self.label != 0 {
            write!(f, ",labels={:#x}", self.label)?;
        }
        if !self.state.name().is_empty() {
            write!(f, ",protoinfo=(state={})", self.state.name())?;
        }
        if let Some(helper) = self.helper {
            write!(f, ",helper={}", helper.name())?;
        }
        Ok(())
    }
}

impl Tuple {
    fn json(&self) -> Value {
        let mut value = json!({
            "source": self.source_address(),
            "destination": self.destination_address(),
        });
        if self.has_ports() {
            value["source_port"] = self.source_port.into();
            value["destination_port"] = self.destination_port.into();
        }
        if let Some((icmp_type, code)) = self.icmp() {
            value["id"] = self.identifier().into();
            value["type"] = icmp_type.into();
            value["code"] = code.into();
        }
        value
    }
}

/// What stands in the brackets of OVS's line.
impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "src={},dst={}", self.source_address(), self.destination_address())?;
        if self.has_ports() {
            write!(f, ",sport={},dport={}", self.source_port, self.destination_port)?;
        }
        if let Some((icmp_type, code)) = self.icmp() {
            write!(f, ",id={},type={icmp_type},code={code}", self.identifier())?;
        }
        Ok(())
    }
}
