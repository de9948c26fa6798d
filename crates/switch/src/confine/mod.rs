//! What the process keeps of its rights once it has what it needs.
//!
//! Design, in the order in which it is done:
//! 1. [`Confinement::begin`], while there is one thread: capabilities that no port and no option calls for go, for good;
//!    nothing that is started gets more than it had (`no_new_privs`).
//! 2. The switch starts, and opens what is configured.
//! 3. [`Confinement::finish`]: it becomes the user that it was told, with the capabilities that its kinds of ports need
//!    to be opened or closed again, on the one thread that opens ports; then each thread gets its filter of system calls
//!    ([`filter`]).
//!
//! A switch with a port of an untrusted peer starts another process before all that, which starts helpers, once it has given up
//! what these do not need ([`confine_keeper`]); each helper gives up more ([`confine_helper`]).
//!
//! Threads: all of them. Users and the first filters are changed for the whole process at once; each worker confines
//! itself, between two bursts.

mod filter;
mod rights;

use crate::Settings;
use crate::http::MetricsAt;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl;
use nix::unistd::{Gid, Pid, Uid, User, getgrouplist, setgroups, setresgid, setresuid};
use rights::Rights;
use seccompiler::{BackendError, BpfProgram};
use std::ffi::CString;
use std::fmt;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_agent::channel::Listen;
use weir_cpu::allowed_cores;
use weir_port::apart::{Keeper, Step};

/// Why a switch could not give up what it does not need.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The user to become cannot be.
    #[error("--user {name}: {reason}")]
    User {
        /// As asked for.
        name: String,
        /// Why not, and how to mend it.
        reason: String,
    },
    /// The process that starts helpers of ports.
    #[error("no process can be started for untrusted ports: {0}")]
    Keeper(std::io::Error),
    /// Capabilities.
    #[error("capabilities cannot be given up: {0}")]
    Capabilities(String),
    /// System calls.
    #[error(
        "the kernel takes no filter of system calls: {0}; it needs CONFIG_SECCOMP_FILTER. Without one every call of the \
         kernel is open to whoever finds a flaw: say so by --no-seccomp, or seccomp = false"
    )]
    Filter(String),
}

/// What is to be given up, and when.
#[derive(Debug)]
pub struct Confinement {
    user: Option<User>,
    rights: Rights,
    filters: bool,
    xdp: bool,
    /// Sockets that are to be the new user's.
    sockets: Vec<PathBuf>,
}

/// What the process has kept, as it says at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The user that it became.
    pub user: Option<String>,
    /// Capabilities that it has, by name.
    pub capabilities: Vec<String>,
    /// Whether its system calls are filtered.
    pub filtered: bool,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.capabilities.join(", ");
        let capabilities = if names.is_empty() { "no capability" } else { &names };
        if let Some(user) = &self.user {
            write!(f, "as user {user} with {capabilities}")?;
        } else {
            write!(f, "with {capabilities}")?;
        }
        if self.filtered { Ok(()) } else { f.write_str(", system calls not filtered") }
    }
}

impl Confinement {
    /// Finds out what is to be kept, and gives up at once what nothing calls for. The process has one thread yet.
    ///
    /// # Errors
    /// A user that there is not, or that this process may not become.
    pub fn begin(settings: &Settings) -> Result<Self, ConfineError> {
        let user = settings.user.as_deref().map(find).transpose()?;
        if settings.ports.iter().any(|port| weir_port::is_apart(&port.spec)) {
            Keeper::start(keeper(settings)).map_err(ConfineError::Keeper)?;
        }
        let rights = Rights::of(settings.ports.iter().map(|port| port.spec.as_str()));
        rights.keep_for_start(user.is_some()).map_err(ConfineError::Capabilities)?;
        prctl::set_no_new_privs().map_err(|error| ConfineError::Capabilities(error.to_string()))?;
        let listen = settings.openflow.listen.iter().filter_map(|at| match at {
            Listen::Unix(path) => Some(path.clone()),
            Listen::Tcp { .. } => None,
        });
        let metrics = match &settings.metrics {
            Some(MetricsAt::Unix(path)) => Some(path.clone()),
            _ => None,
        };
        let sockets = listen.chain(settings.control.clone()).chain(metrics).collect();
        Ok(Self { user, xdp: rights.xdp(), rights, filters: settings.seccomp, sockets })
    }

    /// Gives up what only joining another process's memory needed.
    pub(crate) fn joined(settings: &Settings) -> Result<(), ConfineError> {
        let rights = Rights::of(settings.ports.iter().map(|port| port.spec.as_str()));
        rights.have_joined().map_err(ConfineError::Capabilities)
    }

    /// Gives up what only the start needed. `each_worker` has every worker's thread do something between two bursts.
    ///
    /// # Errors
    /// What the kernel refuses. Some of it may have been given up.
    pub fn finish(
        self,
        each_worker: impl FnOnce(fn() -> Result<(), String>) -> Result<(), String>,
    ) -> Result<Kept, ConfineError> {
        if let Some(user) = &self.user {
            become_user(user, &self.rights, &self.sockets)?;
        }
        if self.filters {
            filter_all([filter::everywhere(std::process::id(), self.xdp), filter::no_clone3()])?;
            each_worker(confine_worker).map_err(ConfineError::Filter)?;
        } else {
            each_worker(rights::drop_all).map_err(ConfineError::Capabilities)?;
        }
        let capabilities = rights::held().map_err(ConfineError::Capabilities)?;
        Ok(Kept { user: self.user.map(|user| user.name), capabilities, filtered: self.filters })
    }
}

