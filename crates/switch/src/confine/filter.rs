//! What the switch's threads may ask of the kernel (seccomp), by lists of system calls.
//!
//! Why: whoever makes a thread run code of its own, by a flaw in a driver, is to find no way from there to the machine: no
//! program can be started, no process looked into, nothing mounted, no namespace or user entered.
//! Design: lists of what is allowed; all else is answered with `EPERM`. [`everywhere`] holds for all threads of the
//! process, and has what ports, sockets and files need that are opened while it runs. [`workers`] comes on top of it for
//! those that touch packets, which open nothing but files to read, and make no memory executable. [`helpers`] comes on top
//! of it for the process of a port whose peer is not trusted, once the port is open: nothing is opened there any more, no
//! path leads anywhere, and no other process is reached but by what is shared with it already.
//! Cost: some hundred nanoseconds a system call of those whose arguments are looked at; the fast path makes none.

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// How a call is refused that is on no list.
const REFUSED: SeccompAction = SeccompAction::Errno(libc::EPERM as u32);

/// What every thread does: time, memory, waiting, its own end.
const BASE: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fdatasync,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_read,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_stat,
    libc::SYS_statx,
    libc::SYS_time,
    libc::SYS_write,
    libc::SYS_writev,
];

/// What the others do besides: ports, sockets and files that are opened and closed, threads that are started.
const CONTROL: &[c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_access,
    libc::SYS_bind,
    libc::SYS_capget,
    libc::SYS_capset, // which gives none that the thread has not
    libc::SYS_chmod,
    libc::SYS_connect,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_epoll_create,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd,
    libc::SYS_eventfd2,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_flock,
    libc::SYS_fstatfs,
    libc::SYS_ftruncate,
    libc::SYS_get_mempolicy,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getpeername,
    libc::SYS_getppid,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_getsockname,
    libc::SYS_getuid,
    libc::SYS_listen,
    libc::SYS_lstat,
    libc::SYS_mbind,
    libc::SYS_memfd_create,
    libc::SYS_mincore,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_mlockall,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_msync,
    libc::SYS_munlock,
    libc::SYS_munlockall,
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_pipe,
    libc::SYS_pipe2,
    libc::SYS_preadv2,
    libc::SYS_pselect6,
    libc::SYS_pwritev2,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_rmdir,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_seccomp, // what it adds takes more away
    libc::SYS_select,
    libc::SYS_sendfile,
    libc::SYS_set_mempolicy,
    libc::SYS_set_tid_address,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_statfs,
    libc::SYS_sysinfo,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
];

/// What `prctl` is for: names, timers, and more that is taken away.
const PRCTL: &[i32] = &[
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_SET_TIMERSLACK,
    libc::PR_GET_TIMERSLACK,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_SET_VMA,
    libc::PR_CAPBSET_READ,
];

/// Bits of `open`'s flags with which something is written or made.
const WRITES: i32 = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND;

/// What `fcntl` is for: descriptors, their flags, locks of files, seals. Not to say whom a signal is to go to when a descriptor
/// has something: that may be any process of the user's, and any signal.
const FCNTL: &[i32] = &[
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_GETLK,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_GETLK,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
    libc::F_ADD_SEALS,
    libc::F_GET_SEALS,
];

/// The same by `ioctl`, and what puts words into a terminal's mouth.
const NO_IOCTL: &[u64] = &[FIOSETOWN, SIOCSPGRP, libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD];
const FIOSETOWN: u64 = 0x8901;
const SIOCSPGRP: u64 = 0x8902;

/// What the process of an untrusted port does once it is open: DPDK's drivers of vhost and memif accept peers, map memory
/// that these send, and wait for them.
const HELPER: &[c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_epoll_create,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fstat,
    libc::SYS_ftruncate, // of memory for what is under way; what is shared with the switch is sealed
    libc::SYS_futex,
    libc::SYS_get_mempolicy,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_lseek,
    libc::SYS_membarrier,
    libc::SYS_memfd_create, // where a hypervisor wants to keep what is under way
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat, // of a descriptor; what it says of paths is no content
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_statx, // as newfstatat
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_write,
    libc::SYS_writev,
];

