//! Who listens to what happens, and what they are told.
//!
//! A listener that does not keep up loses events, never the switch's time: it is told how many.

use crate::protocol::to_hex;
use crate::text;
use serde_json::{Value, json};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use weir_datapath::{Event, Removal};
use weir_openflow::Names;

/// Events that wait for one listener at most.
const WAITING: usize = 1024;

/// Everyone who listens.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Vec<Listener>);

#[derive(Debug)]
struct Listener {
    queue: SyncSender<Value>,
    missed: u64,
}

impl Listeners {
    /// A new listener's end.
    pub(crate) fn listen(&mut self) -> Receiver<Value> {
        let (queue, end) = sync_channel(WAITING);
        self.0.push(Listener { queue, missed: 0 });
        end
    }

    /// Tells everyone; who is gone is forgotten.
    pub(crate) fn tell(&mut self, event: &Value) {
        self.0.retain_mut(|listener| listener.take(event));
    }
}

impl Listener {
    /// Whether it is still there.
    fn take(&mut self, event: &Value) -> bool {
        if self.missed > 0 {
            let missed = json!({ "kind": "missed", "events": self.missed });
            match self.queue.try_send(missed) {
                Ok(()) => self.missed = 0,
                Err(TrySendError::Full(_)) => {
                    self.missed += 1;
                    return true;
                }
                Err(TrySendError::Disconnected(_)) => return false,
            }
        }
        match self.queue.try_send(event.clone()) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.missed += 1;
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}

/// An event as a line.
pub(crate) fn describe(event: &Event, names: &Names) -> Value {
    match event {
        Event::FlowRemoved(stats, why) => {
            let reason = match why {
                Removal::Idle => "idle-timeout",
                Removal::Hard => "hard-timeout",
                Removal::Delete => "delete",
                Removal::Group => "group-delete",
                Removal::Meter => "meter-delete",
                Removal::Eviction => "eviction",
            };
            json!({
                "kind": "flow-removed", "reason": reason, "flow": text::flow(&stats.flow, names),
                "table": stats.flow.table.0, "priority": stats.flow.priority, "cookie": stats.flow.cookie,
                "packets": stats.packets, "bytes": stats.bytes, "seconds": stats.age.as_secs_f64(),
            })
        }
        Event::Link(port, up) => {
            json!({ "kind": "link", "port": port.0, "name": names.port_name(*port), "up": up })
        }
        Event::PacketIn(packet) => json!({
            "kind": "packet-in", "in_port": packet.in_port.0, "name": names.port_name(packet.in_port),
            "reason": packet.reason, "table": packet.table, "cookie": packet.cookie,
            "frame": to_hex(&packet.frame),
        }),
        Event::Quarantined(service, why) => {
            json!({ "kind": "quarantined", "service": service, "why": why })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weir_datapath::FlowStats;
    use weir_openflow::{Flow, PortNo};

    #[test]
    fn an_entry_that_went_is_told_with_its_last_counters_and_the_reason() {
        let names = Names::default();
        let flow = Flow::parse("table=3,cookie=9,priority=7,tcp,send_flow_rem actions=drop", &names).unwrap();
        let (age, idle) = (Duration::from_millis(2500), Duration::ZERO);
        let stats = FlowStats { flow, packets: 4, bytes: 240, age, idle };
        for (why, reason) in [
            (Removal::Idle, "idle-timeout"),
            (Removal::Hard, "hard-timeout"),
            (Removal::Delete, "delete"),
            (Removal::Group, "group-delete"),
            (Removal::Meter, "meter-delete"),
            (Removal::Eviction, "eviction"),
        ] {
            let told = describe(&Event::FlowRemoved(stats.clone(), why), &names);
            let expected = json!({
                "kind": "flow-removed", "reason": reason, "packets": 4, "bytes": 240, "seconds": 2.5,
                "flow": "cookie=0x9, table=3, send_flow_rem priority=7,tcp actions=drop",
                "table": 3, "priority": 7, "cookie": 9,
            });
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn a_listener_that_does_not_keep_up_is_told_how_many_it_missed() {
        let mut listeners = Listeners::default();
        let (slow, gone) = (listeners.listen(), listeners.listen());
        drop(gone);
        let mut names = Names::default();
        names.add_port("left", PortNo(1));
        for _ in 0..WAITING + 5 {
            listeners.tell(&describe(&Event::Link(PortNo(1), true), &names));
        }
        assert_eq!(listeners.0.len(), 1, "who is gone is forgotten");
        let link = json!({ "kind": "link", "port": 1, "name": "left", "up": true });
        assert!((0..WAITING).all(|_| slow.try_recv().unwrap() == link));
        assert!(slow.try_recv().is_err());
        listeners.tell(&describe(&Event::Link(PortNo(1), false), &names));
        assert_eq!(slow.try_recv().unwrap(), json!({ "kind": "missed", "events": 5 }));
        assert_eq!(slow.try_recv().unwrap()["up"], json!(false));
    }
}
