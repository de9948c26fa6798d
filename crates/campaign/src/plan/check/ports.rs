//! The ports of the `nic` wiring: two a side, told apart, and there for the devices that need them.

use super::super::text::List;
use super::super::wirings::{ExternalPlan, NicTable};
use super::{Checker, Span};
use toml::Spanned;
use weir_dut::Kind;
use weir_dut::wiring::Nic;

/// Ports on each side.
const PORTS: usize = 2;

impl Checker<'_> {
    pub(super) fn nic(&mut self, table: NicTable) -> Nic {
        Nic { lab: self.ports("lab", table.lab), dut: self.ports("dut", table.dut) }
    }

    /// A device that somebody else started must be describable.
    pub(super) fn external(&mut self, table: Option<Spanned<ExternalPlan>>) -> ExternalPlan {
        let Some(table) = table else { return ExternalPlan::default() };
        let span = table.span();
        let plan = table.into_inner();
        if let Err(mistake) = plan.external() {
            self.refuse(&span, mistake);
        }
        plan
    }

    fn ports(&mut self, key: &str, list: Option<Spanned<List<String>>>) -> Vec<String> {
        let Some(list) = list else { return Vec::new() };
        let whole = list.span();
        let axis = self.axis(key, list);
        for (span, port) in &axis {
            if !Nic::is_vdev(port) && !Nic::is_pci(port) {
                let forms =
                    "a PCI address with its domain (0000:01:00.0) or an EAL vdev (net_af_packet0,iface=eth1)";
                self.refuse(span, format!("`{key}`: `{port}` is no port; write {forms}"));
            }
        }
        if axis.len() != PORTS {
            self.refuse(&whole, format!("`{key}`: {} ports; a side has {PORTS}", axis.len()));
        }
        axis.into_iter().map(|(_, port)| port).collect()
    }

    /// A plan that has the wiring must say where its ports are.
    pub(super) fn nic_has_ports(&mut self, wiring: &Span, nic: &Nic, duts: &[String]) {
        if nic.lab.is_empty() {
            let table = "[nic] with lab = [\"0000:01:00.0\", \"0000:01:00.1\"]";
            self.refuse(wiring, format!("`wiring`: nic needs the lab's ports; add a table {table}"));
        }
        let started = duts.iter().find(|name| weir_dut::kind(name) == Kind::Started);
        if let Some(name) = started.filter(|_| nic.dut.is_empty()) {
            let why = format!("nic needs the ports of {name}");
            self.refuse(wiring, format!("`wiring`: {why}; add dut = [PORT, PORT] to [nic]"));
        }
    }
}