/// What it does besides where it connects to its peer, and again when that has gone: by sockets of this machine alone
/// ([`helpers`]).
const CONNECT: &[c_long] = &[libc::SYS_connect];

/// What a helper may say of memory: that of its own mappings it needs less or has use for more. Not that pages which the
/// switch has as well are to go.
const ADVICE: &[i32] = &[
    libc::MADV_NORMAL,
    libc::MADV_RANDOM,
    libc::MADV_SEQUENTIAL,
    libc::MADV_WILLNEED,
    libc::MADV_DONTNEED,
    libc::MADV_FREE,
    libc::MADV_HUGEPAGE,
    libc::MADV_NOHUGEPAGE,
    libc::MADV_DONTDUMP,
    libc::MADV_DODUMP,
];

/// And what a helper's `fcntl` is for.
const HELPER_FCNTL: &[i32] =
    &[libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL, libc::F_GET_SEALS];

/// What AF_XDP ports need besides: a program in the kernel.
const XDP: &[c_long] = &[libc::SYS_bpf, libc::SYS_setrlimit];

/// Calls by their number, each with what its arguments have to be: any of the rules; anything where there is none.
type Calls = BTreeMap<c_long, Vec<SeccompRule>>;

fn arg(place: u8, how: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(place, SeccompCmpArgLen::Dword, how, value)
}

fn any_of(place: u8, values: impl IntoIterator<Item = i32>) -> Result<Vec<SeccompRule>, BackendError> {
    let rule = |value: i32| SeccompRule::new(vec![arg(place, SeccompCmpOp::Eq, value as u32 as u64)?]);
    values.into_iter().map(rule).collect()
}

/// The argument has none of these bits.
fn without(place: u8, bits: i32) -> Result<Vec<SeccompRule>, BackendError> {
    let bits = bits as u32 as u64;
    Ok(vec![SeccompRule::new(vec![arg(place, SeccompCmpOp::MaskedEq(bits), 0)?])?])
}

fn program(
    calls: Calls,
    on_no_list: SeccompAction,
    listed: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(calls, on_no_list, listed, TargetArch::x86_64)?.try_into()
}

fn listed(lists: &[&[c_long]]) -> Calls {
    lists.iter().flat_map(|list| list.iter()).map(|call| (*call, Vec::new())).collect()
}

/// For all threads: signals go to the process itself, by whatever way, threads may be started and processes may not, and no
/// word is put into a terminal's mouth.
pub(super) fn everywhere(process: u32, xdp: bool) -> Result<BpfProgram, BackendError> {
    let mut calls = listed(&[BASE, CONTROL, if xdp { XDP } else { &[] }]);
    calls.extend(signals(process)?);
    calls.insert(libc::SYS_prctl, any_of(0, PRCTL.iter().copied())?);
    calls.insert(libc::SYS_fcntl, any_of(1, FCNTL.iter().copied())?);
    let other: Result<Vec<_>, _> =
        NO_IOCTL.iter().map(|request| arg(1, SeccompCmpOp::Ne, *request)).collect();
    calls.insert(libc::SYS_ioctl, vec![SeccompRule::new(other?)?]);
    let thread = libc::CLONE_THREAD as u32 as u64;
    let thread = SeccompRule::new(vec![arg(0, SeccompCmpOp::MaskedEq(thread), thread)?])?;
    calls.insert(libc::SYS_clone, vec![thread]);
    // Limits may be read; 0 is this process.
    let read = vec![arg(0, SeccompCmpOp::Eq, 0)?, arg(2, SeccompCmpOp::Eq, 0)?];
    calls.insert(libc::SYS_prlimit64, if xdp { Vec::new() } else { vec![SeccompRule::new(read)?] });
    program(calls, REFUSED, SeccompAction::Allow)
}

