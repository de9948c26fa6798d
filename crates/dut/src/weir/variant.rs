//! Variants of the switch: what stands behind `:` in a device's name, settings joined by `+`.
//!
//! | setting | means |
//! |---|---|
//! | `nocoalesce` | stage coalescing off |
//! | `adaptive`, `adaptive=TIME` | workers give an idle core back; a packet may wait for so long |
//! | `tcam=N` | a table of N entries in front of each queue names the megaflow, which stands for a NIC's |
//! | `exact=off`, `fast-path=off` | a cache that knows nothing |
//! | `misses=SHARE` | so many packets go to the slow path, whatever the caches know (SoftFlow, figure 11) |
//! | `coalesced=SHARE` | so many of the packets that a service lets coalesce do |
//! | `hints=ip-id`, `offloaded=SHARE` | a packet's IPv4 identification names its megaflow, of so many packets (SoftFlow, figure 9) |
//! | `reads=N` | each service of pipeline D reads N random words of a block of 1 GiB (SoftFlow, figure 10) |
//! | `workers=N` | N forwarding threads, each on a core of its own and with a queue of its own a port; `fed` only, as the tester needs a core elsewhere |
//! | `room=N` | packet buffers with room for N bytes of a frame, so that there can be more of them |
//! | `idle=N` | N more routes that no packet takes, in the function's table of routes |
//! | `changes=N` | a controller adds, modifies and deletes routes that no packet takes, N changes a second, over OpenFlow |
//! | `at=PATH` | another build of the program: what a change is compared with |
//! | `copied` | each start runs a copy of the program made for it: where the pages of its file lie in memory moves figures by some per cent, and is drawn anew so |

use crate::StartRequest;
use crate::openflow::entries::MOST_IDLE;
use crate::openflow::feed::MOST_CHANGES;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

/// Most reads a packet, as the service has it.
const MOST_READS: u32 = 4096;

/// Most workers that can be asked for.
const MOST_WORKERS: usize = 64;

/// The settings of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    /// What the program is told besides.
    pub(super) options: Vec<String>,
    /// Random reads of each service of pipeline D; nothing for services that do nothing.
    pub(super) reads: Option<u32>,
    /// Forwarding threads.
    pub(super) workers: usize,
    /// Routes more, that no packet takes.
    pub(super) idle: u32,
    /// Changes of such routes a second.
    pub(super) changes: u32,
    /// The program; nothing for the one that is running.
    pub(super) program: Option<PathBuf>,
    /// Whether a copy of it runs, made for this start.
    pub(super) copied: bool,
}

impl Variant {
    const fn usual() -> Self {
        Self {
            options: Vec::new(),
            reads: None,
            workers: 1,
            idle: 0,
            changes: 0,
            program: None,
            copied: false,
        }
    }

