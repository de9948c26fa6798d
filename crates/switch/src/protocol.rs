//! The control socket's words: one JSON object a line, a request and its answer.
//!
//! ```text
//! → {"id": 1, "command": "add-flow", "flow": "in_port=left,actions=output:right"}
//! ← {"id": 1, "ok": true, "result": null}
//! → {"id": 2, "command": "del-port", "port": "middle"}
//! ← {"id": 2, "ok": false, "error": "there is no port `middle`; the ports are left, right"}
//! ```
//!
//! `id` is the client's own and comes back as it was; it may be left out. `capture` and `monitor` answer
//! with many lines: first as above, then one `{"id", "event": {...}}` a packet or event, and
//! `{"id", "end": ...}` when it is over; until then the connection takes no other request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Version of the protocol: rises when a word changes its meaning or goes away.
pub const PROTOCOL: u32 = 1;

/// Longest request, in bytes: some million flow entries.
pub const LONGEST_REQUEST: u64 = 256 << 20;

/// What the switch is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Versions of Weir, DPDK and the protocol.
    Version {},
    /// The ledger.
    Stats {
        /// Without its tables, whose counts are those of all megaflows: it comes at once then, whatever their number.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        without_tables: bool,
    },
    /// The ports.
    Show {},
    /// The tables that hold entries or were looked into.
    DumpTables {},
    /// Adds one flow entry.
    AddFlow {
        /// As ovs-ofctl writes it.
        flow: String,
    },
    /// Adds, changes and removes flow entries, as a whole or not at all. A line may begin with `add`,
    /// `modify`, `modify_strict`, `delete` or `delete_strict`; without, it is added.
    AddFlows {
        /// One a line.
        flows: String,
        /// What the lines come from, for error messages.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Makes these the flow entries, as a whole or not at all. Entries that stay keep their counters.
    ReplaceFlows {
        /// One a line.
        flows: String,
        /// What the lines come from, for error messages.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Changes what flow entries do.
    ModFlows {
        /// The match and the new actions.
        flow: String,
        /// Whether priority and match must be equal.
        #[serde(default)]
        strict: bool,
    },
    /// Removes flow entries.
    DelFlows {
        /// Which; empty for all.
        #[serde(default)]
        flow: String,
        /// Whether priority and match must be equal.
        #[serde(default)]
        strict: bool,
    },
    /// Flow entries with their counters.
    DumpFlows {
        /// Which; empty for all.
        #[serde(default)]
        flow: String,
    },
    /// Adds a group that is not there yet.
    AddGroup {
        /// As ovs-ofctl writes it.
        group: String,
    },
    /// Changes a group that is there.
    ModGroup {
        /// As ovs-ofctl writes it.
        group: String,
    },
    /// Removes a group and the flows that use it.
    DelGroups {
        /// Which; all if left out.
        #[serde(default)]
        group: Option<u32>,
    },
    /// The groups with their counters, also by bucket.
    DumpGroups {},
    /// Adds a meter that is not there yet.
    AddMeter {
        /// As ovs-ofctl writes it.
        meter: String,
    },
    /// Changes a meter that is there.
    ModMeter {
        /// As ovs-ofctl writes it.
        meter: String,
    },
    /// Removes a meter and the flows that use it.
    DelMeters {
        /// Which; all if left out.
        #[serde(default)]
        meter: Option<u32>,
    },
    /// The meters with their counters, also by band.
    DumpMeters {},
    /// Adds a port.
    AddPort {
        /// Its name.
        name: String,
        /// What it is, as in the configuration.
        spec: String,
        /// Its OpenFlow number; the least that is free if left out.
        #[serde(default)]
        number: Option<u32>,
        /// Its queues; one a worker if left out.
        #[serde(default)]
        queues: Option<u16>,
        /// Descriptors a queue.
        #[serde(default)]
        descriptors: Option<u16>,
    },
    /// Removes a port.
    DelPort {
        /// By name or number.
        port: String,
    },
    /// Connections that a connection-tracking service knows.
    DumpConntrack {
        /// Which service; `conntrack` if left out.
        #[serde(default)]
        service: Option<String>,
        /// Which connections: `zone`, `protocol`, `source`, `destination`, `source_port`,
        /// `destination_port`; all of them if empty.
        #[serde(default)]
        selection: Map<String, Value>,
        /// At most so many; 100000 if left out.
        #[serde(default)]
        limit: Option<u64>,
    },
    /// Forgets connections.
    FlushConntrack {
        /// Which service; `conntrack` if left out.
        #[serde(default)]
        service: Option<String>,
        /// Which connections, as with `dump-conntrack`.
        #[serde(default)]
        selection: Map<String, Value>,
    },
    /// The addresses that `NORMAL` learned, and how many it may.
    DumpFdb {},
    /// Forgets addresses that `NORMAL` learned.
    FlushFdb {
        /// Of this VLAN, 0 for packets without a tag; of all if left out.
        #[serde(default)]
        vlan: Option<u16>,
        /// Of this port: name or number; of all if left out.
        #[serde(default)]
        port: Option<String>,
    },
    /// Where controllers connect and to which the switch does, and their connections.
    ShowControllers {},
    /// The services and how they are.
    Services {},
    /// Asks a service something of its own.
    Service {
        /// Which.
        service: String,
        /// What.
        action: String,
        /// With what; its own business.
        #[serde(default)]
        argument: Value,
    },
    /// Lets a service out of quarantine.
    Release {
        /// Which.
        service: String,
    },
    /// What becomes of a packet, without sending it. It is described by `packet` or given by `frame`.
    Trace {
        /// As flows are matched: `in_port=left,tcp,nw_dst=198.18.0.1,tcp_dst=80`.
        #[serde(default)]
        packet: Option<String>,
        /// The bytes without FCS, in hexadecimal.
        #[serde(default)]
        frame: Option<String>,
        /// The port that `frame` comes in by: name or number.
        #[serde(default)]
        in_port: Option<String>,
        /// What each service that it meets in turn is taken to write into `sf_metadata`; 1 after the
        /// last.
        #[serde(default)]
        metadata: Vec<u32>,
    },
    /// Copies of packets while traffic runs.
    Capture {
        /// At this port: name or number.
        #[serde(default)]
        port: Option<String>,
        /// That match this, as they came in.
        #[serde(default)]
        matching: String,
        /// Those that come in. If neither this nor `sent` is true, both are meant.
        #[serde(default)]
        received: bool,
        /// Those that go out.
        #[serde(default)]
        sent: bool,
        /// Bytes kept of each; 0 for all.
        #[serde(default)]
        snap: u32,
        /// After so many it ends; 0 for no end.
        #[serde(default)]
        count: u64,
    },
    /// What happens: flow entries that go (by timeout, or deleted, of those added with `send_flow_rem`),
    /// links, packets for the controller, quarantines.
    Monitor {},
    /// Reads the configuration again and applies what changed.
    Reload {},
    /// Stops the switch.
    Stop {},
}

/// A packet of a capture, as its line has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapturedLine {
    /// The port's number.
    pub port: u32,
    /// Whether it went out there, rather than in.
    pub sent: bool,
    /// Nanoseconds since 1970-01-01 UTC.
    pub unix_ns: u64,
    /// Bytes it had, without FCS.
    pub length: usize,
    /// What is kept of it, in hexadecimal.
    pub frame: String,
}

/// Bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Bytes from hexadecimal digits; blanks and colons between them are passed over.
///
/// # Errors
/// What is no digit, or an odd number of them.
pub fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
    let digit = |c: char| c.to_digit(16).ok_or_else(|| format!("`{c}` is no hexadecimal digit"));
    if !digits.len().is_multiple_of(2) {
        return Err(format!("{} hexadecimal digits make no whole bytes", digits.len()));
    }
    digits.chunks_exact(2).map(|pair| Ok((digit(pair[0])? << 4 | digit(pair[1])?) as u8)).collect()
}

/// A request out of a line, with the client's id.
///
/// # Errors
/// The id, where the line has one, and what is wrong.
pub fn read_request(line: &str) -> Result<(Value, Request), (Value, String)> {
    let mut value: Value = serde_json::from_str(line)
        .map_err(|error| (Value::Null, format!("a request is one JSON object on one line: {error}")))?;
    let Some(fields) = value.as_object_mut() else {
        return Err((Value::Null, "a request is a JSON object, such as {\"command\": \"stats\"}".to_owned()));
    };
    let id = fields.remove("id").unwrap_or(Value::Null);
    let command = fields.get("command").and_then(Value::as_str).map(str::to_owned);
    match serde_json::from_value(value) {
        Ok(request) => Ok((id, request)),
        Err(error) => Err((id, mistake(command.as_deref(), &error.to_string()))),
    }
}

/// What a refused request is told: an unknown command with the likeliest one.
fn mistake(command: Option<&str>, error: &str) -> String {
    let Some(command) = command else {
        return "a request names its `command`, such as {\"command\": \"stats\"}".to_owned();
    };
    if !error.starts_with("unknown variant") {
        return format!("{command}: {error}");
    }
    let commands: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
    let suggestion = weir_diagnostic::suggestion(command, commands.iter().copied());
    format!("there is no command `{command}`{suggestion}; the commands are {}", commands.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_request_is_read_with_its_id() {
        let (id, request) = read_request(r#"{"id": 7, "command": "del-flows", "flow": "tcp"}"#).unwrap();
        assert_eq!((id, request), (json!(7), Request::DelFlows { flow: "tcp".to_owned(), strict: false }));
        assert_eq!(
            read_request(r#"{"command": "stats"}"#).unwrap(),
            (Value::Null, Request::Stats { without_tables: false })
        );
    }

    #[test]
    fn a_wrong_request_says_what_is_wrong_with_it() {
        for (line, id, said) in [
            ("stats", json!(null), "one JSON object"),
            ("[1]", json!(null), "is a JSON object"),
            (r#"{"id": "a"}"#, json!("a"), "names its `command`"),
            (r#"{"id": 1, "command": "stat"}"#, json!(1), "no command `stat` (did you mean \"stats\"?)"),
            (r#"{"id": 1, "command": "stats", "colour": 1}"#, json!(1), "colour"),
            (r#"{"id": 1, "command": "add-flow"}"#, json!(1), "add-flow: missing field `flow`"),
            (r#"{"id": 1, "command": "del-flows", "strict": 1}"#, json!(1), "expected a boolean"),
        ] {
            let (given, error) = read_request(line).unwrap_err();
            assert!(given == id && error.contains(said), "{line}: {error}");
        }
    }

    proptest! {
        #[test]
        fn bytes_survive_being_written_in_hexadecimal(bytes: Vec<u8>) {
            prop_assert_eq!(from_hex(&to_hex(&bytes)).unwrap(), bytes);
        }

        #[test]
        fn no_line_makes_the_reader_panic(line in ".{0,60}") {
            let _ = read_request(&line);
            let _ = from_hex(&line);
        }
    }

    #[test]
    fn hexadecimal_is_read_as_people_write_it() {
        assert_eq!(from_hex("02:00 Ff\n01").unwrap(), [2, 0, 255, 1]);
        assert!(from_hex("02:0").unwrap_err().contains("3 hexadecimal digits"));
        assert!(from_hex("0g").unwrap_err().contains("`g`"));
    }
}