/// Beside it: `clone3` hides its flags from a filter, and "there is no such call" has the C library call `clone`.
pub(super) fn no_clone3() -> Result<BpfProgram, BackendError> {
    let answer = SeccompAction::Errno(libc::ENOSYS as u32);
    program(listed(&[&[libc::SYS_clone3]]), SeccompAction::Allow, answer)
}

/// For the threads that touch packets.
pub(super) fn workers(process: u32) -> Result<BpfProgram, BackendError> {
    let mut calls = listed(&[BASE]);
    calls.extend(signals(process)?);
    calls.insert(libc::SYS_prctl, any_of(0, PRCTL.iter().copied())?);
    calls.insert(libc::SYS_mmap, without(2, libc::PROT_EXEC)?);
    calls.insert(libc::SYS_mprotect, without(2, libc::PROT_EXEC)?);
    // By which Rust's library makes sure, where it is built for that, that what it closes is open.
    calls.insert(libc::SYS_fcntl, any_of(1, [libc::F_GETFD])?);
    calls.insert(libc::SYS_open, without(1, WRITES)?);
    calls.insert(libc::SYS_openat, without(2, WRITES)?);
    program(calls, REFUSED, SeccompAction::Allow)
}

/// For the process of a port whose peer is not trusted; `connects` where the port connects to its peer.
pub(super) fn helpers(process: u32, connects: bool) -> Result<BpfProgram, BackendError> {
    let mut calls = listed(&[HELPER, if connects { CONNECT } else { &[] }]);
    calls.extend(signals(process)?);
    calls.insert(libc::SYS_prctl, any_of(0, PRCTL.iter().copied())?);
    calls.insert(libc::SYS_mmap, without(2, libc::PROT_EXEC)?);
    calls.insert(libc::SYS_mprotect, without(2, libc::PROT_EXEC)?);
    calls.insert(libc::SYS_madvise, any_of(2, ADVICE.iter().copied())?);
    calls.insert(libc::SYS_fcntl, any_of(1, HELPER_FCNTL.iter().copied())?);
    if connects {
        calls.insert(libc::SYS_socket, any_of(0, [libc::AF_UNIX])?);
    }
    program(calls, REFUSED, SeccompAction::Allow)
}

