//! The `veth` wiring: two veth pairs of the kernel, from a network namespace of the lab's to one of
//! the DUT's.
//!
//! Both namespaces hold nothing but their two ends, named [`INTERFACES`], so that no address, daemon
//! or protocol of the machine speaks on them: IPv6 is off, no end has an address, nobody asks by ARP.
//! Offloads are as the kernel has them, unless a plan says otherwise (`offloads.rs`): what is sent comes from raw
//! sockets, whole and with its checksums, so that none is cut; with `gro` the kernel polls these interfaces. The lab's ends are opened as AF_PACKET or AF_XDP
//! ports, a DPDK dataplane's as AF_PACKET ports; a dataplane of the kernel takes the interfaces as
//! they are.
//!
//! Cost: a system call a burst on each side, and the kernel's handing over, on the core that sends.
//! A packet that finds the other end's backlog full (`net.core.netdev_max_backlog`) is lost without
//! the sender's knowledge.

use super::{External, Side};
use crate::DutError;
use crate::namespace::{IP, Namespace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_units::FrameSize;

/// The names of the two ends, in the lab's namespace as in the DUT's.
pub const INTERFACES: [&str; 2] = ["port0", "port1"];

/// Ethernet header and FCS, which an interface's MTU does not count.
const AROUND_MTU: u32 = 18;

/// The least MTU of the links: Ethernet's own.
const LEAST_MTU: u32 = 1500;

/// Frames in each ring of an AF_PACKET port: as many as `vhost` has descriptors.
const RING: u32 = 1024;

/// A slot of an AF_PACKET ring, in bytes: the most that the driver takes with packet buffers of the
/// usual 2 KiB.
const SLOT: u32 = 2048;

/// A block of slots, in bytes: a page.
const BLOCK: u32 = 4096;

/// The largest frame, with its FCS: what a slot holds beside what the kernel writes before the packet
/// (66 bytes).
const LARGEST: u32 = 1980;

/// How long the kernel may take to take the lab's namespace of a point apart, with its pairs, of which the other ends lie in one that stays.
const TAKEN_APART: Duration = Duration::from_secs(5);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// The lab's end of a veth pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VethDriver {
    /// Rings shared with a raw socket.
    #[default]
    AfPacket,
    /// Rings filled by a program at the interface (XDP).
    AfXdp,
}

/// The `veth` wiring, before it is laid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Veth {
    /// How the lab's ends are opened.
    pub driver: VethDriver,
}

/// Two veth pairs, laid; gone when dropped.
#[derive(Debug)]
pub struct VethPairs {
    /// Where the lab's ends are.
    pub lab: Namespace,
    /// Where the DUT's ends are.
    pub dut: Arc<Namespace>,
    /// Their names.
    pub far: [String; 2],
}

/// Pairs to a device that somebody else started; they stay as long as the lab lives.
static KEPT: Mutex<Vec<(External, Arc<VethPairs>)>> = Mutex::new(Vec::new());

impl Veth {
    /// Makes both namespaces and the pairs between them, up, for frames of that size.
    pub fn lay(self, max_frame: FrameSize) -> Result<VethPairs, DutError> {
        fits(max_frame)?;
        let far = INTERFACES.map(str::to_owned);
        let pairs = VethPairs { lab: Namespace::new()?, dut: Arc::new(Namespace::new()?), far };
        let mtu = (u32::from(max_frame.bytes()).saturating_sub(AROUND_MTU)).max(LEAST_MTU);
        pairs.join(mtu)?;
        Ok(pairs)
    }

    /// Pairs to a namespace that somebody else made, by its name: it stands for another machine, and has other things in it, which
    /// are left alone.
    pub fn lay_into(self, namespace: &str, max_frame: FrameSize) -> Result<VethPairs, DutError> {
        fits(max_frame)?;
        let (lab, dut) = (Namespace::new()?, Arc::new(Namespace::open(Some(namespace))?));
        let pairs = VethPairs { lab, dut, far: INTERFACES.map(str::to_owned) };
        pairs.wait_free(namespace)?;
        pairs.join(LARGEST - AROUND_MTU)?;
        Ok(pairs)
    }

    /// Pairs whose other ends lie where a device that somebody else started takes them; the same ones each time.
    pub fn lay_towards(self, external: &External, max_frame: FrameSize) -> Result<Arc<VethPairs>, DutError> {
        fits(max_frame)?;
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pairs)) = kept.iter().find(|(known, _)| known == external) {
            return Ok(Arc::clone(pairs));
        }
        let dut = Namespace::open(external.namespace.as_deref())?;
        let pairs =
            VethPairs { lab: Namespace::new()?, dut: Arc::new(dut), far: external.interfaces.clone() };
        pairs.join(LARGEST - AROUND_MTU)?;
        let pairs = Arc::new(pairs);
        kept.push((external.clone(), Arc::clone(&pairs)));
        Ok(pairs)
    }

    /// The ports of one side, as EAL `--vdev` strings. `number` tells the ports of one process apart.
    pub fn ports(self, side: Side, number: u32) -> [String; 2] {
        std::array::from_fn(|link| {
            let name = number as usize * INTERFACES.len() + link;
            let interface = INTERFACES[link];
            match (side, self.driver) {
                (Side::Lab, VethDriver::AfXdp) => format!("net_af_xdp{name},iface={interface}"),
                _ => format!(
                    "net_af_packet{name},iface={interface},blocksz={BLOCK},framesz={SLOT},framecnt={RING}"
                ),
            }
        })
    }
}

