//! `linux`: the kernel of this machine as the device, over the `veth` wiring.
//!
//! `l2fwd` is a bridge of the two ports that learns nothing and floods, which with two ports means:
//! out of the other one, MAC addresses untouched. `firewall:N` is the same bridge with an nftables
//! chain of N rules in its forward hook, one rule a rule, looked at in order. `l3fwd:N` is N routes
//! in the main table, next hops as permanent neighbours. `nat:N` is that router with a route to either side and nftables'
//! `snat` to N addresses, whose forward hook lets in from outside what the kernel's tracker knows; the tracker has the
//! room that the machine gives it (`net.netfilter.nf_conntrack_max`).
//!
//! Two things the kernel does only when told. It routes what is addressed to its own port only, and
//! the lab's packets, the same for every device, are not; a rule at ingress (`meta pkttype set host`)
//! makes them so, and its cost counts as the kernel's. And it works where a packet was sent from:
//! receive packet steering (RPS) moves that to the DUT's core, or the tester would forward. What it
//! says of its own accord (ICMP errors) is dropped on the way out, as no other device says it.
//!
//! CPU time in softirq belongs to no thread: it is the core's time in soft and hard interrupts, those that `ksoftirqd`
//! handled included, as `/proc/stat` has it in steps of 10 ms. Few other interrupts fall on that core, and what hands a
//! packet over from the tester's core is not in it. Counters are those of the two interfaces. A packet that finds the core's backlog full never reaches an interface of
//! the device; it shows as loss only.

mod ruleset;
mod setup;

pub(crate) use setup::{Setup, Step, text};

use crate::namespace::{IP, NFT, Namespace, Tool};
use crate::process::Process;
use crate::wiring::{INTERFACES, WiringKind};
use crate::{Adapter, Counters, DutError, RunningDut, StartRequest};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::utsname::uname;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;
use weir_trial::run::cpu::COUNTED;
use weir_trial::{Nf, NfKind};

const NAME: &str = "linux";

/// The adapter.
pub(crate) struct Linux;

struct Running {
    namespace: Arc<Namespace>,
    description: String,
    /// Where it forwards.
    core: usize,
}

impl Adapter for Linux {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "the kernel of this machine: bridge, routes, nftables (needs root)"
    }

    fn wirings(&self) -> &'static [WiringKind] {
        &[WiringKind::Veth]
    }

    fn forwards_in_kernel(&self) -> bool {
        true
    }

    fn supports(&self, nf: Nf) -> Result<(), String> {
        match nf.kind() {
            NfKind::L2Fwd | NfKind::L3Fwd | NfKind::Firewall | NfKind::Nat => Ok(()),
            _ => Err(crate::wants_tables(NAME, nf)),
        }
    }

    fn version(&self) -> Result<String, DutError> {
        for Tool { program, package, .. } in [IP, NFT] {
            let missing = DutError::Missing { dut: NAME, program, package };
            Command::new(program).arg("-V").output().map_err(|_| missing)?;
        }
        let kernel = uname().map(|name| name.release().to_string_lossy().into_owned());
        Ok(format!("Linux {}", kernel.unwrap_or_else(|_| "of unknown version".to_owned())))
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let version = self.version()?;
        let unsupported = |reason| DutError::Unsupported { dut: NAME, nf: request.nf, reason };
        self.supports(request.nf).map_err(unsupported)?;
        let no_namespace = || unsupported("it needs a wiring with a network namespace (veth)".to_owned());
        let namespace = Arc::clone(request.namespace.ok_or_else(no_namespace)?);
        let setup = Setup::of(request.nf).map_err(unsupported)?;
        set_up(&namespace, &setup)?;
        steer(&namespace, request.core)?;
        let description = format!("{version}; {}; softirq on core {}", setup.what, request.core);
        Ok(Box::new(Running { namespace, description, core: request.core }))
    }
}

/// Makes the kernel a network function, in a namespace.
fn set_up(namespace: &Namespace, setup: &Setup) -> Result<(), DutError> {
    setup.steps.iter().try_for_each(|step| match step {
        Step::Settings(settings) => namespace.sysctl(settings),
        Step::Ip(script) => namespace.run(IP, script),
        Step::Nft(rules) => namespace.run(NFT, rules),
    })
}

/// Has the kernel handle what both ports receive on this core.
fn steer(namespace: &Namespace, core: usize) -> Result<(), DutError> {
    let mask = mask(core);
    let work = || {
        // Interfaces show in the sysfs that was mounted in their namespace; this thread's own will do.
        let fail = |what: &str, error: nix::Error| format!("{what}: {error}");
        unshare(CloneFlags::CLONE_NEWNS).map_err(|error| fail("mount namespace", error))?;
        let nothing = None::<&str>;
        mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)
            .map_err(|error| fail("private mounts", error))?;
        mount(Some("weir"), "/sys", Some("sysfs"), MsFlags::empty(), nothing)
            .map_err(|error| fail("sysfs", error))?;
        for name in INTERFACES {
            let path = format!("/sys/class/net/{name}/queues/rx-0/rps_cpus");
            fs::write(&path, &mask).map_err(|error| format!("{path}: {error}"))?;
        }
        Ok(())
    };
    namespace.within(work).map_err(|reason| DutError::Network {
        what: format!("packets cannot be steered to core {core}"),
        reason,
    })
}

