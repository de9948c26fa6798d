//! Capabilities: which kinds of ports need which, and how the rest is given up.
//!
//! A thread has its own; one that is started has those of the thread that started it. So what is given up while there is
//! one thread is given up by all, and what a worker gives up is its own affair.

use caps::{CapSet, Capability, CapsHashSet};

/// What the ports of a configuration need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rights {
    /// To be opened at the start.
    start: CapsHashSet,
    /// To be opened or closed later.
    later: CapsHashSet,
    /// To join another process's memory, and not after that.
    joining: CapsHashSet,
}

/// Kinds of ports by how their specs begin, and what they need later, and at the start alone.
const PORTS: &[(&str, &[Capability], &[Capability])] = &[
    ("af_packet:", RAW, &[]),
    ("net_af_packet", RAW, &[]),
    ("eth_af_packet", RAW, &[]),
    (
        "net_af_xdp",
        &[Capability::CAP_NET_RAW, Capability::CAP_NET_ADMIN, Capability::CAP_BPF, Capability::CAP_SYS_ADMIN],
        &[Capability::CAP_PERFMON, Capability::CAP_SYS_RESOURCE],
    ),
    ("net_tap", &[Capability::CAP_NET_ADMIN], &[]),
    ("net_tun", &[Capability::CAP_NET_ADMIN], &[]),
    ("net_pcap", &[Capability::CAP_NET_RAW], &[]),
];

/// What raw sockets need.
const RAW: &[Capability] = &[Capability::CAP_NET_RAW, Capability::CAP_NET_ADMIN];

/// What a physical port needs at the start: physical addresses of memory, and registers.
const CARD: &[Capability] = &[Capability::CAP_SYS_ADMIN, Capability::CAP_SYS_RAWIO];

/// What ends of rings need until the memory that they are in is joined: another process's mount namespace, found by its number.
const JOINING: &[Capability] =
    &[Capability::CAP_SYS_ADMIN, Capability::CAP_SYS_CHROOT, Capability::CAP_SYS_PTRACE];

/// What a start may need whatever the ports: memory, cores, low TCP ports, folders of others.
const START: &[Capability] = &[
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_IPC_LOCK,
    Capability::CAP_NET_BIND_SERVICE,
    Capability::CAP_SYS_NICE,
];

/// What becoming a user takes.
const BECOME: &[Capability] =
    &[Capability::CAP_CHOWN, Capability::CAP_SETGID, Capability::CAP_SETPCAP, Capability::CAP_SETUID];

/// What root keeps for ports that may come while it runs. Who wants less becomes a user.
const ROOT: &[Capability] = &[Capability::CAP_NET_RAW, Capability::CAP_NET_ADMIN];

impl Rights {
    /// What ports of these specs need.
    pub(super) fn of<'a>(specs: impl Iterator<Item = &'a str>) -> Self {
        let (mut start, mut later, mut joining) =
            (CapsHashSet::new(), CapsHashSet::new(), CapsHashSet::new());
        for spec in specs {
            // A port with faults stands behind them.
            let faulty = spec.strip_prefix("fault:").and_then(|spec| spec.split_once(':'));
            let spec = faulty.map_or(spec, |(_, spec)| spec);
            for (_, kept, once) in PORTS.iter().filter(|(kind, ..)| spec.starts_with(kind)) {
                later.extend(*kept);
                start.extend(*once);
            }
            if weir_port::is_pci(spec) {
                start.extend(CARD);
            }
            if weir_port::is_ring(spec) {
                joining.extend(JOINING);
            }
        }
        start.extend(&later);
        Self { start, later, joining }
    }

    /// Whether a port needs a program in the kernel.
    pub(super) fn xdp(&self) -> bool {
        self.later.contains(&Capability::CAP_BPF)
    }

    /// Gives up all but what the start needs.
    pub(super) fn keep_for_start(&self, becomes_user: bool) -> Result<(), String> {
        let mut wanted = self.start.clone();
        wanted.extend(&self.joining);
        wanted.extend(START);
        wanted.extend(if becomes_user { BECOME } else { ROOT });
        keep(&wanted)
    }

    /// Gives up what only joining another process's memory needed.
    pub(super) fn have_joined(&self) -> Result<(), String> {
        let had = caps::read(None, CapSet::Permitted).map_err(|error| error.to_string())?;
        let gone = |one: &Capability| self.joining.contains(one) && !self.start.contains(one);
        keep(&had.into_iter().filter(|one| !gone(one)).collect())
    }

    /// Has the capabilities outlive the change of user, on this thread.
    pub(super) fn carry_over(&self) -> Result<(), String> {
        caps::securebits::set_keepcaps(!self.later.is_empty()).map_err(|error| error.to_string())
    }

    /// Gives up all but what ports need that are opened and closed later. The change of user has taken them out of
    /// effect.
    pub(super) fn keep_after_start(&self) -> Result<(), String> {
        let had = caps::read(None, CapSet::Permitted).map_err(|error| error.to_string())?;
        let kept: CapsHashSet = had.intersection(&self.later).copied().collect();
        caps::set(None, CapSet::Permitted, &kept).map_err(|error| error.to_string())?;
        caps::set(None, CapSet::Effective, &kept).map_err(|error| error.to_string())
    }
}

