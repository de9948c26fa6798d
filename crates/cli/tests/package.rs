//! What `./x package` packs: the list of its files, its units of systemd, and their settings. Whether it installs, runs
//! and leaves nothing behind is tried by `./x package --test`, which takes minutes.

use crate::lab::{told, weir};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use weir_testkit::Need;

/// The units, and what `systemd-analyze security` may say of each at most, times ten: 0 is best, 100 worst.
const UNITS: [(&str, u32); 2] = [("weir-switch", 22), ("weir-serve", 12)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn unit(name: &str) -> String {
    read(&format!("packaging/debian/weir.{name}.service"))
}

/// What a unit says of one key, once for each line of it.
fn said<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

/// What is packed, and the folder it is installed into.
fn packed() -> Vec<(String, String)> {
    let list = read("packaging/debian/weir.install");
    let pair = |line: &str| {
        let (from, into) =
            line.split_once(' ').unwrap_or_else(|| panic!("no folder to install into: {line}"));
        (from.to_owned(), into.to_owned())
    };
    list.lines().map(pair).collect()
}

/// Paths of installed files and folders.
fn installed() -> BTreeSet<String> {
    let name = |from: &str| Path::new(from).file_name().unwrap().to_str().unwrap().to_owned();
    packed().iter().map(|(from, into)| format!("/{into}/{}", name(from))).collect()
}

#[test]
fn what_the_package_lists_is_there_once_and_no_document_is_forgotten() {
    let packed = packed();
    for (from, _) in packed.iter().filter(|(from, _)| !from.starts_with("generated/")) {
        assert!(root().join(from).exists(), "packaging/debian/weir.install: {from} is not there");
    }
    assert_eq!(installed().len(), packed.len(), "something is installed twice: {packed:?}");
    let lists: BTreeSet<&str> = packed.iter().map(|(from, _)| from.as_str()).collect();
    for entry in fs::read_dir(root()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_document = Path::new(&name).extension().is_some_and(|extension| extension == "md");
        assert!(
            !is_document || lists.contains(name.as_str()),
            "packaging/debian/weir.install: without {name}"
        );
    }
    for folder in ["docs", "schemas", "plans"] {
        assert!(lists.contains(folder), "packaging/debian/weir.install: without {folder}");
    }
    // What scripts/package.py makes is what the list takes from there.
    let script = read("scripts/package.py");
    for (from, _) in packed.iter().filter(|(from, _)| from.starts_with("generated/")) {
        let name = Path::new(from).file_name().unwrap().to_str().unwrap();
        assert!(script.contains(&format!("\"{name}\"")), "scripts/package.py does not make {from}");
    }
}

#[test]
fn units_of_the_package_name_files_that_it_installs() {
    let installed = installed();
    for (name, _) in UNITS {
        let unit = unit(name);
        let commands = [said(&unit, "ExecStart"), said(&unit, "ExecReload")].concat();
        assert!(!commands.is_empty(), "{name} starts nothing");
        for command in commands {
            let named =
                command.split(' ').filter(|word| word.starts_with("/usr/") || word.starts_with("/etc/"));
            for path in named {
                assert!(installed.contains(path), "{name}: {path} is not of the package");
            }
        }
        for file in said(&unit, "EnvironmentFile") {
            assert!(installed.contains(file.trim_start_matches('-')), "{name}: {file} is not of the package");
        }
        let user = said(&unit, "User");
        let made = read("packaging/debian/weir.sysusers");
        assert!(made.starts_with(&format!("u {} ", user.concat())), "{name}: who is {user:?}? {made}");
        assert!(said(&unit, "Documentation").concat().contains("/doc/weir/docs/install.md"), "{name}");
        assert!(root().join("docs/install.md").exists());
    }
}

#[test]
fn settings_of_the_page_are_those_that_its_unit_reads() {
    let unit = unit("weir-serve");
    let command = said(&unit, "ExecStart").concat();
    let variables: BTreeSet<String> = command
        .split(' ')
        .filter(|word| word.starts_with('$'))
        .map(|word| word.trim_matches(['$', '{', '}']).to_owned())
        .collect();
    assert_eq!(variables.len(), 3, "{command}");
    let settings = read("packaging/serve.conf");
    let set: BTreeSet<String> = settings
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(key, _)| !key.starts_with('#'))
        .map(|(key, _)| key.to_owned())
        .collect();
    assert_eq!(set, variables);
    // And those that the file has are the unit's own, for when the file is gone.
    for line in settings.lines().filter(|line| line.contains('=') && !line.starts_with('#')) {
        assert!(
            said(&unit, "Environment").concat().contains(line),
            "{line} is not what the unit says without the file"
        );
    }
    // The program has the options that the unit gives it.
    let help = weir().args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for option in command.split(' ').filter(|word| word.starts_with("--")) {
        assert!(help.contains(option), "`weir serve` has no {option}");
    }
}

/// A switch, ended when a test fails.
struct Switch(Child);

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_switch_of_the_package_starts_as_it_is_installed_and_is_reloaded_by_its_unit() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = folder.path().display().to_string();
    let settings = read("packaging/switch.toml").replace("/run/weir", &runtime);
    let file = folder.path().join("switch.toml");
    fs::write(&file, settings).unwrap();
    let unit = unit("weir-switch");
    let words = |key: &str| {
        let line = said(&unit, key).concat();
        let line = line.strip_prefix("/usr/bin/weir ").unwrap().to_owned();
        let line =
            line.replace("/etc/weir/switch.toml", file.to_str().unwrap()).replace("/run/weir", &runtime);
        line.split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let mut child =
        weir().args(words("ExecStart")).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut headline = String::new();
    output.read_line(&mut headline).unwrap();
    let mut switch = Switch(child);
    assert!(headline.contains("a switch without ports"), "{headline:?}");
    assert!(headline.contains(&format!("{runtime}/of.sock")), "{headline:?}");
    let reloaded = weir().args(words("ExecReload")).output().unwrap();
    assert!(reloaded.status.success(), "{}", told(&reloaded));
    assert_eq!(switch.0.try_wait().unwrap(), None, "a reload ended it");
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units_and_their_sandboxes_are_tight() {
    if !weir_testkit::needs!(Need::Program("systemd-analyze", "systemd")) {
        return;
    }
    for (name, most) in UNITS {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(format!("{name}.service"));
        // The program that is installed may be another, or none.
        fs::write(&file, unit(name).replace("/usr/bin/weir", env!("CARGO_BIN_EXE_weir"))).unwrap();
        let verified =
            Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output().unwrap();
        assert!(verified.status.success(), "{}", told(&verified));
        let named = String::from_utf8_lossy(&verified.stderr).into_owned();
        assert!(!named.contains(name), "{named}");
        let scored = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--no-pager", &format!("--threshold={most}")])
            .arg(&file)
            .output()
            .unwrap();
        assert!(scored.status.success(), "{name} is more exposed than {most}: {}", told(&scored));
    }
}
