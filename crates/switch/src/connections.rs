//! Connections of a connection-tracking service, asked for in parts.
//!
//! A worker answers between two bursts, a bounded step with a few connections at most, however many it has and
//! however few are meant: packets wait for one step.

use crate::plane::Plane;
use crate::switch::Switch;
use serde_json::{Map, Value, json};
use weir_agent::tracker::{TRACKER, flush, in_parts};

/// Connections that are answered when no limit is given.
const LIMIT: u64 = 100_000;

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