/// Gives up what is not wanted: of what is in effect, and of what could come back.
fn keep(wanted: &CapsHashSet) -> Result<(), String> {
    let told = |error: caps::errors::CapsError| error.to_string();
    let had = caps::read(None, CapSet::Permitted).map_err(told)?;
    // Who has none to give up may not take them from what a program would get; `no_new_privs` does.
    if had.contains(&Capability::CAP_SETPCAP) {
        for gone in caps::read(None, CapSet::Bounding).map_err(told)?.difference(wanted) {
            caps::drop(None, CapSet::Bounding, *gone).map_err(told)?;
        }
    }
    let kept: CapsHashSet = had.intersection(wanted).copied().collect();
    let in_effect = caps::read(None, CapSet::Effective).map_err(told)?;
    caps::clear(None, CapSet::Inheritable).map_err(told)?;
    caps::set(None, CapSet::Effective, &in_effect.intersection(&kept).copied().collect()).map_err(told)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(told)
}

/// Gives up all but folders of others.
pub(super) fn keep_folders() -> Result<(), String> {
    keep(&CapsHashSet::from([Capability::CAP_DAC_OVERRIDE]))
}

/// Gives up all that this thread has.
pub(super) fn drop_all() -> Result<(), String> {
    keep(&CapsHashSet::new())
}

/// Names of what this thread has, in order.
pub(super) fn held() -> Result<Vec<String>, String> {
    let held = caps::read(None, CapSet::Permitted).map_err(|error| error.to_string())?;
    let mut names: Vec<String> = held.iter().map(|one| one.to_string().to_lowercase()).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn names(set: &CapsHashSet) -> BTreeSet<String> {
        set.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_kind_of_port_keeps_what_it_needs_and_no_other_does() {
        let of = |specs: &[&str]| Rights::of(specs.iter().copied());
        let virtual_ones = of(&["net_vhost0,iface=/t/a", "net_memif0,role=server", "null", "trace:a.pcap"]);
        assert!(virtual_ones.start.is_empty() && virtual_ones.later.is_empty() && !virtual_ones.xdp());
        let raw = ["CAP_NET_ADMIN", "CAP_NET_RAW"].map(str::to_owned);
        assert!(of(&["net_vhost0,iface=/t/af_packet:"]).later.is_empty());
        for spec in ["af_packet:eth1", "net_af_packet0,iface=eth1", "fault:drop=1%:af_packet:eth1"] {
            assert_eq!(names(&of(&[spec]).later), raw.clone().into(), "{spec}");
        }
        assert!(of(&["null", "net_af_xdp0,iface=eth1"]).xdp());
        let card = of(&["0000:01:00.0"]);
        assert!(card.later.is_empty() && card.start.contains(&Capability::CAP_SYS_RAWIO));
        let ring = of(&["ring:0:near"]);
        assert!(
            ring.start.is_empty()
                && ring.later.is_empty()
                && ring.joining.contains(&Capability::CAP_SYS_PTRACE)
        );
    }

    #[test]
    fn what_a_thread_gives_up_is_gone_and_others_keep_theirs() {
        let before = held().unwrap();
        let (told, after) = std::thread::spawn(|| (drop_all(), held())).join().unwrap();
        assert_eq!((told, after), (Ok(()), Ok(Vec::new())));
        assert_eq!(held().unwrap(), before);
    }
}