/// Filters the system calls of all threads.
fn filter_all(
    programs: impl IntoIterator<Item = Result<BpfProgram, BackendError>>,
) -> Result<(), ConfineError> {
    for program in programs {
        let program = program.map_err(|error| ConfineError::Filter(error.to_string()))?;
        seccompiler::apply_filter_all_threads(&program)
            .map_err(|error| ConfineError::Filter(error.to_string()))?;
    }
    Ok(())
}

/// The command of the process that starts helpers: this program, with the rights of the user that the switch will be.
fn keeper(settings: &Settings) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("weir").args(["port-helper", "--keep"]);
    if let Some(user) = &settings.user {
        command.args(["--user", user]);
    }
    command.args((!settings.seccomp).then_some("--no-seccomp"));
    let cores: Vec<String> = settings.cores().iter().map(usize::to_string).collect();
    command.args(["--workers", &cores.join(",")]);
    command
}

/// What the process gives up that starts helpers: all but the right to make sockets in folders of others, and that too
/// where it becomes a user; and the cores of the workers, if it may use another, so that helpers start beside those. It has
/// one thread.
///
/// # Errors
/// A user that it may not become; what the kernel refuses.
pub fn confine_keeper(user: Option<&str>, workers: &[usize]) -> Result<(), ConfineError> {
    let (user, rights) = (user.map(find).transpose()?, Rights::of(std::iter::empty()));
    keep_off(workers);
    let kept = match &user {
        Some(_) => rights.keep_for_start(true),
        None => rights::keep_folders(),
    };
    kept.map_err(ConfineError::Capabilities)?;
    prctl::set_no_new_privs().map_err(|error| ConfineError::Capabilities(error.to_string()))?;
    user.map_or(Ok(()), |user| become_user(&user, &rights, &[]))
}

/// Keeps this thread, and those that it starts, off these cores, where it may use others.
fn keep_off(cores: &[usize]) {
    let mut others = CpuSet::new();
    let allowed = allowed_cores();
    let mut free = allowed.iter().filter(|core| !cores.contains(core)).peekable();
    if free.peek().is_some() {
        // A core that cannot be in the set is one beside which there are a thousand.
        for core in free {
            let _ = others.set(*core);
        }
        let _ = sched_setaffinity(Pid::from_raw(0), &others); // it may use them all
    }
}

/// What a helper gives up, step by step: first what a switch's control thread has not; then every file and process but
/// its peer and its memory. The last has rights of its own left, if `--user` was not given, on threads that DPDK started.
///
/// # Errors
/// What the kernel refuses.
pub fn confine_helper(step: Step) -> Result<(), ConfineError> {
    match step {
        Step::Open => filter_all([filter::everywhere(std::process::id(), false), filter::no_clone3()]),
        Step::Serve { connects } => {
            rights::drop_all().map_err(ConfineError::Capabilities)?;
            filter_all([filter::helpers(std::process::id(), connects)])
        }
    }
}

/// What a worker gives up, on its own thread.
fn confine_worker() -> Result<(), String> {
    rights::drop_all()?;
    let program = filter::workers(std::process::id()).map_err(|error| error.to_string())?;
    seccompiler::apply_filter(&program).map_err(|error| error.to_string())
}

/// The user of a name, if this process may become it.
fn find(name: &str) -> Result<User, ConfineError> {
    let wrong = |reason: String| ConfineError::User { name: name.to_owned(), reason };
    let found = User::from_name(name).map_err(|error| wrong(error.to_string()))?;
    let user =
        found.ok_or_else(|| wrong("there is no such user; `useradd --system` makes one".to_owned()))?;
    if user.uid.is_root() {
        return Err(wrong("that is root, who may do everything; name a user without rights".to_owned()));
    }
    if !Uid::effective().is_root() && Uid::effective() != user.uid {
        return Err(wrong(
            "only root can become another user; start the switch as root, or as that user".to_owned(),
        ));
    }
    Ok(user)
}

/// Becomes a user, on all threads, keeping the capabilities that ports need on this one.
fn become_user(user: &User, rights: &Rights, sockets: &[PathBuf]) -> Result<(), ConfineError> {
    let wrong = |what: &str, error: &dyn fmt::Display| ConfineError::User {
        name: user.name.clone(),
        reason: format!("{what}: {error}"),
    };
    if Uid::effective() == user.uid {
        return Ok(()); // as which it was started
    }
    for socket in sockets.iter().filter(|path| Path::exists(path)) {
        chown(socket, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
            .map_err(|error| wrong(&format!("its socket {}", socket.display()), &error))?;
    }
    let name = CString::new(user.name.as_str()).map_err(|error| wrong("its name", &error))?;
    let groups: Vec<Gid> = getgrouplist(&name, user.gid).map_err(|error| wrong("its groups", &error))?;
    rights.carry_over().map_err(|error| wrong("capabilities", &error))?;
    setgroups(&groups).map_err(|error| wrong("its groups", &error))?;
    setresgid(user.gid, user.gid, user.gid).map_err(|error| wrong("its group", &error))?;
    setresuid(user.uid, user.uid, user.uid).map_err(|error| wrong("its number", &error))?;
    rights.keep_after_start().map_err(ConfineError::Capabilities)
}
