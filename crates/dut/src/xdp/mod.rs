//! `xdp`: programs of ours in the kernel of this machine (XDP), over the `veth` wiring.
//!
//! Each port's interface has a program in its driver ([`programs`]), assembled here and loaded by system calls, without a
//! compiler or a library. It goes with the open file that holds it there, so that nothing is left however the lab ends.
//!
//! A veth interface runs such a program where its packets are polled (NAPI). That is put into a thread of the kernel for
//! each port (`threaded`), which is kept to the DUT's core; its CPU time is the device's. Handing over to the interface
//! opposite is in it. The tester's ends take redirected packets only while they are
//! polled as well ([`Adapter::wants_polled_ends`]). Counters are those of the two interfaces.

mod assembly;
mod programs;

use crate::namespace::Namespace;
use crate::process::Process;
use crate::wiring::{INTERFACES, WiringKind};
use crate::{Adapter, Counters, DutError, RunningDut, StartRequest, cpu, linux};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::utsname::uname;
use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_cpu::{BpfLink, BpfPrefixes, BpfProgram};
use weir_trial::{Nf, NfKind};
use weir_units::Nanos;
use weir_wire::table::{next_hop_mac, port_mac};

const NAME: &str = "xdp";

/// Most rules of a filter: with more, the kernel's verifier gives up.
const MOST_RULES: u32 = 2000;

/// How long the kernel may take to start its threads.
const THREADS_PATIENCE: Duration = Duration::from_secs(2);

/// The adapter.
pub(crate) struct Xdp;

struct Running {
    /// Held for as long as the programs are to stay.
    _links: Vec<BpfLink>,
    namespace: Arc<Namespace>,
    description: String,
    threads: Vec<u32>,
}

impl Adapter for Xdp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "programs in the drivers of the kernel's interfaces (XDP): redirection, longest prefix, rules (needs root)"
    }

    fn wirings(&self) -> &'static [WiringKind] {
        &[WiringKind::Veth]
    }

    fn wants_polled_ends(&self) -> bool {
        true
    }

    fn supports(&self, nf: Nf) -> Result<(), String> {
        match nf {
            Nf::L2Fwd | Nf::L3Fwd { .. } => Ok(()),
            Nf::Firewall { rules } if rules > MOST_RULES => {
                Err(format!("the kernel's verifier looks at {MOST_RULES} rules of a program at most"))
            }
            Nf::Firewall { .. } => Ok(()),
            _ => Err(crate::wants_tables(NAME, nf)),
        }
    }

    fn version(&self) -> Result<String, DutError> {
        let kernel = uname().map(|name| name.release().to_string_lossy().into_owned());
        Ok(format!("Linux {}, XDP", kernel.unwrap_or_else(|_| "of unknown version".to_owned())))
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let unsupported = |reason| DutError::Unsupported { dut: NAME, nf: request.nf, reason };
        self.supports(request.nf).map_err(unsupported)?;
        let version = self.version()?;
        let no_namespace = || unsupported("it needs a wiring with a network namespace (veth)".to_owned());
        let namespace = Arc::clone(request.namespace.ok_or_else(no_namespace)?);
        let before = pollers();
        let nf = request.nf;
        let links = namespace.within(|| attach(nf)).map_err(|reason| DutError::Network {
            what: format!("{NAME}: a program for {nf} cannot be put into the interfaces"),
            reason: format!(
                "{reason}; this needs root (CAP_BPF, CAP_NET_ADMIN) and a kernel with XDP in veth"
            ),
        })?;
        let threads = keep_to_core(&namespace, &before, request.core)?;
        let what = match nf.kind() {
            NfKind::L2Fwd => "redirection".to_owned(),
            NfKind::L3Fwd => format!("{} prefixes in a trie", nf.routes().len()),
            _ => format!("{} rules, one after the other", nf.rules().len()),
        };
        let description = format!("{version}; {what}; polled by threads on core {}", request.core);
        Ok(Box::new(Running { _links: links, namespace, description, threads }))
    }
}

