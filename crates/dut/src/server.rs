//! Devices on another machine: how a process there is started, what it needs there, and what that machine is.
//!
//! Over ssh the device is a child of a shell of that machine, whose standard input and output are the lab's: commands, answers
//! and the end go the same way as here, and a connection that breaks ends its input and so the device. Its files
//! come before its first command, into a folder of that machine's that goes with it. `ssh` is the system's, with the user's keys and
//! configuration; it asks for nothing (`BatchMode`). A network namespace stands for a machine here: the device is a child of the lab inside of it.
//!
//! What the lab reads of the kernel (threads, their waits, real-time priority, a device's memory) is this machine's, and is
//! nothing for a device over ssh; CPU time is what the device says itself.
//!
//! Costs: a connection a start, and one for each question before. Threads: none of our own.

use crate::DutError;
use crate::process::Process;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use weir_trial::Server;

/// What is said of each trouble on the way.
const DUT: &str = "server";

/// How `ssh` is started: it asks nobody, and tells soon that a machine is gone.
const SSH: [&str; 8] = [
    "-T",
    "-oBatchMode=yes",
    "-oConnectTimeout=5",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
    "-oLogLevel=ERROR",
    "-oControlMaster=no",
    "-oForwardX11=no",
];

/// What a machine is asked once: each fact a line, its name first. What it does not have it leaves out.
const FACTS: &str = r#"
say() { [ -n "$2" ] && echo "$1: $2"; }
say host "$(uname -n)"
say kernel "$(uname -srm)"
say system "$(. /etc/os-release 2>/dev/null && echo "$PRETTY_NAME")"
say processor "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
say cores "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
say memory "$(sed -n 's/^MemTotal: *//p' /proc/meminfo)"
say 'free huge pages' "$(sed -n 's/^HugePages_Free: *//p' /proc/meminfo)"
say governor "$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null)"
say 'kernel command line' "$(cat /proc/cmdline 2>/dev/null)"
say hypervisor "$(cat /sys/hypervisor/type 2>/dev/null || (grep -q ' hypervisor' /proc/cpuinfo && echo yes))"
"#;

/// A machine as it says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Each fact a line.
    pub text: String,
    /// The cores that a process of ours may use there, rising.
    pub cores: Vec<usize>,
    /// Huge pages of 2 MiB that are free.
    pub huge_pages: u64,
}

impl Facts {
    fn of(text: String) -> Self {
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let cores = value("cores").map(listed).unwrap_or_default();
        let huge_pages = value("free huge pages").and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        Self { cores, huge_pages, text }
    }
}

/// A list of the kernel's: `0-2,5`.
fn listed(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// What is known of machines already: each is asked once.
static KNOWN: Mutex<Option<HashMap<String, Result<Facts, String>>>> = Mutex::new(None);

/// What a server is; asked once for as long as the lab lives.
///
/// # Errors
///
/// Why it cannot be reached, and what to do.
pub fn facts(server: &Server) -> Result<Facts, String> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    known.entry(server.to_string()).or_insert_with(|| run(server, FACTS).map(Facts::of)).clone()
}

/// The command that runs a line of a shell on a server.
fn shell(server: &Server, line: &str) -> (OsString, Vec<OsString>) {
    let words: Vec<String> = match server {
        Server::Ssh(place) => {
            let (port, host) = Server::destination(place);
            let port = port.map(|port| format!("-p{port}"));
            let own = SSH.map(str::to_owned).into_iter().chain(port);
            // The other machine's shell reads one word; ours is in it.
            own.chain(["--".to_owned(), host.to_owned(), format!("exec sh -c {}", quoted(line))]).collect()
        }
        Server::Namespace(name) => {
            let inside = format!("--net={}", Path::new("/run/netns").join(name).display());
            [inside, "--".to_owned(), "sh".to_owned(), "-c".to_owned(), line.to_owned()].into()
        }
    };
    let program = if matches!(server, Server::Ssh(_)) { "ssh" } else { "nsenter" };
    (program.into(), words.into_iter().map(OsString::from).collect())
}

