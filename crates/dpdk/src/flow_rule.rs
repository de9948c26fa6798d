//! Rules that have a port mark packets: rte_flow's MARK action.
//!
//! What: a NIC with a table of flows compares headers and writes the rule's mark into the packet
//! ([`crate::Packet::mark`]); the packet is received as it would have been without the rule.
//!
//! Cost: writing or destroying a rule takes microseconds to milliseconds, and the process-wide lock of
//! DPDK's control plane: never on the packet path. A marked packet costs nothing more.
//! Threads: any.

use crate::eal::describe;
use crate::port::Inner;
use crate::{Port, ffi};
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

/// Header fields that a rule compares, as they are on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Headers {
    /// Destination.
    pub eth_dst: [u8; 6],
    /// Source.
    pub eth_src: [u8; 6],
    /// EtherType behind tags.
    pub eth_type: [u8; 2],
    /// 802.1Q tag control information.
    pub vlan_tci: [u8; 2],
    /// Source; of IPv4 the first four bytes.
    pub ip_src: [u8; 16],
    /// Destination likewise.
    pub ip_dst: [u8; 16],
    /// Protocol, or next header.
    pub ip_proto: u8,
    /// Type of service (IPv4).
    pub ip_tos: u8,
    /// Source port.
    pub tp_src: [u8; 2],
    /// Destination port.
    pub tp_dst: [u8; 2],
}

/// Why a port takes no such rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("port `{port}` does not offer to mark packets: {reason}")]
pub struct MarkError {
    /// As it was opened.
    pub port: String,
    /// What the driver says.
    pub reason: String,
}

/// A rule in a port's table, until it is dropped. It keeps the port open.
#[derive(Debug)]
pub struct MarkRule {
    port: Arc<Inner>,
    rule: NonNull<c_void>,
}

// SAFETY: a rule is a name of DPDK's, which any thread may destroy under the control plane's lock.
unsafe impl Send for MarkRule {}

impl Port {
    /// Asks the driver whether it would mark packets: those of some UDP flow over IPv4.
    ///
    /// # Errors
    /// What the driver says.
    pub fn offers_marks(&self) -> Result<(), MarkError> {
        let spec = Headers {
            eth_type: [8, 0],
            ip_src: *b"\xc6\x12\0\x01\0\0\0\0\0\0\0\0\0\0\0\0",
            ip_dst: *b"\xc6\x13\0\x01\0\0\0\0\0\0\0\0\0\0\0\0",
            ip_proto: 17,
            tp_src: [0, 9],
            tp_dst: [0, 9],
            ..Headers::default()
        };
        let mut mask = Headers { ip_proto: 0xff, tp_src: [0xff; 2], tp_dst: [0xff; 2], ..Headers::default() };
        mask.ip_src[..4].fill(0xff);
        mask.ip_dst[..4].fill(0xff);
        mask.eth_type = [0xff; 2];
        self.ask(&spec, &mask, 1, std::ptr::null_mut())
    }

    /// Writes a rule: packets whose headers agree with `spec` in what `mask` names are marked.
    ///
    /// # Errors
    /// What the driver says: it has no such table, its table is full, it cannot compare such headers.
    pub fn mark_rule(&self, spec: &Headers, mask: &Headers, mark: u32) -> Result<MarkRule, MarkError> {
        let mut rule = std::ptr::null_mut();
        self.ask(spec, mask, mark, &raw mut rule)?;
        let nothing = || self.refused("the driver made nothing of it".to_owned());
        Ok(MarkRule { port: self.inner.clone(), rule: NonNull::new(rule).ok_or_else(nothing)? })
    }

    fn refused(&self, reason: String) -> MarkError {
        MarkError { port: self.inner.spec.clone(), reason }
    }

    fn ask(
        &self,
        spec: &Headers,
        mask: &Headers,
        mark: u32,
        rule: *mut *mut c_void,
    ) -> Result<(), MarkError> {
        let whole = |field: &[u8]| field.iter().all(|byte| *byte == 0xff);
        // Which header follows is part of the pattern; a rule that leaves it open names none.
        let ip = match spec.eth_type {
            [0x08, 0x00] if whole(&mask.eth_type) => 4,
            [0x86, 0xdd] if whole(&mask.eth_type) => 6,
            _ => 0,
        };
        let l4 = match spec.ip_proto {
            proto @ (6 | 17) if ip != 0 && mask.ip_proto == 0xff => i32::from(proto),
            _ => 0,
        };
        let mut why = std::ptr::null();
        let _control = self.inner.eal.control();
        // SAFETY: the port is attached while inner lives; all pointers outlive the call, and `rule` may be null.
        let error = unsafe {
            let (id, queues) = (self.inner.id, self.inner.queues);
            ffi::weir_mark_rule(id, spec, mask, ip, l4, mark, queues, rule, &raw mut why)
        };
        if error == 0 {
            return Ok(());
        }
        let mut reason = describe(error);
        if !why.is_null() {
            // SAFETY: a driver's message is a string constant that ends with a zero.
            let message = unsafe { CStr::from_ptr(why) }.to_string_lossy();
            reason = format!("{reason} ({message})");
        }
        Err(self.refused(reason))
    }
}

impl Drop for MarkRule {
    fn drop(&mut self) {
        let _control = self.port.eal.control();
        // SAFETY: the rule was made at this port, which lives, and is destroyed once.
        unsafe { ffi::weir_mark_rule_destroy(self.port.id, self.rule.as_ptr()) };
    }
}
