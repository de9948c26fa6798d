//! Network namespaces without a name.
//!
//! A namespace here is only an open file of ours. It has no entry in a folder, so there is nothing
//! to sweep: when the lab and the DUT are gone, however they went, the kernel takes it down with
//! every interface, route and rule in it. `lsns -t net` shows it while it lives, and
//! `nsenter --net=/proc/PID/fd/N` (the path stands in the DUT's command line) goes inside.
//!
//! What must happen inside is done by a thread of its own that enters, works and ends; no other
//! thread of the lab ever leaves the namespace it was started in.

use crate::DutError;
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A network namespace, gone when it is dropped and nobody is left in it.
#[derive(Debug)]
pub struct Namespace {
    handle: File,
}

/// Who may make one.
const NEEDS: &str = "network namespaces and veth pairs need root (CAP_SYS_ADMIN and CAP_NET_ADMIN); \
                     run as root, or take the `vhost` wiring, which needs none";

impl Namespace {
    /// Makes one, with nothing in it. IPv6 and forwarding are off, whatever the machine's defaults.
    pub fn new() -> Result<Self, DutError> {
        let made = in_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|error| error.to_string())?;
            File::open("/proc/thread-self/ns/net").map_err(|error| error.to_string())
        });
        let handle = made.map_err(|reason| DutError::Network {
            what: "a network namespace cannot be made".to_owned(),
            reason: format!("{reason}; {NEEDS}"),
        })?;
        let namespace = Self { handle };
        namespace.sysctl(&[
            ("net/ipv4/conf/all/forwarding", "0"),
            ("net/ipv4/conf/default/forwarding", "0"),
            ("net/ipv6/conf/all/disable_ipv6", "1"),
            ("net/ipv6/conf/default/disable_ipv6", "1"),
        ])?;
        Ok(namespace)
    }

    /// One that somebody else made, by its name of `ip netns` or its path; the lab's own without a name.
    pub fn open(name: Option<&str>) -> Result<Self, DutError> {
        let path = match name {
            None => PathBuf::from("/proc/thread-self/ns/net"),
            Some(path) if path.contains('/') => path.into(),
            Some(name) => PathBuf::from("/run/netns").join(name),
        };
        let handle = File::open(&path).map_err(|error| DutError::Network {
            what: format!("the network namespace {} cannot be opened", path.display()),
            reason: format!("{error}; name one that `ip netns` lists, or a path"),
        })?;
        Ok(Self { handle })
    }

    /// The open file that keeps it.
    pub fn handle(&self) -> &File {
        &self.handle
    }

    /// A path that names it while the lab lives.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.handle.as_raw_fd()).into()
    }

    /// Does something inside, on a thread of its own.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
        in_a_thread(|| {
            setns(&self.handle, CloneFlags::CLONE_NEWNET).map_err(|error| error.to_string())?;
            work()
        })
    }

    /// Sets sysctls inside, by their path below `/proc/sys`. What this kernel does not have is
    /// passed over: then there is nothing to switch.
    pub fn sysctl(&self, settings: &[(&str, &str)]) -> Result<(), DutError> {
        let set = || {
            for (name, value) in settings {
                let path = PathBuf::from("/proc/sys").join(name);
                if path.exists() {
                    fs::write(&path, value).map_err(|error| format!("{}: {error}", path.display()))?;
                }
            }
            Ok(())
        };
        self.within(set)
            .map_err(|reason| DutError::Network { what: "a sysctl cannot be set".to_owned(), reason })
    }

    /// Runs a tool inside, with this on its standard input, and waits for its end.
    pub fn run(&self, tool: Tool, input: &str) -> Result<(), DutError> {
        let Tool { program, arguments, package } = tool;
        let run = || {
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
            // Ctrl-C is for the lab: a tool that it ended would look like one that failed.
            command.process_group(0);
            let mut child = command.spawn().map_err(|error| {
                format!("`{program}` cannot be run: {error}; on Debian 12: apt-get install {package}")
            })?;
            let mut stdin = child.stdin.take();
            let written = stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(input.as_bytes()));
            drop(stdin);
            let output = child.wait_with_output().map_err(|error| error.to_string())?;
            match (output.status.success(), written) {
                (true, Ok(())) => Ok(()),
                (true, Err(error)) => Err(error.to_string()),
                (false, _) => {
                    let words = String::from_utf8_lossy(&output.stderr);
                    let words: Vec<&str> = words.lines().take(8).collect();
                    Err(format!("{} ({})", words.join("\n    | "), output.status))
                }
            }
        };
        self.within(run).map_err(|reason| DutError::Network {
            what: format!("`{program} {}` failed", arguments.join(" ")),
            reason,
        })
    }
}

/// A program that reads what it is to do from its standard input.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Program.
    pub program: &'static str,
    /// Its arguments.
    pub arguments: &'static [&'static str],
    /// Debian package that has it.
    pub package: &'static str,
}

/// iproute2: links, routes and neighbours.
pub const IP: Tool = Tool { program: "ip", arguments: &["-batch", "-"], package: "iproute2" };

/// nftables: rules.
pub const NFT: Tool = Tool { program: "nft", arguments: &["-f", "-"], package: "nftables" };

fn in_a_thread<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("weir-netns".into()).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| error.to_string())?;
        thread.join().unwrap_or_else(|_| Err("the thread that entered it died".to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inode(path: &str) -> PathBuf {
        fs::read_link(path).unwrap()
    }

    #[test]
    fn what_is_made_inside_is_not_outside_and_nobody_else_moves() {
        if !weir_testkit::needs!(weir_testkit::Need::Root, weir_testkit::Need::Namespaces) {
            let error = Namespace::new().unwrap_err().to_string();
            assert!(error.contains("need root"), "{error}");
            return;
        }
        let before = inode("/proc/thread-self/ns/net");
        let namespace = Namespace::new().unwrap();
        namespace.run(IP, "link add weirtest type veth peer name weirtest1\n").unwrap();
        let inside = namespace.within(|| Ok(fs::read_to_string("/proc/thread-self/net/dev").unwrap()));
        assert!(inside.unwrap().contains("weirtest1"));
        assert!(!fs::read_to_string("/proc/thread-self/net/dev").unwrap().contains("weirtest"));
        assert_eq!(inode("/proc/thread-self/ns/net"), before);
        assert_ne!(fs::read_link(namespace.path()).unwrap(), before);
    }

    #[test]
    fn a_tool_that_fails_says_which_and_why() {
        if !weir_testkit::needs!(weir_testkit::Need::Root, weir_testkit::Need::Namespaces) {
            return;
        }
        let namespace = Namespace::new().unwrap();
        let error = namespace.run(IP, "link set nothing up\n").unwrap_err().to_string();
        assert!(error.contains("`ip -batch -`") && error.contains("nothing"), "{error}");
        let missing = Tool { program: "/no/such/tool", arguments: &[], package: "a-package" };
        let error = namespace.run(missing, "").unwrap_err().to_string();
        assert!(error.contains("apt-get install a-package"), "{error}");
    }
}