/// Runs a script there to its end; what it printed.
fn run(server: &Server, script: &str) -> Result<String, String> {
    let (program, arguments) = shell(server, script);
    let mut command = Command::new(&program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().map_err(|error| {
        format!(
            "`{}` cannot be run: {error}; on Debian: apt-get install openssh-client util-linux",
            program.display()
        )
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().lines().take(4).collect::<Vec<_>>().join("; ");
    Err(format!("{server} cannot be reached: {said}; {}", remedy(server)))
}

fn remedy(server: &Server) -> String {
    match server {
        Server::Ssh(place) => {
            let (port, host) = Server::destination(place);
            let port = port.map_or_else(String::new, |port| format!("-p {port} "));
            format!("`ssh -oBatchMode=yes {port}{host} true` must succeed without a question")
        }
        Server::Namespace(name) => format!("as root, `ip netns add {name}` makes such a namespace"),
    }
}

/// A word of a shell that stands for itself.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Weir's own program on a machine over ssh: at the same path as here, else the one that it finds by name. It must be of the
/// same version.
pub(crate) fn own_program(server: &Server) -> Result<PathBuf, DutError> {
    let here = crate::nf::program()?;
    let refuse = |reason: String| DutError::Network { what: format!("`weir` on {server}"), reason };
    let path = quoted(&here.display().to_string());
    let script = format!(
        "p={path}; [ -x \"$p\" ] || p=$(command -v weir) || {{ echo 'no program weir' >&2; exit 1; }}; echo \"$p\"; \"$p\" --version"
    );
    let said = run(server, &script).map_err(|error| {
        refuse(format!("{error}; put the program there, at {} or by the name weir in PATH", here.display()))
    })?;
    let mut lines = said.lines();
    let (Some(found), Some(version)) = (lines.next(), lines.next()) else {
        return Err(refuse(format!("it says `{}`, and a path and a version were expected", said.trim())));
    };
    let own = format!("weir {}", env!("CARGO_PKG_VERSION"));
    if !version.starts_with(&own) {
        return Err(refuse(format!(
            "{found} is {version}, and the lab is {own}; put the same version there"
        )));
    }
    Ok(found.into())
}

/// A device's process on a machine over ssh, before it is started.
pub(crate) struct Far<'a> {
    pub(crate) server: &'a Server,
    pub(crate) program: &'a Path,
    pub(crate) arguments: &'a [String],
    /// Where its files are here: what its arguments name below is named below its folder there.
    pub(crate) folder: &'a Path,
}

impl Far<'_> {
    /// The line of that machine's shell, for files of these lengths, which come by its standard input: it makes a folder of its own, and removes it.
    fn line(&self, files: &[(String, String)]) -> String {
        let mut line = "umask 077; d=$(mktemp -d) || exit 1; trap 'rm -rf \"$d\"' EXIT; ".to_owned();
        for (name, text) in files {
            line += &format!("head -c {} > \"$d/\"{} || exit 1; ", text.len(), quoted(name));
        }
        let here = self.folder.display().to_string();
        let word = |argument: &String| argument.split(&here).map(quoted).collect::<Vec<_>>().join("\"$d\"");
        let words: Vec<String> = self.arguments.iter().map(word).collect();
        line + &format!("{} {}", quoted(&self.program.display().to_string()), words.join(" "))
    }

    /// Starts it, with the files of its folder.
    pub(crate) fn start(
        &self,
        dut: &'static str,
        alarm: std::sync::Arc<std::sync::atomic::AtomicBool>,
    ) -> Result<Process, DutError> {
        let files = self.files()?;
        let (program, arguments) = shell(self.server, &self.line(&files));
        let mut process = Process::start(dut, &program, &arguments, alarm)?;
        for (_, text) in &files {
            process.give(text.as_bytes())?;
        }
        Ok(process)
    }

    /// The plain files of its folder here, by name.
    fn files(&self) -> Result<Vec<(String, String)>, DutError> {
        let unread = |error: std::io::Error| DutError::Network {
            what: format!("{DUT}: the device's files in {}", self.folder.display()),
            reason: error.to_string(),
        };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(self.folder).map_err(unread)? {
            let entry = entry.map_err(unread)?;
            if entry.file_type().map_err(unread)?.is_file() {
                let text = std::fs::read_to_string(entry.path()).map_err(unread)?;
                files.push((entry.file_name().to_string_lossy().into_owned(), text));
            }
        }
        files.sort();
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_machine_is_what_it_says() {
        let text = "host: far\ncores: 0-2,5\nfree huge pages: 12\n";
        let facts = Facts::of(text.to_owned());
        assert_eq!((facts.cores.as_slice(), facts.huge_pages), (&[0, 1, 2, 5][..], 12));
        let nothing = Facts::of(String::new());
        assert_eq!((nothing.cores.len(), nothing.huge_pages), (0, 0));
    }

    #[test]
    fn the_script_of_facts_runs_in_a_shell_of_this_machine() {
        let output = Command::new("sh").args(["-c", FACTS]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let facts = Facts::of(String::from_utf8(output.stdout).unwrap());
        assert!(facts.text.contains("kernel: Linux") && !facts.cores.is_empty(), "{facts:?}");
    }

    #[test]
    fn files_come_before_the_device_and_its_folder_there_goes_with_it() {
        let folder = crate::folder::Folder::new().unwrap();
        let file = folder.write("it's.txt", "one\ntwo").unwrap();
        let far = Far {
            server: &Server::Namespace("x".to_owned()),
            program: Path::new("sh"),
            arguments: &[
                "-c".to_owned(),
                "cat \"$1\"; cat; echo \" $1\"".to_owned(),
                "sh".to_owned(),
                file.display().to_string(),
            ],
            folder: folder.path(),
        };
        let files = far.files().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", &far.line(&files)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"one\ntwo, and then its commands").unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let (text, path) = said.trim().rsplit_once(' ').unwrap();
        assert_eq!(text, "one\ntwo, and then its commands");
        assert!(
            !path.starts_with(&folder.path().display().to_string()) && !Path::new(path).exists(),
            "{path}"
        );
    }

    #[test]
    fn a_namespace_that_is_not_there_is_named_with_what_makes_it() {
        let error = facts(&Server::Namespace("weir-nowhere".to_owned())).unwrap_err();
        assert!(
            error.contains("netns:weir-nowhere") && error.contains("`ip netns add weir-nowhere`"),
            "{error}"
        );
    }
}