/// A core as a mask of the kernel's: words of 32 bits, the highest first, commas between them.
fn mask(core: usize) -> String {
    let low = ",00000000".repeat(core / 32);
    format!("{:x}{low}", 1_u32 << (core % 32))
}

impl RunningDut for Running {
    fn description(&self) -> String {
        self.description.clone()
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let (received, sent, at) = interfaces(NAME, &self.namespace)?;
        let cpu = crate::cpu::interrupt_time(self.core).unwrap_or_default();
        Ok(Counters::new(received, sent, cpu, at))
    }

    fn texts(&self) -> Vec<(String, String)> {
        let counted = format!("time of core {} in soft and hard interrupts, in steps of 10 ms", self.core);
        vec![(COUNTED.to_owned(), counted)]
    }

    fn threads(&self) -> Vec<(u32, u32)> {
        Vec::new()
    }

    fn processes(&self) -> Vec<&Process> {
        Vec::new()
    }

    fn ended(&mut self) -> Option<DutError> {
        None
    }

    fn stop(self: Box<Self>) -> Result<(), DutError> {
        Ok(()) // all it was goes with its namespace
    }
}

/// Packets received and sent over both interfaces of a namespace, and when that was.
pub(crate) fn interfaces(dut: &'static str, namespace: &Namespace) -> Result<(u64, u64, Instant), DutError> {
    let asked = Instant::now();
    let read = || fs::read_to_string("/proc/thread-self/net/dev").map_err(|error| error.to_string());
    let answer = namespace.within(read).map_err(|reason| DutError::Network {
        what: "the interfaces' counters cannot be read".to_owned(),
        reason,
    })?;
    let at = asked + asked.elapsed() / 2;
    let expected = "packet counters of port0 and port1";
    match totals(&answer) {
        Some((received, sent)) => Ok((received, sent, at)),
        None => Err(DutError::Answer { dut, answer, expected }),
    }
}

/// Packets received and sent over both ports, from `/proc/net/dev`.
fn totals(text: &str) -> Option<(u64, u64)> {
    let (mut received, mut sent, mut found) = (0, 0, 0);
    for (name, numbers) in text.lines().filter_map(|line| line.split_once(':')) {
        if !INTERFACES.contains(&name.trim()) {
            continue;
        }
        let numbers: Vec<u64> = numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        // Eight columns of receiving, then eight of sending; packets are the second of each.
        received += numbers.get(1)?;
        sent += numbers.get(9)?;
        found += 1;
    }
    (found == INTERFACES.len()).then_some((received, sent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wiring::Veth;
    use weir_testkit::Need;
    use weir_units::FrameSize;

    #[test]
    fn both_ports_are_summed_and_nothing_else() {
        let text = "Inter-|   Receive                            |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       0       9    0    0    0     0          0         0        0       9    0    0    0     0       0          0
 port0:     100       7    0    0    0     0          0         0      200       5    0    0    0     0       0          0
  weir:     100      50    0    0    0     0          0         0      200      60    0    0    0     0       0          0
 port1:     100       3    0    0    0     0          0         0      200       4    0    0    0     0       0          0";
        assert_eq!(totals(text), Some((10, 9)));
        let without = text.lines().filter(|line| !line.contains("port1")).collect::<Vec<_>>().join("\n");
        assert_eq!(totals(&without), None);
    }

    #[test]
    fn a_core_becomes_a_mask_of_the_kernels() {
        assert_eq!(
            [0, 1, 31, 32, 70].map(mask),
            ["1", "2", "80000000", "1,00000000", "40,00000000,00000000"]
        );
    }

    #[test]
    fn the_kernel_takes_every_function_and_large_tables() {
        let (ip, nft) = (Need::Program("ip", "iproute2"), Need::Program("nft", "nftables"));
        if !weir_testkit::needs!(Need::Root, Need::Namespaces, ip, nft) {
            return;
        }
        for nf in [Nf::L2Fwd, Nf::L3Fwd { routes: 1000 }, Nf::Firewall { rules: 300 }] {
            let pairs = Veth::default().lay(FrameSize::MIN).unwrap();
            let setup = Setup::of(nf).unwrap();
            set_up(&pairs.dut, &setup).unwrap();
            let entries = nf.entries().map_or(String::new(), |entries| entries.to_string());
            assert!(setup.what.contains(&entries), "{}", setup.what);
            steer(&pairs.dut, 0).unwrap();
            let mut running =
                Running { namespace: Arc::clone(&pairs.dut), description: String::new(), core: 0 };
            assert_eq!(running.counters().unwrap().received, 0, "nothing comes from nowhere: {nf}");
        }
    }
}
