//! Connections of a connection-tracking service, asked for in parts.
//!
//! A worker answers between two bursts, so it is asked for [`PART`] connections at a time, however many
//! it has: packets wait for one part, not for millions.

use crate::plane::Plane;
use crate::switch::Switch;
use serde_json::{Map, Value, json};

/// Connections that a worker is asked for at a time.
const PART: u64 = 256;

/// Connections that are answered when no limit is given.
const LIMIT: u64 = 100_000;

/// The service that is meant when none is named: the one that `ct` asks.
pub(crate) const TRACKER: &str = "conntrack";

impl<P: Plane> Switch<P> {
    /// Connections of all workers, as many as are wanted.
    pub(crate) fn dump_connections(
        &mut self,
        service: Option<String>,
        selection: Map<String, Value>,
        limit: Option<u64>,
    ) -> Result<Value, String> {
        let limit = usize::try_from(limit.unwrap_or(LIMIT)).unwrap_or(usize::MAX);
        let service = service.as_deref().unwrap_or(TRACKER);
        let mut connections = Vec::new();
        let more = in_parts(&mut self.plane, (service, "dump"), selection, |mut part| {
            if let Value::Array(found) = part["connections"].take() {
                connections.extend(found);
            }
            connections.len() < limit
        })?;
        let more = more || connections.len() > limit;
        connections.truncate(limit);
        Ok(json!({ "connections": connections, "more": more }))
    }

    /// Forgets connections of all workers.
    pub(crate) fn flush_connections(
        &mut self,
        service: Option<String>,
        selection: Map<String, Value>,
    ) -> Result<Value, String> {
        let service = service.as_deref().unwrap_or(TRACKER);
        Ok(json!({ "flushed": flush(&mut self.plane, service, selection)? }))
    }
}

/// Forgets the selected connections of a service, and says how many.
///
/// # Errors
/// No such service, or one that does not track; a selection that it does not understand.
pub(crate) fn flush(
    plane: &mut impl Plane,
    service: &str,
    selection: Map<String, Value>,
) -> Result<u64, String> {
    let mut flushed = 0;
    in_parts(plane, (service, "flush"), selection, |part| {
        flushed += part["flushed"].as_u64().unwrap_or(0);
        true
    })?;
    Ok(flushed)
}

/// Asks every worker part by part, until `take` has enough. Returns whether there is more.
///
/// A command goes to all workers, and each says by its `next` where its next part begins; an answer
/// is taken only from those for whom the part that was asked for is the next.
fn in_parts(
    plane: &mut impl Plane,
    (service, action): (&str, &str),
    mut selection: Map<String, Value>,
    mut take: impl FnMut(Value) -> bool,
) -> Result<bool, String> {
    selection.insert("limit".to_owned(), PART.into());
    let mut next: Option<Vec<Option<u64>>> = None;
    loop {
        let from = match &next {
            None => 0,
            Some(next) => match next.iter().flatten().min() {
                None => return Ok(false),
                Some(from) => *from,
            },
        };
        selection.insert("from".to_owned(), from.into());
        let argument = Value::Object(selection.clone());
        let parts = plane.command(service, action, &argument).map_err(|error| error.to_string())?;
        let places = next.get_or_insert_with(|| vec![Some(0); parts.len()]);
        let mut enough = false;
        for (place, part) in places.iter_mut().zip(parts) {
            if *place == Some(from) {
                *place = part["next"].as_u64().filter(|next| *next > from);
                enough |= !take(part);
            }
        }
        if enough {
            return Ok(places.iter().any(Option::is_some));
        }
    }
}