/// Refuses frames that no slot holds.
fn fits(max_frame: FrameSize) -> Result<(), DutError> {
    if u32::from(max_frame.bytes()) <= LARGEST {
        return Ok(());
    }
    Err(DutError::Network {
        what: format!("frames of {max_frame} do not fit the `veth` wiring"),
        reason: format!("its raw sockets take {LARGEST} B at most; take `vhost` or `memif`"),
    })
}

impl VethPairs {
    /// Waits until the pairs of the point before, if there was one, are gone; an error where the names are somebody else's.
    fn wait_free(&self, namespace: &str) -> Result<(), DutError> {
        let until = Instant::now() + TAKEN_APART;
        let is_there = |name: &&String| self.dut.run(IP, &format!("link show dev {name}\n")).is_ok();
        while let Some(name) = self.far.iter().find(is_there) {
            if Instant::now() >= until {
                return Err(DutError::Network {
                    what: format!(
                        "namespace `{namespace}` has an interface {name}, which the lab's would be called"
                    ),
                    reason: format!("`ip -n {namespace} link delete {name}` removes it"),
                });
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Makes the pairs, both ends up.
    fn join(&self, mtu: u32) -> Result<(), DutError> {
        let (mut near_side, mut far_side) = (String::new(), String::new());
        for (name, far) in INTERFACES.iter().zip(&self.far) {
            let _ = writeln!(
                near_side,
                "link add {name} mtu {mtu} type veth peer name {far} mtu {mtu} netns {}\nlink set {name} up",
                self.dut.path().display()
            );
            let _ = writeln!(far_side, "link set {far} up");
        }
        self.lab.run(IP, &near_side)?;
        // Nothing of the machine's is to speak there, whatever the namespace's defaults.
        let quiet = self.far.each_ref().map(|far| format!("net/ipv6/conf/{far}/disable_ipv6"));
        self.dut.sysctl(&quiet.each_ref().map(|path| (path.as_str(), "1")))?;
        self.dut.run(IP, &far_side)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    #[test]
    fn frames_that_no_slot_holds_are_refused_with_the_limit() {
        let error = Veth::default().lay(FrameSize::new(9000).unwrap()).unwrap_err().to_string();
        assert!(error.contains("9000") && error.contains("1980") && error.contains("memif"), "{error}");
    }

    #[test]
    fn only_the_labs_ends_may_be_af_xdp() {
        let veth = Veth { driver: VethDriver::AfXdp };
        assert_eq!(veth.ports(Side::Lab, 2)[1], "net_af_xdp5,iface=port1");
        assert!(veth.ports(Side::Dut, 0)[0].starts_with("net_af_packet0,"));
    }

    #[test]
    fn each_end_is_alone_in_its_namespace_and_up() {
        if !weir_testkit::needs!(weir_testkit::Need::Root, weir_testkit::Need::Namespaces) {
            let error = Veth::default().lay(FrameSize::MIN).unwrap_err().to_string();
            assert!(error.contains("need root"), "{error}");
            return;
        }
        let pairs = Veth::default().lay(FrameSize::new(1900).unwrap()).unwrap();
        for namespace in [&pairs.lab, &*pairs.dut] {
            namespace.run(IP, "link set port0 mtu 1882\nlink set port1 mtu 1882\n").unwrap();
            let names = namespace.within(|| {
                let text = fs::read_to_string("/proc/thread-self/net/dev").map_err(|e| e.to_string())?;
                Ok(text
                    .lines()
                    .filter_map(|line| line.split_once(':'))
                    .map(|(n, _)| n.trim().to_owned())
                    .collect::<Vec<_>>())
            });
            let names = names.unwrap();
            assert!(names.contains(&"port0".to_owned()) && names.contains(&"port1".to_owned()), "{names:?}");
            assert!(
                namespace
                    .within(|| Ok(fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default()))
                    .unwrap()
                    .is_empty()
            );
        }
    }

    #[test]
    fn pairs_into_a_namespace_that_stays_can_be_laid_again_at_once() {
        if !weir_testkit::needs!(weir_testkit::Need::Root, weir_testkit::Need::Namespaces) {
            return;
        }
        let name = format!("weir-far-{}", std::process::id());
        let ip = |action: &str| Command::new("ip").args(["netns", action, &name]).status().unwrap().success();
        assert!(ip("add"));
        let laid: Vec<Result<(), String>> = (0..8)
            .map(|_| Veth::default().lay_into(&name, FrameSize::new(64).unwrap()))
            .map(|laid| laid.map(drop).map_err(|error| error.to_string()))
            .collect();
        // Somebody else's interface of that name stays, and is named with what removes it. The last pairs go with their namespace.
        assert!(ip("delete") && ip("add"));
        let add = ["-n", &name, "link", "add", INTERFACES[0], "type", "veth"];
        assert!(Command::new("ip").args(add).status().unwrap().success());
        let taken = Veth::default().lay_into(&name, FrameSize::new(64).unwrap()).unwrap_err().to_string();
        assert!(ip("delete"));
        assert_eq!(laid, vec![Ok(()); 8]);
        assert!(taken.contains("has an interface port0") && taken.contains("link delete port0"), "{taken}");
    }
}