    /// Reads the text behind `:`, which is empty for the usual variant.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut variant = Self::usual();
        let (mut seen, mut experiment) = (Vec::new(), Vec::new());
        for setting in text.split('+').filter(|_| !text.is_empty()) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            if seen.contains(&name) {
                return Err(format!("`{text}` names {name} twice"));
            }
            seen.push(name);
            let mut say =
                |words: &[&str]| variant.options.extend(words.iter().map(|word| (*word).to_owned()));
            match (name, value) {
                ("nocoalesce", "") => say(&["--no-coalescing"]),
                ("adaptive", "") => say(&["--poll", "adaptive"]),
                ("adaptive", time) => say(&["--poll", &format!("adaptive:{time}")]),
                ("tcam", entries) if !entries.is_empty() => say(&["--tcam", entries]),
                ("room", bytes) if !bytes.is_empty() => say(&["--room", bytes]),
                ("reads", text) => variant.reads = Some(number(setting, text, MOST_READS)?),
                ("workers", text) => variant.workers = number(setting, text, MOST_WORKERS)?,
                ("idle", text) => variant.idle = number(setting, text, MOST_IDLE)?,
                ("changes", text) => variant.changes = number(setting, text, MOST_CHANGES)?,
                ("exact" | "fast-path", "off") | ("hints", "ip-id") => experiment.push(setting),
                ("misses" | "coalesced" | "offloaded", text) => {
                    share(setting, text)?;
                    experiment.push(setting);
                }
                ("copied", "") => variant.copied = true,
                ("at", path) if !path.is_empty() => variant.program = Some(path.into()),
                _ => {
                    return Err(format!(
                        "weir has no variant `{setting}`; it has nocoalesce, adaptive, adaptive=TIME, tcam=N, \
                         reads=N, workers=N, room=N, idle=N, changes=N, exact=off, fast-path=off, misses=SHARE, coalesced=SHARE, \
                         hints=ip-id, offloaded=SHARE, copied and at=PATH, joined by `+`"
                    ));
                }
            }
        }
        if !experiment.is_empty() {
            variant.options.extend(["--experiment".to_owned(), experiment.join(",")]);
        }
        Ok(variant)
    }

    /// The workers' cores: the forwarding core first, then those that this process may use besides. Where
    /// a tester sends, those that share out the queues of the ports, one alone unless there are several.
    pub(super) fn cores(&self, request: &StartRequest<'_>) -> Result<Vec<usize>, String> {
        let is_fed = request.buffers > 0;
        if self.workers == 1 || !is_fed {
            return Ok(request.workers());
        }
        let own = sched_getaffinity(Pid::from_raw(0)).map_err(|error| format!("its cores: {error}"))?;
        let others =
            (0..CpuSet::count()).rev().filter(|core| own.is_set(*core) == Ok(true) && *core != request.core);
        let cores: Vec<usize> = std::iter::once(request.core).chain(others).take(self.workers).collect();
        if cores.len() < self.workers {
            return Err(format!(
                "{} workers need as many cores, and this process may use {}",
                self.workers,
                cores.len()
            ));
        }
        Ok(cores)
    }
}

/// Fails where a setting's share is none.
fn share(setting: &str, text: &str) -> Result<(), String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    let fits = number.is_ok_and(|number| (0.0..=1.0).contains(&number));
    fits.then_some(()).ok_or_else(|| format!("`{setting}`: its share is 0% to 100%"))
}

/// The number of a setting, from 1.
fn number<N>(setting: &str, text: &str, most: N) -> Result<N, String>
where
    N: Copy + FromStr + PartialOrd + From<u8> + Display,
{
    let wrong = || format!("`{setting}`: its number is 1 to {most}");
    text.parse().ok().filter(|number| N::from(1) <= *number && *number <= most).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eal::tests::request;
    use crate::folder::Folder;
    use weir_trial::Nf;

    #[test]
    fn settings_are_joined_by_a_plus() {
        let usual = Variant::usual();
        assert_eq!(Variant::parse(""), Ok(usual.clone()));
        let both =
            Variant { options: vec!["--no-coalescing".to_owned()], program: Some("/b/weir".into()), ..usual };
        assert_eq!(Variant::parse("nocoalesce+at=/b/weir"), Ok(both.clone()));
        let copied = Variant { copied: true, ..both };
        assert_eq!(Variant::parse("nocoalesce+copied+at=/b/weir"), Ok(copied));
        for (text, says) in [
            ("fast", "offloaded=SHARE, copied and at=PATH"),
            ("misses=101%", "0% to 100%"),
            ("exact=on", "exact=off"),
            ("at=", "at=PATH"),
            ("nocoalesce+nocoalesce", "twice"),
            ("reads=0", "1 to 4096"),
            ("workers=0", "1 to 64"),
            ("workers=many", "workers=many"),
            ("idle=0", "1 to 917504"),
            ("changes=", "`changes=`: its number is 1 to 100000"),
        ] {
            assert!(Variant::parse(text).unwrap_err().contains(says), "{text}");
        }
    }

    #[test]
    fn a_device_that_feeds_itself_has_a_core_a_worker() {
        let folder = Folder::new().unwrap();
        let ports = ["net_null0".to_owned(), "net_null1".to_owned()];
        let mut request = request(Nf::L2Fwd, &ports, &folder);
        let variant = |workers| Variant { workers, ..Variant::usual() };
        assert_eq!(variant(1).cores(&request), Ok(vec![request.core]));
        assert_eq!(variant(2).cores(&request), Ok(vec![request.core]));
        request.buffers = 10;
        assert!(variant(MOST_WORKERS * 100).cores(&request).unwrap_err().contains("may use"));
    }
}
