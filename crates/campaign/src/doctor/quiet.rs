//! A machine quieted for a run, and everything put back.
//!
//! Each setting is one file of the kernel's, written with what measurements want. What stood there before
//! is kept in a file *before* anything is changed, so that a crash loses nothing; putting back is writing
//! it again, last change first, and leaves alone what somebody else has changed since.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where it is kept what was changed, below the root. Settings do not outlive a boot, and neither does this.
const STATE: &str = "run/weir/quieted.json";

/// One file of the kernel's to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// What it is, in words.
    pub name: String,
    /// The file, below the root.
    pub file: PathBuf,
    /// What stood there.
    pub before: String,
    /// What measurements want.
    pub after: String,
}

/// What came of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// It has the value now.
    Set,
    /// It had the value already, or another that somebody else gave it since: left alone.
    Left(String),
    /// It could not be written.
    Failed(String),
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum QuietError {
    /// Not root.
    #[error(
        "to change this machine's settings takes root: sudo weir doctor {option}. It would change:{would}"
    )]
    Rights {
        /// `--apply` or `--undo`.
        option: &'static str,
        /// What would be changed, a line each.
        would: String,
    },
    /// What was changed cannot be kept or read.
    #[error("{}: {why}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// Nothing was changed before.
    #[error("nothing to undo: {} is not there, so no `weir doctor --apply` changed anything since boot", path.display())]
    Nothing {
        /// The file.
        path: PathBuf,
    },
}

/// The settings of a machine, this or (for tests) another.
#[derive(Clone, Debug)]
pub struct Quiet {
    root: PathBuf,
}

impl Quiet {
    /// This machine.
    pub fn here() -> Self {
        Self { root: PathBuf::from("/") }
    }

    /// A machine whose files lie below a folder.
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Where it is kept what was changed.
    pub fn state(&self) -> PathBuf {
        self.root.join(STATE)
    }

    /// What this machine has that measurements want otherwise. `huge_pages` is how many (of 2 MiB) there
    /// shall be.
    pub fn wanted(&self, huge_pages: u64) -> Vec<Setting> {
        let mut settings = Vec::new();
        let mut want = |name: String, file: &str, after: &str| {
            let before = self.read(Path::new(file));
            if let Some(before) = before.filter(|before| before != after) {
                settings.push(Setting { name, file: file.into(), before, after: after.to_owned() });
            }
        };
        for core in self.cores() {
            let file = format!("sys/devices/system/cpu/{core}/cpufreq/scaling_governor");
            want(format!("frequency governor of {core}"), &file, "performance");
        }
        let turbo = "sys/devices/system/cpu/intel_pstate/no_turbo";
        want("turbo frequencies (off: 1)".to_owned(), turbo, "1");
        want("turbo frequencies".to_owned(), "sys/devices/system/cpu/cpufreq/boost", "0");
        want("NMI watchdog".to_owned(), "proc/sys/kernel/nmi_watchdog", "0");
        want("automatic NUMA balancing".to_owned(), "proc/sys/kernel/numa_balancing", "0");
        let pages = "sys/kernel/mm/transparent_hugepage/enabled";
        want("transparent huge pages".to_owned(), pages, "madvise");
        let reserved =
            self.read(Path::new("proc/sys/vm/nr_hugepages")).and_then(|text| text.parse::<u64>().ok());
        if reserved.is_some_and(|reserved| reserved < huge_pages) {
            let name = "huge pages of 2 MiB".to_owned();
            want(name, "proc/sys/vm/nr_hugepages", &huge_pages.to_string());
        }
        settings
    }

    /// Makes the settings, and keeps what stood there. Those of an earlier time that were not undone stay
    /// kept as they were.
    pub fn apply(&self, settings: &[Setting]) -> Result<Vec<(Setting, Done)>, QuietError> {
        let mut kept = self.kept()?.unwrap_or_default();
        let mut done = Vec::new();
        for setting in settings {
            let known = kept.iter().any(|earlier| earlier.file == setting.file);
            if !known {
                kept.push(setting.clone());
                self.keep(&kept)?;
            }
            let outcome = self.write(setting, &setting.after);
            if !known && matches!(outcome, Done::Failed(_)) {
                kept.pop();
                self.keep(&kept)?;
            }
            done.push((setting.clone(), outcome));
        }
        Ok(done)
    }

    /// Puts back what stood before, the last change first. What could not be put back stays kept.
    pub fn undo(&self) -> Result<Vec<(Setting, Done)>, QuietError> {
        let mut kept = self.kept()?.ok_or_else(|| QuietError::Nothing { path: self.state() })?;
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        while let Some(setting) = kept.pop() {
            let now = self.read(&setting.file);
            let outcome = match now {
                Some(now) if now != setting.after && now != setting.before => {
                    Done::Left(format!("it is {now} by now, which is not of weir doctor"))
                }
                _ => self.write(&setting, &setting.before),
            };
            if matches!(outcome, Done::Failed(_)) {
                failed.push(setting.clone());
            }
            done.push((setting, outcome));
        }
        failed.reverse();
        if failed.is_empty() {
            fs::remove_file(self.state()).map_err(|error| self.refused(&error))?;
        } else {
            self.keep(&failed)?;
        }
        Ok(done)
    }

