//! A lookup in a table, and what follows from the entry that it finds.

use super::set::ActionSet;
use super::state::{self, Stands};
use super::{List, Task, Translation, tuple};
use crate::actions::program::Credit;
use crate::model::entries::Entry;
use crate::slowpath::explain;
use std::sync::Arc;
use weir_flow::{Field, Mask};
use weir_openflow::{TableId, ToController};
use weir_packet::DropReason;

impl Translation<'_> {
    /// Looks the packet up in a table.
    pub(super) fn lookup(&mut self, table: TableId, in_port: Option<u32>, resubmitted: bool, tracked: bool) {
        if self.state.opaque {
            self.freeze(match tracked {
                true => Task::Tracked { table, in_port },
                false => Task::Lookup { table, in_port, resubmitted },
            });
            return;
        }
        self.lookups += 1;
        self.tables[usize::from(table.0 / 64)] |= 1 << (table.0 % 64);
        self.explain.why(&format_args!("table {table}"));
        let tables = self.pipeline;
        let Some(of) = tables.tables.get(usize::from(table.0)) else {
            self.why = DropReason::NoMatch;
            return;
        };
        self.explain.say(|| format!("table {table}: looked up in {}", of.structure()));
        match &mut self.trail {
            // The table walk knows packets by their own addresses.
            Some(trail) if tracked => trail.leave(),
            Some(_) => self.way_point(table, in_port, resubmitted),
            None => {}
        }
        self.rewritten |= match (in_port, tracked) {
            (None, false) => self.state.origins.rewritten(),
            // By the connection's addresses.
            (_, true) => u64::MAX,
            (Some(_), false) => self.state.origins.rewritten() | 1 << Field::InPort.span().place(),
        };
        let mut examined = Mask::new();
        let found = if in_port.is_none() && !tracked {
            let found = of.lookup(&self.state.key, &mut examined);
            self.explain.say_if(|| explain::conjunction(of, &self.state.key, found));
            found
        } else {
            let mut key = self.state.key.clone();
            if let Some(port) = in_port {
                Field::InPort.set(&mut key, u128::from(port));
            }
            if tracked {
                tuple::swap(&mut key);
            }
            let found = of.lookup(&key, &mut examined);
            self.explain.say_if(|| explain::conjunction(of, &key, found));
            if in_port.is_some() {
                for (place, _, bits) in Field::InPort.spread(0, u128::MAX) {
                    examined.remove(place, bits);
                }
            }
            if tracked {
                tuple::swap_examined(&mut examined);
            }
            found
        };
        // No packet comes with a number there: what a conjunction gives it follows from the bits that it matched.
        for (place, _, bits) in Field::ConjId.spread(0, u128::MAX) {
            examined.remove(place, bits);
        }
        let found = found.map(|rule| rule.value.clone());
        self.way_led(found.as_ref());
        self.of_context(|of| of.examine_mask(&examined));
        match found {
            Some(entry) => self.matched(entry),
            None => self.missed(table, resubmitted),
        }
    }

    fn matched(&mut self, entry: Arc<Entry>) {
        self.explain.matched(&entry);
        self.state.table = entry.flow.table;
        self.state.cookie = entry.flow.cookie;
        let of_miss = entry.flow.priority == 0 && entry.flow.matching.terms().is_empty();
        self.state.stands = if of_miss { Stands::Miss } else { Stands::Entry };
        self.credits.push(Credit::Entry(entry.clone()));
        if let Some(meter) = entry.flow.instructions.meter {
            self.meter(meter);
        }
        self.stack.push(Task::Then(entry.clone()));
        self.stack.push(Task::Actions(List::Entry(entry), 0));
    }

    fn missed(&mut self, table: TableId, resubmitted: bool) {
        self.explain.say(|| format!("table {table}: no entry matches"));
        self.credits.push(Credit::Miss(table));
        if !resubmitted {
            self.why = DropReason::NoMatch;
            self.set = ActionSet::default();
            if self.pipeline.wants.misses {
                (self.state.table, self.state.cookie) = (table, state::NO_ENTRY);
                self.state.stands = Stands::Miss;
                self.controller(&ToController::default());
            }
        }
    }

    /// Instructions that follow the applied actions (OpenFlow 1.3.5, section 5.9).
    pub(super) fn instructions(&mut self, entry: &Arc<Entry>) {
        let instructions = &entry.flow.instructions;
        if instructions.clear {
            self.set = ActionSet::default();
        }
        for action in &instructions.write {
            self.set.write(action);
        }
        if let Some((value, mask)) = instructions.metadata {
            self.write(Field::Metadata, u128::from(value), u128::from(mask));
        }
        if let Some(table) = instructions.goto {
            self.stack.push(Task::Lookup { table, in_port: None, resubmitted: false });
        }
    }
}
