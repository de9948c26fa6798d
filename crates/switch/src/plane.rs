//! What the control side asks of a datapath: [`Datapath`], or something that plays one in a test.

use weir_datapath::{
    Ahead, Applied, ApplyError, CaptureFilter, Captured, Change, ControlError, Datapath, Dead, Event,
    FlowStats, FlowSum, GroupStats, MeterStats, PacketIn, PacketOut, Plan, PortAbout, PortFlags, PortSpec,
    Refused, Report, Wants,
};
use weir_openflow::{Names, PortNo, Select};

/// How a datapath ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The last ledger.
    pub report: Report,
    /// Packet buffers that did not come back. Anything but 0 is a fault.
    pub buffers_missing: u32,
}

/// A datapath, from outside. What each does is said at [`Datapath`].
pub trait Plane {
    /// See [`Datapath::names`].
    fn names(&self) -> &Names;
    /// See [`Datapath::add_ports`].
    ///
    /// # Errors
    /// As there.
    fn add_ports(&mut self, specs: &[PortSpec]) -> Result<Vec<PortNo>, ControlError>;
    /// See [`Datapath::remove_port`].
    ///
    /// # Errors
    /// As there.
    fn remove_port(&mut self, number: PortNo) -> Result<(), ControlError>;
    /// See [`Datapath::apply`].
    ///
    /// # Errors
    /// As there.
    fn apply(&mut self, changes: &[Change]) -> Result<(), ControlError>;
    /// See [`Datapath::apply_all`].
    ///
    /// # Errors
    /// As there.
    fn apply_all(&mut self, changes: Vec<Change>, tell: bool) -> Result<Applied, ApplyError>;
    /// See [`Datapath::apply_each`].
    ///
    /// # Errors
    /// As there.
    fn apply_each(&mut self, changes: Vec<Change>, tell: bool) -> Result<Applied, ControlError>;
    /// See [`Datapath::ahead`].
    fn ahead(&self) -> Option<Ahead>;
    /// See [`Datapath::apply_ahead`].
    ///
    /// # Errors
    /// As there.
    fn apply_ahead(&mut self, ahead: Ahead) -> Result<bool, ControlError>;
    /// See [`Datapath::free_old_tables`].
    fn free_old_tables(&mut self);
    /// See [`Datapath::carry_out`].
    ///
    /// # Errors
    /// As there.
    fn carry_out(&mut self, plan: &Plan) -> Result<Vec<PortNo>, ControlError>;
    /// See [`Datapath::groups`].
    ///
    /// # Errors
    /// A worker that does not answer.
    fn groups(&mut self) -> Result<Vec<GroupStats>, ControlError>;
    /// See [`Datapath::meters`].
    fn meters(&mut self) -> Vec<MeterStats>;
    /// See [`Datapath::flows`].
    ///
    /// # Errors
    /// A worker that does not answer.
    fn flows(&mut self) -> Result<Vec<FlowStats>, ControlError>;
    /// See [`Datapath::flows_of`].
    ///
    /// # Errors
    /// A worker that does not answer.
    fn flows_of(&mut self, select: &Select) -> Result<Vec<FlowStats>, ControlError>;
    /// See [`Datapath::sum_of`].
    ///
    /// # Errors
    /// A worker that does not answer.
    fn sum_of(&mut self, select: &Select) -> Result<FlowSum, ControlError>;
    /// See [`Datapath::ports`].
    fn ports(&self) -> Vec<PortAbout>;
    /// See [`Datapath::configure_port`].
    ///
    /// # Errors
    /// No such port.
    fn configure_port(&mut self, number: PortNo, flags: PortFlags) -> Result<(), ControlError>;
    /// See [`Datapath::set_wants`].
    ///
    /// # Errors
    /// A worker that does not answer.
    fn set_wants(&mut self, wants: Wants) -> Result<(), ControlError>;
    /// See [`Datapath::packet_out`].
    ///
    /// # Errors
    /// What cannot be done.
    fn packet_out(&mut self, packet: PacketOut) -> Result<(), Refused>;
    /// See [`Datapath::settled`].
    ///
    /// # Errors
    /// A worker that does not answer.
    fn settled(&mut self) -> Result<(), ControlError>;
    /// See [`Datapath::packet_ins`].
    fn packet_ins(&mut self) -> Vec<PacketIn>;
    /// See [`Datapath::happened`].
    fn happened(&mut self) -> Vec<Event>;
    /// See [`Datapath::report`].
    ///
    /// # Errors
    /// A worker that does not answer.
    fn report(&mut self) -> Result<Report, ControlError>;
    /// See [`Datapath::report_without_tables`].
    ///
    /// # Errors
    /// A worker that does not answer.
    fn report_without_tables(&mut self) -> Result<Report, ControlError>;
    /// See [`Datapath::dead`].
    fn dead(&mut self) -> Option<Dead>;
    /// See [`Datapath::last_report`].
    fn last_report(&self) -> Report;
    /// See [`Datapath::tick`].
    ///
    /// # Errors
    /// A worker that does not answer.
    fn tick(&mut self) -> Result<Vec<Event>, ControlError>;
    /// See [`Datapath::command`].
    ///
    /// # Errors
    /// As there.
    fn command(
        &mut self,
        service: &str,
        command: &str,
        argument: &serde_json::Value,
    ) -> Result<Vec<serde_json::Value>, ControlError>;
    /// Lets a service out of quarantine, built anew.
    ///
    /// # Errors
    /// No such service.
    fn release(&mut self, service: &str) -> Result<(), ControlError>;
    /// See [`Datapath::capture`].
    fn capture(&mut self, filter: CaptureFilter) -> std::sync::mpsc::Receiver<Captured>;
    /// See [`Datapath::explain`]. `metadata` is what each service in turn is taken to write into
    /// `sf_metadata`.
    fn explain(&mut self, in_port: PortNo, frame: &[u8], metadata: &[u32]) -> String;
    /// Stops it and says what there is to say at the end.
    ///
    /// # Errors
    /// A worker that panicked, or does not answer.
    fn stop(self) -> Result<Ended, ControlError>;
}

