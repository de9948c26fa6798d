//! Connections of a connection-tracking service, asked for in parts.
//!
//! A worker answers between two bursts, a bounded step with `PART` connections at most, however many it has and
//! however few are meant: packets wait for one step.

use serde_json::{Map, Value};
use weir_openflow::Tables;

/// Connections that a worker is asked for at a time.
const PART: u64 = 32;

/// The service that is meant when none is named: the one that `ct` asks.
pub const TRACKER: &str = "conntrack";

/// Forgets the selected connections of a service, and says how many.
///
/// # Errors
/// No such service, or one that does not track; a selection that it does not understand.
pub fn flush(plane: &mut impl Tables, service: &str, selection: Map<String, Value>) -> Result<u64, String> {
    let mut flushed = 0;
    in_parts(plane, (service, "flush"), selection, |part| {
        flushed += part["flushed"].as_u64().unwrap_or(0);
        true
    })?;
    Ok(flushed)
}

/// Asks every worker step by step, until `take` has enough. Returns whether there is more.
///
/// A command goes to all workers; each says by its `next` where its next step begins, and is told that by its
/// place in `from`. One that is done does nothing.
///
/// # Errors
/// As [`flush`].
pub fn in_parts(
    plane: &mut impl Tables,
    (service, action): (&str, &str),
    mut selection: Map<String, Value>,
    mut take: impl FnMut(Value) -> bool,
) -> Result<bool, String> {
    selection.insert("limit".to_owned(), PART.into());
    selection.insert("from".to_owned(), 0.into());
    loop {
        let argument = Value::Object(selection.clone());
        let parts = plane.command(service, action, &argument).map_err(|error| error.to_string())?;
        let next: Vec<Value> = parts.iter().map(|part| part["next"].clone()).collect();
        let more = next.iter().any(Value::is_u64);
        let mut enough = false;
        for part in parts {
            enough |= !take(part);
        }
        if enough || !more {
            return Ok(more);
        }
        selection.insert("from".to_owned(), Value::Array(next));
    }
}
