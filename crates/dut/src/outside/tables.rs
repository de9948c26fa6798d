//! The function's tables, as files that any dataplane's own script can read.
//!
//! One entry a line. Which file there is follows from the function: `routes.txt` for one that routes, `rules.txt` for a
//! filter, `flows.txt` for everything that OpenFlow can say.

use crate::{DutError, StartRequest};
use std::path::PathBuf;
use weir_trial::Nf;
use weir_wire::table::{next_hop_mac, port_mac};

/// Where the function's tables are; nothing of one that it has not.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    /// `PREFIX PORT SOURCE-MAC DESTINATION-MAC`, the addresses being those that a packet leaves with.
    pub(super) routes: Option<PathBuf>,
    /// `allow|deny` and the conditions, the first rule that matches decides.
    pub(super) rules: Option<PathBuf>,
    /// Flows, as `ovs-ofctl add-flows` reads them; ports count from 1.
    pub(super) flows: Option<PathBuf>,
}

impl Tables {
    /// Writes them into the device's folder.
    pub(super) fn write(request: &StartRequest<'_>) -> Result<Self, DutError> {
        let write =
            |name, text: Option<String>| text.map(|text| request.folder.write(name, &text)).transpose();
        let nf = request.nf;
        Ok(Self {
            routes: write("routes.txt", routes(nf))?,
            rules: write("rules.txt", rules(nf))?,
            flows: write("flows.txt", flows(nf).ok())?,
        })
    }
}

fn routes(nf: Nf) -> Option<String> {
    let mac = crate::l3fwd::mac;
    let routes = nf.routes();
    let line = |route: &weir_wire::table::Route| {
        format!("{route} {} {}\n", mac(port_mac(route.port)), mac(next_hop_mac(route.port)))
    };
    (!routes.is_empty()).then(|| routes.iter().map(line).collect())
}

fn rules(nf: Nf) -> Option<String> {
    let rules = nf.rules();
    (!rules.is_empty()).then(|| rules.iter().map(|rule| format!("{rule}\n")).collect())
}

/// The function as flows; the reason where OpenFlow cannot say it.
pub(super) fn flows(nf: Nf) -> Result<String, String> {
    crate::openflow::flows(nf, crate::openflow::Dialect::OpenVSwitch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_an_entry_a_line() {
        let routes = routes(Nf::L3Fwd { routes: 2 }).unwrap();
        let mut lines: Vec<&str> = routes.lines().collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "198.18.0.0/16 0 02:00:00:00:01:00 02:00:00:00:02:00",
                "198.19.0.0/16 1 02:00:00:00:01:01 02:00:00:00:02:01"
            ]
        );
        assert_eq!(rules(Nf::Firewall { rules: 10 }).unwrap().lines().count(), 10);
        assert!(rules(Nf::L2Fwd).is_none() && super::routes(Nf::L2Fwd).is_none());
        assert!(flows(Nf::L2Fwd).unwrap().contains("output:2"));
    }
}
