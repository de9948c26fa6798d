//! The clock frequency of a DUT's cores, set by cpufreq and put back.
//!
//! Least and greatest frequency of each core become the one that is asked for. A small process of the shell keeps
//! what stood there, waits for the end of our pipe to it, and writes that again: our end is its end, be it by SIGKILL.
//! So there is one way to put back, and it is taken every time. Threads: none.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

const CPUS: &str = "sys/devices/system/cpu";

/// Waits for the end of its input, then writes each value into its file.
const KEEPER: &str = "trap '' HUP INT TERM; cat >/dev/null; while [ $# -gt 1 ]; do printf %s \"$2\" >\"$1\"; shift 2; done 2>/dev/null";

/// One file of the kernel's, and what stands or shall stand there.
type Written = (PathBuf, String);

/// Cores at a clock frequency; dropping puts back what they had.
#[derive(Debug)]
pub(crate) struct Clock {
    root: PathBuf,
    cores: BTreeSet<usize>,
    megahertz: u32,
    keeper: Option<Child>,
    before: Vec<Written>,
}

/// Those that are set now: two devices measured in turns share one.
static SET: Mutex<Vec<Weak<Clock>>> = Mutex::new(Vec::new());

impl Clock {
    /// Sets cores of a machine, whose files lie below `root`, to a frequency.
    ///
    /// # Errors
    ///
    /// What keeps it from being set; everything is as it was then.
    pub(crate) fn set(root: &Path, cores: &[usize], megahertz: u32) -> Result<Arc<Self>, String> {
        let mut set = SET.lock().unwrap_or_else(PoisonError::into_inner);
        set.retain(|one| one.strong_count() > 0);
        let cores: BTreeSet<usize> = cores.iter().copied().collect();
        let same = |one: &Arc<Self>| one.root == root && one.cores == cores && one.megahertz == megahertz;
        if let Some(same) = set.iter().filter_map(Weak::upgrade).find(same) {
            return Ok(same);
        }
        let clock = Arc::new(Self::anew(root, cores, megahertz)?);
        set.push(Arc::downgrade(&clock));
        Ok(clock)
    }

    fn anew(root: &Path, cores: BTreeSet<usize>, megahertz: u32) -> Result<Self, String> {
        if let Some(why) = cores.iter().find_map(|core| lacks(root, *core, megahertz)) {
            return Err(why);
        }
        let mut before = Vec::new();
        for core in &cores {
            for file in limits(root, *core) {
                let value = fs::read_to_string(&file).map_err(|error| told(&file, &error))?;
                before.push((file, value.trim().to_owned()));
            }
        }
        let keeper = keep(&before).map_err(|error| format!("sh: {error}"))?;
        let clock = Self { root: root.to_owned(), cores, megahertz, keeper: Some(keeper), before };
        let wanted = (megahertz * 1_000).to_string();
        for (file, _) in &clock.before {
            // The kernel may refuse what lies beyond the other limit, which is written next.
            let _ = fs::write(file, &wanted);
        }
        for (file, _) in &clock.before {
            let now = fs::read_to_string(file).map_err(|error| told(file, &error))?;
            if now.trim() != wanted {
                return Err(format!("{}: it is {} kHz, and was to be {wanted}", file.display(), now.trim()));
            }
        }
        Ok(clock)
    }

    /// What was set, and what shares the clock: for the result.
    pub(crate) fn says(&self) -> String {
        let cores: Vec<String> = self.cores.iter().map(ToString::to_string).collect();
        let mut says = format!("{} MHz by cpufreq, on cores {}", self.megahertz, cores.join(", "));
        let beside: BTreeSet<usize> = self
            .cores
            .iter()
            .flat_map(|core| affected(&self.root, *core))
            .filter(|core| !self.cores.contains(core))
            .collect();
        if !beside.is_empty() {
            let beside: Vec<String> = beside.iter().map(ToString::to_string).collect();
            says.push_str(&format!("; cores {} share their clock, and are as slow", beside.join(", ")));
        }
        says
    }

    fn is_back(&self) -> bool {
        self.before.iter().all(|(file, value)| fs::read_to_string(file).is_ok_and(|now| now.trim() == value))
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            let _ = keeper.wait(); // what it did is looked at
        }
        if !self.is_back() {
            for (file, value) in &self.before {
                let _ = fs::write(file, value);
            }
        }
    }
}

/// Starts who puts everything back.
fn keep(before: &[Written]) -> io::Result<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", KEEPER, "weir-clock"]);
    before.iter().for_each(|(file, value)| {
        command.arg(file).arg(value);
    });
    // In a group of its own: Ctrl-C is for us.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn()
}

fn told(file: &Path, error: &io::Error) -> String {
    format!("{}: {error}", file.display())
}

/// The files to write, in this order: the greatest, the least, and the greatest again, as no value may pass the other.
fn limits(root: &Path, core: usize) -> [PathBuf; 3] {
    ["scaling_max_freq", "scaling_min_freq", "scaling_max_freq"].map(|file| folder(root, core).join(file))
}

fn folder(root: &Path, core: usize) -> PathBuf {
    root.join(format!("{CPUS}/cpu{core}/cpufreq"))
}

fn kilohertz(root: &Path, core: usize, file: &str) -> Option<u32> {
    fs::read_to_string(folder(root, core).join(file)).ok()?.trim().parse().ok()
}

