//! What a test may need of the machine.

use nix::sched::{CloneFlags, unshare};
use std::path::Path;
use std::process::{Command, Stdio};

/// Something that not every machine has.
#[derive(Clone, Debug)]
pub enum Need {
    /// To be root.
    Root,
    /// The right to make network namespaces.
    Namespaces,
    /// A program that is found in `PATH`, and the Debian package that has it.
    Program(&'static str, &'static str),
    /// So many free huge pages of 2 MiB.
    HugePages(u32),
    /// A file or device.
    File(&'static str),
    /// What the test looked for itself: its name, whether it is there, how to get it.
    Found(String, bool, String),
}

impl Need {
    /// What is missing and how to get it; nothing where it is there.
    pub(crate) fn missing(&self) -> Option<String> {
        match self {
            Self::Root => (!nix::unistd::geteuid().is_root()).then(|| "root".to_owned()),
            Self::Namespaces => (!has_namespaces())
                .then(|| "the right to make network namespaces (root, or CAP_SYS_ADMIN)".to_owned()),
            Self::Program(program, package) => {
                (!is_installed(program)).then(|| format!("{program} (apt-get install {package})"))
            }
            Self::HugePages(wanted) => {
                let free = huge_pages_free();
                (free < *wanted).then(|| {
                    format!("{wanted} free huge pages of 2 MiB, of which there are {free} (sysctl vm.nr_hugepages=1024)")
                })
            }
            Self::File(path) => (!Path::new(path).exists()).then(|| (*path).to_owned()),
            Self::Found(name, there, cure) => (!there).then(|| format!("{name} ({cure})")),
        }
    }
}

fn has_namespaces() -> bool {
    // On a thread of its own: it would stay in the namespace.
    std::thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET).is_ok()).join().unwrap_or(false)
}

fn is_installed(program: &str) -> bool {
    // Starting it is the question; what it makes of the option is not.
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok()
}

fn huge_pages_free() -> u32 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}