impl Plane for Datapath {
    fn names(&self) -> &Names {
        Self::names(self)
    }

    fn add_ports(&mut self, specs: &[PortSpec]) -> Result<Vec<PortNo>, ControlError> {
        Self::add_ports(self, specs)
    }

    fn remove_port(&mut self, number: PortNo) -> Result<(), ControlError> {
        Self::remove_port(self, number)
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), ControlError> {
        Self::apply(self, changes)
    }

    fn free_old_tables(&mut self) {
        Self::free_old_tables(self);
    }

    fn apply_all(&mut self, changes: Vec<Change>, tell: bool) -> Result<Applied, ApplyError> {
        Self::apply_all(self, changes, tell)
    }

    fn apply_each(&mut self, changes: Vec<Change>, tell: bool) -> Result<Applied, ControlError> {
        Self::apply_each(self, changes, tell)
    }

    fn ahead(&self) -> Option<Ahead> {
        Self::ahead(self)
    }

    fn apply_ahead(&mut self, ahead: Ahead) -> Result<bool, ControlError> {
        Self::apply_ahead(self, ahead)
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

    fn carry_out(&mut self, plan: &Plan) -> Result<Vec<PortNo>, ControlError> {
        Self::carry_out(self, plan)
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

    fn report(&mut self) -> Result<Report, ControlError> {
        Self::report(self)
    }

    fn report_without_tables(&mut self) -> Result<Report, ControlError> {
        Self::report_without_tables(self)
    }

    fn dead(&mut self) -> Option<Dead> {
        Self::dead(self)
    }

    fn last_report(&self) -> Report {
        Self::last_report(self)
    }

    fn tick(&mut self) -> Result<Vec<Event>, ControlError> {
        Self::tick(self)
    }

    fn command(
        &mut self,
        service: &str,
        command: &str,
        argument: &serde_json::Value,
    ) -> Result<Vec<serde_json::Value>, ControlError> {
        Self::command(self, service, command, argument)
    }

    fn capture(&mut self, filter: CaptureFilter) -> std::sync::mpsc::Receiver<Captured> {
        Self::capture(self, filter)
    }

    fn explain(&mut self, in_port: PortNo, frame: &[u8], metadata: &[u32]) -> String {
        Self::explain(self, in_port, frame, metadata)
    }

    fn release(&mut self, service: &str) -> Result<(), ControlError> {
        Self::release(self, service)
    }

    fn stop(self) -> Result<Ended, ControlError> {
        let (report, buffers_missing) = Self::stop(self)?;
        Ok(Ended { report, buffers_missing })
    }
}
