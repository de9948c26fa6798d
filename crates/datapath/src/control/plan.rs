//! A plan carried out: services, ports and tables change together, or all stays as it was.
//!
//! The order is such that no packet meets half of it: what is new is there before the tables speak of
//! it, new ports are polled when the tables know what to do with their packets, and what goes does so
//! when nothing speaks of it any more. Each step that was done is remembered with how it is taken back,
//! down to the instances of a service that was built anew, and to the counters of flow entries.
//!
//! Costs and threads: the control thread; opening a port takes up to a second. Workers get a few commands.

use crate::control::datapath::Datapath;
use crate::control::known::Built;
use crate::model::entries::Touched;
use crate::model::pipeline::Pipeline;
use crate::model::requests::{ControlError, Plan, PortSpec};
use std::sync::Arc;
use weir_openflow::PortNo;

/// How a step is taken back.
enum Undo {
    RemoveService(String),
    PutBack(Built),
    ClosePort(PortNo),
    Reopen(PortSpec),
    /// The tables as they were, and how many events waited to be told.
    Tables(Arc<Pipeline>, usize),
}

/// Says at which step something went wrong.
fn at<T>(step: &str, result: Result<T, ControlError>) -> Result<T, ControlError> {
    result.map_err(|error| ControlError(format!("{step}: {error}")))
}

impl Datapath {
    /// Carries out a plan while packets flow; returns the numbers of the ports that were opened. No
    /// packet is lost by it, but what is on its way to or from a port that goes, or that is opened anew.
    ///
    /// # Errors
    /// Which step failed and why; all is then as it was before, or the error says what is not.
    pub fn carry_out(&mut self, plan: &Plan) -> Result<Vec<PortNo>, ControlError> {
        // Nothing is begun while a worker does not answer.
        self.all_answer()?;
        let mut undo = Vec::new();
        self.follow(plan, &mut undo).map_err(|error| self.take_back(undo, &error))
    }

    fn follow(&mut self, plan: &Plan, undo: &mut Vec<Undo>) -> Result<Vec<PortNo>, ControlError> {
        let anew = plan.replace_services.iter().map(|(name, service)| self.build_anew(name, service));
        let anew: Vec<Built> = at("building services anew", anew.collect())?;
        for (name, service) in &plan.add_services {
            at("adding services", self.add_service(name, service))?;
            undo.push(Undo::RemoveService(name.clone()));
        }
        let (first, last): (Vec<PortNo>, Vec<PortNo>) =
            plan.close_ports.iter().partition(|number| self.is_in_the_way(**number, &plan.open_ports));
        self.close_all(&first, undo)?;
        let receive = at("opening ports", self.open_ports(&plan.open_ports))?;
        let numbers: Vec<PortNo> = receive.iter().map(|(number, _)| *number).collect();
        undo.extend(numbers.iter().map(|number| Undo::ClosePort(*number)));
        for built in anew {
            let old = at("building services anew", self.install(built))?;
            undo.push(Undo::PutBack(old));
        }
        if !plan.changes.is_empty() {
            let (before, events) = (self.pipeline.clone(), self.events.len());
            at("changing tables", self.apply(&plan.changes))?;
            undo.push(Undo::Tables(before, events));
        }
        for name in &plan.remove_services {
            at("removing services", self.check_unused(name))?;
        }
        self.close_all(&last, undo)?;
        for name in &plan.remove_services {
            at("removing services", self.remove_service(name))?;
        }
        self.poll(receive);
        Ok(numbers)
    }

    fn close_all(&mut self, ports: &[PortNo], undo: &mut Vec<Undo>) -> Result<(), ControlError> {
        for number in ports {
            let spec = self.ports.get(*number).map(|held| held.spec.clone());
            at("closing ports", self.remove_port(*number))?;
            undo.extend(spec.map(Undo::Reopen));
        }
        Ok(())
    }

    /// Whether a port has to go before these can be opened.
    fn is_in_the_way(&self, number: PortNo, open: &[PortSpec]) -> bool {
        self.ports.get(number).is_some_and(|held| {
            let device = weir_port::device(&held.spec.spec);
            open.iter().any(|port| {
                port.name == held.spec.name
                    || port.number == Some(number)
                    || device.is_some() && weir_port::device(&port.spec) == device
            })
        })
    }

    /// Takes back what was done, the last first; says why, and what could not be.
    fn take_back(&mut self, undo: Vec<Undo>, why: &ControlError) -> ControlError {
        let mut trouble = Vec::new();
        for step in undo.into_iter().rev() {
            let done = match step {
                Undo::RemoveService(name) => self.remove_service(&name),
                Undo::PutBack(old) => self.install(old).map(drop),
                Undo::ClosePort(number) => self.remove_port(number),
                Undo::Reopen(spec) => self.add_port(&spec).map(drop),
                Undo::Tables(before, events) => {
                    self.events.truncate(events);
                    self.restore(&before)
                }
            };
            trouble.extend(done.err().map(|error| error.to_string()));
        }
        ControlError(if trouble.is_empty() {
            format!("{why}; all is as it was before")
        } else {
            format!("{why}; and not all is as it was before: {}", trouble.join("; "))
        })
    }

    /// Gives the tables what they held before; entries have their counters, which went on.
    fn restore(&mut self, before: &Pipeline) -> Result<(), ControlError> {
        let mut next = (*self.pipeline).clone();
        next.tables.clone_from(&before.tables);
        next.entries = before.entries;
        next.actions = before.actions;
        next.groups.clone_from(&before.groups);
        next.meters.clone_from(&before.meters);
        next.timed = before.timed;
        next.by_flow = before.by_flow;
        next.advance(vec![Touched::All]);
        let entries = next.tables.iter_used().flat_map(|table| table.iter());
        self.expiry.set(entries.map(|rule| &rule.value));
        self.publish(next)
    }
}
