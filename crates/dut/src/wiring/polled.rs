//! The lab's ends of `veth` as interfaces that are polled: only such take packets that a program of the kernel (XDP)
//! hands over at the other end. A program that lets everything pass makes an end one; unlike `gro`, which would as well,
//! it never joins packets.

use super::{INTERFACES, VethPairs};
use crate::DutError;
use weir_cpu::{BpfLink, BpfProgram};

/// `r0 = 2 (XDP_PASS)`, `exit`.
const PASS: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 2, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];

impl VethPairs {
    /// Has the lab's ends polled for as long as what is returned is held.
    ///
    /// # Errors
    ///
    /// The kernel's, with what it needs.
    pub fn poll_lab(&self) -> Result<Vec<BpfLink>, DutError> {
        let attach = |name: &&str| {
            let number = nix::net::if_::if_nametoindex(*name).map_err(|error| error.to_string())?;
            let program = BpfProgram::xdp("pass", &PASS).map_err(|error| error.to_string())?;
            program.attach(number).map_err(|error| format!("{name}: {error}"))
        };
        self.lab.within(|| INTERFACES.iter().map(attach).collect()).map_err(|reason| DutError::Network {
            what: "the lab's interfaces cannot be made to take packets from programs (XDP)".to_owned(),
            reason: format!(
                "{reason}; this needs root (CAP_BPF, CAP_NET_ADMIN) and a kernel with XDP in veth"
            ),
        })
    }
}
