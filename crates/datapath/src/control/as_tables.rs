//! The datapath as what an OpenFlow agent asks: each method is the datapath's own.

use crate::control::commit::Ahead;
use crate::control::datapath::Datapath;
use crate::control::known::Known;
use crate::stats::report::{PortReport, TableReport};
use serde_json::Value;
use std::any::Any;
use weir_openflow::{
    Applied, ApplyError, Change, ControlError, Event, FlowStats, FlowSum, GroupStats, MeterStats, PacketIn,
    PacketOut, PortAbout, PortCounts, PortFlags, PortNo, Refused, Select, TableId, TableSum, Tables, Wants,
};

impl weir_openflow::Ahead for Ahead {
    fn change(&mut self, change: Change) -> bool {
        Self::change(self, change)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Tables for Datapath {
    fn apply(&mut self, changes: Vec<Change>) -> Result<(), ControlError> {
        Self::apply_whole(self, changes)
    }

    fn apply_all(&mut self, changes: Vec<Change>, tell: bool) -> Result<Applied, ApplyError> {
        Self::apply_all(self, changes, tell)
    }

    fn apply_each(&mut self, changes: Vec<Change>, tell: bool) -> Result<Applied, ControlError> {
        Self::apply_each(self, changes, tell)
    }

    fn ahead(&self) -> Option<Box<dyn weir_openflow::Ahead>> {
        Self::ahead(self).map(|ahead| Box::new(ahead) as Box<dyn weir_openflow::Ahead>)
    }

    fn apply_ahead(&mut self, ahead: Box<dyn weir_openflow::Ahead>) -> Result<bool, ControlError> {
        // Another switch's copy is none of these tables.
        ahead.into_any().downcast().map_or(Ok(false), |ahead| Self::apply_ahead(self, *ahead))
    }

    fn services(&self) -> Vec<(u16, String, String)> {
        let one = |(number, known): (&u16, &Known)| (*number, known.name.clone(), known.kind.to_owned());
        self.services.iter().map(one).collect()
    }

    fn groups(&mut self) -> Result<Vec<GroupStats>, ControlError> {
        Self::groups(self)
    }

    fn meters(&mut self) -> Vec<MeterStats> {
        Self::meters(self)
    }

    fn flows(&mut self) -> Result<Vec<FlowStats>, ControlError> {
        Self::flows(self)
    }

    fn flows_of(&mut self, select: &Select) -> Result<Vec<FlowStats>, ControlError> {
        Self::flows_of(self, select)
    }

    fn sum_of(&mut self, select: &Select) -> Result<FlowSum, ControlError> {
        Self::sum_of(self, select)
    }

    fn ports(&self) -> Vec<PortAbout> {
        Self::ports(self)
    }

    fn port_counts(&mut self) -> Result<Vec<PortCounts>, ControlError> {
        Ok(self.report_without_tables()?.ports.iter().map(PortReport::counts).collect())
    }

    fn table_counts(&mut self) -> Result<Vec<TableSum>, ControlError> {
        Ok(self.report()?.tables.iter().map(TableReport::sum).collect())
    }

    fn configure_port(&mut self, number: PortNo, flags: PortFlags) -> Result<(), ControlError> {
        Self::configure_port(self, number, flags)
    }

    fn set_wants(&mut self, wants: Wants) -> Result<(), ControlError> {
        Self::set_wants(self, wants)
    }

    fn packet_out(&mut self, packet: PacketOut) -> Result<(), Refused> {
        Self::packet_out(self, packet)
    }

    fn settled(&mut self) -> Result<(), ControlError> {
        Self::settled(self)
    }

    fn packet_ins(&mut self) -> Vec<PacketIn> {
        Self::packet_ins(self)
    }

    fn happened(&mut self) -> Vec<Event> {
        Self::happened(self)
    }

    fn command(
        &mut self,
        service: &str,
        command: &str,
        argument: &Value,
    ) -> Result<Vec<Value>, ControlError> {
        Self::command(self, service, command, argument)
    }
}

impl PortReport {
    /// What a controller is told of it.
    pub fn counts(&self) -> PortCounts {
        PortCounts {
            number: PortNo(self.number),
            received: self.received,
            received_bytes: self.received_bytes,
            sent: self.sent,
            sent_bytes: self.sent_bytes,
            send_dropped: self.send_dropped,
            missed: self.missed,
        }
    }
}

impl TableReport {
    /// What a controller is told of it.
    pub fn sum(&self) -> TableSum {
        let Self { table, entries, lookups, matched, .. } = *self;
        TableSum { table: TableId(table), entries, lookups, matched }
    }
}