/// Signals to threads of this process.
fn signals(process: u32) -> Result<Calls, BackendError> {
    let own = || any_of(0, [process as i32]);
    Ok([(libc::SYS_tgkill, own()?), (libc::SYS_kill, own()?)].into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;
    use nix::fcntl::{FallocateFlags, FcntlArg, fallocate, fcntl};
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, unshare};
    use nix::sys::signal::kill;
    use nix::unistd::{Pid, chroot, execv, getppid};
    use std::fs::File;
    use std::io::ErrorKind;
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::Command;
    use weir_dpdk::SharedWords;

    /// What a thread says that has these filters; the other threads of this test's process have none.
    fn confined<T: Send + 'static>(
        filters: Vec<BpfProgram>,
        try_it: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let thread = std::thread::spawn(move || {
            filters.iter().for_each(|filter| seccompiler::apply_filter(filter).unwrap());
            try_it()
        });
        thread.join().unwrap()
    }

    fn control() -> Vec<BpfProgram> {
        vec![everywhere(std::process::id(), false).unwrap(), no_clone3().unwrap()]
    }

    fn worker() -> Vec<BpfProgram> {
        let mut filters = control();
        filters.push(workers(std::process::id()).unwrap());
        filters
    }

    fn helper(connects: bool) -> Vec<BpfProgram> {
        let mut filters = control();
        filters.push(helpers(std::process::id(), connects).unwrap());
        filters
    }

    /// Ways to the machine that no thread has: none of them changes anything here where it is refused.
    fn ways_out() -> Vec<(&'static str, Errno)> {
        let none: Option<&str> = None;
        let program = c"/bin/true";
        let refused = |result: nix::Result<()>| result.err().unwrap_or(Errno::UnknownErrno);
        vec![
            ("execve", refused(execv(program, &[program]).map(|_| ()))),
            (
                "fork",
                Command::new(program.to_str().unwrap())
                    .spawn()
                    .err()
                    .map_or(Errno::UnknownErrno, |error| Errno::from_raw(error.raw_os_error().unwrap_or(0))),
            ),
            ("mount", refused(mount(none, "/nowhere", Some("tmpfs"), MsFlags::empty(), none))),
            ("unshare", refused(unshare(CloneFlags::CLONE_FS))),
            ("chroot", refused(chroot("/"))),
            ("kill", refused(kill(getppid(), None))),
        ]
    }

    #[test]
    fn no_thread_starts_a_program_or_becomes_somebody_else() {
        for (who, filters) in
            [("a control thread", control()), ("a worker", worker()), ("a helper", helper(true))]
        {
            for (way, said) in confined(filters, ways_out) {
                assert_eq!(said, Errno::EPERM, "{who}: {way}");
            }
        }
        // What is tried is otherwise allowed, or fails for another reason: it is the filter that refuses.
        let (child, parent) = (Command::new("/bin/true").status(), kill(getppid(), None));
        assert!(child.unwrap().success() && parent.is_ok());
    }

    #[test]
    fn a_worker_opens_files_to_read_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (there, new) = (folder.path().join("there"), folder.path().join("new"));
        std::fs::write(&there, "text").unwrap();
        let refused = |error: std::io::Result<()>| error.err().map(|error| error.kind());
        let tried = confined(worker(), move || {
            [
                ("read", refused(std::fs::read(&there).map(drop))),
                ("write", refused(File::options().write(true).open(&there).map(drop))),
                ("append", refused(File::options().append(true).open(&there).map(drop))),
                ("make", refused(File::create(&new).map(drop))),
                ("remove", refused(std::fs::remove_file(&there))),
                ("socket", refused(UdpSocket::bind("127.0.0.1:0").map(drop))),
                ("unix socket", refused(UnixListener::bind(&new).map(drop))),
                ("thread", refused(std::thread::Builder::new().spawn(|| ()).map(drop))),
            ]
        });
        for (what, said) in tried {
            let wanted = if what == "read" { None } else { Some(ErrorKind::PermissionDenied) };
            assert_eq!(said, wanted, "{what}");
        }
        assert_eq!(std::fs::read_to_string(folder.path().join("there")).unwrap(), "text");
    }

    #[test]
    fn a_helper_opens_nothing_finds_no_other_process_and_serves_its_peer() {
        let folder = tempfile::tempdir().unwrap();
        let (there, socket) = (folder.path().join("there"), folder.path().join("socket"));
        std::fs::write(&there, "text").unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        let _waits = UnixStream::connect(&socket).unwrap();
        let (ours, memory) = SharedWords::create(512).unwrap();
        let (path, parent) = (there.clone(), getppid());
        let refused = |error: std::io::Result<()>| error.err().map(|error| error.kind());
        let tried = confined(helper(false), move || {
            let core = CpuSet::new();
            let own: std::io::Result<()> = UnixStream::connect(&socket).map(drop);
            let peer = listener.accept().map(drop);
            // Seals hold without any filter; a hole would have the switch find memory anew, and maybe none.
            let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            let mapped = SharedWords::open(memory.try_clone().unwrap(), 512);
            mapped.as_ref().unwrap().words()[1].store(7, std::sync::atomic::Ordering::Relaxed);
            [
                ("its peer", refused(peer)),
                ("shared memory", refused(mapped.map(drop))),
                ("read", refused(std::fs::read(&path).map(drop))),
                ("list", refused(std::fs::read_dir(&path).map(drop))),
                ("make", refused(File::create(&path).map(drop))),
                ("remove", refused(std::fs::remove_file(&path))),
                ("rename", refused(std::fs::rename(&path, path.with_extension("new")))),
                ("connect", refused(own)),
                ("socket", refused(UdpSocket::bind("127.0.0.1:0").map(drop))),
                ("thread", refused(std::thread::Builder::new().spawn(|| ()).map(drop))),
                ("another's core", refused(sched_setaffinity(parent, &core).map_err(Into::into))),
                ("hole", refused(fallocate(&memory, hole, 0, 4096).map_err(Into::into))),
                ("pipe", refused(fcntl(&memory, FcntlArg::F_SETPIPE_SZ(4096)).map(drop).map_err(Into::into))),
            ]
        });
        for (what, said) in tried {
            let may = ["its peer", "shared memory"].contains(&what);
            let wanted = if may { None } else { Some(ErrorKind::PermissionDenied) };
            assert_eq!(said, wanted, "{what}");
        }
        assert_eq!(ours.words()[1].load(std::sync::atomic::Ordering::Relaxed), 7);
        assert_eq!(std::fs::read_to_string(there).unwrap(), "text");
    }

    #[test]
    fn a_helper_that_connects_to_its_peer_may_do_that_besides() {
        let folder = tempfile::tempdir().unwrap();
        let (there, socket) = (folder.path().join("there"), folder.path().join("socket"));
        std::fs::write(&there, "text").unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        let (connected, others) = confined(helper(true), move || {
            let others = [
                ("a file", std::fs::read(&there).map(drop)),
                ("the network", UdpSocket::bind("127.0.0.1:0").map(drop)),
                ("the network", std::net::TcpStream::connect("127.0.0.1:9").map(drop)),
            ];
            (
                UnixStream::connect(&socket).map(drop),
                others.map(|(what, tried)| (what, tried.map_err(|e| e.kind()))),
            )
        });
        assert!(connected.is_ok(), "{connected:?}");
        for (what, tried) in others {
            assert_eq!(tried, Err(ErrorKind::PermissionDenied), "{what}");
        }
    }

    #[test]
    fn no_descriptor_sends_signals_to_others() {
        // Those that say to whom, and which: not to be had by other names, and not on the list.
        let say_whom = [8, 10, 15]; // F_SETOWN, F_SETSIG, F_SETOWN_EX
        assert!(say_whom.iter().all(|command| !FCNTL.contains(command) && !HELPER_FCNTL.contains(command)));
        for filters in [control(), worker(), helper(false)] {
            let file = tempfile::tempfile().unwrap();
            let (unlisted, listed) = confined(filters, move || {
                (fcntl(&file, FcntlArg::F_SETPIPE_SZ(4096)), fcntl(&file, FcntlArg::F_GETFD))
            });
            assert_eq!((unlisted, listed.is_ok()), (Err(Errno::EPERM), true));
        }
    }

    #[test]
    fn a_control_thread_opens_what_ports_and_controllers_need() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        confined(control(), move || {
            std::fs::write(path.join("capture"), "packets").unwrap();
            UnixListener::bind(path.join("socket")).unwrap();
            TcpListener::bind("127.0.0.1:0").unwrap();
            let thread = std::thread::Builder::new().name("new".to_owned()).spawn(|| 7).unwrap();
            assert_eq!(thread.join().unwrap(), 7);
            kill(Pid::this(), None).unwrap();
        });
    }

    #[test]
    fn no_list_has_what_leads_out() {
        let hostile = [
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_fork,
            libc::SYS_vfork,
            libc::SYS_clone3,
            libc::SYS_bpf,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_kexec_load,
            libc::SYS_io_uring_setup,
            libc::SYS_userfaultfd,
            libc::SYS_perf_event_open,
            libc::SYS_keyctl,
            libc::SYS_setns,
            libc::SYS_pidfd_getfd,
            libc::SYS_open_by_handle_at,
        ];
        for list in [BASE, CONTROL, HELPER, CONNECT] {
            assert!(list.iter().all(|call| !hostile.contains(call)));
        }
    }
}