    /// What an earlier [`Self::apply`] changed and nobody undid.
    pub fn kept(&self) -> Result<Option<Vec<Setting>>, QuietError> {
        match fs::read_to_string(self.state()) {
            Ok(text) => serde_json::from_str(&text)
                .map(Some)
                .map_err(|error| QuietError::State { path: self.state(), why: error.to_string() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.refused(&error)),
        }
    }

    fn keep(&self, settings: &[Setting]) -> Result<(), QuietError> {
        let path = self.state();
        let text = serde_json::to_string_pretty(settings)
            .map_err(|error| QuietError::State { path: path.clone(), why: error.to_string() })?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        // Whole or not at all: a crash between must not lose what stood before.
        let next = path.with_extension("next");
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&next, text))
            .and_then(|()| fs::rename(&next, &path))
            .map_err(|error| self.refused(&error))
    }

    fn refused(&self, error: &io::Error) -> QuietError {
        QuietError::State { path: self.state(), why: error.to_string() }
    }

    fn cores(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root.join("sys/devices/system/cpu")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut cores: Vec<(u32, String)> =
            names.filter_map(|name| Some((name.strip_prefix("cpu")?.parse().ok()?, name))).collect();
        cores.sort();
        cores.into_iter().map(|(_, name)| name).collect()
    }

    /// A setting's value: of several in a row the one in brackets.
    fn read(&self, file: &Path) -> Option<String> {
        let text = fs::read_to_string(self.root.join(file)).ok()?;
        let chosen =
            text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(chosen, _)| chosen);
        Some(chosen.unwrap_or(text.trim()).to_owned())
    }

    fn write(&self, setting: &Setting, value: &str) -> Done {
        if self.read(&setting.file).as_deref() == Some(value) {
            return Done::Left(format!("it is {value} already"));
        }
        if let Err(error) = fs::write(self.root.join(&setting.file), value) {
            return Done::Failed(error.to_string());
        }
        match self.read(&setting.file) {
            Some(now) if now == value => Done::Set,
            Some(now) => Done::Failed(format!("the kernel took {now} instead")),
            None => Done::Failed("it cannot be read back".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of files.
    fn machine() -> (tempfile::TempDir, Quiet) {
        let root = tempfile::tempdir().unwrap();
        for (file, value) in [
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/cpufreq/boost", "1\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
            ("proc/sys/kernel/nmi_watchdog", "1\n"),
            ("proc/sys/vm/nr_hugepages", "16\n"),
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, value).unwrap();
        }
        let quiet = Quiet::below(root.path());
        (root, quiet)
    }

    fn value(quiet: &Quiet, file: &str) -> String {
        quiet.read(Path::new(file)).unwrap()
    }

    const GOVERNOR: &str = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    const WATCHDOG: &str = "proc/sys/kernel/nmi_watchdog";
    const PAGES: &str = "proc/sys/vm/nr_hugepages";

    #[test]
    fn every_setting_is_named_made_and_put_back() {
        let (_root, quiet) = machine();
        let settings = quiet.wanted(1024);
        let names: Vec<&str> = settings.iter().map(|setting| setting.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "frequency governor of cpu0",
                "turbo frequencies",
                "NMI watchdog",
                "transparent huge pages",
                "huge pages of 2 MiB"
            ]
        );
        let done = quiet.apply(&settings).unwrap();
        assert!(done.iter().all(|(_, outcome)| *outcome == Done::Set), "{done:?}");
        assert_eq!((value(&quiet, GOVERNOR), value(&quiet, PAGES)), ("performance".into(), "1024".into()));
        assert!(quiet.wanted(1024).is_empty() && quiet.state().exists());
        let undone = quiet.undo().unwrap();
        assert!(undone.iter().all(|(_, outcome)| *outcome == Done::Set), "{undone:?}");
        assert_eq!((value(&quiet, GOVERNOR), value(&quiet, PAGES)), ("powersave".into(), "16".into()));
        assert_eq!(quiet.wanted(1024), settings, "the machine is as it was");
        assert!(matches!(quiet.undo(), Err(QuietError::Nothing { .. })), "and there is nothing left to undo");
    }

    #[test]
    fn a_second_time_keeps_what_stood_before_the_first() {
        let (_root, quiet) = machine();
        quiet.apply(&quiet.wanted(512)).unwrap();
        quiet.apply(&quiet.wanted(1024)).unwrap();
        assert_eq!(value(&quiet, PAGES), "1024");
        // The kept value of the first time is what undo knows; what it finds is of the second time.
        let kept = quiet.kept().unwrap().unwrap();
        assert_eq!(kept.iter().filter(|setting| setting.file.ends_with("nr_hugepages")).count(), 1);
        assert_eq!(kept.last().unwrap().before, "16");
    }

    #[test]
    fn what_somebody_else_changed_since_is_left_alone_and_told() {
        let (root, quiet) = machine();
        fs::write(root.path().join(WATCHDOG), "1\n").unwrap();
        quiet.apply(&quiet.wanted(1024)).unwrap();
        fs::write(root.path().join(PAGES), "77\n").unwrap();
        let undone = quiet.undo().unwrap();
        let (_, outcome) = undone.iter().find(|(setting, _)| setting.file == Path::new(PAGES)).unwrap();
        assert!(matches!(outcome, Done::Left(why) if why.contains("77")), "{outcome:?}");
        assert_eq!((value(&quiet, PAGES), value(&quiet, WATCHDOG)), ("77".into(), "1".into()));
    }

    #[test]
    fn what_cannot_be_written_is_told_and_what_was_changed_before_it_is_kept() {
        let (root, quiet) = machine();
        let mut settings = quiet.wanted(1024);
        settings[2].file = PathBuf::from("proc/sys/kernel"); // a folder
        let done = quiet.apply(&settings).unwrap();
        assert!(matches!(done[2].1, Done::Failed(_)), "{done:?}");
        assert_eq!(quiet.kept().unwrap().unwrap().len(), settings.len() - 1);
        fs::write(root.path().join("run/weir/quieted.json"), "not json").unwrap();
        let error = quiet.undo().unwrap_err().to_string();
        assert!(error.contains("quieted.json"), "{error}");
    }
}