/// Cores whose clock is the same as a core's.
fn affected(root: &Path, core: usize) -> Vec<usize> {
    let text = fs::read_to_string(folder(root, core).join("affected_cpus")).unwrap_or_default();
    text.split_whitespace().filter_map(|core| core.parse().ok()).collect()
}

/// Whether a machine has cpufreq.
pub(crate) fn is_there(root: &Path) -> bool {
    kilohertz(root, 0, "cpuinfo_max_freq").is_some()
}

/// Why a core of a machine cannot be set to a frequency; nothing where it can.
pub(crate) fn lacks(root: &Path, core: usize, megahertz: u32) -> Option<String> {
    let range = kilohertz(root, core, "cpuinfo_min_freq").zip(kilohertz(root, core, "cpuinfo_max_freq"));
    let asked = weir_trial::Frequency::Clock(megahertz);
    let Some((least, most)) = range else {
        return Some(format!(
            "a clock of {asked} needs cpufreq, and core {core} has none here; a share of the core, such as \"50%\", holds the device back instead, and the result says so"
        ));
    };
    if !(least..=most).contains(&(megahertz * 1_000)) {
        return Some(format!(
            "core {core} runs at {} to {} MHz, not at {asked}",
            least / 1_000,
            most / 1_000
        ));
    }
    let [file, ..] = limits(root, core);
    let refused = fs::OpenOptions::new().write(true).open(&file).err()?;
    Some(format!("a clock of {asked} is set in {}, which takes root: {refused}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// A machine of files with two cores of one clock.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for core in 0..2 {
            let folder = folder(root.path(), core);
            fs::create_dir_all(&folder).unwrap();
            for (file, value) in [
                ("cpuinfo_min_freq", "800000\n"),
                ("cpuinfo_max_freq", "3500000\n"),
                ("scaling_min_freq", "800000\n"),
                ("scaling_max_freq", "3500000\n"),
                ("affected_cpus", "0 1\n"),
            ] {
                fs::write(folder.join(file), value).unwrap();
            }
        }
        root
    }

    fn now(root: &Path, core: usize) -> [u32; 2] {
        ["scaling_min_freq", "scaling_max_freq"].map(|file| kilohertz(root, core, file).unwrap_or(0))
    }

    const BEFORE: [u32; 2] = [800_000, 3_500_000];

    #[test]
    fn a_clock_is_set_and_put_back_when_the_last_who_has_it_goes() {
        let root = machine();
        let first = Clock::set(root.path(), &[1], 1_500).unwrap();
        assert_eq!((now(root.path(), 0), now(root.path(), 1)), (BEFORE, [1_500_000; 2]));
        assert_eq!(
            first.says(),
            "1500 MHz by cpufreq, on cores 1; cores 0 share their clock, and are as slow"
        );
        let second = Clock::set(root.path(), &[1], 1_500).unwrap();
        drop(first);
        assert_eq!(now(root.path(), 1), [1_500_000; 2]);
        drop(second);
        assert_eq!(now(root.path(), 1), BEFORE);
        drop(Clock::set(root.path(), &[0, 1], 3_500).unwrap());
        assert_eq!(now(root.path(), 1), BEFORE);
    }

    /// The variable that makes a second process of these tests the one that is killed.
    const VICTIM: &str = "WEIR_TEST_CLOCK_ROOT";

    #[test]
    fn a_clock_is_put_back_when_the_lab_is_killed() {
        if let Some(root) = std::env::var_os(VICTIM) {
            let _clock = Clock::set(Path::new(&root), &[1], 2_000).unwrap();
            std::thread::sleep(Duration::from_secs(60));
            return;
        }
        let root = machine();
        let wait = |wanted: [u32; 2]| {
            let begin = Instant::now();
            while now(root.path(), 1) != wanted {
                assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", now(root.path(), 1));
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "clock::tests::a_clock_is_put_back_when_the_lab_is_killed"]);
        let mut victim = command.env(VICTIM, root.path()).stdout(Stdio::null()).spawn().unwrap();
        wait([2_000_000; 2]);
        victim.kill().unwrap();
        victim.wait().unwrap();
        wait(BEFORE);
    }

    #[test]
    fn what_a_machine_lacks_is_named_and_nothing_is_changed() {
        let root = machine();
        let says = |core, megahertz| lacks(root.path(), core, megahertz).unwrap();
        assert!(
            says(7, 1_500).contains("1.5GHz needs cpufreq, and core 7 has none here"),
            "{}",
            says(7, 1_500)
        );
        assert!(says(1, 4_000).contains("core 1 runs at 800 to 3500 MHz, not at 4GHz"));
        assert_eq!(lacks(root.path(), 1, 800), None);
        // A core of several that cannot: none is changed.
        assert!(Clock::set(root.path(), &[1, 7], 1_500).is_err());
        assert_eq!(now(root.path(), 1), BEFORE);
        // What the kernel does not take is told, and put back.
        let file = folder(root.path(), 1).join("scaling_min_freq");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(Clock::set(root.path(), &[1], 1_500).unwrap_err().contains("scaling_min_freq"));
        assert_eq!(now(root.path(), 1)[1], BEFORE[1]);
    }
}
