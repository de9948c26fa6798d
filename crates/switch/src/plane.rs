//! What the control side asks of a datapath: [`Datapath`], or something that plays one in a test.

use weir_datapath::{
    CaptureFilter, Captured, ControlError, Datapath, Dead, Event, LearnedAddress, LearningConfig,
    LearningCounts, Plan, PortSpec, Report, Traced,
};
use weir_openflow::{Names, PortNo, Tables};

/// How a datapath ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The last ledger.
    pub report: Report,
    /// Packet buffers that did not come back. Anything but 0 is a fault.
    pub buffers_missing: u32,
}

/// A datapath, from outside: its tables, and what no controller asks for. What each does is said at [`Datapath`].
pub trait Plane: Tables {
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
    /// See [`Datapath::free_old_tables`].
    fn free_old_tables(&mut self);
    /// See [`Datapath::carry_out`].
    ///
    /// # Errors
    /// As there.
    fn carry_out(&mut self, plan: &Plan) -> Result<Vec<PortNo>, ControlError>;
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
    /// Lets a service out of quarantine, built anew.
    ///
    /// # Errors
    /// No such service.
    fn release(&mut self, service: &str) -> Result<(), ControlError>;
    /// See [`Datapath::capture`].
    fn capture(&mut self, filter: CaptureFilter) -> std::sync::mpsc::Receiver<Captured>;
    /// See [`Datapath::trace`]. `metadata` is what each service in turn is taken to write into
    /// `sf_metadata`.
    fn trace(&mut self, in_port: PortNo, frame: &[u8], metadata: &[u32]) -> Traced;
    /// See [`Datapath::learns`].
    fn learns(&self) -> bool;
    /// See [`Datapath::learn`].
    ///
    /// # Errors
    /// A worker that does not answer.
    fn learn(&mut self) -> Result<usize, ControlError>;
    /// See [`Datapath::learned`].
    ///
    /// # Errors
    /// A worker that does not answer.
    fn learned(&mut self) -> Result<Vec<LearnedAddress>, ControlError>;
    /// See [`Datapath::learning`].
    fn learning(&self) -> (LearningConfig, LearningCounts);
    /// See [`Datapath::set_learning`].
    ///
    /// # Errors
    /// A worker that does not answer.
    fn set_learning(&mut self, config: LearningConfig) -> Result<(), ControlError>;
    /// See [`Datapath::forget_learned`].
    ///
    /// # Errors
    /// A worker that does not answer.
    fn forget_learned(&mut self, vlan: Option<u16>, port: Option<PortNo>) -> Result<usize, ControlError>;
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

    fn free_old_tables(&mut self) {
        Self::free_old_tables(self);
    }

    fn carry_out(&mut self, plan: &Plan) -> Result<Vec<PortNo>, ControlError> {
        Self::carry_out(self, plan)
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

    fn capture(&mut self, filter: CaptureFilter) -> std::sync::mpsc::Receiver<Captured> {
        Self::capture(self, filter)
    }

    fn trace(&mut self, in_port: PortNo, frame: &[u8], metadata: &[u32]) -> Traced {
        Self::trace(self, in_port, frame, metadata)
    }

    fn release(&mut self, service: &str) -> Result<(), ControlError> {
        Self::release(self, service)
    }

    fn learns(&self) -> bool {
        Self::learns(self)
    }

    fn learn(&mut self) -> Result<usize, ControlError> {
        Self::learn(self)
    }

    fn learned(&mut self) -> Result<Vec<LearnedAddress>, ControlError> {
        Self::learned(self)
    }

    fn learning(&self) -> (LearningConfig, LearningCounts) {
        Self::learning(self)
    }

    fn set_learning(&mut self, config: LearningConfig) -> Result<(), ControlError> {
        Self::set_learning(self, config)
    }

    fn forget_learned(&mut self, vlan: Option<u16>, port: Option<PortNo>) -> Result<usize, ControlError> {
        Self::forget_learned(self, vlan, port)
    }

    fn stop(self) -> Result<Ended, ControlError> {
        let (report, buffers_missing) = Self::stop(self)?;
        Ok(Ended { report, buffers_missing })
    }
}