/// Puts a function into both interfaces of this thread's namespace.
fn attach(nf: Nf) -> Result<Vec<BpfLink>, String> {
    let number =
        |name: &&str| nix::net::if_::if_nametoindex(*name).map_err(|error| format!("{name}: {error}"));
    let ports = INTERFACES.iter().map(number).collect::<Result<Vec<u32>, _>>()?;
    let table = match nf.kind() {
        NfKind::L3Fwd => Some(table(nf, &ports)?),
        _ => None,
    };
    let mut links = Vec::new();
    for (port, other) in ports.iter().zip(ports.iter().rev()) {
        let code = match &table {
            Some(table) => programs::router(table.number())?,
            None if nf.kind() == NfKind::L2Fwd => programs::forward(*other)?,
            None => programs::filter(&nf.rules(), *other)?,
        };
        let program = BpfProgram::xdp(NAME, &code).map_err(|error| error.to_string())?;
        links.push(program.attach(*port).map_err(|error| format!("interface {port}: {error}"))?);
    }
    Ok(links)
}

/// The routes of a function, as the kernel's table.
fn table(nf: Nf, ports: &[u32]) -> Result<BpfPrefixes, String> {
    let routes = nf.routes();
    let room = u32::try_from(routes.len()).map_err(|error| error.to_string())?;
    let told = |error: std::io::Error| format!("a table of {room} prefixes: {error}");
    let table = BpfPrefixes::new(programs::ROUTE, room.max(1)).map_err(told)?;
    for route in &routes {
        let value =
            programs::route(ports[usize::from(route.port)], next_hop_mac(route.port), port_mac(route.port));
        table.insert(route.prefix.address().octets(), route.prefix.bits(), &value).map_err(told)?;
    }
    Ok(table)
}

/// The kernel's threads that poll interfaces of our names, on the whole machine.
fn pollers() -> BTreeSet<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let polls = |thread: &u32| {
        let name = fs::read_to_string(format!("/proc/{thread}/comm")).unwrap_or_default();
        INTERFACES.iter().any(|interface| name.starts_with(&format!("napi/{interface}-")))
    };
    all.filter(polls).collect()
}

/// Has both interfaces polled by threads, and keeps these to a core.
fn keep_to_core(namespace: &Namespace, before: &BTreeSet<u32>, core: usize) -> Result<Vec<u32>, DutError> {
    let wrong = |reason: String| DutError::Network {
        what: format!("{NAME}: the interfaces cannot be polled on core {core}"),
        reason,
    };
    namespace.within(threaded).map_err(wrong)?;
    let end = Instant::now() + THREADS_PATIENCE;
    let threads = loop {
        let threads: Vec<u32> = pollers().difference(before).copied().collect();
        if threads.len() == INTERFACES.len() {
            break threads;
        }
        if Instant::now() > end {
            return Err(wrong(format!("the kernel started {} threads for two interfaces", threads.len())));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    for thread in &threads {
        let mut cores = nix::sched::CpuSet::new();
        let set = cores
            .set(core)
            .and_then(|()| nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(*thread as i32), &cores));
        set.map_err(|error| wrong(format!("thread {thread}: {error}")))?;
    }
    Ok(threads)
}

/// Has the kernel poll both interfaces of this thread's namespace by threads of their own.
fn threaded() -> Result<(), String> {
    // Interfaces show in the sysfs that was mounted in their namespace; this thread's own will do.
    let fail = |what: &str, error: nix::Error| format!("{what}: {error}");
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| fail("mount namespace", error))?;
    let nothing = None::<&str>;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)
        .map_err(|error| fail("private mounts", error))?;
    mount(Some("weir"), "/sys", Some("sysfs"), MsFlags::empty(), nothing)
        .map_err(|error| fail("sysfs", error))?;
    for name in INTERFACES {
        let path = format!("/sys/class/net/{name}/threaded");
        fs::write(&path, "1").map_err(|error| format!("{path}: {error} (Linux has it from 5.12 on)"))?;
    }
    Ok(())
}

impl RunningDut for Running {
    fn description(&self) -> String {
        self.description.clone()
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let (received, sent, at) = linux::interfaces(NAME, &self.namespace)?;
        let cpu =
            self.threads.iter().filter_map(|thread| cpu::thread_cpu(*thread, *thread)).map(|cpu| cpu.0).sum();
        Ok(Counters::new(received, sent, Nanos(cpu), at))
    }

    fn threads(&self) -> Vec<(u32, u32)> {
        self.threads.iter().map(|thread| (*thread, *thread)).collect()
    }

    fn processes(&self) -> Vec<&Process> {
        Vec::new()
    }

    fn ended(&mut self) -> Option<DutError> {
        None
    }

    fn stop(self: Box<Self>) -> Result<(), DutError> {
        Ok(()) // programs go with the files that hold them, all else with the namespace
    }
}
